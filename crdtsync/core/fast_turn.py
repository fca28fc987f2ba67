"""Short turns: those in which nothing has happened but plain writes, and nothing is due.

A turn looks everywhere for something to do: for what time has brought, for waiting requests, texts, records of the
cluster, resolvers. While registers are written that is most of its work, and in vain: none of it follows from them.
A short turn tells watchers and peers what was written, and that is all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from crdtsync.core.interface import Ready
from crdtsync.wire.change import Kind
from crdtsync.wire.limits import CLUSTER_SPACE

if TYPE_CHECKING:
    from crdtsync.core.agents.desk import Desk
    from crdtsync.core.background.trimming import Retention
    from crdtsync.core.diagnostics.counters import Counts
    from crdtsync.core.replica.replica import Applied, Replica
    from crdtsync.core.resolvers.registry import Registry
    from crdtsync.core.storage.write_batch import Ledger
    from crdtsync.core.sync.protocol import Sync

_REGISTER = Kind.REGISTER


class Host(Protocol):
    """What short turns need of their node."""

    replicas: dict[str, Replica]
    desk: Desk
    sync: Sync
    resolvers: Registry
    retention: Retention
    counts: Counts
    now_ms: int
    now_s: float

    @property
    def ledger(self) -> Ledger:
        """What the next commit must write."""


class ShortTurns:
    """Of one node. ``until_s``: nothing is due before, and only plain writes have happened since that was found out."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.until_s = 0.0

    def is_enough(self) -> bool:
        """Whether the turn that begins now may be a short one."""
        host, desk = self._host, self._host.desk
        return (
            host.now_s < self.until_s
            and desk.is_short
            and not host.retention.is_due(host.now_s)
            and not len(desk.waits)
            and not len(desk.long_reads)
            and not desk.closes
            and not host.resolvers.has_dockets
        )

    def ready(self, written: dict[str, list[Applied]], durable: dict[str, int]) -> Ready:
        """As :meth:`crdtsync.core.node.Node.ready`."""
        host, desk, sync, ledger = self._host, self._host.desk, self._host.sync, self._host.ledger
        has_watches = len(desk.watches) > 0
        for name, applied in written.items():
            replica = host.replicas[name]
            replica.prepare_commit()
            host.counts.note(replica.entries, applied)
            if has_watches:
                desk.watches.notify(name, applied, durable[name], host.now_ms)
        if written:
            host.retention.touched(written, ledger.batch, host.now_s)
        if has_watches:
            desk.watches.advance(durable, host.now_ms)
        sync.comparer.note(written, host.now_s)
        if sync.links:
            if sync.mesh.inquiries.questions:
                sync.mesh.inquiries.run(written, host.now_s)
            sync.pump_news(written, durable, host.now_s, is_patient=True)  # nobody waits for anything: see is_enough
            sends, closes, met = sync.outbox.take()
            ledger.batch.peers.extend(met)
        else:
            sends, closes = [], []  # nobody to send to
        replies, desk.replies = desk.replies, []
        return Ready(ledger.take(), sends, replies, closes, [])

    def advance(self, written: Iterable[str], durable: dict[str, int]) -> None:
        """As :meth:`crdtsync.core.node.Node.advance`, after a short turn."""
        for name in written:
            replica = self._host.replicas[name]
            replica.committed_plainly()
            durable[name] = replica.position
        self._host.desk.committed()


def are_plain(changes: Iterable[Applied]) -> bool:
    """Whether nothing follows from changes that a short turn would miss."""
    for applied in changes:
        if applied.space == CLUSTER_SPACE:
            return False
        for effect in applied.effects:
            op = effect.op
            if op.kind != _REGISTER or op.attrs is not None or op.key[0] == "_":
                return False
            for gone in effect.removed:
                if gone.kind != _REGISTER or gone.attrs is not None:
                    return False
    return True
