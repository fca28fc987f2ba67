"""Single keys from a terminal, while something else is shown on it."""

from __future__ import annotations

import select
import sys
import termios
import tty
from typing import Any, Self


class Keyboard:
    """Gives the keys as they are pressed, without echo; the terminal is as it was at the end of the block."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def wait(self, timeout_s: float) -> str:
        """The key that is pressed within that time; empty if none is."""
        if self._before is None:
            select.select([], [], [], timeout_s)
            return ""
        ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
        return sys.stdin.read(1) if ready else ""
