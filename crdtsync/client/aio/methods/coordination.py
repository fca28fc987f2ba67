"""How a session works together with others: doors to :mod:`crdtsync.coordination`, which stands above the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.values.durations import Seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.coordination.aio.claims import AsyncLease
    from crdtsync.coordination.claim_record import Claim


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

    @property
    def _session(self) -> AsyncSession:
        return cast("AsyncSession", self)
