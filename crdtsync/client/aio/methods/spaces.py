"""What the asyncio client does with spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from crdtsync.client.protocol.steps import Plan, limit_s

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.operations.spaces import Archive, Dropped, Space
    from crdtsync.client.values.durations import Seconds

T = TypeVar("T")


class AsyncSpaceMethods:
    """The part of a session that makes and drops spaces: named sets of keys that replicate each for itself."""

    timeout_s: float
    _operations: Operations

    async def run(self, plan: Plan[T], timeout_s: float) -> T:
        """Do what a plan says."""
        raise NotImplementedError

    async def create_space(
        self, name: str, *, nodes: Iterable[str] | None = None, private: bool = False, timeout: Seconds | None = None
    ) -> Space:
        """Make a space on every node of the cluster, or on ``nodes`` alone (names or ids), and return it.

        It is on this node at once if it may be here, and on others as soon as they hear of it:
        ``wait(space.token, w="all")``. What is in a space for some nodes never gets to the others. If it is there
        already, on the same nodes, it is returned with ``created`` False. Use it with ``session(space=name)``.

        It begins with the rule that the socket's owner and group may do all in it, on every host; with ``private`` with
        one for this agent alone, who then lets others in with :meth:`access_grant`. No rule of an earlier space of this
        name counts.
        """
        from crdtsync.client.operations.spaces import create

        return await self.run(create(self._operations, name, nodes, private), limit_s(timeout, self.timeout_s))

    async def drop_space(self, name: str, *, timeout: Seconds | None = None) -> Dropped:
        """Drop a space on all nodes, with what others write in it at the same time.

        Each node keeps what it held in an archive for seven days. ``default`` begins anew, empty.
        """
        from crdtsync.client.operations.spaces import drop

        return await self.run(drop(self._operations, name), limit_s(timeout, self.timeout_s))

    async def spaces(self, *, timeout: Seconds | None = None) -> list[Space]:
        """All spaces of the cluster that this agent may see, in order of name."""
        from crdtsync.client.operations.spaces import spaces

        return await self.run(spaces(self._operations), limit_s(timeout, self.timeout_s))

    async def archives(self, *, timeout: Seconds | None = None) -> list[Archive]:
        """What this node keeps of spaces that were dropped. To read one: ``session(space=archive.name)``."""
        from crdtsync.client.operations.spaces import archives

        return await self.run(archives(self._operations), limit_s(timeout, self.timeout_s))
