"""Decoders that somebody else has written: how they are fitted, and what a trained one can do."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from functools import cached_property
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from . import _arrays, _core
from ._arrays import whole
from ._decoder_shared import AnyNetwork
from ._decoder_search import best_latents, draws
from ._progress import Progress
from ._registry import models
from ._result import Fit

_BATCH = 128


class Decoding:
    """What Motes' core asks of a decoder: the callables of a model, and a network's own."""

    # The network answers all of these at once, in `_evaluate`, or has no use for them.
    gradients = log_density = staticmethod(lambda *_: None)
    hessian = statistics = m_step = prior = theta_terms = curvature = data_terms = None
    scores, _statistics_len = False, 0

    def __init__(self, network: AnyNetwork, name: str, labels: Any, columns: Sequence[str] | None, step_size: float | None) -> None:
        if not isinstance(name, str) or not name or "\n" in name or "/" in name or name in models():
            raise ValueError(f"name is {name!r}; give a word that names no built-in model")
        self._network, self.name = network, name
        self._evaluate, self.start, self.theta_names = network.evaluate, network.start, network.names
        self.d_theta, self.d_x, self.groups = network.d_theta, network.latent, network.count
        self.x_names = [f"x[{i}]" for i in range(network.latent)]
        self.group_names = [str(i) for i in range(network.count)]
        self.labels = None if labels is None else labels_of(labels, network.count)
        self.columns = None if columns is None else _arrays.names("columns", columns, math.prod(network.data.shape[1:]), "data")
        step_size = network.likelihood.step_size if step_size is None else step_size
        self.default_step_size = _arrays.finite("default_step_size", step_size)
        if self.default_step_size <= 0.0:
            raise ValueError(f"default_step_size is {step_size}; give a positive number")
        network.leave = self._leave
        self._sha256, self._options = _arrays.digest({"data": network.data}), json.dumps(network.described())
        self._problem = _core.Problem.of_callables(self)

    def __len__(self) -> int:
        return self.groups

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_problem"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._problem = _core.Problem.of_callables(self)

    def _without_callables(self) -> "Decoding":
        raise ValueError("the decoder's module cannot be pickled; define its class where it can be imported")

    def __repr__(self) -> str:
        return f"Decoder({self._network.called}, data={self.groups}, latent={self.d_x}, parameters={self.d_theta})"

    def _settings(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """Settings of a fit with steps in place of epochs."""
        if chosen.get("algorithm") == "auto":
            raise ValueError("algorithm is 'auto', which trains no decoders; leave it out, or name pgd, abp, short-run or vae")
        for name in ("tolerance", "max_evaluations"):
            if chosen.get(name) is not None:
                raise ValueError(f"{name} is {chosen[name]!r}, and a decoder is trained for as long as it is told; give epochs or steps")
        epochs = chosen.pop("epochs", None)
        if epochs is None:
            return chosen
        if chosen.get("steps") is not None:
            raise ValueError("steps and epochs say the same in other words; give one of them")
        return {**chosen, "steps": whole("epochs", epochs, 1) * self._epoch(chosen.get("batch"))}

    def _epoch(self, batch: Any) -> int:
        """Steps to a pass over all data."""
        batch = min(_BATCH, self.groups) if batch is None else whole("batch", batch, 1)
        return -(-self.groups // batch)

    @cached_property
    def _range(self) -> tuple[float, float]:
        """The values that are black and white."""
        data = self._network.data
        return float(data.min()), float(data.max())

    def _leave(self, dir: Any, theta: np.ndarray, buffers: np.ndarray, latents: np.ndarray, over: bool) -> None:
        """Writes what a run shows on its way, and its weights at its end, into its directory."""
        from . import _decoder_pictures as pictures

        network, dir = self._network, os.fspath(dir)
        network.set(theta, buffers)
        if over:
            pictures.write(os.path.join(dir, "weights.safetensors"), pictures.safetensors(network.state()))
        z = latents.reshape(-1, self.d_x)
        data, made = network.first(len(z)), network.decode(z)
        if data.shape != made.shape:
            return  # what a likelihood of somebody else's compares cannot be put side by side
        samples = network.decode(drawn(self, z, "prior", None, len(z), 0))
        if pictures.image_shape(data.shape[1:]):
            for name, kinds in (("reconstructions", [data, made]), ("samples", [samples])):
                picture = pictures.png(pictures.grid(kinds, *self._range))
                pictures.write(os.path.join(dir, "pictures", f"{name}.png"), picture)
        elif data.ndim == 2:
            names = pictures.named(self.columns, data.shape[1:])
            both = [*names, *(f"{name} decoded" for name in names)]
            rows = np.concatenate([data.astype(np.float64), made.astype(np.float64)], axis=1)
            pictures.write(os.path.join(dir, "reconstructions.csv"), pictures.table(both, rows))
            pictures.write(os.path.join(dir, "samples.csv"), pictures.table(names, samples))


def drawn(model: Decoding, particles: np.ndarray, source: str, components: int | None, count: int, seed: int) -> np.ndarray:
    """Latents to make data from, fitted to particles (rows, latent) whose labels repeat themselves."""
    rows = np.ascontiguousarray(particles, dtype=np.float32)
    return _core.draw(rows, model.labels, source, components, count, seed).reshape(-1, model.d_x)


class DecoderFit(Fit):
    """A trained decoder: a :class:`motes.Fit` with a loss, the latents of the data, and data that it makes.

    Made by ``motes.fit`` and ``motes.load``.
    """

    model: Any

    def __init__(self, run: _core.Run, model: Any) -> None:
        super().__init__(run, model)
        self.module  # has the weights of the fit from now on

    @property
    def _network(self) -> AnyNetwork:
        """The network with the weights of this fit: others may have trained it since."""
        network = self.model._network
        network.set(self.theta, np.array(self._run.buffers()))
        return network

    @property
    def module(self) -> Any:
        """What decodes, with the weights of this fit: the PyTorch module in evaluation mode, or a function of latents alone in JAX."""
        return self._network.trained()

    @property
    def params(self) -> Any:
        """The weights of this fit: a copy of the module's ``state_dict``, or in JAX the parameters as they were given."""
        return self._network.params()

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that determined the run: ``motes.fit(model, **fit.settings)`` repeats it."""
        return {name: value for name, value in super().settings.items() if name != "data-sha256"}

    def _epoch(self) -> int:
        return self.model._epoch(self.settings.get("batch"))

    def _worded(self, text: str) -> str:
        """Advice that speaks of passes over the data, in which people count here."""
        return re.sub(r"\bsteps=(\d+)", lambda found: f"epochs={-(-int(found[1]) // self._epoch())}", text)

    @property
    def diagnostics(self) -> dict[str, Any]:
        """Effective sample sizes, drift, acceptance, and the verdict with its advice."""
        told = super().diagnostics
        return {**told, "advice": None if told["advice"] is None else self._worded(told["advice"])}

    def summary(self) -> str:
        """Estimates, posterior moments, the loss and the verdict as a table to print."""
        return self._worded(super().summary())

    @property
    def loss(self) -> np.ndarray:
        """-log p(x, y) of a datum without its constants, at each recorded step; the negative bound of a VAE."""
        return self.trace["loss"][1:]

    @property
    def latents(self) -> np.ndarray:
        """The particles of each datum, shape (data, particles, latent)."""
        shape = (-1, self.model.groups, self.model.d_x)
        return self.particles.reshape(shape).transpose(1, 0, 2)

    def decode(self, latents: Any) -> np.ndarray:
        """The data that latents stand for: the output, or its sigmoid for a Bernoulli likelihood.

        Parameters
        ----------
        latents : array_like, shape (..., latent)
            Latents, such as ``fit.latents[:, 0]``.
        """
        z = np.asarray(_arrays.converted("latents", latents, "give an array"))
        if z.dtype.kind not in "fiu" or z.ndim == 0 or z.shape[-1] != self.model.d_x or not z.size:
            raise ValueError(f"latents has shape {z.shape} and dtype {z.dtype}; give numbers of shape (rows, {self.model.d_x})")
        made = self._network.decode(z.reshape(-1, z.shape[-1]).astype(np.float64))
        return made.reshape(*z.shape[:-1], *made.shape[1:])

    def reconstruct(self, count: int | None = None) -> np.ndarray:
        """The first data, decoded from their first particle.

        Parameters
        ----------
        count : int, optional
            How many; by default all.
        """
        return self.decode(self.latents[: None if count is None else whole("count", count, 1), 0])

    def interpolate(self, i: int, j: int, count: int = 14) -> np.ndarray:
        """Data on a straight line of latents from datum ``i`` to ``j``, both ends included.

        Parameters
        ----------
        i, j : int
            Data that it was trained on, counted from 0.
        count : int
            How many on the line.
        """
        for name, index in (("i", i), ("j", j)):
            if whole(name, index) >= len(self.model):
                raise ValueError(f"{name} is {index}; choose from 0 to {len(self.model) - 1}")
        t = np.linspace(0.0, 1.0, whole("count", count, 2))[:, None]
        return self.decode((1 - t) * self.latents[int(i), 0] + t * self.latents[int(j), 0])

    def synthesize(
        self, count: int = 64, source: str = "gaussian", components: int | None = None, seed: int = 0
    ) -> np.ndarray:
        """Makes new data.

        Parameters
        ----------
        count : int
            How many.
        source : str
            Where latents come from: prior (N(0, I)), or fitted to the particles: gaussian, mixture (of Gaussians),
            labels (a Gaussian for each label).
        components : int, optional
            Components of the mixture; by default 100, or fewer for few particles.
        seed : int
            The seed of the draws and of the mixture's start.
        """
        components = None if components is None else whole("components", components)
        particles = self.latents.transpose(1, 0, 2).reshape(-1, self.model.d_x)
        return self.decode(drawn(self.model, particles, source, components, whole("count", count, 1), whole("seed", seed)))

    def inpaint(
        self, data: Any, mask: Any = None, *, steps: int = 1000, seed: int = 0, progress: bool = True
    ) -> np.ndarray:
        """Fills holes in data: searches for the latents that fit best around them, and decodes these.

        Parameters
        ----------
        data : array_like, shape (data, ...)
            Data as the model was given them.
        mask : array_like of bool or (x0, y0, x1, y1), optional
            True where values are missing, for all data alike or for each. For images, a hole may be columns x0 to x1 and rows
            y0 to y1 (without the last). By default values that are NaN are missing.
        steps : int
            Steps of the search at most.
        seed : int
            The seed of the starts.
        progress : bool
            Whether to show progress on stderr.

        Returns
        -------
        numpy.ndarray, shape (data, ...)
            Decoded data, where they were seen too.
        """
        network = self._network
        y, missing = self._new("data", data, mask)
        if missing.reshape(len(missing), -1).all(axis=1).any():
            raise ValueError("mask leaves a datum nothing to go by; choose smaller holes")
        with _shown("inpainting ", progress, len(missing)) as told:
            z = best_latents(network, y, ~missing, whole("steps", steps, 1), whole("seed", seed), told)
        return self.decode(z)

    def infer(
        self, data: Any, particles: int = 10, *, steps: int = 500, seed: int = 0, progress: bool = True
    ) -> np.ndarray:
        """Draws from the posterior of the latents of data that it was not trained on, given the trained weights.

        Particles start at the latents that fit best and make Langevin steps that are accepted or rejected, with a step size for
        each datum that is adapted in the first half of the steps.

        Parameters
        ----------
        data : array_like, shape (data, ...)
            Data as the model was given them.
        particles : int
            Draws for each datum.
        steps : int
            Steps of each particle; more where the posterior is narrow.
        seed, progress
            As for :meth:`inpaint`.

        Returns
        -------
        numpy.ndarray, shape (data, particles, latent)
        """
        network = self._network
        y, _ = self._new("data", data, False)
        n, length, start = whole("particles", particles, 1), whole("steps", steps, 2), whole("seed", seed)
        with _shown("searching ", progress, len(y)) as told:
            best = best_latents(network, y, None, 1000, start, told)
        with _shown("sampling ", progress, len(y)) as told:
            return draws(network, y, best, n, length, self.model.default_step_size, start, told)

    def plot(self, count: int = 8) -> Any:  # type: ignore[override]
        """Draws the loss, and data above what they are decoded to, or latents where data are no images; needs matplotlib.

        Parameters
        ----------
        count : int
            How many data.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from ._decoder_pictures import plot

        return plot(self, whole("count", count, 1))

    def _new(self, name: str, data: Any, mask: Any) -> tuple[Any, np.ndarray]:
        """New data on the device, with zeros where values are missing, and where that is."""
        own = tuple(self.model._network.data.shape[1:])
        values = np.array(_arrays.converted(name, data, "give an array"))
        if values.dtype.kind not in "fiub" or values.shape[1:] != own or not values.size:
            raise ValueError(f"{name} has shape {values.shape} and dtype {values.dtype}; give numbers of shape (data, {', '.join(map(str, own))})")
        nan = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
        missing = nan if mask is None else hole(mask, values.shape)
        if (nan & ~missing).any():
            place = tuple(int(i) for i in np.argwhere(nan & ~missing)[0])
            raise ValueError(f"{name}{list(place)} is {values[place]}; remove or fill in values that are not finite")
        if mask is not False and not missing.any():
            raise ValueError("mask has no hole; it is True where values are missing")
        values[missing] = 0
        return self.model._network.given(values), missing


def hole(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Where values of data of this shape are missing."""
    if mask is False:
        return np.zeros(shape, dtype=bool)
    array = np.asarray(mask)
    if array.dtype.kind == "b" and array.shape in (shape, shape[1:]):
        return np.broadcast_to(array, shape)
    image = len(shape) > 2
    if array.dtype.kind in "iu" and array.shape == (4,) and image:
        x0, y0, x1, y1 = array.tolist()
        height, width = shape[-2:]
        if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
            raise ValueError(f"mask is {(x0, y0, x1, y1)}; give x0 < x1 within 0 to {width} and y0 < y1 within 0 to {height}")
        missing = np.zeros(shape, dtype=bool)
        missing[..., y0:y1, x0:x1] = True
        return missing
    box = "(x0, y0, x1, y1), or " if image else ""
    raise ValueError(f"mask has shape {array.shape} and dtype {array.dtype}; give {box}booleans of shape {shape[1:]} or {shape}")


@contextlib.contextmanager
def _shown(label: str, progress: bool, count: int) -> Iterator[Callable[[int], None]]:
    """Shows how many data are done."""
    tick = Progress(0, label, "data") if progress else None
    try:
        yield (lambda done: None) if tick is None else (lambda done: tick(done, count))
    finally:
        if tick is not None:
            tick.close()


def labels_of(value: Any, count: int) -> list[int]:
    """Labels of so many data."""
    array = np.asarray(_arrays.converted("labels", value, "give one for each datum"))
    if array.shape != (count,) or array.dtype.kind not in "iu" or array.min() < 0 or array.max() > 255:
        raise ValueError(f"labels has shape {array.shape} and dtype {array.dtype}; give a whole number from 0 to 255 for each of {count} data")
    return [int(label) for label in array]
