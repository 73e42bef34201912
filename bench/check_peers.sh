#!/usr/bin/env bash
# The generator network and the encoder against PyTorch: outputs, gradients, running statistics, three optimiser steps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="$PWD/$(bash bench/torch.sh)"
folder="$(mktemp -d)"
trap 'rm -r "$folder"' EXIT
(cd bench/peers && "$python" check_generator.py "$folder")
MOTES_PEERS="$folder" cargo test --quiet -p motes-models --test all generator_peer -- --ignored --nocapture --test-threads 1
