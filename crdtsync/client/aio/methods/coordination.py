"""How a session works together with others: doors to :mod:`crdtsync.coordination`, which stands above the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.values.durations import Seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.write_result import Written
    from crdtsync.coordination.aio.claims import AsyncLease
    from crdtsync.coordination.aio.work import AsyncJob, AsyncWorker
    from crdtsync.coordination.claim_record import Claim
    from crdtsync.coordination.task_record import Task


class AsyncCoordinationMethods(AsyncMethods):
    """The part of a session that works together with others."""

    def claim(
        self,
        key: str,
        *,
        ttl: Seconds = 60,
        wait: bool | Seconds = False,
        keep: bool = True,
        on_lost: Callable[[], object] | None = None,
    ) -> AsyncLease:
        """A claim on ``key``, to be held in an ``async with`` block; see :class:`~crdtsync.coordination.AsyncLease`.

        Among the agents of one host, and of all hosts that see each other, one holds it. Hosts that are cut off may
        hold it too; when they meet, the claim with the highest ``fence`` stays, and the other holder is told at once:
        ``on_lost`` is called, ``check`` and the end of the block raise :class:`~crdtsync.errors.ClaimLost`.

        It is renewed at a third of ``ttl`` (1 s to 7 days), and is free when it is released, when the connection of
        its holder ends, or when ``ttl`` has passed since a renewal by the clock of who wants it. With ``keep=False`` it
        is not renewed, and outlasts its connection: it ends after ``ttl``, by the clocks of the hosts.

        The key itself is not touched: claim whatever name you agree on. Entering the block raises
        :class:`~crdtsync.errors.ClaimHeld` if somebody else holds it, with ``wait`` after so long, or never (True).
        """
        from crdtsync.coordination.aio.claims import AsyncLease

        wait_s = wait if isinstance(wait, bool) else seconds(wait, "wait")
        return AsyncLease(self._session, key, seconds(ttl, "ttl"), wait_s, keep, on_lost)

    async def claims(self, prefix: str = "") -> list[Claim]:
        """The claims on keys that start with ``prefix``, by key, with those that crossed them."""
        from crdtsync.coordination.aio.claims import claims

        return await claims(self._session, prefix)

    async def release(self, key: str, *, fence: int | None = None) -> bool:
        """Free ``key``, whoever holds it; with ``fence`` only that claim. Whether it was held so. Its holder is told
        at once. A claim of one's own ends with its block.
        """
        from crdtsync.coordination.aio.claims import release

        return await release(self._session, key, fence)

    async def put_task(
        self,
        key: str,
        input: Any = None,  # noqa: A002  # the word of the field
        *,
        role: str | None = None,
        priority: int = 0,
        delay: Seconds = 0,
        after: Iterable[str] = (),
        attempts: int = 3,
        backoff: Seconds = 1,
        w: WriteConcern = None,
    ) -> Written:
        """Put a task for the workers of all hosts; durable as :meth:`set`: with ``w=2`` it outlives this host's disk.

        ``input`` is what its worker gets. Workers of ``role`` alone take it, those of higher ``priority`` first, not
        before ``delay``, and when the tasks in ``after`` are done. An attempt
        that fails is repeated after ``backoff``, which doubles each time, until ``attempts`` are used up; then the task
        has ``failed``, and waits for somebody to look at it: :meth:`retry_task`.

        :raises VersionMismatch: there is something under ``key``.
        """
        from crdtsync.coordination.aio.work import put_task

        return await put_task(
            self._session, key, input, role=role, priority=priority, delay_s=seconds(delay, "delay"), after=after,
            attempts=attempts, backoff_s=seconds(backoff, "backoff"), w=w,
        )  # fmt: skip

    def work(
        self,
        pattern: str,
        handler: Callable[[AsyncJob], object | Awaitable[object]],
        *,
        role: str | None = None,
        ttl: Seconds = 30,
    ) -> AsyncWorker:
        """A worker for the tasks whose keys match ``pattern``; it works in its ``run()``.

        ``handler`` gets a :class:`~crdtsync.coordination.AsyncJob` and returns the result, a value as of :meth:`set`;
        if it raises, the attempt has failed. It holds the claim on the task's key meanwhile, which is renewed at a
        third of ``ttl``: if this process dies, another worker begins the task anew at once; if its host does, after
        ``ttl``. While hosts see each other each task is done once; those that were cut off may both do it, and the
        result with the higher fence counts.
        """
        from crdtsync.coordination.aio.work import AsyncWorker

        return AsyncWorker(self._session, pattern, handler, role, seconds(ttl, "ttl"))

    async def tasks(self, prefix: str = "") -> list[Task]:
        """The tasks under ``prefix``, by key. Those that are over are kept for seven days."""
        from crdtsync.coordination.aio.work import tasks

        return await tasks(self._session, prefix)

    async def retry_task(self, key: str) -> bool:
        """Open a task again that has failed, or is done; whether it was."""
        from crdtsync.coordination.aio.work import retry_task

        return await retry_task(self._session, key)

    @property
    def _session(self) -> AsyncSession:
        return cast("AsyncSession", self)
