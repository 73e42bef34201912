"""The types of a fit's settings, for editors and type checkers; :func:`motes.fit` says what they mean."""

from __future__ import annotations

import os
from typing import Any, Literal, Mapping, Sequence, Tuple, TypedDict, Union

#: The names of the algorithms.
Algorithm = Literal[
    "auto",
    "pgd",
    "ipla",
    "kiplmc",
    "pqn",
    "pmgd",
    "soul",
    "em",
    "mean-field",
    "marginal-mh",
    "joint-mh",
    "abp",
    "short-run",
    "vae",
]
#: What a setting that is a path may be.
Path = Union[str, "os.PathLike[str]"]


class More(TypedDict, total=False):
    """Settings that :func:`motes.fit` takes by name alone."""

    tolerance: float | None
    max_evaluations: int | None
    step_decay: str | Tuple[float, float] | None
    grow: str | Mapping[int, int] | Sequence[Tuple[int, int]] | None
    preconditioner: Literal["none", "diagonal", "adagrad", "rmsprop", "adam"] | None
    adjust: bool | None
    adjust_after: int | None
    joint_update: Literal["pgd", "pqn"] | None
    warm_start: str | None
    batch: int | None
    transitions: int | None
    friction: float | None
    encoder_rate: float | None
    theta_rate: float | None
    variational_adam: bool | None
    init_theta: Any
    init_particles: float | str | None
    precision: Literal["f32", "f64"] | None
    no_assess: bool | None
    level: float | None
    trace_every: int | None
    metrics_every: int | None
    keep_clouds: int | None
    checkpoint_every: int | None


class OfGenerator(More, total=False):
    """Settings of a generator."""

    epochs: int | None
    lambda_: float | None
    sigma: float | None
    batchnorm: str | None
    pictures_every: int | None


class Settings(More, total=False):
    """The settings of a fit, to write down and pass on: ``motes.fit(model, **settings)``.

    Examples
    --------
    >>> import motes
    >>> quick: motes.Settings = {"tolerance": 0.2, "particles": 16, "progress": False}
    >>> motes.fit(motes.Hierarchical([1.0, 2.0]), **quick).ok
    True
    """

    algorithm: Algorithm | None
    particles: int | None
    steps: int | None
    step_size: float | Literal["auto"] | None
    burn_in: int | None
    seed: Any
    threads: int | None
    callback: Any
    progress: bool
    out: Path | None
    callback_every: int
    report: bool
    budget: float | None
    strict: bool
    init: Any
