"""Arrays that users give, checked so that every refusal names the argument."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np


def converted(name: str, value: Any, remedy: str) -> np.ndarray:
    """The value as an array of whatever kind; PyTorch's lose their gradients."""
    if hasattr(value, "detach"):
        value = value.detach()
    try:
        return np.asarray(value)
    except Exception as error:
        raise ValueError(f"{name} is not an array of numbers ({error}); {remedy}") from error


def numbers(name: str, value: Any, ndim: int) -> np.ndarray:
    """The value as a finite, C-contiguous float64 array; copied where that is needed."""
    array = converted(name, value, f"give one of {ndim} dimension(s)")
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} holds values that are not numbers ({error}); convert them first") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {array.dtype}; give real numbers")
    if array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}; give an array of {ndim} dimension(s)")
    if array.size == 0:
        raise ValueError(f"{name} has shape {array.shape} and holds no data; give at least one value")
    array = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}{list(place)} is {array[place]}; remove or fill in values that are not finite")
    return array


def labels(name: str, value: Any, rows: int, most: int) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Labels that count the classes, the names of the classes and the classes themselves, in Motes' order."""
    if hasattr(value, "detach"):
        value = value.detach()
    array = np.asarray(value)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; give one label per row, in one dimension")
    if len(array) != rows:
        raise ValueError(f"{name} has {len(array)} labels and X has {rows} rows; give one label per row")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} holds labels that are not finite; remove or fill in those rows")
    if array.dtype.kind == "c":
        raise ValueError(f"{name} has dtype {array.dtype}; give labels that are numbers or text")
    try:
        classes, codes = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"{name} mixes kinds of labels ({error}); give numbers or text, not both") from error
    words = [str(c).strip() for c in classes.tolist()]
    if bad := [w for w in words if w in ("", "?", "NA") or w.lower() in ("nan", "inf", "-inf")]:
        raise ValueError(f"{name} holds the label {bad[0]!r}, which stands for a missing value; rename it")
    if not 2 <= len(words) <= most:
        wanted = "2 classes" if most == 2 else f"2 to {most} classes"
        raise ValueError(f"{name} has {len(words)} class(es); give {wanted}")
    # The order of the command line: by number where all are numbers, else by text.
    try:
        order = sorted(range(len(words)), key=lambda i: float(words[i]))
    except ValueError:
        order = sorted(range(len(words)), key=lambda i: words[i].encode())
    rank = np.empty(len(order), dtype=np.uint8)
    rank[order] = np.arange(len(order), dtype=np.uint8)
    return rank[codes.reshape(-1)], [words[i] for i in order], classes[order]


def names(name: str, given: Sequence[Any] | None, count: int, prefix: str) -> list[str]:
    """One distinct name for each of `count` things."""
    if given is None:
        return [f"{prefix}{i}" for i in range(count)]
    if isinstance(given, str):
        given = [given]
    words = [str(w).strip() for w in given]
    if len(words) != count:
        raise ValueError(f"{name} has {len(words)} names; give {count}")
    if len(set(words)) != count or not all(words) or any(c in w for w in words for c in "\n\r"):
        raise ValueError(f"{name} must be distinct, on one line and not empty; got {words}")
    return words
