"""Models with named parameters and latents: a density of one group, which JAX or PyTorch derive and map over groups and particles."""

from __future__ import annotations

import copy
import importlib
import inspect
import threading
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from . import _arrays
from ._constraints import Constraint, Layout
from ._pickled import Missing

#: Numbers of data, counted for each particle, that are evaluated at once.
_CHUNK = 1 << 20
#: Particles whose Hessians are asked for together.
_TOGETHER = 8
_ONE_AT_A_TIME = threading.RLock()


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
        if not _takes_three(log_joint):
            raise ValueError(f"log_joint is {log_joint!r}, which does not take three arguments; write it as log_joint(p, u, row)")
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
        """l_g(theta, x_g) for free vectors, split into their parts, and the data of the group.

        Parts, because the derivative in a slice of a vector is written into a vector of zeros, which takes several times as long.
        """

        def density(theta: Any, x: Any, row: Any) -> Any:
            latents = self.latent.natural_parts(x, xp)
            p, u = self.params.natural_parts(theta, xp), latents if self.named_latents else latents["x"]
            try:
                value = self.log_joint(p, u, row)
            except KeyError as error:
                parts = {"params": p, "latent": latents, "data": row}
                if error.args and not any(error.args[0] in part for part in parts.values()):
                    known = ", ".join(f"{what} has {' and '.join(map(str, part)) or 'nothing'}" for what, part in parts.items())
                    raise ValueError(f"log_joint asks for {error}; {known}") from error
                raise
            if not hasattr(value, "dtype") and not isinstance(value, (int, float)):
                raise ValueError(f"log_joint returned {type(value).__name__}; return one number")
            return value if self.latent.is_free else value + self.latent.log_jacobian(x, xp)

        return density

    def draws(self, draw: Callable[..., Any], xp: Any) -> Callable[..., Any]:
        """The free latents of one group that `draw` makes of free parameters and standard normals."""

        def draws(theta: Any, z: Any) -> Any:
            normals = self.latent.natural(z, xp)
            drawn = draw(self.params.natural(theta, xp), normals if self.named_latents else normals["x"])
            parts = self.latent.flat(drawn, "prior") if self.named_latents else {"x": drawn}
            return xp.concatenate([xp.reshape(parts[name], (-1,)) for name in self.latent.parts])

        return draws

    def refuse_unless_scalar(self, shape: tuple[int, ...], kind: str) -> None:
        """The density must be one real number."""
        if tuple(shape) != ():
            raise ValueError(f"log_joint returned shape {tuple(shape)}; return one number, for one {self._unit}: add up its terms")
        if kind != "f":
            raise ValueError(f"log_joint returned {kind}; return a real number of floating point")

    def groups_of_chunk(self, groups: int, particles: int) -> int:
        """How many groups are evaluated at once: as many as the caches hold, by a divisor of all if one is near."""
        numbers = self.latent.free + sum(int(np.prod(value.shape[1:])) for value in self.data.values())
        most = min(groups, max(1, _CHUNK // max(1, numbers * particles)))
        return next((n for n in range(most, most // 2, -1) if groups % n == 0), most)

    def not_finite(self) -> str | None:
        """Which data are no finite numbers, and where, if any are."""
        for name, value in self.data.items():
            array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                where = np.argwhere(~np.isfinite(array))[0] if array.ndim else ()
                at, of = tuple(int(i) for i in where), "" if self.groups is None else f", of group {self.group_names[where[0]]}"
                remedy = "put a number there and multiply its term by a mask of 0: what a where leaves out still makes the derivative NaN"
                return f"data[{name!r}] has {array[at]} at {at}{of}; {remedy}"
        return None

    @property
    def _unit(self) -> str:
        return "particle" if self.groups is None else "group"


def _takes_three(f: Callable[..., Any]) -> bool:
    """Whether a function can be called with three arguments, as far as Python knows."""
    try:
        inspect.signature(f).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:
        pass  # what is built in may have no signature
    return True


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
    if np.ndim(groups) != 1:
        raise ValueError(f"groups has shape {np.shape(groups)}; give the number of groups, or a name for each")
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
        if not isinstance(name, str):
            raise ValueError(f"data has the key {name!r}; give a name")
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
    """Arranges rows by group, padded to the size of the largest group, with a mask.

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
        at = [layout.split(jnp.zeros(layout.free)) for layout in (named.params, named.latent)]
        return data, jax.eval_shape(density, *at, row)

    try:
        data, told = Apart(double)(begin)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        first = str(error).strip().split("\n")[0].rstrip(".")
        remedy = "write it with jax.numpy, and with jnp.where or jax.lax.cond in place of if"
        raise ValueError(f"log_joint does what JAX cannot derive ({first}); {remedy}") from error
    named.refuse_unless_scalar(told.shape, "f" if jnp.issubdtype(told.dtype, jnp.floating) else str(told.dtype))
    tree = jax.tree_util.tree_map

    def over_particles(f: Callable[..., Any]) -> Callable[..., Any]:
        return jax.vmap(f, in_axes=(None, 0, None))

    def joined(parts: Any) -> Any:
        return jnp.concatenate(parts, axis=-1)

    def of_particles(theta: Any, x: Any, row: Any) -> Any:
        value = over_particles(density)(theta, x, row)
        return value.sum(), value

    def of_groups(theta: Any, x: Any, data: Any) -> Any:
        return jax.vmap(over_particles(density), in_axes=(None, 0, 0))(named.params.split(theta), x, data).sum()

    def over_groups(f: Callable[..., Any], theta: Any, x: Any, data: Any, wide: int = 1, sums: bool = False) -> Any:
        """Some groups at a time, so that what is computed on the way stays in the caches; sums come with an axis of chunks."""
        if named.groups is None:
            return f(theta, x, data)
        g = (lambda *at: f(*at)[None]) if sums else jax.vmap(f, in_axes=(None, 0, 0))
        groups, particles = x[0].shape[:2]
        count = named.groups_of_chunk(groups, particles * wide)
        whole = groups // count * count
        if whole <= count:
            return g(theta, x, data)
        done = jax.lax.map(lambda chunk: g(theta, *chunk), tree(lambda a: a[:whole].reshape(-1, count, *a.shape[1:]), (x, data)))
        done = tree(lambda a: a.reshape(-1, *a.shape[2:]), done)
        if whole == groups:
            return done
        rest = g(theta, *tree(lambda a: a[whole:], (x, data)))
        return tree(lambda a, b: jnp.concatenate([a, b]), done, rest)

    def answers(want: tuple[str, ...], theta: Any, x: Any, groups: Any, data: Any) -> tuple[Any, ...]:
        if groups is not None:
            data = tree(lambda a: a[groups], data)
        found: dict[str, Any] = {}
        at, parts = named.params.split(theta), named.latent.split(x)
        if "grad_theta" in want:
            # Of the sum over the particles of a group, which leaves their x-gradients as they are and is several times as fast.
            # Group by group, because the host adds them up in double precision.
            grads, value = over_groups(jax.grad(of_particles, argnums=(0, 1), has_aux=True), at, parts, data)
            found.update(log_density=value, grad_theta=joined(grads[0]), grad_x=joined(grads[1]))
        elif "grad_x" in want and "scores" not in want:
            grads, value = over_groups(jax.grad(of_particles, argnums=1, has_aux=True), at, parts, data)
            found.update(log_density=value, grad_x=joined(grads))
        elif "log_density" in want and "scores" not in want:
            found["log_density"] = over_groups(over_particles(density), at, parts, data)
        if "scores" in want:
            value, grads = over_groups(over_particles(jax.value_and_grad(density, argnums=(0, 1))), at, parts, data)
            found.update(log_density=value, scores=joined(grads[0]), grad_x=joined(grads[1]))
        if "hessian" in want and named.groups is None:
            found["hessian"] = jax.jacfwd(jax.grad(lambda t: of_particles(named.params.split(t), parts, data)[0]))(theta)
        elif "hessian" in want:
            # Chunk by chunk, for the same reason: one for each group would be too many numbers.
            found["hessian"] = over_groups(jax.jacfwd(jax.grad(of_groups)), theta, parts, data, named.params.free, sums=True)
        return tuple(found[name] for name in want)

    compiled, apart = jax.jit(answers, static_argnums=0), Apart(double)

    def answered(theta: np.ndarray, x: np.ndarray, groups: np.ndarray | None, want: tuple[str, ...]) -> tuple[Any, ...]:
        # JAX (0.10) cannot trace on two threads at once ("Store occupied"), and XLA has threads of its own.
        with _ONE_AT_A_TIME:
            answers = apart(lambda: compiled(want, theta, x, groups, data))
            return _summed(named, want, [np.asarray(answer) for answer in answers])

    def evaluate(theta: np.ndarray, x: np.ndarray, groups: np.ndarray | None, want: tuple[str, ...]) -> tuple[Any, ...]:
        particles = x.shape[-2]
        if want == ("hessian",) and particles > _TOGETHER and particles % _TOGETHER == 0:
            # A sum over particles, which are asked for in different numbers: each would be compiled anew, for half a second.
            parts = np.split(x, particles // _TOGETHER, axis=-2)
            return (np.sum([answered(theta, part, groups, want)[0] for part in parts], axis=0, dtype=np.float64),)
        return answered(theta, x, groups, want)

    evaluate.single = not double  # type: ignore[attr-defined]

    def prior(draw: Callable[..., Any]) -> Callable[..., Any]:
        rows = jax.vmap(named.draws(draw, jnp), in_axes=(None, 0))
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
    told = density(*(layout.split(torch.zeros(layout.free, dtype=dtype, device=device)) for layout in (named.params, named.latent)), row)
    if not hasattr(told, "is_floating_point"):
        raise ValueError(f"log_joint returned {type(told).__name__}; return a tensor of one number")
    named.refuse_unless_scalar(told.shape, "f" if told.is_floating_point() else str(told.dtype))

    def over_groups(f: Callable[..., Any]) -> Callable[..., Any]:
        return f if named.groups is None else vmap(f, in_dims=(None, 0, 0))

    def over_particles(f: Callable[..., Any]) -> Callable[..., Any]:
        return vmap(f, in_dims=(None, 0, None))

    def joined(parts: Any) -> Any:
        return torch.cat(parts, dim=-1)

    def of_particles(theta: Any, x: Any, row: Any) -> Any:
        value = over_particles(density)(theta, x, row)
        return value.sum(), value

    def evaluate(theta: np.ndarray, x: np.ndarray, groups: np.ndarray | None, want: tuple[str, ...]) -> tuple[Any, ...]:
        whole = tensor(theta)
        at, parts, chosen = named.params.split(whole), named.latent.split(tensor(x)), data
        if groups is not None:
            which = torch.from_numpy(groups).to(device)
            chosen = {name: value[which] for name, value in data.items()}
        found: dict[str, Any] = {}
        if "grad_theta" in want:
            grads, value = over_groups(grad(of_particles, argnums=(0, 1), has_aux=True))(at, parts, chosen)
            found.update(log_density=value, grad_theta=joined(grads[0]), grad_x=joined(grads[1]))
        elif "grad_x" in want and "scores" not in want:
            grads, value = over_groups(grad(of_particles, argnums=1, has_aux=True))(at, parts, chosen)
            found.update(log_density=value, grad_x=joined(grads))
        elif "log_density" in want and "scores" not in want:
            found["log_density"] = over_groups(over_particles(density))(at, parts, chosen)
        if "scores" in want:
            grads, value = over_groups(over_particles(torch.func.grad_and_value(density, argnums=(0, 1))))(at, parts, chosen)
            found.update(log_density=value, scores=joined(grads[0]), grad_x=joined(grads[1]))
        if "hessian" in want:

            def total(theta: Any) -> Any:
                return over_groups(over_particles(density))(named.params.split(theta), parts, chosen).sum()

            summed = torch.func.jacfwd(grad(total))(whole)
            found["hessian"] = summed if named.groups is None else summed[None]
        answers = tuple(found[name].detach().cpu().numpy() for name in want)
        return _summed(named, want, answers)

    evaluate.single = dtype == torch.float32  # type: ignore[attr-defined]

    def prior(draw: Callable[..., Any]) -> Callable[..., Any]:
        rows = vmap(named.draws(draw, torch), in_dims=(None, 0))
        every = rows if named.groups is None else vmap(rows, in_dims=(None, 0))
        return lambda theta, z, *_: every(tensor(theta), tensor(z)).detach().cpu().numpy()

    return evaluate, prior


def _summed(named: Named, want: Sequence[str], answers: Sequence[Any]) -> tuple[Any, ...]:
    """Hessians that came group by group, added up in double precision, as the host does with theta-gradients."""
    if named.groups is None:
        return tuple(answers)
    return tuple(np.asarray(a, dtype=np.float64).sum(axis=0) if name == "hessian" else a for name, a in zip(want, answers))


def note_of_precision(model: Any) -> str | None:
    """What is said where single precision cannot resolve the density of all data together."""
    named = model._named
    if named.groups is not None:
        return None
    start = np.zeros((1, named.latent.free))
    (value,) = model._evaluate(np.asarray(model.start), start, None, ("log_density",))
    value = np.asarray(value)
    if value.dtype != np.float32 or not np.isfinite(value).all() or np.spacing(np.abs(value)).max() <= 0.01:
        return None
    remedy = "x64=True" if model._exact is not None else "data in double precision"
    return f"the log density is about {value[0]:.2g} at the start, of which single precision resolves no more than {np.spacing(np.abs(value))[0]:.2g}; give {remedy}"


def refuse_prior_of_constrained(named: Named) -> None:
    """Draws are made on the scale of the latents, which must then be the free one."""
    if not named.latent.is_free:
        raise ValueError("prior is for latents without constraints; leave it out, and particles start at standard normals")
