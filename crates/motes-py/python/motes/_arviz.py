"""Fits for ArviZ, whichever of its two interfaces is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

if TYPE_CHECKING:
    from ._result import Fit


def to_arviz(fits: Sequence["Fit"]) -> Any:
    """The clouds and thetas of fits as chains."""
    import arviz

    steps = set.intersection(*(set(_kept(fit)) for fit in fits))
    if not steps:
        raise ValueError("no step was both traced and its cloud kept; use trace_every=1 and keep_clouds=1, or more steps")
    order = sorted(steps)
    thetas, clouds = [], []
    for fit in fits:
        row = {k: i for i, k in enumerate(fit.trace["k"].tolist())}
        kept = fit.clouds_k
        thetas.append(fit.theta_trace[[row[k] for k in order]])
        clouds.append(np.stack([fit.clouds[kept == k] for k in order]))
    posterior = {"theta": np.stack(thetas), "x": np.stack(clouds)}
    d_theta = posterior["theta"].shape[2]
    coords = {
        "draw": np.array(order),
        "theta_dim": fits[0].theta_names[:d_theta],
        "x_dim": fits[0].x_names,
        "particle": np.arange(posterior["x"].shape[2]),
    }
    groups = fits[0].group_names
    axes = ["x_dim"] if groups is None else ["group"] if posterior["x"].ndim == 4 else ["group", "x_dim"]
    if groups is not None:
        coords["group"] = groups
    dims = {"theta": ["theta_dim"], "x": ["particle", *axes]}
    coords = {name: values for name, values in coords.items() if name == "draw" or any(name in d for d in dims.values())}
    if arviz.__version__.startswith("0."):
        return arviz.from_dict(posterior=posterior, coords=coords, dims=dims)
    return arviz.from_dict({"posterior": posterior}, coords=coords, dims=dims)


def _kept(fit: "Fit") -> list[int]:
    """Traced steps whose cloud was kept whole and has as many particles as the last one."""
    steps, counts = np.unique(fit.clouds_k, return_counts=True)
    return [k for k in steps[counts == len(fit.particles)].tolist() if k in set(fit.trace["k"].tolist())]
