#!/usr/bin/env bash
# The bits of kernels and of whole runs of every model on AArch64, emulated: they must be those of this processor. It takes no C
# toolchain, but QEMU (of Debian's package qemu-user-static, which is unpacked under target/ if it is not installed, or QEMU=path)
# and Rust's library for the target.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../.."

skip() { echo "skipped: $1"; exit 0; }

target=aarch64-unknown-linux-musl
folder="${CARGO_TARGET_DIR:-$PWD/target}"
rustup target add "$target" 2> /dev/null || skip "Rust's library for $target cannot be had; try: rustup target add $target"
qemu="${QEMU:-qemu-aarch64-static}"
if ! command -v "$qemu" > /dev/null; then
    qemu="$folder/qemu/usr/bin/qemu-aarch64-static"
    if [ ! -x "$qemu" ]; then
        mkdir -p "$folder/qemu"
        (cd "$folder/qemu" && apt-get download qemu-user-static && dpkg -x qemu-user-static_*.deb .) > /dev/null 2>&1 ||
            skip "QEMU cannot be had; install Debian's package qemu-user-static"
    fi
fi

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER="$qemu"
cargo test --quiet --target "$target" -p motes --lib --test golden -- golden simd:: vmath::
cargo build --quiet --target "$target" -p motes-cli
MOTES_OTHER="$qemu $folder/$target/debug/motes" cargo test --quiet -p motes-cli --test all another_processor -- --ignored
