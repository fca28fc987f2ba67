"""What changes do to the texts of one replica: edits are tried, applied or skipped, and written down for the disk.

A text's entry is a marker that names a document; the document itself is Yjs'
(:mod:`crdtsync.core.text.document_cache`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import Dot, Writer
from crdtsync.core.alarm_catalogue import EDIT_SKIPPED
from crdtsync.core.storage.interface import DocumentDrop, DocumentStateRow, DocumentTrim, DocumentUpdateRow
from crdtsync.core.text.marker import UNKNOWN_WRITER, check_marker
from crdtsync.core.text.yjs_library import NO_CHANGE
from crdtsync.errors import CrdtSyncError, InvalidEncoding
from crdtsync.wire.change import Change, Kind, Op
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.tokens import encode_dot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crdtsync.core.crdt.entries import Entry
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.storage.write_batch import Ledger

SKIPPED_DOCUMENTS_MAX = 10_000
TORN_BYTES_MAX = 16 * 1024 * 1024
"""Of other replicas' states of documents that are to be written anew; what is beyond waits for the next comparison."""


_TEXT = int(Kind.TEXT)


class TextEdits:
    """Of one replica. ``due`` are keys of which a text may have edits to be brought over from other documents; ``torn``
    documents that are to be written anew, as another replica holds them.
    """

    def __init__(self, replica: Replica, ledger: Ledger) -> None:
        self.due: set[str] = set()
        self.torn: dict[Dot, bytes] = {}
        self._replica = replica
        self._documents = replica.documents
        self._ledger = ledger
        self._touched: set[str] = set()
        self._skipped: set[Dot] = set()

    def load(self, markers: Iterable[Entry]) -> None:
        """Begin with these, which are all that the replica holds."""
        for marker in markers:
            self._documents.named(marker)
        entries = self._replica.entries
        self.due = {key for key in entries.keys_with_several if entries.held(key)[-1].kind == Kind.TEXT}

    # -- edits -------------------------------------------------------------------------------------------------

    def try_all(self, change: Change) -> None:
        """Apply the text edits of an own change to their documents, or to none.

        What fails here must never be committed.
        """
        done: list[Dot] = []
        for n, op in enumerate(change.ops):
            if op.kind != _TEXT or op.value is None:
                continue
            named, update = check_marker(unpack(op.value))
            document = named or Dot(change.writer, change.seq, n)
            try:
                self._documents.apply(document, update)
            except CrdtSyncError:
                for dot in done:
                    self._documents.undo(dot)
                raise
            done.append(document)

    def unknown_document(self, change: Change) -> Dot | None:
        """A document that the change edits and that is not held here at all, if there is one."""
        for op in change.ops:
            if op.kind != _TEXT or op.value is None:
                continue
            try:
                document, _ = check_marker(unpack(op.value))
            except InvalidEncoding:
                continue
            if document is None or document[:2] == (change.writer, change.seq):
                continue
            if document not in self._skipped and not self._documents.exists(document):
                return document
        return None

    def skip_document(self, document: Dot) -> None:
        """Nobody has what came before the edits of this document: from now on they are skipped."""
        if len(self._skipped) >= SKIPPED_DOCUMENTS_MAX:
            self._skipped.clear()
        self._skipped.add(document)

    def note_torn(self, document: Dot, theirs: bytes) -> None:
        """Another replica's state of this document cannot be united with the one here."""
        if sum(map(len, self.torn.values())) + len(theirs) <= TORN_BYTES_MAX:
            self.torn[document] = theirs

    def apply(self, dot: Dot, op: Op, position: int, change: Change, own: bool) -> bytes:
        """Apply a text edit to its document; what is stored as the entry's value is the document's name alone."""
        try:
            named, update = check_marker(unpack(op.value or b""))
        except InvalidEncoding:
            return pack(list(dot))  # purged, or from a careless author: there is nothing to apply
        document = named or dot
        try:
            if not own:  # own edits have been tried before
                self._documents.apply(document, update)
        except CrdtSyncError as error:
            self._tell_skipped(dot, op, change, error)
        else:
            row = DocumentUpdateRow(self._replica.id, *document, position, *dot, change.agent, update)
            self._ledger.batch.document_updates.append(row)
        return pack(list(document))

    def _tell_skipped(self, dot: Dot, op: Op, change: Change, error: CrdtSyncError) -> None:
        replica = self._replica
        node = replica.node_of(change.writer)
        replica.alarms.journal(
            "edit_skipped",
            space=replica.name, key=op.key, dot=encode_dot(dot), node=node, agent=change.agent, reason=error.message,
        )  # fmt: skip
        replica.alarms.raise_once(
            EDIT_SKIPPED,
            replica.name,
            f"space {replica.name}: skipped an edit of the text {op.key!r} by {node}: {error.message}; "
            "the log of this daemon lists all",
            [op.key],
        )

    def uncommitted(self, document: Dot) -> list[Dot]:
        """The dots of a document's edits that wait for the next commit."""
        return [
            Dot(Writer(row.by_writer), row.by_seq, row.by_n)
            for row in self._ledger.batch.document_updates
            if row[:4] == (self._replica.id, *document) and (row.update != NO_CHANGE or row.by_writer == UNKNOWN_WRITER)
        ]

    # -- markers -----------------------------------------------------------------------------------------------

    def note_markers(self, added: Entry | None, removed: list[Entry], position: int, dot: Dot, agent: str) -> None:
        """Keep count of the markers that name each document.

        Where none is left, an empty edit on disk tells since when: the document is kept for as long as the log
        reaches back to it, for edits by those who did not know.
        """
        if added is not None and added.kind == Kind.TEXT:
            self._documents.named(added)
            if added.key in self._replica.entries.keys_with_several:
                self._touched.add(added.key)
        for entry in removed:
            if entry.kind == Kind.TEXT:
                document = self._documents.unnamed(entry)
                if document is not None and self._documents.exists(document):
                    row = DocumentUpdateRow(self._replica.id, *document, position, *dot, agent, NO_CHANGE)
                    self._ledger.batch.document_updates.append(row)

    def note_merged_markers(self, come: Iterable[Entry], gone: Iterable[Entry]) -> None:
        """Keep count of the markers that have come and gone, not by changes."""
        text, position = int(Kind.TEXT), self._replica.position
        for entry in [entry for entry in come if entry.kind == text]:
            self.note_markers(entry, [], position, entry.dot, entry.agent)
        for entry in [entry for entry in gone if entry.kind == text]:
            self.note_markers(None, [entry], position, entry.dot, entry.agent)

    # -- the disk ----------------------------------------------------------------------------------------------

    def store(self, dot: Dot) -> bool:
        """Store a document as a whole with the commit under way, and drop what no snapshot in transfer needs.

        False if that cannot be done.
        """
        replica, batch = self._replica, self._ledger.batch
        document = self._documents.get(dot, is_use=False)
        try:
            state = document.state()
        except CrdtSyncError as error:  # its edits are on disk one by one
            name = "-".join(map(str, dot))
            replica.alarms.journal("text_not_stored", space=replica.name, document=name, reason=str(error))
            return False
        document.updates_since_state = 0
        batch.document_states.append(DocumentStateRow(replica.id, *dot, replica.position, state))
        if not replica.pins:
            batch.document_trims.append(DocumentTrim(replica.id, *dot, 0, replica.position))
        return True

    def committed(self) -> None:
        """All that was applied is on disk."""
        self.due |= self._touched
        self._touched.clear()

    def drop(self, dot: Dot) -> None:
        """A document that nobody names goes from memory, and from disk with the commit under way."""
        batch, space = self._ledger.batch, self._replica.id
        is_touched = any(row[:4] == (space, *dot) for row in batch.document_updates)
        if not is_touched and not self._documents.is_dirty(dot):
            self._documents.drop(dot)
            batch.document_drops.append(DocumentDrop(space, *dot))
