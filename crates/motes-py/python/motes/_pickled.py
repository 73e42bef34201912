"""Fits as bytes: what their run directories would hold, with their models."""

from __future__ import annotations

import io
import os
import pickle
import sys
import tempfile
import zipfile
from typing import Any

from . import _core


def packed(fit: Any) -> tuple[type, bytes, bytes]:
    """A fit as what :func:`unpacked` makes it of again."""
    archive = io.BytesIO()
    with tempfile.TemporaryDirectory() as dir, zipfile.ZipFile(archive, "w") as files:
        fit._run.save(dir, False)
        for where, _, names in os.walk(dir):
            for name in names:
                path = os.path.join(where, name)
                files.write(path, os.path.relpath(path, dir))
    return type(fit), archive.getvalue(), _model(fit.model)


def unpacked(kind: type, archive: bytes, model_as_bytes: bytes) -> Any:
    """The fit that was packed, in memory."""
    model = pickle.loads(model_as_bytes)
    with tempfile.TemporaryDirectory() as dir, zipfile.ZipFile(io.BytesIO(archive)) as files:
        files.extractall(dir)
        return kind(_core.load(dir, model._problem, True), model)


def _model(model: Any) -> bytes:
    """The model, without its callables if they cannot be had elsewhere."""
    # Joblib and others load cloudpickle, which takes any callable along.
    picklers = [pickle, sys.modules.get("cloudpickle"), sys.modules.get("joblib.externals.cloudpickle")]
    for pickler in picklers:
        try:
            if pickler is not None:
                return pickler.dumps(model)
        except Exception:  # whatever keeps a stranger's object from being pickled
            continue
    return pickle.dumps(model._without_callables())


class Missing:
    """Stands where a callable of a model was that could not be pickled with its fit."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, *_: Any) -> Any:
        raise ValueError(
            f"{self.what} was not pickled with the fit; define it in a module that can be imported, and fit the model again"
        )
