"""What comes of a fit of a model with named parameters: everything by name, on its natural scale."""

from __future__ import annotations

import math
from functools import cached_property
from statistics import NormalDist
from typing import Any, overload

import numpy as np

from ._constraints import Elementwise, Real, derivative
from ._named import Named
from ._replicates import Replicates
from ._result import Fit
from ._told import Estimate, Told, digits, level_of


def _any_size() -> Any:
    """Before a fit has settled, numbers may be of any size; what they come to then is infinite, and no warning helps."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


class Latents:
    """The posterior of one named latent at the estimate, for each group.

    Attributes
    ----------
    draws : numpy.ndarray, shape (draws, groups, ...)
        Particles of the posterior stage, on the natural scale; without the axis of groups where the latents are shared.
    groups : list of str or None
        The names of the groups.
    """

    def __init__(self, fit: "NamedFit", name: str) -> None:
        self._fit, self._name = fit, name
        self.groups = fit.group_names if fit._as.groups is not None else None

    @cached_property
    def draws(self) -> np.ndarray:
        layout, clouds = self._fit._as.latent, self._fit.clouds
        part = layout.parts[self._name]
        free = clouds.reshape(-1, layout.free)[:, layout.slices[self._name]]
        lead = (len(clouds),) if self._fit._as.groups is None else (len(clouds), -1)
        return part.many(free.astype(np.float64)).reshape((*lead, *part.shape))

    def mean(self) -> np.ndarray:
        """The posterior mean of each group."""
        return self._moment("posterior_mean", lambda draws: draws.mean(axis=0))

    def var(self) -> np.ndarray:
        """The posterior variance of each group, at the estimate of the parameters."""
        return self._moment("posterior_var", lambda draws: draws.var(axis=0))

    def sd(self) -> np.ndarray:
        """The posterior standard deviation of each group."""
        return np.sqrt(self.var())

    def quantile(self, q: Any) -> np.ndarray:
        """Quantiles over :attr:`draws`, as ``numpy.quantile`` gives them."""
        return np.quantile(self.draws, q, axis=0)

    def _moment(self, name: str, of: Any) -> np.ndarray:
        layout = self._fit._as.latent
        part = layout.parts[self._name]
        if not isinstance(part, Real):
            return of(self.draws)
        # Streamed over all clouds, not only over those that were kept.
        all_groups = getattr(self._fit, name).reshape(-1, layout.free)[:, layout.slices[self._name]]
        lead = () if self._fit._as.groups is None else (-1,)
        return all_groups.reshape((*lead, *part.shape))

    def __repr__(self) -> str:
        return f"Latents({self._name!r}, draws of shape {self.draws.shape})"


class _ByName(Told):
    """Estimates by name, on their natural scale."""

    model: Any

    @property
    def _as(self) -> Named:
        return self.model._named

    @property
    def params(self) -> dict[str, Any]:
        """The estimates by name, on their natural scale."""
        with _any_size():
            return self._named_values(self._as.params.flat(self._as.params.natural(self.theta_mean)))

    @property
    def se(self) -> dict[str, Any]:  # type: ignore[override]
        """Standard errors by name, on the natural scale, by the delta method (NaN where they are not known)."""
        with _any_size():
            return self._spread("se", self.covariance)

    @property
    def mc_error(self) -> dict[str, Any]:  # type: ignore[override]
        """Monte Carlo errors of :attr:`params` by name."""
        with _any_size():
            return self._spread("mc_error", None)

    def _spread(self, name: str, covariance: np.ndarray | None) -> dict[str, Any]:
        """What is told of the first 1,000 parameters, on the natural scale, and NaN for others."""
        layout, told, out = self._as.params, self._of_theta(name), {}
        told = np.concatenate([told, np.full(layout.free - len(told), np.nan)])
        for part_name, part in layout.parts.items():
            own = layout.slices[part_name]
            z = self.theta_mean[own]
            if isinstance(part, Elementwise):
                out[part_name] = (np.abs(derivative(lambda v: part.each(v, np), z)) * told[own]).reshape(part.shape)
                continue
            block = np.diag(told[own] ** 2) if covariance is None else covariance[own, own]
            to = np.stack([derivative(lambda v: part.natural(v, np), z, e).reshape(-1) for e in np.eye(part.free)], axis=1)
            out[part_name] = np.sqrt(np.einsum("ij,jk,ik->i", to, block, to)).reshape(part.shape)
        return self._named_values(out)

    def _named_values(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values of parts in the tree that the model was given."""
        return self._as.params.nested({name: float(v) if np.ndim(v) == 0 else np.asarray(v) for name, v in values.items()})

    def conf_int(self, level: float | None = None) -> dict[str, np.ndarray]:  # type: ignore[override]
        """Confidence intervals by name, with a last axis of length 2: made on a scale without bounds and mapped back.

        Parameters
        ----------
        level : float, optional
            Between 0 and 1; by default that of the fit, which is 0.95 unless it was given ``level``.
        """
        level = level_of(level, self._summary["level"])
        width, out, errors, params = NormalDist().inv_cdf(0.5 + 0.5 * level), {}, *map(self._as.params.flat, (self.se, self.params))
        for name, part in self._as.params.parts.items():
            values, spread = np.ravel(params[name]), np.ravel(errors[name])
            ends = np.stack([values, values], axis=1)
            for link, where in part.links():
                # What is fixed, as the first entry of a Cholesky factor, has no interval.
                where = where[spread[where] != 0.0]
                with _any_size():
                    half = width * spread[where] * np.abs(derivative(link.to, values[where]))
                    middle = link.to(values[where])
                    ends[where] = np.stack([link.back(middle - half), link.back(middle + half)], axis=1)
            out[name] = ends.reshape(*part.shape, 2)
        return self._as.params.nested(out)

    def _estimates(self) -> list[Estimate]:
        rows, layout = [], self._as.params
        values = [layout.flat(told) for told in (self.params, self.se, self.conf_int(), self.mc_error)]
        for name, part in layout.parts.items():
            flat = [np.reshape(v[name], (len(layout.labels[name]), -1)) for v in values]
            for label, value, error, ends, mc in zip(layout.labels[name], *flat):
                if error[0] != 0.0 or math.isnan(error[0]):
                    rows.append(Estimate(label, value[0], error[0], ends[0], ends[1], mc[0]))
        return rows

    def summary(self) -> str:
        """Estimates on their natural scale, then everything on the scale on which Motes works, as tables to print."""
        if all(isinstance(part, Real) for part in self._as.params.parts.values()):
            return super().summary()  # type: ignore[misc]
        rows = self._estimates()
        wide = max(9, *(len(row.name) for row in rows))
        percent = f"{100 * self._summary['level']:g} % interval"
        head = f"  {'parameter':{wide}}  {'estimate':>11}  {'std. error':>11}  {percent:>26}  {'MC error':>9}"
        lines = [head]
        for row in rows:
            ends = f"{digits(row.low, 4)} to {digits(row.high, 4)}"
            numbers = (digits(row.value, 4), digits(row.se, 4), ends, digits(row.mc_error, 2))
            lines.append("  {:{}}  {:>11}  {:>11}  {:>26}  {:>9}".format(row.name, wide, *numbers))
        first, *rest = super().summary().strip("\n").split("\n")  # type: ignore[misc]
        told = ["", first, "", *lines, "", "  on the scale without bounds, on which Motes works:", *rest, ""]
        return "\n".join(told) + "\n"


class NamedFit(_ByName, Fit):
    """A fit of a model with named parameters: :attr:`params`, :attr:`se` and the like are dicts of arrays.

    Numbers are on the natural scale; standard errors come there by the delta method, and intervals are made on a scale
    without bounds (the logarithm of what is positive) and mapped back. ``theta_mean``, ``covariance`` and the run directory's
    files are on the free scale, on which Motes works.

    Examples
    --------
    >>> import jax.numpy as jnp, motes, numpy as np
    >>> y = np.array([1.2, 0.3, 2.5, 1.9])
    >>> def log_joint(p, u, row):
    ...     return -0.5 * ((u["u"] - p["mu"]) ** 2 + (row["y"] - u["u"]) ** 2)
    >>> model = motes.Model.from_jax(log_joint, params={"mu": motes.Real()}, latent={"u": ()}, data={"y": y}, groups=4)
    >>> fit = motes.fit(model, progress=False)
    >>> bool(abs(fit.params["mu"] - y.mean()) < 0.2 * fit.se["mu"]), fit.latents["u"].mean().shape
    (True, (4,))
    """

    @property
    def latents(self) -> dict[str, Latents]:
        """The posterior of each named latent at the estimate."""
        return self._as.latent.nested({name: Latents(self, name) for name in self._as.latent.parts})


class NamedReplicates(_ByName, Replicates):
    """Replicates of a model with named parameters: :attr:`params`, :attr:`se` and the like are dicts, as those of :class:`NamedFit`."""

    @overload  # type: ignore[override]
    def __getitem__(self, index: int) -> NamedFit: ...

    @overload
    def __getitem__(self, index: slice) -> list[NamedFit]: ...

    def __getitem__(self, index: Any) -> Any:
        return self._fits[index]
