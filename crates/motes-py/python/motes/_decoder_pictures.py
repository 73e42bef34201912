"""What a decoder's run shows: grids of images, tables of rows, and a figure."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import struct
import tempfile
import zlib
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

if TYPE_CHECKING:
    from ._decoder import DecoderFit

#: Images in a row of a grid, the white pixels between them, and how many pixels wide and high they are at least.
_COLUMNS, _GAP, _SIDE = 16, 2, 32
_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL"}


def image_shape(shape: Sequence[int]) -> tuple[int, int, int] | None:
    """Channels, height and width of a datum that looks like an image: 4 x 4 pixels or more, grey or coloured."""
    channels, sides = (shape[0], shape[1:]) if len(shape) == 3 else (1, shape)
    if len(sides) != 2 or channels not in (1, 3) or min(sides) < 4:
        return None
    return channels, sides[0], sides[1]


def grid(kinds: Sequence[np.ndarray], low: float, high: float) -> np.ndarray:
    """Equally many images of several kinds below each other, row by row, as bytes of shape (height, width[, 3]).

    Small images are shown larger: their pixels become squares.
    """
    channels, height, width = image_shape(kinds[0].shape[1:]) or (1, 1, 1)
    larger = max(1, -(-_SIDE // min(height, width)))
    columns = min(_COLUMNS, len(kinds[0]))
    rows = -(-len(kinds[0]) // columns) * len(kinds)
    high_cell, wide_cell = larger * height + _GAP, larger * width + _GAP
    pixels = np.full((channels, rows * high_cell + _GAP, columns * wide_cell + _GAP), 255, np.uint8)
    for which, kind in enumerate(kinds):
        scaled = (kind.reshape(-1, channels, height, width).astype(np.float64) - low) / max(high - low, 1e-300)
        images = np.clip(np.nan_to_num(scaled) * 255 + 0.5, 0, 255).astype(np.uint8)
        for i, image in enumerate(images.repeat(larger, axis=2).repeat(larger, axis=3)):
            top = _GAP + (i // columns * len(kinds) + which) * high_cell
            left = _GAP + i % columns * wide_cell
            pixels[:, top : top + larger * height, left : left + larger * width] = image
    return pixels[0] if channels == 1 else pixels.transpose(1, 2, 0)


def png(pixels: np.ndarray) -> bytes:
    """The bytes of a PNG file."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = pixels.shape[:2]
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">2I5B", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes())) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def table(columns: Sequence[str], rows: np.ndarray) -> bytes:
    """The bytes of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows.tolist())
    return text.getvalue().encode()


def safetensors(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a safetensors file."""
    head, body = {}, b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        head[name] = {"dtype": _DTYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def write(path: str, content: bytes) -> None:
    """Writes a file whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), prefix=".", delete=False) as file:
        file.write(content)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def plot(fit: "DecoderFit", count: int) -> Any:
    """The loss on the left; on the right data above what they are decoded to, or the first latents where data are no images."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6))
    left.plot(fit.trace["k"][1:], fit.loss, lw=1)
    left.set(xlabel="step", ylabel="loss", title=f"{fit.model.name} by {fit.settings['algorithm']}")
    data = fit.model._network.first(count)
    if image_shape(data.shape[1:]):
        picture = grid([data, fit.reconstruct(count)], *fit.model._range)
        right.imshow(picture, cmap="gray", vmin=0, vmax=255)
        right.set(title="data, and what their particles decode to")
        right.set_axis_off()
        return figure
    z, labels = fit.latents[:, 0], fit.model.labels
    right.set(xlabel="x[0]", title="a particle of each datum")
    if z.shape[1] == 1:
        right.hist(z[:, 0], bins=30)
        right.set(ylabel="data")
    else:
        right.scatter(z[:, 0], z[:, 1], s=8, **({} if labels is None else {"c": labels, "cmap": "tab10"}))
        right.set(ylabel="x[1]")
    return figure


def named(columns: Sequence[str] | None, shape: Sequence[int]) -> list[str]:
    """Names of the values of a row."""
    return list(columns) if columns is not None else [f"y{i}" for i in range(math.prod(shape))]
