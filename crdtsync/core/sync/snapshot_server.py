"""Snapshots that are given away: when one is offered to a peer, and sending it part by part.

A peer that lacks what the log no longer holds, or so much that the state is smaller, is offered one, and its cursor
waits meanwhile. Afterwards the log goes on from the snapshot's cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crdtsync.causality import VersionVector, covers, merge, missing
from crdtsync.core.alarm_catalogue import BEHIND_LOG
from crdtsync.core.peers.peer_state import Link, Serving, SpaceLink
from crdtsync.core.replica.replica import Replica
from crdtsync.core.replica.snapshots.snapshot import Snapshot
from crdtsync.core.text.yjs_library import whole_state
from crdtsync.errors import DamagedValue
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.snapshot import DEFLATE, compressed, part_hash
from crdtsync.wire.peer.transfer import SNAPSHOT_ID_BYTES, Offer, Part, Take
from crdtsync.wire.peer.values import Spoilt

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext

MISSING_CHANGES_MIN = 10_000
"""A peer that lacks fewer changes is sent them one by one, however small the state is."""
SNAPSHOTS_OPEN_MAX = 4
"""Snapshots that are given away at once; each keeps what was alive at its cut in memory, and the log after it."""
SNAPSHOT_KEEP_S = 60.0
"""How long a snapshot that nobody asks for is kept for a taker that comes back."""
SNAPSHOT_SHARE_S = 5.0
"""How old a snapshot may be that another taker gets too."""
OFFER_INTERVAL_S = 10.0
"""Between two offers of a snapshot."""
SERVED_BYTES_MIN = 16 * 1024
"""Parts go together in one turn until they are as much: the first two are small."""

Send = Callable[[Link, Message], None]


@dataclass(slots=True)
class _Open:
    """A snapshot that is being given away."""

    snapshot: Snapshot
    made_s: float
    used_s: float


class SnapshotServer:
    """All snapshots that a node gives away."""

    def __init__(self, node: NodeContext, links: dict[int, Link], send: Send) -> None:
        self._node = node
        self._links = links
        self._send = send
        self._open: dict[bytes, _Open] = {}

    def open_count(self) -> int:
        """How many snapshots are kept for those who take them."""
        return len(self._open)

    def reload(self) -> None:
        """The replicas have been read anew from disk: a snapshot that shows more than they do is dropped."""
        for open_ in list(self._open.values()):
            replica = self._node.replicas.get(open_.snapshot.space)
            if replica is None or open_.snapshot.position > replica.position:
                self._drop(open_)
            else:
                replica.pins.add(open_.snapshot.position)

    def forget(self, replica: Replica) -> None:
        """The space is no longer here: nor are its snapshots."""
        for open_ in [open_ for open_ in self._open.values() if open_.snapshot.space == replica.name]:
            self._drop(open_)

    def withholds(self, link: Link, here: SpaceLink, replica: Replica) -> bool:
        """Whether what this peer lacks has to come as a snapshot. If so, it is offered, and its cursor waits."""
        is_below = not self._is_in_log(here.known, replica)
        can = link.takes(Offer)
        was_offered = here.offered
        here.offered = is_below or (can and self._is_far(here.known, replica))
        if here.offered and was_offered and (here.serving is not None or self._node.now_s < here.offer_due_s):
            return True  # it is under way: a peer that asks often is not told often
        here.serving = None
        if not here.offered:
            return False
        if not can:
            assert link.hello is not None
            here.offered, here.stopped = False, True
            self._node.alarms.raise_once(
                BEHIND_LOG,
                replica.name,
                f"space {replica.name}: {link.hello.name} lacks changes that this node's log no longer holds, and its "
                "version of crdtsyncd takes no snapshots: upgrade it",
            )
            return True
        self._offer(link, here, replica)
        return True

    @staticmethod
    def _is_in_log(known: VersionVector, replica: Replica) -> bool:
        """Whether the log holds, unspoilt as far as is known, what one lacks who knows these."""
        spoilt = replica.spoilt_changes
        return covers(known, replica.floor) and all(seq <= known.get(writer, 0) for writer, seq, _ in spoilt)

    @staticmethod
    def _is_far(known: VersionVector, replica: Replica) -> bool:
        """Whether the live state is less to send than the changes that one lacks who knows these."""
        lacking = missing(known, replica.vector)
        return lacking >= MISSING_CHANGES_MIN and 4 * lacking >= replica.entries.count

    def _offer(self, link: Link, here: SpaceLink, replica: Replica) -> None:
        here.offer_due_s = self._node.now_s + OFFER_INTERVAL_S
        self._send(link, Offer(replica.name, replica.epoch))
        self._node.log("snapshot_offered", level="debug", space=replica.name, peer=link.peer_name)

    def check(self, link: Link, here: SpaceLink, replica: Replica) -> None:
        """Called each relay delay: a peer may have fallen below the log's floor while it was connected."""
        lag = missing(here.known, replica.floor)
        if lag and here.floor_lag and lag >= here.floor_lag:
            self.withholds(link, here, replica)
            lag = 0
        here.floor_lag = lag

    def is_served_by_log(self, here: SpaceLink, replica: Replica) -> bool:
        """Whether a peer that was offered a snapshot has by now got so far that the log will do."""
        return here.serving is None and self._is_in_log(here.known, replica) and not self._is_far(here.known, replica)

    def take(self, link: Link, here: SpaceLink, replica: Replica, message: Take) -> None:
        """A peer asks for a snapshot, or for the rest of one."""
        now_s = self._node.now_s
        open_ = self._open.get(message.snapshot)
        part = message.part
        if open_ is None or open_.snapshot.space != replica.name or not open_.snapshot.knows(part):
            open_, part = self._fresh(replica, may_share=here.offered), 0
        here.offered = True
        if open_ is None:
            here.serving = None
            here.offer_due_s = now_s + OFFER_INTERVAL_S  # try again later
            return
        open_.used_s = now_s
        here.serving = Serving(open_.snapshot.id, part)
        here.offer_due_s = now_s + OFFER_INTERVAL_S
        self._node.log(
            "snapshot_resumed" if part else "snapshot_started",
            space=replica.name,
            to=link.peer_name,
            part=part,
            entries=open_.snapshot.entry_count,
        )

    def _fresh(self, replica: Replica, *, may_share: bool) -> _Open | None:
        """A snapshot to begin with; None: too many are open.

        Without ``may_share`` it shows all that is held now: a peer that was not offered one asks for the document
        of an edit that it was just sent, and a snapshot from before that edit may lack it.
        """
        now_s = self._node.now_s
        far: _Open | None = None
        for open_ in self._open.values():
            snapshot = open_.snapshot
            if snapshot.space != replica.name:
                continue
            is_young = may_share and open_.made_s + SNAPSHOT_SHARE_S > now_s
            is_young = is_young and self._is_in_log(snapshot.vector, replica)
            if snapshot.position == replica.position or (is_young and not self._is_far(snapshot.vector, replica)):
                return open_
            far = open_ if is_young else far
        if len(self._open) >= SNAPSHOTS_OPEN_MAX:
            served = {link_here.serving.snapshot for link_here in self._space_links() if link_here.serving}
            idle = [open_ for id_, open_ in self._open.items() if id_ not in served]
            if not idle:
                return far
            self._drop(min(idle, key=lambda open_: open_.used_s))
        snapshot = self._cut(replica)
        self._open[snapshot.id] = open_ = _Open(snapshot, now_s, now_s)
        replica.pins.add(snapshot.position)
        return open_

    def _space_links(self) -> list[SpaceLink]:
        """Those that something is under way for: all that were offered a snapshot are among them."""
        return [link.spaces[name] for link in self._links.values() for name in sorted(link.busy)]

    def _cut(self, replica: Replica) -> Snapshot:
        position = replica.position
        return replica.snapshot(
            self._node.random.randbytes(SNAPSHOT_ID_BYTES),
            lambda: self._node.storage.documents(replica.id),
            lambda dot: whole_state(*self._node.storage.document_as_of(replica.id, dot, position)),
        )

    def _drop(self, open_: _Open) -> None:
        snapshot = open_.snapshot
        del self._open[snapshot.id]
        replica = self._node.replicas.get(snapshot.space)
        if replica is not None:
            replica.pins.discard(snapshot.position)

    def serve(self, link: Link, here: SpaceLink, replica: Replica, durable: int) -> int:
        """Send the next parts to a peer that was offered a snapshot and takes it. Returns their size in bytes."""
        now_s = self._node.now_s
        assert here.offered
        serving = here.serving
        open_ = self._open.get(serving.snapshot) if serving is not None else None
        if serving is None or open_ is None:
            here.serving = None
            if now_s >= here.offer_due_s:
                self._offer(link, here, replica)
            return 0
        snapshot = open_.snapshot
        if snapshot.position > durable:
            return 0  # what it shows is not on disk yet
        open_.used_s = now_s
        here.offer_due_s = now_s + OFFER_INTERVAL_S
        sent_bytes, is_last = 0, False
        while sent_bytes < SERVED_BYTES_MIN and not is_last:
            try:
                size_bytes, is_last = self._send_part(link, replica, snapshot, serving.part)
            except DamagedValue as error:  # an older version would take it for a value that was purged
                self._node.log("snapshot_given_up", level="error", space=replica.name, reason=error.message)
                self._drop(open_)
                here.serving = None
                return sent_bytes
            sent_bytes += size_bytes
            serving.part += 1
        if is_last:
            here.serving, here.offered, here.floor_lag = None, False, 0
            merge(here.known, snapshot.vector)
            here.position = snapshot.position
        return sent_bytes

    def _send_part(self, link: Link, replica: Replica, snapshot: Snapshot, number: int) -> tuple[int, bool]:
        """How many bytes it has, and whether it is the last."""
        data, is_last = snapshot.part(number, link.takes(Spoilt))
        if link.hello is not None and DEFLATE in link.hello.features:
            data = compressed(data)
        checksum = part_hash(snapshot.id, number, data)
        self._send(link, Part(replica.name, replica.epoch, snapshot.id, number, data, checksum, is_last))
        return len(data), is_last

    def can_serve(self, here: SpaceLink, durable: int) -> bool:
        """Whether :meth:`serve` has a part to send at once."""
        open_ = self._open.get(here.serving.snapshot) if here.serving is not None else None
        return open_ is not None and open_.snapshot.position <= durable

    def progress(self, here: SpaceLink) -> tuple[int, int] | None:
        """Number of the next part that a peer gets, and of parts, about; None: it gets no snapshot."""
        open_ = self._open.get(here.serving.snapshot) if here.serving is not None else None
        return (here.serving.part, open_.snapshot.parts) if here.serving is not None and open_ is not None else None

    def tick(self, now_s: float) -> None:
        """Forget snapshots that nobody has asked for, for a while."""
        for open_ in list(self._open.values()):
            if now_s >= open_.used_s + SNAPSHOT_KEEP_S:
                self._drop(open_)

    def deadline_s(self) -> float | None:
        """When :meth:`tick` or :meth:`serve` wants to be called; the latter also when :meth:`can_serve`."""
        due = [open_.used_s + SNAPSHOT_KEEP_S for open_ in self._open.values()]
        due += [
            here.offer_due_s
            for here in self._space_links()
            if here.offered and here.serving is None and not here.stopped
        ]
        return min(due, default=None)
