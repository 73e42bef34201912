"""A function of JAX as a network that Motes trains: parameters and latents come with each question, data stay on its device."""

from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from . import _decoder_shared as shared
from ._decoder_shared import PART, TRACED, AnyNetwork, named_values, same_groups, squares


class Likelihood(shared.Likelihood):
    """log p(y | output), value by value or row by row."""

    def values(self, output: Any, y: Any) -> Any:
        """For outputs (data, particles, ...) of data y: each value's, or each row's; the first two axes are those of the output."""
        lead = output.shape[:2]
        told = self._call(output.reshape(-1, *output.shape[2:]), jnp.repeat(y, lead[1], axis=0))
        self.refuse_returned(lead[0] * lead[1], getattr(told, "shape", None), type(told).__name__)
        return told.reshape(*lead, *told.shape[1:])

    def mean(self, output: Any) -> Any:
        """What data an output stands for."""
        return output


class Gaussian(shared.Gaussian, Likelihood):
    def values(self, output: Any, y: Any) -> Any:
        return (-0.5 * self._precision) * (y[:, None] - output) ** 2


class Bernoulli(shared.Bernoulli, Likelihood):
    def values(self, output: Any, y: Any) -> Any:
        return y[:, None] * output - jax.nn.softplus(output)

    def mean(self, output: Any) -> Any:
        return jax.nn.sigmoid(output)


#: What there is by name.
KINDS = {"gaussian": Gaussian, "bernoulli": Bernoulli, "callable": Likelihood}


class Network(AnyNetwork):
    """A function of parameters and latents as a decoder, and one of parameters and data as an encoder if there is one."""

    def __init__(self, module: tuple[Any, Any], data: Any, latent: int, likelihood: Any, encoder: tuple[Any, Any] | None) -> None:
        (self.apply, start), self.latent, self.likelihood = module, latent, likelihood
        self.data, self.count = data, len(data)
        self.called = getattr(self.apply, "__qualname__", type(self.apply).__name__)
        self._start = _floats("params", start)
        self.encoder: Any = None if encoder is None else encoder[0]
        self._start_phi = {} if encoder is None else _floats("the encoder's parameters", encoder[1])
        self._prepare()
        self._probe()
        self.start = np.concatenate([np.asarray(part, np.float64) for part in (self._theta, self._phi)]).tolist()
        self.names = [one for name, leaf in _leaves(self._start) for one in named_values(name, leaf.size)][:TRACED]
        self.encode = None if encoder is None else self._encode

    def _prepare(self) -> None:
        """What is made of the rest, and cannot be pickled."""
        self._theta, self._unravel = ravel_pytree(self._start)
        self._phi, self._unravel_phi = ravel_pytree(self._start_phi)
        self.d_theta, self.phi, self.dtype = self._theta.size, self._phi.size, self._theta.dtype
        self.single = self.dtype != jnp.float64
        self._at_hand: tuple[np.ndarray | None, Any] | None = None
        both = (0, 1)
        self._derived = {of: jax.jit(jax.value_and_grad(self._total, argnums=of, has_aux=True)) for of in (0, 1, both)}
        self._bound = jax.jit(jax.value_and_grad(self._evidence, argnums=both, has_aux=True))
        self._rows_of, self._made = jax.jit(self._rows), jax.jit(lambda theta, z: self.likelihood.mean(self._output(theta, z)))
        self._drawn = jax.jit(self._draws)
        self._searched = jax.jit(jax.value_and_grad(self._seen, argnums=1, has_aux=True))

    def __getstate__(self) -> dict[str, Any]:
        made = ("_unravel", "_unravel_phi", "_at_hand", "_derived", "_bound", "_rows_of", "_made", "_drawn", "_searched")
        return {name: value for name, value in vars(self).items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._prepare()

    def _probe(self) -> None:
        """Refuses what cannot be trained."""
        z = jnp.linspace(-1, 1, 4 * self.latent, dtype=self.dtype).reshape(4, self.latent)
        try:
            output = self.apply(self._start, z)
        except Exception as error:
            raise ValueError(f"module failed for latents of shape {z.shape} ({_line(error)}); correct it, or choose another latent") from error
        self.refuse_output("module", 4, getattr(output, "shape", None), type(output).__name__)
        if not bool(jnp.isfinite(output).all()):
            raise ValueError("module returns values that are not finite at its first weights; initialise it anew")
        values = self.likelihood.values(output[None], self._given(self.data[:1]))
        self.likelihood.refuse_first(bool(jnp.isfinite(values).all()))
        if self.encoder is not None:
            y = self._given(self.data[np.arange(4) % self.count])
            try:
                told = self._gaussians(self._phi, y)
            except Exception as error:
                raise ValueError(f"encoder failed for data of shape {y.shape} ({_line(error)}); correct it") from error
            if not isinstance(told, tuple) or any(getattr(part, "shape", None) != (4, self.latent) for part in told):
                raise ValueError(
                    f"encoder must return a mean and the logarithm of a variance, each of shape {(4, self.latent)}; let it return such a pair"
                )

    def _output(self, theta: Any, z: Any) -> Any:
        """The outputs of latents (rows, latent)."""
        return self.apply(self._unravel(theta), z)

    def _values(self, theta: Any, z: Any, y: Any) -> Any:
        output = self._output(theta, z.reshape(-1, self.latent))
        return self.likelihood.values(output.reshape(*z.shape[:2], *output.shape[1:]), y)

    def _rows(self, theta: Any, z: Any, y: Any) -> Any:
        """The log-likelihood of each row."""
        return _summed(self._values(theta, z, y))

    def _total(self, theta: Any, z: Any, y: Any) -> Any:
        rows = self._rows(theta, z, y)
        return rows.sum(), rows

    def _seen(self, theta: Any, z: Any, y: Any, seen: Any) -> Any:
        values = self._values(theta, z, y)
        if seen is not None:
            self.likelihood.refuse_rows(values.shape[2:], y.shape[1:])
            values = jnp.where(seen[:, None], values, 0)
        rows = _summed(values)
        return rows.sum(), rows

    def _gaussians(self, phi: Any, y: Any) -> Any:
        """The encoder's mean and logarithm of the variance for each datum."""
        told = self.encoder(self._unravel_phi(phi), y)
        if getattr(told, "shape", None) == (len(y), 2 * self.latent):
            return told[:, : self.latent], told[:, self.latent :]
        return tuple(told) if isinstance(told, (tuple, list)) and len(told) == 2 else told

    def _draws(self, phi: Any, noise: Any, y: Any) -> Any:
        mean, log_variance = self._gaussians(phi, y)
        return mean[:, None] + jnp.exp(0.5 * log_variance)[:, None] * noise

    def _evidence(self, theta: Any, phi: Any, z: Any, y: Any) -> Any:
        """The bound's sum over rows that the encoder has drawn, and its terms."""
        mean, log_variance = self._gaussians(phi, y)
        # The draws are what they were; their dependence on the encoder comes back.
        noise = jax.lax.stop_gradient((z - mean[:, None]) * jnp.exp(-0.5 * log_variance)[:, None])
        rows = self._rows(theta, mean[:, None] + jnp.exp(0.5 * log_variance)[:, None] * noise, y)
        divergence = 0.5 * (mean**2 + jnp.exp(log_variance) - 1 - log_variance).sum() * z.shape[1]
        return rows.sum() - divergence, (rows, divergence)

    def _given(self, y: Any) -> Any:
        """Data as arrays of JAX; whole numbers stay whole for a likelihood that is written by somebody else."""
        floats = self.likelihood.alike or np.issubdtype(y.dtype, np.floating)
        return jnp.asarray(y, dtype=self.dtype if floats else None)

    def _targets(self, groups: np.ndarray | None) -> Any:
        """The data of some groups; those of the last question are kept."""
        if self._at_hand is None or not same_groups(self._at_hand[0], groups):
            self._at_hand = groups, self._given(self.data if groups is None else self.data[groups])
        return self._at_hand[1]

    def set(self, theta: np.ndarray, buffers: np.ndarray) -> None:
        self._theta = jnp.asarray(theta[: self.d_theta], self.dtype)

    def evaluate(
        self, theta: np.ndarray, x: np.ndarray, groups: np.ndarray | None, want: Sequence[str], buffers: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        y = self._targets(groups)
        found: dict[str, np.ndarray] = {}
        weights = jnp.asarray(theta[: self.d_theta], self.dtype)
        z = jnp.asarray(x, self.dtype)
        rows = other = None
        if "log_density" in want:
            part = max(1, PART // x.shape[1])
            parts = [slice(first, first + part) for first in range(0, len(x), part)]
            found["log_density"] = np.concatenate([_numbers(self._rows_of(weights, z[p], y[p])) for p in parts]) - 0.5 * squares(x)
        gradient = None
        if "grad_theta" in want and len(theta) > self.d_theta:
            phi = jnp.asarray(theta[self.d_theta :], self.dtype)
            (_, (rows, divergence)), gradients = self._bound(weights, phi, z, y)
            other, found["grad_theta"] = float(divergence), np.concatenate([_numbers(g) for g in gradients])
        elif "grad_theta" in want and "grad_x" in want:
            (_, rows), (of_theta, gradient) = self._derived[0, 1](weights, z, y)
            found["grad_theta"] = _numbers(of_theta)
        elif "grad_theta" in want:
            (_, rows), of_theta = self._derived[0](weights, z, y)
            found["grad_theta"] = _numbers(of_theta)
        if "grad_x" in want:
            if gradient is None:
                (_, rows), gradient = self._derived[1](weights, z, y)
            found["grad_x"] = np.asarray(gradient, x.dtype) - x
        if "buffers" in want:
            found["buffers"] = buffers
        if "scalars" in want:
            total = squares(x).sum()
            other = 0.5 * total if other is None else other
            found["scalars"] = np.array([other - _numbers(rows).sum(), total / self.latent])
        return tuple(found[name] for name in want)

    def log_joint(self, x: np.ndarray, y: Any, seen: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        (_, rows), gradient = self._searched(self._theta, jnp.asarray(x, self.dtype), y, seen)
        return _numbers(rows) - 0.5 * squares(x), np.asarray(gradient, x.dtype) - x

    def decode(self, z: np.ndarray) -> np.ndarray:
        made = [self._made(self._theta, jnp.asarray(z[at : at + PART], self.dtype)) for at in range(0, len(z), PART)]
        return np.concatenate([np.asarray(part, np.float32 if self.single else np.float64) for part in made])

    def first(self, count: int) -> np.ndarray:
        return np.asarray(self.data[:count])

    def given(self, array: np.ndarray) -> Any:
        return self._given(array)

    def trained(self) -> Callable[[Any], Any]:
        return functools.partial(self.apply, self.params())

    def params(self) -> Any:
        return self._unravel(self._theta)

    def state(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(leaf, None if leaf.dtype != jnp.bfloat16 else np.float32) for name, leaf in _leaves(self.params())}

    def _encode(self, theta: np.ndarray, z: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Turns standard normals into draws from the encoder."""
        phi = jnp.asarray(theta[self.d_theta :], self.dtype)
        return np.asarray(self._drawn(phi, jnp.asarray(z, self.dtype), self._targets(groups)), z.dtype)


def _floats(what: str, params: Any) -> Any:
    """Parameters that can be trained, as arrays of JAX."""
    named = _leaves(params)
    if not named:
        raise ValueError(f"{what} holds no arrays; give the parameters that the function takes")
    for name, leaf in named:
        if not jnp.issubdtype(getattr(leaf, "dtype", None) or type(leaf), jnp.floating):
            told = getattr(leaf, "dtype", None) or type(leaf).__name__
            raise ValueError(f"{what} holds {told} at {name}; give floating-point arrays, and keep what is not trained in the function")
        if name.startswith("batch_stats"):
            raise ValueError(f"{what} holds running statistics at {name}, which JAX's decoders do not move; normalise by layer or group")
    return jax.tree_util.tree_map(jnp.asarray, params)


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a tree and their names."""

    def word(key: Any) -> str:
        return str(next(getattr(key, kind) for kind in ("key", "idx", "name") if hasattr(key, kind)))

    return [(".".join(map(word, path)) or "params", leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]]


def _summed(values: Any) -> Any:
    """Sums over all axes but the first two."""
    return values.reshape(*values.shape[:2], -1).sum(axis=2)


def _numbers(array: Any) -> np.ndarray:
    return np.asarray(array, np.float64)


def _line(error: Exception) -> str:
    """What an error says, in a line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
