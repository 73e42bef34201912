#!/usr/bin/env bash
# Prints a Python that has PyTorch, which it installs under target/ when it is missing: the build for processors alone
# where that can be had (200 MB), else the usual one (several GB).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=target/torch-venv
wanted=bench/peers/requirements-torch.txt
if ! cmp -s "$wanted" "$venv/requirements.txt"; then
    "${PYTHON:-python3}" -m venv "$venv" >&2
    pip() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted" "$@" >&2; }
    pip --retries 1 --index-url https://download.pytorch.org/whl/cpu || pip
    cp "$wanted" "$venv/requirements.txt"
fi
echo "$venv/bin/python"
