"""Stochastic volatility: returns whose variance moves as an autoregression, so that all data share one vector of latents.

h_1 ~ N(mu, sigma^2 / (1 - phi^2)), h_t = mu + phi (h_{t-1} - mu) + sigma e_t, y_t ~ N(0, exp(h_t)).
"""

import jax.numpy as jnp
import numpy as np

import motes

random = np.random.default_rng(2)
days, mu, phi, sigma = 400, -1.0, 0.92, 0.35
h = np.empty(days)
h[0] = mu + sigma / np.sqrt(1 - phi**2) * random.normal()
for t in range(1, days):
    h[t] = mu + phi * (h[t - 1] - mu) + sigma * random.normal()
returns = np.exp(0.5 * h) * random.normal(size=days)


def log_joint(p, u, row):
    h, phi = u["h"], p["phi"]
    first = (h[0] - p["mu"]) ** 2 * (1 - phi**2)
    steps = (h[1:] - p["mu"] - phi * (h[:-1] - p["mu"])) ** 2
    prior = -0.5 * (first + jnp.sum(steps)) / p["sigma"] ** 2 - days * jnp.log(p["sigma"]) + 0.5 * jnp.log(1 - phi**2)
    return prior - 0.5 * jnp.sum(h + row["y"] ** 2 * jnp.exp(-h))


model = motes.Model.from_jax(
    log_joint,
    params={"mu": motes.Real(), "phi": motes.Interval(-1, 1, init=0.5), "sigma": motes.Positive(init=0.5)},
    latent={"h": days},
    data={"y": returns},
)
fit = motes.fit(model)
print(fit.summary())
print(f"the most volatile day was {np.argmax(fit.latents['h'].mean())}")
