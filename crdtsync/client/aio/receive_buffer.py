"""Receiving into a buffer of one's own.

Asyncio's loop else makes a bytes object of 256 KiB for each time that something comes, and gives nearly all of it back:
that takes longer than all else about a small message (measured: 18 to 35 µs, against 1 to 2).
"""

from __future__ import annotations

import asyncio
from typing import Any

RECEIVE_BYTES = 64 * 1024
"""At once, and held by each connection."""


class Receiver(asyncio.BufferedProtocol):
    """A protocol that is handed what came by ``data_received``, as any other is."""

    def __init__(self) -> None:
        self._received = self._place = memoryview(bytearray(RECEIVE_BYTES))

    def room(self) -> memoryview:
        """Where what comes is wanted; empty: nowhere in particular."""
        return self._received[:0]

    def get_buffer(self, _size_hint: int) -> memoryview:
        """Where asyncio puts what comes."""
        self._place = self.room() or self._received
        return self._place

    def buffer_updated(self, count_bytes: int) -> None:
        """So much has come."""
        data = self._place[:count_bytes]
        self.data_received(bytes(data) if self._place is self._received else data)

    def data_received(self, data: Any) -> None:
        """Something has come: bytes, or what of the :meth:`room` was filled."""
        raise NotImplementedError


class StreamReceiver(asyncio.StreamReaderProtocol, Receiver):  # in this order: a stream notes where it ends
    """Feeds a :class:`asyncio.StreamReader`."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        Receiver.__init__(self)
        asyncio.StreamReaderProtocol.__init__(self, reader)


async def open_stream(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """As :func:`asyncio.open_unix_connection`."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    transport, protocol = await loop.create_unix_connection(lambda: StreamReceiver(reader), path)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
