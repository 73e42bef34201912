"""The models that are built in and what can be chosen for them: the table that the command line's flags come from."""

from __future__ import annotations

import difflib
import json
from functools import lru_cache
from typing import Any, Iterable, NamedTuple

from . import _core


class Option(NamedTuple):
    """Something that can be chosen.

    Attributes
    ----------
    help : str
        What it means, and its default.
    value : str
        What stands for its value in the command line's help.
    kind : str
        What values look like: whole, number, text, switch, list or file.
    """

    help: str
    value: str
    kind: str


class ModelInfo(NamedTuple):
    """A model that is built in.

    Attributes
    ----------
    about : str
        What it is.
    options : dict of str to Option
        What can be chosen for it besides the settings of every fit.
    """

    about: str
    options: dict[str, Option]


def _options(table: list[dict[str, str]]) -> dict[str, Option]:
    return {o["name"].replace("-", "_"): Option(o["help"], o["value"], o["kind"]) for o in table}


@lru_cache(maxsize=None)
def _table() -> Any:
    return json.loads(_core.models())


@lru_cache(maxsize=None)
def run_options() -> dict[str, Option]:
    """What can be chosen for a fit of any model."""
    return _options(_table()["run"])


@lru_cache(maxsize=None)
def options_of(model: str) -> dict[str, Option]:
    """A model's own options."""
    return _options(_table()["models"][model]["options"])


def algorithms() -> dict[str, str]:
    """The algorithms and what they are."""
    return {name: a["about"] for name, a in _table()["algorithms"].items()}


#: What other libraries call our settings, and what to say of what we have no need of.
_ELSEWHERE = {
    "random_state": "seed",
    "rng": "seed",
    "n_jobs": "threads",
    "num_chains": "replicates",
    "chains": "replicates",
    "num_particles": "particles",
    "n_particles": "particles",
    "num_steps": "steps",
    "n_iter": "steps",
    "max_iter": "steps",
    "num_samples": "tolerance, which decides how long auto samples; steps for other algorithms",
    "draws": "tolerance, which decides how long auto samples; steps for other algorithms",
    "tune": "burn_in; auto needs none",
    "num_warmup": "burn_in; auto needs none",
    "warmup": "burn_in; auto needs none",
    "lr": "step_size for the particles and theta_rate for the parameters",
    "learning_rate": "step_size for the particles and theta_rate for the parameters",
    "tol": "tolerance",
    "batch_size": "batch",
    "verbose": "progress",
    "progressbar": "progress",
    "progress_bar": "progress",
    "initvals": "init",
    "init_params": "init",
    "timeout": "budget",
    "dtype": "precision",
}


def refuse_unknown(who: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuses settings that there are none of, and says what was meant or where they belong."""
    known = sorted(known)
    for key in given:
        if key in known:
            continue
        owners = [name for name in models() if key in options_of(name)]
        if key in run_options():
            remedy = "give it to motes.fit"
        elif key in _ELSEWHERE:
            remedy = f"its name here is {_ELSEWHERE[key]}"
        elif close := difflib.get_close_matches(key, known, 1):
            remedy = f"did you mean {close[0]}?"
        elif owners:
            remedy = f"it belongs to the model{'s' if len(owners) > 1 else ''} {' and '.join(owners)}"
        else:
            remedy = f"it has {', '.join(known)}"
        raise ValueError(f"{who} has no setting '{key}'; {remedy}")


def models() -> dict[str, ModelInfo]:
    """The built-in models, by their names on the command line.

    Examples
    --------
    >>> import motes
    >>> sorted(motes.models())
    ['bnn', 'generator', 'hierarchical', 'logistic', 'multinomial']
    >>> motes.models()["logistic"].options["prior_variance"].kind
    'number'
    """
    return {name: ModelInfo(m["about"], options_of(name)) for name, m in _table()["models"].items()}
