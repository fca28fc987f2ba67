"""Does this node's part of every purge: nothing that it stores tells what was purged.

The record of a purge names a pattern and a version vector (:mod:`crdtsync.core.replica.purges`). The values below that
vector stand in many places. Each is gone through in slices, in this order:

1. *live*: the purge removed what its author's node held, but of many keys only the first; that node removes the rest
   by further changes, and the others wait for these. Edits of a purged text that came at the same time stand on what is
   to go: whichever node meets them removes them too. Uploads that nobody has finished follow.
2. *history*: rows of what is dead go, and history says of these keys that it is not complete.
3. *log*: changes stay, since the hashes of others build on them and hosts that catch up want them whole; but of each
   purged value only its hash stays, which :mod:`crdtsync.wire.change` has a place for.
4. *replies* that are kept for retries no longer tell what a write replaced.
5. *texts*: documents that only purged edits named go. They go last, since the log tells their names.

A snapshot that is being taken may bring what is purged; it is waited for, since what it brings in vain is dropped with
it. At the end what SQLite and the journal have left of it in their files is wiped. Then it is noted as done; whatever
ends the process before that has it begin again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from crdtsync.causality import Dot
from crdtsync.core.crdt.uploads import removal
from crdtsync.core.identity import OWN_AGENT
from crdtsync.core.kinds.arguments import without_replaced
from crdtsync.core.replica.purges import Purge, matching, outcome_of
from crdtsync.core.storage.rows import DeadPlace, DocumentDrop, HistoryDrop, Redaction, purge_done_name
from crdtsync.core.text.marker import check_marker, named_document
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.blobs import BLOB_PREFIX, subject_of, upload_of
from crdtsync.wire.change import Change, Op, redacted
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind

if TYPE_CHECKING:
    from crdtsync.core.background.trimming import Retention
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.replica.replica import Replica

SLICE_INTERVAL_S = 0.01
WAIT_S = 1.0
AWAY_S = 60.0
"""Between two looks whether a host that was away is back and has removed its unfinished uploads."""
TAKEOVER_S = 60.0
"""So long a node waits for the author's node to remove what lives, before it does so itself; and for other nodes to
remove their unfinished uploads, before it goes on without: then it is not done before they have.
"""
TRANSFER_S_MAX = 600.0
"""So long a snapshot that this node gives away is waited for; whoever takes longer to take it gets no purged value."""
SLICE_ROWS = 256
"""Rows gone through for a purge in one turn."""
SLICE_BYTES = 256 * 1024
"""Bytes of the log that are rewritten for a purge in one turn: each change that may be concerned has to be read."""
SLICE_VALUES_BYTES = 1024 * 1024
"""Bytes of history, or one row."""
SLICE_REPLIES = 32
"""Replies of up to 16 KiB each."""
SLICE_KEYS = 1024
"""Keys looked at for a purge in one turn."""
SLICE_REMOVED = 100
"""Values that a change removes: their rows come into their tables with the commit."""
SLICE_TEXTS = 32


class Work:
    """One purge under way: ``step`` is what its next slice does, and counts what went."""

    def __init__(self, node: NodeContext, retention: Retention, replica: Replica, purge: Purge) -> None:
        self.purge = purge
        self.step: Callable[[], float | None] = self._remove_living
        self._node = node
        self._retention = retention
        self._replica = replica
        self._began_s = node.now_s
        self._key = ""
        self._is_waiting = False
        self._has_left = False
        self._documents: dict[Dot, None] = {}
        self._literal = purge.pattern.prefix.encode()
        self.values = self.changes = self.texts = 0
        self._go_through()

    def _go_through(self) -> None:
        """Begin to go through what is not alive."""
        replica, prefix = self._replica, self.purge.pattern.prefix
        self._dead = [
            (space, dead_under)
            for space in (*replica.checkpoints.recalled_numbers(), replica.id)
            for dead_under in ([BLOB_PREFIX + prefix, prefix] if prefix else [prefix])
        ]
        self._place = DeadPlace(prefix, b"", 0)
        self._position = self._reply = 0

    @property
    def is_at_rest(self) -> bool:
        """Whether all is done but for unfinished uploads of hosts that are away."""
        return self._has_left and self.step == self._remove_uploads

    def _is_meant(self, key: str) -> bool:
        return self.purge.pattern.matches(subject_of(key))

    def _is_gone(self, key: str) -> bool:
        """Parts of an upload that still live are not: an entry that this purge does not reach may show them."""
        return self._is_meant(key) and not (upload_of(key) and self._replica.entries.held(key))

    # -- the slices, each of which returns how long to wait for the next, or None at the end ------------------------

    def _remove_living(self) -> float | None:
        replica, node, purge = self._replica, self._node, self.purge
        keys, last = matching(replica.entries, purge.pattern, self._key, SLICE_KEYS)
        is_author = replica.is_own(purge.entry.writer)
        takes_over = is_author or node.now_s - self._began_s > TAKEOVER_S
        ops: list[Op] = []
        removed = 0
        for key in keys:
            covered, late = [], []
            for entry in replica.entries.held(key):
                if purge.covers(entry.dot):
                    covered.append(entry.dot)
                elif entry.kind == Kind.TEXT and purge.covers(named_document(entry.value)):
                    late.append(entry.dot)
            self._is_waiting |= bool(covered) and not takes_over
            gone = [*(covered if takes_over else ()), *late][:SLICE_REMOVED]
            if gone:
                kind = replica.entries.held(key)[-1].kind
                ops.append(Op(key, None, kind, None, None, tuple(gone), None))
                removed += len(gone)
            if removed >= SLICE_REMOVED:
                last = self._key  # from there once more
                break
        if ops:
            node.applied(replica, [replica.commit(ops, OWN_AGENT, None, node.now_ms)])
            self._key = last or ""
            return SLICE_INTERVAL_S
        if last is not None:
            self._key = last
        elif self._is_waiting:
            self._key, self._is_waiting = "", False
            return WAIT_S
        else:
            self._key, self.step = "", self._remove_uploads
        return SLICE_INTERVAL_S

    def _remove_uploads(self) -> float | None:
        """Parts that no entry shows, by the node that wrote them alone: elsewhere the entry may be on its way."""
        replica, node, entries = self._replica, self._node, self._replica.entries
        prefix = BLOB_PREFIX + self.purge.pattern.prefix
        keys = [*islice(entries.keys(prefix, self._key, hidden=True), SLICE_KEYS)]
        for key in keys:
            self._key = key
            parts, (blob, upload) = entries.held(key), upload_of(key) or ("", "")
            is_covered = self._is_meant(key) and any(self.purge.covers(part.dot) for part in parts)
            if not is_covered or upload in replica.uploads.named(entries.held(blob)):
                continue
            if all(replica.is_own(part.writer) for part in parts):
                node.applied(replica, [replica.commit([removal(key, parts)], OWN_AGENT, None, node.now_ms)])
                return SLICE_INTERVAL_S
            self._is_waiting = True
        if len(keys) == SLICE_KEYS:
            return SLICE_INTERVAL_S
        is_waiting, self._key, self._is_waiting = self._is_waiting, "", False
        if is_waiting and self._has_left:
            return AWAY_S
        if is_waiting and node.now_s - self._began_s <= TAKEOVER_S:
            return WAIT_S
        self._has_left = is_waiting
        self.step = self._drop_history
        return SLICE_INTERVAL_S

    def _drop_history(self) -> float | None:
        replica = self._replica
        if replica.pins and self._node.now_s - self._began_s < TRANSFER_S_MAX:
            return WAIT_S  # a snapshot on its way reads what it gives from disk
        space, prefix = self._dead[-1]
        rows = self._node.storage.scan_dead(space, self._place, is_lost=False, rows_max=SLICE_ROWS)
        gone: list[int] = []
        is_over = len(rows) < SLICE_ROWS
        size_bytes = 0
        for row in rows:
            if not row.key.startswith(prefix):
                is_over = True
                break
            size_bytes += row.size_bytes
            if gone and size_bytes > SLICE_VALUES_BYTES:
                is_over = False
                break
            self._place = DeadPlace(row.key, row.order[0].to_bytes(8, "big"), row.id)
            _, writer, seq, n = row.order
            if self._is_meant(row.key) and self.purge.covers(Dot(writer, seq, n)):  # type: ignore[arg-type]
                gone.append(row.id)
                if row.is_edit:
                    self._documents[named_document(row.value)] = None
        if gone:
            if not self.values:
                replica.past.cut_pattern(self.purge.pattern.text, replica.vector, self._node.now_ms)
            self.values += len(gone)
            self._node.ledger.batch.history_drops.append(HistoryDrop(space, tuple(gone), (), is_purge=True))
        if is_over and len(self._dead) > 1:
            self._dead.pop()
            self._place = DeadPlace(self._dead[-1][1], b"", 0)
        elif is_over:
            self._retention.recount(replica)
            replica.past.forget(self._is_meant, self.purge.covers)
            self.step = self._redact_log
        return SLICE_INTERVAL_S

    def _redact_log(self) -> float | None:
        replica = self._replica
        rows = self._node.storage.log(replica.id, self._position, SLICE_BYTES, SLICE_ROWS)
        for row in rows:
            self._position = row.position
            if row.seq > self.purge.vector.get(row.writer, 0):
                continue
            if self._literal not in row.body and replica.codec.hash_of(row.body) == row.hash:
                continue  # else the disk may have spoilt the key in it
            change = replica.spoilt.change_of(row)
            body = b"" if change is None else redacted(change, self._is_gone)  # nobody is given a spoilt one any more
            if body is not None:
                self.changes += 1
                self._node.ledger.batch.redactions.append(Redaction(replica.id, row.position, body))
            if change is not None and body is not None:
                self._note_documents(change)
        if not rows:
            self.step = self._redact_replies
        return SLICE_INTERVAL_S

    def _note_documents(self, change: Change) -> None:
        for n, op in enumerate(change.ops):
            if op.kind == Kind.TEXT and op.value is not None and self._is_meant(op.key):
                try:
                    named, _ = check_marker(unpack(op.value))
                except InvalidEncoding:
                    continue
                self._documents[named or Dot(change.writer, change.seq, n)] = None

    def _redact_replies(self) -> float | None:
        rows = self._node.storage.outcomes_after(self._reply, SLICE_REPLIES)
        for number, reply in rows:
            self._reply = number
            told = unpack(reply)
            without = pack(without_replaced(told))
            if without != reply:
                self._node.ledger.batch.reply_redactions.append((number, without))
        if not rows:
            self.step = self._drop_texts
        return SLICE_INTERVAL_S

    def _drop_texts(self) -> float | None:
        replica = self._replica
        if replica.staging.is_under_way:
            return WAIT_S
        for document in [*self._documents][:SLICE_TEXTS]:
            if not replica.documents.is_named(document) and replica.documents.exists(document):
                if not replica.texts.drop(document):
                    return WAIT_S
                self.texts += 1
            for number in replica.checkpoints.recalled_numbers():
                self._node.ledger.batch.document_drops.append(DocumentDrop(number, *document))
            del self._documents[document]
        self._node.ledger.batch.scrubs.append(replica.id)
        if self._documents:
            return SLICE_INTERVAL_S
        if self._has_left:
            self._go_through()
            self.step = self._remove_uploads
            return AWAY_S
        counts = self.values, self.changes, self.texts
        batch, pattern = self._node.ledger.batch, self.purge.pattern
        batch.metas.append((purge_done_name(replica.id, pattern.text), pack([self.purge.mark, *counts])))
        values, changes, texts = counts
        replica.alarms.journal(
            "purged", space=replica.name, pattern=pattern.text, values=values, changes=changes, texts=texts
        )
        return None


class Purger:
    """Purges one node. :meth:`run` is called when :meth:`deadline_s` has come, and when a purge has been noted."""

    def __init__(self, node: NodeContext, retention: Retention) -> None:
        self._node = node
        self._retention = retention
        self._works: dict[tuple[str, str], tuple[float, Work]] = {}

    def reload(self) -> None:
        """Memory has been read anew: whatever is not done is noted again."""
        self._works.clear()

    def closed(self, name: str) -> None:
        """A space is no longer here."""
        self._works = {place: work for place, work in self._works.items() if place[0] != name}

    def is_busy(self, replica: Replica) -> bool:
        """Whether a space holds what is to be purged and somebody may be given."""
        under_way = (name == replica.name and not work.is_at_rest for (name, _), (_, work) in self._works.items())
        return replica.purges.is_noted or any(under_way)

    def run(self) -> None:
        """Begin what is new, and do a slice of what is due."""
        node = self._node
        for name, replica in node.replicas.items():
            is_noted = replica.asleep is None and replica.purges.is_noted
            for purge in replica.purges.take_noted() if is_noted else ():
                if outcome_of(node.storage.meta(purge_done_name(replica.id, purge.pattern.text)), purge) is None:
                    # not before the commit under way is on disk
                    due_s = node.now_s + SLICE_INTERVAL_S
                    self._works[name, purge.pattern.text] = due_s, Work(node, self._retention, replica, purge)
        if not node.can_free or not self._works:
            return
        if node.storage.has_backlog:  # not everything is where it is looked for
            later_s = node.now_s + WAIT_S
            self._works = {place: (max(due_s, later_s), work) for place, (due_s, work) in self._works.items()}
            return
        place, (due_s, work) = min(self._works.items(), key=lambda item: (item[1][0], item[0]))
        if due_s <= node.now_s:
            wait_s = work.step()
            del self._works[place]
            if wait_s is not None:
                self._works[place] = node.now_s + wait_s, work

    def deadline_s(self) -> float | None:
        """When :meth:`run` has something to do, on the monotonic clock; None: nothing is under way."""
        if not self._node.can_free or not self._works:
            return None
        return min(due_s for due_s, _ in self._works.values())
