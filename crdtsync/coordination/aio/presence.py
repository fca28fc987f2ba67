"""Presence: who is here, for asyncio."""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from crdtsync.client.aio.background import AsyncBackground, wake_up, woken
from crdtsync.coordination.aio.claims import claims
from crdtsync.coordination.cards import PRESENCE, RENEW_S, Present, card, present
from crdtsync.errors import CrdtSyncError, InvalidRequest

if TYPE_CHECKING:
    from crdtsync.client.aio.client import AsyncSession

AWAY_S_MAX = 600.0
"""So long a card is tried to be renewed in vain; then its client is taken to be closed."""


class AsyncPresence:
    """A card that shows an agent to all hosts, made by ``state.present(…)``, until it or its connection is closed."""

    def __init__(self, state: AsyncSession, role: str | None, status: str) -> None:
        self._state = state.session()
        self._key = PRESENCE + uuid4().hex
        self._since_ms = time.time_ns() // 1_000_000
        self._role = role
        self._status = status
        self._is_closed = False
        self._wake = wake_up()
        self._keeper = AsyncBackground(self._stay)

    async def show(self) -> Self:
        """Begin; on return all hosts that are connected will show it within a second."""
        await self._write()
        self._keeper.start()
        return self

    async def update(self, *, status: str | None = None, role: str | None = None) -> None:
        """Show something else.

        :raises InvalidRequest: it is closed.
        """
        if self._is_closed:
            raise InvalidRequest("this card is closed: call present() for another one")
        self._status = self._status if status is None else status
        self._role = self._role if role is None else role
        await self._write()

    async def close(self) -> None:
        """Take the card away."""
        self._is_closed = True
        self._wake.set()
        await self._keeper.join()
        with suppress(CrdtSyncError):
            await self._state.show(self._key, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _write(self) -> None:
        await self._state.show(self._key, card(self._role, self._status, self._since_ms))

    async def _stay(self) -> None:
        done_s = time.monotonic()
        while not self._is_closed and time.monotonic() - done_s < AWAY_S_MAX:
            if await woken(self._wake, RENEW_S):
                continue
            with suppress(CrdtSyncError):
                await self._write()
                done_s = time.monotonic()


async def who(state: AsyncSession) -> list[Present]:
    """The agents that are here, on all hosts that can be reached."""
    return present(await state.shown(PRESENCE), await claims(state), await state.status())
