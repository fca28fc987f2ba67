"""The one snapshot of a space that is being taken, and the check of it once all parts have come."""

from __future__ import annotations

from dataclasses import dataclass, field

from crdtsync.causality import Dot
from crdtsync.core.peers.peer_state import Link
from crdtsync.core.replica.replica import Replica
from crdtsync.core.replica.snapshots.snapshot import Taking
from crdtsync.core.sync.repair import unite
from crdtsync.core.sync.snapshot_check import SnapshotCheck
from crdtsync.wire.yjs.encoding import Steps


@dataclass(slots=True)
class Receipt:
    """How far it is. ``link`` is None while the peer is away, since ``away_s``."""

    replica: Replica
    node: str
    link: Link | None
    started_s: float
    deadline_s: float
    taking: Taking | None = None
    away_s: float = 0.0
    asked_again: int = 0
    stray_bytes: int = 0
    documents: set[Dot] = field(default_factory=set)
    is_repair: bool = False
    finishing: Steps[None] | None = None
    """If all parts have come: the rest of the check."""
    check: SnapshotCheck | None = None
    """If it is whole: whether it may be merged."""
    was_asked_for: bool = False
    """Whether its giver was told to begin, a turn ago or longer."""

    @property
    def has_all(self) -> bool:
        """Whether all parts have come."""
        return self.finishing is not None or self.check is not None


def check_whole(replica: Replica, taking: Taking, *, is_repair: bool) -> Steps[None]:
    """Check a snapshot of which all parts have come, and judge the states that it brings of texts that are held."""
    yield from taking.finish()
    if is_repair:
        yield from unite(replica, taking)
        return
    for dot, state in sorted(taking.documents.items()):
        if state and replica.documents.exists(dot):
            yield from replica.documents.get(dot).judge(state)
            yield
