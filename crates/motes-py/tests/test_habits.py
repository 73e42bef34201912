"""What Python programs do with any object: pickle it, copy it, show it, log it, pass settings on."""

import copy
import html
import logging
import pickle
import re
import warnings

import numpy as np
import pytest
from conftest import paper

import motes

QUIET = dict(progress=False)
Y = np.array([1.2, 0.3, 2.5, 1.9])


def gradients(theta, x):
    return (x - theta).sum(axis=1, keepdims=True), (Y - x) - (x - theta)


def log_density(theta, x):
    return -0.5 * ((x - theta) ** 2 + (Y - x) ** 2).sum(axis=1)


def joint(p, u, row):
    return -0.5 * (u["u"] - p["m"]) ** 2 - 0.5 * ((row["y"] - u["u"]) / p["s"]) ** 2


def same(fit, other):
    """Whether two fits hold the same numbers."""
    np.testing.assert_array_equal(other.particles, fit.particles)
    np.testing.assert_array_equal(other.theta_mean, fit.theta_mean)
    assert (other.verdict, other.k, other.complete, other.loglik) == (fit.verdict, fit.k, fit.complete, fit.loglik)
    assert type(other) is type(fit) and other.path is None


@pytest.mark.parametrize(
    "make",
    [
        lambda rows, tmp_path: motes.Hierarchical(Y),
        lambda rows, tmp_path: motes.Hierarchical.generate(dim=5),
        lambda rows, tmp_path: motes.LogisticRegression(*rows, feature_names=["a", "b", "c"]),
        lambda rows, tmp_path: motes.LogisticRegression.wisconsin(),
        lambda rows, tmp_path: motes.Model(1, 4, gradients, log_density),
    ],
)
def test_models_and_fits_are_pickled(make, rows, tmp_path):
    model = make(rows, tmp_path)
    fit = motes.fit(model, **QUIET)
    other = pickle.loads(pickle.dumps(fit))
    same(fit, other)
    assert repr(other.model) == repr(model)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(motes.fit(again, **QUIET).theta_mean, fit.theta_mean)
    # It goes on as one in memory does, and can be written.
    stopped = motes.fit(model, callback=lambda step: step.k < 20, **QUIET)
    same(fit, pickle.loads(pickle.dumps(stopped)).resume(**QUIET))
    other.save(tmp_path / "run", report=False)
    loaded = motes.load(tmp_path / "run", model if isinstance(model, motes.Model) else None)
    np.testing.assert_array_equal(loaded.particles, fit.particles)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loaded)).particles, fit.particles)


def test_a_fit_is_pickled_without_callables_that_cannot_be(tmp_path):
    shift = 0.5
    model = motes.Model(1, 4, lambda theta, x: gradients(theta + shift, x), lambda theta, x: log_density(theta + shift, x))
    fit = motes.fit(model, **QUIET)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(model)
    # Others have loaded cloudpickle, perhaps, which takes any callable along.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "cloudpickle", None)
        patch.setitem(__import__("sys").modules, "joblib.externals.cloudpickle", None)
        other = pickle.loads(pickle.dumps(fit))
    same(fit, other)
    with pytest.raises(ValueError, match="gradients was not pickled with the fit; define it in a module"):
        motes.fit(other.model, algorithm="pgd", steps=5, **QUIET)


def test_named_fits_are_pickled():
    jax = pytest.importorskip("jax")
    assert jax
    params = {"m": motes.Real(), "s": motes.Positive(init=2.0)}
    given = dict(params=params, latent={"u": ()}, data={"y": Y}, groups=list("abcd"))
    settings = dict(algorithm="pgd", particles=4, steps=20, step_size=0.01, no_assess=True, **QUIET)
    for density, whole in ((joint, True), (lambda *at: joint(*at), False)):
        fit = motes.fit(motes.Model.from_jax(density, **given), **settings)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(__import__("sys").modules, "cloudpickle", None)
            other = pickle.loads(pickle.dumps(fit))
        same(fit, other)
        assert other.params == fit.params and other.latents["u"].groups == list("abcd")
        if whole:
            np.testing.assert_array_equal(motes.fit(other.model, **settings).theta, fit.theta)
        else:
            with pytest.raises(ValueError, match="was not pickled with the fit"):
                motes.fit(other.model, **settings)


def test_copies_are_fits():
    fit = motes.fit(motes.Hierarchical(Y), **QUIET)
    for other in (copy.copy(fit), copy.deepcopy(fit)):
        same(fit, other)
    model = copy.deepcopy(motes.Model(1, 4, gradients, log_density))
    assert motes.check_model(model).ok
    error = motes.VerdictError("it is not ok", fit)
    same(fit, pickle.loads(pickle.dumps(error)).fit)


def test_joblib_carries_models_and_fits():
    joblib = pytest.importorskip("joblib")
    model = motes.Hierarchical(Y)
    fits = joblib.Parallel(n_jobs=2)(joblib.delayed(motes.fit)(model, seed=s, **QUIET) for s in (0, 1))
    for seed, fit in enumerate(fits):
        np.testing.assert_array_equal(fit.theta_mean, motes.fit(model, seed=seed, **QUIET).theta_mean)


def test_replicates_are_pickled_and_shown(tmp_path):
    fits = motes.fit(motes.Hierarchical(Y), replicates=2, **QUIET)
    other = pickle.loads(pickle.dumps(fits))
    assert len(other) == 2 and other.verdict == fits.verdict and other.ok
    np.testing.assert_array_equal(other.theta_mean, fits.theta_mean)
    assert "<th>theta</th>" in fits._repr_html_() and "verdict ok" in fits._repr_html_()
    assert fits.conf_int().shape == (1, 2) and fits.covariance.shape == (1, 1)
    low, high = fits.conf_int()[0]
    assert low < fits.theta_mean[0] < high


def test_replicates_of_many_parameters(tmp_path):
    """More parameters than a summary lists: shapes are those that are documented."""
    d = 1200
    model = motes.Model(d, 2, lambda theta, x: (np.zeros((len(x), d)) - theta, -x))
    settings = dict(algorithm="pgd", particles=3, steps=20, step_size=0.1, no_assess=True, **QUIET)
    fits = motes.fit(model, replicates=2, callback=lambda step: step.k < 5, out=tmp_path / "many", **settings)
    assert not fits.complete
    loaded = motes.load(tmp_path / "many", model)
    whole = loaded.resume(**QUIET)
    assert whole.complete and len(whole) == 2
    assert whole.theta.shape == (2, d) and whole.theta_mean.shape == (d,) and len(whole.theta_names) == d
    assert whole.se.shape == whole.mc_error.shape == whole.r_hat.shape == (1000,)
    assert whole.posterior_mean.shape == (2,) and whole.r_hat_x.shape == (2,) and whole.loglik.shape == (2,)
    straight = motes.fit(model, replicates=2, **settings)
    np.testing.assert_array_equal(whole.theta, straight.theta)
    assert "1150 more" in straight._repr_html_()
    assert straight[0].theta_trace.shape == (21, 1000)


def test_replicates_of_named_parameters():
    pytest.importorskip("jax")
    y = np.random.default_rng(0).normal(1.0, 1.5, 200)
    model = motes.Model.from_jax(
        lambda p, u, row: joint({"m": p["m"], "s": 1.0}, u, row), params={"m": motes.Interval(-5, 5)}, latent={"u": ()}, data={"y": y}, groups=200
    )
    fits = motes.fit(model, replicates=2, **QUIET)
    assert isinstance(fits, motes.NamedReplicates) and fits.ok
    # y is N(m, 2).
    assert abs(fits.params["m"] - y.mean()) < 0.2 * np.sqrt(2 / 200) and fits.se["m"] == pytest.approx(0.1, rel=0.1)
    assert fits.conf_int()["m"].shape == (2,) and fits[1].params["m"] != fits[0].params["m"]
    assert "<th>m</th>" in fits._repr_html_()


@pytest.mark.parametrize("algorithm", ["auto", "pgd", "pmgd", "soul", "em", "mean-field", "marginal-mh", "joint-mh"])
def test_settings_repeat_a_fit(algorithm):
    more = {} if algorithm in ("auto", "em") else dict(particles=4)
    more = {**more, **({} if algorithm == "auto" else dict(steps=30))}
    fit = motes.fit(motes.Hierarchical(Y), algorithm, seed=3, **more, **QUIET)
    again = motes.fit(motes.Hierarchical(Y), **fit.settings, **QUIET)
    np.testing.assert_array_equal(again.theta_mean, fit.theta_mean)


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: motes.LogisticRegression(*rows, prior_variance=3.0, learn="mean", test_fraction=0.2),
        lambda rows: motes.LogisticRegression.wisconsin(),
        lambda rows: motes.BayesianNeuralNetwork(*rows, hidden=2),
        lambda rows: motes.Generator.mnist(4),
    ],
)
def test_settings_repeat_a_fit_of_any_model(make, rows):
    model = make(rows)
    fit = paper(model, particles=2, steps=4, batch=2 if isinstance(model, motes.Generator) else None)
    again = motes.fit(model, **fit.settings, **QUIET)
    np.testing.assert_array_equal(again.theta, fit.theta)


def test_the_log_tells_of_fits(caplog):
    with caplog.at_level(logging.INFO, "motes"):
        fit = motes.fit(motes.Hierarchical(Y), **QUIET)
    begins, ends = [record.getMessage() for record in caplog.records if record.name == "motes"]
    assert begins == "hierarchical: begins"
    assert ends.startswith(f"hierarchical by auto: ok after {fit.k} steps and ")


def test_notebooks_show_figures_without_being_asked():
    """In a kernel that was told nothing of matplotlib."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel"), pytest.importorskip("matplotlib")
    code = "import motes\nmotes.fit(motes.Hierarchical([1.0, 2.0]), progress=False).plot()"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    (shown,) = notebook.cells[0].outputs
    assert len(shown.data["image/png"]) > 10_000


def test_legends_lie_beside_the_curves():
    pytest.importorskip("matplotlib")
    for model in (motes.LogisticRegression.wisconsin(), motes.Hierarchical(Y)):
        figure = paper(model, particles=5, steps=50).plot()
        figure.canvas.draw()
        for axes in figure.axes:
            legend = axes.get_legend()
            assert legend is not None and legend.get_window_extent().x0 >= axes.get_window_extent().x1


def test_arviz_knows_names_and_what_was_done():
    pytest.importorskip("jax"), pytest.importorskip("arviz")
    y = np.random.default_rng(1).normal(0.0, 1.0, (12, 3))

    def log_joint(p, u, row):
        return -0.5 * ((row["y"] - p["b"] - u["u"]) ** 2).sum() - 0.5 * (u["u"] ** 2).sum() - 0.5 * u["r"] + 0.0 * p["s"]

    params = {"b": motes.Real(3), "s": motes.Positive()}
    model = motes.Model.from_jax(
        log_joint, params=params, latent={"u": 3, "r": motes.Positive()}, data={"y": y}, groups=12, coords={"b": ["x", "y", "z"]}, name="three"
    )
    fits = motes.fit(model, algorithm="pgd", particles=4, steps=60, step_size=0.05, replicates=2, no_assess=True, **QUIET)
    data = fits.to_arviz()
    draws = data.posterior
    assert set(draws.data_vars) == {"u", "r"} and draws["u"].dims == ("chain", "draw", "particle", "group", "u_dim_0")
    assert draws["u"].shape == (2, 30, 4, 12, 3) and draws["r"].shape == (2, 30, 4, 12) and (draws["r"].values > 0).all()
    constants = data.constant_data
    assert constants["b"].dims == ("replicate", "b_dim_0") and list(constants["b"].coords["b_dim_0"].values) == ["x", "y", "z"]
    np.testing.assert_array_equal(constants["s"].values, [fit.params["s"] for fit in fits])
    assert "theta" not in draws and "b" not in draws
    attributes = data.attrs
    assert attributes["inference_library"] == "motes" and attributes["model"] == "three" and attributes["algorithm"] == "pgd"
    adjusted = paper(motes.Hierarchical(Y), adjust=True, particles=4, steps=40, step_size=0.1).to_arviz()
    rate = adjusted.sample_stats["acceptance_rate"]
    assert rate.dims == ("chain", "draw") and ((rate >= 0) & (rate <= 1)).all()


def test_single_precision_says_when_it_does_not_suffice():
    jax = pytest.importorskip("jax")
    assert not jax.config.jax_enable_x64

    def log_joint(p, u, row):
        return -0.5 * (row["y"] - u["u"]) ** 2 - 0.5 * (u["u"] - p["m"]) ** 2 + row["c"]

    def fitted(constant, **options):
        data = {"y": np.array(1.0), "c": np.array(constant)}
        model = motes.Model.from_jax(log_joint, params={"m": ()}, latent={"u": ()}, data=data, **options)
        return motes.fit(model, algorithm="pgd", particles=2, steps=2, step_size=0.1, no_assess=True, **QUIET)

    with pytest.warns(RuntimeWarning, match="about 1e[+]06 at the start, of which single precision resolves no more than 0.062; give x64=True"):
        fitted(1e6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", motes.VerdictWarning)
        fitted(1e6, x64=True)
        fitted(1e4)


def test_mini_batches_are_not_followed_by_a_pass_over_all_data():
    seen = []

    def of_groups(theta, x, groups):
        seen.append(x.shape[0] * x.shape[1])
        return x - theta, (Y[groups % 4][:, None, None] - x) - (x - theta)

    def density(theta, x, groups):
        seen.append(x.shape[0] * x.shape[1])
        return -0.5 * ((x - theta) ** 2 + (Y[groups % 4][:, None, None] - x) ** 2)[..., 0]

    model = motes.Model(1, 1, of_groups, density, groups=20_000)
    motes.fit(model, algorithm="pgd", particles=2, steps=20, step_size=0.01, batch=10, **QUIET)
    # The steps themselves, and a look at the step size: gradients and densities of 1,000 particles, before and after a move.
    assert sum(seen) <= 20 * 10 * 2 + 4 * 1000


def test_reports_speak_as_python_does(cli, tmp_path):
    own, builtin = tmp_path / "own", tmp_path / "builtin"

    def told(where):
        page = html.unescape((where / "report.html").read_text())
        verdict = page.partition('<section class="verdict')[2].partition("</section>")[0]
        return re.sub("<[^>]*>", "", verdict), page

    # So few steps are too few, and the advice names the setting.
    short = dict(algorithm="pgd", steps=4, step_size=0.1, no_assess=True, **QUIET)
    motes.fit(motes.Model(1, 4, gradients, log_density), out=own, **short)
    motes.fit(motes.Hierarchical(Y), out=builtin, **short)
    for where, model in ((own, ", model=model"), (builtin, "")):
        verdict, page = told(where)
        assert " steps=" in verdict and "--" not in verdict
        assert f'motes.fit(model, **motes.load("{where}"{model}).settings)' in page
    # Asked for at the command line, a run that this can repeat is told in its words; one of callables is not.
    cli("report", own)
    assert " steps=" in told(own)[0] and "motes.load" in told(own)[1]
    cli("report", builtin)
    assert "--steps " in told(builtin)[0] and "motes fit --config" in told(builtin)[1]
