"""Probabilistic principal components: y_g = mean + W u_g + noise, where the likelihood knows W only up to a rotation.

Without more said, the verdict is `flat`, and W W' is right all the same. A W whose upper part is a lower triangle with a positive
diagonal, as a Cholesky factor is, has no rotation left.
"""

import warnings

import jax.numpy as jnp
import numpy as np

import motes

random = np.random.default_rng(3)
rows, width, k = 300, 5, 2
truth = random.normal(size=(width, k))
y = random.normal(size=(rows, k)) @ truth.T + 0.6 * random.normal(size=(rows, width)) + 1.0


def log_joint(p, u, row):
    W = p["W"] if "W" in p else jnp.concatenate([p["upper"], p["lower"]])
    residual = (row["y"] - p["mean"] - W @ u["u"]) / p["noise"]
    return -0.5 * jnp.sum(residual**2) - width * jnp.log(p["noise"]) - 0.5 * jnp.sum(u["u"] ** 2)


def fitted(**weights):
    params = {"mean": motes.Real(width), "noise": motes.Positive(), **weights}
    return motes.fit(motes.Model.from_jax(log_joint, params=params, latent={"u": k}, data={"y": y}, groups=rows))


with warnings.catch_warnings():
    warnings.simplefilter("ignore", motes.VerdictWarning)
    free = fitted(W=motes.Real((width, k), init=np.eye(width, k)))
print(f"W as it is: {free.verdict}. {free.diagnostics['advice']}")

fit = fitted(upper=motes.CovarianceCholesky(k), lower=motes.Real((width - k, k)))
print(fit.summary())
