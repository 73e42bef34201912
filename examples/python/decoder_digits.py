"""Train a decoder of your own in PyTorch on MNIST digits: any module will do. Here it has two layers.

The run directory holds pictures of digits beside what they are decoded to, and of digits that are made up.
"""

import os
import tempfile

import numpy as np
import torch

import motes
import motes.torch

torch.manual_seed(0)
torch.set_num_threads(1)  # so small a network is slower on several threads
digits = (motes.Generator.mnist(1000).images + 1) / 2  # (1000, 1, 32, 32), from black 0 to white 1
pixels = digits.shape[1:]
module = torch.nn.Sequential(
    torch.nn.Linear(16, 128), torch.nn.BatchNorm1d(128), torch.nn.GELU(), torch.nn.Linear(128, 1024), torch.nn.Unflatten(1, pixels)
)
decoder = motes.torch.Decoder(module, digits, latent=16, likelihood="bernoulli")
print(decoder)

with tempfile.TemporaryDirectory() as place:  # name a directory of your own to keep it
    run = os.path.join(place, "digits")
    fit = motes.fit(decoder, particles=2, batch=100, epochs=30, step_size=0.005, theta_rate=3e-3, out=run)
    print(sorted(os.listdir(run)), sorted(os.listdir(os.path.join(run, "pictures"))))
print(f"loss of a digit: {fit.loss[:10].mean():.0f} at first, {fit.loss[-10:].mean():.0f} at last")

made_up = fit.synthesize(16, source="mixture", components=10)
print(f"{len(made_up)} digits made up, with values from {made_up.min():.2f} to {made_up.max():.2f}")

hole = (10, 10, 22, 22)
filled = fit.inpaint(digits[:8], mask=hole, steps=200)
error = np.mean((filled - digits[:8])[..., 10:22, 10:22] ** 2)
blank = np.mean((digits[:8].mean() - digits[:8])[..., 10:22, 10:22] ** 2)
print(f"mean squared error in the hole: {error:.3f}, and {blank:.3f} if it were grey")
assert fit.loss[-10:].mean() < 0.6 * fit.loss[:10].mean()
assert error < blank
