"""Progress: a bar in a terminal or a notebook, a plain line now and then elsewhere."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

from ._core import clock

#: Seconds between plain lines.
_LINE = 10.0
#: The stages of auto, and what their Monte Carlo errors are measured in.
_STAGES = [
    ("searching", ""),
    ("averaging", "standard error"),
    ("sampling the posterior", "standard deviation"),
]


class Progress:
    """Shows on stderr how far a run has come."""

    def __init__(self, first: int, label: str = "", unit: str = "steps") -> None:
        self._first, self._label, self._unit = first, label, unit
        self._began = self._last = time.monotonic()
        self._notebook = _in_notebook()
        self._bar = self._notebook or _in_terminal()
        self._width = 0
        self._display: Any = None

    def __call__(self, k: int, steps: int | None, stage: int = 0, error: float = math.nan) -> None:
        now = time.monotonic()
        rate = max(k - self._first, 0) / max(now - self._began, 1e-9)
        if rate == 0.0:
            return
        unit = self._unit if steps is not None else "sweeps"
        speed = f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.2g} {unit}/s"
        if steps is None:
            # What ends itself is known by its stages, not by a number of steps.
            name, of = _STAGES[min(max(stage, 1), len(_STAGES)) - 1]
            known = f", Monte Carlo error {error:.3f} of the {of}" if of and not math.isnan(error) else ""
            bar = line = f"{self._label}{name}, {k:,} sweeps, {speed}{known}"
        else:
            filled, left = round(30 * k / steps), clock((steps - k) / rate)
            bar = f"{self._label}[{'#' * filled}{'.' * (30 - filled)}] {k:,}/{steps:,} {unit}  {speed}  ETA {left}"
            line = f"{self._label}{unit} {k} of {steps}, {speed}, {left} to go"
        if self._bar:
            self._write(bar)
        elif now - self._last >= _LINE:
            self._last = now
            print(line, file=sys.stderr, flush=True)

    def _write(self, text: str) -> None:
        if self._notebook:
            from IPython.display import display

            # One output that changes: a stream would keep every state of the bar in the notebook's file.
            content = {"text/plain": text}
            if self._display is None:
                self._display = display(content, raw=True, display_id=True)
            else:
                self._display.update(content, raw=True)
            return
        blank = " " * max(self._width - len(text), 0)
        self._width = len(text)
        print(f"\r{text}{blank}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Takes the bar away."""
        if self._display is not None:
            self._write("")
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0


def _in_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"
