"""Models of your own, given by callables, and the check of their derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, Sequence

import numpy as np

from . import _arrays
from ._core import Problem, check as _check, trace_columns
from ._registry import models


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
        curvature: float | None = None,
        default_step_size: float = 0.01,
    ) -> None:
        self.d_theta, self.d_x = _arrays.whole("d_theta", d_theta, 1), _arrays.whole("d_x", d_x, 1)
        pieces = {
            "gradients": gradients,
            "log_density": log_density,
            "hessian": hessian,
            "statistics": statistics,
            "m_step": m_step,
            "prior": prior,
        }
        for piece, f in pieces.items():
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
        self._statistics_len = 0 if statistics is None else _width(statistics, self.d_x)
        self._problem = Problem.of_callables(self)

    @classmethod
    def from_jax(cls, log_density: Callable[..., Any], d_theta: int, d_x: int, **options: Any) -> "Model":
        """A model whose derivatives JAX derives from the log density alone.

        Gradients and theta-Hessian come from ``jax.grad`` and ``jax.hessian``, vectorised by ``jax.vmap`` and compiled,
        in double precision whatever the global setting of JAX.

        Parameters
        ----------
        log_density : callable
            ``g(theta, x) -> scalar`` for a single particle ``x`` of shape ``(d_x,)``, written with ``jax.numpy``; with
            ``data_terms``, ``g(theta, x, batch=None)``.
        d_theta, d_x : int
            The number of parameters and of latent coordinates.
        **options
            The other arguments of :class:`Model`, such as ``names``, ``prior`` or ``m_step``.

        Examples
        --------
        >>> import motes
        >>> jnp = __import__("pytest").importorskip("jax.numpy")
        >>> y = [1.2, 0.3, 2.5, 1.9]
        >>> def log_density(theta, x):
        ...     return -0.5 * jnp.sum((x - theta) ** 2 + (jnp.array(y) - x) ** 2)
        >>> motes.check_model(motes.Model.from_jax(log_density, 1, 4)).ok
        True
        """
        import jax

        enable = getattr(jax, "enable_x64", None)
        if enable is None:
            from jax.experimental import enable_x64 as enable

        def compiled(f: Callable[..., Any]) -> Callable[..., Any]:
            jitted = jax.jit(lambda theta, x, *batch: jax.vmap(lambda one: f(theta, one, *batch))(x))

            def call(theta: np.ndarray, x: np.ndarray, *batch: Any) -> Any:
                with enable(True):
                    return jitted(theta, x, *batch)

            return call

        pieces = {
            "gradients": compiled(jax.grad(log_density, argnums=(0, 1))),
            "log_density": compiled(log_density),
            "hessian": compiled(jax.hessian(log_density)),
        }
        return cls(d_theta, d_x, **{**pieces, **options})

    @classmethod
    def from_torch(cls, log_density: Callable[..., Any], d_theta: int, d_x: int, **options: Any) -> "Model":
        """A model whose derivatives PyTorch derives from the log density alone, by ``torch.func``.

        Parameters
        ----------
        log_density : callable
            ``g(theta, x) -> scalar`` for a single particle ``x`` of shape ``(d_x,)``, of double-precision tensors; with
            ``data_terms``, ``g(theta, x, batch=None)``.
        d_theta, d_x : int
            The number of parameters and of latent coordinates.
        **options
            The other arguments of :class:`Model`.

        Examples
        --------
        >>> import motes
        >>> torch = __import__("pytest").importorskip("torch")
        >>> y = torch.tensor([1.2, 0.3, 2.5, 1.9], dtype=torch.float64)
        >>> def log_density(theta, x):
        ...     return -0.5 * ((x - theta) ** 2 + (y - x) ** 2).sum()
        >>> motes.check_model(motes.Model.from_torch(log_density, 1, 4)).ok
        True
        """
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

        pieces = {
            "gradients": vectorised(torch.func.grad(log_density, argnums=(0, 1))),
            "log_density": vectorised(log_density),
            "hessian": vectorised(torch.func.hessian(log_density)),
        }
        return cls(d_theta, d_x, **{**pieces, **options})

    def __repr__(self) -> str:
        return f"Model({self.name!r}, d_theta={self.d_theta}, d_x={self.d_x})"


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
    """Compares every derivative that a model gives with finite differences of what it derives from.

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
    return Checks(Check(*row) for row in _check(_problem(model), _arrays.whole("seed", seed)))


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


def _width(statistics: Callable[..., Any], d_x: int) -> int:
    value = _arrays.converted("statistics", statistics(np.full((1, d_x), 0.5)), "return an array of shape (n, k)")
    if value.ndim == 1 and value.shape == (1,):
        return 1
    if value.ndim != 2 or value.shape[0] != 1 or value.shape[1] == 0:
        raise ValueError(f"statistics returned shape {value.shape} for one particle; return an array of shape (n, k)")
    return value.shape[1]
