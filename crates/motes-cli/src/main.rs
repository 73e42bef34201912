//! The `motes` command line.

fn main() {}
