"""What the summary of a fit, or of several, says of theta."""

from __future__ import annotations

import html
import math
from statistics import NormalDist
from typing import Any, Callable, NamedTuple

import numpy as np

from ._arrays import finite

#: At most this many parameters are listed in a notebook.
_LISTED = 50


class Estimate(NamedTuple):
    """A row of the table of estimates."""

    name: str
    value: float
    se: float
    low: float
    high: float
    mc_error: float


def level_of(level: float | None, own: float) -> float:
    """The level of intervals: what is asked for, or the fit's own."""
    level = own if level is None else finite("level", level)
    if not 0.0 < level < 1.0:
        raise ValueError(f"level is {level}; give a number between 0 and 1, such as 0.95")
    return level


class Told:
    """What the summary of a fit, or of several, says of theta."""

    theta_mean: Any
    theta_names: Any
    diagnostics: Any
    _summary: Any
    _head: Callable[[], str]

    @property
    def se(self) -> np.ndarray:
        """The standard error of each parameter, by Louis's identity, for the first 1,000 (NaN where it is not known)."""
        return self._of_theta("se")

    @property
    def mc_error(self) -> np.ndarray:
        """The Monte Carlo error of :attr:`theta_mean`: how far another seed may land (NaN where it is not known)."""
        return self._of_theta("mc_error")

    @property
    def information_share(self) -> np.ndarray:
        """For each parameter, the share of the information of complete data that the data hold."""
        return self._of_theta("information_share")

    @property
    def covariance(self) -> np.ndarray | None:
        """The covariance matrix of the estimate; None where it is not known, or above 200 parameters."""
        matrix = self._summary["theta"]["covariance"]
        return None if matrix is None else np.array(matrix, dtype=np.float64)

    def _of_theta(self, name: str) -> np.ndarray:
        told = self._summary["theta"]
        return np.array(told[name] or [math.nan] * len(told["names"]), dtype=np.float64)

    def conf_int(self, level: float | None = None) -> np.ndarray:
        """Confidence intervals of the parameters, from their standard errors.

        Parameters
        ----------
        level : float, optional
            Between 0 and 1; by default that of the fit, which is 0.95 unless it was given ``level``.

        Returns
        -------
        numpy.ndarray, shape (d_theta, 2)
            The lower and the upper end of each; NaN where the standard error is not known.
        """
        own = self._summary["level"]
        level = level_of(level, own)
        told = self._summary["theta"]["interval"]
        if level == own and told:
            return np.array([[math.nan] * 2 if pair is None else pair for pair in told], dtype=np.float64)
        half = NormalDist().inv_cdf(0.5 + 0.5 * level) * self.se
        mean = self.theta_mean[: len(half)]
        return np.column_stack([mean - half, mean + half])

    @property
    def verdict(self) -> str:
        """``ok``, or a word for what is wrong; ``diagnostics["advice"]`` says what to do about it."""
        return self._summary["diagnostics"]["verdict"]

    @property
    def coefficients(self) -> dict[str, np.ndarray] | None:
        """The coefficients of a regression, the columns of coefficients.csv: ``pandas.DataFrame(fit.coefficients)`` is a table.

        ``name``, ``mean``, ``sd``, ``low`` and ``high`` (the interval at the fit's level), ``total_sd`` with theta's uncertainty
        and ``sign_probability`` are on the scale of the columns of X; those that begin with ``standardised_`` are for
        features of mean 0 and standard deviation 1. Several classes have a column ``class``. None for other models.
        """
        return _columns(self._summary["coefficients"])

    def _of_likelihood(self, name: str) -> float:
        value = (self._summary["log_likelihood"] or {}).get(name)
        return math.nan if value is None else value

    def _estimates(self) -> list[Estimate]:
        """What is known of each parameter that is listed."""
        columns = (self.theta_names, self.theta_mean, self.se, *self.conf_int().T, self.mc_error)
        return [Estimate(*row) for row in zip(*columns)]

    def _repr_html_(self) -> str:
        """The estimates as a table, for notebooks."""
        rows, estimates = [], self._estimates()
        for name, *numbers in estimates[:_LISTED]:
            cells = "".join(f"<td>{digits(number)}</td>" for number in numbers)
            rows.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
        if len(self.theta_mean) > _LISTED:
            rows.append(f"<tr><th>... and {len(self.theta_mean) - _LISTED} more</th></tr>")
        percent = f"{100 * self._summary['level']:g} %"
        heads = ("parameter", "estimate", "std. error", f"{percent} from", "to", "MC error")
        head = "".join(f"<th>{word}</th>" for word in heads)
        notes = []
        value, error, aic, bic = map(self._of_likelihood, ("value", "mc_error", "aic", "bic"))
        if not math.isnan(value):
            told = f"log-likelihood {digits(value)} (MC error {digits(error)})"
            notes.append(told + "".join(f", {name} {digits(v)}" for name, v in (("AIC", aic), ("BIC", bic)) if not math.isnan(v)))
        advice = self.diagnostics["advice"]
        notes.append(f"verdict {self.verdict}" + ("" if advice is None else f": {advice}"))
        lines = "".join(f"<div>{html.escape(note)}</div>" for note in notes)
        return (
            f"<div>{html.escape(self._head())}</div><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>{lines}"
        )


def _columns(rows: list[dict[str, Any]] | None) -> dict[str, np.ndarray] | None:
    """Columns of coefficients from the rows of a summary."""
    if rows is None:
        return None
    columns: dict[str, list[Any]] = {}

    def put(name: str, value: Any) -> None:
        columns.setdefault(name, []).append(math.nan if value is None else value)

    for row in rows:
        if row["class"] is not None:
            put("class", row["class"])
        put("name", row["name"])
        for prefix, effect in (("", row), ("standardised_", row["standardised"])):
            low, high = effect["interval"] or (None, None)
            for name, value in (("mean", effect["mean"]), ("sd", effect["sd"]), ("low", low), ("high", high)):
                put(prefix + name, value)
            put(prefix + "total_sd", effect["total_sd"])
            if not prefix:
                put("sign_probability", row["sign_probability"])
    return {name: np.array(values) for name, values in columns.items()}


def digits(value: float, count: int = 5) -> str:
    """A number as tables show it."""
    return "-" if math.isnan(value) else f"{value:.{count}g}"
