"""Eight seeds in as many processes at a time as there are cores, by joblib (`pip install joblib`)."""

import motes
from joblib import Parallel, delayed


def estimate(seed):
    fit = motes.fit(motes.LogisticRegression.wisconsin(), seed=seed, threads=1)
    return seed, fit.verdict, float(fit.theta_mean[0]), float(fit.mc_error[0])


if __name__ == "__main__":
    for seed, verdict, theta, error in Parallel(n_jobs=-1)(delayed(estimate)(seed) for seed in range(1, 9)):
        print(f"seed {seed}: {theta:.4f} with a Monte Carlo error of {error:.4f}, {verdict}")
