"""The everyday models of the examples, fitted by `motes.fit(model)` and nothing else, against integrals that are computed otherwise."""

import itertools
import runpy
import warnings
from functools import lru_cache

import numpy as np
import pytest
from conftest import ROOT, maximised, near

import motes

jax = pytest.importorskip("jax")
pytest.importorskip("scipy.optimize")
jnp = jax.numpy


@lru_cache(maxsize=None)
def example(name):
    """What an example leaves behind; its own precision is JAX's default."""
    with jax.enable_x64(False):
        return runpy.run_path(str(ROOT / "examples" / "python" / f"{name}.py"))


def agrees(fit, exact, se, loglik):
    """Near the maximum, and the log-likelihood within its error."""
    near(fit, exact, se)
    assert fit.loglik == pytest.approx(loglik, abs=max(0.1, 4 * fit.loglik_mc_error))


def normal_nodes(points, dimensions):
    """Nodes of a product rule for standard normals, and the logarithms of their weights, without the normals' constants."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    grid = np.array(list(itertools.product(nodes, repeat=dimensions)))
    return jnp.asarray(grid), jnp.asarray(np.log(list(map(np.prod, itertools.product(weights, repeat=dimensions)))))


def test_logistic_effects(x64):
    told = example("logistic_effects")
    fit, data = told["fit"], told["data"]
    assert fit.ok
    nodes, weights = normal_nodes(25, 2)

    def loglik(theta):
        r = jnp.tanh(theta[5])
        scale = jnp.diag(jnp.exp(theta[3:5])) @ jnp.array([[1.0, 0.0], [r, jnp.sqrt(1 - r**2)]])
        effects = nodes @ scale.T
        linear = data["X"] @ theta[:3]

        def at(effect):
            eta = linear + effect[0] + effect[1] * data["X"][:, :, 1]
            return (data["mask"] * (data["y"] * eta - jnp.logaddexp(0.0, eta))).sum(axis=1)

        return jax.scipy.special.logsumexp(jax.lax.map(at, effects) + weights[:, None], axis=0).sum()

    agrees(fit, *maximised(loglik, [0.0, 0.0, 0.0, -0.5, -0.5, 0.0]))


def test_item_response(x64):
    told = example("item_response")
    fit, right = told["fit"], told["right"]
    assert fit.ok
    items = right.shape[1]
    nodes, weights = normal_nodes(60, 1)

    def loglik(theta):
        eta = jnp.exp(theta[:items, None]) * (nodes[:, 0] - theta[items:, None])
        terms = right @ eta - jnp.logaddexp(0.0, eta).sum(axis=0)
        return jax.scipy.special.logsumexp(terms + weights, axis=1).sum()

    agrees(fit, *maximised(loglik, np.zeros(2 * items)))


def test_principal_components(x64):
    told = example("ppca")
    free, fit, y = told["free"], told["fit"], told["y"]
    rows, width = y.shape
    # Tipping and Bishop's closed form.
    values, vectors = np.linalg.eigh(np.cov(y.T, bias=True))
    noise = values[: width - 2].mean()
    loadings = vectors[:, -2:] * np.sqrt(values[-2:] - noise)
    assert free.verdict == "flat" and "W[" in free.diagnostics["advice"]
    W = free.params["W"]
    np.testing.assert_allclose(W @ W.T, loadings @ loadings.T, atol=0.15)
    assert free.params["noise"] == pytest.approx(np.sqrt(noise), abs=0.2 * fit.se["noise"])

    def loglik(theta):
        mean, s = theta[:width], jnp.exp(2 * theta[width])
        a, b, c = theta[width + 1 : width + 4]
        upper = jnp.array([[jnp.exp(a), 0.0], [b, jnp.exp(c)]])
        W = jnp.concatenate([upper, theta[width + 4 :].reshape(-1, 2)])
        cov = W @ W.T + s * jnp.eye(width)
        residual = y - mean
        quad = jnp.einsum("gi,ij,gj->", residual, jnp.linalg.inv(cov), residual)
        # The example's density lacks log(2 pi) for the data and for the two latents.
        return -0.5 * quad - 0.5 * rows * jnp.linalg.slogdet(cov)[1] + rows * jnp.log(2 * jnp.pi)

    assert fit.ok
    agrees(fit, *maximised(loglik, fit.theta_mean))


def test_stochastic_volatility(x64):
    told = example("stochastic_volatility")
    fit, y = told["fit"], told["returns"]
    assert fit.ok
    standard = jnp.linspace(-6.0, 6.0, 401)  # in stationary standard deviations

    def loglik(theta):
        mu, phi, sigma = theta[0], jnp.tanh(0.5 * theta[1]), jnp.exp(theta[2])
        spread = sigma / jnp.sqrt(1 - phi**2)
        h, gap = mu + spread * standard, spread * (standard[1] - standard[0])
        moves = -0.5 * ((h[:, None] - mu - phi * (h[None, :] - mu)) / sigma) ** 2 - jnp.log(sigma) + jnp.log(gap)
        moves = jnp.exp(moves)

        def step(carry, y):
            total, p = carry
            p = (moves @ p) * jnp.exp(-0.5 * (h + y**2 * jnp.exp(-h)))
            return (total + jnp.log(p.sum()), p / p.sum()), None

        first = jnp.exp(-0.5 * standard**2 - jnp.log(spread) + jnp.log(gap)) * jnp.exp(-0.5 * (h + y[0] ** 2 * jnp.exp(-h)))
        (total, _), _ = jax.lax.scan(step, (jnp.log(first.sum()), first / first.sum()), y[1:])
        return total

    exact, se, value = maximised(loglik, fit.theta_mean)
    error = np.abs(fit.theta_mean - exact)
    assert (error < 0.2 * se).all() and (error < 4 * fit._of_theta("mc_error")).all()
    np.testing.assert_allclose(fit._of_theta("se"), se, rtol=0.1)


def test_mixture(x64):
    told = example("mixture")
    fit, y = told["fit"], told["faults"]
    assert fit.ok
    nodes = jnp.linspace(-5.0, 6.0, 1101)

    def loglik(theta):
        # The free scale of two weights, and of two numbers that increase.
        w = 1 / (1 + jnp.exp(-theta[0]))
        m, s = jnp.array([theta[1], theta[1] + jnp.exp(theta[2])]), jnp.exp(theta[3])
        parts = jnp.log(jnp.array([w, 1 - w])) - 0.5 * ((nodes[:, None] - m) / s) ** 2 - jnp.log(s)
        prior = jax.scipy.special.logsumexp(parts, axis=1)
        data = y.sum(axis=1)[:, None] * nodes - y.shape[1] * jnp.exp(nodes)
        return (jax.scipy.special.logsumexp(prior + data, axis=1) + jnp.log(nodes[1] - nodes[0])).sum()

    agrees(fit, *maximised(loglik, [0.0, 0.0, 0.5, -0.5]))


def test_a_mixture_without_an_order_says_so():
    """Where labels can be exchanged, two maxima are equally good: a fit that starts between them finds one or says that it did not."""
    told = example("mixture")
    params = {"w": motes.Simplex(2), "m": motes.Real(2), "s": motes.Positive()}
    model = motes.Model.from_jax(told["log_joint"], params=params, latent={"u": ()}, data={"y": told["faults"][:60]}, groups=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", motes.VerdictWarning)
        fits = [motes.fit(model, progress=False, seed=seed) for seed in range(4)]
    for fit in fits:
        low, high = sorted(fit.params["m"])
        assert fit.diagnostics["advice"] if fit.verdict != "ok" else high - low > 1.0
    # From where labels are alike no fit is safe.
    assert any(fit.verdict != "ok" for fit in fits)
