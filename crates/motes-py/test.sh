#!/usr/bin/env bash
# Builds the Python package into a virtual environment under target/ and tests it there.
#   test.sh        with NumPy and pytest alone
#   test.sh most   with JAX, PyTorch, ArviZ, scikit-learn, matplotlib, Jupyter and mypy too, where they can be had, and every example
#   test.sh full   the same and the wheel; nothing may be missing
set -euo pipefail
cd "$(dirname "$0")/../.."

kind=${1:-quick}
packages=(numpy pytest)
others=(arviz flax ipykernel jax matplotlib mypy nbclient pandas polars pyarrow scikit-learn)
case $kind in
quick) others=() ;;
most) ;;
full) packages+=("${others[@]}" maturin torch) others=() ;;
*) echo "$kind is not a kind of test; give quick, most or full" >&2; exit 2 ;;
esac
command -v python3 >/dev/null || { echo "the tests of the Python package need Python 3.9 or later; install it" >&2; exit 2; }

venv=$PWD/target/python-$kind
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# Installing what is there already takes seconds on a slow network; a list of it takes none.
if [ "$(cat "$venv/installed" 2>/dev/null)" != "${packages[*]} ${others[*]-}" ]; then
    pip() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
    pip "${packages[@]}"
    [ ${#others[@]} = 0 ] || pip "${others[@]}" || echo "the tests that need ${others[*]-} are skipped" >&2
    # Apart, because it may be the one that cannot be had: the usual PyTorch takes 5 GB, of which the libraries for GPUs, which it
    # cannot be imported without, are four. PIP_EXTRA_INDEX_URL may name where the build for processors alone is.
    [ $kind != most ] || pip torch || echo "the tests that need torch are skipped" >&2
    echo "${packages[*]} ${others[*]-}" >"$venv/installed"
fi

# With what `cargo test` compiles: maturin would compile all dependencies again, for features of its own.
cargo build --quiet --workspace --lib --bins --tests
for library in target/debug/lib_core.so target/debug/lib_core.dylib; do
    [ ! -f $library ] || cp $library crates/motes-py/python/motes/_core.abi3.so
done
"$venv/bin/python" -c 'import site, sys; open(site.getsitepackages()[0] + "/motes.pth", "w").write(sys.argv[1])' "$PWD/crates/motes-py/python"
MOTES_BIN=$PWD/target/debug/motes "$venv/bin/python" -m pytest --quiet

# The wheel of `maturin build`, and `pip install .`, each in an environment of its own; quickly, not optimised.
if [ "$kind" = full ]; then
    rm -rf target/wheel && "$venv/bin/maturin" build --quiet --out target/wheel
    for package in target/wheel/motes-*.whl .; do
        python3 -m venv --clear target/python-fresh
        MATURIN_PEP517_ARGS="--profile dev" target/python-fresh/bin/pip install --quiet --disable-pip-version-check "$package"
        target/python-fresh/bin/python examples/python/toy.py >/dev/null
        [ "$package" != . ] || target/python-fresh/bin/motes --version
        echo "installed $package in a fresh environment, and fitted"
    done
fi
