"""The toy model of the paper in ten lines: x_i ~ N(theta, 1), y_i ~ N(x_i, 1)."""

import numpy as np

import motes

y = np.random.default_rng(0).normal(loc=1.0, scale=np.sqrt(2.0), size=100)
fit = motes.fit(motes.Hierarchical(y), particles=50, steps=2000)
print(fit.summary())
print(f"theta {fit.theta_mean[0]:.3f}, and the closed form says {y.mean():.3f}")
assert abs(fit.theta_mean[0] - y.mean()) < 0.1
