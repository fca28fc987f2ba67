"""A line on stderr that says how far long work is; only where a person watches."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from crdtsyncd import terminal
from crdtsyncd.wording import byte_size

from crdtsync.errors import DaemonUnavailable, Timeout

if TYPE_CHECKING:
    from types import TracebackType

_QUIET_S = 0.5  # work that ends sooner needs no line
_INTERVAL_S = 0.2

GO_ON = "run it again, and it goes on with what is left"


class Progress:
    """Counts up; shows the count on a terminal, and wipes the line away at the end.

    ``again``: what somebody is to do whose daemon went away meanwhile; then the error says so, and the count.
    """

    def __init__(self, what: str, total: int | None = None, *, again: str = "") -> None:
        self.count = 0
        self._what = what
        self._again = again
        self._total = f" of {total:,}" if total is not None else ""
        self._next_s = time.monotonic() + _QUIET_S if sys.stderr.isatty() else None
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            terminal.passing("")
        if self._again and isinstance(error, DaemonUnavailable | Timeout):
            error.message += f"; {self.count:,} {self._what} before that: {self._again}"

    def show_bytes(self, done: int, total: int) -> None:
        """So many bytes of so many are done."""
        self._show(f"{byte_size(done)} of {byte_size(total)}")

    def advance(self, steps: int = 1) -> None:
        """Some more are done."""
        self.count += steps
        self._show(f"{self.count:,}{self._total}")

    def _show(self, figures: str) -> None:
        if self._next_s is not None and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _INTERVAL_S
            self._shown = True
            terminal.passing(f"{figures} {self._what}")
