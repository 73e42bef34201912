"""A model of one's own from its JAX log density: Poisson regression with random effects, against numerical integration.

Group g has an effect x_g ~ N(0, e^{2s}) and counts y_gi ~ Poisson(e^{a + b z_i + x_g}); theta = (a, b, s).
"""

import jax.numpy as jnp
import numpy as np

import motes

random = np.random.default_rng(1)
groups, z = 24, np.linspace(-1.0, 1.0, 6)
effects = 0.6 * random.normal(size=(groups, 1))
counts = random.poisson(np.exp(0.6 + 0.5 * z + effects))


def log_density(theta, x):
    a, b, s = theta
    eta = a + b * z + x[:, None]
    return jnp.sum(counts * eta - jnp.exp(eta)) - 0.5 * jnp.sum(x**2) * jnp.exp(-2 * s) - groups * s


model = motes.Model.from_jax(
    log_density,
    d_theta=3,
    d_x=groups,
    names=["a", "b", "s"],
    name="poisson",
    prior=lambda theta, normals: np.exp(theta[2]) * normals,
)
assert motes.check_model(model).ok
fit = motes.fit(model)
print(fit.summary())


def marginal(theta):
    """The log-likelihood with every effect integrated out by the trapezoidal rule."""
    a, b, s = theta
    x = 8 * np.exp(s) * np.linspace(-1, 1, 801)
    eta = a + b * z + x[:, None, None]
    l = (counts * eta - np.exp(eta)).sum(axis=2) - 0.5 * (x[:, None] * np.exp(-s)) ** 2 - s
    most = l.max(axis=0)
    return float((most + np.log(np.exp(l - most).sum(axis=0) * (x[1] - x[0]))).sum())


best, step = np.zeros(3), 0.5
while step > 1e-5:  # a search along ever smaller steps in each direction
    trials = [best + sign * step * e for e in np.eye(3) for sign in (-1, 1)]
    top = max(trials, key=marginal)
    best, step = (top, step) if marginal(top) > marginal(best) else (best, step / 2)
print("estimate   ", np.round(fit.theta_mean, 3), "with standard errors", np.round(fit.se, 3))
print("integration", np.round(best, 3))
assert fit.ok and np.all(np.abs(fit.theta_mean - best) < 0.2 * fit.se)
