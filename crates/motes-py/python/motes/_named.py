"""Models with named parameters and latents: a density of one group, which JAX or PyTorch derive and map over groups and particles."""

from __future__ import annotations

import copy
import importlib
import threading
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from . import _arrays
from ._constraints import Constraint, Layout
from ._pickled import Missing

#: Numbers of data, counted for each particle, in a block of groups. A call of a compiled function costs some 100 us.
_BLOCK = 1 << 20


class Named:
    """A density in natural parameters, and how it stands in free vectors theta and x."""

    def __init__(
        self,
        log_joint: Callable[..., Any],
        params: Any,
        latent: Any,
        data: Any,
        groups: Any,
        coords: Any,
    ) -> None:
        if not callable(log_joint):
            raise ValueError(f"log_joint is {log_joint!r}; give a callable")
        coords = {} if coords is None else coords
        if not isinstance(coords, Mapping):
            raise ValueError(f"coords is {coords!r}; give a dict of names and lists of names")
        self.log_joint = log_joint
        if isinstance(params, Constraint):
            raise ValueError("params is one constraint; give a dict, such as {'sd': motes.Positive()}")
        self.params = Layout("params", params, coords)
        #: Whether the density gets latents by name, not one array.
        self.named_latents = isinstance(latent, dict)
        if latent is None:
            raise ValueError("latent is missing; give a dict such as {'u': 2}, or a shape")
        self.latent = Layout("latent", latent if self.named_latents else {"x": latent}, coords)
        if unknown := [name for name in coords if name not in self.params.parts and name not in self.latent.parts]:
            raise ValueError(f"coords has {unknown[0]!r}, which is no parameter and no latent; correct it")
        if both := [name for name in self.latent.parts if name in self.params.parts]:
            raise ValueError(f"{both[0]!r} is both a parameter and a latent; rename one of them")
        self.groups, self.group_names = groups_of(groups)
        self.data = _data(data, self.groups)

    def described(self) -> "Named":
        """The same without the density and its data."""
        other = copy.copy(self)
        other.log_joint, other.data = Missing("log_joint"), {}
        return other

    def density(self, xp: Any) -> Callable[..., Any]:
        """l_g(theta, x_g) for free vectors and the data of the group."""

        def density(theta: Any, x: Any, row: Any) -> Any:
            latents = self.latent.natural(x, xp)
            value = self.log_joint(self.params.natural(theta, xp), latents if self.named_latents else latents["x"], row)
            return value if self.latent.is_free else value + self.latent.log_jacobian(x, xp)

        return density

    def refuse_unless_scalar(self, shape: tuple[int, ...], kind: str) -> None:
        """The density must be one real number."""
        if tuple(shape) != ():
            raise ValueError(f"log_joint returned shape {tuple(shape)}; return one number, for one {self._unit}: add up its terms")
        if kind != "f":
            raise ValueError(f"log_joint returned {kind}; return a real number of floating point")

    def block_rows(self) -> int | None:
        """How many rows make some megabytes of work, for groups: the caches hold them, and threads share them."""
        if self.groups is None:
            return None
        numbers = self.latent.free + sum(int(np.prod(value.shape[1:])) for value in self.data.values())
        return max(1, _BLOCK // max(1, numbers))

    @property
    def _unit(self) -> str:
        return "particle" if self.groups is None else "group"


def groups_of(groups: Any) -> tuple[int | None, list[str]]:
    """The number of groups and their names; a list of names, or a number."""
    if groups is None:
        return None, ["0"]
    if isinstance(groups, (int, np.integer)) and not isinstance(groups, bool):
        count = _arrays.whole("groups", groups, 1)
        return count, [str(g) for g in range(count)]
    if isinstance(groups, (str, bytes, float, bool)) or not hasattr(groups, "__len__"):
        raise ValueError(f"groups is {groups!r}; give the number of groups, or a name for each")
    if len(groups) == 0:
        raise ValueError("groups is empty; give the number of groups, or a name for each")
    words = [str(w).strip() for w in np.asarray(groups).tolist()]
    if len(set(words)) < len(words):
        raise ValueError("groups names a group twice; give a name for each group, and rows by motes.by_group")
    return len(words), _arrays.names("groups", words, len(words), "")


def _data(data: Any, groups: int | None) -> dict[str, Any]:
    """Data by name, each with a leading axis of groups where there are groups."""
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise ValueError(f"data is of type {type(data).__name__}; give a dict of arrays, such as {{'y': y}}")
    checked = {}
    for name, value in data.items():
        what = f"data[{name!r}]"
        array = value if hasattr(value, "detach") else _arrays.converted(what, value, "give an array of numbers")
        kind = "f" if hasattr(value, "detach") else array.dtype.kind
        if kind not in "fiub":
            raise ValueError(f"{what} has dtype {array.dtype}; give numbers, or count the words first")
        if groups is not None and (array.ndim == 0 or array.shape[0] != groups):
            shape = tuple(array.shape)
            raise ValueError(f"{what} has shape {shape} and there are {groups} groups; give its first axis one entry a group")
        checked[name] = array
    return checked


def by_group(index: Any, **columns: Any) -> tuple[dict[str, np.ndarray], list[str]]:
    """Rows as data of groups, padded to the size of the largest group, with a mask.

    Parameters
    ----------
    index : array_like, shape (rows,)
        Which group each row belongs to: numbers or words.
    **columns : array_like, shape (rows, ...)
        The data of the rows.

    Returns
    -------
    data : dict of numpy.ndarray, shape (groups, largest, ...)
        The columns, padded with zeros, and ``mask``, which is 1 for rows and 0 for padding.
    groups : list of str
        The names of the groups, in the order of the first axis.

    Examples
    --------
    >>> import motes
    >>> data, groups = motes.by_group(["b", "a", "b"], y=[1.0, 2.0, 3.0])
    >>> groups, data["y"].tolist(), data["mask"].tolist()
    (['a', 'b'], [[2.0, 0.0], [1.0, 3.0]], [[1.0, 0.0], [1.0, 1.0]])
    """
    if "mask" in columns:
        raise ValueError("mask is what by_group itself adds; rename that column")
    of = _arrays.converted("index", index, "give the group of each row")
    if of.ndim != 1 or len(of) == 0:
        raise ValueError(f"index has shape {of.shape}; give the group of each row, in one dimension")
    if of.dtype.kind == "f" and not np.isfinite(of).all():
        raise ValueError("index holds values that are not finite; remove or fill in those rows")
    try:
        levels, codes = np.unique(of, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"index mixes kinds of values ({error}); give numbers or text, not both") from error
    codes = codes.reshape(-1)
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    places = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    data: dict[str, np.ndarray] = {}
    for name, value in {**columns, "mask": np.ones(len(of))}.items():
        column = _arrays.converted(name, value, "give one value per row")
        if column.ndim == 0 or len(column) != len(of):
            raise ValueError(f"{name} has shape {column.shape} and index has {len(of)} rows; give one value per row")
        if column.dtype.kind not in "fiub":
            raise ValueError(f"{name} has dtype {column.dtype}; give numbers")
        padded = np.zeros((len(levels), sizes.max(), *column.shape[1:]), dtype=column.dtype)
        padded[codes[order], places] = column[order]
        data[name] = padded
    return data, [str(level) for level in levels.tolist()]


class Apart:
    """A precision of JAX for one model, whatever the process is set to.

    JAX (0.10) trips over NumPy constants in a density that was traced in the other precision, so that its memory is cleared
    before a model is first traced in one that is not the process's own, and after it was used in it.
    """

    #: Whether JAX remembers something in a precision that is not the process's own.
    _foreign = False
    #: How often that was cleared.
    _ended = 0

    def __init__(self, double: bool) -> None:
        self._jax: Any = importlib.import_module("jax")
        # Older versions have it among their experiments.
        home = self._jax if hasattr(self._jax, "enable_x64") else importlib.import_module("jax.experimental")
        self._enable = home.enable_x64
        self._double = double
        self._era, self._lock = -1, threading.Lock()

    def __call__(self, call: Callable[[], Any]) -> Any:
        """What a call returns in this precision."""
        with self._lock:
            if self._era != Apart._ended and self._double != bool(self._jax.config.jax_enable_x64):
                self._jax.clear_caches()
                Apart._foreign = True
            self._era = Apart._ended
        with self._enable(self._double):
            return call()

    @staticmethod
    def end() -> None:
        """Clears what JAX remembers of foreign precisions."""
        if Apart._foreign:
            import jax

            Apart._foreign = False
            Apart._ended += 1
            jax.clear_caches()


def jax_evaluate(named: Named, x64: bool | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Answers of a density that JAX derives: compiled once for each question, with the data as arguments."""
    import jax
    import jax.numpy as jnp

    double = bool(jax.config.read("jax_enable_x64")) if x64 is None else x64
    density = named.density(jnp)

    def begin() -> Any:
        data = jax.tree_util.tree_map(jnp.asarray, named.data)
        row = data if named.groups is None else jax.tree_util.tree_map(lambda a: a[0], data)
        return data, jax.eval_shape(density, jnp.zeros(named.params.free), jnp.zeros(named.latent.free), row)

    data, told = Apart(double)(begin)
    if not hasattr(told, "shape"):
        raise ValueError(f"log_joint returned {type(told).__name__}; return one number")
    named.refuse_unless_scalar(told.shape, "f" if jnp.issubdtype(told.dtype, jnp.floating) else str(told.dtype))

    def over_rows(f: Callable[..., Any]) -> Callable[..., Any]:
        particles = jax.vmap(f, in_axes=(None, 0, None))
        return particles if named.groups is None else jax.vmap(particles, in_axes=(None, 0, 0))

    def of_particles(theta: Any, x: Any, row: Any) -> Any:
        return jax.vmap(density, in_axes=(None, 0, None))(theta, x, row).sum()

    def total(theta: Any, x: Any, data: Any) -> Any:
        return over_rows(density)(theta, x, data).sum()

    def answers(want: tuple[str, ...], theta: Any, x: Any, groups: Any, data: Any) -> tuple[Any, ...]:
        if groups is not None:
            data = jax.tree_util.tree_map(lambda a: a[groups], data)
        found: dict[str, Any] = {}
        of = [i for i, name in enumerate(("scores", "grad_x")) if name in want]
        if of:
            value, grads = over_rows(jax.value_and_grad(density, argnums=tuple(of)))(theta, x, data)
            found["log_density"] = value
            found.update(zip([("scores", "grad_x")[i] for i in of], grads))
        elif "log_density" in want:
            found["log_density"] = over_rows(density)(theta, x, data)
        if "grad_theta" in want and named.groups is not None:
            # Group by group: the host adds them up in double precision.
            found["grad_theta"] = jax.vmap(jax.grad(of_particles), in_axes=(None, 0, 0))(theta, x, data)
        elif "grad_theta" in want:
            found["grad_theta"] = jax.grad(of_particles)(theta, x, data)
        if "hessian" in want:
            found["hessian"] = jax.jacfwd(jax.grad(total))(theta, x, data)
        return tuple(found[name] for name in want)

    compiled, apart = jax.jit(answers, static_argnums=0), Apart(double)

    def evaluate(theta: np.ndarray, x: np.ndarray, groups: np.ndarray | None, want: tuple[str, ...]) -> tuple[Any, ...]:
        return _summed(named, want, apart(lambda: compiled(want, theta, x, groups, data)))

    def prior(draw: Callable[..., Any]) -> Callable[..., Any]:
        def mapped(theta: Any, z: Any) -> Any:
            normals = named.latent.natural(z, jnp)
            drawn = draw(named.params.natural(theta, jnp), normals if named.named_latents else normals["x"])
            parts = drawn if named.named_latents else {"x": drawn}
            return jnp.concatenate([jnp.reshape(parts[name], (-1,)) for name in named.latent.parts])

        rows = jax.vmap(mapped, in_axes=(None, 0))
        every = jax.jit(rows if named.groups is None else jax.vmap(rows, in_axes=(None, 0)))

        def call(theta: np.ndarray, z: np.ndarray, *_: Any) -> Any:
            return apart(lambda: every(theta, z))

        return call

    return evaluate, prior


def torch_evaluate(named: Named) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Answers of a density that PyTorch derives, in the precision and on the device of its data."""
    import torch

    tensors = [value for value in named.data.values() if hasattr(value, "detach")]
    floats = [t for t in tensors if t.is_floating_point()]
    dtype = floats[0].dtype if floats else torch.float64 if named.data else torch.get_default_dtype()
    device = tensors[0].device if tensors else torch.device("cpu")

    def tensor(value: Any) -> Any:
        value = value if hasattr(value, "detach") else torch.from_numpy(np.ascontiguousarray(value))
        return value.detach().to(device=device, dtype=dtype if value.is_floating_point() else value.dtype)

    data = {name: tensor(value) for name, value in named.data.items()}
    density = named.density(torch)
    vmap, grad = torch.func.vmap, torch.func.grad
    row = data if named.groups is None else {name: value[0] for name, value in data.items()}
    zeros = [torch.zeros(n, dtype=dtype, device=device) for n in (named.params.free, named.latent.free)]
    told = density(*zeros, row)
    if not hasattr(told, "shape"):
        raise ValueError(f"log_joint returned {type(told).__name__}; return a tensor of one number")
    named.refuse_unless_scalar(told.shape, "f" if told.is_floating_point() else str(told.dtype))

    def over_rows(f: Callable[..., Any]) -> Callable[..., Any]:
        particles = vmap(f, in_dims=(None, 0, None))
        return particles if named.groups is None else vmap(particles, in_dims=(None, 0, 0))

    def of_particles(theta: Any, x: Any, row: Any) -> Any:
        return vmap(density, in_dims=(None, 0, None))(theta, x, row).sum()

    def total(theta: Any, x: Any, data: Any) -> Any:
        return over_rows(density)(theta, x, data).sum()

    def evaluate(theta: np.ndarray, x: np.ndarray, groups: np.ndarray | None, want: tuple[str, ...]) -> tuple[Any, ...]:
        at, z = tensor(theta), tensor(x)
        chosen = data
        if groups is not None:
            which = torch.from_numpy(groups).to(device)
            chosen = {name: value[which] for name, value in data.items()}
        found: dict[str, Any] = {}
        of = [i for i, name in enumerate(("scores", "grad_x")) if name in want]
        if of:
            grads, value = over_rows(torch.func.grad_and_value(density, argnums=tuple(of)))(at, z, chosen)
            found["log_density"] = value
            found.update(zip([("scores", "grad_x")[i] for i in of], grads))
        elif "log_density" in want:
            found["log_density"] = over_rows(density)(at, z, chosen)
        if "grad_theta" in want and named.groups is not None:
            found["grad_theta"] = vmap(grad(of_particles), in_dims=(None, 0, 0))(at, z, chosen)
        elif "grad_theta" in want:
            found["grad_theta"] = grad(of_particles)(at, z, chosen)
        if "hessian" in want:
            found["hessian"] = torch.func.jacfwd(grad(total))(at, z, chosen)
        answers = tuple(found[name].detach().cpu().numpy() for name in want)
        return _summed(named, want, answers)

    def prior(draw: Callable[..., Any]) -> Callable[..., Any]:
        def mapped(theta: Any, z: Any) -> Any:
            normals = named.latent.natural(z, torch)
            drawn = draw(named.params.natural(theta, torch), normals if named.named_latents else normals["x"])
            parts = drawn if named.named_latents else {"x": drawn}
            return torch.cat([parts[name].reshape(-1) for name in named.latent.parts])

        rows = vmap(mapped, in_dims=(None, 0))
        every = rows if named.groups is None else vmap(rows, in_dims=(None, 0))
        return lambda theta, z, *_: every(tensor(theta), tensor(z)).detach().cpu().numpy()

    return evaluate, prior


def _summed(named: Named, want: Sequence[str], answers: Sequence[Any]) -> tuple[Any, ...]:
    """Theta-gradients that came group by group, added up in double precision."""
    if named.groups is None or "grad_theta" not in want:
        return tuple(answers)
    summed = list(answers)
    i = list(want).index("grad_theta")
    summed[i] = np.asarray(answers[i], dtype=np.float64).sum(axis=0)
    return tuple(summed)


def refuse_prior_of_constrained(named: Named) -> None:
    """Draws are made on the scale of the latents, which must then be the free one."""
    if not named.latent.is_free:
        raise ValueError("prior is for latents without constraints; leave it out, and particles start at standard normals")
