"""What a decoder's data are, given its output, and what all networks share, whichever library computes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ._arrays import converted, finite

#: So many weights are traced: enough to see whether they still move.
TRACED = 8
#: Rows that are decoded at a time where nothing is differentiated.
PART = 1024


class Likelihood:
    """log p(y | output) by somebody's callable, value by value or row by row; constants are left out."""

    name = "callable"
    #: Whether y is compared with the output value by value.
    alike = False
    sigma: float | None = None
    #: The step size of the particles where none is given.
    step_size = 0.01

    def __init__(self, call: Callable[[Any, Any], Any]) -> None:
        self._call = call

    def right(self, data: Any, isfinite: Callable[[Any], Any]) -> Any:
        """Which values have a likelihood, and what to do about the others."""

    def refuse(self, data: Any, isfinite: Callable[[Any], Any]) -> None:
        """Refuses data that have no likelihood."""
        if (told := self.right(data, isfinite)) is None:
            return
        right, remedy = told
        if not bool(right.all()):
            wrong = right.logical_not().cpu() if hasattr(right, "cpu") else ~right
            place = tuple(int(i) for i in np.argwhere(np.asarray(wrong))[0])
            raise ValueError(f"data holds {data[place].item()} at {place}; {remedy}")

    def refuse_returned(self, rows: int, shape: tuple[int, ...] | None, kind: str) -> None:
        """Refuses what a callable returned, unless it has a shape that begins with the rows."""
        if shape is None or shape[:1] != (rows,):
            got = kind if shape is None else shape
            raise ValueError(f"likelihood returned {got}; return the log-likelihood of each of {rows} rows")

    def refuse_first(self, finite: bool) -> None:
        """Refuses a likelihood that no step could start from."""
        if not finite:
            raise ValueError("likelihood returns values that are not finite for the first datum at the module's first weights; correct it or them")

    def refuse_rows(self, shape: tuple[int, ...], own: tuple[int, ...]) -> None:
        """Refuses a likelihood of rows where some of their values are missing."""
        if shape != own:
            raise ValueError("likelihood returns one number for each row; let it return one for each value, so that some can be missing")


class Gaussian(Likelihood):
    """y ~ N(output, sigma^2)."""

    name, alike = "gaussian", True

    def __init__(self, sigma: float) -> None:
        self.sigma, self._precision = sigma, 1.0 / sigma**2
        # Rounded, because it is shown: 0.1 * 0.1**2 is 0.0010000000000000002.
        self.step_size = min(0.1, float(f"{0.1 * sigma**2:.12g}"))

    def right(self, data: Any, isfinite: Callable[[Any], Any]) -> Any:
        return isfinite(data), "remove or replace values that are not finite"


class Bernoulli(Likelihood):
    """y ~ Bernoulli(sigmoid(output))."""

    name, alike = "bernoulli", True

    def __init__(self) -> None:
        pass

    def right(self, data: Any, isfinite: Callable[[Any], Any]) -> Any:
        return (data >= 0) & (data <= 1), "scale data to [0, 1] for likelihood='bernoulli'"


def likelihood_of(given: Any, sigma: Any, kinds: Mapping[str, type]) -> Any:
    """The likelihood that somebody names or writes, as one of a library's kinds."""
    if isinstance(given, str) and given == "gaussian":
        number = finite("sigma", 1.0 if sigma is None else sigma)
        if not 1e-9 <= number <= 1e9:
            raise ValueError(f"sigma is {sigma!r}; give a number within 1e-9 to 1e9, such as 0.1")
        return kinds["gaussian"](number)
    if sigma is not None:
        raise ValueError(f"sigma is {sigma!r} and belongs to likelihood='gaussian'; leave it out")
    if isinstance(given, str) and given == "bernoulli":
        return kinds["bernoulli"]()
    if not callable(given):
        raise ValueError(f"likelihood is {given!r}; give 'gaussian', 'bernoulli' or a callable of output and y")
    return kinds["callable"](given)


class AnyNetwork(ABC):
    """A decoder, and an encoder if there is one, with the data that they are trained on: what Motes asks of any library."""

    likelihood: Any
    data: Any
    #: How many data and latents of a datum, and parameters of the decoder and of the encoder, there are.
    count: int
    latent: int
    d_theta: int
    phi: int
    #: Where the parameters start, and the names of the first of them.
    start: list[float]
    names: list[str]
    #: Where what moves besides the parameters starts.
    buffers: list[float] = []
    #: Whether it computes in single precision.
    single: bool
    #: Whether a single row, or a single datum of the encoder's, is too few to normalise by.
    normalises = encoder_normalises = False
    #: Turns standard normals into draws from the encoder, for all parameters, rows and the groups that they belong to.
    encode: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None
    #: Writes what a run leaves.
    leave: Callable[..., None]
    #: What its module or function calls itself.
    called: str

    @abstractmethod
    def set(self, theta: np.ndarray, buffers: np.ndarray) -> None:
        """Takes these parameters and buffers as its own; no buffers stand for those at hand."""

    @abstractmethod
    def evaluate(
        self, theta: np.ndarray, x: np.ndarray, groups: np.ndarray | None, want: Sequence[str], buffers: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Answers what is asked for at rows x of shape (data, particles, latent)."""

    @abstractmethod
    def log_joint(self, x: np.ndarray, y: Any, seen: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """log p(x, y) of each row of latents (data, particles, latent), of what is seen of y, and its gradient in them."""

    @abstractmethod
    def decode(self, z: np.ndarray) -> np.ndarray:
        """The data that latents (rows, latent) stand for."""

    @abstractmethod
    def first(self, count: int) -> np.ndarray:
        """The first data."""

    @abstractmethod
    def given(self, array: np.ndarray) -> Any:
        """An array as the network's own data are, where they are."""

    @abstractmethod
    def trained(self) -> Any:
        """What decodes, with the parameters that are set."""

    @abstractmethod
    def params(self) -> Any:
        """The parameters that are set, which no later fit changes."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Parameters and buffers by name."""

    def described(self) -> dict[str, Any]:
        """What a run must know of the model besides its data."""
        told = {"latent": self.latent, "likelihood": self.likelihood.name}
        return told if self.likelihood.sigma is None else {**told, "sigma": self.likelihood.sigma}

    def refuse_output(self, what: str, rows: int, shape: tuple[int, ...] | None, kind: str) -> None:
        """Refuses what somebody's module or function returned, unless it has a row for each latent, of the data's shape."""
        if shape is None or shape[:1] != (rows,):
            got = kind if shape is None else shape
            raise ValueError(f"{what} returned {got} for latents of shape {(rows, self.latent)}; return an array with a row for each")
        own = tuple(self.data.shape[1:])
        if self.likelihood.alike and shape[1:] != own:
            raise ValueError(f"{what} returns rows of shape {shape[1:]} and data has rows of shape {own}; let them agree")


def table_of(data: Any) -> np.ndarray:
    """Data as an array of real numbers, in the processor's own order of bytes."""
    array = converted("data", data, "give an array or a tensor")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"data has dtype {array.dtype}; give real numbers")
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))


def refuse_shape(data: Any) -> None:
    """Refuses data without a row for each datum."""
    if data.ndim < 2 or 0 in data.shape:
        raise ValueError(f"data has shape {tuple(data.shape)}; give at least one datum, of shape (data, ...)")


def same_groups(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    """Whether two questions are about the same data; none of them stands for all."""
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


def squares(x: np.ndarray) -> np.ndarray:
    """The sum of squares of each row."""
    return np.einsum("bnd,bnd->bn", x, x, dtype=np.float64)


def named_values(name: str, size: int) -> list[str]:
    """Names of the first values of a weight."""
    return [name if size == 1 else f"{name}[{i}]" for i in range(min(size, TRACED))]
