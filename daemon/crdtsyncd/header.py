"""What a database file says of itself, read without SQLite: opening it would already change it.

SQLite keeps an application's number for its format in the file's first page (https://www.sqlite.org/fileformat.html,
§1.3), whose newest version may stand in the write-ahead log (§4.1).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_WAL_HEADER = struct.Struct(">8I")
_WAL_FRAME = struct.Struct(">6I")
_WAL_MAGICS = (0x377F0682, 0x377F0683)


class Header(NamedTuple):
    """``format`` is SQLite's ``user_version``; both are 0 in a database that has just been made."""

    format: int
    application_id: int


def read_header(path: Path) -> Header | None:
    """The header of the database ``path`` as it will be once its write-ahead log is folded in; None: there is none yet.

    :raises OSError: it cannot be read.
    :raises ValueError: it is not an SQLite database.
    """
    try:
        with path.open("rb") as file:
            page = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return None
    if not page:
        return None
    if len(page) < _HEADER_BYTES or not page.startswith(_MAGIC):
        raise ValueError("file is not a database")
    page = _newest_first_page(path.with_name(f"{path.name}-wal")) or page
    return Header(int.from_bytes(page[60:64], "big"), int.from_bytes(page[68:72], "big"))


def _newest_first_page(wal: Path) -> bytes | None:
    """The start of page 1 as last committed in the write-ahead log, if it is there."""
    try:
        file = wal.open("rb")
    except FileNotFoundError:
        return None
    with file:
        header = file.read(_WAL_HEADER.size)
        if len(header) < _WAL_HEADER.size:
            return None
        magic, _, page_bytes, _, *salts, _, _ = _WAL_HEADER.unpack(header)
        if magic not in _WAL_MAGICS:
            return None
        newest = committed = None
        while len(head := file.read(_WAL_FRAME.size)) == _WAL_FRAME.size:
            number, size_after_commit, *frame_salts, _, _ = _WAL_FRAME.unpack(head)
            if frame_salts != salts:
                break  # left over from before the log was last begun anew
            start = file.read(_HEADER_BYTES)
            if number == 1 and len(start) == _HEADER_BYTES:
                newest = start
            if size_after_commit:
                committed = newest
            file.seek(page_bytes - len(start), 1)
        return committed
