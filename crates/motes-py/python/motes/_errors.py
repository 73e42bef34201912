"""What can go wrong besides bad input, which is a ValueError."""

from __future__ import annotations

from typing import Any


class DivergedError(ArithmeticError):
    """The iterates left every reasonable range, or became NaN.

    Attributes
    ----------
    step : int
        The step that could not be completed.
    norm : float
        The norm that left the range.
    step_size : float
        The step size in use.
    suggestion : float
        A step size worth trying.
    """

    def __init__(self, message: str, step: int, norm: float, step_size: float, suggestion: float) -> None:
        super().__init__(message)
        self.step = step
        self.norm = norm
        self.step_size = step_size
        self.suggestion = suggestion

    def __reduce__(self):
        return type(self), (str(self), self.step, self.norm, self.step_size, self.suggestion)


class VerdictWarning(RuntimeWarning):
    """A fit ended with a verdict other than ``ok``: its numbers are not to be trusted as they are."""


class VerdictError(RuntimeError):
    """A fit that was asked for with ``strict=True`` ended with a verdict other than ``ok``.

    Attributes
    ----------
    fit : Fit or Replicates
        What was fitted.
    """

    def __init__(self, message: str, fit: Any) -> None:
        super().__init__(message)
        self.fit = fit

    def __reduce__(self):
        return type(self), (str(self), self.fit)
