"""What users give, checked so that every refusal names the argument."""

from __future__ import annotations

import hashlib
import math
import os
from typing import Any, Mapping, Sequence

import numpy as np


def whole(name: str, value: Any, least: int = 0) -> int:
    """The value as a whole number of `least` or more."""
    try:
        number = int(value)
        if isinstance(value, (bool, np.bool_)) or number != value or number < least:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {value!r}; give a whole number of {least} or more") from None
    if number >= 1 << 64:
        raise ValueError(f"{name} is {value!r}; give a whole number below 2**64")
    return number


def finite(name: str, value: Any) -> float:
    """The value as a finite number."""
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}; give a finite number")
    return number


def flag(name: str, value: Any) -> bool:
    """The value as True or False; words are neither."""
    if not isinstance(value, (bool, np.bool_, int, np.integer)) or value not in (0, 1):
        raise ValueError(f"{name} is {value!r}; give True or False")
    return bool(value)


def place(name: str, value: Any) -> str:
    """The value as a path; an empty one would be the working directory."""
    try:
        path = os.fsdecode(value)
    except TypeError:
        path = ""
    if not path or "\0" in path:
        raise ValueError(f"{name} is {value!r}; give a path")
    return path


def _plain(value: Any) -> np.ndarray:
    """The value as an array of whatever kind; PyTorch's lose their gradients."""
    if np.ma.is_masked(value):
        raise ValueError("it is masked in places")
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def digest(data: Mapping[str, Any], groups: Sequence[str] | None = None) -> str:
    """The SHA-256 of named arrays and of the names of groups, by which a run knows its data again."""
    sha256 = hashlib.sha256()
    for name, value in data.items():
        array = value
        if hasattr(value, "detach"):
            if value.is_meta:
                continue  # a tensor without numbers
            tensor = value.detach().cpu()
            # NumPy has no bfloat16.
            array = (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
        array = np.ascontiguousarray(array)
        sha256.update(repr((name, array.shape, array.dtype.str)).encode())
        sha256.update(array.view(np.uint8).data if array.size else b"")
    if groups is not None:
        sha256.update(repr(list(groups)).encode())
    return sha256.hexdigest()


def converted(name: str, value: Any, remedy: str) -> np.ndarray:
    """The value as an array of whatever kind."""
    try:
        return _plain(value)
    except Exception as error:
        raise ValueError(f"{name} is not an array ({error}); {remedy}") from error


def returned(value: Any, dtype: str) -> np.ndarray:
    """What a callable returned as a contiguous array of real numbers; the caller says which callable it was."""
    array = _plain(value)
    # NumPy would read numbers out of text, and drop what is imaginary.
    if array.dtype.kind != "O" and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"its dtype is {array.dtype}")
    return np.ascontiguousarray(array, dtype=dtype)


def numbers(name: str, value: Any, ndim: int) -> np.ndarray:
    """The value as a finite, C-contiguous float64 array; copied where that is needed."""
    array = converted(name, value, f"give one of {ndim} dimension(s)")
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
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


def column_names(value: Any) -> list[Any]:
    """The names of a frame's columns, none where it has no names. Arrow's tables call them by another word."""
    if type(value).__module__.partition(".")[0] == "pyarrow":
        return list(getattr(value, "column_names", ()))
    return list(getattr(value, "columns", ()))


def columns(name: str, value: Any, words: Sequence[bool] | None = None) -> tuple[np.ndarray, list[list[str] | None]]:
    """The columns of a frame or an array as numbers, and the words that these count in columns of words.

    Columns of text, categories and booleans of a frame are words; so are those that `words` says must be.
    """
    names = column_names(value)
    parts = [_plain(value[name]) for name in names]
    if not any(_is_words(value[n], p) for n, p in zip(names, parts)) and not any(words or ()):
        features = numbers(name, value, 2)
        return features, [None] * features.shape[1]
    if not names:
        raise ValueError(f"{name} has no named columns and the model knows categories; give a data frame")
    out = np.empty((len(parts[0]), len(parts)))
    levels: list[list[str] | None] = []
    for i, (column, part) in enumerate(zip(names, parts)):
        if _is_words(value[column], part) or (words and words[i]):
            out[:, i], known = _codes(f"{name}[{column!r}]", part)
            levels.append(known)
        else:
            out[:, i] = numbers(f"{name}[{column!r}]", part, 1)
            levels.append(None)
    if out.size == 0:
        raise ValueError(f"{name} has shape {out.shape} and holds no data; give at least one value")
    return np.ascontiguousarray(out), levels


def _is_words(column: Any, part: np.ndarray) -> bool:
    """Whether a column of a frame holds words; numbers among objects are numbers."""
    if part.dtype.kind in "bUS" or str(getattr(column, "dtype", "")) in ("category", "Categorical"):
        return True
    return part.dtype.kind == "O" and any(isinstance(v, (str, bytes, bool, np.bool_)) for v in part)


def word_columns(value: Any) -> list[Any]:
    """The names of a frame's columns of text or categories."""
    parts = ((name, _plain(value[name])) for name in column_names(value))
    return [name for name, part in parts if part.dtype.kind != "b" and _is_words(value[name], part)]


def first_categories(value: Any, called: Sequence[str]) -> dict[str, str]:
    """The reference level of each column whose categories have an order: the first of them that occurs, as in R and statsmodels."""
    references = {}
    for name, call in zip(column_names(value), called):
        categories = _categories(value[name])
        if categories is not None:
            there = set(_plain(value[name]).tolist())
            first = [str(level).strip() for level in categories if level in there]
            references.update({call: level for level in first[:1]})
    return references


def _categories(column: Any) -> list[Any] | None:
    """The categories of pandas, the enumerations of polars and the ordered dictionaries of Arrow; else none."""
    dtype = getattr(column, "dtype", getattr(column, "type", None))
    if type(dtype).__name__ in ("CategoricalDtype", "Enum"):
        return list(dtype.categories)
    if type(dtype).__name__ == "DictionaryType" and dtype.ordered:
        whole = column.unify_dictionaries().chunk(0) if hasattr(column, "chunk") else column
        return list(whole.dictionary.to_pylist())
    return None


def same_rows(name: str, value: Any, X: Any) -> Any:
    """The value, unless it is a pandas series whose rows are labelled otherwise than those of the frame X."""
    ours, theirs = (getattr(v, "index", None) for v in (X, value))
    if hasattr(ours, "equals") and hasattr(theirs, "equals") and len(ours) == len(theirs) and not ours.equals(theirs):
        raise ValueError(
            f"{name} and X have different row labels; order it by {name}.loc[X.index], or give {name}.to_numpy() to go by position"
        )
    return value


def _codes(name: str, part: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Which word each is, and the words."""
    missing = [v is None or v != v for v in part.tolist()] if part.dtype.kind in "Of" else [False] * len(part)
    if any(missing):
        raise ValueError(f"{name} misses values, first in row {missing.index(True)}; remove or fill in those rows")
    known: dict[str, int] = {}
    codes = [known.setdefault(str(v).strip(), len(known)) for v in part.tolist()]
    return np.array(codes, dtype=np.float64), list(known)


def labels(name: str, value: Any, rows: int, most: int) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Labels that count the classes, the names of the classes and the classes themselves, in Motes' order."""
    array = converted(name, value, "give one label per row")
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
    values = [_value(w) for w in words]
    if bad := [w for w, v in zip(words, values) if w in ("", "?", "NA") or not math.isfinite(v or 0.0)]:
        raise ValueError(f"{name} holds the label {bad[0]!r}, which stands for a missing value; rename it")
    if not 2 <= len(words) <= most:
        wanted = f"give 2 to {most} classes" if most > 2 else "give 2, or use MultinomialRegression for more"
        raise ValueError(f"{name} has {len(words)} class{'' if len(words) == 1 else 'es'}; {wanted}")
    # So many more are probably numbers; the command line, which may read them from a file later, has the same rule.
    if len(words) > 20 and 5 * len(words) > rows:
        raise ValueError(f"{name} has {len(words)} classes in {rows} rows; give at most 20, or 5 rows for each class")
    # The order of the command line: by number where all are numbers, else by text.
    keys: list[Any] = [w.encode() for w in words] if None in values else values
    order = sorted(range(len(words)), key=keys.__getitem__)
    for i, j in zip(order, order[1:]):
        if keys[i] == keys[j]:
            pair = " and ".join(repr(c) for c in classes[[i, j]].tolist())
            raise ValueError(f"{name} holds the labels {pair}, which a file would not tell apart; rename one of them")
    rank = np.empty(len(order), dtype=np.uint8)
    rank[order] = np.arange(len(order), dtype=np.uint8)
    return rank[codes.reshape(-1)], [words[i] for i in order], classes[order]


def _value(word: str) -> float | None:
    """The number that a file would hold, if the word is one."""
    try:
        return float(word) if word.isascii() and "_" not in word else None
    except ValueError:
        return None


def by_name(name: str, value: Any, wanted: Sequence[str]) -> Any:
    """The wanted columns of a data frame in their order; what has no names, or needs none, stays as it is."""
    there = {str(c).strip(): c for c in column_names(value)}
    if not wanted or not there:
        return value
    missing = [w for w in wanted if w not in there]
    if not missing:
        chosen = [there[w] for w in wanted]
        return value[chosen] if hasattr(value, "dtypes") else value.select(chosen)
    if list(wanted) == names(name, None, len(wanted), "x"):
        return value  # the names that arrays are given
    raise ValueError(f"{name} has no column {missing[0]!r}; give the columns that the model was fitted to")


def names(name: str, given: Sequence[Any] | None, count: int, prefix: str) -> list[str]:
    """One distinct name for each of `count` things."""
    if given is None:
        return [f"{prefix}{i}" for i in range(count)]
    if isinstance(given, str):
        given = [given]
    words = [str(w).strip() for w in given]
    if len(words) != count:
        raise ValueError(f"{name} has {len(words)} names; give {count}")
    if twice := [w for i, w in enumerate(words) if w in words[:i]]:
        raise ValueError(f"{name} has {twice[0]!r} twice; give distinct names")
    if bad := [w for w in words if not w or any(c in w for c in "\n\r")]:
        raise ValueError(f"{name} has {bad[0]!r}; give names of one line each, not empty")
    return words
