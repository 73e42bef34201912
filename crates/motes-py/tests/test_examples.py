"""The examples run, and what they assert holds."""

import importlib.util
import subprocess
import sys

import pytest
from conftest import ROOT

#: Those that `test_everyday.py` holds against the truth run there.
ELSEWHERE = {"logistic_effects", "item_response", "ppca", "stochastic_volatility", "mixture"}
EXAMPLES = [p for p in sorted((ROOT / "examples" / "python").glob("*.py")) if p.stem not in ELSEWHERE]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_example(example, tmp_path):
    for package in ("jax", "torch"):
        if package in example.read_text() and importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_there_are_examples():
    assert len(EXAMPLES) >= 4
