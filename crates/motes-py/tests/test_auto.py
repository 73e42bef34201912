"""The fit that needs no tuning: what it tells, for whom it is the default, and how it stops and goes on."""

import gc
import json
import os
import pickle
import textwrap
import warnings
import weakref

import numpy as np
import pytest
from conftest import interrupt, last_words, numpy_logistic

import motes

QUIET = dict(progress=False)
Y = np.random.default_rng(0).normal(1.0, np.sqrt(2), size=50)


@pytest.fixture(scope="module")
def toy():
    return motes.fit(motes.Hierarchical(Y), **QUIET)


def test_what_a_fit_tells_is_the_closed_form(toy):
    """y_i ~ N(theta, 2): the estimate is the mean of y, its variance 2/D, and half of the information is in the data."""
    d, mean = len(Y), Y.mean()
    se = np.sqrt(2 / d)
    loglik = -0.5 * d * np.log(4 * np.pi) - 0.25 * ((Y - mean) ** 2).sum()
    assert toy.verdict == "ok" and toy.ok and toy.complete and toy.steps is None and toy.burn_in == 0
    assert abs(toy.theta_mean[0] - mean) < 0.2 * se and toy.theta[0] == toy.theta_mean[0]
    np.testing.assert_allclose(toy.se, se, rtol=0.05)
    assert 0 < toy.mc_error[0] <= 0.05 * toy.se[0]
    np.testing.assert_allclose(toy.covariance, [[toy.se[0] ** 2]], rtol=1e-12)
    np.testing.assert_allclose(toy.information_share, 0.5, atol=0.05)
    assert abs(toy.loglik - loglik) < max(0.05, 4 * toy.loglik_mc_error)
    np.testing.assert_allclose([toy.aic, toy.bic], [2 - 2 * toy.loglik, np.log(d) - 2 * toy.loglik])
    np.testing.assert_allclose(toy.posterior_mean, (Y + toy.theta_mean[0]) / 2, atol=0.2)
    assert toy.trace["stage"][-1] == 3 and toy.settings["algorithm"] == "auto"


def test_intervals(toy):
    half = 1.959964 * toy.se[0]
    np.testing.assert_allclose(toy.conf_int(), [[toy.theta_mean[0] - half, toy.theta_mean[0] + half]], rtol=1e-6)
    np.testing.assert_allclose(np.diff(toy.conf_int(0.5)), [[2 * 0.6744898 * toy.se[0]]], rtol=1e-6)
    other = motes.fit(motes.Hierarchical(Y), level=0.5, **QUIET)
    np.testing.assert_allclose(other.conf_int(), toy.conf_int(0.5), rtol=1e-6)
    assert "50 % interval" in other.summary()
    for level in [0, 1, 95, "wide", np.nan]:
        with pytest.raises(ValueError, match="level is"):
            toy.conf_int(level)


def test_it_is_shown_as_in_the_terminal(toy):
    for text in [toy.summary(), str(toy), repr(toy)]:
        for word in ["std. error", "95 % interval", "MC error", "log-likelihood", "AIC", "verdict   ok"]:
            assert word in text, word
    assert repr(toy).startswith(f"Fit(hierarchical by auto, {toy.k} sweeps, complete)")
    page = toy._repr_html_()
    assert page.count("<tr>") == 2 and "std. error" in page and "verdict ok" in page and "AIC" in page
    named = motes.Model(1, 1, **TOY, names=["<b>"])
    assert "&lt;b&gt;" in motes.fit(named, **QUIET)._repr_html_()


def log_density(theta, x):
    return -0.5 * ((x - theta) ** 2 + (1.5 - x) ** 2)[:, 0]


def gradients(theta, x):
    return x - theta, theta + 1.5 - 2 * x


TOY = dict(gradients=gradients, log_density=log_density)


def test_own_models_are_fitted_by_auto():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = motes.fit(motes.Model(1, 1, **TOY), **QUIET)
        prior = motes.fit(motes.Model(1, 1, **TOY, prior=lambda theta, z: theta + z), **QUIET)
    for fit, start in [(plain, "normal"), (prior, "prior")]:
        assert fit.ok and fit.settings["algorithm"] == "auto" and fit.settings["init-particles"] == start
        assert abs(fit.theta_mean[0] - 1.5) < 0.2 * np.sqrt(2)
        np.testing.assert_allclose(fit.se, np.sqrt(2), rtol=0.1)
    # The constant that the density lacks is missing here too: y ~ N(theta, 2) at its maximum, times 2 pi.
    assert abs(plain.loglik - (np.log(2 * np.pi) - 0.5 * np.log(4 * np.pi))) < 0.05
    assert "as the density is given" in plain.summary() and np.isnan(plain.bic)


def test_an_own_model_equals_the_built_in_one(rows):
    """With the constant of the prior, -3/2 log(10 pi), the log-likelihoods agree as well."""
    own, built_in = (motes.fit(model, **QUIET) for model in (numpy_logistic(*rows), motes.LogisticRegression(*rows, learn="mean", intercept=False, standardize=False)))
    assert own.ok and built_in.ok
    assert abs(own.theta_mean[0] - built_in.theta_mean[0]) < 4 * np.hypot(own.mc_error[0], built_in.mc_error[0])
    np.testing.assert_allclose(own.se, built_in.se, rtol=0.1)
    assert abs(own.loglik - 1.5 * np.log(10 * np.pi) - built_in.loglik) < 0.05


def test_what_auto_lacks_is_named(rows):
    """Another algorithm is chosen with a warning that says why, never in silence."""
    X, y = rows
    right = numpy_logistic(X, y)
    batched = motes.Model(
        1, 3, lambda theta, x, batch: right.gradients(theta, x), right.log_density, data_terms=len(X)
    )
    many = motes.Model(
        201, 1, lambda theta, x: (x - theta, (theta - x).sum(axis=1, keepdims=True)), lambda theta, x: -(x**2)[:, 0]
    )
    for model, settings, words in [
        (motes.Model(1, 3, right.gradients), {}, "auto needs the log density, so pgd was used"),
        (batched, dict(batch=7), "auto takes all data in each step, and batch was given, so pgd was used"),
        (many, {}, "auto fits at most 200 parameters and the model has 201, so pgd was used"),
    ]:
        with pytest.warns(RuntimeWarning, match=words):
            fit = motes.fit(model, particles=3, steps=5, **settings, **QUIET)
        assert fit.settings["algorithm"] == "pgd" and fit.steps == 5
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", motes.VerdictWarning)
            motes.fit(model, "pgd", particles=3, steps=5, **settings, **QUIET)
        with pytest.raises(ValueError, match="auto"):
            motes.fit(model, "auto", **settings, **QUIET)
    assert motes.fit(batched, **QUIET).settings["algorithm"] == "auto"
    assert fit.settings["preconditioner"] == "rmsprop" and fit.settings["theta-rate"] == 1e-3


def test_verdicts_are_told():
    model = motes.Hierarchical(Y)
    with pytest.warns(motes.VerdictWarning, match="the verdict is [a-z-]+: .*max_evaluations=") as caught:
        fit = motes.fit(model, max_evaluations=300, **QUIET)
    assert fit.verdict in ("not-reached", "still-moving", "too-short") and fit.complete and not fit.ok
    assert caught[0].filename == __file__ and issubclass(motes.VerdictWarning, RuntimeWarning)
    with pytest.raises(motes.VerdictError, match=fit.verdict) as raised:
        motes.fit(model, max_evaluations=300, strict=True, **QUIET)
    np.testing.assert_array_equal(raised.value.fit.theta_mean, fit.theta_mean)
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value)
    np.testing.assert_array_equal(again.fit.theta_mean, fit.theta_mean)
    with pytest.raises(motes.VerdictError) as raised:
        motes.fit(model, max_evaluations=300, strict=True, replicates=2, **QUIET)
    assert len(raised.value.fit) == 2
    with pytest.warns(motes.VerdictWarning, match="too-short"):
        short = motes.fit(model, "pgd", particles=3, steps=5, **QUIET)
    with pytest.raises(motes.VerdictError):
        short.resume(6, strict=True, **QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert motes.fit(model, strict=True, **QUIET).ok


def test_the_papers_algorithms_are_assessed():
    model = motes.Hierarchical(Y)
    settings = dict(particles=50, steps=2000, **QUIET)
    fit = motes.fit(model, "pgd", **settings)
    np.testing.assert_allclose(fit.se, np.sqrt(2 / len(Y)), rtol=0.1)
    assert fit.ok and np.isfinite([fit.loglik, fit.aic, fit.bic]).all() and fit.covariance.shape == (1, 1)
    without = motes.fit(model, "pgd", no_assess=True, **settings)
    np.testing.assert_array_equal(without.theta_mean, fit.theta_mean)
    assert np.isnan([*without.se, *without.information_share, without.loglik, without.aic]).all()
    assert without.covariance is None and np.isnan(without.conf_int()).all() and without.mc_error[0] > 0
    assert "nan" not in without._repr_html_()


def test_a_budget_leaves_an_unfinished_fit(tmp_path):
    model, settings = motes.LogisticRegression.wisconsin(), dict(tolerance=0.05, **QUIET)
    with pytest.warns(RuntimeWarning, match=r"the budget of 1e-06 s was spent after sweep \d+; go on with Fit.resume"):
        part = motes.fit(model, budget=1e-6, **settings)
    assert not part.complete and not part.ok and 0 < part.k and part.theta_mean.shape == (1,)
    assert repr(part) == f"Fit(logistic by auto, {part.k} sweeps, can be resumed)"
    with pytest.warns(RuntimeWarning, match="budget"):
        stopped = motes.fit(model, budget=1e-6, out=tmp_path / "run", **settings)
    whole = motes.fit(model, **settings)
    for other in [motes.resume(tmp_path / "run", **QUIET), motes.resume(stopped, **QUIET)]:
        assert other.ok
        np.testing.assert_array_equal(other.theta_mean, whole.theta_mean)
        np.testing.assert_array_equal(other.particles, whole.particles)
    with pytest.raises(ValueError, match="budget is -1"):
        part.resume(budget=-1, **QUIET)
    with pytest.raises(ValueError, match="leave model out"):
        motes.resume(part, model=model, **QUIET)
    # Those that make given steps stop as well.
    with pytest.warns(RuntimeWarning, match=r"after step \d+ of 100000000"):
        assert not motes.fit(model, "pgd", steps=10**8, keep_clouds=0, trace_every=1000, budget=0.05, **QUIET).complete


def test_a_fit_goes_on_in_memory_and_is_loaded_as_it_was(toy, tmp_path):
    stopped = motes.fit(motes.Hierarchical(Y), callback=lambda step: step.k < 30, **QUIET)
    assert stopped.k == 30
    again = stopped.resume(**QUIET)
    toy.save(tmp_path / "run", report=False)
    for other in [again, motes.load(tmp_path / "run")]:
        for name in ["theta_mean", "se", "mc_error", "covariance", "information_share", "particles", "clouds"]:
            np.testing.assert_array_equal(getattr(other, name), getattr(toy, name), err_msg=name)
        assert (other.loglik, other.aic, other.bic, other.verdict) == (toy.loglik, toy.aic, toy.bic, toy.verdict)
        np.testing.assert_array_equal(other.conf_int(), toy.conf_int())


def test_replicates_agree():
    fits = motes.fit(motes.Hierarchical(Y), replicates=3, seed=7, **QUIET)
    assert len({fit.theta_mean[0] for fit in fits}) == 3
    # Estimates whose Monte Carlo error is a twentieth of the standard error.
    assert 1.0 <= fits.r_hat[0] < 1.01 and "3 replicates of up to" in fits.summary()
    assert repr(fits).startswith("Replicates(3 x Fit(hierarchical by auto, ") and "\n" not in repr(fits)
    assert fits.ok and fits.agreeing == list(fits) and fits.diagnostics["verdicts"] == ["ok"] * 3
    # The first is the fit that there is without others; the others start elsewhere.
    np.testing.assert_array_equal(fits[0].theta_trace, motes.fit(motes.Hierarchical(Y), seed=7, **QUIET).theta_trace)
    assert len({fit.theta_trace[0, 0] for fit in fits}) == 3
    np.testing.assert_allclose(fits.theta_mean, np.mean([fit.theta_mean for fit in fits], axis=0))
    np.testing.assert_allclose(fits.mc_error, np.sqrt(np.sum([fit.mc_error**2 for fit in fits], axis=0)) / 3)


def test_replicates_have_the_directories_of_the_command_line(tmp_path):
    model = motes.Hierarchical(Y)
    fits = motes.fit(model, replicates=2, seed=7, out=tmp_path / "out", **QUIET)
    fits.save(tmp_path / "saved", report=False)
    for name in ["out", "saved"]:
        json_of = json.loads((tmp_path / name / "summary.json").read_text())
        assert json_of["replicates"]["runs"][1]["seed"] == 8 and json_of["diagnostics"]["verdict"] == "ok"
        again = motes.load(tmp_path / name)
        assert isinstance(again, motes.Replicates) and again.complete
        np.testing.assert_array_equal(again.theta_mean, fits.theta_mean)
        np.testing.assert_array_equal(again[1].particles, fits[1].particles)
    # What was stopped in the middle is finished.
    seen = []
    stopped = motes.fit(model, replicates=2, seed=7, callback=lambda s: seen.append(s.k) or len(seen) < 30, **QUIET)
    assert not stopped.complete and len(stopped) == 1
    whole = stopped.resume(**QUIET)
    assert whole.complete and len(whole) == 2
    np.testing.assert_array_equal(whole.theta_mean, fits.theta_mean)


def test_replicates_that_end_in_different_places_disagree():
    # y_i ~ N(a x_i, 1) with x_i ~ N(0, 1): the sign of a is anybody's, and 0 is no maximum.
    y = 2.0 * np.random.default_rng(3).standard_normal(20)

    def gradients(theta, x):
        apart = y - theta[0] * x
        return (apart * x).sum(axis=1, keepdims=True), theta[0] * apart - x

    def log_density(theta, x):
        return -0.5 * ((y - theta[0] * x) ** 2 + x**2).sum(axis=1)

    model = motes.Model(1, 20, gradients, log_density)
    with pytest.warns(motes.VerdictWarning, match="disagree.*equally good"):
        fits = motes.fit(model, replicates=6, seed=1, **QUIET)
    signs = np.sign([fit.theta_mean[0] for fit in fits])
    assert fits.verdict == "disagree" and {-1.0, 1.0} <= set(signs)
    assert len({np.sign(fit.theta_mean[0]) for fit in fits.agreeing}) == 1
    assert abs(fits.theta_mean[0]) > 1.0 and fits.r_hat[0] > 2.0


def test_progress_tells_the_stage(capfd):
    from motes._progress import Progress

    progress = Progress(0)
    progress._began, progress._last = progress._began - 20, progress._last - 20
    progress(40, None, 2, 0.0817)
    line = capfd.readouterr().err
    assert line.startswith("averaging, 40 sweeps, ") and "Monte Carlo error 0.082 of the standard error" in line


def test_what_a_callable_raises_comes_back():
    class Mine(Exception):
        pass

    for piece in ["gradients", "log_density", "hessian", "prior"]:
        calls = []

        def failing(*args, piece=piece, calls=calls):
            calls.append(1)
            if len(calls) > 3 or piece == "prior":
                raise Mine(piece)
            return {**TOY, "hessian": lambda theta, x: np.full((len(x), 1, 1), -1.0)}[piece](*args)

        with pytest.raises(Mine, match=piece):
            motes.fit(motes.Model(1, 1, **{**TOY, piece: failing}), **QUIET)


def test_a_fit_holds_on_to_nothing():
    class Data:
        pass

    data = Data()
    model = motes.Model(1, 1, lambda theta, x, data=data: gradients(theta, x), log_density)
    fit = motes.fit(model, tolerance=0.2, callback=lambda step, data=data: None, **QUIET)
    alive = weakref.ref(data)
    del data, model, fit
    gc.collect()
    assert alive() is None


SCRIPT = """
import time, warnings
import numpy as np
import motes

def gradients(theta, x):
    {work}
    return (x - theta).sum(axis=1, keepdims=True), theta - 2 * x

def log_density(theta, x):
    return -0.5 * ((x - theta) ** 2 + x**2).sum(axis=1)

model = {model}
settings = dict(tolerance=1e-6, max_evaluations=10**12, trace_every=1000, threads=1, progress=False)
print("ready", flush=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fit = motes.fit(model, **settings)
stopped = time.time()
assert not fit.complete and "interrupted after sweep" in str(caught[0].message), caught
again = fit.resume(callback=lambda step: step.k < fit.k + 3, progress=False)
assert again.k == fit.k + 3
whole = motes.fit(model, **settings, callback=lambda step: step.k < again.k)
assert whole.k == again.k
np.testing.assert_array_equal(whole.particles, again.particles)
print(stopped, flush=True)
"""


@pytest.mark.parametrize("kind", ["built-in", "python", "slow"])
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_stops_within_a_second_and_can_be_resumed(child, kind):
    model = {"built-in": "motes.LogisticRegression.wisconsin()"}.get(kind, "motes.Model(1, 4, gradients, log_density)")
    work = "time.sleep(0.02)" if kind == "slow" else "pass"
    process = child(textwrap.dedent(SCRIPT).replace("{work}", work).replace("{model}", model))
    assert process.stdout.readline() == "ready\n"
    interrupt(process, 0.7, lambda: last_words(process))
