//! On macOS a module that an interpreter loads must be linked with its symbols left open; maturin does that by itself, cargo does not.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
