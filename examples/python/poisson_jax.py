"""A model of one's own from the JAX log density of one group: Poisson regression with random effects, against numerical integration.

Group g has an effect sd u_g with u_g ~ N(0, 1) and counts y_gi ~ Poisson(e^{a + b z_i + sd u_g}).
"""

import jax.numpy as jnp
import numpy as np

import motes

random = np.random.default_rng(1)
groups, z = 24, np.linspace(-1.0, 1.0, 6)
effects = 0.6 * random.normal(size=(groups, 1))
counts = random.poisson(np.exp(0.6 + 0.5 * z + effects)).astype(float)


def log_joint(p, u, row):
    eta = p["a"] + p["b"] * z + p["sd"] * u["u"]
    return jnp.sum(row["y"] * eta - jnp.exp(eta)) - 0.5 * u["u"] ** 2


model = motes.Model.from_jax(
    log_joint,
    params={"a": motes.Real(), "b": motes.Real(), "sd": motes.Positive()},
    latent={"u": ()},
    data={"y": counts},
    groups=groups,
    name="poisson",
)
assert motes.check_model(model).ok
fit = motes.fit(model)
print(fit.summary())


def marginal(theta):
    """The log-likelihood with every effect integrated out by the trapezoidal rule."""
    a, b, s = theta
    u = np.linspace(-8, 8, 801)
    eta = a + b * z + np.exp(s) * u[:, None, None]
    l = (counts * eta - np.exp(eta)).sum(axis=2) - 0.5 * u[:, None] ** 2
    most = l.max(axis=0)
    return float((most + np.log(np.exp(l - most).sum(axis=0) * (u[1] - u[0]))).sum())


best, step = np.zeros(3), 0.5
while step > 1e-5:  # a search along ever smaller steps in each direction
    trials = [best + sign * step * e for e in np.eye(3) for sign in (-1, 1)]
    top = max(trials, key=marginal)
    best, step = (top, step) if marginal(top) > marginal(best) else (best, step / 2)
exact = {"a": best[0], "b": best[1], "sd": np.exp(best[2])}
for name, value in exact.items():
    low, high = fit.conf_int()[name]
    print(f"{name}: {fit.params[name]:.3f}, 95 % interval {low:.3f} to {high:.3f}; by integration {value:.3f}")
    assert abs(fit.params[name] - value) < 0.2 * fit.se[name]
assert fit.ok
