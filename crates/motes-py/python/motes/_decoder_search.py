"""Latents of data that a decoder was not trained on: those that fit best, and draws from their posterior."""

from __future__ import annotations

from typing import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from . import _core
from ._decoder_network import Network, numbers, summed

#: Values of data that are searched for together: the rest waits, so that memory stays small.
_TOGETHER = 1 << 16
#: The paper's search: Adam from 4 starts, its rate halved on plateaus, given up after 50 steps without a better value.
_STARTS, _GIVE_UP, _PATIENCE = 4, 50, 10
#: What accept-reject steps of Langevin's kind do best with.
_ACCEPTANCE = 0.574

#: Hears how many data are done.
Told = Callable[[int], None]


def log_joint(network: Network, z: Tensor, y: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor]:
    """log p(x, y) of each row of latents (data, particles, latent), of what is seen of y, and its gradient in them."""
    leaf = z.detach().requires_grad_()
    with torch.enable_grad():
        values = network.likelihood.values(network.decoded(leaf), y)
        if seen is not None:
            if values.shape[2:] != y.shape[1:]:
                raise ValueError("likelihood returns one number for each row; let it return one for each value, so that some can be missing")
            values = torch.where(seen.unsqueeze(1), values, torch.zeros_like(values))
        rows = summed(values.to(network.wide)) - 0.5 * leaf.to(network.wide).square().sum(2)
        (gradient,) = torch.autograd.grad(rows.sum(), leaf)
    return rows.detach(), gradient


def best_latents(network: Network, y: Tensor, seen: Tensor | None, steps: int, seed: int, told: Told) -> np.ndarray:
    """The latents with the largest log p(x, y), where y is seen; shape (data, latent)."""
    normals = _core.draw(np.zeros((1, network.latent), np.float32), None, "prior", None, len(y) * _STARTS, seed)
    starts = torch.from_numpy(normals).view(len(y), _STARTS, network.latent)
    found = []
    for part in _parts(y):
        z = starts[part].to(network.device, network.dtype)
        found.append(_climb(network, z, y[part], None if seen is None else seen[part], steps))
        told(min(part.stop, len(y)))
    return numbers(torch.cat(found))


def _parts(y: Tensor) -> Iterator[slice]:
    together = max(1, _TOGETHER // max(1, y[0].numel()))
    return (slice(first, first + together) for first in range(0, len(y), together))


def _climb(network: Network, z: Tensor, y: Tensor, seen: Tensor | None, steps: int) -> Tensor:
    first, second = torch.zeros_like(z), torch.zeros_like(z)
    rate = torch.ones_like(z[..., 0])
    best, best_z = torch.full_like(rate, -torch.inf, dtype=network.wide), z
    level, bad, since = best, torch.zeros_like(rate), torch.zeros_like(rate)
    for k in range(1, steps + 1):
        value, gradient = log_joint(network, z, y, seen)
        better = value > best
        best, best_z = torch.where(better, value, best), torch.where(better.unsqueeze(2), z, best_z)
        # As PyTorch's ReduceLROnPlateau: factor 0.5, relative threshold 1e-4.
        risen = value > level + 1e-4 * level.abs().nan_to_num(posinf=0.0)
        level, bad = torch.where(risen, value, level), torch.where(risen, 0.0, bad + 1)
        since = torch.where(risen, 0.0, since + 1)
        if bool((since >= _GIVE_UP).all()):
            break
        tired = bad > _PATIENCE
        rate, bad = torch.where(tired, (0.5 * rate).clamp(min=1e-5), rate), torch.where(tired, 0.0, bad)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient.square()
        direction = first / (1 - 0.9**k) / ((second / (1 - 0.999**k)).sqrt() + 1e-8)
        z = z + rate.unsqueeze(2) * direction
    which = best.argmax(dim=1)
    return best_z[torch.arange(len(z), device=z.device), which]


def draws(network: Network, y: Tensor, start: np.ndarray, particles: int, steps: int, h: float, seed: int, told: Told) -> np.ndarray:
    """Draws from the posterior of each datum's latents by MALA from `start`; shape (data, particles, latent).

    Each datum has a step size of its own, which is adapted in the first half of the steps.
    """
    randomness = torch.Generator().manual_seed(seed)
    found = []
    for part in _parts(y):
        z = torch.from_numpy(start[part]).to(network.device, network.dtype)
        z = z.unsqueeze(1).expand(-1, particles, -1).contiguous()
        found.append(_mala(network, z, y[part], steps, h, randomness))
        told(min(part.stop, len(y)))
    return numbers(torch.cat(found))


def _mala(network: Network, z: Tensor, y: Tensor, steps: int, h: float, randomness: torch.Generator) -> Tensor:
    log_h = torch.full((len(z), 1, 1), float(np.log(h)), dtype=z.dtype, device=z.device)
    value, gradient = log_joint(network, z, y, None)
    for k in range(1, steps + 1):
        size = log_h.exp()
        noise = torch.randn(z.shape, generator=randomness, dtype=z.dtype).to(z.device)
        there = z + size * gradient + (2 * size).sqrt() * noise
        new_value, new_gradient = log_joint(network, there, y, None)
        back = (z - there - size * new_gradient).square().sum(2) / (4 * size.squeeze(2))
        log_ratio = new_value - value - back + 0.5 * noise.square().sum(2)
        uniform = torch.rand(log_ratio.shape, generator=randomness, dtype=log_ratio.dtype).to(z.device)
        accept = uniform.log() < log_ratio  # never by NaN
        z, gradient = (torch.where(accept.unsqueeze(2), a, b) for a, b in ((there, z), (new_gradient, gradient)))
        value = torch.where(accept, new_value, value)
        if 2 * k <= steps:
            chance = log_ratio.clamp(max=0.0).exp().nan_to_num(nan=0.0).mean(dim=1)
            log_h = log_h + (2.0 * k**-0.6 * (chance - _ACCEPTANCE)).to(z.dtype).view(-1, 1, 1)
    return z
