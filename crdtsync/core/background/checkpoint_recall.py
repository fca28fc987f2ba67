"""Recalls what checkpoints hold: a node that came later asks a node that has been there since.

Host-d has joined by a snapshot. Its record of ``before-refactor`` says what was in the space then, and host-d lacks
what was overwritten or deleted since. It asks host-a (RECALL), and writes what comes (RECALLED) under a number of its
own, as dead rows of no space: so no read, trim or snapshot of the space meets them. Host-d skips what is alive there.
When host-a has nothing more, host-d reads the whole checkpoint as any reader of the past would, and compares it with
the digest in the record. Only then does it show the checkpoint, and give it to others.

A node asks one peer at a time, about one checkpoint of one space, the newest first. The peer must hold all that this
node held when it began: then all that is dead here is dead there too, and comes. If a peer does not answer, the next
one is asked; if none does, ever more seldom. After a restart it goes on where it was. If what checkpoints hold back
would take more bytes than it may, the node lets the checkpoint be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.crdt.entry import Entry, inside
from crdtsync.core.history.checkpoints import Checkpoint, Kept, kept_of, record_of
from crdtsync.core.reads.checkpoint_check import CheckpointCheck
from crdtsync.core.reads.gone_since import GoneSince, place_of
from crdtsync.core.storage.rows import ArchivePurge, DeadPlace, DocumentStateRow, EntryRow, RemovedRow, kept_name
from crdtsync.core.text.judging import check_state
from crdtsync.errors import CrdtSyncError, InvalidEncoding
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import new_row, pack
from crdtsync.wire.patterns import check_pattern
from crdtsync.wire.peer.snapshot import DocumentPiece, EntryFields, decode_part, entry_bytes
from crdtsync.wire.peer.values import Recall, Recalled

if TYPE_CHECKING:
    from crdtsync.causality import VersionVector
    from crdtsync.core.background.purging import Purger
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.peers.peer_state import Link, SpaceLink
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.sync.protocol import Sync
    from crdtsync.wire.yjs.encoding import Steps

LOOK_INTERVAL_S = 5.0
"""How often a node looks whether it lacks something of a checkpoint."""
SLICE_INTERVAL_S = 0.02
ANSWER_S = 10.0
"""How long a peer has for an answer, or to catch up with what this node had when it began."""
POLL_S = 1.0
"""How often it looks whether the peer is still there, or has caught up."""
REST_S_MIN = 20.0
REST_S_MAX = 600.0
"""How long nobody is asked for a checkpoint that no peer has given."""
DROPPED_ROWS = 500
"""Rows of what is not kept any longer that go in one turn."""
_CODE = "checkpoint_recalled"


class _Rest(NamedTuple):
    """Until when nobody is asked for a checkpoint, and of which nodes came what does not add up."""

    until_s: float
    length_s: float
    failed: frozenset[str]


NO_REST = _Rest(0.0, REST_S_MIN / 2, frozenset())


class _Job:
    """A checkpoint that is being recalled: what this node held when that began, and of whom it has asked what."""

    def __init__(self, replica: Replica, record: Checkpoint, kept: Kept, now_s: float, refused: frozenset[str]) -> None:
        self.replica = replica
        self.record = record
        self.kept = kept
        self.vector: VersionVector = dict(replica.vector)
        self.begun_s = self.due_s = now_s
        self.link: Link | None = None
        self.asked_s = 0.0
        self.refused = {*refused}
        """Nodes that have not given it."""
        self.purges = replica.purges.times
        self.storing: Steps[None] | None = None
        self.check: CheckpointCheck | None = None


class CheckpointRecall:
    """What one node recalls, and gives to others. ``due_s``: when :meth:`run` has something to do."""

    def __init__(self, node: NodeContext, sync: Sync, purger: Purger) -> None:
        self._node = node
        self._purger = purger
        self._sync = sync
        self._job: _Job | None = None
        self._rests: dict[str, _Rest] = {}
        self._giving: dict[tuple[int, str], tuple[Link, Recall, GoneSince]] = {}
        self._leavings: list[Kept] | None = None
        self._in_vain: dict[str, set[int]] = {}
        self._look_due_s = node.now_s
        self.due_s = node.now_s
        sync.answer_by(Recall, self._asked)
        sync.answer_by(Recalled, self._came)

    def run(self) -> None:
        """Do a slice of what is due."""
        now_s = self._node.now_s
        if now_s < self.due_s:
            return
        self._give()
        if now_s >= self._look_due_s:
            self._look_due_s = now_s + LOOK_INTERVAL_S
            self._find_leavings()
            self._wake_some()
            self._job = self._job or self._next_job()
        if not self._node.read_only:
            self._drop_leavings()
            if self._job is not None:
                self._go_on(self._job)
        due = [self._look_due_s]
        if self._giving or self._leavings:
            due.append(now_s + SLICE_INTERVAL_S)
        if self._job is not None and not self._node.read_only:
            due.append(self._job.due_s)
        self.due_s = min(due)

    # -- giving ------------------------------------------------------------------------------------------------

    def _asked(self, link: Link, _: SpaceLink, replica: Replica, message: Recall) -> None:
        key, dot = message.record
        record = next((record_of(entry) for entry in replica.entries.held(key) if entry.dot == dot), None)
        try:
            place = place_of(message.place)
        except InvalidEncoding:
            return
        if record is not None and replica.checkpoints.is_whole(record):
            giving = GoneSince(replica, self._node.storage, record, place)
            self._giving.setdefault((link.conn, replica.name), (link, message, giving))
            self.due_s = self._node.now_s

    def _give(self) -> None:
        """Look a little further for what the first of those who asked wants; then it is the next one's turn."""
        if not self._giving:
            return
        asked = next(iter(self._giving))
        link, message, giving = self._giving.pop(asked)
        if link.conn not in self._sync.links or self._node.replicas.get(message.space) is not giving.replica:
            return
        if self._purger.is_busy(giving.replica):
            return  # the document of a text goes long after its entries, and tells no key
        try:
            if not giving.advance():
                self._giving[asked] = link, message, giving
                return
        except CrdtSyncError as error:  # another node may have it
            self._node.log("checkpoint_not_given", level="debug", space=message.space, why=error.message)
            return
        fields = message.space, message.epoch, message.record, message.place
        self._sync.outbox.send(link, Recalled(*fields, giving.data, giving.next, giving.untold))

    # -- asking ------------------------------------------------------------------------------------------------

    def _next_job(self) -> _Job | None:
        node = self._node
        if node.read_only:
            return None
        lacking = {
            kept_name(replica.id, record.entry.dot): (replica, record)
            for _, replica in sorted(node.replicas.items())
            if replica.asleep is None
            for record in replica.checkpoints.lacking()
        }
        for gone in self._rests.keys() - lacking.keys():
            del self._rests[gone]
        leaving = {kept.name for kept in self._leavings or ()}
        for name, (replica, record) in lacking.items():
            rest = self._rests.get(name, NO_REST)
            is_resting = rest.until_s > node.now_s
            if is_resting or name in leaving or not self._able(replica) or self._is_full(replica, 1):
                continue
            checkpoints = replica.checkpoints
            kept = checkpoints.kept(record) or checkpoints.begin_recall(record)
            return _Job(replica, record, kept, node.now_s, rest.failed)
        return None

    def _able(self, replica: Replica) -> list[Link]:
        return [
            link
            for _, link in sorted(self._sync.links.items())
            if link.takes(Recall) and replica.name in link.spaces and not link.spaces[replica.name].stopped
        ]

    def may_recall(self, replica: Replica) -> bool:
        """Whether somebody may give what a space lacks; if not, it may sleep, and wakes when a peer connects."""
        names = [kept_name(replica.id, record.entry.dot) for record in replica.checkpoints.lacking()]
        rests = [self._rests.get(name, NO_REST) for name in names]
        able = {link.conn for link in self._able(replica)}
        if able and any(rest.until_s <= self._node.now_s for rest in rests):
            return True
        self._in_vain[replica.name] = able
        return False

    def _wake_some(self) -> None:
        for name, asked in [*self._in_vain.items()]:
            replica = self._node.replicas.get(name)
            if replica is None or replica.asleep is None:
                del self._in_vain[name]
            elif any(link.conn not in asked for link in self._able(replica)):
                replica.wake()

    def _is_full(self, replica: Replica, more: int) -> bool:
        """Whether with so many bytes more the past of a space takes all it may, or nobody has found out what it may."""
        return replica.checkpoints.past_bytes() + more >= replica.checkpoints.bytes_max

    def _go_on(self, job: _Job) -> None:
        node, replica = self._node, job.replica
        is_there = replica.entries.holds_dot(job.record.entry.key, job.record.entry.dot)
        if node.replicas.get(replica.name) is not replica or replica.asleep or not is_there:
            self._job = None  # it was read anew, dropped, or deleted meanwhile: the next look finds out
        elif replica.checkpoints.kept(job.record) is not job.kept:
            self._job = None  # let go
        elif replica.purges.times != job.purges:
            # from now on nobody is asked who has not done that purge, nor is heard who was asked before
            job.purges, job.vector, job.begun_s = replica.purges.times, dict(replica.vector), node.now_s
            job.link, job.storing, job.due_s = None, None, node.now_s
        elif node.now_s >= job.due_s:
            try:
                self._do_slice(job)
            except CrdtSyncError as error:
                self._failed(job, error.message)

    def _do_slice(self, job: _Job) -> None:
        """:raises CrdtSyncError: what the peer has given is not the checkpoint."""
        job.due_s = self._node.now_s + SLICE_INTERVAL_S
        if job.storing is not None:
            if next(job.storing, True) is True:
                job.storing = None
        elif job.check is not None:
            if job.check.advance():
                self._is_whole(job)
        elif job.link is not None:
            self._wait(job, job.link)
        else:
            self._ask(job)

    def _ask(self, job: _Job) -> None:
        node, replica = self._node, job.replica
        able = self._able(replica)
        links = [link for link in able if link.peer_node not in job.refused]
        if not able:
            self._job = None  # until somebody is connected again
            return
        if not links:
            self._rest(job)
            return
        ready = [link for link in links if self._sync.peers[link.peer_node].holds(replica.name, job.vector)]
        if not ready:
            job.due_s = node.now_s + POLL_S
            job.refused |= {link.peer_node for link in links} if node.now_s > job.begun_s + ANSWER_S else set()
            return
        same = [link for link in ready if link.peer_node == job.kept.node]
        job.link = (same or ready)[0]
        if not same:
            job.kept = job.kept._replace(node=job.link.peer_node, place=b"")
            replica.checkpoints.keep(job.kept)
        record = job.record.entry
        message = Recall(replica.name, replica.epoch, (record.key, record.dot), job.kept.place)
        self._sync.outbox.send(job.link, message)
        job.asked_s, job.due_s = node.now_s, node.now_s + POLL_S

    def _wait(self, job: _Job, link: Link) -> None:
        """An answer has not come yet: ask again if the connection is gone, and another one if there was time."""
        is_open, now_s = self._sync.links.get(link.conn) is link, self._node.now_s
        job.due_s = now_s + POLL_S
        if not is_open or now_s >= job.asked_s + ANSWER_S:
            job.link = None
            job.refused |= {link.peer_node} if is_open else set()

    def _came(self, link: Link, _: SpaceLink, replica: Replica, message: Recalled) -> None:
        job = self._job
        record = None if job is None else (job.record.entry.key, job.record.entry.dot)
        is_wanted = job is not None and job.link is link and job.replica is replica and message.record == record
        if job is None or not is_wanted or message.place != job.kept.place or job.storing is not None:
            return
        if replica.purges.times != job.purges:
            return
        job.storing, job.due_s, self.due_s = self._store(job, message), self._node.now_s, self._node.now_s

    def _store(self, job: _Job, message: Recalled) -> Steps[None]:
        """Write what has come, a step at a time.

        :raises CrdtSyncError: it is not what it should be.
        """
        replica, before = job.replica, job.kept
        content = decode_part(message.data) if message.data else []
        if not isinstance(content, list):
            raise InvalidEncoding("a header where entries should be")
        entries = [_entry(row) for row in content if isinstance(row, EntryFields)]
        pieces = [row for row in content if isinstance(row, DocumentPiece)]
        size_bytes = sum(map(entry_bytes, entries)) + sum(len(piece.data) for piece in pieces)
        if self._is_full(replica, size_bytes):
            replica.alarms.journal("checkpoint_not_recalled", space=replica.name, name=job.record.name)
            replica.checkpoints.give_up(job.record, for_good=True)
            self._job = None
            return
        states: list[tuple[DocumentPiece, bytes]] = []
        for piece in pieces:
            if len(piece.data) != piece.size_bytes:
                raise InvalidEncoding("a document is cut off")
            can_be_loaded = not piece.data or (yield from check_state(piece.data))
            states.append((piece, piece.data if can_be_loaded else b""))
        self._write_entries(job, [*inside(entries, job.record.vector)])
        for piece, state in states:
            row = DocumentStateRow(before.number, *piece.document, before.position, state)
            self._node.ledger.batch.document_states.append(row)
        untold = tuple(sorted({*before.untold, *(check_pattern(text).text for text in message.untold)}))
        job.kept = before._replace(size_bytes=before.size_bytes + size_bytes, place=message.next, untold=untold)
        replica.checkpoints.keep(job.kept)
        job.link = None
        if not message.next:
            job.check = CheckpointCheck(replica, self._node.storage, job.record, job.record)

    def _write_entries(self, job: _Job, entries: list[Entry]) -> None:
        node, replica, kept = self._node, job.replica, job.kept
        ledger = node.ledger
        for entry in entries:
            is_here = replica.entries.holds_dot(entry.key, entry.dot)
            if is_here or node.storage.dead_row(kept.number, entry.key, entry.dot) is not None:
                continue
            if replica.purges.covers(entry.key, entry.dot):
                continue
            ledger.row += 1
            hlc, *dot = entry.order
            attrs = None if entry.attrs is None else pack(entry.attrs)
            fields = (
                ledger.row, kept.number, *dot, entry.key, entry.sub, entry.kind, hlc, entry.agent, entry.value,
                entry.value_hash, attrs, None,
            )  # fmt: skip
            ledger.batch.entries.append(new_row(EntryRow, fields))
            ledger.batch.removed_rows.append(RemovedRow(ledger.row, kept.position, node.now_ms))

    # -- the end of it -----------------------------------------------------------------------------------------

    def _is_whole(self, job: _Job) -> None:
        job.replica.checkpoints.keep(job.kept._replace(is_whole=True, node="", place=b""))
        job.replica.alarms.journal(_CODE, space=job.replica.name, name=job.record.name, node=job.kept.node)
        self._job, self._look_due_s = None, self._node.now_s

    def _failed(self, job: _Job, why: str) -> None:
        """What a peer gave is dropped; whether another one has it is found out later."""
        self._node.log(
            "checkpoint_not_recalled", level="warning", space=job.replica.name, name=job.record.name, why=why
        )
        job.replica.checkpoints.give_up(job.record, for_good=False)
        self._rest(job, job.kept.node)

    def _rest(self, job: _Job, failed: str = "") -> None:
        """Nobody is asked for it for a while; then one that ``failed`` only when nobody else is left."""
        before = self._rests.get(job.kept.name, NO_REST)
        rest_s = min(2 * before.length_s, REST_S_MAX)
        nodes = before.failed | {failed} if failed else frozenset[str]()
        self._rests[job.kept.name] = _Rest(self._node.now_s + rest_s, rest_s, nodes)
        self._job = None

    # -- what is kept no longer --------------------------------------------------------------------------------

    def reload(self) -> None:
        """Memory has been read anew from disk, or a space is no longer here."""
        self._job, self._leavings = None, None
        self._giving.clear()
        self.due_s = self._look_due_s = self._node.now_s

    def _find_leavings(self) -> None:
        """Of checkpoints that are gone, and of spaces that are."""
        node = self._node
        if self._leavings is None:
            by_id = {replica.id: replica for replica in node.replicas.values()}
            found = map(kept_of, node.storage.metas(kept_name(None, None)))
            self._leavings = [
                kept
                for kept in found
                if (replica := by_id.get(kept.space)) is None
                or (replica.asleep is None and replica.checkpoints.is_left(kept))
            ]
        for replica in node.replicas.values():
            if replica.asleep is None and replica.checkpoints.leavings:
                names = {kept.name for kept in self._leavings}
                self._leavings += [kept for kept in replica.checkpoints.leavings if kept.name not in names]
                replica.checkpoints.leavings = []

    def _drop_leavings(self) -> None:
        """Drop some of their rows."""
        node, storage = self._node, self._node.storage
        if not self._leavings or storage.has_backlog:
            return
        kept = self._leavings[0]
        marks, _ = storage.dead_marks(kept.number, DeadPlace("", b"", 0), -1, 1) if kept.number else ([], None)
        if marks or (kept.number and storage.document_spans(kept.number, None, 1)):
            node.ledger.batch.archive_purges.append(ArchivePurge(kept.number, DROPPED_ROWS, is_whole=True))
        else:
            node.ledger.batch.metas.append((kept.name, None))
            self._leavings.remove(kept)


def _entry(row: EntryFields) -> Entry:
    return Entry(0, row.dot, row.key, row.sub, row.kind, row.hlc, row.agent, row.value, row.value_hash, row.attrs)
