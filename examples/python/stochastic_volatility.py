"""Stochastic volatility: returns whose variance moves as an autoregression, so that all data share one vector of latents.

h_1 = mu + sigma e_1 / sqrt(1 - phi^2), h_t = mu + phi (h_{t-1} - mu) + sigma e_t, y_t ~ N(0, exp(h_t)), with e_t ~ N(0, 1). The
latents are the e_t, not the h_t: what the data hardly tell apart is then far less entangled with phi and sigma.
"""

import jax
import jax.numpy as jnp
import numpy as np

import motes

random = np.random.default_rng(2)
days, mu, phi, sigma = 200, -1.0, 0.9, 0.8
h = np.empty(days)
h[0] = mu + sigma / np.sqrt(1 - phi**2) * random.normal()
for t in range(1, days):
    h[t] = mu + phi * (h[t - 1] - mu) + sigma * random.normal()
returns = np.exp(0.5 * h) * random.normal(size=days)


def volatility(p, e):
    def step(level, e):
        level = p["phi"] * level + e
        return level, level

    _, levels = jax.lax.scan(step, 0.0, e.at[0].divide(jnp.sqrt(1 - p["phi"] ** 2)))
    return p["mu"] + p["sigma"] * levels


def log_joint(p, u, row):
    h = volatility(p, u["e"])
    return -0.5 * jnp.sum(h + row["y"] ** 2 * jnp.exp(-h)) - 0.5 * jnp.sum(u["e"] ** 2)


model = motes.Model.from_jax(
    log_joint,
    params={"mu": motes.Real(), "phi": motes.Interval(-1, 1, init=0.5), "sigma": motes.Positive(init=0.5)},
    latent={"e": days},
    data={"y": returns},
)
fit = motes.fit(model)
print(fit.summary())
level = np.mean([volatility(fit.params, jnp.asarray(e)) for e in fit.latents["e"].draws[::50]], axis=0)
print(f"the most volatile day was {np.argmax(level)}")
