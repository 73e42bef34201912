"""Empirical-Bayes logistic regression on the Wisconsin breast cancer data, with replicates and predictions."""

import motes

model = motes.LogisticRegression.wisconsin()
fits = motes.fit(model, replicates=3)
print(fits[0].summary())
print(fits.summary())
print(f"test error {100 * fits[0].metrics['test_error']:.1f} %, LPPD {fits[0].metrics['lppd']:.4f}")

# Nine features from 1 to 10, as the data have them: a harmless and a malignant cell.
cells = [[1, 1, 1, 1, 2, 1, 2, 1, 1], [8, 10, 10, 8, 7, 10, 9, 7, 1]]
for cell, p in zip(cells, fits.predict_proba(cells)):
    print(cell, {str(c): round(float(q), 4) for c, q in zip(model.classes, p)})
assert fits.r_hat[0] < 1.05 and fits[0].metrics["test_error"] < 0.08
assert fits.predict_proba(cells)[0, 1] < 0.1 and fits.predict_proba(cells)[1, 1] > 0.9
