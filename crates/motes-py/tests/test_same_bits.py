"""Python and the command line give the same bits for the same settings."""

import csv
import json
import os

import numpy as np
import pytest
from conftest import WISCONSIN

import motes

FILES = ["config.toml", "trace.csv", "posterior.npz"]


def assert_same(a, b, files=FILES):
    for name in files:
        one, other = (d / name for d in (a, b))
        if name == "config.toml":
            # Files are named from the run directory; those of another are beside it.
            assert one.read_text() == other.read_text().replace(f'"../{a.name}/', '"')
        else:
            assert one.read_bytes() == other.read_bytes(), name
    assert checkpoint(a) == checkpoint(b)
    one, other = (json.loads((d / "summary.json").read_text()) for d in (a, b))
    one.pop("time"), other.pop("time")
    assert one == other


def checkpoint(run):
    """The newest checkpoint, which is a file of safetensors, without the time and the checksum at its end."""
    newest = sorted((run / "checkpoint").glob("*.safetensors"))[-1]
    data = newest.read_bytes()
    length = int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8 : 8 + length])
    header = json.loads(tensors["__metadata__"]["motes"])
    header.pop("seconds")
    return newest.name, header, data[8 + length : -4]


CASES = {
    "hierarchical": (
        lambda: motes.Hierarchical.generate(dim=30),
        ["hierarchical", "--dim", 30],
        dict(algorithm="pgd", particles=7, steps=60, seed=3),
    ),
    "logistic": (
        motes.LogisticRegression.wisconsin,
        ["logistic"],
        dict(algorithm="pgd", particles=12, steps=40, metrics_every=10, no_assess=True),
    ),
    "auto hierarchical": (lambda: motes.Hierarchical.generate(dim=30), ["hierarchical", "--dim", 30], dict(seed=3)),
    "auto logistic": (motes.LogisticRegression.wisconsin, ["logistic"], dict()),
    "auto": (
        lambda: motes.LogisticRegression.from_csv(WISCONSIN, target="class", drop=["id"], intercept=True),
        ["logistic", "--data", WISCONSIN, "--target", "class", "--drop", "id", "--intercept"],
        dict(particles=16, tolerance=0.1, max_evaluations=3000, level=0.9, init_theta=0.5, trace_every=3),
    ),
    "from_csv": (
        lambda: motes.LogisticRegression.from_csv(WISCONSIN, target="class", drop=["id"], intercept=True),
        ["logistic", "--data", WISCONSIN, "--target", "class", "--drop", "id", "--intercept"],
        dict(algorithm="pqn", particles=5, steps=30, adjust=True, step_size=0.02, no_assess=True),
    ),
    "bnn": (
        lambda: motes.BayesianNeuralNetwork.mnist(subsample=50, hidden=3),
        ["bnn", "--subsample", 50, "--hidden", 3],
        dict(particles=3, steps=6),
    ),
    "mean-field": (
        motes.LogisticRegression.wisconsin,
        ["logistic"],
        dict(algorithm="mean-field", particles=10, steps=20, no_assess=True),
    ),
    "em": (motes.Hierarchical.generate, ["hierarchical"], dict(algorithm="em", steps=9)),
    "grown": (
        motes.Hierarchical.generate,
        ["hierarchical"],
        dict(
            algorithm="pgd",
            particles=4,
            steps=50,
            grow={20: 8},
            step_decay=(0.5, 100),
            precision="f32",
            init_particles="prior",
        ),
    ),
}


CASES["one group"] = (
    lambda: motes.Hierarchical.generate(dim=30, groups=1),
    ["hierarchical", "--dim", 30, "--groups", 1],
    dict(algorithm="pgd", particles=7, steps=60, seed=3),
)
CASES["batches of groups"] = (
    lambda: motes.Hierarchical.generate(dim=30),
    ["hierarchical", "--dim", 30],
    dict(algorithm="pgd", particles=7, steps=60, batch=10, adjust=True, init_theta=0.5),
)


def flags(settings):
    words = []
    for key, value in settings.items():
        if key == "grow":
            value = ",".join(f"{k}:{n}" for k, n in value.items())
        elif key == "step_decay":
            value = ",".join(map(str, value))
        words += [f"--{key.replace('_', '-')}"] if value is True else [f"--{key.replace('_', '-')}", value]
    return words


@pytest.mark.parametrize("case", CASES)
def test_files_equal_those_of_the_command_line(case, cli, tmp_path):
    make, arguments, settings = CASES[case]
    there, here, saved = tmp_path / "there", tmp_path / "here", tmp_path / "saved"
    cli("fit", *arguments, *flags(settings), "--out", there, "--no-report")
    model = make()
    motes.fit(model, **settings, out=here, report=False, progress=False, threads=1)
    assert_same(there, here)
    fit = motes.fit(model, **settings, progress=False)
    fit.save(saved, report=False)
    assert_same(there, saved)


def test_groups_have_names_and_shapes(cli, tmp_path):
    """Each observation is a group; the arrays of a fit and of the command line's file are the same."""
    model = motes.Hierarchical.generate(dim=5)
    assert (model.d_x, model.groups, len(model.group_names)) == (1, 5, 5) and "groups=5" in repr(model)
    settings = dict(algorithm="pgd", particles=4, steps=20, no_assess=True)
    fit = motes.fit(model, **settings, progress=False)
    cli("fit", "hierarchical", "--dim", 5, *flags(settings), "--out", tmp_path / "there", "--no-report")
    with np.load(tmp_path / "there" / "posterior.npz") as there:
        assert fit.group_names == there["group_names"].tolist() == model.group_names
        assert fit.x_names == there["x_names"].tolist() == model.x_names
        for name, array in [("particles", fit.particles), ("clouds", fit.clouds), ("mean", fit.posterior_mean)]:
            np.testing.assert_array_equal(array, there[name])
    assert fit.particles.shape == (4, 5) and fit.clouds.shape[1:] == (5,)
    assert fit.posterior_mean.shape == fit.posterior_var.shape == (5,)
    one = motes.Hierarchical.generate(dim=5, groups=1)
    assert (one.d_x, one.groups) == (5, 1)
    whole = motes.fit(one, **settings, progress=False)
    assert whole.group_names is None and whole.particles.shape == (4, 5) and len(whole.x_names) == 5
    with pytest.raises(ValueError, match="groups"):
        motes.Hierarchical.generate(dim=5, groups=3)


def test_defaults_are_those_of_the_command_line(cli, tmp_path):
    cli("fit", "hierarchical", "--out", tmp_path / "there", "--no-report")
    fit = motes.fit(motes.Hierarchical.generate(), progress=False)
    assert fit.settings["algorithm"] == "auto" and fit.ok
    fit.save(tmp_path / "here", report=False)
    assert_same(tmp_path / "there", tmp_path / "here")


def test_arrays_equal_the_file_they_came_from(cli, tmp_path):
    table = [line.split(",") for line in WISCONSIN.read_text().splitlines()[1:]]
    table = [row for row in table if not {"", "?", "NA"} & set(row)]
    X, y = np.array([row[1:-1] for row in table], dtype=float), [row[-1] for row in table]
    model = motes.LogisticRegression(X, y, test_fraction=0.2)
    settings = dict(algorithm="pgd", particles=12, steps=40, no_assess=True)
    here = motes.fit(model, **settings, progress=False)
    file = motes.LogisticRegression.from_csv(WISCONSIN, target="class", drop=["id"])
    there = motes.fit(file, **settings, progress=False)
    np.testing.assert_array_equal(here.particles, there.particles)
    np.testing.assert_array_equal(here.trace["log_variance"], there.trace["log_variance"])
    assert here.metrics == there.metrics


@pytest.mark.parametrize("kind", ["logistic", "multinomial", "bnn", "hierarchical"])
def test_runs_of_arrays_are_interchangeable(kind, rows, cli, tmp_path):
    X, y = rows
    model = {
        "logistic": lambda: motes.LogisticRegression(X, y, intercept=True),
        "multinomial": lambda: motes.MultinomialRegression(X, y, weights=1.0 + y),
        "bnn": lambda: motes.BayesianNeuralNetwork(X, np.array(["a", "b, or c"])[y], hidden=3, standardize=True),
        "hierarchical": lambda: motes.Hierarchical(X[:, 0]),
    }[kind]()
    settings = dict(algorithm="pgd", particles=6, steps=20, burn_in=10, no_assess=True, progress=False)
    fit = motes.fit(model, **settings)
    fit.save(tmp_path / "a")
    assert (tmp_path / "a" / "report.html").exists()
    cli("fit", "--config", tmp_path / "a" / "config.toml", "--out", tmp_path / "again", "--no-report")
    assert_same(tmp_path / "a", tmp_path / "again")
    # Resumed there and here, in a directory that was moved in between, and in one go.
    os.rename(tmp_path / "a", tmp_path / "moved")
    cli("resume", tmp_path / "moved", "--steps", 50, "--no-report")
    longer = fit.resume(50, progress=False)
    longer.save(tmp_path / "b", report=False)
    for name in ["trace.csv", "posterior.npz"]:
        assert (tmp_path / "moved" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    whole = motes.fit(model, **{**settings, "steps": 50})
    np.testing.assert_array_equal(whole.particles, longer.particles)
    np.testing.assert_array_equal(whole.clouds, longer.clouds)
    loaded = motes.load(tmp_path / "moved")
    np.testing.assert_array_equal(loaded.clouds, longer.clouds)
    assert loaded.diagnostics == longer.diagnostics
    if kind != "hierarchical":
        new = tmp_path / "new.csv"
        new.write_text("x0,x1,x2\n" + "\n".join(",".join(map(repr, map(float, r))) for r in X[:5]) + "\n")
        text = cli("predict", tmp_path / "moved", "--data", new)
        p = loaded.predict_proba(X[:5])
        there = [[float(cell) for cell in row[2:]] for row in list(csv.reader(text.splitlines()))[1:]]
        np.testing.assert_array_equal(np.array(there)[:, :2], p)
        np.testing.assert_array_equal(np.array(there)[:, 2:], loaded.predict_interval(X[:5]))
        np.testing.assert_array_equal(p, longer.predict_proba(X[:5]))


def test_a_run_of_the_command_line_goes_on_here(cli, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    for out, steps in [(a, 30), (b, 80)]:
        sizes = ["--algorithm", "pgd", "--particles", 5, "--steps", steps, "--burn-in", 10]
        cli("fit", "logistic", *sizes, "--out", out, "--no-report")
    fit = motes.load(a)
    assert fit.complete and fit.k == 30
    longer = fit.resume(80, progress=False, report=False)
    assert longer.path == str(a)
    assert_same(a, b)
    assert fit.k == 30, "the fit that was resumed stays as it was"


def test_threads_do_not_matter():
    model = motes.LogisticRegression.wisconsin()
    for settings in [dict(algorithm="pgd", particles=50, steps=20), dict(tolerance=0.1)]:
        one, two = (motes.fit(model, **settings, threads=t, progress=False) for t in (1, 2))
        np.testing.assert_array_equal(one.particles, two.particles)
        np.testing.assert_array_equal(one.se, two.se)


def test_a_smaller_tolerance_goes_on_in_a_directory(cli, tmp_path):
    """Here, there, and in one go: the same bits."""
    model, dirs = motes.Hierarchical.generate(dim=30), [tmp_path / name for name in "abc"]
    for dir in dirs[:2]:
        motes.fit(model, tolerance=0.2, out=dir, report=False, progress=False)
    here = motes.resume(dirs[0], tolerance=0.05, report=False, progress=False)
    cli("resume", dirs[1], "--tolerance", 0.05, "--no-report")
    whole = motes.fit(model, tolerance=0.05, out=dirs[2], report=False, progress=False)
    assert_same(dirs[0], dirs[1])
    assert_same(dirs[0], dirs[2])
    np.testing.assert_array_equal(here.theta_mean, whole.theta_mean)
    assert here.mc_error[0] <= 0.05 * here.se[0] and here.path == str(dirs[0])
    with pytest.raises(ValueError, match="tolerance=0.1 is not below 0.05, which was asked for before"):
        here.resume(tolerance=0.1, progress=False)
    with pytest.raises(ValueError, match="max_evaluations=7 is not above 15000"):
        motes.resume(dirs[0], max_evaluations=7, progress=False)
    with pytest.raises(ValueError, match="auto finds its own length; leave steps out"):
        here.resume(1000, progress=False)
    memory = motes.fit(model, tolerance=0.2, progress=False)
    memory.save(tmp_path / "saved", report=False)
    for fit in [memory, motes.load(tmp_path / "saved")]:
        with pytest.raises(ValueError, match="has not kept where theta's stage ended.*fit .* again with tolerance"):
            fit.resume(tolerance=0.1, progress=False)
    steps = motes.fit(model, "pgd", particles=3, steps=10, progress=False)
    with pytest.raises(ValueError, match="are for auto, and pgd makes the steps it is asked for; give steps"):
        steps.resume(tolerance=0.1, progress=False)
