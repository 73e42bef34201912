//! The `motes` binary: all of it is in the library, which the Python package shares.

fn main() -> std::process::ExitCode {
    motes_cli::main()
}
