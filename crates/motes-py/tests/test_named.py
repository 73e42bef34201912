"""Models with named parameters, constraints and latents for each group, against integrals that are computed otherwise."""

import math

import numpy as np
import pytest
from conftest import draws_from_the_prior, maximised, near

import motes

jax = pytest.importorskip("jax")
jnp = jax.numpy

QUIET = dict(progress=False)
CONSTRAINTS = [
    motes.Real((2, 2)),
    motes.Positive(3),
    motes.Interval(-2.0, 5.0, 2),
    motes.Simplex(4),
    motes.Ordered(4),
    motes.CholeskyCorr(4),
    motes.CovarianceCholesky(3),
]


def coordinates(part, value):
    """As many numbers of a value as determine it."""
    value = np.asarray(value)
    if isinstance(part, motes.Simplex):
        return value[:-1]
    if isinstance(part, motes.CholeskyCorr):
        return value[np.tril_indices(len(value), -1)]
    if isinstance(part, motes.CovarianceCholesky):
        return value[np.tril_indices(len(value))]
    return value.reshape(-1)


@pytest.mark.parametrize("part", CONSTRAINTS, ids=lambda p: type(p).__name__)
def test_maps_lead_back_and_know_their_volume(part):
    rng = np.random.default_rng(3)
    for _ in range(5):
        z = rng.normal(size=part.free)
        value = part.natural(z, np)
        assert part.why_not(np.asarray(value)) is None
        np.testing.assert_allclose(part.to_free(np.asarray(value)), z, atol=1e-9)
        np.testing.assert_allclose(part.many(np.stack([z, z]))[1], value, atol=1e-12)
        with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
            np.testing.assert_allclose(part.natural(jnp.asarray(z), jnp), value, atol=1e-12)
            volume = float(part.log_jacobian(jnp.asarray(z), jnp))
        h = 1e-6
        moved = [coordinates(part, part.natural(z + h * e, np)) - coordinates(part, part.natural(z - h * e, np)) for e in np.eye(part.free)]
        expected = np.linalg.slogdet(np.stack(moved) / (2 * h))[1]
        assert volume == pytest.approx(expected, abs=1e-6)


def integrated(log_terms, points=801):
    """sum_g log int exp(l_g(theta, x)) phi(x) dx by the trapezium rule, which is exact to rounding for such integrands."""
    nodes = jnp.linspace(-8.0, 8.0, points)
    weights = -0.5 * nodes**2 - 0.5 * math.log(2 * math.pi) + math.log(16.0 / (points - 1))

    def loglik(theta):
        return jax.scipy.special.logsumexp(log_terms(theta, nodes) + weights, axis=-1).sum()

    return loglik


def agrees(fit, exact, se):
    assert fit.verdict == "ok", fit.diagnostics["advice"]
    near(fit, exact, se)


def poisson(groups, rng):
    sizes = rng.integers(2, 7, groups)
    index = np.repeat(np.arange(groups), sizes)
    z = rng.normal(size=len(index))
    u = 0.7 * rng.normal(size=groups)
    y = rng.poisson(np.exp(0.3 + 0.5 * z + u[index]))
    return motes.by_group(index, z=z, y=y.astype(float))


def poisson_joint(p, u, row):
    eta = p["beta"][0] + p["beta"][1] * row["z"] + p["sd"] * u["u"]
    return jnp.sum(row["mask"] * (row["y"] * eta - jnp.exp(eta))) - 0.5 * u["u"] ** 2 - 0.5 * math.log(2 * math.pi)


def poisson_model(data, groups, **options):
    params = {"beta": motes.Real(2), "sd": motes.Positive()}
    return motes.Model.from_jax(
        poisson_joint, params=params, latent={"u": ()}, data=data, groups=groups, coords={"beta": ["1", "z"]}, **options
    )


def test_poisson_random_effects(x64):
    data, groups = poisson(120, np.random.default_rng(5))
    model = poisson_model(data, groups)
    assert motes.check_model(model).ok
    fit = motes.fit(model, **QUIET)

    def terms(theta, nodes):
        eta = theta[0] + theta[1] * data["z"][:, :, None] + jnp.exp(theta[2]) * nodes
        return (data["mask"][:, :, None] * (data["y"][:, :, None] * eta - jnp.exp(eta))).sum(axis=1)

    exact, se, loglik = maximised(integrated(terms), jnp.zeros(3))
    agrees(fit, exact, se)
    assert fit.loglik == pytest.approx(loglik, abs=max(0.05, 3 * fit.loglik_mc_error))
    assert fit.theta_names == ["beta[1]", "beta[z]", "log(sd)"]
    sd = math.exp(exact[2])
    assert fit.params["sd"] == pytest.approx(sd, abs=0.2 * sd * se[2]) and isinstance(fit.params["sd"], float)
    assert fit.se["sd"] == pytest.approx(fit.params["sd"] * fit._of_theta("se")[2], rel=1e-6)
    low, high = fit.conf_int()["sd"]
    width = 1.959964 * fit._of_theta("se")[2]
    assert (math.log(high) - math.log(low)) / 2 == pytest.approx(width, rel=1e-5)
    assert fit.latents["u"].mean().shape == (120,) and fit.latents["u"].groups == groups
    np.testing.assert_allclose(fit.latents["u"].draws.mean(axis=0), fit.latents["u"].mean(), atol=0.3)
    assert "sd" in fit.summary() and "log(sd)" in fit.summary() and "<th>sd</th>" in fit._repr_html_()


def test_single_and_double_precision_agree():
    data, groups = poisson(60, np.random.default_rng(6))
    single, double = (motes.fit(poisson_model(data, groups, x64=x64), **QUIET) for x64 in (None, True))
    apart = np.abs(single.theta_mean - double.theta_mean)
    both = np.hypot(single._of_theta("mc_error"), double._of_theta("mc_error"))
    assert (apart < 4 * both).all() and single.verdict == double.verdict == "ok"
    # A density that was tried before or after is still computed as JAX is set.
    assert jnp.zeros(1).dtype == jnp.float32


def test_a_density_may_be_tried_in_either_order():
    """A NumPy constant in the density, which is used by hand in single precision, checked in double, fitted, and used again."""
    weights, y = np.linspace(0.5, 1.5, 4), np.random.default_rng(3).normal(1.0, 1.0, (30, 4))

    def log_joint(p, u, row):
        return -0.5 * jnp.sum(jnp.square((row["y"] - p["m"] * weights - u["u"]) * weights)) - 0.5 * u["u"] ** 2

    def by_hand():
        return jax.grad(lambda m: log_joint({"m": m}, {"u": 0.1}, {"y": y[0]}))(0.5)

    first = by_hand()
    model = motes.Model.from_jax(log_joint, params={"m": ()}, latent={"u": ()}, data={"y": y}, groups=30)
    assert motes.check_model(model).ok
    assert motes.fit(model, **QUIET).verdict == "ok"
    double = motes.Model.from_jax(log_joint, params={"m": ()}, latent={"u": ()}, data={"y": y}, groups=30, x64=True)
    assert motes.fit(double, **QUIET).verdict == "ok"
    assert by_hand() == first and first.dtype == jnp.float32
    assert motes.fit(double, seed=1, **QUIET).verdict == "ok"


def test_an_item_response_model(x64):
    rng = np.random.default_rng(7)
    people, items = 300, 8
    a, b = rng.uniform(0.8, 1.6, items), rng.normal(0, 0.8, items)
    ability = rng.normal(size=people)
    y = (rng.uniform(size=(people, items)) < 1 / (1 + np.exp(-(a * ability[:, None] - b)))).astype(float)

    def log_joint(p, u, row):
        eta = p["a"] * u - p["b"]
        return jnp.sum(row["y"] * eta - jnp.logaddexp(0.0, eta)) - 0.5 * u**2

    model = motes.Model.from_jax(
        log_joint, params={"a": motes.Positive(items), "b": items}, latent=(), data={"y": y}, groups=people
    )
    fit = motes.fit(model, **QUIET)

    def terms(theta, nodes):
        eta = jnp.exp(theta[:items, None]) * nodes - theta[items:, None]
        return jnp.einsum("gi,in->gn", y, eta) - jnp.logaddexp(0.0, eta).sum(axis=0)

    agrees(fit, *maximised(integrated(terms), jnp.zeros(2 * items))[:2])
    assert fit.params["a"].shape == (items,) and fit.latents["x"].mean().shape == (people,)


def test_correlated_effects_by_cholesky_factors(x64):
    """y_gi = (b + u_g)' (1, t_i) + e with u_g = diag(sd) L z_g: the marginal is normal, so the maximum can be had exactly."""
    rng = np.random.default_rng(8)
    groups, t = 150, np.linspace(-1, 1, 6)
    X = np.stack([np.ones_like(t), t], axis=1)
    L = np.array([[1, 0], [0.5, math.sqrt(0.75)]])
    u = rng.normal(size=(groups, 2)) @ (np.diag([1.0, 0.7]) @ L).T
    y = (np.array([1.0, 2.0]) + u) @ X.T + 0.5 * rng.normal(size=(groups, 6))

    def log_joint(p, u, row):
        effects = p["b"] + p["sd"] * (p["L"] @ u["z"])
        residual = (row["y"] - jnp.asarray(X) @ effects) / p["sigma"]
        return -0.5 * jnp.sum(residual**2) - 6 * jnp.log(p["sigma"]) - 0.5 * jnp.sum(u["z"] ** 2)

    params = {"b": 2, "sd": motes.Positive(2), "L": motes.CholeskyCorr(2), "sigma": motes.Positive()}
    model = motes.Model.from_jax(log_joint, params=params, latent={"z": 2}, data={"y": y}, groups=groups)
    fit = motes.fit(model, **QUIET)

    def loglik(theta):
        r = jnp.tanh(theta[4])
        scale = jnp.diag(jnp.exp(theta[2:4])) @ jnp.array([[1.0, 0.0], [r, jnp.sqrt(1 - r**2)]])
        cov = X @ scale @ scale.T @ X.T + jnp.exp(2 * theta[5]) * jnp.eye(6)
        residual = y - X @ theta[:2]
        quad = jnp.einsum("gi,ij,gj->", residual, jnp.linalg.inv(cov), residual)
        return -0.5 * quad - 0.5 * groups * jnp.linalg.slogdet(cov)[1]

    agrees(fit, *maximised(loglik, jnp.zeros(6).at[0].set(1.0))[:2])
    assert fit.params["L"].shape == (2, 2) and fit.se["L"][0, 0] == 0.0
    np.testing.assert_allclose((fit.params["L"] ** 2).sum(axis=1), 1.0)
    low, high = fit.conf_int()["L"][1, 0]
    assert -1 < low < fit.params["L"][1, 0] < high < 1
    low, high = fit.conf_int()["L"][1, 1]
    assert 0 < low < fit.params["L"][1, 1] < high < 1


def test_latents_may_be_constrained(x64):
    """Counts with rates from a Gamma(shape, 1) distribution: the marginal is negative binomial."""
    rng = np.random.default_rng(9)
    y = rng.poisson(rng.gamma(3.0, 1.0, 250)).astype(float)

    def log_joint(p, u, row):
        lam, k = u["rate"], p["k"]
        return (k - 1) * jnp.log(lam) - lam - jax.scipy.special.gammaln(k) + row["y"] * jnp.log(lam) - lam

    model = motes.Model.from_jax(
        log_joint, params={"k": motes.Positive()}, latent={"rate": motes.Positive()}, data={"y": y}, groups=250
    )
    fit = motes.fit(model, **QUIET)

    def loglik(theta):
        k = jnp.exp(theta[0])
        ln = jax.scipy.special.gammaln
        return (ln(y + k) - ln(k) - (y + k) * jnp.log(2.0)).sum()

    exact, se, value = maximised(loglik, jnp.ones(1))
    agrees(fit, exact, se)
    assert fit.loglik == pytest.approx(value, abs=max(0.05, 3 * fit.loglik_mc_error))
    # Given y and k, a rate is Gamma(y + k, 2).
    expected = (y + fit.params["k"]) / 2
    error = np.abs(fit.latents["rate"].mean() - expected) / np.sqrt(expected / 2)
    assert error.max() < 0.35 and (fit.latents["rate"].draws > 0).all()


def test_a_global_latent_is_one_group():
    y = np.random.default_rng(2).normal(1.0, 1.0, 40)

    def log_joint(p, u, row):
        return -0.5 * jnp.sum((row["y"] - u["m"]) ** 2) - 0.5 * (u["m"] - p["mu"]) ** 2

    model = motes.Model.from_jax(log_joint, params={"mu": ()}, latent={"m": ()}, data={"y": y})
    fit = motes.fit(model, **QUIET)
    assert fit.verdict == "ok" and abs(fit.params["mu"] - y.mean()) < 0.2 * fit.se["mu"]
    assert fit.latents["m"].mean().shape == () and fit.latents["m"].groups is None


def test_starts_seeds_and_settings():
    data, groups = poisson(30, np.random.default_rng(4))
    model = poisson_model(data, groups)
    pgd = dict(algorithm="pgd", particles=4, steps=3, step_size=1e-6, no_assess=True)

    def start(init, **more):
        with pytest.warns(motes.VerdictWarning):
            return motes.fit(model, **pgd, **QUIET, init=init, **more).theta_trace[0]

    np.testing.assert_allclose(start({"sd": 2.0}), [0, 0, math.log(2)])
    np.testing.assert_allclose(start({"beta": [1.0, -1.0]}), [1, -1, 0])
    np.testing.assert_allclose(start([1.0, 2.0, 3.0]), [1, 2, 3])
    drawn = start(lambda rng: {"beta": rng.normal(size=2)}, seed=5)
    np.testing.assert_allclose(drawn[:2], np.random.default_rng(5).normal(size=2))
    fit = motes.fit(model, **QUIET)
    np.testing.assert_allclose(start(fit), fit.theta_mean)
    again = motes.fit(model, **fit.settings, **QUIET)
    assert again.params["sd"] == fit.params["sd"]
    seeds = [motes.fit(model, **QUIET, seed=s).settings["seed"] for s in (None, np.random.default_rng(1))]
    assert seeds[0] != 0 and seeds[1] == np.random.default_rng(1).integers(1 << 32)


def test_grouped_callables_of_numpy():
    y = np.random.default_rng(0).normal(1.0, 1.4, 50)
    seen = []

    def gradients(theta, x, groups):
        seen.append((x.shape, len(groups)))
        return x - theta, (y[groups, None, None] - x) - (x - theta)

    def log_density(theta, x, groups):
        return -0.5 * ((x - theta) ** 2 + (y[groups, None, None] - x) ** 2)[..., 0]

    model = motes.Model(1, 1, gradients, log_density, groups=50)
    assert motes.check_model(model).ok
    fit = motes.fit(model, **QUIET)
    assert fit.verdict == "ok" and abs(fit.theta_mean[0] - y.mean()) < 0.2 * fit.se[0]
    assert {shape for shape, count in seen if count == 50} >= {(50, 32, 1)}
    assert fit.particles.shape == (32, 50) and fit.group_names == [str(g) for g in range(50)]
    # The built-in model is the same one, with the same noise.
    settings = dict(algorithm="pgd", particles=5, steps=50, step_size=0.05, batch=10, no_assess=True, **QUIET)
    with pytest.warns(motes.VerdictWarning):
        own, built_in = motes.fit(model, **settings), motes.fit(motes.Hierarchical(y), **settings)
    np.testing.assert_allclose(own.theta_trace, built_in.theta_trace, atol=1e-12)


def test_summed_gradients_have_no_auto():
    y = np.random.default_rng(0).normal(1.0, 1.4, 6)

    def gradients(theta, x):
        return (x - theta).sum(axis=(0, 1), keepdims=True)[0], (y - x) - (x - theta)

    model = motes.Model(1, 6, gradients, lambda theta, x: -0.5 * ((x - theta) ** 2 + (y - x) ** 2).sum(axis=1), scores=False)
    assert motes.check_model(model).ok
    with pytest.warns(RuntimeWarning, match="particle by particle"):
        fit = motes.fit(model, particles=20, steps=200, step_size=0.05, **QUIET)
    assert np.isnan(fit.se).all() and fit.settings["algorithm"] == "pgd"
    whole = motes.Model(1, 6, lambda theta, x: ((x - theta).sum(axis=1, keepdims=True), (y - x) - (x - theta)))
    settings = dict(algorithm="pgd", particles=20, steps=200, step_size=0.05, no_assess=True, **QUIET)
    with pytest.warns(motes.VerdictWarning):
        np.testing.assert_allclose(motes.fit(model, **settings).theta, motes.fit(whole, **settings).theta, atol=1e-12)
    with pytest.raises(ValueError, match="auto needs theta-gradients row by row"):
        motes.fit(model, algorithm="auto", **QUIET)


def joint(p, u, row):
    return -0.5 * (u["u"] - p["m"]) ** 2 - 0.5 * (row["y"] - u["u"]) ** 2


GOOD = dict(params={"m": motes.Real()}, latent={"u": ()}, data={"y": np.arange(4.0)}, groups=4)


def test_a_run_directory_holds_a_named_fit(tmp_path):
    model = motes.Model.from_jax(joint, **{**GOOD, "groups": ["a", "b", "c", "d"]}, name="pairs")
    fit = motes.fit(model, out=tmp_path / "run", **QUIET)
    loaded = motes.load(tmp_path / "run", model)
    assert loaded.params == fit.params and loaded.latents["u"].groups == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(loaded.latents["u"].draws, fit.latents["u"].draws)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "u[a]" in page or '"a"' in page


def test_particles_are_drawn_from_the_prior():
    draws_from_the_prior(motes.Model.from_jax)


def intercepts(y, groups=None, **options):
    def log_joint(p, u, row):
        return -0.5 * ((u["u"] - p["mu"]) / p["sd"]) ** 2 - jnp.log(p["sd"]) - 0.5 * jnp.sum((row["y"] - u["u"]) ** 2)

    params = {"mu": motes.Real(), "sd": motes.Positive()}
    return motes.Model.from_jax(log_joint, params=params, latent={"u": ()}, data={"y": y}, groups=groups or len(y), **options)


def some_rows(groups=12):
    rng = np.random.default_rng(4)
    return rng.normal(2.0, 1.0, (groups, 3)) + rng.normal(0.0, 1.5, (groups, 1))


def test_a_run_knows_its_data_and_groups_again(tmp_path):
    y = some_rows()
    fit = motes.fit(intercepts(y), out=tmp_path / "run", report=False, **QUIET)
    assert motes.load(tmp_path / "run", intercepts(y)).params == fit.params
    other = y.copy()
    other[3, 1] += 1e-9
    for model in (intercepts(other), intercepts(y, [f"school {g}" for g in range(len(y))])):
        for again in (motes.load, motes.resume):
            with pytest.raises(ValueError, match="the data have changed"):
                again(tmp_path / "run", model=model)


def test_the_check_sees_one_group_that_is_not_a_number():
    y = some_rows()
    assert motes.check_model(intercepts(y)).ok
    y[7, 1] = np.nan
    checks = motes.check_model(intercepts(y, [f"school {g}" for g in range(len(y))]))
    assert [c.piece for c in checks if not c.ok] == ["numbers of all groups"] and "group school 7," in repr(checks)


def test_replicates_are_summed_up_on_the_natural_scale():
    fits = motes.fit(intercepts(some_rows()), replicates=2, **QUIET)
    natural, free = fits.summary().split("on the scale without bounds")
    assert f"  sd  {fits.params['sd']:.4g}".split() in [line.split()[:2] for line in natural.splitlines()]
    assert "log(sd)" in free and "R-hat" in free and "log(sd)" not in natural


def test_numbers_of_any_size_bring_no_warnings(monkeypatch, recwarn):
    fit = motes.fit(intercepts(some_rows()), callback=lambda step: step.k < 2, **QUIET)
    assert not fit.complete
    monkeypatch.setattr(motes.Fit, "theta_mean", property(lambda self: np.array([1e3, 1e3])))
    assert fit.params["sd"] == math.inf and "sd" in fit.conf_int() and "sd" in fit.se and fit._repr_html_()
    assert [str(w.message) for w in recwarn] == []


def test_parameters_and_latents_may_be_trees():
    y = some_rows()
    flat = motes.fit(intercepts(y), **QUIET)

    def log_joint(p, u, row):
        between = p["between"]
        prior = -0.5 * ((u["effects"][0] - between["mu"]) / between["sd"]) ** 2 - jnp.log(between["sd"])
        return prior - 0.5 * jnp.sum((row["y"] - u["effects"][0]) ** 2)

    params = {"between": {"mu": motes.Real(), "sd": motes.Positive()}}
    latent = {"effects": [motes.Real()]}
    model = motes.Model.from_jax(log_joint, params=params, latent=latent, data={"y": y}, groups=len(y))
    fit = motes.fit(model, **QUIET)
    # The same model in another form: the same numbers.
    for told, plain in ((fit.params, flat.params), (fit.se, flat.se), (fit.mc_error, flat.mc_error)):
        assert told == {"between": plain}
    np.testing.assert_array_equal(fit.conf_int()["between"]["sd"], flat.conf_int()["sd"])
    np.testing.assert_array_equal(fit.latents["effects"][0].mean(), flat.latents["u"].mean())
    assert fit.theta_names == ["between.mu", "log(between.sd)"] and "between.sd" in fit.summary() and "between.sd" in fit._repr_html_()
    again = motes.fit(model, init={"between": {"sd": 2.0}}, algorithm="pgd", steps=2, **QUIET)
    assert again.theta_trace[0].tolist() == [0.0, pytest.approx(math.log(2.0))]
    for wrong, words in (({"between": {"sigma": 1.0}}, r"init\['between'\] has the key 'sigma'"), ({"between": 2.0}, "give values as the model's tree")):
        with pytest.raises(ValueError, match=words):
            motes.fit(model, init=wrong, **QUIET)
    with pytest.raises(ValueError, match="lead to the name 'a.b'"):
        motes.Model.from_jax(log_joint, params={"a.b": 1, "a": {"b": 1}}, latent={"u": ()})
    with pytest.raises(ValueError, match="empty dict 'a'"):
        motes.Model.from_jax(log_joint, params={"a": {}}, latent={"u": ()})
