#!/usr/bin/env bash
# Motes beside its peers, back to back. `bench/run.sh [toy|logistic|bnn|generator|start|auto|normals|limits]...`; all but limits by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=bench/.venv
wanted=bench/peers/requirements.txt
if ! cmp -s "$wanted" "$venv/requirements.txt"; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$venv/requirements.txt"
fi
# Cargo's chatter goes to stderr, so that stdout is Markdown.
cargo build --release --quiet -p motes-cli
exec "$venv/bin/python" bench/compare.py --motes "${CARGO_TARGET_DIR:-target}/release/motes" "$@"
