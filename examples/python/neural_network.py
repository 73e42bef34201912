"""A Bayesian neural network that tells fours from nines."""

import motes

model = motes.BayesianNeuralNetwork.mnist(classes=(4, 9), subsample=400, hidden=20)
fit = motes.fit(model, particles=10, steps=150)
print(fit.summary())
print(f"{100 * fit.metrics['test_error']:.1f} % of the test images are misread")
assert fit.metrics["test_error"] < 0.25
