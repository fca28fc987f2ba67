"""A queue of tasks that anybody fills and workers of every host empty, for asyncio."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from crdtsync.client import Entry
from crdtsync.client.aio.background import call, check_handler, wake_up, woken
from crdtsync.client.values.encoding import encode
from crdtsync.client.values.patterns import check_new_pattern
from crdtsync.coordination.aio.claims import AsyncLease
from crdtsync.coordination.claim_record import PREFIX, Patience, claims_in
from crdtsync.coordination.task_board import Board
from crdtsync.coordination.task_record import (
    AT_MOST,
    CLAIMED,
    DONE,
    FAILED,
    KEPT_S,
    OPEN,
    VANISHED_MAX,
    GiveBack,
    Task,
    backoff_ms,
    new_task,
    task_in,
    told,
)
from crdtsync.errors import ClaimHeld, InvalidValue, TooLarge, VersionMismatch

if TYPE_CHECKING:
    from crdtsync.client import AsyncMirror
    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.write_result import Written

LOST_RACE_S = 0.05
"""So long at most a worker waits after somebody else was faster, so that it sees what that one took."""

LOOK_S = 10.0
"""How soon an idle worker notices that its client is closed."""
ELSEWHERE_S = 1.0
"""How often it looks at what its tasks come after and its pattern does not match."""


@dataclass(frozen=True, slots=True)
class AsyncJob:
    """One attempt at a task: what a handler gets. ``attempt`` counts from 1; ``lease`` is held meanwhile."""

    task: Task
    attempt: int
    lease: AsyncLease

    @property
    def key(self) -> str:
        """The task's key."""
        return self.task.key

    @property
    def input(self) -> Any:
        """The work to do."""
        return self.task.input


class AsyncWorker:
    """Does tasks, one after the other: made by ``state.work(pattern, handler)``, started with :meth:`run`."""

    def __init__(
        self,
        state: AsyncSession,
        pattern: str,
        handler: Callable[[AsyncJob], Any | Awaitable[Any]],
        role: str | None,
        ttl: float,
    ) -> None:
        self._pattern = check_new_pattern(pattern)
        self._prefix = pattern if self._pattern.is_exact else self._pattern.prefix
        self._state = state.session()
        self._handler = handler
        self._ttl = ttl
        self._patience = Patience()
        self._board = Board(role, self._patience)
        self._random = Random()
        self._news: deque[set[str]] = deque()
        check_handler(handler)
        self._wake = wake_up()
        self._is_stopped = False
        self.on_end: Callable[[Task], object] | None = None
        """Called with the task when it is stored how an attempt at it has ended. What it raises ends the run."""
        self.on_overtaken: Callable[[Task, Task | None], object] | None = None
        """The same with the task that was tried, and as it is now, when an attempt does not count: somebody else has
        taken it up. None: it is gone.
        """
        self.done = 0
        self.failed = 0

    def stop(self) -> None:
        """Begin no further task; :meth:`run` returns when the one under way has ended. From anywhere."""
        self._is_stopped = True
        self._wake.set()

    async def run(self, *, drain: bool = False) -> int:
        """Work until :meth:`stop`, or with ``drain`` until nothing is left to do, now or later; how many were done.

        A handler that raises has failed at the task, which is then open again after a while, or ``failed`` after the
        last attempt; with :class:`GiveBack` the attempt does not count. Tasks that come after one that has failed, or
        is not there, are not waited for. Any error of the shared state itself ends the run.
        """
        async with (
            self._state.mirror(self._prefix, on_change=self._changed) as tasks,
            self._state.mirror(PREFIX + self._prefix, on_change=self._changed) as claims,
        ):
            self._changed({*tasks, *claims})
            while not self._is_stopped:
                self._look(tasks, claims)
                key = self._board.pick(*_now(), self._random)
                if key is not None:
                    await self._attempt(key, tasks.entry(key))
                    continue
                is_waiting = await self._look_elsewhere()
                due_s = self._board.due_in_s(*_now())
                if due_s is None and drain:
                    break
                longest_s = ELSEWHERE_S if is_waiting else LOOK_S
                if due_s != 0.0:
                    await woken(self._wake, longest_s if due_s is None else min(longest_s, due_s))
                for mirror in (tasks, claims):
                    if mirror.error is not None:
                        raise mirror.error
        return self.done

    def _changed(self, keys: set[str]) -> None:
        self._news.append(keys)
        self._wake.set()

    def _look(self, tasks: AsyncMirror, claims: AsyncMirror) -> None:
        while self._news:
            for key in self._news.popleft():
                self._learn(key, tasks, claims)

    def _learn(self, key: str, tasks: AsyncMirror, claims: AsyncMirror) -> None:
        if key.startswith(PREFIX):
            self._board.put_claims(key.removeprefix(PREFIX), claims_in(claims.entry(key)))
        elif self._pattern.matches(key):
            self._board.put(key, task_in(tasks.entry(key)))

    async def _look_elsewhere(self) -> bool:
        """Look at tasks that others come after and that the pattern does not match; whether there are such."""
        keys = self._board.elsewhere()
        found = {key: task_in(await self._state.entry(key)) for key in keys}
        self._board.is_done_elsewhere = {key: task is not None and task.state == DONE for key, task in found.items()}
        return bool(keys)

    async def _attempt(self, key: str, entry: Entry | None) -> None:
        """Claim a task and do it, if it is then still as it was seen."""
        task = task_in(entry)
        self._board.put(key, task)
        if entry is None or entry.version is None or task is None or task.is_over or task.not_before_ms > _now()[0]:
            return
        lease = AsyncLease(self._state, key, self._ttl, False, True, None, self._patience)
        try:
            await lease.acquire()
        except ClaimHeld:
            await woken(self._wake, self._random.uniform(0, LOST_RACE_S))
            return
        try:
            await self._begin(task, entry.version, lease)
        finally:
            await lease.release()

    async def _begin(self, task: Task, version: str, lease: AsyncLease) -> None:
        value = self._begun(task, lease.fence)
        ttl = KEPT_S if value["state"] == FAILED else None
        try:
            begun = await self._state.set(task.key, value, if_version=version, ttl=ttl)
        except VersionMismatch as mismatch:
            self._board.put(task.key, task_in(mismatch.current))
            return
        if value["state"] == CLAIMED:
            await self._do(Task(task.key, **(value | {"after": task.after})), begun.version or "", lease)

    def _begun(self, task: Task, fence: int) -> dict[str, Any]:
        """A task that is under way now, or has failed since its workers do not come back."""
        vanished = task.vanished + (task.state == CLAIMED)
        if vanished > VANISHED_MAX:
            error = f"its worker vanished {vanished} times, {task.worker} last"
            return task.record(state=FAILED, error=error, vanished=vanished)
        worker = f"{self._state.agent} on {self._state.node}"
        return task.record(state=CLAIMED, attempts=task.attempts + 1, vanished=vanished, worker=worker, fence=fence)

    async def _do(self, task: Task, version: str, lease: AsyncLease) -> None:
        if not lease.is_held:  # it took so long to begin that somebody else may be at it
            await self._give_back(task, version, lease, 0, task.vanished)
            return
        try:
            result = await call(self._handler, AsyncJob(task, task.attempts, lease))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the task's failure
            if isinstance(error, GiveBack) or not lease.is_held:  # whoever has lost it may have failed by that
                rests = not self._is_stopped  # else it might go round for ever
                vanished = task.vanished + (not isinstance(error, GiveBack))
                await self._give_back(task, version, lease, _now()[0] + backoff_ms(task) if rests else 0, vanished)
            else:
                await self._end(task, version, _failure(task, error), lease)
            return
        try:
            await self._end(task, version, task.record(state=DONE, result=result, error=""), lease)
        except (InvalidValue, TooLarge) as error:
            await self._end(task, version, _failure(task, error), lease)

    async def _give_back(self, task: Task, version: str, lease: AsyncLease, not_before_ms: int, vanished: int) -> None:
        """Open it again, as if this attempt had not been, but for a worker that has lost its claim amid it."""
        value = task.record(
            state=OPEN, attempts=task.attempts - 1, vanished=vanished, error="", not_before_ms=not_before_ms
        )
        await self._end(task, version, value, lease)

    async def _end(self, task: Task, version: str, value: dict[str, Any], lease: AsyncLease) -> None:
        """Store how it went, unless somebody else has taken the task up since: then theirs counts."""
        ttl = KEPT_S if value["state"] in (DONE, FAILED) else None
        try:
            await lease.release_with(lambda batch: batch.set(task.key, value, if_version=version, ttl=ttl))
        except VersionMismatch as mismatch:
            if value["state"] != DONE or not _is_there(task, mismatch.current):
                if self.on_overtaken is not None:
                    await call(self.on_overtaken, task, task_in(mismatch.current))
                return
            await lease.release_with(lambda batch: batch.set(task.key, value, seen=version, ttl=ttl))
        ended = Task(task.key, **(value | {"after": task.after}))
        self._board.put(task.key, ended)
        self.done += ended.state == DONE
        self.failed += bool(ended.error)
        if self.on_end is not None:
            await call(self.on_end, ended)


def _now() -> tuple[int, float]:
    return time.time_ns() // 1_000_000, time.monotonic()


def _failure(task: Task, error: Exception) -> dict[str, Any]:
    if task.attempts >= task.attempts_max:
        return task.record(state=FAILED, error=told(error))
    return task.record(state=OPEN, error=told(error), not_before_ms=_now()[0] + backoff_ms(task))


def _is_there(task: Task, entry: Entry | None) -> bool:
    """Whether this attempt is still one of what the key holds: hosts that were cut off have each their own."""
    parts = [] if entry is None else [entry, *entry.siblings]
    return any(
        isinstance(part.value, dict) and (part.value.get("fence"), part.value.get("state")) == (task.fence, CLAIMED)
        for part in parts
    )


async def put_task(state: AsyncSession, w: WriteConcern, *fields: Any) -> Written:  # Any: those of new_task
    """Put a task where there is none."""
    task = new_task(_now()[0], *fields)
    encode(task.record(**AT_MOST))  # else no worker could store how it went
    return await state.session().set(task.key, task.record(), if_absent=True, w=w)


async def tasks(state: AsyncSession, prefix: str) -> list[Task]:
    """The tasks under a prefix, by key."""
    entries = await state.session().entries(prefix)
    return [task for entry in entries if (task := task_in(entry)) is not None]


async def retry_task(state: AsyncSession, key: str) -> bool:
    """Open a task again that is over."""
    session = state.session()
    entry = await session.entry(key)
    task = task_in(entry)
    if entry is None or task is None or not task.is_over:
        return False
    value = task.record(state=OPEN, attempts=0, vanished=0, not_before_ms=0, result=None)
    try:
        await session.set(key, value, if_version=entry.version)
    except VersionMismatch:
        return False
    return True
