"""Progress: a bar in a terminal or a notebook, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time

#: Seconds between plain lines.
_LINE = 10.0


class Progress:
    """Shows on stderr how far a run has come."""

    def __init__(self, first: int, label: str = "", unit: str = "steps") -> None:
        self._first, self._label, self._unit = first, label, unit
        self._began = self._last = time.monotonic()
        self._bar = _can_overwrite()
        self._width = 0

    def __call__(self, k: int, steps: int) -> None:
        now = time.monotonic()
        rate = max(k - self._first, 0) / max(now - self._began, 1e-9)
        if rate == 0.0:
            return
        left, unit = (steps - k) / rate, self._unit
        speed = f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.2g} {unit}/s"
        if self._bar:
            filled = round(30 * k / steps)
            self._write(
                f"\r{self._label}[{'#' * filled}{'.' * (30 - filled)}] {k:,}/{steps:,} {unit}  "
                f"{speed}  ETA {left:.0f} s"
            )
        elif now - self._last >= _LINE:
            self._last = now
            print(
                f"{self._label}{unit} {k} of {steps}, {speed}, {left:.0f} s to go",
                file=sys.stderr,
                flush=True,
            )

    def _write(self, text: str) -> None:
        blank = " " * max(self._width - len(text), 0)
        self._width = len(text)
        print(text + blank, end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Takes the bar away."""
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0


def _can_overwrite() -> bool:
    if sys.stderr is None:
        return False
    try:
        if sys.stderr.isatty():
            return True
    except (AttributeError, ValueError):
        return False
    # A notebook's stderr is no terminal but understands a carriage return.
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"
