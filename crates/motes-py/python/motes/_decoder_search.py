"""Latents of data that a decoder was not trained on: those that fit best, and draws from their posterior.

Only latents are worked with here, in NumPy: a network answers on its own device, whichever library computes it.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Iterator

import numpy as np

from . import _core
from ._decoder_shared import AnyNetwork

#: Values of data that are searched for together: the rest waits, so that memory stays small.
_TOGETHER = 1 << 16
#: The paper's search: Adam from 4 starts, its rate halved on plateaus, given up after 50 steps without a better value.
_STARTS, _GIVE_UP, _PATIENCE = 4, 50, 10
#: What accept-reject steps of Langevin's kind do best with.
_ACCEPTANCE = 0.574

#: Hears how many data are done.
Told = Callable[[int], None]
#: log p(x, y) of each row of latents (data, particles, latent), and its gradient in them.
Joint = Callable[[np.ndarray], "tuple[np.ndarray, np.ndarray]"]


def best_latents(network: AnyNetwork, y: Any, seen: np.ndarray | None, steps: int, seed: int, told: Told) -> np.ndarray:
    """The latents with the largest log p(x, y), where y is seen; shape (data, latent)."""
    normals = _core.draw(np.zeros((1, network.latent), np.float32), None, "prior", None, len(y) * _STARTS, seed)
    starts: np.ndarray = normals.reshape(len(y), _STARTS, network.latent).astype(_precision(network))
    found = []
    for part in _parts(y):
        target, there = y[part], None if seen is None else seen[part]
        found.append(_climb(lambda z: network.log_joint(z, target, there), starts[part], steps))
        told(min(part.stop, len(y)))
    return np.concatenate(found).astype(np.float64)


def _precision(network: AnyNetwork) -> type:
    return np.float32 if network.single else np.float64


def _parts(y: Any) -> Iterator[slice]:
    together = max(1, _TOGETHER // max(1, math.prod(y.shape[1:])))
    return (slice(first, first + together) for first in range(0, len(y), together))


@np.errstate(invalid="ignore", over="ignore")  # what is not finite is never better, and never accepted
def _climb(joint: Joint, z: np.ndarray, steps: int) -> np.ndarray:
    first, second = np.zeros_like(z), np.zeros_like(z)
    rate = np.ones_like(z[..., 0])
    best, best_z = np.full(rate.shape, -np.inf), z
    level, bad, since = best, np.zeros_like(rate), np.zeros_like(rate)
    for k in range(1, steps + 1):
        value, gradient = joint(z)
        better = value > best
        best, best_z = np.where(better, value, best), np.where(better[..., None], z, best_z)
        # As PyTorch's ReduceLROnPlateau: factor 0.5, relative threshold 1e-4.
        risen = value > level + 1e-4 * np.where(np.isfinite(level), np.abs(level), 0.0)
        level, bad = np.where(risen, value, level), np.where(risen, 0.0, bad + 1)
        since = np.where(risen, 0.0, since + 1)
        if (since >= _GIVE_UP).all():
            break
        tired = bad > _PATIENCE
        rate, bad = np.where(tired, np.maximum(0.5 * rate, 1e-5), rate), np.where(tired, 0.0, bad)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        direction = first / (1 - 0.9**k) / (np.sqrt(second / (1 - 0.999**k)) + 1e-8)
        z = (z + rate[..., None] * direction).astype(z.dtype, copy=False)
    return best_z[np.arange(len(z)), best.argmax(axis=1)]


def draws(network: AnyNetwork, y: Any, start: np.ndarray, particles: int, steps: int, h: float, seed: int, told: Told) -> np.ndarray:
    """Draws from the posterior of each datum's latents by MALA from `start`; shape (data, particles, latent).

    Each datum has a step size of its own, which is adapted in the first half of the steps.
    """
    randomness = np.random.default_rng(seed)
    found = []
    for part in _parts(y):
        z: np.ndarray = start[part, None].astype(_precision(network)).repeat(particles, axis=1)
        target = y[part]
        found.append(_mala(lambda z: network.log_joint(z, target, None), z, steps, h, randomness))
        told(min(part.stop, len(y)))
    return np.concatenate(found).astype(np.float64)


@np.errstate(invalid="ignore", over="ignore")
def _mala(joint: Joint, z: np.ndarray, steps: int, h: float, randomness: np.random.Generator) -> np.ndarray:
    log_h = np.full((len(z), 1, 1), math.log(h))
    value, gradient = joint(z)
    for k in range(1, steps + 1):
        size = np.exp(log_h)
        noise = randomness.standard_normal(z.shape)
        there = (z + size * gradient + np.sqrt(2 * size) * noise).astype(z.dtype)
        new_value, new_gradient = joint(there)
        back = ((z - there - size * new_gradient) ** 2).sum(axis=2) / (4 * size[..., 0])
        log_ratio = new_value - value - back + 0.5 * (noise**2).sum(axis=2)
        accept = np.log1p(-randomness.uniform(size=log_ratio.shape)) < log_ratio  # never by NaN
        z, gradient = (np.where(accept[..., None], a, b) for a, b in ((there, z), (new_gradient, gradient)))
        value = np.where(accept, new_value, value)
        if 2 * k <= steps:
            chance = np.nan_to_num(np.exp(np.minimum(log_ratio, 0.0)), nan=0.0).mean(axis=1)
            log_h += (2.0 * k**-0.6 * (chance - _ACCEPTANCE))[:, None, None]
    return z
