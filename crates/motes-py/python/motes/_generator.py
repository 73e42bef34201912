"""The generator network: images decoded from latent variables, and what a trained one can do."""

from __future__ import annotations

import os
import struct
from functools import cached_property
from typing import Any, Sequence

import numpy as np

from . import _arrays, _core
from ._arrays import whole
from ._models import _absolute, _Builtin
from ._progress import Progress
from ._result import Fit
from ._run import threads_of

_D_X, _SIDE = 64, 32
_IMAGES = "give (images, height, width), or (images, channels, height, width) with 1 or 3 channels"


class Generator(_Builtin):
    """The generator network of the paper: an image of 32 x 32 pixels is decoded from 64 latent variables, plus noise.

    Parameters
    ----------
    images : array_like, shape (images, height, width) or (images, channels, height, width)
        Whole numbers from 0 to 255, or floats in [-1, 1], which are rounded to as many levels. Other sizes than 32 x 32
        are resized, shorter side first, and cut to the middle.
    labels : array_like, shape (images,), optional
        Whole numbers from 0 to 255, for ``GeneratorFit.synthesize(source="labels")``.

    Examples
    --------
    >>> import motes, numpy as np
    >>> motes.Generator(np.zeros((5, 28, 28), dtype=np.uint8))
    Generator(images=5, channels=1)
    """

    _model = "generator"
    #: Whether the images were given as arrays, and their labels.
    _given: tuple[bool, list[int] | None] = (False, None)

    def __init__(self, images: Any, labels: Any = None) -> None:
        pixels = _pixels("images", images)
        codes = None if labels is None else _labels(labels, len(pixels))
        idx = struct.pack(">4B4I", 0, 0, 8, 4, *pixels.shape) + pixels.tobytes()
        self._make("of_images", idx, pixels.shape[1], codes)
        self._given = (True, codes)

    @classmethod
    def mnist(cls, images: int | None = None, channels: int = 1) -> "Generator":
        """The first of the 10,000 MNIST images that are built in, as ``motes fit generator`` takes them.

        Parameters
        ----------
        images : int, optional
            How many; by default all.
        channels : int
            1, or 3 for a network of coloured images.

        Examples
        --------
        >>> import motes
        >>> motes.Generator.mnist(8).images.shape
        (8, 1, 32, 32)
        """
        return cls._of_settings(images=_count("images", images), channels=_count("channels", channels))

    @classmethod
    def from_path(
        cls,
        path: str | os.PathLike[str],
        images: int | None = None,
        channels: int | None = None,
        labels: str | os.PathLike[str] | None = None,
    ) -> "Generator":
        """Images of a folder or an IDX file, read as ``motes fit generator --data`` reads them.

        Parameters
        ----------
        path : path
            A folder of JPEG or PNG files, or an IDX file.
        images : int, optional
            How many, the first of those there are; by default all.
        channels : int, optional
            1 for grey images, 3 for coloured ones; by default 1, or 3 for a folder.
        labels : path, optional
            An IDX file of labels.
        """
        place = None if labels is None else _absolute(labels)
        sizes: dict[str, Any] = {"images": _count("images", images), "channels": _count("channels", channels)}
        return cls._of_settings(data=_absolute(path), labels=place, **sizes)

    @property
    def channels(self) -> int:
        """1 for grey images, 3 for coloured ones."""
        return self._problem.image_shape()[1]

    @property
    def images(self) -> np.ndarray:
        """The images as the network sees them: values in [-1, 1], shape (images, channels, 32, 32)."""
        return self._problem.image_values().reshape(-1, self.channels, _SIDE, _SIDE)

    def __len__(self) -> int:
        return self._problem.image_shape()[0]

    def __repr__(self) -> str:
        return f"Generator(images={len(self)}, channels={self.channels})"


class GeneratorFit(Fit):
    """A fitted generator: a :class:`Fit` with a loss, and images that it makes.

    Made by :func:`fit` and :func:`load`. Images are arrays of shape (images, channels, 32, 32) with values in [-1, 1], as
    the command line writes them.

    Examples
    --------
    >>> import motes
    >>> model = motes.Generator.mnist(4)
    >>> fit = motes.fit(model, particles=1, steps=2, batch=4, progress=False)
    >>> fit.k, fit.complete
    (2, True)
    >>> fit.particles.shape, fit.loss.shape
    ((1, 4, 64), (2,))
    >>> fit.decode(fit.particles[0, :3]).shape
    (3, 1, 32, 32)
    >>> fit.synthesize(2, source="prior").shape
    (2, 1, 32, 32)
    """

    #: `steps` says what `epochs` would.
    _own_settings = ("sigma", "batchnorm", "lambda", "pictures_every")

    def _epoch(self) -> int:
        return -(-len(self.model) // self.settings["batch"])

    @cached_property
    def _painter(self) -> _core.Painter:
        return _core.Painter(self._run, *self.model._given)

    @property
    def loss(self) -> np.ndarray:
        """-log p(x, y) of an image without its constants, at each recorded step; the negative bound of a VAE."""
        return self.trace["loss"][1:]

    def decode(self, latents: Any, *, threads: int | None = None) -> np.ndarray:
        """The images that latents decode to.

        Parameters
        ----------
        latents : array_like, shape (images, 64)
            Latents, such as ``particles[0]``.
        threads : int, optional
            Threads to use, by default all.
        """
        return self._shaped(self._painter.decode(_floats("latents", latents, (None, _D_X)), threads_of(threads)))

    def reconstruct(self, count: int | None = None) -> np.ndarray:
        """The first training images, decoded from their first particle.

        Parameters
        ----------
        count : int, optional
            How many; by default all.
        """
        return self.decode(self.particles[0, : None if count is None else whole("count", count, 1)])

    def interpolate(self, i: int, j: int, count: int = 14) -> np.ndarray:
        """Images on a straight line of latents from training image ``i`` to ``j``, both ends included.

        Parameters
        ----------
        i, j : int
            Training images, counted from 0.
        count : int
            How many images.
        """
        for name, index in (("i", i), ("j", j)):
            if whole(name, index) >= len(self.model):
                raise ValueError(f"{name} is {index}; choose from 0 to {len(self.model) - 1}")
        t = np.arange(whole("count", count, 2), dtype=np.float32)[:, None] / np.float32(count - 1)
        return self.decode((1 - t) * self.particles[0, int(i)] + t * self.particles[0, int(j)])

    def synthesize(
        self, count: int = 64, source: str = "gaussian", components: int | None = None, seed: int = 0
    ) -> np.ndarray:
        """Makes new images.

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
        latents = self._painter.draw(source, components, whole("count", count, 1), whole("seed", seed))
        return self.decode(latents.reshape(-1, _D_X))

    def test_images(self, count: int = 16) -> np.ndarray:
        """Images that it was not trained on: MNIST's test images, or further images of its folder or IDX file.

        Parameters
        ----------
        count : int
            How many at most.
        """
        return self._shaped(self._painter.test_images(whole("count", count, 1)))

    def inpaint(
        self,
        images: Any = None,
        mask: Any = (10, 10, 22, 22),
        *,
        steps: int = 1000,
        seed: int = 0,
        threads: int | None = None,
        progress: bool = True,
    ) -> np.ndarray:
        """Fills holes in images: searches for the latents that fit best around them.

        Parameters
        ----------
        images : array_like, shape (images, 32, 32) or (images, channels, 32, 32), optional
            Images as :class:`Generator` takes them; by default 16 test images.
        mask : (x0, y0, x1, y1) or array_like of bool, shape (32, 32)
            The hole: columns x0 to x1 and rows y0 to y1 (without the last), or True where pixels are missing.
        steps : int
            Steps of the search at most.
        seed : int
            The seed of the starts.
        threads, progress
            As for :func:`fit`.

        Returns
        -------
        numpy.ndarray, shape (images, channels, 32, 32)
        """
        if images is None:
            values = self.test_images()
        else:
            pixels = _pixels("images", images)
            if pixels.shape[1:] != (self.model.channels, _SIDE, _SIDE):
                wanted = f"(images, {self.model.channels}, {_SIDE}, {_SIDE})"
                raise ValueError(f"images has shape {np.shape(images)}; give {wanted} as the training images have")
            values = (pixels.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
        seen = np.tile(~_hole(mask).reshape(-1), self.model.channels)
        most, start = whole("steps", steps, 1), whole("seed", seed)
        workers = threads_of(threads)
        tick = Progress(0, "inpainting ", "images") if progress else None
        try:
            return self._shaped(self._painter.inpaint(values.reshape(-1), seen, most, start, workers, tick))
        finally:
            if tick is not None:
                tick.close()

    def plot(self, count: int = 8) -> Any:  # type: ignore[override]
        """Draws the loss, and training images above what they are decoded to; needs matplotlib.

        Parameters
        ----------
        count : int
            How many images.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from ._plot import plot_generator

        return plot_generator(self, whole("count", count, 1))

    def _shaped(self, flat: np.ndarray) -> np.ndarray:
        return flat.reshape(-1, self.model.channels, _SIDE, _SIDE)


def _count(name: str, value: int | None) -> int | None:
    return None if value is None else whole(name, value)


def _array(name: str, value: Any) -> np.ndarray:
    array = _arrays.converted(name, value, "give one")
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} has dtype {array.dtype}; give real numbers")
    return array


def _floats(name: str, value: Any, shape: Sequence[int | None]) -> np.ndarray:
    array = _array(name, value)
    if array.ndim != len(shape) or any(w is not None and n != w for n, w in zip(array.shape, shape)) or not array.size:
        wanted = ", ".join("images" if w is None else str(w) for w in shape)
        raise ValueError(f"{name} has shape {array.shape}; give ({wanted})")
    array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds values that are not finite; remove them")
    return array


def _pixels(name: str, value: Any) -> np.ndarray:
    """Images as bytes, shape (images, channels, height, width)."""
    array = _array(name, value)
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim != 4 or array.shape[1] not in (1, 3):
        remedy = _IMAGES
        if array.ndim == 4 and array.shape[3] in (1, 3):
            remedy = f"put the channels before the rows with {name}.transpose(0, 3, 1, 2)"
        raise ValueError(f"{name} has shape {np.shape(value)}; {remedy}")
    if not array.size:
        raise ValueError(f"{name} has shape {np.shape(value)} and holds no data; give at least one image")
    least, most = (-1, 1) if array.dtype.kind == "f" else (0, 255)
    inside = (array >= least) & (array <= most)  # NaN is not
    if not inside.all():
        place = tuple(int(i) for i in np.argwhere(~inside)[0])
        remedy = "scale floats to [-1, 1], or give whole numbers from 0 to 255"
        raise ValueError(f"{name} holds {array[place]}; {remedy}")
    if array.dtype.kind == "f":
        array = np.floor((array.astype(np.float64) + 1) * 127.5 + 0.5)
    return np.ascontiguousarray(array, dtype=np.uint8)


def _labels(value: Any, count: int) -> list[int]:
    array = _array("labels", value)
    if array.shape != (count,):
        raise ValueError(f"labels has shape {array.shape}; give ({count},), one for each image")
    if array.dtype.kind == "f" or array.min() < 0 or array.max() > 255:
        raise ValueError("labels must be whole numbers from 0 to 255; count the classes")
    return array.tolist()


def _hole(mask: Any) -> np.ndarray:
    array = np.asarray(mask)
    if array.dtype.kind == "b" and array.shape == (_SIDE, _SIDE):
        hole = array
    elif array.dtype.kind in "iu" and array.shape == (4,):
        x0, y0, x1, y1 = array.tolist()
        if not (0 <= x0 < x1 <= _SIDE and 0 <= y0 < y1 <= _SIDE):
            raise ValueError(f"mask is {(x0, y0, x1, y1)}; give x0 < x1 and y0 < y1 within 0 to {_SIDE}")
        hole = np.zeros((_SIDE, _SIDE), dtype=bool)
        hole[y0:y1, x0:x1] = True
    else:
        raise ValueError(
            f"mask has shape {array.shape} and dtype {array.dtype}; "
            f"give (x0, y0, x1, y1), or {_SIDE} x {_SIDE} booleans that are True where pixels are missing"
        )
    if not hole.any():
        raise ValueError("mask has no hole; it is True where pixels are missing")
    if hole.all():
        raise ValueError("mask leaves no pixel to go by; choose a smaller hole")
    return hole
