#!/usr/bin/env bash
# Prints a Python that has PyTorch, which it installs under target/ when it is missing. That has several GB:
# PIP_EXTRA_INDEX_URL may name where the build for processors alone is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=target/torch-venv
wanted=bench/peers/requirements-torch.txt
if ! cmp -s "$wanted" "$venv/requirements.txt"; then
    "${PYTHON:-python3}" -m venv "$venv" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted" >&2
    cp "$wanted" "$venv/requirements.txt"
fi
echo "$venv/bin/python"
