"""A mixture: machines come from two makers that nobody recorded, and each machine's counts of faults are known.

The logarithm of a machine's rate is u_g ~ w N(m_1, s^2) + (1 - w) N(m_2, s^2). Labels can be exchanged without a change of the
likelihood: `Ordered` says which is which.
"""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

import motes

random = np.random.default_rng(6)
machines = 400
kind = random.uniform(size=machines) < 0.35
u = np.where(kind, 0.0, 2.0) + 0.4 * random.normal(size=machines)
faults = random.poisson(np.exp(u)[:, None], (machines, 6)).astype(float)


def log_joint(p, u, row):
    u = u["u"]
    parts = jnp.log(p["w"]) - 0.5 * ((u - p["m"]) / p["s"]) ** 2 - jnp.log(p["s"])
    return logsumexp(parts) + jnp.sum(row["y"] * u - jnp.exp(u))


model = motes.Model.from_jax(
    log_joint,
    params={"w": motes.Simplex(2), "m": motes.Ordered(2), "s": motes.Positive()},
    latent={"u": ()},
    data={"y": faults},
    groups=machines,
)
fit = motes.fit(model)
print(fit.summary())
