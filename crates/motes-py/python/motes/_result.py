"""What comes of a fit."""

from __future__ import annotations

import io
import json
import math
import os
from functools import cached_property
from typing import Any, Callable, Optional, Tuple

import numpy as np

from . import _arrays, _core
from ._arrays import finite, flag, place, whole
from ._errors import VerdictError, VerdictWarning
from ._pickled import packed, unpacked
from ._registry import refuse_unknown, run_options
from ._run import How, Ran, Step, attended, columns, how_of, warn, warn_of
from ._told import Told, level_of

#: A total of steps, a tolerance and a number of evaluations that a fit is to go on to.
Asked = Tuple[Optional[int], Optional[float], Optional[int]]


#: What there is to go on to, and how.
_GOING_ON = "steps epochs tolerance max_evaluations budget strict threads callback progress callback_every report".split()


def asked(
    steps: int | None, tolerance: float | None, max_evaluations: int | None, epochs: int | None, others: dict[str, Any], fit: "Fit"
) -> Asked:
    """What a fit is to go on to; refuses what is no number, and names that there are none of."""
    if unfit := [name for name in others if name in run_options()]:
        raise ValueError(f"resume has no setting {unfit[0]!r}, which was settled when the run began; fit again with it")
    refuse_unknown("resume", others, _GOING_ON)
    if epochs is not None:
        if steps is not None:
            raise ValueError("steps and epochs say the same in other words; give one of them")
        steps = whole("epochs", epochs, 1) * fit._epoch()
    total = None if steps is None else whole("steps", steps)
    nearer = None if tolerance is None else finite("tolerance", tolerance)
    return total, nearer, None if max_evaluations is None else whole("max_evaluations", max_evaluations)


class Fit(Told, Ran):
    """A fitted model: estimates of theta with their standard errors, the cloud of particles, and how good they are.

    Made by :func:`fit` and :func:`load`. Shown by itself it is a table of the estimates.

    Examples
    --------
    >>> import motes
    >>> fit = motes.fit(motes.Hierarchical([1.0, 2.0]), progress=False)
    >>> fit.ok, fit.se.shape, fit.conf_int().shape, fit.covariance.shape
    (True, (1,), (1, 2), (1, 1))

    The log-likelihood is that of y ~ N(theta, 2) at its maximum:

    >>> bool(abs(fit.loglik - -2.656) < 0.05)
    True
    """

    #: Settings of a fit of this model alone.
    _own_settings: tuple[str, ...] = ()

    def __init__(self, run: _core.Run, model: Any) -> None:
        self._run = run
        #: The model that was fitted.
        self.model = model

    def __reduce__(self) -> Any:
        return unpacked, packed(self)

    def __copy__(self) -> "Fit":
        return type(self)(self._run, self.model)

    def __deepcopy__(self, _: Any) -> "Fit":
        # Runs never change, and models are not changed.
        return type(self)(self._run, self.model)

    @cached_property
    def _posterior(self) -> dict[str, np.ndarray]:
        with np.load(io.BytesIO(self._run.posterior())) as arrays:
            return {name: arrays[name] for name in arrays.files}

    @cached_property
    def _summary(self) -> dict[str, Any]:
        return json.loads(self._run.summary())

    @property
    def theta(self) -> np.ndarray:
        """The last theta."""
        return np.array(self._run.theta())

    @property
    def theta_mean(self) -> np.ndarray:
        """The estimate of theta: what auto found, or the mean after burn-in (NaN if the run ended before)."""
        mean = self._run.theta_mean()
        return np.full(len(self.theta), np.nan) if mean is None else np.array(mean)

    @property
    def theta_names(self) -> list[str]:
        """A name per parameter."""
        return self._run.problem.shape()[2]

    @property
    def loglik(self) -> float:
        """The log-likelihood log p_theta(y) at the estimate (NaN where it is not known; :meth:`summary` says why).

        That of a :class:`Model` lacks the constants that its log density lacks.
        """
        return self._of_likelihood("value")

    @property
    def loglik_mc_error(self) -> float:
        """The Monte Carlo error of :attr:`loglik`."""
        return self._of_likelihood("mc_error")

    @property
    def aic(self) -> float:
        """Akaike's criterion, 2 d_theta - 2 loglik."""
        return self._of_likelihood("aic")

    @property
    def bic(self) -> float:
        """The Bayesian criterion, d_theta log n - 2 loglik, where n counts groups, or rows where there is one group."""
        return self._of_likelihood("bic")

    @property
    def ok(self) -> bool:
        """Whether the fit is complete and its verdict is ``ok``."""
        return self.complete and self.verdict == "ok"

    @cached_property
    def x_names(self) -> list[str]:
        """A name per latent coordinate of a group."""
        return self._posterior["x_names"].tolist()

    @cached_property
    def group_names(self) -> list[str] | None:
        """A name per group, if there are several."""
        names = self._posterior.get("group_names")
        return None if names is None else names.tolist()

    @cached_property
    def trace(self) -> dict[str, np.ndarray]:
        """The columns of trace.csv: ``k``, a column per parameter, and what else was recorded."""
        return columns(self._run.trace())

    @property
    def theta_trace(self) -> np.ndarray:
        """Theta at each recorded step, shape (rows, d_theta); the first 1,000 components where there are more."""
        return self._posterior["theta"]

    @property
    def particles(self) -> np.ndarray:
        """The last cloud, shape (particles, groups, d_x); one group, or one coordinate of each of several, has no axis."""
        return self._posterior["particles"]

    @property
    def clouds(self) -> np.ndarray:
        """A bounded, thinned set of particles after burn-in, shaped as :attr:`particles`."""
        return self._posterior["clouds"]

    @property
    def clouds_k(self) -> np.ndarray:
        """The step that each row of :attr:`clouds` is from."""
        return self._posterior["clouds_k"].astype(np.int64)

    @property
    def posterior_mean(self) -> np.ndarray:
        """The posterior mean of each latent coordinate (NaN if the run ended before burn-in did)."""
        return self._moment("mean")

    @property
    def posterior_var(self) -> np.ndarray:
        """The posterior variance of each latent coordinate (NaN if the run ended before burn-in did)."""
        return self._moment("var")

    def _moment(self, name: str) -> np.ndarray:
        return self._posterior.get(name, np.full(self.particles.shape[1:], np.nan))

    @property
    def diagnostics(self) -> dict[str, Any]:
        """Effective sample sizes, drift, acceptance, and the verdict with its advice."""
        told = dict(self._summary["diagnostics"])
        if told["advice"] is not None:
            told["advice"] = _core.in_python(told["advice"])
        return told

    @property
    def metrics(self) -> dict[str, float] | None:
        """What the model measures on its test set, by name (``test_error`` and ``lppd`` of classifiers), if it has one."""
        return self._summary["metrics"]

    @property
    def test(self) -> dict[str, Any] | None:
        """How well a classifier tells test rows apart: ``confusion``, the corners of the ``roc`` curve, and ``calibration``."""
        return self._summary["test"]

    @property
    def scalars(self) -> dict[str, float] | None:
        """What the model adds to the trace, by name, as means over the last pass over all groups, if it adds anything."""
        return self._summary["scalars"]

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that was chosen for the run, named as in config.toml: ``motes.fit(model, **fit.settings)`` repeats it.

        What was chosen for the model and its data belongs to ``fit.model``.
        """
        known = {*run_options(), *self._own_settings}
        return {name: value for name, value in self._summary["settings"].items() if name.replace("-", "_") in known}

    @property
    def seconds(self) -> float:
        """The time that the loop took."""
        return self._summary["time"]["seconds"]

    @property
    def burn_in(self) -> int:
        """Steps left out of the averages (0 for auto, which decides by itself)."""
        return self._run.burn_in

    @property
    def path(self) -> str | None:
        """The run directory, if the fit has one."""
        return None if self._run.path is None else os.fspath(self._run.path)

    def summary(self) -> str:
        """Estimates, posterior moments, metrics and verdict as a table to print."""
        return self._run.table()

    def save(self, dir: str | os.PathLike[str], report: bool = True) -> None:
        """Writes a run directory, new or empty, that the command line can report, predict with and resume.

        Data that were given as arrays are written into it as data.csv.

        Parameters
        ----------
        dir : path
            The directory.
        report : bool
            Whether to write report.html too.
        """
        warn_of(self._run.save(place("dir", dir), bool(report)))

    def resume(
        self,
        steps: int | None = None,
        *,
        tolerance: float | None = None,
        max_evaluations: int | None = None,
        budget: float | None = None,
        strict: bool = False,
        threads: int | None = None,
        callback: Callable[[Step], Any] | None = None,
        progress: bool = True,
        callback_every: int = 1,
        report: bool = True,
        epochs: int | None = None,
        **others: Any,
    ) -> "Fit":
        """Goes on: with what was interrupted, to a new total of steps, or by auto to a smaller tolerance.

        The result equals one fit with that number of steps and the same burn-in, or with that tolerance, bit for bit. A fit
        that has a run directory goes on in it, as ``motes resume`` does; another stays in memory.

        Parameters
        ----------
        steps : int, optional
            The new total number of steps; by default the old one, to finish what was interrupted.
        tolerance, max_evaluations : float and int, optional
            A smaller tolerance, or more evaluations, for a fit by auto that has a run directory: it goes on from where
            theta's stage ended.
        budget, strict, threads, callback, progress, callback_every, report
            As for :func:`fit`.
        epochs : int, optional
            The new total of passes over the data, in place of steps, for generators and decoders.

        Returns
        -------
        Fit
            A new one; this one stays as it is.

        Examples
        --------
        >>> import motes
        >>> model = motes.Hierarchical([1.0, 2.0])
        >>> fit = motes.fit(model, progress=False, callback=lambda step: step.k < 20)
        >>> fit
        Fit(hierarchical by auto, 20 sweeps, can be resumed)
        >>> fit.resume(progress=False).ok
        True
        """
        strict = flag("strict", strict)
        how = how_of(threads, callback, callback_every, report, budget)
        longer = self._longer(asked(steps, tolerance, max_evaluations, epochs, others, self), how, progress)
        tell_verdict(longer, strict)
        return longer

    def _epoch(self) -> int:
        """Steps to a pass over all data."""
        raise ValueError("epochs are counted for generators and decoders; give steps, or a smaller tolerance to auto")

    def _longer(self, to: Asked, how: How, progress: bool, label: str = "") -> "Fit":
        """The same further on; its verdict is left to the caller to tell."""
        run = attended(lambda how: self._run.resume(*to, how), how, self.model, progress, self.k, label)
        return type(self)(run, self.model)

    def predict_proba(self, X: Any, unknown: str | None = None) -> np.ndarray:
        """The probability of each class for each row, averaged over the particles.

        Parameters
        ----------
        X : array_like, shape (rows, features)
            Rows as the model was given them; they are standardised if those were. A data frame's columns are taken by
            name, if the model was given named ones.
        unknown : {"reference"}, optional
            Counts words that no training row held as the reference level of their column; they are refused otherwise.

        Returns
        -------
        numpy.ndarray, shape (rows, classes)
            In the order of ``fit.model.classes``.

        Examples
        --------
        >>> import motes
        >>> model = motes.LogisticRegression([[-2.0], [-1.0], [1.0], [2.0]], ["no", "no", "yes", "yes"])
        >>> fit = motes.fit(model, progress=False)
        >>> no, yes = fit.predict_proba([[3.0]])[0]
        >>> bool(yes > no)
        True
        """
        return self._predicted(X, unknown, self._summary["level"])[0]

    def predict_interval(self, X: Any, level: float | None = None, unknown: str | None = None) -> np.ndarray:
        """How sure the probability of each row's likeliest class is: an interval over the particles.

        Parameters
        ----------
        X, unknown
            As for :meth:`predict_proba`.
        level : float, optional
            The share of particles whose probability lies in between; by default that of the fit, 0.95.

        Returns
        -------
        numpy.ndarray, shape (rows, 2)
        """
        return self._predicted(X, unknown, level_of(level, self._summary["level"]))[1]

    def _predicted(self, X: Any, unknown: str | None, level: float) -> tuple[np.ndarray, np.ndarray]:
        classes = self._run.problem.classes()
        if classes is None:
            raise ValueError(f"the model {self._run.problem.name} predicts no classes; fit a classifier")
        if unknown not in (None, "reference"):
            raise ValueError(f"unknown is {unknown!r}; give 'reference' or leave it out")
        wanted = self._run.problem.columns()
        X = _arrays.by_name("X", X, [name for name, _ in wanted])
        features, levels = _arrays.columns("X", X, [is_category for _, is_category in wanted])
        clouds = np.ascontiguousarray(self._posterior[self._summary["predict_with"]], dtype=np.float64)
        flat, intervals = self._run.predict(features, levels, clouds, unknown is not None, level)
        probabilities = flat.reshape(len(features), len(classes))
        if not np.isfinite(probabilities).all():
            row = int(np.argmin(np.isfinite(probabilities).all(axis=1)))
            raise ValueError(f"X has features in row {row} that are too large to predict from; correct them")
        return probabilities, intervals.reshape(len(features), 2)

    def plot(self, components: int = 4, coordinates: int = 6) -> Any:
        """Draws the trace of theta and the posterior of the first latent coordinates; needs matplotlib.

        Parameters
        ----------
        components, coordinates : int
            How many components of theta and how many latent coordinates.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from ._plot import plot

        return plot([self], components, coordinates)

    def to_arviz(self) -> Any:
        """Posterior draws of the latent variables at the estimate for ArviZ (0.x or 1.x); see :meth:`Replicates.to_arviz`."""
        from ._arviz import to_arviz

        return to_arviz([self])

    def _head(self) -> str:
        """The fit in a line."""
        state = "complete" if self.complete else "can be resumed"
        name, algorithm = self._run.problem.name, self._summary["algorithm"]
        length = f"{self.k} sweeps" if self.steps is None else f"{self.k} of {self.steps} steps"
        return f"{type(self).__name__}({name} by {algorithm}, {length}, {state})"

    def __repr__(self) -> str:
        if not self.complete:
            return self._head()
        # The table without what differs from one time to the next: how long it took, and where it is.
        lines = self.summary().strip("\n").split("\n")[1:]
        return "\n".join([self._head(), *(line for line in lines if not line.startswith("  files "))])

    def __str__(self) -> str:
        return self.summary() if self.complete else self._head()


def tell_verdict(result: Any, strict: bool) -> None:
    """Warns of the verdict of what is complete and not ok, or raises."""
    if not result.complete or result.verdict == "ok":
        return
    advice = result.diagnostics["advice"]
    text = f"the verdict is {result.verdict}" + ("" if advice is None else f": {advice}")
    if strict:
        raise VerdictError(text, result)
    warn(text, VerdictWarning)
