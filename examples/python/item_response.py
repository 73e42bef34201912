"""Item response theory (2PL): how discriminating and how difficult each question of a test is, with an ability for each person."""

import jax.numpy as jnp
import numpy as np

import motes

random = np.random.default_rng(7)
people, items = 500, 20
slope, difficulty = random.uniform(0.6, 1.8, items), random.normal(0.0, 1.0, items)
ability = random.normal(size=(people, 1))
right = (random.uniform(size=(people, items)) < 1 / (1 + np.exp(-slope * (ability - difficulty)))).astype(float)


def log_joint(p, u, row):
    eta = p["slope"] * (u["ability"] - p["difficulty"])
    return jnp.sum(row["right"] * eta - jnp.logaddexp(0.0, eta)) - 0.5 * u["ability"] ** 2


model = motes.Model.from_jax(
    log_joint,
    params={"slope": motes.Positive(items), "difficulty": motes.Real(items)},
    latent={"ability": ()},
    data={"right": right},
    groups=people,
)
fit = motes.fit(model)
print(fit.summary())
best = int(np.argmax(fit.latents["ability"].mean()))
print(f"the ablest person is {best}, with {right[best].sum():.0f} of {items} right answers")
