"""What a fit tells."""

import json
import sys
import threading
import time

import numpy as np
import pytest
from conftest import growth, numpy_logistic, paper

import motes

QUIET = dict(progress=False)


def test_estimates_are_those_of_the_closed_form():
    y = np.random.default_rng(0).normal(1.0, np.sqrt(2), size=50)
    fit = paper(motes.Hierarchical(y), particles=50, steps=4000, step_size=0.02)
    # theta_* = mean y; x | y ~ N((y + theta_*) / 2, 1/2). A step forgets 2h = 4 %, so that 2000 x 50 draws are worth
    # some 2000: standard errors of 0.016 and 3 %, of which 5 are allowed; h biases the variance by another 2 %.
    assert abs(fit.theta_mean[0] - y.mean()) < 0.02
    np.testing.assert_allclose(fit.posterior_mean, (y + y.mean()) / 2, atol=0.08)
    np.testing.assert_allclose(fit.posterior_var, 0.5, rtol=0.18)
    assert fit.diagnostics["verdict"] == "ok" and fit.diagnostics["ess"][0] > 10
    assert fit.trace["k"].tolist() == list(range(4001))
    assert fit.theta_trace.shape == (4001, 1) and fit.theta[0] == fit.theta_trace[-1, 0]
    np.testing.assert_allclose(fit.theta_mean[0], fit.theta_trace[2001:].mean(), rtol=1e-12)
    assert len(fit.clouds) == len(fit.clouds_k) <= 10_000
    np.testing.assert_array_equal(fit.clouds[-50:], fit.particles) if fit.clouds_k[-1] == 4000 else None
    for word in ["parameter", "theta", "posterior", "verdict   ok"]:
        assert word in fit.summary()


def test_probabilities_are_averages_over_the_particles(rows):
    X, y = rows
    fit = paper(motes.LogisticRegression(X, y, standardize=False), particles=30, steps=200)
    p = fit.predict_proba(X)
    t = X @ fit.clouds[:, :3].T + fit.clouds[:, 3]
    np.testing.assert_allclose(p[:, 1], (1 / (1 + np.exp(-t))).mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-15)
    standardized = motes.LogisticRegression(X * 3 + 1, y)
    by_hand = motes.LogisticRegression((X - X.mean(0)) / X.std(0), y, standardize=False)
    a = paper(standardized, particles=30, steps=200).predict_proba(X * 3 + 1)
    b = paper(by_hand, particles=30, steps=200).predict_proba((X - X.mean(0)) / X.std(0))
    np.testing.assert_allclose(a, b, atol=1e-9)


def test_network_learns_and_predicts():
    random = np.random.default_rng(2)
    X = random.normal(size=(150, 2))
    y = np.array(["in", "out"])[(X[:, 0] > X[:, 1]).astype(int)]
    model = motes.BayesianNeuralNetwork(X, y, hidden=10)
    fit = paper(model, particles=10, steps=300)
    p = fit.predict_proba(X)
    assert p.shape == (150, 2) and model.classes.tolist() == ["in", "out"]
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    assert np.mean(model.classes[p.argmax(axis=1)] == y) > 0.9


def test_test_metrics_are_told():
    fit = paper(motes.LogisticRegression.wisconsin(), particles=20, steps=100, metrics_every=50)
    assert fit.metrics["test_error"] < 0.1 and fit.metrics["lppd"] < 0
    assert np.isfinite(fit.trace["lppd"][[0, 50, 100]]).all() and np.isnan(fit.trace["lppd"][1])
    assert "137 rows" in fit.summary() or "test" in fit.summary()
    assert paper(motes.Hierarchical([1.0]), steps=5, particles=2).metrics is None


def test_files_tell_what_a_fit_tells(tmp_path):
    fit = paper(motes.LogisticRegression.wisconsin(), particles=10, steps=200, out=tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    with np.load(tmp_path / "run" / "posterior.npz") as arrays:
        names = arrays["x_names"]
    assert names.dtype.kind == "U" and names.tolist() == fit.x_names == summary["posterior"]["names"]
    assert fit.x_names == fit.model.x_names
    assert fit.mc_error.tolist() == summary["theta"]["mc_error"] and fit.mc_error[0] > 0
    assert any(f" {fit.mc_error[0]:.{digits}f}" in fit.summary() for digits in range(2, 7))
    assert fit.diagnostics["drift"] == summary["diagnostics"]["drift"]
    assert fit.metrics == summary["metrics"] and list(fit.metrics) == ["test_error", "baseline_error", "lppd", "brier", "auc"]
    assert summary["schema"] == 2 and summary["predict_with"] == "clouds"
    # A network predicts with its last cloud, unless draws stand for it.
    X = np.random.default_rng(2).normal(size=(40, 2))
    network = motes.BayesianNeuralNetwork(X, np.where(X[:, 0] > 0, "a", "b"), hidden=3)
    for algorithm, array in [("pgd", "particles"), ("mean-field", "clouds")]:
        paper(network, algorithm=algorithm, particles=4, steps=10, out=tmp_path / algorithm)
        told = json.loads((tmp_path / algorithm / "summary.json").read_text())
        assert told["predict_with"] == array


def test_replicates_give_r_hat():
    model = motes.Hierarchical.generate(dim=20)
    fits = paper(model, particles=20, steps=3000, seed=4, replicates=4)
    assert len(fits) == 4 and fits.complete
    np.testing.assert_array_equal(fits[1].particles, paper(model, particles=20, steps=3000, seed=5).particles)
    assert 0.99 < fits.r_hat[0] < 1.1 and (fits.r_hat_x < 1.02).all() and (fits.r_hat_x >= 1).all()
    assert fits.theta_mean.shape == (1,) and "R-hat" in fits.summary()
    # Too short a run has not forgotten where it began: chains from different seeds drift apart from each other slowly.
    short = paper(model, particles=1, steps=60, step_size=0.001, burn_in=10, replicates=4)
    assert short.r_hat[0] > 1.2


def test_r_hat_agrees_with_its_definition():
    fits = paper(motes.Hierarchical.generate(dim=5), particles=2, steps=300, burn_in=100, replicates=3)
    n = 100  # both halves of the path after burn-in
    chains = np.array([half for fit in fits for half in np.split(fit.theta_trace[101:, 0], 2)])
    between, within = n * chains.mean(1).var(ddof=1), chains.var(1, ddof=1).mean()
    expected = np.sqrt(((n - 1) / n * within + between / n) / within)
    np.testing.assert_allclose(fits.r_hat, [expected], rtol=1e-9)


def test_partial_fits_say_so():
    fit = paper(motes.Hierarchical([1.0, 2.0]), particles=3, steps=20, callback=lambda s: s.k < 5)
    assert np.isnan(fit.theta_mean).all() and np.isnan(fit.posterior_mean).all() and fit.posterior_var.shape == (2,)
    assert repr(fit) == "Fit(hierarchical by pgd, 5 of 20 steps, can be resumed)"
    assert fit.particles.shape == (3, 2) and fit.clouds.shape == (0, 2)


def test_partial_fits_can_be_saved_and_resumed_anywhere(cli, tmp_path):
    settings = dict(particles=3, steps=40, **QUIET)
    model = motes.Hierarchical.generate(dim=5)
    part = paper(model, **settings, callback=lambda s: s.k < 15)
    part.save(tmp_path / "part")
    cli("resume", tmp_path / "part", "--no-report")
    whole = paper(model, **settings)
    loaded = motes.load(tmp_path / "part")
    np.testing.assert_array_equal(loaded.particles, whole.particles)
    np.testing.assert_array_equal(loaded.clouds, whole.clouds)
    stopped = paper(model, **settings, out=tmp_path / "stopped", callback=lambda s: s.k < 15)
    assert not (tmp_path / "stopped" / "summary.json").exists() and not stopped.complete
    again = stopped.resume(**QUIET)
    np.testing.assert_array_equal(again.particles, whole.particles)
    assert json.loads((tmp_path / "stopped" / "summary.json").read_text())["steps"] == 40


def test_the_interpreter_stays_responsive():
    """Another thread goes on while a fit runs without the GIL."""
    beats, done = [0], threading.Event()

    def count():
        while not done.wait(0.001):
            beats[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    try:
        fit = paper(motes.Hierarchical.generate(dim=1000), particles=100, steps=300, threads=1)
    finally:
        done.set()
        counter.join()
    # Held for the whole run, the GIL would allow a beat or two.
    assert fit.seconds > 0.01 and beats[0] > 5


def test_two_fits_at_once(rows):
    """Fits in different Python threads do not disturb each other, nor lock each other out."""
    model = numpy_logistic(*rows)
    expected = paper(model, particles=20, steps=200).particles
    results = {}

    def work(i):
        results[i] = paper(model, particles=20, steps=200).particles

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert len(results) == 4
    for result in results.values():
        np.testing.assert_array_equal(result, expected)


def test_progress_is_shown_where_it_should_be(capfd):
    model = motes.Model(1, 1, lambda theta, x: time.sleep(0.02) or (x - theta, theta - x))
    paper(model, particles=2, steps=20, step_size=0.01, progress=True)
    assert capfd.readouterr().err == "", "a short run that is not in a terminal says nothing"

    class Terminal:
        text = ""

        def isatty(self):
            return True

        def write(self, text):
            Terminal.text += text

        def flush(self):
            pass

    before, sys.stderr = sys.stderr, Terminal()
    try:
        paper(model, particles=2, steps=20, step_size=0.01, progress=True)
    finally:
        sys.stderr = before
    assert all(piece in Terminal.text for piece in ["/20 steps", "ETA 0 s"]) and Terminal.text.endswith("\r")


@pytest.mark.parametrize("kind", ["built-in", "python"])
def test_a_thousand_fits_leak_nothing(kind, rows):
    X, y = rows

    def one():
        paper_prior = dict(learn="mean", intercept=False, standardize=False)
        model = motes.LogisticRegression(X, y, **paper_prior) if kind == "built-in" else numpy_logistic(X, y)
        fit = paper(model, particles=50, steps=3, burn_in=1, step_size=0.01, threads=1)
        fit.particles, fit.summary(), fit.resume(4, threads=1, **QUIET).trace

    # The least that could leak, one cloud of 50 x 3 doubles in each fit, would be 1.2 MB.
    grown = growth(one, 1000)
    assert grown < 1 << 20, f"{grown / 2**20:.2f} MiB more after a thousand fits"
