"""Spaces in the asyncio client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.client.aio.methods.base import AsyncMethods

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.client.operations.spaces import Archive, Dropped, Space
    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.values.durations import Seconds


class AsyncSpaceMethods(AsyncMethods):
    """The part of a session that makes and drops spaces: named sets of keys that replicate each for itself."""

    async def create_space(
        self, name: str, *, nodes: Iterable[str] | None = None, private: bool = False, timeout: Seconds | None = None
    ) -> Space:
        """Make a space on every node of the cluster, or on ``nodes`` alone (names or ids), and return it.

        It is on this node at once if it may be here, and on others as soon as they hear of it: ``wait(space.token,
        w="all")``. If a space is for some nodes, its content never gets to the others. If it is there already, on the
        same nodes, it is returned with ``created`` False. Use it with ``session(space=name)``.

        It begins with the rule that the socket's owner and group may do all in it, on every host; with ``private`` with
        one for this agent alone, who then lets others in with :meth:`access_grant`. No rule of an earlier space of this
        name counts.
        """
        from crdtsync.client.operations.spaces import space

        arguments: Arguments = {"name": name, "nodes": None if nodes is None else list(nodes), "private": private}
        return await self._ask_for(space, "space_create", arguments, timeout)

    async def drop_space(self, name: str, *, timeout: Seconds | None = None) -> Dropped:
        """Drop a space on all nodes, with what others write in it at the same time.

        Each node keeps what it held in an archive for seven days. ``default`` begins anew, empty.
        """
        from crdtsync.client.operations.spaces import dropped

        return await self._ask_for(dropped, "space_drop", {"name": name}, timeout)

    async def spaces(self, *, timeout: Seconds | None = None) -> list[Space]:
        """All spaces of the cluster that this agent may see, in order of name."""
        from crdtsync.client.operations.spaces import spaces

        return await self._ask_for(spaces, "space_list", {}, timeout)

    async def archives(self, *, timeout: Seconds | None = None) -> list[Archive]:
        """The archives that this node keeps of dropped spaces. To read one: ``session(space=archive.name)``."""
        from crdtsync.client.operations.spaces import archives

        return await self._ask_for(archives, "space_list", {}, timeout)
