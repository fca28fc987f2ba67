"""Snapshots on their way between peers, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.sync.snapshot_client import Taker
from crdtsync.core.sync.snapshot_server import Giver, Log, Send

if TYPE_CHECKING:
    from random import Random

    from crdtsync.core.alarms import Alarms
    from crdtsync.core.peers.peer_state import Link
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.storage.interface import Storage


class Transfers:
    """The ``giver`` and the ``taker`` of a node."""

    def __init__(
        self,
        replicas: dict[str, Replica],
        storage: Storage,
        alarms: Alarms,
        random: Random,
        log: Log,
        links: dict[int, Link],
        send: Send,
        now_s: float,
        room_bytes: int | None = None,
    ) -> None:
        self.giver = Giver(replicas, storage, alarms, random, log, links, send)
        self.taker = Taker(replicas, alarms, log, links, send, now_s, random, room_bytes)

    def reload(self, now_s: float, refusal: str) -> None:
        """The replicas have been read anew from disk."""
        self.giver.reload()
        self.taker.reload(now_s, refusal)

    def forget(self, replica: Replica) -> None:
        """The space is no longer here."""
        self.giver.forget(replica)
        self.taker.forget(replica)

    def tick(self, now_s: float) -> None:
        """What time alone brings about."""
        self.giver.tick(now_s)
        self.taker.tick(now_s)

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
