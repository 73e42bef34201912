"""What comes of a fit."""

from __future__ import annotations

import html
import io
import json
import math
import os
from functools import cached_property
from statistics import NormalDist
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

import numpy as np

from . import _arrays, _core
from ._arrays import finite, flag, place, whole
from ._errors import VerdictError, VerdictWarning
from ._run import How, Ran, Step, attended, columns, how_of, warn, warn_of

#: At most this many parameters are listed in a notebook.
_LISTED = 50

#: A total of steps, a tolerance and a number of evaluations that a fit is to go on to.
_Asked = Tuple[Optional[int], Optional[float], Optional[int]]


def _asked(steps: int | None, tolerance: float | None, max_evaluations: int | None) -> _Asked:
    total = None if steps is None else whole("steps", steps)
    nearer = None if tolerance is None else finite("tolerance", tolerance)
    return total, nearer, None if max_evaluations is None else whole("max_evaluations", max_evaluations)


def _known(values: Any) -> np.ndarray:
    """Numbers as an array; what is not known is NaN."""
    return np.array(values, dtype=np.float64)


class Fit(Ran):
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

    def __init__(self, run: _core.Run, model: Any) -> None:
        self._run = run
        #: The model that was fitted.
        self.model = model

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
    def se(self) -> np.ndarray:
        """The standard error of each parameter, by Louis's identity, for the first 1,000 (NaN where it is not known)."""
        return self._of_theta("se")

    @property
    def mc_error(self) -> np.ndarray:
        """The Monte Carlo error of :attr:`theta_mean`: how far another seed may land (NaN where it is not known)."""
        return self._of_theta("mc_error")

    @property
    def information_share(self) -> np.ndarray:
        """How much of the information that complete data would hold about each parameter the data do hold."""
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
        level = own if level is None else finite("level", level)
        if not 0.0 < level < 1.0:
            raise ValueError(f"level is {level}; give a number between 0 and 1, such as 0.95")
        told = self._summary["theta"]["interval"]
        if level == own and told:
            return np.array([[math.nan] * 2 if pair is None else pair for pair in told], dtype=np.float64)
        half = NormalDist().inv_cdf(0.5 + 0.5 * level) * self.se
        mean = self.theta_mean[: len(half)]
        return np.column_stack([mean - half, mean + half])

    @property
    def loglik(self) -> float:
        """The log-likelihood log p_theta(y) at the estimate (NaN where it is not to be had; :meth:`summary` says why).

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

    def _of_likelihood(self, name: str) -> float:
        value = (self._summary["log_likelihood"] or {}).get(name)
        return math.nan if value is None else value

    @property
    def verdict(self) -> str:
        """``ok``, or what is the matter in a word; ``diagnostics["advice"]`` says what to do about it."""
        return self._summary["diagnostics"]["verdict"]

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
        """Theta at each recorded step, shape (rows, d_theta)."""
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
    def scalars(self) -> dict[str, float] | None:
        """What the model wants in the trace, by name, as means over the last pass over all groups, if it wants anything."""
        return self._summary["scalars"]

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that determined the run, named as in config.toml."""
        return self._summary["settings"]

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
        longer = self._longer(_asked(steps, tolerance, max_evaluations), how, progress)
        tell_verdict(longer, strict)
        return longer

    def _longer(self, asked: "_Asked", how: How, progress: bool, label: str = "") -> "Fit":
        """The same further on; its verdict is left to the caller to tell."""
        run = attended(lambda how: self._run.resume(*asked, how), how, self.model, progress, self.k, label)
        return type(self)(run, self.model)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class for each row, averaged over the particles.

        Parameters
        ----------
        X : array_like, shape (rows, features)
            Rows as the model was given them; they are standardised if those were. A data frame's columns are taken by
            name, if the model was given named ones.

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
        classes = self._run.problem.classes()
        if classes is None:
            raise ValueError(f"the model {self._run.problem.name} predicts no classes; fit a classifier")
        features = _arrays.numbers("X", _arrays.by_name("X", X, self._run.problem.features()), 2)
        clouds = self._posterior[self._summary["predict_with"]]
        flat = self._run.predict(features, np.ascontiguousarray(clouds, dtype=np.float64))
        probabilities = flat.reshape(len(features), len(classes))
        if not np.isfinite(probabilities).all():
            row = int(np.argmin(np.isfinite(probabilities).all(axis=1)))
            raise ValueError(f"X has features in row {row} that are too large to predict from; correct them")
        return probabilities

    def plot(self, **options: Any) -> Any:
        """Draws the trace of theta and the posterior of the first latent coordinates; needs matplotlib.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from ._plot import plot

        return plot([self], **options)

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

    def _repr_html_(self) -> str:
        """The estimates as a table, for notebooks."""
        rows, shown = [], min(len(self.se), _LISTED)
        columns = (self.theta_mean, self.se, *self.conf_int().T, self.mc_error)
        for i, name in enumerate(self.theta_names[:shown]):
            cells = "".join(f"<td>{_digits(column[i])}</td>" for column in columns)
            rows.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
        if len(self.theta_names) > shown:
            rows.append(f"<tr><th>... and {len(self.theta_names) - shown} more</th></tr>")
        percent = f"{100 * self._summary['level']:g} %"
        heads = ("parameter", "estimate", "std. error", f"{percent} from", "to", "MC error")
        head = "".join(f"<th>{word}</th>" for word in heads)
        notes = []
        if not math.isnan(self.loglik):
            told = f"log-likelihood {_digits(self.loglik)} (MC error {_digits(self.loglik_mc_error)})"
            criteria = (("AIC", self.aic), ("BIC", self.bic))
            notes.append(told + "".join(f", {name} {_digits(v)}" for name, v in criteria if not math.isnan(v)))
        advice = self.diagnostics["advice"]
        notes.append(f"verdict {self.verdict}" + ("" if advice is None else f": {advice}"))
        lines = "".join(f"<div>{html.escape(note)}</div>" for note in notes)
        return (
            f"<div>{html.escape(self._head())}</div><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>{lines}"
        )


class Replicates(Sequence[Fit]):
    """Several fits of one model that differ in seed and start: a sequence of :class:`Fit`, and what they come to together.

    Estimates are those of the replicates that agree; if not all do, the verdict is ``disagree``, and the estimates are those
    of the highest log-likelihood.

    Examples
    --------
    >>> import motes
    >>> model = motes.Hierarchical.generate(dim=10)
    >>> fits = motes.fit(model, replicates=3, progress=False)
    >>> len(fits), fits.verdict, fits.r_hat.shape, fits.se.shape
    (3, 'ok', (1,), (1,))
    """

    def __init__(self, fits: Sequence[Fit], count: int | None = None, out: str | None = None) -> None:
        self._fits = list(fits)
        #: How many there are when all have begun.
        self._count = len(self._fits) if count is None else count
        self._out = out
        #: The model that was fitted.
        self.model = self._fits[0].model

    @staticmethod
    def _inside(out: str | None, number: int) -> str | None:
        return None if out is None else os.path.join(out, f"r{number}")

    @staticmethod
    def _label(number: int, count: int) -> str:
        return f"replicate {number} of {count}  "

    def _finished(self, how: How, progress: bool, asked: _Asked = (None, None, None)) -> "Replicates":
        """Goes on with those that are not complete, or that more is asked of, and fits those that have not begun."""
        fits: list[Fit] = []
        for number in range(1, self._count + 1):
            label = self._label(number, self._count)
            if number <= len(self):
                fit = self[number - 1]
                if not fit.complete or any(value is not None for value in asked):
                    fit = fit._longer(asked, how, progress, label)
            else:
                inside = self._inside(self._out, number)
                run = attended(lambda how: fits[0]._run.replicate(number, inside, how), how, self.model, progress, 0, label)
                fit = type(self[0])(run, self.model)
            fits.append(fit)
            if not fit.complete:
                break
        fits += self._fits[len(fits) :]
        result = Replicates(fits, self._count, self._out)
        if self._out is not None:
            warn_of(_core.pool([fit._run for fit in fits], self._count, self._out, how.report)[1])
        return result

    def __len__(self) -> int:
        return len(self._fits)

    def __getitem__(self, index: Any) -> Any:
        return self._fits[index]

    def __iter__(self) -> Iterator[Fit]:
        return iter(self._fits)

    @property
    def complete(self) -> bool:
        """Whether all replicates have begun and made all their steps."""
        return len(self) == self._count and all(fit.complete for fit in self)

    @cached_property
    def _text(self) -> str:
        return _core.pool([fit._run for fit in self], self._count, None, False)[0]

    @cached_property
    def _summary(self) -> dict[str, Any]:
        return json.loads(self._text)

    @cached_property
    def agreeing(self) -> list[Fit]:
        """The replicates that agree: those whose answers are pooled."""
        return [fit for fit, told in zip(self, self._summary["replicates"]["runs"]) if told["pooled"]]

    @property
    def verdict(self) -> str:
        """``ok`` if all replicates are and agree, ``disagree`` if they ended in different places, else what is wrong with one."""
        return self._summary["diagnostics"]["verdict"]

    @property
    def ok(self) -> bool:
        """Whether all replicates are complete, ``ok``, and agree."""
        return self.complete and self.verdict == "ok"

    @property
    def theta(self) -> np.ndarray:
        """The last theta of each replicate, shape (replicates, d_theta)."""
        return np.array([fit.theta for fit in self])

    @property
    def theta_mean(self) -> np.ndarray:
        """The estimate of theta: the mean over the replicates that agree."""
        return np.mean([fit.theta_mean for fit in self.agreeing], axis=0)

    @property
    def se(self) -> np.ndarray:
        """The standard error of each parameter, for the first 1,000 (NaN where it is not known)."""
        told = self._summary["theta"]
        return _known(told["se"] or [math.nan] * len(told["names"]))

    @property
    def mc_error(self) -> np.ndarray:
        """The Monte Carlo error of :attr:`theta_mean` (NaN where it is not known)."""
        told = self._summary["theta"]
        return _known(told["mc_error"] or [math.nan] * len(told["names"]))

    @property
    def loglik(self) -> np.ndarray:
        """The log-likelihood of each replicate at its own estimate (NaN where it is not to be had)."""
        return np.array([fit.loglik for fit in self])

    @property
    def posterior_mean(self) -> np.ndarray:
        """The posterior mean over the replicates that agree."""
        return np.mean([fit.posterior_mean for fit in self.agreeing], axis=0)

    @property
    def posterior_var(self) -> np.ndarray:
        """The posterior variance pooled over the replicates that agree."""
        within = np.mean([fit.posterior_var for fit in self.agreeing], axis=0)
        return within + np.var([fit.posterior_mean for fit in self.agreeing], axis=0)

    @property
    def r_hat(self) -> np.ndarray:
        """R-hat of each theta component; far above 1 means that replicates disagree.

        Split R-hat of the path of theta after burn-in; for auto, whose theta settles, the estimates of the replicates
        against their standard errors.
        """
        return _known(self._summary["replicates"]["r_hat"])

    @property
    def r_hat_x(self) -> np.ndarray:
        """R-hat of each latent coordinate, from the posterior moments of the replicates."""
        means = np.array([fit.posterior_mean for fit in self])
        variances = np.array([fit.posterior_var for fit in self])
        if len(means) < 2:
            return np.full(means.shape[1:], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(1.0 + means.var(axis=0, ddof=1) / variances.mean(axis=0))

    @property
    def diagnostics(self) -> dict[str, Any]:
        """R-hat of theta and x, the verdict of all replicates with its advice, and the verdict of each."""
        advice = self._summary["diagnostics"]["advice"]
        return {
            "verdict": self.verdict,
            "advice": None if advice is None else _core.in_python(advice),
            "r_hat": self.r_hat.tolist(),
            "r_hat_x": self.r_hat_x.tolist(),
            "verdicts": [fit.verdict for fit in self],
        }

    @property
    def path(self) -> str | None:
        """The directory of the replicates, if they have one."""
        return self._out

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
    ) -> "Replicates":
        """Goes on with what was interrupted, and fits the replicates that have not begun; or asks more of all of them.

        Parameters are those of :meth:`Fit.resume`.
        """
        strict = flag("strict", strict)
        how = how_of(threads, callback, callback_every, report, budget)
        longer = self._finished(how, progress, _asked(steps, tolerance, max_evaluations))
        tell_verdict(longer, strict)
        return longer

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities averaged over the replicates that agree; see :meth:`Fit.predict_proba`."""
        return np.mean([fit.predict_proba(X) for fit in self.agreeing], axis=0)

    def summary(self) -> str:
        """Estimates over the replicates that agree, a line for each replicate, and the verdict, as a table to print."""
        return _core.shown(self._text, "none (Replicates.save writes them)" if self._out is None else self._out)

    def save(self, dir: str | os.PathLike[str], report: bool = True) -> None:
        """Writes a run directory r1, r2, ... inside ``dir`` for each, and one summary, as ``motes fit --replicates`` does."""
        where = place("dir", dir)
        if self._count == 1:
            self[0].save(where, report)
            return
        self[0]._run.begin_replicates(self._count, where)
        for number, fit in enumerate(self, 1):
            fit.save(os.path.join(where, f"r{number}"), report)
        warn_of(_core.pool([fit._run for fit in self], self._count, where, report)[1])

    def plot(self, **options: Any) -> Any:
        """As :meth:`Fit.plot`, with a line per replicate."""
        from ._plot import plot

        return plot(self._fits, **options)

    def to_arviz(self) -> Any:
        """Posterior draws of the latent variables at the estimate for ArviZ, replicates as chains.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            ``posterior`` holds ``x`` with dimensions (chain, draw, particle, x_dim), or (chain, draw, particle, group)
            and possibly x_dim where there are several groups; draws are the steps whose clouds were kept. Theta is a
            constant: ``constant_data`` holds the estimate ``theta`` and its standard error ``theta_se`` with dimension
            theta_dim, for replicates (replicate, theta_dim).
        """
        from ._arviz import to_arviz

        return to_arviz(self._fits)

    def __repr__(self) -> str:
        return f"Replicates({len(self)} x {self[0]._head()})"


def _digits(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.5g}"


def tell_verdict(result: Any, strict: bool) -> None:
    """Warns of the verdict of what is complete and not ok, or raises."""
    if not result.complete or result.verdict == "ok":
        return
    advice = result.diagnostics["advice"]
    text = f"the verdict is {result.verdict}" + ("" if advice is None else f": {advice}")
    if strict:
        raise VerdictError(text, result)
    warn(text, VerdictWarning)
