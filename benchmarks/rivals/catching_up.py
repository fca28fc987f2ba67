"""What a host takes that was away for 20,000 overwrites of 1,000 keys, or for as many appends; beside the first,
fetching those keys from Redis.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from time import perf_counter

from benchmarks.daemons import Daemons
from benchmarks.rivals.floors import BareLine
from benchmarks.rivals.measures import (
    APPENDS_BYTES,
    APPENDS_RATE,
    CATCH_UP,
    CATCH_UP_BYTES,
    KEYS,
    VALUE_CHARS,
    Figures,
)
from benchmarks.rivals.stores import CALL_TIMEOUT_S, Redis
from crdtsync.client import AsyncClient

IN_FLIGHT = 64
WAIT_S = 60.0
LOGS = 10

Write = Callable[[AsyncClient, int], Awaitable[object]]


def value_of(turn: int, number: int) -> bytes:
    """No two alike, and none that could be compressed."""
    return Random(f"{turn}.{number}").randbytes(VALUE_CHARS)


class Relay:
    """Passes connections on to a port of loopback, and counts what comes back."""

    def __init__(self) -> None:
        self.received_bytes = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, to_port: int) -> None:
        """Listen, on :attr:`port`."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                there, back = await asyncio.open_connection("127.0.0.1", to_port)
            except OSError:
                writer.close()
                return
            for each in (self._pump(reader, back, counts=False), self._pump(there, writer, counts=True)):
                task = asyncio.create_task(each)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        self._server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counts: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                self.received_bytes += len(data) if counts else 0
                writer.write(data)
                await writer.drain()
        writer.close()

    def stop(self) -> None:
        """Take no more, and end what there is."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()


async def crdtsync(overwrites: int) -> Figures:
    """From the daemon's being ready to its holding all; bytes that came to it meanwhile."""

    def overwrite(turn: int) -> Write:
        return lambda client, number: client.set(f"k{number % KEYS}", value_of(turn, number))

    took_s, came_bytes = await _away((KEYS, overwrite(0)), (overwrites, overwrite(1)))
    return {CATCH_UP: took_s * 1000, CATCH_UP_BYTES: came_bytes / 1024}


async def appends(count: int) -> Figures:
    """The same for appends to a few logs: by the second, and bytes for each byte of what was appended."""

    def append(client: AsyncClient, number: int) -> Awaitable[object]:
        return client.append(f"log{number % LOGS}", value_of(0, number))

    took_s, came_bytes = await _away((LOGS, append), (count, append))
    return {APPENDS_RATE: count / took_s, APPENDS_BYTES: came_bytes / (count * VALUE_CHARS)}


async def _away(before: tuple[int, Write], meanwhile: tuple[int, Write]) -> tuple[float, int]:
    """Seconds and bytes that a daemon takes that was away for the second lot of writes."""
    relay = Relay()
    async with Daemons(1) as fleet:
        await relay.start(fleet[0].port)
        late = fleet.add("late", [f"ws://127.0.0.1:{relay.port}"])
        try:
            async with AsyncClient(fleet[0].socket, timeout=CALL_TIMEOUT_S) as near:
                token = await _write(near, *before)
                await late.start()
                await _reach(late.socket, token)
                await late.stop()
                token = await _write(near, *meanwhile)
                before_bytes = relay.received_bytes
                await late.start()
                start_s = perf_counter()
                await _reach(late.socket, token)
                return perf_counter() - start_s, relay.received_bytes - before_bytes
        finally:
            relay.stop()


async def _write(client: AsyncClient, count: int, write: Write) -> str:
    numbers = iter(range(count))

    async def write_on() -> None:
        for number in numbers:
            await write(client, number)

    await asyncio.gather(*(write_on() for _ in range(IN_FLIGHT)))
    return client.last_token or ""


async def _reach(socket: Path, token: str) -> None:
    async with AsyncClient(socket, timeout=WAIT_S) as client:
        await client.wait(token, timeout=WAIT_S)


async def redis(directory: Path) -> Figures:
    """One ``MGET`` of the keys."""
    server = Redis("always")
    await server.start(directory)
    try:
        await server.connect()
        await server.client.mset({f"k{number}": value_of(0, number) for number in range(KEYS)})
        names = [f"k{number}" for number in range(KEYS)]
        start_s = perf_counter()
        values = await server.client.mget(names)
        took_s = perf_counter() - start_s
        return {CATCH_UP: took_s * 1000, CATCH_UP_BYTES: KEYS * (len(values[0]) + len("$100\r\n\r\n")) / 1024}
    finally:
        await server.stop()


async def floor(directory: Path) -> Figures:
    """The state from one bare server to another that dials for it, and stores it in the daemon's tables."""
    relay = Relay()
    async with BareLine().line(directory) as pair:
        await pair.fill(KEYS, "x" * VALUE_CHARS)
        await pair.heard()
        await relay.start(await pair.state_port())
        try:
            start_s = perf_counter()
            await pair.fetch(relay.port)
            await pair.heard()
            return {CATCH_UP: (perf_counter() - start_s) * 1000}
        finally:
            relay.stop()
