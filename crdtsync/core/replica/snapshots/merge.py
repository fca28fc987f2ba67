"""Merging a whole snapshot into a replica: exactly, at once, or not at all.

The parts of a snapshot come one by one (:mod:`crdtsync.core.sync.snapshot_client`) and are put on disk as they come
(:mod:`crdtsync.core.replica.snapshots.staging`); this is the end of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.replica.snapshots.snapshot import difference
from crdtsync.core.storage.rows import DocumentStateRow, DocumentUpdateRow, HeadRow, pack_vector
from crdtsync.core.text.marker import UNKNOWN_WRITER
from crdtsync.core.text.yjs_library import NO_CHANGE
from crdtsync.errors import CrdtSyncError
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import SHORT_HASH_BYTES, Change
from crdtsync.wire.limits import CHANGE_OPS_MAX

if TYPE_CHECKING:
    from collections.abc import Collection

    from crdtsync.causality import Dot, Writer
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.replica.snapshots.snapshot import Taking
    from crdtsync.core.space import Applied


class MergedSnapshot(NamedTuple):
    """The effect of merging a snapshot: ``advanced`` writers, entries that have ``come`` and that are ``gone``.

    ``applied`` are changes that had been waiting for it; ``kept`` is False if one of them must be asked for again.
    """

    advanced: set[Writer]
    come: list[Entry]
    gone: list[Entry]
    applied: list[Applied]
    kept: bool
    texts: Collection[str] = ()
    """Keys of which nothing has changed but the text."""
    position: int = 0
    """The place in the log at which the entries went."""

    def keys(self) -> set[str]:
        """The keys that it changed."""
        return {*(entry.key for entry in (*self.come, *self.gone)), *self.texts}


def merge_snapshot(replica: Replica, taken: Taking, now_ms: int) -> MergedSnapshot:
    """Merge a whole snapshot, exactly: afterwards the replica holds what it would hold had it applied every change
    that the snapshot's frontier names.

    :raises ForkDetected: it contradicts what is held here; nothing was done.
    """
    for writer, row in sorted(taken.writers.items()):
        replica.check_head(writer, row.seq, row.hash[:SHORT_HASH_BYTES], stored=True)
    found = difference(replica.entries.all(), replica.vector, taken)
    if found.contradictions:
        raise replica.fork(found.contradictions[0].dot.writer, found.contradictions[0].dot.seq)
    advanced = {writer for writer, row in taken.writers.items() if row.seq > replica.vector.get(writer, 0)}
    if not advanced:  # what it lacks no change has removed that this node lacks
        found = found._replace(gone=[], whole=None)
    states = _absorb_documents(replica, taken)
    if advanced:
        replica.advance_position()  # what the merge did is as of it
    batch, position = replica.ledger.batch, replica.position
    batch.document_states.extend(DocumentStateRow(replica.id, *dot, position, state) for dot, state in states)
    if advanced:  # what came with the states is not on disk edit by edit: an empty one of nobody's stands for it
        batch.document_updates.extend(
            DocumentUpdateRow(replica.id, *dot, position, UNKNOWN_WRITER, 0, CHANGE_OPS_MAX, "", NO_CHANGE)
            for dot, _ in states
        )
    replica.staging.adopt(taken, found.come)
    replica.past.record_removed_elsewhere(found.gone, position, now_ms)
    replica.caps.forget()
    replica.entries.exchange(found.gone, found.incoming, found.digest, found.whole)
    replica.texts.note_merged_markers(found.come, found.gone)
    texts = replica.texts.unite()
    # Edits may come even for a text whose marker neither comes nor goes.
    texts |= {key for document, _ in states if (key := replica.documents.key_of(document)) is not None}
    texts -= {entry.key for entry in (*found.come, *found.gone)}
    replica.note_reserved((*found.come, *found.gone))
    _advance_heads(replica, taken, advanced)
    if advanced:
        replica.past.cut(replica.vector, now_ms)  # what removed the entries that went is not known
    assert taken.header is not None
    replica.clock.witness(taken.header.hlc, now_ms)
    waiting: list[Change | bytes] = [
        body for w in sorted(advanced) for body in replica.gate.release(w, replica.vector[w])
    ]
    applied, kept = replica.take_in(waiting[::-1], now_ms, asked=None)
    return MergedSnapshot(advanced, found.come, found.gone, applied, kept, texts, position)


def _absorb_documents(replica: Replica, taken: Taking) -> list[tuple[Dot, bytes]]:
    """The documents of a snapshot into those held here. One that cannot be united with ours stays as it is: otherwise a
    forged edit of one text would keep a node from ever catching up. It differs then, and is mended as that
    (:mod:`crdtsync.core.sync.text_repair`).
    """
    documents = replica.documents
    is_news = any(row.seq > replica.vector.get(writer, 0) for writer, row in taken.writers.items())
    states: list[tuple[Dot, bytes]] = []
    for document, state in sorted(taken.documents.items()):
        if not state or not (is_news or not documents.exists(document)):
            continue
        try:
            states.append((document, documents.absorb(document, state)))
        except CrdtSyncError as error:
            key = documents.key_of(document)
            replica.alarms.journal("text_torn", space=replica.name, key=key, node=taken.node, reason=error.message)
    return states


def _advance_heads(replica: Replica, taken: Taking, advanced: set[Writer]) -> None:
    """Everything up to the snapshot's frontier counts as applied, and the log does not hold what it brought."""
    batch = replica.ledger.batch
    for writer, row in sorted(taken.writers.items()):
        if row.origin is not None and writer not in replica.origins:
            replica.origins[writer] = row.origin
            batch.origins.append((replica.id, writer, *row.origin))
        if writer in advanced:
            replica.undurable.setdefault(writer, replica.vector.get(writer, 0))
            replica.vector[writer] = replica.floor[writer] = row.seq
            replica.hashes[writer] = row.hash
            batch.heads.append(HeadRow(replica.id, writer, row.seq, row.hash, replica.position))
    if not advanced:
        return
    replica.since_own |= advanced
    if replica.writer in advanced:
        replica.retire_writer()
    batch.floors.append((pack_vector(replica.floor), replica.id))
