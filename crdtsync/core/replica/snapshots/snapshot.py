"""Snapshots: the live state of a space as of a cut, as it is given away and as it is taken in. No I/O, no peers.

A cut is a version vector with the entries that were alive there: all that a replica needs to go on from, since a dot
that the vector covers and that is not among the entries is gone. So merging one is exact (:func:`difference`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeGuard, TypeVar

from crdtsync.causality import Dot, VersionVector, Writer
from crdtsync.core.crdt.entries import DIGEST_MODULUS, IncomingEntries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.storage.long_values import MEMORY_BYTES_MAX
from crdtsync.core.text.judging import check_state
from crdtsync.errors import InvalidEncoding
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.peer.snapshot import (
    PART_BYTES_MAX,
    PART_ENTRIES_MAX,
    SNAPSHOT_BYTES_MAX,
    DocumentPiece,
    EntryFields,
    Header,
    WriterRow,
    decode_part,
    encode_entries,
    encode_header,
    encode_pieces,
    encode_writers,
    entry_bytes,
    plain_part,
)
from crdtsync.wire.yjs.encoding import Steps

PART_WRITERS_MAX = 2000
"""Writers of the frontier, in a part of a snapshot."""
PART_PIECES_MAX = 1000
"""Pieces of documents, in a part of a snapshot."""
PART_ENTRIES_FIRST = 250
"""A snapshot's first part of entries has so many, and the next ones twice as many as came before: so a taker has
something to do while the giver makes the rest.
"""
STEP_BYTES = 4000
"""Bytes of small documents that are checked in one step: the smallest items take 4 bytes each."""
_PIECE_BYTES = 32
RECORD_BYTES = 500
"""Memory that an entry takes beside its key and value while a snapshot is taken (measured: 490; a writer 450)."""

T = TypeVar("T")

ReadDocument = Callable[[Dot], bytes]


class Snapshot:
    """The state of a space as of ``position`` of this node's log, to be given away in parts.

    Entries are never changed once made, so the list holds the state as it was, whatever is written meanwhile. Parts
    are made when they are asked for, which must not be before the cut is on disk: ``list_documents`` and ``read`` ask
    the disk for all documents, and for the state of one as of the cut, empty if there is none. ``check`` refuses
    entries whose value is damaged. ``clock``: node, hybrid time and digest.
    """

    def __init__(
        self,
        snapshot: bytes,
        space: str,
        position: int,
        clock: tuple[str, int, int],
        writers: list[WriterRow],
        entries: list[Entry],
        list_documents: Callable[[], list[Dot]],
        read: ReadDocument,
        check: Callable[[Collection[Entry], bool], None],
    ) -> None:
        self.id = snapshot
        self.space = space
        self.position = position
        self.vector: VersionVector = {row.writer: row.seq for row in writers}
        self.entry_count = len(entries)
        self._node, self._hlc, self._digest = clock
        self._writers = writers
        self._entries = entries
        self._documents: list[Dot] = []
        self._list_documents = list_documents
        self._read = read
        self._check = check
        self._document: tuple[int, bytes] = (-1, b"")
        # where each part begins: in writers, then in entries, then in documents and within one
        self._starts: list[tuple[int, int, int, int]] = [(0, 0, 0, 0)]

    @property
    def parts(self) -> int:
        """How many parts there are, about: what has been made, and the rest if its entries are small."""
        made = len(self._starts)
        writers, entries, documents, _ = self._starts[-1]
        left = (len(self._writers) - writers) // PART_WRITERS_MAX
        left += (len(self._entries) - entries) // PART_ENTRIES_MAX
        return made + left + (len(self._documents) - documents) // PART_PIECES_MAX

    def knows(self, part: int) -> bool:
        """Whether it can go on with that part: one that has been given away before, or the one after."""
        return part < len(self._starts)

    def part(self, number: int, may_lack: bool = False) -> tuple[bytes, bool]:
        """One part, and whether it is the last. :meth:`knows` it. ``may_lack``: the taker asks others for a value that
        the disk has spoilt.

        :raises DamagedValue: it may not, and there is one.
        """
        start = self._starts[number]
        if number == 0:
            data, end = self._header(), start
        elif start[0] < len(self._writers):
            data, end = self._part_of_writers(start)
        elif start[1] < len(self._entries):
            data, end = self._part_of_entries(start, may_lack)
        else:
            data, end = self._part_of_documents(start)
        is_last = end[:3] == (len(self._writers), len(self._entries), len(self._documents))
        if number + 1 == len(self._starts) and not is_last:
            self._starts.append(end)
        return data, is_last

    def _header(self) -> bytes:
        if len(self._starts) == 1:
            self._documents = self._list_documents()  # those begun after the cut are empty as of it
        counts = (len(self._writers), len(self._entries), len(self._documents))
        return encode_header(Header(self._node, self._hlc, self._digest, *counts))

    def _part_of_writers(self, start: tuple[int, int, int, int]) -> tuple[bytes, tuple[int, int, int, int]]:
        rows = self._writers[start[0] : start[0] + PART_WRITERS_MAX]
        return encode_writers(rows), (start[0] + len(rows), 0, 0, 0)

    def _part_of_entries(
        self, start: tuple[int, int, int, int], may_lack: bool
    ) -> tuple[bytes, tuple[int, int, int, int]]:
        writers, first, _, _ = start
        size_bytes = 0
        rows: list[Entry] = []
        for entry in self._entries[first : first + min(PART_ENTRIES_MAX, max(PART_ENTRIES_FIRST, first))]:
            size_bytes += entry_bytes(entry)
            if rows and size_bytes > PART_BYTES_MAX:
                break
            rows.append(entry)
        part = encode_entries(rows, may_lack)
        self._check(rows, may_lack)
        return part, (writers, first + len(rows), 0, 0)

    def _part_of_documents(self, start: tuple[int, int, int, int]) -> tuple[bytes, tuple[int, int, int, int]]:
        writers, entries, at, offset = start
        left_bytes = PART_BYTES_MAX
        pieces: list[DocumentPiece] = []
        while at < len(self._documents) and left_bytes > 0 and len(pieces) < PART_PIECES_MAX:
            state = self._state(at)
            data = state[offset : offset + left_bytes]
            pieces.append(DocumentPiece(self._documents[at], len(state), data))
            left_bytes -= len(data) + _PIECE_BYTES
            offset += len(data)
            if offset >= len(state):
                at, offset = at + 1, 0
        return encode_pieces(pieces), (writers, entries, at, offset)

    def _state(self, at: int) -> bytes:
        """A document's state, kept while its pieces are given away."""
        if self._document[0] != at:
            self._document = (at, self._read(self._documents[at]))
        return self._document[1]


class Taking:
    """A snapshot on its way in. Each part is checked when it comes, except for what documents hold; :meth:`finish` says
    whether all is there, and looks into the documents.

    ``arrived`` are the entries of the last part. A document is empty where the peer knows of one and holds nothing, and
    where loading it could take too long: those are ``refused``.
    """

    def __init__(self, snapshot: bytes, node: str) -> None:
        self.id = snapshot
        self.node = node
        self.parts = 0
        self.size_bytes = 0
        self._records = 0
        self._long_bytes = 0
        self.header: Header | None = None
        self.writers: dict[Writer, WriterRow] = {}
        self.entries: dict[Dot, Entry] = {}
        self.documents: dict[Dot, bytes] = {}
        self.refused: list[Dot] = []
        self.united: dict[Dot, tuple[bytes, bytes | None]] = {}
        """For each document a hash of the state here, and the state of both; empty: as here; None: there is none."""
        self.arrived: list[Entry] = []
        self.incoming = IncomingEntries()
        self.digest = 0
        self._entries_said = 0
        self._open: tuple[Dot, int, list[bytes]] | None = None

    @classmethod
    def begun(cls, snapshot: bytes, data: bytes) -> Taking:
        """One that goes on from a first part that was kept.

        :raises InvalidEncoding: that is not one.
        """
        content = decode_part(data)
        if not isinstance(content, Header):
            raise InvalidEncoding("a snapshot begins with its header")
        taking = cls(snapshot, content.node)
        taking.add(data)
        return taking

    @property
    def vector(self) -> VersionVector:
        """The cut, as far as it has come."""
        return {writer: row.seq for writer, row in self.writers.items()}

    @property
    def parts_expected(self) -> int:
        """How many parts will come, about."""
        if self.header is None:
            return 1
        left = (self.header.writers - len(self.writers)) / PART_WRITERS_MAX
        left += (self.header.entries - len(self.entries)) / PART_ENTRIES_MAX
        left += (self.header.documents - len(self.documents)) / PART_PIECES_MAX
        return self.parts + round(left + 0.5)

    @property
    def memory_bytes(self) -> int:
        """The memory that it takes, or will take by its header. Long values are put on disk as they come."""
        header = self.header
        said = 0 if header is None else header.writers + header.entries + header.documents
        return self.size_bytes - self._long_bytes + RECORD_BYTES * max(said, self._records)

    def add(self, data: bytes) -> None:
        """Take in the next part.

        :raises InvalidEncoding: it is malformed, or does not fit what came before. The snapshot is of no use.
        """
        data = plain_part(data)
        content = decode_part(data)
        self.arrived = []
        if isinstance(content, Header):
            self._add_header(content)
        elif self.header is None:
            raise InvalidEncoding("a snapshot begins with its header")
        elif not content:
            raise InvalidEncoding("an empty part of a snapshot")
        elif is_of(content, EntryFields):
            self._add_entries(content)
        elif is_of(content, WriterRow):
            for row in content:
                self._add_writer(row)
        elif is_of(content, DocumentPiece):
            for piece in content:
                self._add_piece(piece)
        self.parts += 1
        self.size_bytes += len(data)
        self._records += 0 if isinstance(content, Header) else len(content)
        if self.size_bytes > SNAPSHOT_BYTES_MAX:
            raise InvalidEncoding(f"a snapshot of over {SNAPSHOT_BYTES_MAX:,} bytes")

    def _add_header(self, header: Header) -> None:
        if self.header is not None:
            raise InvalidEncoding("a second header in one snapshot")
        if header.node != self.node:
            raise InvalidEncoding("a snapshot of another node than the one that serves it")
        self.header = header

    def _add_writer(self, row: WriterRow) -> None:
        assert self.header is not None
        if row.writer in self.writers or len(self.writers) >= self.header.writers:
            raise InvalidEncoding("a snapshot has more writers than it said, or one of them twice")
        self.writers[row.writer] = row

    def _add_entries(self, part: list[EntryFields]) -> None:
        assert self.header is not None
        entries, lasting = self.entries, self.incoming.lasting
        cut = self.vector
        digest = 0
        for dot, key, sub, kind, hlc, agent, value, hashed, attrs in part:
            if dot.seq > cut.get(dot.writer, 0):
                raise InvalidEncoding(f"a snapshot has an entry, dot {dot}, that its frontier does not cover")
            entry = Entry(0, dot, key, sub, kind, hlc, agent, value, hashed, attrs)
            entries[dot] = entry
            if value is not None and len(value) > MEMORY_BYTES_MAX:
                self._long_bytes += len(value)
            digest += entry.digest
            if attrs is None and key not in lasting:
                lasting[key] = [entry]
            else:
                self.incoming.add(entry)
            self.arrived.append(entry)
        self.digest += digest
        self._entries_said += len(part)
        if len(entries) != self._entries_said or len(entries) > self.header.entries:
            raise InvalidEncoding("a snapshot has more entries than it said, or one of them twice")

    def _add_piece(self, piece: DocumentPiece) -> None:
        assert self.header is not None
        document, size_bytes, data = piece
        held = self._open or (document, size_bytes, [])
        if held[:2] != (document, size_bytes) or (size_bytes and not data):
            raise InvalidEncoding(f"the document {document} of a snapshot was cut off")
        if document in self.documents or len(self.documents) >= self.header.documents:
            raise InvalidEncoding("a snapshot has more documents than it said, or one of them twice")
        held[2].append(data)
        got_bytes = sum(map(len, held[2]))
        if got_bytes > size_bytes:
            raise InvalidEncoding(f"the document {document} of a snapshot is larger than it said")
        self._open = held
        if got_bytes == size_bytes:
            self.documents[document] = b"".join(held[2])
            self._open = None

    def finish(self) -> Steps[None]:
        """All parts have come: check the whole, in steps. It must not be merged before the last one.

        :raises InvalidEncoding: what came is not what the header said.
        :raises InvalidValue: a document is malformed, or refers to what it does not hold.
        """
        header = self.header
        if header is None or self._open is not None:
            raise InvalidEncoding("a snapshot ended before it was whole")
        said = (header.writers, header.entries, header.documents)
        if (len(self.writers), len(self.entries), len(self.documents)) != said:
            raise InvalidEncoding("a snapshot ended before it was whole")
        if self.digest % DIGEST_MODULUS != header.digest:
            raise InvalidEncoding("a snapshot's entries do not add up to its digest")
        unpaused_bytes = 0
        for document, state in [*self.documents.items()]:
            unpaused_bytes += len(state)
            if unpaused_bytes > STEP_BYTES:
                unpaused_bytes = 0
                yield
            if state and not (yield from check_state(state)):
                self.documents[document] = b""
                self.refused.append(document)


def is_of(content: list[Any], kind: type[T]) -> TypeGuard[list[T]]:
    """Whether these are of a kind; all of one part are of the same."""
    return type(content[0]) is kind


class SnapshotDifference(NamedTuple):
    """The effect of merging a snapshot on the entries of a replica; ``digest``: the sum of the digests of what comes;
    ``whole``: that of all it then holds, if nothing of its own is among that.
    """

    come: list[Entry]
    incoming: IncomingEntries
    digest: int
    gone: list[Entry]
    contradictions: list[Entry]
    whole: int | None


def difference(held: Iterable[Entry], vector: VersionVector, taken: Taking) -> SnapshotDifference:
    """The fate of the entries ``held`` by a replica with ``vector`` when it merges a snapshot.

    One that it holds and the snapshot lacks goes if the snapshot's frontier covers its dot, else it stays; one that
    the snapshot holds and it lacks comes unless its own vector covers the dot. Two different entries with one dot
    contradict each other: a fork.
    """
    theirs, cut = taken.entries, taken.vector
    gone: list[Entry] = []
    contradictions: list[Entry] = []
    keeps = False
    for entry in held:
        dot = entry.dot
        if dot.seq > cut.get(dot.writer, 0):
            keeps = True
            continue
        other = theirs.get(dot)
        if other is None:
            gone.append(entry)
        elif other.value_hash != entry.value_hash or other.key != entry.key:
            contradictions.append(entry)
        else:
            keeps = True
    come: list[Entry] = []
    stay: list[Entry] = []
    for dot, entry in theirs.items():
        (come if dot.seq > vector.get(dot.writer, 0) else stay).append(entry)
    if not stay:
        whole = None if keeps else taken.digest
        return SnapshotDifference(come, taken.incoming, taken.digest, gone, contradictions, whole)
    if len(come) < len(stay):
        digest = sum(entry.digest for entry in come)
    else:
        digest = taken.digest - sum(entry.digest for entry in stay)
    return SnapshotDifference(come, IncomingEntries(come), digest, gone, contradictions, None)
