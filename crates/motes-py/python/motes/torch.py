"""Decoders of your own in PyTorch: any module that turns latent variables into data, trained with clouds of particles.

>>> import torch
>>> import motes, motes.torch
>>> _ = torch.manual_seed(0)
>>> data = torch.randn(200, 2) @ torch.randn(2, 5) + 0.1 * torch.randn(200, 5)
>>> module = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 5))
>>> decoder = motes.torch.Decoder(module, data, latent=2, sigma=0.5)
>>> fit = motes.fit(decoder, particles=4, batch=50, epochs=40, theta_rate=1e-2, progress=False)
>>> fit.complete, fit.latents.shape, fit.decode(fit.latents[:3, 0]).shape
(True, (200, 4, 2), (3, 5))
>>> bool(fit.loss[-4:].mean() < 0.5 * fit.loss[:4].mean())
True
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

try:
    import torch
except ImportError as error:
    raise ImportError("motes.torch needs PyTorch; install it with `pip install torch`") from error

from . import _arrays
from ._decoder import Decoding, DecoderFit
from ._decoder_shared import likelihood_of, refuse_shape, table_of
from ._decoder_network import KINDS, Network

__all__ = ["Decoder", "DecoderFit"]


class Decoder(Decoding):
    """A latent variable model whose data are decoded by a PyTorch module: x ~ N(0, I), and y given x by the module's output.

    ``motes.fit`` trains the module by ``pgd``, ``abp``, ``short-run``, or ``vae``, in mini-batches: only the particles of
    the batch move. Everything is evaluated in the module's own precision, on its own device. The module is trained in place: afterwards
    its weights are those of the last step, and it is in evaluation mode. A fit starts from the weights that the module has now.

    Parameters
    ----------
    module : torch.nn.Module
        Turns latents of shape (rows, latent) into outputs of shape (rows, ...). Parameters that require gradients are
        trained. Buffers, such as the running statistics of batch normalisation, move with them.
    data : array_like or tensor, shape (data, ...)
        Each datum has a latent vector. Data stay where they are; a batch at a time goes to the module's device.
    latent : int
        The number of latent variables of a datum.
    likelihood : {"gaussian", "bernoulli"} or callable
        Gaussian: y is the output plus noise of standard deviation ``sigma``. Bernoulli: the output holds the logits of y, which
        lies in [0, 1]. A callable ``f(output, y)`` gets an output and a datum for each row and returns log p(y | output)
        for each, or for each value of each, which is then summed.
    sigma : float, optional
        The standard deviation of Gaussian noise, by default 1.
    encoder : torch.nn.Module, optional
        The inference network of ``vae``: turns data of shape (rows, ...) into the mean and the logarithm of the variance of their
        latents, each of shape (rows, latent), or into one tensor that holds both side by side.
    labels : array_like of int, shape (data,), optional
        Whole numbers from 0 to 255, for ``fit.synthesize(source="labels")``.
    batchnorm : {"two-pass", "one-pass"}
        How ``pgd`` differentiates a module that does something else in training than in evaluation. Two passes: the weights'
        gradient by the batch's statistics, the particles' by the running ones. One pass: both by the batch's; cheaper,
        and another algorithm.
    columns : sequence of str, optional
        Names of the columns of a table.
    name : str
        What the model is called in messages and files.
    default_step_size : float, optional
        The step size of the particles where none is given; by default a tenth of sigma squared, at most 0.1, or 0.01 for other
        likelihoods.
    """

    def __init__(
        self,
        module: Any,
        data: Any,
        latent: int,
        likelihood: str | Callable[[Any, Any], Any] = "gaussian",
        *,
        sigma: float | None = None,
        encoder: Any = None,
        labels: Any = None,
        batchnorm: str = "two-pass",
        columns: Sequence[str] | None = None,
        name: str = "decoder",
        default_step_size: float | None = None,
    ) -> None:
        for what, given in (("module", module), ("encoder", encoder)):
            if not isinstance(given, torch.nn.Module) and (given is not None or what == "module"):
                raise ValueError(f"{what} is {given!r}; give a torch.nn.Module")
        if batchnorm not in ("two-pass", "one-pass"):
            raise ValueError(f"batchnorm is {batchnorm!r}; give 'two-pass' or 'one-pass'")
        kind, table = likelihood_of(likelihood, sigma, KINDS), _tensor(data)
        kind.refuse(table, torch.isfinite)
        width = _arrays.whole("latent", latent, 1)
        #: The module that is trained, and its data.
        self.module, self.data = module, table
        super().__init__(Network(module, table, width, kind, encoder, batchnorm == "one-pass"), name, labels, columns, default_step_size)


def _tensor(data: Any) -> torch.Tensor:
    """Data as a tensor that nobody differentiates."""
    table = data.detach() if isinstance(data, torch.Tensor) else torch.from_numpy(table_of(data))
    refuse_shape(table)
    return table
