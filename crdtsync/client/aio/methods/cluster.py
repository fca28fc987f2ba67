"""The cluster of the client's node, in the asyncio client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.values.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crdtsync.client.session.request_context import Arguments
    from crdtsync.client.values.durations import Seconds

DAY_S = 24 * 3600
JOIN_TIMEOUT_S = 60.0


class AsyncClusterMethods(AsyncMethods):
    """The part of a session that begins a cluster, lets nodes in and removes them. See ``docs/how-to/cluster.md``."""

    async def cluster_init(
        self, *, listen: Sequence[str] = (), archive: bool = False, timeout: Seconds | None = None
    ) -> dict[str, Any]:
        """Begin a cluster with this node as its only member, and listen on these ``HOST:PORT`` from now on.

        Returns its id, the node's, how many members there are and at which addresses others reach this one. Where there
        is a cluster already, that is what it says. Data that names no cluster, as that of 0.1.0, is refused, unless
        ``archive`` puts it aside: then the answer says where, and connections end.
        """
        fields = await self._ask("cluster_init", {"listen": list(listen), "archive": archive}, timeout)
        if fields.get("archive"):
            return {**await self._ask("cluster_init", {"listen": list(listen)}, timeout), "archive": fields["archive"]}
        return fields

    async def cluster_invite(
        self,
        *,
        ttl: Seconds = DAY_S,
        uses: int = 1,
        addresses: Sequence[str] = (),
        local: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[str, Any]:
        """An ``invite`` for ``uses`` other nodes. Anybody with it can join: pass it on as you would a password.

        ``addresses`` are named in it instead of this node's own. Raises :class:`~crdtsync.errors.Refused` where nobody
        could use it; ``local=True`` allows one for this machine alone.
        """
        arguments: Arguments = {
            "ttl_ms": round(seconds(ttl, "ttl") * 1000),
            "uses": uses,
            "addresses": list(addresses),
            "local": local,
        }
        return await self._ask("cluster_invite", arguments, timeout)

    async def cluster_join(
        self,
        invite: str,
        *,
        listen: Sequence[str] = (),
        archive: bool = False,
        timeout: Seconds | None = JOIN_TIMEOUT_S,
    ) -> dict[str, Any]:
        """Make this node a member of the cluster that an invite is of.

        It begins anew, and its connections end. Where it holds data that is refused, unless ``archive`` puts that
        aside, or it is data of that very cluster: then it stays, and the answer has ``kept``.
        """
        arguments: Arguments = {"invite": invite, "listen": list(listen), "mode": "archive" if archive else ""}
        return await self._ask("cluster_join", arguments, timeout)

    async def cluster_members(self, *, timeout: Seconds | None = None) -> dict[str, Any]:
        """The cluster, and as ``members`` every node that belongs to it or once did."""
        return await self._ask("cluster_members", {}, timeout)

    async def cluster_remove(self, node: str, *, timeout: Seconds | None = None) -> dict[str, Any]:
        """Remove a member, by name or by the beginning of its id, for good. Its writes stay."""
        return await self._ask("cluster_remove", {"node": node}, timeout)

    async def forget_peer(self, node: str, *, timeout: Seconds | None = None) -> dict[str, Any]:
        """Let the daemon know a node no longer, by name or by the beginning of its id.

        The node is no member, and not connected. Removed members are forgotten anyway.
        """
        return await self._ask("forget_peer", {"node": node}, timeout)

    async def cluster_rotate_key(self, *, finish: bool = False, timeout: Seconds | None = None) -> dict[str, Any]:
        """Give this node a new key. It is used once all members know of it; until then the old one is.

        Returns ``keys`` and ``waits_for``, the names of members that have not confirmed yet. ``finish=True`` waits for
        nobody: who does not know the new key by then refuses this node until it hears of it from another.
        """
        return await self._ask("cluster_rotate_key", {"finish": finish}, timeout)
