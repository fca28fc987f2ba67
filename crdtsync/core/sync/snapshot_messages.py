"""Snapshots on their way between peers, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.sync.snapshot_client import Taker
from crdtsync.core.sync.snapshot_server import Giver, Send

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.peers.peer_state import Link
    from crdtsync.core.replica.replica import Replica


class Transfers:
    """The ``giver`` and the ``taker`` of a node."""

    def __init__(self, node: NodeContext, links: dict[int, Link], send: Send, room_bytes: int | None = None) -> None:
        self.giver = Giver(node, links, send)
        self.taker = Taker(node, links, send, room_bytes)

    def reload(self, refusal: str) -> None:
        """The replicas have been read anew from disk."""
        self.giver.reload()
        self.taker.reload(refusal)

    def forget(self, replica: Replica) -> None:
        """The space is no longer here."""
        self.giver.forget(replica)
        self.taker.forget(replica)

    def tick(self) -> None:
        """What time alone brings about."""
        self.giver.tick()
        self.taker.tick()

    def deadlines_s(self) -> list[float]:
        """When :meth:`tick` wants to be called."""
        due = [self.giver.deadline_s(), self.taker.deadline_s()]
        return [moment for moment in due if moment is not None]

    def progress(self, link: Link) -> dict[str, object] | None:
        """The snapshot that is under way on a connection, as the status shows it; None: there is none."""
        for name, here in sorted(link.spaces.items()):
            for direction, found in (
                ("in", self.taker.progress(name, link)),
                ("out", self.giver.progress(here)),
            ):
                if found is not None:
                    return {"direction": direction, "space": name, "part": found[0], "parts": found[1]}
        return None
