"""The examples in docstrings and on pages run, and the oldest Python that is promised can read the package."""

import ast
import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

import motes

MODULES = ["motes", *(f"motes.{m.name}" for m in pkgutil.iter_modules(motes.__path__) if m.name != "_core")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    needs = {"motes.sklearn": "sklearn", "motes.torch": "torch", "motes._decoder_network": "torch"}
    needs.update({"motes.jax": "jax", "motes._decoder_jax": "jax"})
    if name in needs:
        pytest.importorskip(needs[name])
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder().find(module):
        text = "".join(e.source for e in test.examples)
        needed = [m for m in ("jax", "torch", "sklearn") if re.search(rf"^(?:import|from) .*\b{m}\b", text, re.M)]
        if all(importlib.util.find_spec(m) for m in needed):
            runner.run(test)
    assert runner.failures == 0


def test_python_3_9_can_read_the_package():
    assert 'requires-python = ">=3.9"' in (ROOT / "pyproject.toml").read_text()
    assert "abi3-py39" in (ROOT / "Cargo.toml").read_text()
    files = sorted(Path(motes.__path__[0]).glob("*.py*"))
    assert len(files) > 10
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file), feature_version=(3, 9))
        # `X | None` is read by 3.9 as long as it is never evaluated.
        later = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body)
        unions = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.BitOr)]
        assert later or not unions, f"{file.name} needs `from __future__ import annotations`"


def test_the_package_page_holds_what_it_says(tmp_path, capsys):
    """Its code runs, and it has no links that only this repository could follow."""
    pytest.importorskip("jax")
    page = (ROOT / "crates" / "motes-py" / "README.md").read_text(encoding="utf-8")
    assert 'readme = "crates/motes-py/README.md"' in (ROOT / "pyproject.toml").read_text()
    assert not re.search(r"\]\((?!https://)", page)
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["fit"].ok


def test_the_extras_are_those_that_are_promised():
    toml = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = toml["optional-dependencies"]
    assert set(extras) == {"jax", "torch", "sklearn", "arviz", "plot", "all"}
    assert extras["all"] == [f"motes[{','.join(name for name in extras if name != 'all')}]"]
    assert toml["dependencies"] == ["numpy>=1.21"]


@pytest.mark.parametrize(("page", "least"), [("README.md", 0), ("docs/tutorial_model.md", 11), ("docs/tutorial_decoder.md", 5)])
def test_pages_run(page, least, tmp_path, monkeypatch):
    """The blocks of Python on a page form one script, and print what the page shows, apart from the numbers."""
    pytest.importorskip("jax")
    if "plot()" in (ROOT / page).read_text(encoding="utf-8"):
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    kinds = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    names, printed, compared = {}, "", 0
    for kind, text in kinds:
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, page, "exec"), names)
            printed = out.getvalue()
        elif kind == "sh":
            printed = ""
        elif kind == "text" and printed:
            shown = iter([form(line) for line in printed.splitlines()])
            for line in filter(None, map(form, text.splitlines())):
                assert line in shown, f"{page} shows {line!r}, but not so:\n{printed}"
                compared += 1
    assert names and compared >= least


def readers_names():
    """What the blocks of the guides leave to their readers: data of their own."""
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(40), 5)
    X = np.column_stack([np.ones(200), rng.normal(size=(200, 2))])
    y = rng.poisson(np.exp(X @ [0.5, 0.3, -0.2] + 0.5 * rng.normal(size=40)[subject]))
    images = rng.integers(0, 256, (16, 32, 32))
    own = {"subject": subject, "X": X, "y": y, "data": rng.random((256, 784))}
    return {"motes": motes, **own, "images": images, "holes": images[:2], "latents": rng.normal(size=(2, 64))}


GUIDES = ["docs/python.md", "docs/decoders.md"]
BLOCKS = [
    (page, i, text)
    for page in GUIDES
    for i, text in enumerate(re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S))
    if "=..." not in text  # a signature, not a program
]


@pytest.mark.parametrize(("page", "i", "text"), BLOCKS, ids=[f"{page}-{i}" for page, i, _ in BLOCKS])
def test_blocks_of_guides_run(page, i, text, tmp_path, monkeypatch):
    """Each block of Python on these pages runs, on readers' data and for one epoch."""
    monkeypatch.chdir(tmp_path)
    names = readers_names()
    if "jnp." in text:
        names["jnp"] = pytest.importorskip("jax.numpy")
    for module in ("arviz", "flax", "torch"):
        if module in text:
            pytest.importorskip(module)
    exec(compile(re.sub(r"epochs=\d+", "epochs=1", text), page, "exec"), names)
    assert isinstance(names["fit"], motes.Fit)


def form(line):
    """A line with its numbers replaced and its blanks made single: numbers have tests of their own, and times differ.

    NumPy pads numbers with blanks, up to the brackets, by how many digits they happen to have.
    """
    return re.sub(r"(?<=\[) | (?=\])", "", " ".join(re.sub(r"-?\d[\d.,]*(e[-+]\d+)?", "#", line).split()))
