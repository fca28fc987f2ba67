"""What makes a file of a blob that is being read: among threads an ``io`` object, under asyncio what is like one."""

from __future__ import annotations

from io import DEFAULT_BUFFER_SIZE, BufferedIOBase
from typing import TYPE_CHECKING, Self

from crdtsync.wire.blobs import PART_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


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
