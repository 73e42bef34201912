"""Fitting, and loading what was fitted."""

from __future__ import annotations

import json
import os
import secrets
import textwrap
from typing import TYPE_CHECKING, Any, Callable, overload

import numpy as np

from . import _core
from ._arrays import converted, flag, numbers, place, whole
from ._decoder import DecoderFit, Decoding
from ._generator import Generator, GeneratorFit
from ._models import _Builtin
from ._named import Apart, note_of_precision
from ._named_fit import NamedFit, NamedReplicates
from ._own import Model, NamedModel, _problem
from ._registry import algorithms, models, options_of, refuse_unknown, run_options
from ._replicates import Replicates
from ._result import Fit, tell_verdict
from ._run import How, Step, attended, how_of, table_of, warn, warn_of
from ._settings import Algorithm, More, OfGenerator, Path

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: What `fit` names itself.
_NAMED = {"algorithm", "particles", "steps", "step_size", "burn_in", "seed", "replicates"}
#: Options of a generator that have nothing to do with its images; `lambda` is a word of Python's own.
_OF_GENERATOR = {"sigma", "batchnorm", "epochs", "lambda_", "pictures_every"}


@overload
def fit(
    model: Generator,
    algorithm: Algorithm | None = ...,
    particles: int | None = ...,
    steps: int | None = ...,
    step_size: float | str | None = ...,
    burn_in: int | None = ...,
    seed: int | np.random.Generator | None = ...,
    threads: int | None = ...,
    callback: Callable[[Step], Any] | None = ...,
    progress: bool = ...,
    out: Path | None = ...,
    replicates: None = ...,
    *,
    callback_every: int = ...,
    report: bool = ...,
    budget: float | None = ...,
    strict: bool = ...,
    init: Any = ...,
    **settings: Unpack[OfGenerator],
) -> GeneratorFit: ...


@overload
def fit(
    model: Decoding,
    algorithm: Algorithm | None = ...,
    particles: int | None = ...,
    steps: int | None = ...,
    step_size: float | str | None = ...,
    burn_in: int | None = ...,
    seed: int | np.random.Generator | None = ...,
    threads: int | None = ...,
    callback: Callable[[Step], Any] | None = ...,
    progress: bool = ...,
    out: Path | None = ...,
    replicates: None = ...,
    *,
    callback_every: int = ...,
    report: bool = ...,
    budget: float | None = ...,
    strict: bool = ...,
    init: Any = ...,
    **settings: Any,
) -> DecoderFit: ...


@overload
def fit(
    model: NamedModel,
    algorithm: Algorithm | None = ...,
    particles: int | None = ...,
    steps: int | None = ...,
    step_size: float | str | None = ...,
    burn_in: int | None = ...,
    seed: int | np.random.Generator | None = ...,
    threads: int | None = ...,
    callback: Callable[[Step], Any] | None = ...,
    progress: bool = ...,
    out: Path | None = ...,
    replicates: None = ...,
    *,
    callback_every: int = ...,
    report: bool = ...,
    budget: float | None = ...,
    strict: bool = ...,
    init: Any = ...,
    **settings: Unpack[More],
) -> NamedFit: ...


@overload
def fit(
    model: Model | _Builtin,
    algorithm: Algorithm | None = ...,
    particles: int | None = ...,
    steps: int | None = ...,
    step_size: float | str | None = ...,
    burn_in: int | None = ...,
    seed: int | np.random.Generator | None = ...,
    threads: int | None = ...,
    callback: Callable[[Step], Any] | None = ...,
    progress: bool = ...,
    out: Path | None = ...,
    replicates: None = ...,
    *,
    callback_every: int = ...,
    report: bool = ...,
    budget: float | None = ...,
    strict: bool = ...,
    init: Any = ...,
    **settings: Unpack[More],
) -> Fit: ...


@overload
def fit(
    model: NamedModel,
    algorithm: Algorithm | None = ...,
    particles: int | None = ...,
    steps: int | None = ...,
    step_size: float | str | None = ...,
    burn_in: int | None = ...,
    seed: int | np.random.Generator | None = ...,
    threads: int | None = ...,
    callback: Callable[[Step], Any] | None = ...,
    progress: bool = ...,
    out: Path | None = ...,
    *,
    replicates: int,
    callback_every: int = ...,
    report: bool = ...,
    budget: float | None = ...,
    strict: bool = ...,
    init: Any = ...,
    **settings: Unpack[More],
) -> NamedReplicates: ...


@overload
def fit(
    model: Model | _Builtin,
    algorithm: Algorithm | None = ...,
    particles: int | None = ...,
    steps: int | None = ...,
    step_size: float | str | None = ...,
    burn_in: int | None = ...,
    seed: int | np.random.Generator | None = ...,
    threads: int | None = ...,
    callback: Callable[[Step], Any] | None = ...,
    progress: bool = ...,
    out: Path | None = ...,
    *,
    replicates: int,
    callback_every: int = ...,
    report: bool = ...,
    budget: float | None = ...,
    strict: bool = ...,
    init: Any = ...,
    **settings: Unpack[More],
) -> Replicates: ...


def fit(
    model: Any,
    algorithm: str | None = None,
    particles: int | None = None,
    steps: int | None = None,
    step_size: float | str | None = None,
    burn_in: int | None = None,
    seed: int | np.random.Generator | None = 0,
    threads: int | None = None,
    callback: Callable[[Any], Any] | None = None,
    progress: bool = True,
    out: str | os.PathLike[str] | None = None,
    replicates: int | None = None,
    *,
    callback_every: int = 1,
    report: bool = True,
    budget: float | None = None,
    strict: bool = False,
    init: Any = None,
    **settings: Any,
) -> Any:
    """Fits a model by maximum likelihood with a cloud of particles.

    Settings have the names of the command line's options and its defaults, and the same settings give the same results,
    bit for bit. ``fit.verdict`` says whether the numbers can be trusted; where it is not ``ok``, a
    :class:`VerdictWarning` says why and what to do.

    By default the algorithm is ``auto``, which needs no step size and no number of steps, finds standard errors,
    and ends by itself once theta is known to ``tolerance`` of them: for :class:`Hierarchical`,
    :class:`LogisticRegression`, and a :class:`Model` with a log density and at most 200 parameters that is fitted
    without mini-batches. Other models are fitted by ``pgd``. What an algorithm has no use for is refused.

    Ctrl-C stops a fit within a second and returns what there is: ``Fit.complete`` is then False and ``Fit.resume`` goes on.

    Parameters
    ----------
    model : Model, Hierarchical, LogisticRegression, MultinomialRegression, BayesianNeuralNetwork, Generator, motes.torch.Decoder or motes.jax.Decoder
        The model with its data.
    algorithm : str, optional
        {algorithms}. Each says what it
        needs of the model; a generator takes pgd, abp, short-run or vae.
    particles : int, optional
        The number of particles, by default 32 for auto, else as the model has it. A generator has 10 for each image.
    steps : int, optional
        The number of steps, for all algorithms but auto. A generator has by default 100 epochs.
    step_size : float or "auto", optional
        The step size, for all algorithms but auto; by default it is chosen from the curvature of the posterior (for a
        generator: 1e-4).
    burn_in : int, optional
        Steps left out of the averages; by default half of all.
    seed : int, numpy.random.Generator or None
        The seed of all randomness; None, or a generator, draws one, which ``Fit.settings`` holds.
    threads : int, optional
        Threads to use, by default all. Results do not depend on it.
    callback : callable, optional
        Called with a :class:`Step` after every ``callback_every`` steps; if it returns False, the run stops there.
    progress : bool
        Whether to show progress on stderr.
    out : path, optional
        A run directory to write while the fit goes on, as the command line does. Without it, nothing is written.
    replicates : int, optional
        Fit this many times, with seeds ``seed``, ``seed + 1``, ..., and return :class:`Replicates`. Those of auto, but for
        the first, start from a theta that is scattered around the model's, unless ``init_theta`` is given. With ``out``,
        each has a run directory r1, r2, ... in it.
    callback_every : int
        Steps between calls of the callback.
    report : bool
        Whether to write report.html into ``out``.
    budget : float, optional
        Seconds after which the fit stops, as with Ctrl-C: ``Fit.resume`` goes on.
    strict : bool
        Whether to raise a :class:`VerdictError`, which holds the fit, instead of the warning.
    init : dict, array_like, callable or Fit, optional
        Where theta starts: values by name for a model with named parameters (what is left out starts where it does by default),
        a vector on the free scale, another fit of the same model, or a function of a ``numpy.random.Generator``, which is
        made of the seed, that returns a dict or a vector. In place of ``init_theta``.
    **settings
        As on the command line, with underscores. For a generator also epochs (instead of steps), lambda_ (instead of
        theta_rate), sigma, batchnorm and pictures_every. For every model:

        {settings}

    Returns
    -------
    Fit, Replicates or GeneratorFit
        A :class:`GeneratorFit` is a :class:`Fit` that makes images.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and says what to do.
    FileNotFoundError
        If a file that is named is not there.
    DivergedError
        If the iterates leave every reasonable range or become NaN.
    VerdictError
        If ``strict`` is true and the verdict is not ``ok``.

    Examples
    --------
    >>> import motes
    >>> model = motes.Hierarchical.generate(dim=20)
    >>> fit = motes.fit(model, progress=False)
    >>> fit.verdict, fit.settings["algorithm"]
    ('ok', 'auto')
    >>> low, high = fit.conf_int()[0]
    >>> bool(low < fit.theta_mean[0] < high)
    True

    The paper's algorithms make the steps that they are asked for:

    >>> fit = motes.fit(model, algorithm="pmgd", particles=50, steps=1000, progress=False)
    >>> fit.complete, fit.steps
    (True, 1000)
    """
    strict = flag("strict", strict)
    given = dict(algorithm=algorithm, particles=particles, steps=steps, step_size=step_size, burn_in=burn_in, seed=seed)
    how = how_of(threads, callback, callback_every, report, budget)
    chosen = {**given, **{key.replace("-", "_"): value for key, value in settings.items()}}
    if "lambda" in chosen:
        chosen["lambda_"] = chosen.pop("lambda")
    chosen["seed"] = _seed(chosen["seed"])
    if init is not None:
        if chosen.get("init_theta") is not None:
            raise ValueError("init and init_theta say the same; give one of them")
        chosen["init_theta"] = _start(model, init, chosen["seed"])
    try:
        if isinstance(model, NamedModel) and (note := note_of_precision(model)):
            warn(note)
        result = fitted(model, chosen, how, progress, out, replicates)
    finally:
        Apart.end()
    tell_verdict(result, strict)
    return result


def _seed(seed: Any) -> int:
    """The seed of a run; one is drawn where none is given."""
    if seed is None:
        return secrets.randbits(32)
    return int(seed.integers(1 << 32)) if isinstance(seed, np.random.Generator) else whole("seed", seed)


def _start(model: Any, init: Any, seed: int) -> np.ndarray:
    """Where theta starts, as a free vector."""
    if callable(init) and not isinstance(init, Fit):
        init = init(np.random.default_rng(seed))
    layout = model._named.params if isinstance(model, NamedModel) else None
    if isinstance(init, Fit):
        names, own = init.theta_names, _problem(model).shape()[2]
        if names != own:
            raise ValueError(f"init is a fit with the parameters {', '.join(names[:5])}; give one of the same model")
        return init.theta_mean
    if isinstance(init, dict):
        if layout is None:
            raise ValueError("init is a dict and the model's parameters have no names to find in it; give a vector")
        return layout.start("init", init)
    return numbers("init", np.atleast_1d(converted("init", init, "give a dict, a vector, a callable or a Fit")), 1)


def fitted(
    model: Any,
    settings: dict[str, Any],
    how: How,
    progress: bool,
    out: str | os.PathLike[str] | None,
    replicates: int | None,
) -> Any:
    """Fits a model; the verdict is left to the caller to tell."""
    out = None if out is None else place("out", out)
    generator, decoder = isinstance(model, Generator), isinstance(model, Decoding)
    problem = _problem(model)
    refuse_unknown("fit", settings, set(run_options()) | (_OF_GENERATOR if generator else {"epochs"} if decoder else set()))
    settings = {"seed": 0, **(model._settings(settings) if decoder else settings)}
    if generator:
        if isinstance(settings.get("step_size"), str) and settings["step_size"] == "auto":
            settings["step_size"] = None  # it has the command line's default
        for a, b in (("steps", "epochs"), ("theta_rate", "lambda_")):
            if settings.get(a) is not None and settings.get(b) is not None:
                raise ValueError(f"{a} and {b} say the same in other words; give one of them")
        own = {key.rstrip("_"): settings.pop(key) for key in _OF_GENERATOR & set(settings)}
        problem = problem.with_options(json.dumps(table_of(own, options_of(Generator._model))))
    table = table_of(settings, run_options())

    def run(table: dict[str, Any], out: str | None, label: str = "") -> Fit:
        text = json.dumps(table)
        done = attended(lambda how: _core.fit(problem, text, out, how), how, model, progress, 0, label)
        return _of_model(done, model)

    if replicates is None:
        return run(table, out)
    count = whole("replicates", replicates, 1)
    if count == 1:
        return _several([run(table, out)])
    if out is not None:
        _core.begin_replicates(problem, json.dumps({**table, "replicates": count}), out)
    first = run(table, Replicates._inside(out, 1), Replicates._label(1, count))
    return _several([first], count, out)._finished(how, progress)


def _described(text: str) -> str:
    """The documentation of `fit` with what the table of the command line says."""
    names = list(algorithms())
    described = f"{', '.join(names[:-1])} or {names[-1]}"
    words = textwrap.fill(described, 110, subsequent_indent=" " * 8)
    others = [f"{name} : {option.help}" for name, option in run_options().items() if name not in _NAMED]
    return text.replace("{algorithms}", words).replace("{settings}", ("\n" + " " * 8).join(others))


if fit.__doc__:
    fit.__doc__ = _described(fit.__doc__)


def load(dir: str | os.PathLike[str], model: Model | None = None) -> "Fit | Any":
    """Reads a run directory, whether Python or the command line wrote it. Nothing in it is changed.

    Parameters
    ----------
    dir : path
        The run directory.
    model : Model, optional
        The model, for a run of a model of your own: callables are not saved.

    Returns
    -------
    Fit, GeneratorFit or Replicates
        ``resume`` goes on in the same directory.

    Examples
    --------
    >>> import motes, tempfile
    >>> fit = motes.fit(motes.Hierarchical([1.0, 2.0]), progress=False)
    >>> with tempfile.TemporaryDirectory() as dir:
    ...     fit.save(dir, report=False)
    ...     loaded = motes.load(dir)
    >>> bool((loaded.particles == fit.particles).all())
    True
    """
    where = place("dir", dir)
    config = os.path.join(where, "config.toml")
    if not os.path.exists(where):
        raise FileNotFoundError(f"dir {where} is not there; give a directory that a fit has written")
    if not os.path.isfile(config):
        raise ValueError(f"dir {where} is not a run directory (it has no config.toml); give one that a fit has written")
    problem = None if model is None else _problem(model)
    if isinstance(model, _Builtin):
        problem = None  # its data are named in the config, and checked
    if problem is None:
        name = _core.model_of(config)
        if name not in models():
            raise ValueError(f"{where} is a run of the model {name!r}, which is none of Motes'; give it as model=")
    count = _core.replicates_of(config)
    if count:
        inside = [os.path.join(where, f"r{r}") for r in range(1, count + 1)]
        begun = [place for place in inside if os.path.isfile(os.path.join(place, "config.toml"))]
        if not begun:
            raise ValueError(f"no replicate in {where} has begun; fit them again")
        return _several([load(place, model) for place in begun], count, where)
    run = _core.load(where, problem)
    warn_of(run.notes)
    if model is None:
        classes = {builtin._model: builtin for builtin in _Builtin.__subclasses__()}
        model = classes[run.problem.name]._of(run.problem)
    return _of_model(run, model)


def resume(
    dir: str | os.PathLike[str] | Fit | Replicates, steps: int | None = None, model: Model | None = None, **how: Any
) -> "Fit | Any":
    """Goes on with the run of a directory, as ``motes resume`` does: :func:`load`, and :meth:`Fit.resume`.

    Parameters
    ----------
    dir : path, Fit or Replicates
        The run directory, or a fit.
    steps : int, optional
        The new total number of steps; by default the old one, to finish what was interrupted.
    model : Model, optional
        The model, for a run of a model of your own.
    **how
        tolerance, max_evaluations, budget, strict, threads, callback, progress, callback_every, report: as for
        :meth:`Fit.resume`.

    Returns
    -------
    Fit, GeneratorFit or Replicates

    Examples
    --------
    >>> import motes, tempfile
    >>> model = motes.Hierarchical([1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as dir:
    ...     fit = motes.fit(model, out=dir, progress=False)
    ...     finer = motes.resume(dir, tolerance=0.02, progress=False)
    >>> bool(finer.mc_error[0] < fit.mc_error[0])
    True
    """
    if isinstance(dir, (Fit, Replicates)):
        if model is not None:
            raise ValueError("a fit has its model; leave model out")
        return dir.resume(steps, **how)
    return load(dir, model).resume(steps, **how)


def _of_model(run: _core.Run, model: Any) -> Fit:
    if isinstance(model, Generator):
        return GeneratorFit(run, model)
    if isinstance(model, Decoding):
        return DecoderFit(run, model)
    return NamedFit(run, model) if isinstance(model, NamedModel) else Fit(run, model)


def _several(fits: list[Fit], *more: Any) -> Replicates:
    return (NamedReplicates if isinstance(fits[0], NamedFit) else Replicates)(fits, *more)
