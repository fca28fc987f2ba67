"""Mending a replica that differs from another one which has applied the same changes, which must not happen and may:
a fault of a disk, or of this program.

Neither side takes anything away on suspicion. If the peer holds an entry that this node lacks, the entry comes back,
unless this node knows that it was removed: then it tells the peer so, and the peer removes it. Texts are united. Both
sides do so, and are equal then. Texts that cannot be united are written anew (:mod:`crdtsync.core.sync.text_repair`).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from crdtsync.causality import covers
from crdtsync.core.crdt.entries import DIGEST_MODULUS, IncomingEntries
from crdtsync.core.replica.snapshots.merge import MergedSnapshot
from crdtsync.core.storage.rows import DocumentStateRow, DocumentUpdateRow
from crdtsync.core.sync.text_repair import united
from crdtsync.core.text.marker import UNKNOWN_WRITER
from crdtsync.core.text.yjs_library import NO_CHANGE
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import SHORT_HASH_BYTES
from crdtsync.wire.limits import CHANGE_OPS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.causality import Dot
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.replica.snapshots.snapshot import Taking
    from crdtsync.wire.yjs.encoding import Steps


class Repaired(NamedTuple):
    """The ``merged`` changes, and entries of the other replica that are ``removed`` here."""

    merged: MergedSnapshot
    removed: list[tuple[str, Dot]]


def repair(replica: Replica, taken: Taking) -> Repaired:
    """Bring back what a snapshot of another replica holds and this one has lost. Changes that are news here are left to
    come as changes.

    :raises ForkDetected: the two contradict each other; nothing was done.
    """
    for writer, row in sorted(taken.writers.items()):
        replica.check_head(writer, row.seq, row.hash[:SHORT_HASH_BYTES], stored=True)
    lost, removed = _missing(replica, taken)
    texts, states = _unite(replica, taken)
    if lost or states:
        _store(replica, taken, lost, states)
    is_known_there = covers(taken.vector, replica.vector)  # else it may learn of the removal in the usual way
    merged = MergedSnapshot(set(), lost, [], [], kept=True, texts=texts)
    return Repaired(merged, [(entry.key, entry.dot) for entry in removed] if is_known_there else [])


def _missing(replica: Replica, taken: Taking) -> tuple[list[Entry], list[Entry]]:
    """The entries that the other one holds and this one should hold too: those that are lost here, and those that were
    removed.

    Where history has forgotten removals that the other one may not have had, nobody can say: nothing is done.
    """
    if not all(covers(taken.vector, floor) for floor, _ in replica.past.floors()):
        return [], []
    held = {entry.dot for entry in replica.entries.all()}
    lost: list[Entry] = []
    removed: list[Entry] = []
    for dot, entry in sorted(taken.entries.items()):
        if dot in held or dot.seq > replica.vector.get(dot.writer, 0):
            continue
        is_unsaved = any(row.entry.dot == dot for row in replica.past.unsaved_of(entry.key))
        is_removal_known = is_unsaved or replica.storage.dead_row(replica.id, entry.key, dot) is not None
        (removed if is_removal_known else lost).append(entry)
    return lost, removed


def unite(replica: Replica, taken: Taking) -> Steps[None]:
    """Find out, in steps, what becomes of the documents that both hold."""
    documents = replica.documents
    for dot, state in sorted(taken.documents.items()):
        if state and documents.key_of(dot) is not None and documents.exists(dot):
            here = documents.get(dot, is_use=False)
            ours, content = here.state(), here.content()
            whole = yield from united(dot, ours, state)
            both = None if whole is None else b"" if whole.content() == content else whole.state()
            taken.united[dot] = _hash(ours), both
            yield


def _unite(replica: Replica, taken: Taking) -> tuple[set[str], list[tuple[Dot, bytes]]]:
    """Take in the documents that differ; the keys of these texts, and what is to be stored.

    Texts that cannot be united are written anew: by the node with the lower id, so that not both do it. If a text was
    edited since :func:`unite`, it is left to the next comparison.
    """
    documents = replica.documents
    keys: set[str] = set()
    states: list[tuple[Dot, bytes]] = []
    for document, state in sorted(taken.documents.items()):
        key = documents.key_of(document)
        if not state or key is None:
            continue
        if not documents.exists(document):
            states.append((document, documents.absorb(document, state)))
        else:
            ours, both = taken.united.get(document, (b"", None))
            if ours != _hash(documents.get(document, is_use=False).state()):
                continue
            if both is None:
                replica.alarms.journal("text_torn", space=replica.name, key=key, node=taken.node)
                if replica.node < taken.node:
                    replica.texts.note_torn(document, state)
                continue
            if not both:
                continue
            states.append((document, documents.settle(document, both)))
        keys.add(key)
    return keys, states


def _hash(state: bytes) -> bytes:
    return blake2b(state, digest_size=16).digest()


def _store(replica: Replica, taken: Taking, lost: list[Entry], states: list[tuple[Dot, bytes]]) -> None:
    position = replica.advance_position()
    batch = replica.ledger.batch
    for dot, state in states:
        batch.document_states.append(DocumentStateRow(replica.id, *dot, position, state))
        batch.document_updates.append(
            DocumentUpdateRow(replica.id, *dot, position, UNKNOWN_WRITER, 0, CHANGE_OPS_MAX, "", NO_CHANGE)
        )
    digest = sum(entry.digest for entry in lost) % DIGEST_MODULUS
    replica.staging.adopt(taken, lost)
    replica.caps.forget()
    replica.entries.exchange([], IncomingEntries(lost), digest)
    replica.texts.note_merged_markers(lost, [])
    replica.note_reserved(lost)


def remove(replica: Replica, entries: Iterable[tuple[str, Dot]], now_ms: int) -> MergedSnapshot:
    """Another replica, which has applied all that is held here, knows that these entries were removed."""
    gone: list[Entry] = []
    for key, dot in entries:
        gone += replica.entries.remove(key, (dot,))
    if gone:
        replica.caps.forget()
        replica.past.record_removed_elsewhere(gone, replica.advance_position(), now_ms)
        replica.past.cut(replica.vector, now_ms)  # what removed them is not known
        replica.texts.note_merged_markers([], gone)
        replica.note_reserved(gone)
    return MergedSnapshot(set(), [], gone, [], kept=True)
