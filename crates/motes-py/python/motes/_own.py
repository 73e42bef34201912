"""Models of your own, given by callables, and the check of their derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, Sequence, overload

import numpy as np

from . import _arrays, _named
from ._constraints import Constraint
from ._core import Problem, check as _check, trace_columns
from ._pickled import Missing
from ._registry import models


#: The callables of a model.
_PIECES = ("gradients", "log_density", "hessian", "statistics", "m_step", "prior")


class Model:
    """A latent variable model given by callables that are vectorised over a block of particles.

    Each callable gets ``theta`` of shape ``(d_theta,)`` and particles ``x`` of shape ``(n, d_x)``, both NumPy arrays of
    its own to keep, and may return anything that NumPy can read: its own arrays, JAX's, or PyTorch's. Callables are
    called from one thread at a time, which is not the main thread.

    Parameters
    ----------
    d_theta, d_x : int
        The number of parameters and of latent coordinates.
    gradients : callable
        ``f(theta, x) -> (grad_theta, grad_x)`` of shapes ``(n, d_theta)`` and ``(n, d_x)``: the gradients of
        l(theta, x) = log p_theta(x, y) at each particle.
    log_density : callable, optional
        ``g(theta, x) -> (n,)``, l itself; for auto, standard errors and accept-reject steps, and to check the gradients.
        A constant may be left out: it is then missing from the log-likelihood too.
    hessian : callable, optional
        ``H(theta, x) -> (n, d_theta, d_theta)``, the theta-Hessian of l; for pqn. auto takes differences of gradients
        without it.
    statistics, m_step : callable, optional
        ``s(x) -> (n, k)`` and ``m(mean) -> (d_theta,)``: the maximiser in theta from the mean of the statistics over
        the particles; for pmgd, which maximises numerically without them.
    prior : callable, optional
        ``p(theta, z) -> (n, d_x)`` turns standard normals into draws from the prior, where particles of auto start
        (without it, at standard normals); for others, with ``init_particles="prior"``.
    names : sequence of str or dict, optional
        Names of the parameters, or ``{"theta": [...], "x": [...]}``.
    name : str
        What the model is called in messages and files.
    start : array_like, shape (d_theta,), optional
        Where theta starts unless ``init_theta`` says otherwise; by default at zero.
    theta_terms : array_like, optional
        The number of terms in each component of the theta-gradient; for ``preconditioner="diagonal"``.
    groups : int or sequence of str, optional
        The number M of groups, or a name for each, if l is a sum over groups (or single data) that have latents of their
        own: ``d_x`` is then the number of latents of one group, x has shape ``(B, n, d_x)`` for B groups with n
        particles each, callables get the numbers of these groups as their last argument, and what they return has two
        leading axes ``(B, n)``. Mini-batches are of groups.
    scores : bool
        Whether theta-gradients come particle by particle. With False they come summed over all particles, with shape
        ``(d_theta,)``: less memory for large models, but neither auto nor standard errors.
    data_terms : int, optional
        The number M of exchangeable data terms, for mini-batches (``fit(..., batch=B)``): ``gradients`` and ``hessian``
        are then called with a third argument, the numbers of the batch's terms (their sum to be rescaled by M/B), or
        None for all.
    curvature : float, optional
        The largest eigenvalue of the negative x-Hessian of l at its mode; ``step_size="auto"`` is at most half of 1 over it.
    default_step_size : float
        The step size that ``"auto"`` never exceeds.

    Examples
    --------
    The toy model x_i ~ N(theta, 1), y_i ~ N(x_i, 1):

    >>> import motes, numpy as np
    >>> y = np.array([1.2, 0.3, 2.5, 1.9])
    >>> def gradients(theta, x):
    ...     return (x - theta).sum(axis=1, keepdims=True), (y - x) - (x - theta)
    >>> def log_density(theta, x):
    ...     return -0.5 * ((x - theta) ** 2 + (y - x) ** 2).sum(axis=1)
    >>> model = motes.Model(1, 4, gradients, log_density)
    >>> motes.check_model(model).ok
    True
    >>> fit = motes.fit(model, progress=False)
    >>> fit.verdict, bool(abs(fit.theta_mean[0] - y.mean()) < 0.2 * fit.se[0])
    ('ok', True)
    """

    def __init__(
        self,
        d_theta: int,
        d_x: int,
        gradients: Callable[..., Any],
        log_density: Callable[..., Any] | None = None,
        hessian: Callable[..., Any] | None = None,
        statistics: Callable[..., Any] | None = None,
        m_step: Callable[..., Any] | None = None,
        prior: Callable[..., Any] | None = None,
        names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        *,
        name: str = "own",
        start: Any = None,
        theta_terms: Any = None,
        data_terms: int | None = None,
        groups: int | Sequence[str] | None = None,
        scores: bool = True,
        curvature: float | None = None,
        default_step_size: float = 0.01,
        _named_as: _named.Named | None = None,
        _evaluate: Callable[..., Any] | None = None,
    ) -> None:
        self.d_theta, self.d_x = _arrays.whole("d_theta", d_theta, 1), _arrays.whole("d_x", d_x, 1)
        for piece, f in zip(_PIECES, (gradients, log_density, hessian, statistics, m_step, prior)):
            if not callable(f) and (f is not None or piece == "gradients"):
                raise ValueError(f"{piece} is {f!r}; give a callable")
            setattr(self, piece, f)
        if (statistics is None) != (m_step is None):
            raise ValueError("statistics and m_step belong together; give both or neither")
        if not isinstance(name, str) or not name or "\n" in name or "/" in name:
            raise ValueError(f"name is {name!r}; give a word")
        if name in models():
            raise ValueError(f"name {name!r} is that of a built-in model; choose another")
        self.name = name
        of = names if isinstance(names, Mapping) else {"theta": names}
        if unknown := set(of) - {"theta", "x"}:
            raise ValueError(f"names has the keys {sorted(unknown)}; give 'theta' and 'x'")
        self.theta_names = _names("names of theta", of.get("theta"), self.d_theta, "theta")
        if taken := [n for n in self.theta_names if n in trace_columns()]:
            raise ValueError(f"names of theta has {taken[0]!r}, which is a column of every trace's own; choose another")
        self.x_names = _names("names of x", of.get("x"), self.d_x, "x")
        self.groups, self.group_names = _named.groups_of(groups)
        if self.groups is not None and data_terms is not None:
            raise ValueError("groups and data_terms do not go together: mini-batches are of groups; leave data_terms out")
        self.scores = _arrays.flag("scores", scores)
        #: Parameters and latents by name, if the model has them.
        self._named, self._evaluate = _named_as, _evaluate
        self._single = bool(getattr(_evaluate, "single", False))
        self.start: list[float] | None = None
        if start is not None:
            given = _arrays.converted("start", start, "give a number for each parameter")
            self.start = _arrays.numbers("start", np.atleast_1d(given), 1).tolist()
            if len(self.start) != self.d_theta:
                raise ValueError(f"start has {len(self.start)} values; give one for each of {self.d_theta} parameters")
        self.theta_terms: list[float] | None = None
        if theta_terms is not None:
            given = _arrays.converted("theta_terms", theta_terms, "give a number for each parameter")
            terms = _arrays.numbers("theta_terms", np.atleast_1d(given), 1)
            if len(terms) not in (1, self.d_theta):
                raise ValueError(f"theta_terms has {len(terms)} values; give one, or one for each of {self.d_theta} parameters")
            self.theta_terms = np.broadcast_to(terms, (self.d_theta,)).tolist()
        self.data_terms = None if data_terms is None else _arrays.whole("data_terms", data_terms, 1)
        self.curvature = None if curvature is None else _arrays.finite("curvature", curvature)
        self.default_step_size = _arrays.finite("default_step_size", default_step_size)
        if self.default_step_size <= 0.0:
            raise ValueError(f"default_step_size is {default_step_size}; give a positive number")
        self._statistics_len = 0 if statistics is None else _width(statistics, self.d_x, self.groups is not None)
        #: By which a run knows the data and the groups again, as far as there are any to see.
        self._sha256: str | None = None
        if _named_as is not None and (_named_as.data or self.groups is not None):
            self._sha256 = _arrays.digest(_named_as.data, None if self.groups is None else self.group_names)
        elif groups is not None:
            self._sha256 = _arrays.digest({}, self.group_names)
        self._exact: Callable[[], Model] | None = None
        self._recipe: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None
        self._problem = Problem.of_callables(self)

    #: What a model says of itself in config files, as JSON.
    _options = "{}"

    def __reduce__(self) -> Any:
        if self._recipe is not None:
            return _made, self._recipe
        state = {key: value for key, value in vars(self).items() if key not in ("_problem", "_exact")}
        return _revived, (type(self), state)

    def _without_callables(self) -> "Model":
        """The same as far as it can be known without them, for a fit that is read elsewhere."""
        state = {**vars(self), "_exact": None, "_recipe": None}
        state.update({piece: Missing(piece) for piece in (*_PIECES, "_evaluate") if state[piece] is not None})
        if self._named is not None:
            state["_named"] = self._named.described()
        return _revived(type(self), state)

    @overload
    @classmethod
    def from_jax(cls, log_joint: Callable[..., Any], d_theta: int, d_x: int, **options: Any) -> "Model": ...

    @overload
    @classmethod
    def from_jax(
        cls,
        log_joint: Callable[..., Any],
        *,
        params: Mapping[str, Any],
        latent: Any,
        data: Mapping[str, Any] | None = ...,
        groups: int | Sequence[Any] | None = ...,
        coords: Mapping[str, Any] | None = ...,
        x64: bool | None = ...,
        **options: Any,
    ) -> "NamedModel": ...

    @classmethod
    def from_jax(
        cls,
        log_joint: Callable[..., Any],
        d_theta: int | None = None,
        d_x: int | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        latent: Any = None,
        data: Mapping[str, Any] | None = None,
        groups: int | Sequence[Any] | None = None,
        coords: Mapping[str, Any] | None = None,
        x64: bool | None = None,
        **options: Any,
    ) -> "Model":
        """A model given by its log density, which JAX differentiates.

        Everything is vectorised by ``jax.vmap`` and compiled. Data are arguments of the compiled functions, not
        constants in them.

        Parameters
        ----------
        log_joint : callable
            ``log_joint(p, u, row) -> scalar``, log p(u, y) of one group (without ``groups``: of all data), written with
            ``jax.numpy``: ``p`` holds the parameters by name and ``u`` the latents of the group by name, both in their
            natural form; ``row`` holds the group's data by name. A constant may be left out: it is then missing from the
            log-likelihood too. With ``d_theta`` and ``d_x`` in place of ``params`` and ``latent``:
            ``log_joint(theta, x) -> scalar`` of two vectors.
        params : dict
            Names and constraints: ``motes.Real(4)``, ``motes.Positive()``, and so on. A shape stands for real numbers. Dicts may
            hold dicts, and lists of constraints: ``p``, ``fit.params`` and the like then have the same form, and tables
            and ``coords`` have names with dots.
        latent : dict or shape
            The same for the latents of one group. If it is not a dict, ``u`` is one array.
        data : dict of array_like, optional
            Arrays whose first axis runs over the groups. :func:`by_group` makes them of rows.
        groups : int or sequence of str, optional
            The number of groups, or their names; without it, all data share the latents.
        coords : dict, optional
            Names for the entries of arrays: ``{"beta": ["1", "x1"]}``; a list of lists for several axes.
        x64 : bool, optional
            Whether JAX computes in double precision; by default as JAX is set, which is single precision unless
            somebody set ``jax_enable_x64``. The values of groups are added up in double precision either way.
        **options
            The other arguments of :class:`Model`, such as ``name``; ``prior(p, z) -> u`` turns standard normals, by name, into
            draws from the prior.

        Examples
        --------
        Random intercepts, u_g ~ N(mu, sd^2) and y_gi ~ N(u_g, 1):

        >>> import jax.numpy as jnp, motes, numpy as np
        >>> y = np.random.default_rng(0).normal(2.0, 1.0, (50, 3)) + np.random.default_rng(1).normal(0, 1.5, (50, 1))
        >>> def log_joint(p, u, row):
        ...     prior = -0.5 * ((u["u"] - p["mu"]) / p["sd"]) ** 2 - jnp.log(p["sd"])
        ...     return prior - 0.5 * jnp.sum((row["y"] - u["u"]) ** 2)
        >>> model = motes.Model.from_jax(
        ...     log_joint, params={"mu": motes.Real(), "sd": motes.Positive()}, latent={"u": ()}, data={"y": y}, groups=50
        ... )
        >>> fit = motes.fit(model, progress=False)
        >>> fit.verdict, bool(abs(fit.params["mu"] - y.mean()) < 0.2 * fit.se["mu"])
        ('ok', True)
        """
        x64 = None if x64 is None else _arrays.flag("x64", x64)
        given = (log_joint, d_theta, d_x, params, latent, data, groups, coords)
        model = cls._derived(given, lambda named: _named.jax_evaluate(named, x64), options, jax=True)
        model._recipe = (cls.from_jax, given[:3], {**_by_name(given), "x64": x64, **options})
        return model

    @overload
    @classmethod
    def from_torch(cls, log_joint: Callable[..., Any], d_theta: int, d_x: int, **options: Any) -> "Model": ...

    @overload
    @classmethod
    def from_torch(
        cls,
        log_joint: Callable[..., Any],
        *,
        params: Mapping[str, Any],
        latent: Any,
        data: Mapping[str, Any] | None = ...,
        groups: int | Sequence[Any] | None = ...,
        coords: Mapping[str, Any] | None = ...,
        **options: Any,
    ) -> "NamedModel": ...

    @classmethod
    def from_torch(
        cls,
        log_joint: Callable[..., Any],
        d_theta: int | None = None,
        d_x: int | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        latent: Any = None,
        data: Mapping[str, Any] | None = None,
        groups: int | Sequence[Any] | None = None,
        coords: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> "Model":
        """A model given by its log density, which PyTorch differentiates by ``torch.func``.

        Parameters
        ----------
        log_joint, d_theta, d_x, params, latent, data, groups, coords, **options
            As for :meth:`from_jax`, with tensors. They have the dtype of the data's first tensor of floating point, or
            double precision, and are on its device, which does the evaluating.

        Examples
        --------
        >>> import motes, torch
        >>> y = torch.tensor([1.2, 0.3, 2.5, 1.9], dtype=torch.float64)
        >>> def log_joint(theta, x):
        ...     return -0.5 * ((x - theta) ** 2 + (y - x) ** 2).sum()
        >>> motes.check_model(motes.Model.from_torch(log_joint, 1, 4)).ok
        True
        """
        given = (log_joint, d_theta, d_x, params, latent, data, groups, coords)
        model = cls._derived(given, _named.torch_evaluate, options, jax=False)
        model._recipe = (cls.from_torch, given[:3], {**_by_name(given), **options})
        return model

    @classmethod
    def _derived(cls, given: tuple[Any, ...], of: Callable[..., Any], options: dict[str, Any], jax: bool) -> "Model":
        """A model of one density; `of` makes callables of it."""
        log_joint, d_theta, d_x, params, latent, data, groups, coords = given
        if params is None and latent is None:
            if d_theta is None or d_x is None:
                raise ValueError("params and latent are missing; give dicts of names and constraints, or d_theta and d_x")
            if any(part is not None for part in (data, groups, coords)):
                raise ValueError("data, groups and coords go with params and latent; give these in place of d_theta and d_x")
            return cls._of_vectors(log_joint, d_theta, d_x, options, jax)
        if d_theta is not None or d_x is not None:
            raise ValueError("params and latent say what d_theta and d_x would; leave these out")
        named = _named.Named(log_joint, params, latent, data, groups, coords)
        for taken in ("names", "start", "data_terms", "statistics", "m_step"):
            if options.get(taken) is not None:
                remedy = {"names": "use coords", "start": "give init to the constraints"}.get(taken, "leave it out")
                raise ValueError(f"{taken} does not go with params and latent; {remedy}")
        evaluate, prior = of(named)
        if callable(options.get("prior")):
            _named.refuse_prior_of_constrained(named)
            options = {**options, "prior": prior(options["prior"])}

        def asked(*want: str) -> Callable[..., Any]:
            def call(theta: Any, x: Any, *groups: Any) -> Any:
                answers = evaluate(theta, x, *(groups or (None,)), want)
                return answers if len(want) > 1 else answers[0]

            return call

        pieces: dict[str, Any] = {
            "gradients": asked("scores", "grad_x"),
            "log_density": asked("log_density"),
            "hessian": asked("hessian"),
            "names": {"theta": named.params.free_names, "x": named.latent.free_names},
            "start": named.params.default(),
            "groups": None if named.groups is None else named.group_names,
        }
        own: dict[str, Any] = {"_named_as": named, "_evaluate": evaluate}
        kind = cls if issubclass(cls, NamedModel) else NamedModel
        model = kind(named.params.free, named.latent.free, **pieces, **options, **own)
        # Differences tell little in single precision.
        model._exact = (lambda: cls._derived(given, lambda named: _named.jax_evaluate(named, True), options, True)) if jax else None
        return model

    @classmethod
    def _of_vectors(cls, log_density: Callable[..., Any], d_theta: int, d_x: int, options: dict[str, Any], jax: bool) -> "Model":
        """A model of a density of two vectors, in double precision."""
        compiled, grad, hessian = _by_jax() if jax else _by_torch()
        pieces = {
            "gradients": compiled(grad(log_density, argnums=(0, 1))),
            "log_density": compiled(log_density),
            "hessian": compiled(hessian(log_density)),
        }
        return cls(d_theta, d_x, **{**pieces, **options})

    def __repr__(self) -> str:
        return f"Model({self.name!r}, d_theta={self.d_theta}, d_x={self.d_x})"


class NamedModel(Model):
    """A :class:`Model` with named parameters and latents, made by :meth:`Model.from_jax` and :meth:`Model.from_torch`."""

    _named: _named.Named

    @property
    def params(self) -> dict[str, Constraint]:
        """The parameters and their constraints, by name."""
        return self._named.params.nested(self._named.params.parts)

    @property
    def latent(self) -> dict[str, Constraint]:
        """The latents of a group and their constraints, by name."""
        return self._named.latent.nested(self._named.latent.parts)

    def __repr__(self) -> str:
        parts = ["{" + ", ".join(f"{n!r}: {c!r}" for n, c in of.items()) + "}" for of in (self.params, self.latent)]
        groups = "" if self.groups is None else f", groups={self.groups}"
        return f"NamedModel({self.name!r}, params={parts[0]}, latent={parts[1]}{groups})"


@dataclass(frozen=True)
class Check:
    """The worst disagreement found for one piece of a model.

    Attributes
    ----------
    piece : str
        Which piece.
    error : float
        The largest error, relative to the size of the terms that are compared.
    place : str
        Where it is and what was found there.
    ok : bool
        Whether the piece is right as far as finite differences can tell.
    """

    piece: str
    error: float
    place: str
    ok: bool


class Checks(List[Check]):
    """The checks of all pieces of a model; prints as a table."""

    @property
    def ok(self) -> bool:
        """Whether every piece is right."""
        return all(check.ok for check in self)

    def __repr__(self) -> str:
        lines = [f"{'piece':34}  {'worst error':>12}  verdict"]
        for c in self:
            lines.append(f"{c.piece:34}  {c.error:12.1e}  {'ok' if c.ok else 'WRONG: ' + c.place}")
        return "\n".join(lines)


def check_model(model: Any, seed: int = 0) -> Checks:
    """Compares every derivative that a model gives with finite differences.

    Without a log density, the gradients are checked against each other: their mixed second derivatives must agree.

    Parameters
    ----------
    model : Model or a built-in model
        The model.
    seed : int
        The seed of the random points.

    Returns
    -------
    Checks
        A list of :class:`Check`, which prints as a table and whose ``ok`` tells whether all passed.

    Examples
    --------
    >>> import motes
    >>> def gradients(theta, x):
    ...     return x - theta, 2 * (theta - x)  # the second is wrong by a factor of 2
    >>> checks = motes.check_model(motes.Model(1, 1, gradients, lambda theta, x: -0.5 * ((x - theta) ** 2)[:, 0]))
    >>> [c.piece for c in checks if not c.ok]
    ['x-gradient']
    """
    exact = getattr(model, "_exact", None)
    try:
        return Checks(Check(*row) for row in _check(_problem(exact() if exact else model), _arrays.whole("seed", seed)))
    finally:
        _named.Apart.end()


def _by_name(given: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("params", "latent", "data", "groups", "coords"), given[3:]))


def _made(how: Callable[..., Model], given: tuple[Any, ...], options: dict[str, Any]) -> Model:
    return how(*given, **options)


def _revived(cls: type[Model], state: dict[str, Any]) -> Model:
    model = cls.__new__(cls)
    vars(model).update({"_exact": None, **state})
    model._problem = Problem.of_callables(model)
    return model


def _by_jax() -> tuple[Any, Any, Any]:
    """How JAX vectorises a function of theta and one particle, and how it derives one."""
    import jax

    apart = _named.Apart(True)

    def compiled(f: Callable[..., Any]) -> Callable[..., Any]:
        jitted = jax.jit(lambda theta, x, *batch: jax.vmap(lambda one: f(theta, one, *batch))(x))
        return lambda theta, x, *batch: apart(lambda: jitted(theta, x, *batch))

    return compiled, jax.grad, jax.hessian


def _by_torch() -> tuple[Any, Any, Any]:
    """The same for PyTorch."""
    import torch

    def vectorised(f: Callable[..., Any]) -> Callable[..., Any]:
        def call(theta: np.ndarray, x: np.ndarray, *batch: Any) -> Any:
            rest = [None if b is None else torch.from_numpy(b) for b in batch]
            at = torch.from_numpy(theta)
            out = torch.func.vmap(lambda one: f(at, one, *rest))(torch.from_numpy(x))
            if isinstance(out, tuple):
                return tuple(part.detach().cpu().numpy() for part in out)
            return out.detach().cpu().numpy()

        return call

    return vectorised, torch.func.grad, torch.func.hessian


def _problem(model: Any) -> Problem:
    problem = getattr(model, "_problem", None)
    if not isinstance(problem, Problem):
        raise ValueError(f"model is {model!r}; give a motes.Model or one of the built-in models")
    return problem


def _names(what: str, given: Sequence[str] | None, count: int, letter: str) -> list[str]:
    if given is None and count == 1 and letter == "theta":
        return ["theta"]
    if given is None:
        return [f"{letter}[{i}]" for i in range(count)]
    return _arrays.names(what, given, count, letter)


def _width(statistics: Callable[..., Any], d_x: int, grouped: bool) -> int:
    if grouped:
        told = statistics(np.full((1, 1, d_x), 0.5), np.zeros(1, dtype=np.int64))
        value = _arrays.converted("statistics", told, "return an array of shape (groups, n, k)")
        if value.ndim != 3 or value.shape[:2] != (1, 1) or value.shape[2] == 0:
            shape = value.shape
            raise ValueError(f"statistics returned shape {shape} for one particle; return an array of shape (groups, n, k)")
        return value.shape[2]
    value = _arrays.converted("statistics", statistics(np.full((1, d_x), 0.5)), "return an array of shape (n, k)")
    if value.ndim == 1 and value.shape == (1,):
        return 1
    if value.ndim != 2 or value.shape[0] != 1 or value.shape[1] == 0:
        raise ValueError(f"statistics returned shape {value.shape} for one particle; return an array of shape (n, k)")
    return value.shape[1]
