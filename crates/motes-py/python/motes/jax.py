"""Decoders of your own in JAX or Flax: any function that turns latent variables into data, trained with clouds of particles.

>>> import jax
>>> import numpy as np
>>> import motes, motes.jax
>>> random = np.random.default_rng(0)
>>> data = random.normal(size=(200, 2)) @ random.normal(size=(2, 5)) + 0.1 * random.normal(size=(200, 5))
>>> params = {"w": 0.3 * random.normal(size=(2, 16)), "b": np.zeros(16), "v": 0.3 * random.normal(size=(16, 5))}
>>> def module(params, z):
...     return jax.numpy.tanh(z @ params["w"] + params["b"]) @ params["v"]
>>> decoder = motes.jax.Decoder(module, params, data, latent=2, sigma=0.5)
>>> fit = motes.fit(decoder, particles=4, batch=50, epochs=40, theta_rate=1e-2, progress=False)
>>> fit.latents.shape, fit.decode(fit.latents[:3, 0]).shape, fit.params["w"].shape
((200, 4, 2), (3, 5), (2, 16))
>>> bool(fit.loss[-4:].mean() < 0.5 * fit.loss[:4].mean())
True
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

try:
    import jax
except ImportError as error:
    raise ImportError("motes.jax needs JAX; install it with `pip install jax`") from error

from . import _arrays
from ._decoder import Decoding, DecoderFit
from ._decoder_jax import KINDS, Network
from ._decoder_shared import likelihood_of, refuse_shape, table_of

__all__ = ["Decoder", "DecoderFit"]


class Decoder(Decoding):
    """A latent variable model whose data are decoded by a function of JAX: x ~ N(0, I), and y given x by the function's output.

    ``motes.fit`` trains its parameters as it trains those of :class:`motes.torch.Decoder`, by functions that JAX compiles. Arguments that
    are not described here are the same. ``fit.params`` are the trained parameters.

    Parameters
    ----------
    module : callable
        ``f(params, z)`` turns latents of shape (rows, latent) into outputs of shape (rows, ...), such as ``module.apply`` in Flax.
    params : pytree of arrays
        Where the parameters start, such as ``module.init(key, z)``. All of them are trained, in their own precision.
    data : array_like, shape (data, ...)
        Each datum has a latent vector.
    latent : int
        The number of latent variables of a datum.
    likelihood : {"gaussian", "bernoulli"} or callable
        A callable must be made of functions of JAX.
    encoder : tuple of a callable and its parameters, optional
        The inference network of ``vae``: ``f(params, y)`` turns data of shape (rows, ...) into the mean and the logarithm of the
        variance of their latents.
    """

    def __init__(
        self,
        module: Callable[[Any, Any], Any],
        params: Any,
        data: Any,
        latent: int,
        likelihood: str | Callable[[Any, Any], Any] = "gaussian",
        *,
        sigma: float | None = None,
        encoder: tuple[Callable[[Any, Any], Any], Any] | None = None,
        labels: Any = None,
        columns: Sequence[str] | None = None,
        name: str = "decoder",
        default_step_size: float | None = None,
    ) -> None:
        if not callable(module):
            raise ValueError(f"module is of type {type(module).__name__}; give a function of parameters and latents")
        if encoder is not None and not (isinstance(encoder, (tuple, list)) and len(encoder) == 2 and callable(encoder[0])):
            raise ValueError(f"encoder is of type {type(encoder).__name__}; give a function of parameters and data, and its parameters, as a pair")
        kind, table = likelihood_of(likelihood, sigma, KINDS), data if isinstance(data, jax.Array) else table_of(data)
        refuse_shape(table)
        kind.refuse(table, jax.numpy.isfinite)
        network = Network((module, params), table, _arrays.whole("latent", latent, 1), kind, encoder)
        #: The function that is trained, and its data.
        self.module, self.data = module, table
        super().__init__(network, name, labels, columns, default_step_size)
