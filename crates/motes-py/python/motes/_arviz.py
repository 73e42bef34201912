"""Fits for ArviZ, whichever of its two interfaces is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Sequence, Tuple

import numpy as np

from ._core import __version__
from ._named_fit import NamedFit

if TYPE_CHECKING:
    from ._result import Fit


def to_arviz(fits: Sequence["Fit"]) -> Any:
    """The clouds of fits as chains, what is known of their steps, and their estimates as constants."""
    import arviz

    steps = set.intersection(*(set(_kept(fit)) for fit in fits))
    if not steps:
        raise ValueError("no cloud was kept whole; use keep_clouds=1, or more steps")
    order = sorted(steps)
    groups = {
        "posterior": _posterior(fits, order),
        "sample_stats": _stats(fits, order),
        "constant_data": _constants(fits),
    }
    dims: dict[str, list[str]] = {}
    coords: dict[str, Any] = {"draw": np.array(order)}
    for variables in groups.values():
        for name, (_, axes) in variables.items():
            dims[name] = list(axes)
            coords.update(axes)
    parts: Any = {group: {name: v for name, (v, _) in variables.items()} for group, variables in groups.items() if variables}
    first = fits[0]
    attributes = {
        "inference_library": "motes",
        "inference_library_version": __version__,
        "model": first.model.name,
        "algorithm": first.settings["algorithm"],
        "seed": [fit.settings["seed"] for fit in fits],
        "verdict": [fit.verdict for fit in fits],
        "sampling_time": float(sum(fit.seconds for fit in fits)),
    }
    if arviz.__version__.startswith("0."):
        return arviz.from_dict(**parts, coords=coords, dims=dims, attrs=attributes)
    return arviz.from_dict(parts, coords=coords, dims=dims, attrs={"/": attributes})


def _kept(fit: "Fit") -> list[int]:
    """Steps whose cloud was kept whole and has as many particles as the last one."""
    steps, counts = np.unique(fit.clouds_k, return_counts=True)
    return steps[counts == len(fit.particles)].tolist()


#: Variables by name: the values, and the names of their axes after (chain, draw) with what stands along them.
Variables = Dict[str, Tuple[np.ndarray, Dict[str, Any]]]


def _posterior(fits: Sequence["Fit"], order: list[int]) -> Variables:
    """The latent variables, chain by chain and draw by draw: by name where they have names, on their natural scale."""
    first = fits[0]
    particle = {"particle": np.arange(len(first.particles))}
    group = {} if first.group_names is None else {"group": first.group_names}

    def drawn(of: Any) -> np.ndarray:
        return np.stack([np.stack([of(fit)[fit.clouds_k == k] for k in order]) for fit in fits])

    if isinstance(first, NamedFit):
        layout = first._as.latent
        return {
            name: (drawn(lambda fit: layout.flat(fit.latents)[name].draws), {**particle, **group, **_axes(name, layout.axes[name])})
            for name in layout.parts
        }
    x = drawn(lambda fit: fit.clouds)
    last = {} if x.ndim == 3 + len(group) else {"x_dim": first.x_names}
    return {"x": (x, {**particle, **group, **last})}


def _stats(fits: Sequence["Fit"], order: list[int]) -> Variables:
    """What the traces tell of the steps of the draws."""
    known = {"acceptance": "acceptance_rate", "evaluations": "n_evaluations", "step_size": "step_size"}
    out: Variables = {}
    for column, name in known.items():
        if all(column in fit.trace and set(order) <= set(fit.trace["k"].tolist()) for fit in fits):
            values = [fit.trace[column][np.searchsorted(fit.trace["k"], order)] for fit in fits]
            out[name] = (np.stack(values), {})
    return out


def _constants(fits: Sequence["Fit"]) -> Variables:
    """The estimates, which are no draws, and their standard errors."""
    first = fits[0]
    out: Variables = {}

    def put(name: str, values: list[Any], axes: dict[str, Any]) -> None:
        several = {"replicate": np.arange(len(fits))} if len(fits) > 1 else {}
        out[name] = (np.stack(values) if several else np.asarray(values[0]), {**several, **axes})

    named = [fit for fit in fits if isinstance(fit, NamedFit)]
    if named:
        for name, axes in named[0]._as.params.axes.items():
            put(name, [fit._as.params.flat(fit.params)[name] for fit in named], _axes(name, axes))
            put(f"{name}_se", [fit._as.params.flat(fit.se)[name] for fit in named], _axes(name, axes))
        return out
    put("theta", [fit.theta_mean for fit in fits], {"theta_dim": first.theta_names})
    if len(first.se) == len(first.theta):
        put("theta_se", [fit.se for fit in fits], {"theta_dim": first.theta_names})
    return out


def _axes(name: str, axes: list[list[str]]) -> dict[str, list[str]]:
    return {f"{name}_dim_{i}": words for i, words in enumerate(axes)}
