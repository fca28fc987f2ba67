"""Waiting until others leave the processors to the benchmark: a busy machine slows down most what takes several
processes or much Python, and so it changes ratios, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

WAIT_S = 300.0
LOOK_S = 3.0
BUSY_SHARE_MAX = 0.1
"""Of all cores, taken by others during a look; what the host of a virtual machine takes is others' as well."""


class Quiet:
    """``wait_s`` is how long :meth:`wait` may wait in all. ``busiest`` is the largest share with which it gave up, or
    was content.
    """

    def __init__(
        self,
        wait_s: float,
        tell: Callable[[str], object],
        ticks: Callable[[], tuple[int, int]] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.busiest = 0.0
        self._left_s = wait_s
        self._tell = tell
        self._ticks = ticks or _ticks
        self._sleep = sleep

    async def wait(self) -> None:
        """Wait for a quiet machine while nothing of the benchmark runs, and say so if it never was."""
        share = await self._look()
        if share > BUSY_SHARE_MAX and self._left_s > 0:
            self._tell(
                f"others take {share:.0%} of the processors: waiting up to {self._left_s:.0f} s until they do not"
            )
        while share > BUSY_SHARE_MAX and self._left_s > 0:
            share = await self._look()
            self._left_s -= LOOK_S
        if share > BUSY_SHARE_MAX:
            self._tell(f"others take {share:.0%} of the processors: these figures are not of a quiet machine")
        self.busiest = max(self.busiest, share)

    async def _look(self) -> float:
        busy, all_ticks = self._ticks()
        await self._sleep(LOOK_S)
        busy_after, all_after = self._ticks()
        return (busy_after - busy) / max(1, all_after - all_ticks)


def _ticks() -> tuple[int, int]:
    """What all cores were busy with since the machine began, and that with what they were not."""
    fields = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    idle, waiting = fields[3:5]
    return sum(fields) - idle - waiting, sum(fields)
