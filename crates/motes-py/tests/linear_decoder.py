"""Where the linear decoder, which is probabilistic PCA, must come to rest by each algorithm, whichever library computes it."""

import numpy as np
from conftest import paper

EIGENVALUES, H, CHAIN = np.array([4.0, 2.5, 0.5]), 0.1, 6


def principal(count=256):
    """Centred data whose sample covariance has exactly these eigenvalues, and its eigenvectors."""
    random = np.random.default_rng(1)
    white = random.normal(size=(count, 3))
    white -= white.mean(axis=0)
    white = np.linalg.qr(white)[0] * np.sqrt(count)
    directions = np.linalg.qr(random.normal(size=(3, 3)))[0]
    return (white * np.sqrt(EIGENVALUES) @ directions.T).astype(np.float32), directions


def ppca(s):
    """w^2 in the direction of eigenvalue s at the maximum of the likelihood."""
    return s - 1


def langevin(s):
    """Where pgd and abp rest at step size h."""
    return s / (1 + H * s / 2) - 1


def short_run(s):
    """Where short-run MCMC rests: the root of c s = v + c^2 w^2 s."""

    def excess(w2):
        p = 1 + w2
        r = 1 - H * p
        c, v = (1 - r**CHAIN) / p, r ** (2 * CHAIN) + 2 * H * (1 - r ** (2 * CHAIN)) / (1 - r * r)
        return c * s - v - c * c * w2 * s

    low, high = 0.0, 2.0 * s
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low


ROWS = {
    "pgd": (3000, dict(particles=16, step_size=H), langevin, ppca),
    "abp": (1000, dict(particles=16, step_size=H, transitions=CHAIN), langevin, ppca),
    "short-run": (1000, dict(particles=16, step_size=H, transitions=CHAIN), short_run, langevin),
    "vae": (4000, dict(particles=16, encoder_rate=0.01), ppca, langevin),
}


def rests(made, algorithm):
    """Fits of the decoders that are made of data and a seed; theta begins with the weights, output by latent."""
    steps, settings, expected, other = ROWS[algorithm]
    data, directions = principal()
    grams = []
    for seed in range(4):
        rate = dict(theta_rate=(0.1 if algorithm == "vae" else 0.05) / len(data), preconditioner="none", batch=128, seed=seed)
        fit = paper(made(data, seed), algorithm, steps=steps, burn_in=steps // 3, **rate, **settings)
        w = directions.T @ fit.theta_trace[steps // 3 :, :6].reshape(-1, 3, 2)
        grams.append((w @ w.transpose(0, 2, 1)).mean(axis=0))
    mean, error = np.mean(grams, axis=0), np.std(grams, axis=0, ddof=1) / np.sqrt(len(grams))
    want = np.diag([expected(4.0), expected(2.5), 0.0])
    size = np.sqrt(np.maximum(np.diag(want), 0.1))
    tolerance = 5 * error + 0.02 * np.outer(size, size)  # few replicates: a t-distribution with 3 degrees of freedom
    assert (error < 0.03 * np.outer(size, size)).all(), error
    assert (abs(mean - want) < tolerance).all(), (mean, want, error)
    # It can fail: another algorithm rests elsewhere.
    apart = [abs(mean[i, i] - other(s)) / tolerance[i, i] for i, s in enumerate([4.0, 2.5])]
    assert max(apart) > 1.5, apart
