"""A non-linear factor model of a real table, by a decoder in PyTorch: two factors behind nine grades of cells.

683 of the 699 samples are complete. The factors, which never see the diagnosis, tell it all the same; and the model fills in
grades that are left out.
"""

import csv
from pathlib import Path

import numpy as np
import torch

import motes
import motes.torch

with open(Path(__file__).parents[2] / "data" / "wisconsin-breast-cancer.csv") as file:
    rows = list(csv.DictReader(file))
names = [name for name in rows[0] if name not in ("id", "class")]
grades = np.array([[float(row[name].replace("?", "nan")) for name in names] for row in rows])
malignant = np.array([row["class"] == "malignant" for row in rows])
complete = np.isfinite(grades).all(axis=1)
scaled = (grades - grades[complete].mean(axis=0)) / grades[complete].std(axis=0)
train, test = np.flatnonzero(complete)[::2], np.flatnonzero(complete)[1::2]

torch.manual_seed(0)
torch.set_num_threads(1)  # so small a network is slower on several threads
module = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, len(names)))
decoder = motes.torch.Decoder(module, scaled[train].astype(np.float32), latent=2, sigma=0.5, columns=names)
fit = motes.fit(decoder, particles=10, batch=64, epochs=200, theta_rate=3e-3, step_size=0.02)
print(f"loss of a row: {fit.loss[:10].mean():.1f} at first, {fit.loss[-10:].mean():.1f} at last")

# One factor alone, chosen by its distance between the diagnoses, tells them apart in rows that played no part in the training.
factors = fit.posterior_mean
apart = [abs(f[malignant[train]].mean() - f[~malignant[train]].mean()) for f in factors.T]
best = int(np.argmax(apart))
middle = (factors[malignant[train], best].mean() + factors[~malignant[train], best].mean()) / 2
sign = np.sign(factors[malignant[train], best].mean() - middle)
new = fit.infer(scaled[test], particles=10, steps=200).mean(axis=1)
right = np.mean((sign * (new[:, best] - middle) > 0) == malignant[test])
print(f"{100 * right:.0f} % of {len(test)} other samples are on the right side of the middle between the diagnoses")

# Leave out a grade of each of these samples, and let the model fill it in.
missing = np.zeros(len(names), dtype=bool)
missing[names.index("bare_nuclei")] = True
filled = fit.inpaint(scaled[test], mask=missing, steps=200)[:, missing]
error = np.mean((filled - scaled[test][:, missing]) ** 2)
print(f"mean squared error of bare_nuclei: {error:.2f}, and 1.00 by its mean")
assert right > 0.85 and error < 0.6
