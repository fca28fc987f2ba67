"""Agents that do something at a steady pace and note how long each answer took."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.gauges import percentile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Answer(NamedTuple):
    """One request: when it was sent, and when its reply was there."""

    sent_s: float
    came_s: float


@dataclass(frozen=True, slots=True)
class Latency:
    """What the answers of some time looked like, in ms."""

    answers: int
    p50_ms: float
    p99_ms: float
    most_ms: float
    gap_ms: float
    """The longest time without any reply."""


class Paced:
    """One agent that does ``work`` every ``every_s``, the next one never before the last is answered."""

    def __init__(self, work: Callable[[], Awaitable[object]], every_s: float) -> None:
        self.answers: list[Answer] = []
        self._work = work
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._go = asyncio.Event()
        self._go.set()

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def pause(self) -> None:
        """Send no more; returns when the last request is answered."""
        self._go.clear()
        idle = asyncio.ensure_future(self._idle.wait())
        assert self._task is not None
        await asyncio.wait([idle, self._task], return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()
        if self._task.done():
            self._task.result()

    def resume(self) -> None:
        """Go on after a pause."""
        self._go.set()

    async def stop(self) -> None:
        """End.

        :raises CrdtSyncError: a request had failed.
        """
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    def latency(self, start_s: float, end_s: float) -> Latency:
        """Of the requests that were sent or answered between two moments of the monotonic clock."""
        chosen = [answer for answer in self.answers if answer.came_s >= start_s and answer.sent_s <= end_s]
        took = [(answer.came_s - answer.sent_s) * 1000 for answer in chosen]
        replies = [start_s, *(answer.came_s for answer in chosen if answer.came_s <= end_s), end_s]
        gap_s = max(later - earlier for earlier, later in pairwise(replies))
        return Latency(len(took), percentile(took, 0.5), percentile(took, 0.99), percentile(took, 1.0), gap_s * 1000)

    async def _run(self) -> None:
        while True:
            if not self._go.is_set():
                self._idle.set()
                await self._go.wait()
                self._idle.clear()
            sent_s = monotonic()
            await self._work()
            self.answers.append(Answer(sent_s, monotonic()))
            await asyncio.sleep(max(0.0, sent_s + self._every_s - monotonic()))
