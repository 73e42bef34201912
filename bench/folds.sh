#!/usr/bin/env bash
# Motes beside scikit-learn's cross-validation on real tables: writes the table of docs/tables.md. What it needs of Python is
# installed under target/. `bench/folds.sh DIRECTORY`, which holds the tables that bench/folds.py names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=target/folds-venv
if [ ! -f "$venv/installed" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check pandas scikit-learn statsmodels
    touch "$venv/installed"
fi
cargo build --release --quiet -p motes-cli
exec "$venv/bin/python" bench/folds.py "${CARGO_TARGET_DIR:-target}/release/motes" "$1" --write docs/tables.md
