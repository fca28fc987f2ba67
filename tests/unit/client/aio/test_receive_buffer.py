"""What comes in over a socket, in buffers that the client brings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from crdtsync.client.aio.receive_buffer import RECEIVE_BYTES, Receiver, open_stream

SENT = bytes(range(256)) * (3 * RECEIVE_BYTES // 256)


class _Noting(Receiver):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set_result(None)


async def _serve(path: Path) -> asyncio.Server:
    async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SENT)
        writer.close()

    return await asyncio.start_unix_server(send, path)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_stream_hands_on_all_that_comes_and_then_its_end(tmp_path: Path, run: Callable[..., Any]) -> None:
    async def read() -> bytes:
        async with await _serve(tmp_path / "s"):
            reader, writer = await open_stream(str(tmp_path / "s"))
            received = await reader.read()
            writer.close()
            return received

    assert run(read()) == SENT


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_what_came_before_is_not_overwritten_by_what_comes(tmp_path: Path, run: Callable[..., Any]) -> None:
    async def receive() -> list[bytes]:
        async with await _serve(tmp_path / "s"):
            loop = asyncio.get_running_loop()
            _, noting = await loop.create_unix_connection(_Noting, str(tmp_path / "s"))
            await noting.ended
            return noting.pieces

    pieces = run(receive())
    assert b"".join(pieces) == SENT
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= RECEIVE_BYTES
