"""What a checkpoint holds and no snapshot of today does: for a peer that joined later, some of it at a time.

Ann overwrote ``plan/goal`` after the checkpoint was made, and edited the text ``notes``. Both values of ``plan/goal``
are on this node's disk, and one of them is in no snapshot. So a peer that asks gets the old one, and the text as it was
then. Whatever is still alive it has already.

First come the entries that are dead by now, by key and time of writing, then the documents that were edited since the
checkpoint, or may have been, by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import SEQ_MAX, WRITER_MAX, Dot, Writer, covers
from crdtsync.core.reads.as_of import Collecting, KeySelection, TextsOfCut
from crdtsync.core.reads.cuts import Cut, cut_of_checkpoint, untold_of
from crdtsync.core.storage.rows import DeadPlace
from crdtsync.core.text.yjs_library import whole_state
from crdtsync.errors import InvalidEncoding, TooOld
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import KEY_BYTES_MAX, PEER_FRAME_BYTES_MAX
from crdtsync.wire.parts import read_blob, read_count
from crdtsync.wire.peer.snapshot import PART_BYTES_MAX, DocumentPiece, encode_entries, encode_pieces
from crdtsync.wire.peer.values import UNTOLD_MAX

if TYPE_CHECKING:
    from crdtsync.core.history.checkpoints import Checkpoint
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.storage.interface import Storage

SLICE_ROWS = 250
"""Dead entries that are looked at for one answer."""
WINDOWS_MAX = 40
"""Times that as many are looked at for one answer, until some of them are in the checkpoint."""
SLICE_DOCUMENTS = 20
"""Documents that are looked at for one answer. One that was edited ends the answer."""
DOCUMENT_BYTES_MAX = PEER_FRAME_BYTES_MAX - 1024 * 1024
"""A larger one is not given: it would fit into no message."""
_ENTRIES, _EDITED, _RECALLED = range(3)

Place = DeadPlace | tuple[int, Dot | None]
"""Behind a dead entry; or behind a document, of those that stand here or of those that were recalled."""


def packed_place(place: Place) -> bytes:
    """A place, as a peer is told it and says it again."""
    return pack([_ENTRIES, *place] if isinstance(place, DeadPlace) else [place[0], *(place[1] or ())])


def place_of(packed: bytes) -> Place:
    """The place that a peer names; nothing: the beginning.

    :raises InvalidEncoding: it is none.
    """
    if not packed:
        return DeadPlace("", b"", 0)
    try:
        phase, *rest = unpack(packed)
        if phase == _ENTRIES:
            key, hlc, row = rest
            if type(key) is not str or len(key) > KEY_BYTES_MAX:
                raise ValueError("key")
            return DeadPlace(key, read_blob(hlc, 9), read_count(row))
        dot = None
        if rest:
            writer, seq, n = rest
            dot = Dot(Writer(read_count(writer, WRITER_MAX)), read_count(seq, SEQ_MAX), read_count(n))
        return read_count(phase, _RECALLED, _EDITED), dot
    except (TypeError, ValueError):
        raise InvalidEncoding("this is no place in a checkpoint") from None


class GoneSince:
    """One answer. ``data``: its entries or documents, as in a part of a snapshot; ``next``: where to go on, empty: that
    was all; ``untold``: the patterns of keys of which this node cannot tell.
    """

    def __init__(self, replica: Replica, storage: Storage, record: Checkpoint, place: Place) -> None:
        self.replica = replica
        self.data = b""
        self.next = b""
        self.untold: list[str] = []
        self._storage = storage
        self._record = record
        self._place = place
        self._cut: Cut | None = None
        self._entries: _DeadOfCut | None = None

    def advance(self) -> bool:
        """Look at one slice more; True: that was all.

        :raises TooOld: not all of the checkpoint is here.
        :raises DamagedValue: the disk has spoilt a value.
        """
        replica, record, storage = self.replica, self._record, self._storage
        if storage.has_backlog or not covers(replica.durable_vector(), record.vector):
            return False  # not all that is dead can be found yet
        if self._cut is None:
            self._cut = cut_of_checkpoint(replica, record)
        self.untold = sorted(untold_of(replica, self._cut))
        is_here = self._cut.kept is not None or covers(record.vector, replica.past.floor)
        if not is_here or len(self.untold) > UNTOLD_MAX:
            raise TooOld("this node lacks some of the checkpoint")
        if not isinstance(self._place, DeadPlace):
            self._look_at_documents(self._cut, *self._place)
            return True
        if self._entries is None:
            self._entries = _DeadOfCut(replica, storage, self._cut, self._place)
        if not self._entries.advance():
            return False
        found = [*self._entries.found()]
        self.data = encode_entries(found) if found else b""
        self.next = packed_place(self._entries.stopped_at or (_EDITED, None))
        return True

    def _look_at_documents(self, cut: Cut, phase: int, after: Dot | None) -> None:
        storage, space = self._storage, self.replica.id if phase == _EDITED else cut.recalled
        texts = TextsOfCut(self.replica, storage, cut)
        spans = storage.document_spans(space, after, SLICE_DOCUMENTS) if space else []
        for span in spans:
            is_recalled = bool(cut.recalled) and storage.document_exists(cut.recalled, span.dot)
            is_edited = span.last > cut.after and not is_recalled
            if cut.has(*span.dot[:2]) and (phase == _RECALLED or is_edited):
                self._give(texts, span.dot)
            if self.data or len(spans) == SLICE_DOCUMENTS:
                self.next = packed_place((phase, span.dot))
            if self.data:
                return
        if not self.next and phase == _EDITED and cut.recalled:
            self.next = packed_place((_RECALLED, None))

    def _give(self, texts: TextsOfCut, document: Dot) -> None:
        try:
            state = whole_state(*texts.load(document))
        except TooOld:
            state = b""  # of its edits not all are kept one by one, here either
        if len(state) > DOCUMENT_BYTES_MAX:
            state = b""
        self.data = encode_pieces([DocumentPiece(document, len(state), state)])


class _DeadOfCut(Collecting):
    """Collects entries of a cut that are dead by now, after a place: some, with their values. ``stopped_at``: where it
    stopped before the end.
    """

    def __init__(self, replica: Replica, storage: Storage, cut: Cut, place: DeadPlace) -> None:
        super().__init__(replica, storage, cut, KeySelection())
        self.stopped_at: DeadPlace | None = None
        self._windows = 0
        self._place = place

    def advance(self) -> bool:
        """Look at one slice more; True: that was enough."""
        if self._removals_after is not None:
            self._look_at_removals(self._removals_after)
            return False
        storage, cut = self._storage, self._cut
        marks, self.stopped_at = storage.dead_marks(
            self._replica.id, self._place, cut.after, SLICE_ROWS, recalled=cut.recalled
        )
        rows = storage.dead_by_id([mark.id for mark in marks if cut.has(mark.writer, mark.seq)], PART_BYTES_MAX)
        size_bytes = 0
        for count, row in enumerate(rows, 1):
            size_bytes += len(row.entry.value or b"")
            self._replica.values.doubt(row.entry)
            if size_bytes >= PART_BYTES_MAX and count < len(rows):  # of the next one the value was not read, perhaps
                self.stopped_at = DeadPlace(row.entry.key, row.entry.hlc.to_bytes(8, "big"), row.entry.row)
                del rows[count:]
        self._replica.values.check([row.entry for row in rows])
        self._take(self._known(rows))
        self._windows += 1
        if self._found or self.stopped_at is None or self._windows == WINDOWS_MAX:
            return True
        self._place = self.stopped_at
        return False
