"""A model of one's own with NumPy alone: counts with random intercepts, all of them in one group of latent variables.

Place g has an effect x_g ~ N(0, e^{2s}) and counts y_gi ~ Poisson(e^{a + x_g}); theta = (a, s).
"""

import numpy as np

import motes

random = np.random.default_rng(3)
places, visits = 20, 5
counts = random.poisson(np.exp(1.0 + 0.5 * random.normal(size=(places, 1))), size=(places, visits))
total = counts.sum(axis=1)


def log_density(theta, x):  # x: (particles, places)
    a, s = theta
    data = total * (a + x) - visits * np.exp(a + x)
    return (data - 0.5 * x**2 * np.exp(-2 * s) - s).sum(axis=1)


def gradients(theta, x):
    a, s = theta
    residual = total - visits * np.exp(a + x)
    of_a = residual.sum(axis=1)
    of_s = (x**2 * np.exp(-2 * s) - 1).sum(axis=1)
    return np.stack([of_a, of_s], axis=1), residual - x * np.exp(-2 * s)


def prior(theta, normals):
    return np.exp(theta[1]) * normals


model = motes.Model(2, places, gradients, log_density, prior=prior, names=["a", "s"], name="intercepts")
assert motes.check_model(model).ok
fit = motes.fit(model)
print(fit.summary())
for name, estimate, (low, high) in zip(fit.theta_names, fit.theta_mean, fit.conf_int()):
    print(f"{name} = {estimate:.2f}, between {low:.2f} and {high:.2f}")
assert fit.ok and abs(fit.theta_mean[0] - 1.0) < 3 * fit.se[0] and abs(fit.theta_mean[1] - np.log(0.5)) < 3 * fit.se[1]
