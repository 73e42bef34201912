"""The package as maturin builds it, with the command `motes` in its wheel.

The extension does not hold the command line. The binary goes into the wheel beside it, and installers put it where scripts go.
"""

import os
import pathlib
import shutil
import subprocess

import maturin
from maturin import *  # noqa: F403: whatever else is asked of a builder

ROOT = pathlib.Path(__file__).resolve().parents[3]
#: Where maturin looks for what is installed beside the package.
DATA = ROOT / "motes._core.data"
#: Options of maturin that cargo has too, and whether a value follows them.
SHARED = {"--profile": True, "--target": True, "--locked": False, "--offline": False, "--frozen": False}


def build_wheel(directory, settings=None, metadata=None):
    """Builds the binary first; what was unpacked from a source distribution does not hold it, and gives the package alone."""
    if not (ROOT / "crates/motes-cli/Cargo.toml").is_file():
        return maturin.build_wheel(directory, settings, metadata)
    scripts = DATA / "scripts"
    shutil.rmtree(DATA, ignore_errors=True)
    scripts.mkdir(parents=True)
    try:
        shutil.copy2(_binary(), scripts)
        return maturin.build_wheel(directory, settings, metadata)
    finally:
        shutil.rmtree(DATA)


def _binary():
    words = os.environ.get("MATURIN_PEP517_ARGS", "").split()
    given = {word: value if SHARED[word] else None for word, value in zip(words, [*words[1:], None]) if word in SHARED}
    profile = given.setdefault("--profile", "release")
    command = ["cargo", "build"]
    if "--zig" in words and "--target" not in given:
        # For the same old C library that maturin asks zig for.
        command = ["cargo", "zigbuild"]
        host = subprocess.run(["rustc", "--print", "host-tuple"], check=True, capture_output=True, text=True).stdout.strip()
        given["--target"] = f"{host}.2.17"
    flags = [word for option in given.items() for word in option if word is not None]
    subprocess.run([*command, "--quiet", "--package", "motes-cli", *flags], cwd=ROOT, check=True)
    built = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / (given.get("--target") or "").removesuffix(".2.17")
    return built / ("debug" if profile == "dev" else profile) / ("motes.exe" if os.name == "nt" else "motes")
