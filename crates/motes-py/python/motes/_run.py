"""How Python starts a run: settings as the command line has them, callbacks, progress and what is told afterwards."""

from __future__ import annotations

import csv
import json
import logging
import math
import os
import re
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, NamedTuple

import numpy as np

from . import _core
from ._arrays import converted, finite, numbers, place, whole
from ._errors import DivergedError
from ._own import Model
from ._progress import Progress
from ._registry import Option


#: Tells when fits begin and how they end; nothing is shown unless somebody listens.
_LOG = logging.getLogger("motes")
_LOG.addHandler(logging.NullHandler())


class Step(NamedTuple):
    """What a callback sees of a step.

    Attributes
    ----------
    k : int
        Steps made so far (sweeps of auto).
    theta : numpy.ndarray
        The parameters.
    step_size : float
        The step size that led here.
    acceptance : float or None
        The fraction of moves accepted, where there was an accept-reject step.
    scalars : dict of str to float
        What the model adds to the trace, such as the ``loss`` of a generator.
    """

    k: int
    theta: np.ndarray
    step_size: float
    acceptance: float | None
    scalars: dict[str, float]


@dataclass
class How:
    """How a run is carried out; results do not depend on it."""

    threads: int | None
    report: bool
    tick: Progress | None
    callback: Callable[..., Any] | None
    callback_every: int
    budget: float | None


#: How settings that are text on the command line are written.
_WRITTEN: dict[str, Callable[[Any], str]] = {
    "grow": lambda v: ",".join(f"{k}:{n}" for k, n in (v.items() if isinstance(v, Mapping) else v)),
    "step_decay": lambda v: ",".join(str(part) for part in v),
    "init_particles": lambda v: repr(float(v)),
}


def _start(value: Any) -> Any:
    """Where theta starts: a number for all components, a list of one for each, or the name of a file of them."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return place("init_theta", value)
    array = converted("init_theta", value, "give a number, one for each parameter, or a file")
    return finite("init_theta", value) if array.ndim == 0 else numbers("init_theta", array, 1).tolist()


def table_of(chosen: Mapping[str, Any], options: Mapping[str, Option]) -> dict[str, Any]:
    """Settings as config.toml has them; `options` says which must be whole."""
    table = {}
    for key, value in chosen.items():
        if isinstance(value, np.generic):
            value = value.item()
        if value is None:
            continue
        if key == "init_theta":
            value = _start(value)
        elif key in _WRITTEN and not isinstance(value, str):
            try:
                value = _WRITTEN[key](value)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{key} is {value!r} ({error}); give it as on the command line") from error
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            number = finite(key, value)
            value = whole(key, value) if key in options and options[key].kind == "whole" else number
        elif not isinstance(value, (str, bool)):
            raise ValueError(f"{key} is {value!r}; give it as on the command line")
        table[key.replace("_", "-")] = value
    return table


def threads_of(threads: int | None) -> int | None:
    """How many threads to use; None for all."""
    if threads is not None and whole("threads", threads, 1) > 1024:
        raise ValueError(f"threads is {threads}; use 1 to 1024, or leave it out")
    return None if threads is None else int(threads)


def how_of(threads: int | None, callback: Any, callback_every: int, report: bool, budget: float | None) -> How:
    if callback is not None and not callable(callback):
        raise ValueError(f"callback is {callback!r}; give a callable")
    wrapped = None if callback is None else lambda *values: callback(Step(*values))
    if budget is not None and finite("budget", budget) <= 0.0:
        raise ValueError(f"budget is {budget!r}; give a positive number of seconds")
    every = whole("callback_every", callback_every, 1)
    return How(threads_of(threads), bool(report), None, wrapped, every, None if budget is None else float(budget))


def attended(
    start: Callable[[How], _core.Run], how: How, model: Any, progress: bool, first: int = 0, label: str = ""
) -> _core.Run:
    """Starts a run, shows its progress and tells how it ended."""
    how.tick = Progress(first, label) if progress else None
    _LOG.info("%s%s: begins", label, model.name)
    try:
        run = start(how)
    except DivergedError as error:
        # A Hessian that cannot be inverted comes without a step size, and says itself what it is.
        if isinstance(model, Model) and math.isnan(error.norm) and not math.isnan(error.step_size):
            hint = _not_finite(model) or "a callable returned NaN, or an infinite value; motes.check_model may tell which"
            message = f"{error} ({hint})"
            raise DivergedError(message, error.step, error.norm, error.step_size, error.suggestion) from None
        raise
    except ValueError as error:
        # Where no start has a finite density, the data may be the reason.
        if "finite" in str(error) and isinstance(model, Model) and (hint := _not_finite(model)):
            raise ValueError(f"{error} ({hint})") from None
        raise
    finally:
        if how.tick is not None:
            how.tick.close()
    told = json.loads(run.summary())
    state = told["diagnostics"]["verdict"] if run.complete else "stopped, can be resumed"
    _LOG.info("%s%s by %s: %s after %d steps and %.3g s", label, model.name, told["algorithm"], state, run.k, told["time"]["seconds"])
    for note in run.notes:
        _LOG.debug("%s%s: %s", label, model.name, note)
    warn_of(run.notes)
    if (run.interrupted or run.out_of_time) and not run.complete:
        place = f"sweep {run.k}" if run.steps is None else f"step {run.k} of {run.steps}"
        why = "interrupted" if run.interrupted else f"the budget of {how.budget:g} s was spent"
        warn(f"{why} after {place}; go on with Fit.resume()")
    return run


def _not_finite(model: Model) -> str | None:
    """Which data of a model with named parameters are no finite numbers."""
    return None if model._named is None else model._named.not_finite()


def warn(text: str, kind: type[Warning] = RuntimeWarning) -> None:
    """Warns at the line outside of this package that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "motes":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


def warn_of(notes: Iterable[str]) -> None:
    """Warns of what the library has to say of a run or its files."""
    for note in notes:
        warn(note)


class Ran:
    """What every fit can say of its run."""

    _run: Any

    @property
    def complete(self) -> bool:
        """Whether all steps were made."""
        return self._run.complete

    @property
    def k(self) -> int:
        """Steps made so far (sweeps of auto)."""
        return self._run.k

    @property
    def steps(self) -> int | None:
        """Steps asked for; None for auto, which ends by itself."""
        return self._run.steps


def columns(trace: bytes) -> dict[str, np.ndarray]:
    """The columns of the text of a trace.csv by name; what was left out is NaN."""
    header, _, body = trace.partition(b"\n")
    names = next(csv.reader([header.decode()]))
    body = re.sub(rb"(?<=,)(?=[,\n])", b"nan", body).replace(b"\n", b",").rstrip(b",")
    values = np.array(body.split(b","), dtype=np.float64) if body else np.empty(0)
    table = dict(zip(names, values.reshape(-1, len(names)).T.copy()))
    table["k"] = table["k"].astype(np.int64)
    return table
