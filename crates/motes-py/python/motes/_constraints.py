"""What values a parameter or a latent variable may take, and its map from the free scale on which Motes works."""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable, Sequence

import numpy as np

from . import _arrays


class Link:
    """A scale for the interval of one number: `to` leads there, `back` from there."""

    def __init__(self, to: Callable[[Any], Any], back: Callable[[Any], Any]) -> None:
        self.to, self.back = to, back


_IDENTITY = Link(lambda v: v, lambda v: v)
_LOG = Link(np.log, np.exp)
_ATANH = Link(np.arctanh, np.tanh)


def _logit(low: float, high: float) -> Link:
    def back(v: Any) -> Any:
        return low + (high - low) * _sigmoid(np, v)

    return Link(lambda v: np.log((v - low) / (high - v)), back)


def _sigmoid(xp: Any, v: Any) -> Any:
    return 0.5 * (1.0 + xp.tanh(0.5 * v))


def _log_sigmoid(xp: Any, v: Any) -> Any:
    """log(sigmoid(v)), without overflow."""
    return xp.where(v < 0, v, 0.0 * v) - xp.log1p(xp.exp(-xp.abs(v)))


class Constraint:
    """The values that a named array may take.

    ``shape`` is its shape, ``free`` the number of numbers on the free scale. Maps are written for any array library: NumPy,
    ``jax.numpy`` or PyTorch.
    """

    shape: tuple[int, ...] = ()
    free: int = 1
    init: Any = None

    def natural(self, z: Any, xp: Any) -> Any:
        """The value of a free vector."""
        raise NotImplementedError

    def many(self, z: np.ndarray) -> np.ndarray:
        """The values of the rows of a matrix."""
        return np.moveaxis(np.asarray(self.natural(z.T, np)), -1, 0)

    def log_jacobian(self, z: Any, xp: Any) -> Any:
        """The logarithm of the volume that :meth:`natural` gives a unit of the free scale."""
        raise NotImplementedError

    def to_free(self, value: np.ndarray) -> np.ndarray:
        """The free vector of a value."""
        raise NotImplementedError

    def why_not(self, value: np.ndarray) -> str | None:
        """What keeps a finite value of the right shape from being one of these."""
        return None

    def links(self) -> list[tuple[Link, np.ndarray]]:
        """Scales for intervals, and which numbers of the flat value each is for."""
        return [(_IDENTITY, np.arange(int(np.prod(self.shape, dtype=int))))]

    def free_names(self, name: str, labels: Sequence[str]) -> list[str]:
        """Names of the free numbers, where labels are those of the natural ones."""
        return list(labels) if self.free == len(labels) else [f"{name}~{i}" for i in range(self.free)]

    def start(self, what: str, value: Any) -> np.ndarray:
        """The free vector of a value that somebody gave; a number stands for all."""
        array = np.asarray(_arrays.converted(what, value, f"give one of shape {self.shape}"))
        array = _arrays.numbers(what, array, array.ndim).reshape(array.shape)
        if array.shape != self.shape:
            try:
                array = np.broadcast_to(array, self.shape).copy()
            except ValueError:
                raise ValueError(f"{what} has shape {array.shape}; give {self.shape}") from None
        if why := self.why_not(array):
            raise ValueError(f"{what} {why}")
        return np.asarray(self.to_free(array), dtype=np.float64).reshape(self.free)

    def default(self) -> np.ndarray:
        """The free vector that a fit starts from: that of ``init``, or zeros."""
        return np.zeros(self.free) if self.init is None else self.start("init", self.init)

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.shape}"


def _shape(what: str, shape: Any) -> tuple[int, ...]:
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(_arrays.whole(f"the shape of {what}", entry, 1) for entry in entries)


class Elementwise(Constraint):
    """Each number by itself."""

    word = ""

    def __init__(self, shape: int | Sequence[int] = (), *, init: Any = None) -> None:
        self.shape = _shape(type(self).__name__, shape)
        self.free = int(np.prod(self.shape, dtype=int))
        self.init = init
        self.default()

    def natural(self, z: Any, xp: Any) -> Any:
        return self.each(z, xp).reshape(self.shape)

    def each(self, z: Any, xp: Any) -> Any:
        """The values of free numbers, whatever their shape."""
        raise NotImplementedError

    def many(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(self.each(z, np)).reshape(len(z), *self.shape)

    def free_names(self, name: str, labels: Sequence[str]) -> list[str]:
        return [f"{self.word}({label})" if self.word else label for label in labels]


class Real(Elementwise):
    """Any real numbers: ``Real()`` is one, ``Real(4)`` a vector, ``Real((2, 3))`` a matrix.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of the array.
    init : float or array_like, optional
        Where a parameter starts; by default at 0.

    Examples
    --------
    >>> import motes
    >>> motes.Real((2, 3)).free
    6
    """

    def each(self, z: Any, xp: Any) -> Any:
        return z

    def log_jacobian(self, z: Any, xp: Any) -> Any:
        return 0.0 * z.sum()

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return value.reshape(-1)


class Positive(Elementwise):
    """Positive numbers, such as standard deviations; Motes works with their logarithms.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of the array.
    init : float or array_like, optional
        Where a parameter starts; by default at 1.

    Examples
    --------
    >>> import motes
    >>> motes.Positive(init=2.0).default().round(3)
    array([0.693])
    """

    word = "log"

    def each(self, z: Any, xp: Any) -> Any:
        return xp.exp(z)

    def log_jacobian(self, z: Any, xp: Any) -> Any:
        return z.sum()

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.log(value).reshape(-1)

    def why_not(self, value: np.ndarray) -> str | None:
        return None if (value > 0).all() else f"is {value.min()}; give positive numbers"

    def links(self) -> list[tuple[Link, np.ndarray]]:
        return [(_LOG, np.arange(self.free))]


class Interval(Elementwise):
    """Numbers between two bounds, such as probabilities and correlations.

    Parameters
    ----------
    low, high : float
        The bounds.
    shape : int or tuple of int
        The shape of the array.
    init : float or array_like, optional
        Where a parameter starts; by default in the middle.

    Examples
    --------
    >>> import motes, numpy as np
    >>> float(motes.Interval(-1, 1).natural(np.zeros(1), np))
    0.0
    """

    word = "logit"

    def __init__(self, low: float, high: float, shape: int | Sequence[int] = (), *, init: Any = None) -> None:
        self.low, self.high = _arrays.finite("low", low), _arrays.finite("high", high)
        if not self.low < self.high:
            raise ValueError(f"low is {low} and high is {high}; give a smaller and a larger number")
        super().__init__(shape, init=init)

    def each(self, z: Any, xp: Any) -> Any:
        return self.low + (self.high - self.low) * _sigmoid(xp, z)

    def log_jacobian(self, z: Any, xp: Any) -> Any:
        return (_log_sigmoid(xp, z) + _log_sigmoid(xp, -z)).sum() + self.free * math.log(self.high - self.low)

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.log((value - self.low) / (self.high - value)).reshape(-1)

    def why_not(self, value: np.ndarray) -> str | None:
        inside = ((value > self.low) & (value < self.high)).all()
        return None if inside else f"leaves ({self.low}, {self.high}); give numbers between them"

    def links(self) -> list[tuple[Link, np.ndarray]]:
        return [(_logit(self.low, self.high), np.arange(self.free))]


class Simplex(Constraint):
    """k positive numbers that add up to 1, such as the weights of a mixture.

    Parameters
    ----------
    k : int
        How many.
    init : array_like, optional
        Where a parameter starts; by default all are equal.

    Examples
    --------
    >>> import motes, numpy as np
    >>> motes.Simplex(4).natural(np.zeros(3), np)
    array([0.25, 0.25, 0.25, 0.25])
    """

    def __init__(self, k: int, *, init: Any = None) -> None:
        k = _arrays.whole("the size of Simplex", k, 2)
        self.shape, self.free, self.init = (k,), k - 1, init
        self.default()

    def _sticks(self, z: Any) -> list[Any]:
        return [z[i] - math.log(self.free - i) for i in range(self.free)]

    def natural(self, z: Any, xp: Any) -> Any:
        rest, parts = 1.0 + 0.0 * z[0], []
        for stick in self._sticks(z):
            parts.append(rest * _sigmoid(xp, stick))
            rest = rest * _sigmoid(xp, -stick)
        return xp.stack([*parts, rest])

    def log_jacobian(self, z: Any, xp: Any) -> Any:
        rest, total = 0.0 * z[0], 0.0 * z[0]
        for stick in self._sticks(z):
            left = _log_sigmoid(xp, -stick)
            total = total + rest + _log_sigmoid(xp, stick) + left
            rest = rest + left
        return total

    def to_free(self, value: np.ndarray) -> np.ndarray:
        rest = np.cumsum(value[::-1])[::-1][1:]
        return np.log(value[:-1] / rest) + np.log(np.arange(self.free, 0, -1))

    def why_not(self, value: np.ndarray) -> str | None:
        fine = (value > 0).all() and abs(value.sum() - 1) < 1e-6
        return None if fine else f"is {value.tolist()}; give positive numbers that add up to 1"

    def links(self) -> list[tuple[Link, np.ndarray]]:
        return [(_logit(0.0, 1.0), np.arange(self.shape[0]))]


class Ordered(Constraint):
    """k real numbers that increase, such as cut points.

    Parameters
    ----------
    k : int
        How many.
    init : array_like, optional
        Where a parameter starts; by default at 0, 1, 2, ...

    Examples
    --------
    >>> import motes, numpy as np
    >>> motes.Ordered(3).natural(np.zeros(3), np)
    array([0., 1., 2.])
    """

    def __init__(self, k: int, *, init: Any = None) -> None:
        k = _arrays.whole("the size of Ordered", k, 2)
        self.shape, self.free, self.init = (k,), k, init
        self.default()

    def natural(self, z: Any, xp: Any) -> Any:
        values = [z[0]]
        for i in range(1, self.free):
            values.append(values[-1] + xp.exp(z[i]))
        return xp.stack(values)

    def log_jacobian(self, z: Any, xp: Any) -> Any:
        return z[1:].sum()

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.concatenate([value[:1], np.log(np.diff(value))])

    def why_not(self, value: np.ndarray) -> str | None:
        return None if (np.diff(value) > 0).all() else f"is {value.tolist()}; give numbers that increase"

    def free_names(self, name: str, labels: Sequence[str]) -> list[str]:
        return [labels[0]] + [f"log({b} - {a})" for a, b in zip(labels, labels[1:])]


class _Triangle(Constraint):
    """A lower triangle; the free numbers are those of its rows, one after the other."""

    def _matrix(self, entries: dict[tuple[int, int], Any], zero: Any, xp: Any) -> Any:
        k = self.shape[0]
        return xp.stack([xp.stack([entries.get((i, j), zero) for j in range(k)]) for i in range(k)])

    def _links(self, below: Link, diagonal: Link) -> list[tuple[Link, np.ndarray]]:
        places = np.arange(self.shape[0] ** 2).reshape(self.shape)
        return [(below, places[np.tril_indices(self.shape[0], -1)]), (diagonal, np.diag(places))]

    def why_not(self, value: np.ndarray) -> str | None:
        if np.abs(np.triu(value, 1)).max() > 0:
            return "has numbers above its diagonal; give a lower triangle"
        return None if (np.diag(value) > 0).all() else "has no positive diagonal; give a Cholesky factor"


class CholeskyCorr(_Triangle):
    """The Cholesky factor of a k x k correlation matrix: a lower triangle whose rows have length 1.

    Parameters
    ----------
    k : int
        The number of variables.
    init : array_like, shape (k, k), optional
        Where a parameter starts; by default at the identity.

    Examples
    --------
    >>> import motes, numpy as np
    >>> L = motes.CholeskyCorr(2).natural(np.array([0.5]), np)
    >>> (L @ L.T).round(3)
    array([[1.   , 0.462],
           [0.462, 1.   ]])
    """

    def __init__(self, k: int, *, init: Any = None) -> None:
        k = _arrays.whole("the size of CholeskyCorr", k, 2)
        self.shape, self.free, self.init = (k, k), k * (k - 1) // 2, init
        self.default()

    def natural(self, z: Any, xp: Any) -> Any:
        zero = 0.0 * z[0]
        entries, at = {(0, 0): 1.0 + zero}, 0
        for i in range(1, self.shape[0]):
            rest = 1.0 + zero
            for j in range(i):
                # The first of a row is a correlation; the others are partial ones.
                entries[i, j] = xp.tanh(z[at]) * xp.sqrt(rest)
                rest = rest * _one_minus_tanh_squared(xp, z[at])
                at += 1
            entries[i, i] = xp.sqrt(rest)
        return self._matrix(entries, zero, xp)

    def log_jacobian(self, z: Any, xp: Any) -> Any:
        total, at = 0.0 * z[0], 0
        for i in range(1, self.shape[0]):
            rest = 0.0 * z[0]
            for _ in range(i):
                log = math.log(4.0) + _log_sigmoid(xp, 2.0 * z[at]) + _log_sigmoid(xp, -2.0 * z[at])
                total = total + 0.5 * rest + log
                rest = rest + log
                at += 1
        return total

    def to_free(self, value: np.ndarray) -> np.ndarray:
        z = []
        for i in range(1, self.shape[0]):
            rest = 1.0
            for j in range(i):
                z.append(np.arctanh(value[i, j] / math.sqrt(rest)))
                rest -= value[i, j] ** 2
        return np.array(z)

    def why_not(self, value: np.ndarray) -> str | None:
        if why := super().why_not(value):
            return why
        fine = np.abs((value**2).sum(axis=1) - 1).max() < 1e-6
        return None if fine else "has rows whose length is not 1; give the Cholesky factor of a correlation matrix"

    def links(self) -> list[tuple[Link, np.ndarray]]:
        return self._links(_ATANH, _logit(0.0, 1.0))

    def free_names(self, name: str, labels: Sequence[str]) -> list[str]:
        k = self.shape[0]
        return [f"atanh({labels[i * k + j]})" for i in range(1, k) for j in range(i)]


class CovarianceCholesky(_Triangle):
    """The Cholesky factor of a k x k covariance matrix: a lower triangle with a positive diagonal.

    Parameters
    ----------
    k : int
        The number of variables.
    init : array_like, shape (k, k), optional
        Where a parameter starts; by default at the identity.

    Examples
    --------
    >>> import motes, numpy as np
    >>> motes.CovarianceCholesky(2).natural(np.zeros(3), np)
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(self, k: int, *, init: Any = None) -> None:
        k = _arrays.whole("the size of CovarianceCholesky", k, 1)
        self.shape, self.free, self.init = (k, k), k * (k + 1) // 2, init
        self.default()

    def _places(self) -> list[tuple[int, int]]:
        return [(i, j) for i in range(self.shape[0]) for j in range(i + 1)]

    def natural(self, z: Any, xp: Any) -> Any:
        entries = {(i, j): xp.exp(z[at]) if i == j else z[at] for at, (i, j) in enumerate(self._places())}
        return self._matrix(entries, 0.0 * z[0], xp)

    def log_jacobian(self, z: Any, xp: Any) -> Any:
        return sum(z[at] for at, (i, j) in enumerate(self._places()) if i == j)

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return np.array([math.log(value[i, j]) if i == j else value[i, j] for i, j in self._places()])

    def links(self) -> list[tuple[Link, np.ndarray]]:
        return self._links(_IDENTITY, _LOG)

    def free_names(self, name: str, labels: Sequence[str]) -> list[str]:
        k = self.shape[0]
        return [f"log({labels[i * k + j]})" if i == j else labels[i * k + j] for i, j in self._places()]


def _one_minus_tanh_squared(xp: Any, v: Any) -> Any:
    return 4.0 * _sigmoid(xp, 2.0 * v) * _sigmoid(xp, -2.0 * v)


class Layout:
    """Named arrays behind one another in a free vector."""

    def __init__(self, what: str, given: Any, coords: Any) -> None:
        if not isinstance(given, dict) or not given:
            raise ValueError(f"{what} is {given!r}; give a dict of names and constraints, such as {{'beta': motes.Real(4)}}")
        leaves: dict[str, Any] = {}
        #: The shape of the given tree, with the names of the parts as its leaves.
        self.tree = _named_tree(what, given, "", leaves)
        self.parts: dict[str, Constraint] = {}
        self.slices: dict[str, slice] = {}
        self.labels: dict[str, list[str]] = {}
        #: Names along each axis of those that have some.
        self.axes: dict[str, list[list[str]]] = {}
        self.free_names: list[str] = []
        at = 0
        for name, part in leaves.items():
            if isinstance(part, type) and issubclass(part, Constraint):
                raise ValueError(f"{what}[{name!r}] is the class {part.__name__}; call it, as in motes.Real(4)")
            if not isinstance(part, Constraint):
                try:
                    part = Real(part)
                except (ValueError, TypeError):
                    kinds = "Real, Positive, Interval, Simplex, Ordered, CholeskyCorr or CovarianceCholesky"
                    raise ValueError(f"{what}[{name!r}] is {part!r}; give a shape, or {kinds}") from None
            self.parts[name] = part
            self.slices[name] = slice(at, at + part.free)
            self.axes[name] = _axes(name, part.shape, coords.get(name))
            self.labels[name] = _labels(name, self.axes[name])
            self.free_names += part.free_names(name, self.labels[name])
            at += part.free
        self.free = at
        if len(set(self.free_names)) < at:
            raise ValueError(f"{what} and coords give two numbers the same name; choose others")

    def split(self, z: Any) -> tuple[Any, ...]:
        """The parts of free vectors, which lie along the last axis."""
        return tuple(z[..., own] for own in self.slices.values())

    def natural(self, z: Any, xp: Any = np) -> dict[str, Any]:
        """Values as the tree was given."""
        return self.natural_parts(self.split(z), xp)

    def natural_parts(self, parts: Sequence[Any], xp: Any) -> dict[str, Any]:
        """Values as the tree was given, of free vectors that were split."""
        return self.nested({name: part.natural(z, xp) for (name, part), z in zip(self.parts.items(), parts)})

    def nested(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values by the names of the parts, put into the tree."""

        def grown(tree: Any) -> Any:
            if isinstance(tree, str):
                return values[tree]
            return {key: grown(branch) for key, branch in tree.items()} if isinstance(tree, dict) else type(tree)(map(grown, tree))

        return grown(self.tree)

    def flat(self, values: Any, what: str = "") -> dict[str, Any]:
        """Values of the tree, or of some of it, by the names of the parts."""
        out: dict[str, Any] = {}

        def gather(tree: Any, values: Any, where: str) -> None:
            if isinstance(tree, str):
                out[tree] = values
                return
            branches = tree if isinstance(tree, dict) else dict(enumerate(tree))
            if not isinstance(values, (dict, list, tuple)) or (isinstance(tree, dict) != isinstance(values, dict)):
                raise ValueError(f"{where} is {values!r}; give values as the model's tree has them, by {', '.join(map(str, branches))}")
            for key, value in values.items() if isinstance(values, dict) else enumerate(values):
                if key not in branches:
                    raise ValueError(f"{where} has the key {key!r}; give some of {', '.join(map(str, branches))}")
                gather(branches[key], value, f"{where}[{key!r}]")

        gather(self.tree, values, what)
        return out

    def log_jacobian(self, parts: Sequence[Any], xp: Any) -> Any:
        """The sum of the logarithms of all parts' volumes."""
        return sum(part.log_jacobian(z, xp) for part, z in zip(self.parts.values(), parts))

    @property
    def is_free(self) -> bool:
        """Whether there are no constraints."""
        return all(isinstance(part, Real) for part in self.parts.values())

    def default(self) -> np.ndarray:
        """Where everything starts, as a free vector."""
        return np.concatenate([part.default() for part in self.parts.values()])

    def start(self, what: str, values: Any) -> np.ndarray:
        """The free vector of values by name; what is left out starts where it does by default."""
        z = self.default()
        for name, value in self.flat(values, what).items():
            z[self.slices[name]] = self.parts[name].start(f"{what}[{name!r}]", value)
        return z


def _named_tree(what: str, given: Any, path: str, leaves: dict[str, Any]) -> Any:
    """A tree of dicts, lists and tuples with names in place of its leaves, which are collected; names lead to them by dots."""

    def branches(part: Any) -> bool:
        # Other lists and tuples are shapes.
        return isinstance(part, dict) or (isinstance(part, (list, tuple)) and any(isinstance(p, Constraint) or branches(p) for p in part))

    if not branches(given):
        if path in leaves:
            raise ValueError(f"{what} has two entries that lead to the name {path!r}; choose others")
        leaves[path] = given
        return path
    if not isinstance(given, dict):
        return type(given)(_named_tree(what, part, f"{path}.{i}", leaves) for i, part in enumerate(given))
    if not given:
        raise ValueError(f"{what} has the empty dict {path!r}; leave it out")
    for key in given:
        if not isinstance(key, str) or not key or any(c in key for c in "\n\r"):
            raise ValueError(f"{what} has the key {key!r}; give a name")
    return {key: _named_tree(what, part, f"{path}.{key}" if path else key, leaves) for key, part in given.items()}


def derivative(f: Callable[[Any], Any], at: Any, direction: Any = 1.0) -> np.ndarray:
    """The derivative of a function along a direction, by a complex step: exact to rounding."""
    tiny = 1e-30
    return np.asarray(f(np.asarray(at) + tiny * 1j * np.asarray(direction))).imag / tiny


def _axes(name: str, shape: tuple[int, ...], coords: Any) -> list[list[str]]:
    """Names along each axis: those of `coords`, or numbers."""
    if coords is None:
        return [[str(i) for i in range(size)] for size in shape]
    if shape == ():
        raise ValueError(f"coords has {name!r}, which is one number; leave it out")
    if isinstance(coords, str) or not hasattr(coords, "__len__"):
        raise ValueError(f"coords[{name!r}] is {coords!r}; give a list of {shape[0]} names")
    axes = [coords] if len(shape) == 1 else list(coords)
    if len(axes) != len(shape):
        raise ValueError(f"coords[{name!r}] has {len(axes)} axes; give {len(shape)}, one list of names for each")
    return [_arrays.names(f"coords[{name!r}]", axis, size, "") for axis, size in zip(axes, shape)]


def _labels(name: str, axes: list[list[str]]) -> list[str]:
    return [f"{name}[{','.join(place)}]" for place in itertools.product(*axes)] if axes else [name]
