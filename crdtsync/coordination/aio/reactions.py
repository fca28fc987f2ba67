"""Handlers that are called for each change, once per role in the fleet, for asyncio.

One process per role reacts at a time: the one that holds the claim ``reactions/ROLE``. How far it has come is the token
in ``progress/ROLE``, stored after each event. So when it dies, or its host does, the next one goes on behind the event
that was handled last, on any host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from crdtsync.client import Event
from crdtsync.client.values.patterns import check_new_pattern
from crdtsync.coordination.aio.claims import AsyncLease
from crdtsync.coordination.background.aio import call
from crdtsync.errors import ClaimHeld, Timeout

if TYPE_CHECKING:
    from crdtsync.client.aio.client import AsyncSession

LOOK_S = 0.5
"""How soon a reaction that is stopped, or has lost its claim, notices."""
PROGRESS = "progress/"
REACTIONS = "reactions/"


class AsyncReaction:
    """Calls a handler for each change: made by ``state.on(pattern, handler, role=…)``, started with :meth:`run`."""

    def __init__(
        self,
        state: AsyncSession,
        pattern: str,
        handler: Callable[[Event], object | Awaitable[object]],
        role: str,
        ttl: float,
        own: bool,
    ) -> None:
        self._pattern = check_new_pattern(pattern)
        self._prefix = pattern if self._pattern.is_exact else self._pattern.prefix
        self._state = state.session()
        self._handler = handler
        self._role = role
        self._ttl = ttl
        self._own = own
        self.is_stopped = False
        self.handled = 0

    def stop(self) -> None:
        """:meth:`run` returns when the event under way is handled. From anywhere."""
        self.is_stopped = True

    async def run(self) -> None:
        """React until :meth:`stop`. What the handler raises ends it; that event comes again in the next run."""
        while not self.is_stopped:
            lease = AsyncLease(self._state, REACTIONS + self._role, self._ttl, LOOK_S, True, None)
            try:
                await lease.acquire()
            except ClaimHeld:
                continue
            try:
                await self._react(lease)
            finally:
                await lease.release()

    async def _react(self, lease: AsyncLease) -> None:
        path = PROGRESS + self._role
        token = await self._state.get(path)
        if token is None:
            token = await self._state.now()
            await self._state.set(path, token)
        async with self._state.watch(self._prefix, after=token) as events:
            while lease.is_held and not self.is_stopped:
                try:
                    event = await events.next(timeout=LOOK_S)
                except Timeout:
                    continue
                if event is None:
                    return
                await self._handle(event, lease)
                if event.token is not None:
                    await self._state.set(path, event.token)

    async def _handle(self, event: Event, lease: AsyncLease) -> None:
        for part in event.events or [event]:
            is_meant = part.key is not None and self._pattern.matches(part.key)
            if is_meant and (self._own or part.agent != lease.agent):
                await call(self._handler, part)
                self.handled += 1
