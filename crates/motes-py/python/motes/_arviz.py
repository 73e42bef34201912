"""Fits for ArviZ, whichever of its two interfaces is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

if TYPE_CHECKING:
    from ._result import Fit


def to_arviz(fits: Sequence["Fit"]) -> Any:
    """The clouds of fits as chains, and their estimates of theta as constants."""
    import arviz

    steps = set.intersection(*(set(_kept(fit)) for fit in fits))
    if not steps:
        raise ValueError("no cloud was kept whole; use keep_clouds=1, or more steps")
    order = sorted(steps)
    x = np.stack([np.stack([fit.clouds[fit.clouds_k == k] for k in order]) for fit in fits])
    constants = {"theta": np.stack([fit.theta_mean for fit in fits])}
    if len(fits[0]._of_theta("se")) == len(fits[0].theta):
        constants["theta_se"] = np.stack([fit._of_theta("se") for fit in fits])
    of_theta = ["replicate", "theta_dim"]
    if len(fits) == 1:
        constants, of_theta = {name: values[0] for name, values in constants.items()}, of_theta[1:]
    groups = fits[0].group_names
    axes = ["x_dim"] if groups is None else ["group"] if x.ndim == 4 else ["group", "x_dim"]
    dims = {"x": ["particle", *axes], **{name: of_theta for name in constants}}
    coords = {
        "draw": np.array(order),
        "theta_dim": fits[0].theta_names,
        "x_dim": fits[0].x_names,
        "particle": np.arange(x.shape[2]),
        "group": groups,
        "replicate": np.arange(len(fits)),
    }
    used = {"draw", *(name for axes in dims.values() for name in axes)}
    coords = {name: values for name, values in coords.items() if name in used}
    parts = {"posterior": {"x": x}, "constant_data": constants}
    if arviz.__version__.startswith("0."):
        return arviz.from_dict(**parts, coords=coords, dims=dims)
    return arviz.from_dict(parts, coords=coords, dims=dims)


def _kept(fit: "Fit") -> list[int]:
    """Steps whose cloud was kept whole and has as many particles as the last one."""
    steps, counts = np.unique(fit.clouds_k, return_counts=True)
    return steps[counts == len(fit.particles)].tolist()
