#!/usr/bin/env bash
# Builds the docs into target/book/book: pages, a reference of the commands from their flags, one of Python from docstrings.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=0.5.4
mdbook=$PWD/target/tools/bin/mdbook
if ! "$mdbook" --version 2>/dev/null | grep -q "v$version"; then
    cargo install mdbook --version $version --locked --quiet --no-default-features --features search --root target/tools
fi

venv=$PWD/target/python-book
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import numpy' 2>/dev/null || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy

# Of the whole workspace, as the tests are built: nothing is compiled twice.
cargo build --quiet --workspace --lib --examples
for library in target/debug/lib_core.so target/debug/lib_core.dylib; do
    [ ! -f $library ] || cp $library crates/motes-py/python/motes/_core.abi3.so
done
mkdir -p target/reference
target/debug/examples/reference >target/reference/commands.md
PYTHONPATH=crates/motes-py/python "$venv/bin/python" docs/tools/python_reference.py >target/reference/python.md
python3 docs/tools/book.py target/reference/commands.md target/reference/python.md
"$mdbook" build target/book
python3 docs/tools/check_links.py target/book/book
echo "target/book/book/index.html"
