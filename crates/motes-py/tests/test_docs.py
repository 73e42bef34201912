"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import motes

MODULES = ["motes", *(f"motes.{m.name}" for m in pkgutil.iter_modules(motes.__path__) if m.name != "_core")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    if name == "motes.sklearn":
        pytest.importorskip("sklearn")
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder().find(module):
        text = "".join(e.source for e in test.examples)
        needed = [m for m in ("jax", "torch", "sklearn") if f'importorskip("{m}' in text]
        if all(importlib.util.find_spec(m) for m in needed):
            runner.run(test)
    assert runner.failures == 0
