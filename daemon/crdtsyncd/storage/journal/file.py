"""The journal's file: what an acknowledgement waits for is one write into it, and one flush.

Its size never changes and its blocks are written before it is used, so that a record changes nothing else on the disk
and needs no room there. Behind a header, records stand one after another, numbered without a gap. Once the tables have
all of them *on disk* the next one may take the place of the first; those of before stay until they are written over,
and are told by their numbers.

Each opening of a database begins a *generation*: a new secret, in the header and in the database. It is in each
record's mark and keys its checksum, so that no record of another database or another time is taken for one of this,
nor what an agent writes for a record. A file that does not go with the database is refused, and left as it is:

===================================  =================================================================================
the database says                    the file that goes with it
===================================  =================================================================================
nothing: it is new, or was restored  none, an empty one, or one that was just begun for a database that said nothing
generation G, closed                 of G; or just begun after G; or none, for nothing in it is needed
generation G, N records settled      of G, as long as it was made, with record N or a newer one; an empty one: somebody
                                     has given up its records
===================================  =================================================================================
"""

from __future__ import annotations

import errno
import os
import struct
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from crdtsyncd.config.exit_status import UnfitData

from crdtsync.named_tuple import NamedTuple

FILE_BYTES = 2 * 1024 * 1024
"""Bytes of the journal's file, always: thousands of writes until one has to wait for the tables to be flushed. If a
file that may be needed is shorter, something of it is gone; so a version that makes larger ones has to know these, too.
"""
RECORD_SHARE = 8
"""A record takes at most this part of the file."""
GENERATION_BYTES = 16
RECORDS_AT = 4096

_MAGIC = b"crdtjnl1"
_HEADER = struct.Struct(f">8s{GENERATION_BYTES}s{GENERATION_BYTES}s")
_DIGEST_BYTES = 16
_MARK_BYTES = 8
_NUMBERS = struct.Struct(">QI")
_RECORD_BYTES = _MARK_BYTES + _NUMBERS.size + _DIGEST_BYTES
_NONE = bytes(GENERATION_BYTES)
_ZEROS_BYTES = 256 * 1024
_BLOCK_BYTES = 512  # what stat(2) counts in
_STATE = struct.Struct(f">{GENERATION_BYTES}sQ?Q")


class JournalState(NamedTuple):
    """The database's record of the file. ``settled``: the number of the last record that the tables have.

    ``tick`` makes two that follow each other differ: SQLite need not write, and flush, what changes nothing.
    """

    generation: bytes
    settled: int
    is_closed: bool
    tick: int = 0

    def packed(self) -> bytes:
        """As the database keeps it."""
        return _STATE.pack(*self)


def unpacked_state(data: bytes) -> JournalState:
    """What :meth:`JournalState.packed` has made.

    :raises ValueError: it has not.
    """
    if len(data) != _STATE.size:
        raise ValueError("what it says of its journal cannot be read")
    return JournalState(*_STATE.unpack(data))


class _Header(NamedTuple):
    """``before``: the generation that the database had been closed with."""

    generation: bytes
    before: bytes


class _Record(NamedTuple):
    start: int
    end: int


class _Records(NamedTuple):
    """By their numbers; ``broken``: what was to be a record, and is not whole."""

    whole: dict[int, _Record]
    broken: set[int]


class JournalFile:
    """The file of one database; it is made by :meth:`begin`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = 0
        """The number of the newest record."""
        self.is_torn = False
        """Whether behind the newest record that :meth:`rows` found the next one stands, and is not whole."""
        self.flushes = 0
        self._file = -1
        self._place = self._end = RECORDS_AT
        self._may_start_over = False
        self._mark = b""
        self._keyed = blake2b(digest_size=_DIGEST_BYTES)

    # -- writing -------------------------------------------------------------------------------------------------------

    def begin(self, generation: bytes, before: bytes) -> None:
        """Begin a generation. The tables have all of the one ``before`` on disk; the database is told after this.

        :raises OSError: there is no room, or the disk failed.
        """
        self.close()
        is_whole = self._is_whole()
        if not is_whole:
            self.path.unlink(missing_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not is_whole:
                for place in range(0, FILE_BYTES, _ZEROS_BYTES):
                    _write(file, bytes(min(_ZEROS_BYTES, FILE_BYTES - place)), place)
            header = _HEADER.pack(_MAGIC, generation, before or _NONE)
            _write(file, header + _digest(header), 0)
            os.fsync(file)
            _sync_directory(self.path.parent)
        except BaseException:
            with suppress(OSError):  # so that it is written anew as a whole: what a failed flush has dropped is unknown
                os.ftruncate(file, 0)
            os.close(file)
            raise
        self._file = file
        self._mark, self._keyed = generation[:_MARK_BYTES], _keyed_by(generation)
        self._place, self.last, self._may_start_over = RECORDS_AT, 0, False

    def remove(self) -> None:
        """Remove it; the database has been told that it is not needed.

        :raises OSError: it cannot be.
        """
        self.close()
        self.path.unlink(missing_ok=True)

    def _is_whole(self) -> bool:
        """Whether all its blocks are there: it is not new, nor cut off, nor a copy with holes."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return False
        return found.st_size >= FILE_BYTES and found.st_blocks * _BLOCK_BYTES >= FILE_BYTES

    def takes(self, row: bytes) -> bool:
        """Whether it is not too large for a record."""
        return _RECORD_BYTES + len(row) <= FILE_BYTES // RECORD_SHARE

    def has_room(self, row: bytes) -> bool:
        """Whether a record can be added before :meth:`tables_are_on_disk` has to be said."""
        return self._may_start_over or self._place + _RECORD_BYTES + len(row) <= FILE_BYTES

    def write(self, row: bytes) -> None:
        """Write a record, which is there once it is flushed. If this fails, the record is not in the file.

        :raises OSError: there is no room (where writing over what is there takes room), or the disk failed.
        """
        if self._may_start_over and self._place > FILE_BYTES // 2:  # so the newest stays until there are newer ones
            self._place = RECORDS_AT
        numbers = _NUMBERS.pack(self.last + 1, len(row))
        digest = self._keyed.copy()
        digest.update(numbers)
        digest.update(row)
        data = b"".join((self._mark, numbers, digest.digest(), row))
        _write(self._file, data, self._place)
        self._end = self._place + len(data)

    def flush(self) -> None:
        """Have what was written on disk.

        :raises OSError: it may be there or not, and must not be flushed again.
        """
        try:
            os.fdatasync(self._file)
        except OSError as error:
            raise OSError(errno.EIO, error.strerror) from None  # also for lack of room: nobody knows what is there
        self.flushes += 1
        self.last += 1
        self._place = self._end
        self._may_start_over = False

    def tables_are_on_disk(self) -> None:
        """The tables have every record, and are flushed: the file may be used from its start again."""
        self._may_start_over = True

    def is_in_place(self) -> bool:
        """Whether it is the one that is written to that the next start will find."""
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self.path))
        except OSError:
            return False

    def close(self) -> None:
        """Let go of it. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def size_bytes(self) -> int:
        """Its bytes on disk."""
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0

    # -- reading -------------------------------------------------------------------------------------------------------

    def rows(self, state: JournalState | None) -> tuple[int, list[bytes]]:
        """The rows that the tables lack, in order, and the number of the newest record.

        Where records are broken that newer ones follow, what stands in their place is among them.

        :raises UnfitData: the file does not go with the database.
        :raises OSError: it cannot be read.
        """
        content = self._content()
        header = _header(content or b"")
        if state is None:
            if not _is_blank(content) and (header is None or not _is_just_begun(content, header, _NONE)):
                more = "; if a new database is wanted, move this file away too"
                raise self._unfit("belongs to another database, or to another time of this one", more)
            return 0, []
        if not content and state.is_closed:
            return state.settled, []
        if content is None:
            raise self._unfit("is missing")
        if not content:
            return state.settled, []
        if not state.is_closed and len(content) < FILE_BYTES:
            raise self._unfit("is cut off")
        found, broken = _records(content, state.generation, state.settled)
        newest = max(found, default=0)
        self.is_torn = not state.is_closed and max(newest, state.settled) + 1 in broken
        if header is not None and header.generation != state.generation:
            if state.is_closed and _is_just_begun(content, header, state.generation):
                return state.settled, []
            raise self._unfit("belongs to another database, or to another time of this one")
        if not state.is_closed and (newest < state.settled or (header is None and not found)):
            raise self._unfit("is older than the database, or damaged")
        return max(newest, state.settled), _missing(content, found, state.settled)

    def is_given_up(self, state: JournalState | None) -> bool:
        """Whether somebody has put an empty file in its place, to go on without what it held."""
        return state is not None and not state.is_closed and self.size_bytes() == 0

    def _content(self) -> bytes | None:
        """All of it; None: it is not there."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def _unfit(self, how: str, more: str = "") -> UnfitData:
        return UnfitData(
            f"the file {self.path} {how}, and the newest commits may stand nowhere else: put the one there that was "
            f"beside this database, or restore a backup with crdtsync restore; to go on without those commits, put an "
            f"empty file in its place and keep the other{more}"
        )


def _missing(content: bytes, found: dict[int, _Record], settled: int) -> list[bytes]:
    rows = []
    place = found[settled].end if settled in found else RECORDS_AT
    expected = settled + 1
    for number in sorted(number for number in found if number > settled):
        start, end = found[number]
        if number != expected:
            rows.append(_between(content, place, start)[: FILE_BYTES // RECORD_SHARE])
        rows.append(content[start + _RECORD_BYTES : end])
        place, expected = end, number + 1
    return rows


def _between(content: bytes, place: int, start: int) -> bytes:
    """The bytes between a record that ends at ``place`` and one at ``start``, which may have begun from the file's
    start again.
    """
    if place < start:
        return content[place:start]
    return content[RECORDS_AT:start] if start > RECORDS_AT else content[place:]


def _records(content: bytes, generation: bytes, first: int = 0) -> _Records:
    """The records of a generation, from number ``first`` on."""
    whole: dict[int, _Record] = {}
    broken: set[int] = set()
    mark, keyed = generation[:_MARK_BYTES], _keyed_by(generation)
    view = memoryview(content)
    start = content.find(mark, RECORDS_AT)
    while 0 <= start <= len(content) - _RECORD_BYTES:
        numbers = view[start + _MARK_BYTES : start + _MARK_BYTES + _NUMBERS.size]
        number, size_bytes = _NUMBERS.unpack(numbers)
        body, end = start + _RECORD_BYTES, start + _RECORD_BYTES + size_bytes
        next_from = start + _RECORD_BYTES
        if number >= first and end <= len(content):
            digest = keyed.copy()
            digest.update(numbers)
            digest.update(view[body:end])
            if digest.digest() == view[body - _DIGEST_BYTES : body]:
                whole[number] = _Record(start, end)
                next_from = end
        if number not in whole:
            broken.add(number)
        start = content.find(mark, next_from)
    return _Records(whole, broken)


def _header(content: bytes) -> _Header | None:
    """The file's header; None: it cannot be read."""
    data = content[: _HEADER.size]
    if len(data) < _HEADER.size or content[_HEADER.size : _HEADER.size + _DIGEST_BYTES] != _digest(data):
        return None
    magic, generation, before = _HEADER.unpack(data)
    return _Header(generation, before) if magic == _MAGIC else None


def _is_blank(content: bytes | None) -> bool:
    """Whether there is nothing in it: it was never begun."""
    return not any((content or b"")[: _HEADER.size + _DIGEST_BYTES])


def _is_just_begun(content: bytes | None, header: _Header, before: bytes) -> bool:
    """Whether the process ended before it could tell the database of this generation."""
    return header.before == before and not _records(content or b"", header.generation).whole


def _keyed_by(generation: bytes) -> blake2b:
    return blake2b(digest_size=_DIGEST_BYTES, key=generation)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _write(file: int, data: bytes, place: int) -> None:
    done = os.pwrite(file, data, place)
    while done < len(data):
        done += os.pwrite(file, data[done:], place + done)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
