"""Several fits of one model, and what they come to together."""

from __future__ import annotations

import json
import os
from functools import cached_property
from typing import Any, Callable, Iterator, Sequence, overload

import numpy as np

from . import _core
from ._arrays import flag, place
from ._result import Asked, Fit, asked, tell_verdict
from ._run import How, Step, attended, how_of, warn_of
from ._told import Told


def _known(values: Any) -> np.ndarray:
    """Numbers as an array; what is not known is NaN."""
    return np.array(values, dtype=np.float64)


class Replicates(Told, Sequence[Fit]):
    """Several fits of one model that differ in seed and start: a sequence of :class:`Fit`, with their pooled results.

    Estimates, standard errors, Monte Carlo errors and intervals are those of the replicates that agree; if not all do, the
    verdict is ``disagree``, and the estimates are those of the highest log-likelihood.

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

    def __reduce__(self) -> Any:
        return type(self), (self._fits, self._count)

    @staticmethod
    def _inside(out: str | None, number: int) -> str | None:
        return None if out is None else os.path.join(out, f"r{number}")

    @staticmethod
    def _label(number: int, count: int) -> str:
        return f"replicate {number} of {count}  "

    def _finished(self, how: How, progress: bool, to: Asked = (None, None, None)) -> "Replicates":
        """Goes on with those that are not complete, or that more is asked of, and fits those that have not begun."""
        fits: list[Fit] = []
        for number in range(1, self._count + 1):
            label = self._label(number, self._count)
            if number <= len(self):
                fit = self[number - 1]
                if not fit.complete or any(value is not None for value in to):
                    fit = fit._longer(to, how, progress, label)
            else:
                inside = self._inside(self._out, number)
                first = fits[0]._run
                run = attended(lambda how: first.replicate(number, inside, how), how, self.model, progress, 0, label)
                fit = type(self[0])(run, self.model)
            fits.append(fit)
            if not fit.complete:
                break
        fits += self._fits[len(fits) :]
        result = type(self)(fits, self._count, self._out)
        if self._out is not None:
            warn_of(_core.pool([fit._run for fit in fits], self._count, self._out, how.report)[1])
        return result

    def __len__(self) -> int:
        return len(self._fits)

    @overload
    def __getitem__(self, index: int) -> Fit: ...

    @overload
    def __getitem__(self, index: slice) -> list[Fit]: ...

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
    def ok(self) -> bool:
        """Whether all replicates are complete, ``ok``, and agree."""
        return self.complete and self.verdict == "ok"

    @property
    def theta(self) -> np.ndarray:
        """The last theta of each replicate, shape (replicates, d_theta)."""
        return np.array([fit.theta for fit in self])

    @property
    def theta_names(self) -> list[str]:
        """A name per parameter."""
        return self[0].theta_names

    @property
    def theta_mean(self) -> np.ndarray:
        """The estimate of theta: the mean over the replicates that agree."""
        return np.mean([fit.theta_mean for fit in self.agreeing], axis=0)

    @property
    def loglik(self) -> np.ndarray:
        """The log-likelihood of each replicate at its own estimate (NaN where it is not known)."""
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
        epochs: int | None = None,
        **others: Any,
    ) -> "Replicates":
        """Goes on with what was interrupted, and fits the replicates that have not begun; or asks more of all of them.

        Parameters are those of :meth:`Fit.resume`.
        """
        strict = flag("strict", strict)
        how = how_of(threads, callback, callback_every, report, budget)
        longer = self._finished(how, progress, asked(steps, tolerance, max_evaluations, epochs, others, self[0]))
        tell_verdict(longer, strict)
        return longer

    def predict_proba(self, X: Any, unknown: str | None = None) -> np.ndarray:
        """Class probabilities averaged over the replicates that agree; see :meth:`Fit.predict_proba`."""
        return np.mean([fit.predict_proba(X, unknown) for fit in self.agreeing], axis=0)

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

    def plot(self, components: int = 4, coordinates: int = 6) -> Any:
        """As :meth:`Fit.plot`, with a line per replicate."""
        from ._plot import plot

        return plot(self._fits, components, coordinates)

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

    def _head(self) -> str:
        """The replicates in a line."""
        return f"{type(self).__name__}({len(self)} x {self[0]._head()})"

    def __repr__(self) -> str:
        return self._head()
