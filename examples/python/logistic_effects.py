"""Logistic regression with random intercepts and slopes for groups of different sizes, as in a trial in many clinics.

Patient i of clinic g recovers with log-odds X_i' beta + u_g0 + u_g1 treated_i, where u_g = diag(sd) L z_g, z_g ~ N(0, I).
"""

import jax.numpy as jnp
import numpy as np

import motes

random = np.random.default_rng(4)
clinics = 200
clinic = np.repeat(np.arange(clinics), random.integers(10, 40, clinics))
treated = random.integers(0, 2, len(clinic)).astype(float)
age = random.normal(size=len(clinic))
effects = random.normal(size=(clinics, 2)) * [0.8, 0.6]
eta = -0.4 + 0.9 * treated - 0.5 * age + effects[clinic, 0] + effects[clinic, 1] * treated
recovered = (random.uniform(size=len(clinic)) < 1 / (1 + np.exp(-eta))).astype(float)


def log_joint(p, u, row):
    effect = p["sd"] * (p["L"] @ u["z"])
    eta = row["X"] @ p["beta"] + effect[0] + effect[1] * row["X"][:, 1]
    return jnp.sum(row["mask"] * (row["y"] * eta - jnp.logaddexp(0.0, eta))) - 0.5 * jnp.sum(u["z"] ** 2)


X = np.stack([np.ones_like(age), treated, age], axis=1)
data, groups = motes.by_group(clinic, X=X, y=recovered)
model = motes.Model.from_jax(
    log_joint,
    params={"beta": motes.Real(3), "sd": motes.Positive(2), "L": motes.CholeskyCorr(2)},
    latent={"z": 2},
    data=data,
    groups=groups,
    coords={"beta": ["1", "treated", "age"], "sd": ["1", "treated"]},
)
fit = motes.fit(model)
print(fit.summary())
low, high = fit.conf_int()["beta"][1]
print(f"treatment: {fit.params['beta'][1]:.2f}, 95 % interval {low:.2f} to {high:.2f}")
