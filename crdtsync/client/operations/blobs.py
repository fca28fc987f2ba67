"""Blobs as requests: where their bytes come from, and what of them is sent together; and what makes a file of a blob
that is being read: among threads an ``io`` object, under asyncio what is like one.

A put goes through its source by portions of up to 1 MiB, so that no more is in memory. A source that can be gone
through twice is hashed first: then parts that an earlier put has left behind, which was cut off, are not sent again.
"""

from __future__ import annotations

import io
import os
from hashlib import sha256
from io import DEFAULT_BUFFER_SIZE, BufferedIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from crdtsync.client.session.request_context import Write, add_options
from crdtsync.client.values.write_result import Written
from crdtsync.errors import InvalidRequest, KindMismatch
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.blobs import PART_BYTES, PARTS_AT_ONCE, Manifest, checked, upload_name
from crdtsync.wire.change import value_hash
from crdtsync.wire.codec import pack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crdtsync.client.protocol.steps import Exchange
    from crdtsync.client.session.request_context import Arguments, Context, Seen
    from crdtsync.client.values.durations import Seconds
    from crdtsync.client.values.results import Entry


PORTION_BYTES = PARTS_AT_ONCE * PART_BYTES
"""Bytes that one request stores."""
Source = bytes | bytearray | memoryview | str | os.PathLike[str] | IO[bytes]
"""Where the bytes of a blob come from: bytes, the path of a file, or a file object that gives bytes."""


class BlobPart(NamedTuple):
    """One part: its number and its bytes."""

    number: int
    data: bytes

    def is_one_of(self, hashes: list[bytes]) -> bool:
        """Whether it is stored already; ``hashes`` are those of the first parts."""
        return self.number < len(hashes) and hashes[self.number] == value_hash(pack(self.data))


def parts_at(place: int, data: bytes) -> list[BlobPart]:
    """The parts in ``data``, which begins at a ``place`` where one does."""
    starts = range(0, len(data), PART_BYTES)
    return [BlobPart((place + start) // PART_BYTES, data[start : start + PART_BYTES]) for start in starts]


class BlobReading:
    """A source that is being read. ``total`` is its length in bytes, None if that is not known before the end."""

    def __init__(self, source: Source) -> None:
        self.total: int | None = None
        self.done = 0
        self._hash = sha256()
        self._count = 0
        self._is_own = isinstance(source, str | os.PathLike)
        if isinstance(source, bytes | bytearray | memoryview):
            self._file: IO[bytes] = io.BytesIO(source)
        elif isinstance(source, str | os.PathLike):
            self._file = Path(source).open("rb")  # noqa: SIM115  # closed in __exit__
        elif callable(getattr(source, "read", None)):
            self._file = source
        else:
            raise InvalidRequest(
                f"a blob is put from bytes, the path of a file or a file object, not from {type(source).__name__}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_own:
            self._file.close()

    def hash_ahead(self) -> str | None:
        """The SHA-256 of what is going to be read, in hex; None: it can be read once only."""
        file = self._file
        if not getattr(file, "seekable", lambda: False)():
            return None
        start, found, size = file.tell(), sha256(), 0
        while data := _bytes(file.read(PART_BYTES)):
            found.update(data)
            size += len(data)
        file.seek(start)
        self.total = size
        return found.hexdigest()

    def portion(self) -> list[BlobPart]:
        """The next parts; none at the end."""
        parts: list[BlobPart] = []
        while len(parts) < PARTS_AT_ONCE and (data := self._next()):
            self._hash.update(data)
            self.done += len(data)
            parts.append(BlobPart(self._count, data))
            self._count += 1
        return parts

    def _next(self) -> bytes:
        """The bytes of the next part: of a pipe several reads may be needed for them."""
        found = bytearray()
        while len(found) < PART_BYTES and (data := _bytes(self._file.read(PART_BYTES - len(found)))):
            found += data
        return bytes(found)

    def manifest(self, upload: str, media_type: str | None, expected: str | None) -> Manifest:
        """The manifest of what was read.

        :raises InvalidRequest: it is not what was hashed before.
        """
        found = self._hash.hexdigest()
        if expected not in (None, found):
            raise InvalidRequest("the source of the blob has changed while it was read: put it again")
        return checked(self.done, found, media_type, upload)


def _bytes(data: object) -> bytes:
    if not isinstance(data, bytes | bytearray):
        raise InvalidRequest("the source of a blob must give bytes: open the file in binary mode")
    return bytes(data)


def unfinished(context: Context, key: str, digest: str, timeout_s: float) -> Exchange[tuple[str, list[bytes]]]:
    """An upload of these bytes that was cut off, or a new one: its name, and the hashes of the parts that are there."""

    def learn(reply: Any) -> tuple[str, list[bytes]]:
        return reply["upload"] or new_upload(digest), reply["parts"]

    return context.read_call("blob_parts", {"key": key, "sha256": digest}, None, timeout_s, learn)


def new_upload(digest: str | None) -> str:
    """A name for an upload."""
    return upload_name(digest, os.urandom(4))


def write_parts(context: Context, key: str, upload: str, parts: list[BlobPart]) -> Write[None]:
    """Store some parts, as one change."""
    ops = [("blob_write", {"key": key, "upload": upload, "part": part.number, "value": part.data}) for part in parts]
    return Write(context, "batch", {"ops": ops}, lambda _reply, _token, _: None)


def set_blob(
    context: Context,
    key: str,
    manifest: Manifest,
    *,
    ttl: Seconds | None,
    if_version: str | None,
    if_absent: bool,
    seen: Seen,
    confidence: float | None,
    meta: dict[str, Any] | None,
) -> Write[Written]:
    """Show a blob whose parts are stored."""
    arguments: Arguments = {"key": key, **manifest._asdict()}
    add_options(arguments, ttl, confidence, meta)
    informed, waits = context.add_context(arguments, key, if_version, if_absent, seen)

    def learn(reply: Any, token: str, _: bool) -> Written:
        context.memory.wrote(key, reply["version"], as_read=informed)
        return Written(token, key, reply)

    return Write(context, "blob_set", arguments, learn, waits=waits)


def read_part(context: Context, key: str, upload: str, number: int) -> Exchange[bytes]:
    """One part."""
    arguments: Arguments = {"key": key, "upload": upload, "part": number}
    return context.call("blob_read", arguments, lambda reply: bytes(reply["value"]))


def manifest_in(entry: Entry) -> Manifest:
    """The blob's manifest in an entry.

    :raises KindMismatch: it is none.
    """
    if entry.kind != "blob":
        raise KindMismatch(f"{entry.key!r} is a {entry.kind}, not a blob: read it with get", key=entry.key)
    value = entry.value or {}
    return checked(*(value.get(name) for name in Manifest._fields))


class BlobFile(BufferedIOBase):
    """For the blocking client. ``read``, ``seek`` and ``tell`` are the blob's; the rest of a file stands on them."""

    key: str

    @property
    def name(self) -> str:
        """The key, which stands for a path."""
        return self.key

    def read1(self, size: int = -1) -> bytes:
        """The next bytes, at most ``size`` of them and at most 512 KiB."""
        return self.read(PART_BYTES if size < 0 else min(size, PART_BYTES))

    def peek(self, _size: int = 0) -> bytes:
        """Some of the next bytes, which stay the next ones; none at the end only."""
        here = self.tell()
        left_of_part = PART_BYTES - here % PART_BYTES  # the part after it would take this one's place
        data = self.read(min(DEFAULT_BUFFER_SIZE, left_of_part))
        self.seek(here)
        return data


class AsyncBlobFile:
    """For the asyncio client."""

    closed = False

    async def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        raise NotImplementedError

    def close(self) -> None:
        """Read no more."""
        self.closed = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The rest in pieces of 512 KiB, whose last one is shorter: not in lines."""
        while data := await self.read(PART_BYTES):
            yield data

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
