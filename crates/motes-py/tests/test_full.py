"""With the packages that are optional: JAX, PyTorch, ArviZ, scikit-learn, matplotlib, Jupyter."""

import ast
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import numpy_logistic, paper

import motes

QUIET = dict(progress=False)


def jax_logistic(X, y, variance=5.0):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def log_density(theta, x):
        t = jnp.asarray(X) @ x
        return jnp.sum(jnp.asarray(y) * t - jnp.logaddexp(0, t)) - jnp.sum((x - theta) ** 2) / (2 * variance)

    return motes.Model.from_jax(log_density, 1, X.shape[1])


def torch_logistic(X, y, variance=5.0):
    torch = pytest.importorskip("torch")
    X, y = torch.from_numpy(X), torch.from_numpy(y).double()

    def log_density(theta, x):
        t = X @ x
        zero = torch.zeros((), dtype=torch.float64)
        return (y * t - torch.logaddexp(zero, t)).sum() - ((x - theta) ** 2).sum() / (2 * variance)

    return motes.Model.from_torch(log_density, 1, X.shape[1])


@pytest.mark.parametrize("settings", [{}, dict(algorithm="pqn"), dict(adjust=True, adjust_after=0)], ids=str)
@pytest.mark.parametrize("make", [jax_logistic, torch_logistic])
def test_derived_models_equal_the_built_in_one(make, settings, rows):
    X, y = rows
    model = make(X, y)
    assert motes.check_model(model).ok
    settings = {"particles": 20, "steps": 40, "step_size": 0.02, **settings}
    derived = paper(model, **settings)
    built_in = paper(motes.LogisticRegression(X, y, learn="mean", intercept=False, standardize=False), **settings)
    np.testing.assert_allclose(derived.trace["theta"], built_in.trace["theta"], rtol=0, atol=1e-11)
    np.testing.assert_allclose(derived.particles, built_in.particles, rtol=0, atol=1e-10)


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_derived_models_take_mini_batches(library, rows):
    X, y = rows
    pytest.importorskip(library)
    if library == "jax":
        import jax.numpy as lib

        array, make = lib.asarray, motes.Model.from_jax
    else:
        import torch as lib

        array, make = (lambda a: lib.as_tensor(a, dtype=lib.float64)), motes.Model.from_torch

    def log_density(theta, x, batch=None):
        Xb, yb = (array(X), array(y)) if batch is None else (array(X)[batch], array(y)[batch])
        t = Xb @ x
        data = (yb * t - lib.logaddexp(array(0.0), t)).sum()
        return len(X) / len(Xb) * data - ((x - theta) ** 2).sum() / 10

    model = make(log_density, 1, 3, data_terms=len(X))
    assert motes.check_model(model).ok
    settings = dict(particles=10, steps=20, step_size=0.01, batch=7)
    for algorithm in ["pgd", "pqn"]:
        derived = paper(model, algorithm, **settings)
        built_in = paper(motes.LogisticRegression(X, y, learn="mean", intercept=False, standardize=False), algorithm, **settings)
        np.testing.assert_allclose(derived.trace["theta"], built_in.trace["theta"], rtol=0, atol=1e-11)


def test_jax_is_left_in_its_own_precision(rows):
    jax = pytest.importorskip("jax")
    model = jax_logistic(*rows)
    paper(model, particles=3, steps=3)
    assert jax.numpy.ones(1).dtype == "float32"


def test_jax_arrays_and_torch_tensors_may_be_returned(rows):
    X, y = rows
    right = numpy_logistic(X, y)
    expected = paper(motes.Model(1, 3, right.gradients), particles=5, steps=10, step_size=0.01)
    torch = pytest.importorskip("torch")
    model = motes.Model(1, 3, lambda theta, x: tuple(map(torch.from_numpy, right.gradients(theta, x))))
    fit = paper(model, particles=5, steps=10, step_size=0.01)
    np.testing.assert_array_equal(fit.particles, expected.particles)
    jnp = pytest.importorskip("jax").numpy
    model = motes.Model(1, 3, lambda theta, x: tuple(map(jnp.asarray, right.gradients(theta, x))))
    fit = paper(model, particles=5, steps=10, step_size=0.01)
    np.testing.assert_allclose(fit.particles, expected.particles, atol=1e-5)


def test_an_exception_under_jax_comes_back():
    pytest.importorskip("jax")

    def log_density(theta, x):
        raise ZeroDivisionError("while tracing")

    with pytest.raises(ZeroDivisionError, match="while tracing"):
        paper(motes.Model.from_jax(log_density, 1, 2))


def test_arviz(rows):
    az = pytest.importorskip("arviz")
    X, y = rows
    model = motes.LogisticRegression(X, y, feature_names=["a", "b", "c"], intercept=False)
    fits = paper(model, particles=10, steps=200, replicates=3)
    data = fits.to_arviz()
    x = data.posterior["x"]
    assert x.dims == ("chain", "draw", "particle", "x_dim") and x.shape == (3, 100, 10, 3)
    assert list(x.coords["x_dim"].values) == ["a", "b", "c"]
    np.testing.assert_allclose(x.values.mean((0, 1, 2)), fits.posterior_mean, rtol=1e-9)
    np.testing.assert_array_equal(x.sel(draw=200).values[2], fits[2].particles)
    assert fits[0].to_arviz().posterior["x"].shape == (1, 100, 10, 3)
    # Theta has no posterior: it is a constant.
    assert list(data.posterior.data_vars) == ["x"]
    theta = data.constant_data["theta"]
    assert theta.dims == ("replicate", "theta_dim") and theta.shape == (3, 1)
    np.testing.assert_array_equal(theta.values, [fit.theta_mean for fit in fits])
    assert len(az.summary(data, var_names=["x"])) == 30


def test_arviz_of_auto(rows):
    pytest.importorskip("arviz")
    fit = motes.fit(motes.LogisticRegression(*rows, intercept=False), **QUIET)
    data = fit.to_arviz()
    x, constants = data.posterior["x"], data.constant_data
    assert x.shape[0] == 1 and x.shape[2:] == (32, 3)
    np.testing.assert_allclose(x.values.mean((0, 1, 2)), fit.posterior_mean, atol=0.1)
    np.testing.assert_array_equal(constants["theta"].values, fit.theta_mean)
    np.testing.assert_array_equal(constants["theta_se"].values, fit.se)
    grouped = motes.fit(motes.Hierarchical([1.0, 2.0, 4.0]), **QUIET).to_arviz()
    assert grouped.posterior["x"].dims == ("chain", "draw", "particle", "group")


def test_plot(tmp_path):
    pytest.importorskip("matplotlib")
    fits = paper(motes.LogisticRegression.wisconsin(), particles=20, steps=200, replicates=2)
    for figure in [fits.plot(), fits[0].plot(coordinates=3)]:
        figure.savefig(tmp_path / "fit.png")
        assert (tmp_path / "fit.png").stat().st_size > 10_000
        assert len(figure.axes) == 2


def test_plot_of_a_generator(tmp_path):
    pytest.importorskip("matplotlib")
    images = np.random.default_rng(0).integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
    for model in [motes.Generator.mnist(8), motes.Generator(images)]:
        figure = paper(model, particles=1, steps=3, batch=4).plot()
        figure.savefig(tmp_path / "fit.png")
        assert (tmp_path / "fit.png").stat().st_size > 10_000 and len(figure.axes) == 2


NOTEBOOK = """
import time
import warnings
import motes

warnings.simplefilter("ignore", motes.VerdictWarning)  # so short a run is not ok

def gradients(theta, x):
    time.sleep(0.02)
    return x - theta, theta - x

drawn, write = [], motes._progress.Progress._write
motes._progress.Progress._write = lambda self, text: (drawn.append(text), write(self, text))
fit = motes.fit(motes.Model(1, 1, gradients), "pgd", particles=2, steps=60, step_size=0.01)
"""


def test_a_notebook_shows_one_bar_that_changes():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = [nbformat.v4.new_code_cell(source) for source in (NOTEBOOK, "drawn")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    (shown,) = notebook.cells[0].outputs
    assert shown.output_type == "display_data" and shown.data == {"text/plain": ""}, "taken away at the end"
    drawn = ast.literal_eval(notebook.cells[1].outputs[0].data["text/plain"])
    assert len(drawn) > 3 and all("/60 steps" in text and "\n" not in text for text in drawn[:-1]), drawn


def test_scikit_learn_accepts_the_estimator():
    pytest.importorskip("sklearn")
    from sklearn.utils.estimator_checks import check_estimator

    from motes.sklearn import EmpiricalBayesLogisticRegression

    results = check_estimator(EmpiricalBayesLogisticRegression(), on_skip=None)
    failed = [r for r in results if r["status"] not in ("passed", "skipped")]
    assert results and not failed, failed


def test_the_estimator_agrees_with_the_model():
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import cross_val_score

    from motes.sklearn import EmpiricalBayesLogisticRegression

    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :10]
    estimator = EmpiricalBayesLogisticRegression().fit(X, y)
    scaled = (X - X.mean(0)) / X.std(0)
    fit = motes.fit(motes.LogisticRegression(scaled, y, standardize=False), **QUIET)
    np.testing.assert_allclose(estimator.predict_proba(X), fit.predict_proba(scaled), atol=1e-6)
    np.testing.assert_array_equal(estimator.theta_, fit.theta_mean)
    np.testing.assert_array_equal(estimator.se_, fit.se)
    assert estimator.loglik_ == fit.loglik
    assert estimator.verdict_ == fit.verdict == "ok" and estimator.n_iter_ == fit.k
    assert cross_val_score(estimator, X, y, cv=3).mean() > 0.9


def test_the_estimator_warns_as_others_do(rows):
    pytest.importorskip("sklearn")
    from sklearn.exceptions import ConvergenceWarning

    from motes.sklearn import EmpiricalBayesLogisticRegression

    with pytest.warns(ConvergenceWarning, match="the verdict is [a-z-]+: ") as caught:
        estimator = EmpiricalBayesLogisticRegression(max_evaluations=300).fit(*rows)
    assert estimator.verdict_ != "ok"
    assert not [w for w in caught if issubclass(w.category, motes.VerdictWarning)]
    with pytest.warns(ConvergenceWarning):
        EmpiricalBayesLogisticRegression(algorithm="pgd", particles=5, steps=10).fit(*rows)
    with pytest.raises(ValueError, match="auto finds its own length"):
        EmpiricalBayesLogisticRegression(steps=10).fit(*rows)


def test_type_checkers_see_the_types(tmp_path):
    pytest.importorskip("mypy")
    lines = {
        "motes.load('x').theta": "ndarray",
        "motes.fit(motes.Hierarchical([1.0]), 'pgd', 10, steps=5, batch=2)": "Fit",
        "motes.fit(motes.Model(1, 1, print)).theta": "ndarray",
        "motes.fit(motes.Hierarchical([1.0]), replicates=2)": "Replicates",
        "motes.fit(motes.Hierarchical([1.0]), tolerance=0.1, budget=2.0, strict=True).se": "ndarray",
        "motes.fit(motes.Generator.mnist(4), particles=None, out='x')": "GeneratorFit",
        "motes.fit(motes.Hierarchical([1.0]), replicates=2)[0]": "Fit",
        "motes.fit(motes.Model.from_jax(print, params={}, latent={})).params": "dict",
        "motes.fit(motes.Model.from_jax(print, params={}, latent={}), replicates=2)[0]": "NamedFit",
        "motes.Model.from_jax(print, 1, 2)": "Model",
    }
    (tmp_path / "use.py").write_text("\n".join(["import motes", *(f"reveal_type({line})" for line in lines)]))
    run = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "use.py")]
    done = subprocess.run(run, capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    assert "error" not in done.stdout and len(told) == len(lines), done.stdout
    for kind, line in zip(lines.values(), told):
        assert re.search(rf'"(motes|numpy|Union|dict|builtins)?[^"]*\b{kind}\b', line), line


def test_type_checkers_refuse_settings_that_there_are_not(tmp_path):
    pytest.importorskip("mypy")
    wrong = ["algorithm='pgf'", "toleranze=0.1", "tolerance='fine'", "preconditioner='adma'", "epochs=3"]
    lines = [f"motes.fit(motes.Hierarchical([1.0]), {w})" for w in wrong]
    (tmp_path / "use.py").write_text("\n".join(["import motes", *lines]))
    run = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "use.py")]
    done = subprocess.run(run, capture_output=True, text=True)
    refused = {line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line}
    assert refused == {str(i) for i in range(2, 2 + len(wrong))}, done.stdout
    named = {name for kind in (motes._settings.Settings, motes._settings.More) for name in kind.__annotations__}
    assert set(motes._registry.run_options()) - {"replicates"} <= named
    assert set(motes._settings.Algorithm.__args__) == set(motes._registry.algorithms())
