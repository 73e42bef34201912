"""Eight seeds on the workers of Dask (`pip install distributed`): here those of one machine, or of a cluster whose scheduler's
address is the first argument."""

import sys

import motes
from distributed import Client


def estimate(seed):
    fit = motes.fit(motes.LogisticRegression.wisconsin(), seed=seed, threads=1)
    return seed, fit.verdict, float(fit.theta_mean[0]), float(fit.mc_error[0])


if __name__ == "__main__":
    with Client(*sys.argv[1:2]) if sys.argv[1:] else Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        for seed, verdict, theta, error in client.gather(client.map(estimate, range(1, 9))):
            print(f"seed {seed}: {theta:.4f} with a Monte Carlo error of {error:.4f}, {verdict}")
