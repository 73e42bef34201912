//! Prints the reference of all commands as Markdown: `cargo run -p motes-cli --example reference`. `make book` does.

fn main() {
    print!("{}", motes_cli::reference());
}
