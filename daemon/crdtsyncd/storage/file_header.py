"""The header of a database file, read without SQLite: opening it would already change it.

SQLite keeps an application's number for its format in the file's first page (https://www.sqlite.org/fileformat.html,
§1.3), whose newest version may stand in the write-ahead log (§4.1). That ends at the first frame whose checksum is
wrong (§4.2): a kill leaves the head of a frame and behind it what stood there before.
"""

from __future__ import annotations

import os
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import IO

from crdtsync.named_tuple import NamedTuple

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_WAL_HEADER = struct.Struct(">8I")
_WAL_FRAME = struct.Struct(">6I")
_WAL_MAGICS = (0x377F0682, 0x377F0683)


class FileHeader(NamedTuple):
    """``format`` is SQLite's ``user_version``; both are 0 in a database that has just been made."""

    format: int
    application_id: int


def open_file(path: Path) -> IO[bytes]:
    """Open a file to read. A fifo would be waited for, so it is refused, as a device is.

    :raises OSError: it cannot be opened.
    :raises ValueError: it is no file.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError("it is no file")
    return file


def read_header(path: Path) -> FileHeader | None:
    """The header of the database ``path`` as it will be once its write-ahead log is folded in; None: there is none yet.

    :raises OSError: it cannot be read.
    :raises ValueError: it is not an SQLite database.
    """
    try:
        with open_file(path) as file:
            page = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return None
    if not page:
        return None
    if len(page) < _HEADER_BYTES or not page.startswith(_MAGIC):
        raise ValueError("file is not a database")
    log = path.with_name(f"{path.name}-wal")
    if any(_said(start) != _said(page) for start in _first_pages(log)):  # else it need not be known which one counts
        page = _newest_first_page(log) or page
    return _said(page)


def _said(page: bytes) -> FileHeader:
    return FileHeader(int.from_bytes(page[60:64], "big"), int.from_bytes(page[68:72], "big"))


def _first_pages(wal: Path) -> list[bytes]:
    """The start of page 1 wherever it stands in the log, committed and whole or not; fast, for there are no sums."""
    found: list[bytes] = []
    with suppress(FileNotFoundError), open_file(wal) as file:
        header = file.read(_WAL_HEADER.size)
        if len(header) < _WAL_HEADER.size:
            return found
        page_bytes = _WAL_HEADER.unpack(header)[2]
        while len(head := file.read(_WAL_FRAME.size)) == _WAL_FRAME.size:
            start = file.read(min(_HEADER_BYTES, page_bytes))
            if int.from_bytes(head[:4], "big") == 1:
                found.append(start)
            file.seek(page_bytes - len(start), 1)
    return found


def _newest_first_page(wal: Path) -> bytes | None:
    """The start of page 1 as last committed in the write-ahead log, if it is there."""
    try:
        file = open_file(wal)
    except FileNotFoundError:
        return None
    with file:
        header = file.read(_WAL_HEADER.size)
        if len(header) < _WAL_HEADER.size:
            return None
        magic, _, page_bytes, _, *salts, first, second = _WAL_HEADER.unpack(header)
        if magic not in _WAL_MAGICS:
            return None
        order = ">" if magic & 1 else "<"
        sums = _checksum(order, header[:24], (0, 0))
        if sums != (first, second):
            return None
        newest = committed = None
        while len(head := file.read(_WAL_FRAME.size)) == _WAL_FRAME.size:
            number, size_after_commit, *frame_salts, first, second = _WAL_FRAME.unpack(head)
            if frame_salts != salts:
                break  # left over from before the log was last begun anew
            page = file.read(page_bytes)
            sums = _checksum(order, head[:8] + page, sums)
            if len(page) < page_bytes or sums != (first, second):
                break
            if number == 1:
                newest = page[:_HEADER_BYTES]
            if size_after_commit:
                committed = newest
        return committed


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    """Fibonacci weights in reverse order over pairs of 32-bit numbers (§4.2)."""
    words = struct.unpack(f"{order}{len(data) // 8 * 2}I", data[: len(data) // 8 * 8])
    first, second = sums
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
