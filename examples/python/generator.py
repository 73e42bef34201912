"""Train the paper's generator network on a few MNIST digits, then fill holes and make digits up.

This is far too small to learn much: take thousands of images, 10 particles and 100 epochs for pictures worth showing.
"""

import motes

model = motes.Generator.mnist(64)
fit = motes.fit(model, particles=2, epochs=10, batch=32)
print(fit.summary())
print(f"loss of an image: {fit.loss[0]:.0f} at first, {fit.loss[-1]:.0f} at last")

made = fit.synthesize(16, source="gaussian")  # (16, 1, 32, 32), values in [-1, 1]
holes = fit.test_images(4)
filled = fit.inpaint(holes, mask=(10, 10, 22, 22), steps=20)
print(f"{len(made)} digits made up, {len(filled)} filled in")
assert fit.loss[-1] < fit.loss[0] / 2
