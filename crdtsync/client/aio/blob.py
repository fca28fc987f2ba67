"""A blob that is being read, for the asyncio client."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

from crdtsync.client.operations import blobs
from crdtsync.client.operations.blobs import AsyncBlobFile
from crdtsync.errors import DamagedValue, InvalidRequest
from crdtsync.wire.blobs import PART_BYTES

if TYPE_CHECKING:
    from crdtsync.client.aio.methods.blobs import AsyncBlobMethods
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.protocol.steps import Exchange
    from crdtsync.client.values.results import Entry


class AsyncBlob(AsyncBlobFile):
    """The bytes of a blob, read as a file opened in binary mode is: in order, or from where :meth:`seek` goes.

    The content stays that of the blob when it was opened. If the blob is removed or replaced meanwhile, reading goes on
    while the daemon still holds its bytes, and is then refused with :class:`~crdtsync.errors.TooOld`. At most three
    parts of 512 KiB are in memory: if a caller reads in order, the next parts are fetched ahead. If it reads all of it
    in order, the content is compared with ``sha256`` at the end.

    Under asyncio, iteration gives pieces of 512 KiB, whose last one is shorter: not lines.
    """

    def __init__(self, session: AsyncBlobMethods, operations: Operations, entry: Entry) -> None:
        manifest = blobs.manifest_in(entry)
        self.entry = entry
        """The entry: author, time, version, siblings."""
        self.key = entry.key
        self.size = manifest.size
        """In bytes."""
        self.sha256 = manifest.sha256
        """In hex."""
        self.media_type = manifest.media_type
        self._session = session
        self._operations = operations
        self._upload = manifest.upload
        self._position = 0
        self._part: tuple[int, bytes] | None = None
        self._ahead: tuple[int, Exchange[bytes]] | None = None  # the part that was asked for, and is not needed yet
        self._hash = sha256()
        self._hashed = 0

    async def read(self, size: int | None = -1) -> bytes:
        """The next ``size`` bytes, fewer at the end; all that are left if it is negative or None.

        :raises DamagedValue: all was read in order, and it is not what was put.
        """
        if self.closed:
            raise ValueError("the blob is closed")
        end = self.size if size is None or size < 0 else min(self.size, self._position + size)
        found: list[bytes] = []
        while self._position < end:
            number, offset = divmod(self._position, PART_BYTES)
            data = (await self._read_part(number))[offset : offset + end - self._position]
            if self._position <= self._hashed:  # it is less after a look ahead
                fresh = data[self._hashed - self._position :]
                self._hash.update(fresh)
                self._hashed += len(fresh)
            self._position += len(data)
            found.append(data)
        if self._hashed == self.size and self._hash.hexdigest() != self.sha256:
            raise DamagedValue(f"the blob {self.key!r} is not what was put there: its hash differs", key=self.key)
        return b"".join(found)  # of one part without a copy

    async def _read_part(self, number: int) -> bytes:
        if self._part is None or self._part[0] != number:
            self._part = number, await self._fetch(number)
        data = self._part[1]
        if len(data) != min(PART_BYTES, self.size - number * PART_BYTES):
            raise DamagedValue(f"part {number} of the blob {self.key!r} is not as long as it was", key=self.key)
        return data

    async def _fetch(self, number: int) -> bytes:
        """A part; the one after it is asked for before, if this is not the first that is read here."""
        session = self._session
        ahead, self._ahead = self._ahead, None
        call = ahead[1] if ahead is not None and ahead[0] == number else None
        if call is None:
            call = blobs.read_part(self._operations, self.key, self._upload, number)
            is_begun = session.begin(call, session.timeout_s)
        else:
            is_begun = True
        if self._part is not None and self._part[0] == number - 1 and (number + 1) * PART_BYTES < self.size:
            later = blobs.read_part(self._operations, self.key, self._upload, number + 1)
            if session.begin(later, session.timeout_s):
                self._ahead = number + 1, later
        return await (session.finish if is_begun else session.run)(call, session.timeout_s)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, as of a file; where that is."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}.get(whence)
        if base is None or base + offset < 0:
            raise InvalidRequest("seek takes a place from the beginning (0), from here (1) or from the end (2)")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Where the next read begins."""
        return self._position

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def writable(self) -> bool:
        """It is not: :meth:`~crdtsync.client.AsyncClient.put_blob` writes another one."""
        return False

    def close(self) -> None:
        """Let go of what is in memory; no more can be read."""
        self._part, self._ahead = None, None
        super().close()
