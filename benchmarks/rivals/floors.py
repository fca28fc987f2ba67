"""What no system of this kind can be faster than: an echo, an fsync, a Yjs map."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, cast

import msgpack
import uvloop
from pycrdt import Doc, Map

from benchmarks.rivals.processes import cpu_ns

FRAME = {"key": "k1", "value": "x" * 100, "n": 1}


class _Echo(asyncio.Protocol):
    """Decodes each frame and sends it back."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.frames = msgpack.Unpacker()
        self.pack = msgpack.Packer().pack
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own says so by registering, and not always

    def data_received(self, data: bytes) -> None:
        self.frames.feed(data)
        self.transport.write(b"".join([self.pack(frame) for frame in self.frames]))


def _serve(path: str) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_unix_server(_Echo, path)
        await server.serve_forever()

    uvloop.run(main())


class Echoes(NamedTuple):
    """Seconds of each round trip; CPU seconds of the server for one of those in flight together."""

    times: list[float]
    server_s: float


def echo(directory: Path, count: int, in_flight: int) -> Echoes:
    """Round trips of msgpack through a unix socket to a bare uvloop server in another process."""
    path = str(directory / "echo")
    process = get_context("spawn").Process(target=_serve, args=(path,), daemon=True)
    process.start()
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            for _ in range(1000):
                try:
                    sock.connect(path)
                    break
                except OSError:
                    process.join(0.01)
            packed = msgpack.packb([1, "set", FRAME])
            times = _timed(lambda: _exchange(sock, packed), count)
            before_ns, rounds = cpu_ns(process.pid), max(1, count // in_flight)
            for _ in range(rounds):
                _exchange(sock, packed * in_flight)
            return Echoes(times, (cpu_ns(process.pid) - before_ns) / 1e9 / (rounds * in_flight))
    finally:
        process.kill()
        process.join()


def _exchange(sock: socket.socket, packed: bytes) -> None:
    """Send, and read back as many bytes: what comes back is the same."""
    sock.sendall(packed)
    frames = msgpack.Unpacker()
    left = len(packed)
    while left:
        data = sock.recv(left)
        if not data:
            raise OSError("the echo has ended")
        left -= len(data)
        frames.feed(data)
    for _ in frames:
        pass


def fsync(directory: Path, count: int) -> list[float]:
    """Append of 150 bytes to a file, and ``fdatasync``; seconds each."""
    file = os.open(directory / "fsync", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return _timed(lambda: _append(file), count)
    finally:
        os.close(file)


def _append(file: int) -> None:
    os.write(file, b"x" * 150)
    if sys.platform == "linux":
        os.fdatasync(file)
    else:
        os.fsync(file)


def yjs_map(count: int) -> list[float]:
    """One key of a ``Y.Map`` of 1,000 set, in memory; seconds each."""
    doc: Doc[Map[str]] = Doc()
    values = doc.get("m", type=Map)
    for number in range(1000):
        values[f"k{number}"] = "x" * 100
    numbers = iter(range(count))

    def put() -> None:
        values[f"k{next(numbers) % 1000}"] = "y" * 100

    return _timed(put, count)


def _timed(step: Callable[[], object], count: int) -> list[float]:
    found = []
    for _ in range(count):
        start_s = perf_counter()
        step()
        found.append(perf_counter() - start_s)
    return found
