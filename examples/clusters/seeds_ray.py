"""Eight seeds on the workers of Ray (`pip install ray`): those of this machine, or of the cluster that `RAY_ADDRESS` names."""

import motes
import ray


@ray.remote
def estimate(seed):
    fit = motes.fit(motes.LogisticRegression.wisconsin(), seed=seed, threads=1)
    return seed, fit.verdict, float(fit.theta_mean[0]), float(fit.mc_error[0])


if __name__ == "__main__":
    ray.init(include_dashboard=False)
    for seed, verdict, theta, error in ray.get([estimate.remote(seed) for seed in range(1, 9)]):
        print(f"seed {seed}: {theta:.4f} with a Monte Carlo error of {error:.4f}, {verdict}")
