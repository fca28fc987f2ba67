"""Handlers that are called for each change, once per role in the fleet or on each host, for asyncio.

One process per role reacts at a time: the one that holds the claim ``reactions/ROLE``. How far it has come is the token
in ``progress/ROLE``, stored after each event. So when it dies, or its host does, the next one goes on behind the event
that was handled last, on any host. With ``every_host`` each host has a claim and a token of its own, ``ROLE/NODE``.

Two roles may react to what the other one's handler writes, for ever. So such writes name the roles that led to them
(:mod:`crdtsync.client.session.causes`), and a reaction that has led to a change often enough leaves it alone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from crdtsync.client import Event
from crdtsync.client.aio.background import call, check_handler
from crdtsync.client.session.causes import CAUSES_MAX, caused_by, causes_of
from crdtsync.client.values.patterns import check_new_pattern
from crdtsync.coordination.aio.claims import AsyncLease
from crdtsync.coordination.claim_record import PREFIX as CLAIMS
from crdtsync.errors import ClaimHeld, InvalidRequest, Timeout

if TYPE_CHECKING:
    from crdtsync.client.aio.client import AsyncSession

LOOK_S = 0.5
"""How soon a reaction that is stopped, or has lost its claim, notices."""
PROGRESS = "progress/"
REACTIONS = "reactions/"
ALARMS = "reactions.alarms/"
ALARM_TTL_S = 7 * 24 * 3600.0


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
        rounds: int,
        every_host: bool,
    ) -> None:
        if not 1 <= rounds <= CAUSES_MAX:
            raise InvalidRequest(f"rounds must be 1 to {CAUSES_MAX}, not {rounds}")
        if type(role) is not str or not role:
            raise InvalidRequest(f"a reaction has a role, such as critic, not {role!r}")
        check_handler(handler)
        self._pattern = check_new_pattern(pattern)
        self._prefix = pattern if self._pattern.is_exact else self._pattern.prefix
        self._left_out = (PROGRESS, ALARMS) if self._prefix.startswith(CLAIMS) else (PROGRESS, ALARMS, CLAIMS)
        self._state = state.session()
        self._handler = handler
        self._role = role
        self._ttl = ttl
        self._own = own
        self._rounds = rounds
        self._every_host = every_host
        self.is_stopped = False
        self.on_own: Callable[[Event], object] | None = None
        """Called with a change that is left alone since it is by this agent itself, and that did not come of this."""
        self.handled = 0
        self.loops = 0

    def stop(self) -> None:
        """:meth:`run` returns when the event under way is handled. From anywhere."""
        self.is_stopped = True

    async def run(self) -> None:
        """React until :meth:`stop`. An error of the handler ends it; that event comes again in the next run."""
        name = self._role
        if self._every_host:
            name += f"/{(await self._state.status())['node']['id']}"
        while not self.is_stopped:
            lease = AsyncLease(self._state, REACTIONS + name, self._ttl, LOOK_S, True, None)
            try:
                await lease.acquire()
            except ClaimHeld:
                continue
            try:
                await self._react(lease, PROGRESS + name)
            finally:
                await lease.release()

    async def _react(self, lease: AsyncLease, path: str) -> None:
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
                parts = [part for part in event.events or [event] if not (part.key or "").startswith(self._left_out)]
                for part in parts:
                    await self._handle(part, lease)
                if event.token is not None and parts:
                    await self._state.set(path, event.token)

    async def _handle(self, event: Event, lease: AsyncLease) -> None:
        if event.key is None or not self._pattern.matches(event.key):
            return
        causes = causes_of(event.meta)
        if event.agent == lease.agent and not self._own:
            if self.on_own is not None and self._role not in causes:
                await call(self.on_own, event)
            return
        if causes.count(self._role) >= self._rounds or len(causes) >= CAUSES_MAX:
            await self._stop_loop(event, causes)
            return
        with caused_by((*causes, self._role)):
            await call(self._handler, event)
        self.handled += 1

    async def _stop_loop(self, event: Event, causes: tuple[str, ...]) -> None:
        self.loops += 1
        roles = sorted(set(causes))
        logging.getLogger("crdtsync").error(
            "%r came about by reactions to each other, of the roles %s: %s does not react to it",
            event.key, ", ".join(roles), self._role,
        )  # fmt: skip
        alarm = {"key": event.key, "agent": event.agent, "roles": roles, "loops": self.loops}
        await self._state.set(ALARMS + self._role, alarm, ttl=ALARM_TTL_S)
