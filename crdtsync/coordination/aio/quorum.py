"""Claims by quorum for asyncio: one holder at a time, whatever is cut off, as long as its clock and the voters' run."""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from crdtsync.client.aio.background import wake_up, woken
from crdtsync.coordination.aio.claims import _BOOT_CLOCK, AsyncLease
from crdtsync.errors import ClaimHeld, CrdtSyncError, DaemonUnavailable, InvalidRequest, NotAllowed, Timeout
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.client import AsyncSession

QUORUM_TTL_MAX_S = 600.0
ASK_S = 5.0
"""How long a host may take to count."""
BACK_OFF_S = 0.5
"""About how long who waits lets pass between two tries, each time another time."""


class Moment(NamedTuple):
    """A moment by the holder's clocks: one stands still while a virtual machine does, the other one may be set."""

    steady_s: float
    wall_s: float

    @classmethod
    def now(cls) -> Self:
        """This one."""
        return cls(time.clock_gettime(_BOOT_CLOCK), time.time())

    def passed_s(self) -> float:
        """How long ago it was, by the clock that says more."""
        now = Moment.now()
        return max(now.steady_s - self.steady_s, now.wall_s - self.wall_s)


class AsyncQuorumLease(AsyncLease):
    """A claim by the votes of a majority: made by ``state.claim(key, quorum=True)``, used as any :class:`AsyncLease`.

    It is held from the moment before it was asked for, for ``ttl``, and as long as a majority renews it. Its ``fence``
    is above all fences that were ever given for the key in this way.
    """

    def __init__(
        self, state: AsyncSession, key: str, ttl: float, wait: bool | float, on_lost: Callable[[], object] | None
    ) -> None:
        super().__init__(state, key, ttl, wait, True, on_lost)
        if ttl > QUORUM_TTL_MAX_S:
            raise InvalidRequest(f"the ttl of a claim by quorum is at most {QUORUM_TTL_MAX_S:g} s, not {ttl:g} s")
        self._owner = b""
        self._asked = Moment(0.0, 0.0)
        self._is_taken = False

    @property
    def is_held(self) -> bool:
        """Whether it is held still: nobody else can hold it while this is true."""
        return self._is_taken and not self._lost and self._left_s > 0

    @property
    def _left_s(self) -> float:
        return self.ttl - self._asked.passed_s()

    async def acquire(self) -> Self:
        """Claim the key. On return a majority of the voters has it on disk.

        :raises ClaimHeld: somebody else holds it, at the end of the time that was to be waited.
        :raises Timeout: too few voters have answered until then.
        :raises InvalidRequest: this lease holds it already.
        """
        self._check_free()
        until_s = time.monotonic() + self._wait_s
        random = Random(uuid4().bytes)
        while True:
            try:
                return await self._take()
            except (ClaimHeld, Timeout, DaemonUnavailable):
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    raise
            await woken(wake_up(), min(left_s, random.uniform(0.5, 1.5) * BACK_OFF_S))

    async def _take(self) -> Self:
        self._owner = uuid4().bytes
        self._is_taken, self._lost = False, ""
        asked = Moment.now()
        try:
            reply = await self._vote(0)
        except BaseException:
            with suppress(CrdtSyncError):
                await self._withdraw()
            raise
        if not reply["granted"]:
            raise _refusal(self.key, reply)
        self.fence, self._asked, self._is_taken, self.is_confirmed = reply["fence"], asked, True, True
        self.agent, self.node = self._state.agent, self._state.node
        self._start()
        return self

    async def _vote(self, fence: int) -> dict[str, Any]:
        return await self._state.vote(self.key, self._owner, self.ttl, fence=fence, timeout=ASK_S)

    async def release(self) -> bool:
        """Give the key back; whether it was held."""
        was_held = await self._stop()
        with suppress(CrdtSyncError):  # then it ends with its time
            await self._withdraw()
        return was_held

    async def _withdraw(self) -> None:
        self._is_taken = False
        await self._state.vote(self.key, self._owner, self.ttl, give=True, timeout=ASK_S)

    async def _renew(self) -> None:
        """Renew it at a third of its time; until that is over, again and again."""
        delay_s = self.ttl / 3
        while not await woken(self._ended, delay_s):
            asked, delay_s = Moment.now(), self.ttl / 30
            with suppress(Timeout, DaemonUnavailable):
                try:
                    if (await self._vote(self.fence))["granted"] and self.is_held:
                        self._asked, delay_s = asked, self.ttl / 3
                except (InvalidRequest, NotAllowed) as error:
                    await self._lose(error.message)
            if not self.is_held:
                await self._lose("it was not renewed in time")
                return


def _refusal(key: str, reply: dict[str, Any]) -> ClaimHeld | Timeout:
    if reply["agent"] is not None:
        return ClaimHeld(
            f"{key!r} is held by {reply['agent']}, by quorum: wait for it, or take something else",
            key=key, agent=reply["agent"], left_ms=reply["left"],
        )  # fmt: skip
    why = f"; a voter {', another one '.join(reply['why'])}" if reply["why"] else ""
    return Timeout(
        f"no majority has promised {key!r}: {reply['answered']} of {reply['voters']} voters have answered{why}"
    )
