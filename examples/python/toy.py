"""The toy model of the paper in ten lines: x_i ~ N(theta, 1), y_i ~ N(x_i, 1)."""

import numpy as np

import motes

y = np.random.default_rng(0).normal(loc=1.0, scale=np.sqrt(2.0), size=100)
fit = motes.fit(motes.Hierarchical(y))
print(fit.summary())
print(f"theta {fit.theta_mean[0]:.3f}, standard error {fit.se[0]:.3f}")
print(f"closed form {y.mean():.3f}, standard error {np.sqrt(2 / 100):.3f}")
assert fit.ok and abs(fit.theta_mean[0] - y.mean()) < 0.2 * fit.se[0]
