"""What a host takes that was away for 20,000 overwrites of 1,000 keys; beside it, fetching those keys from Redis."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from benchmarks.fleet import Fleet
from benchmarks.rivals.measures import CATCH_UP, CATCH_UP_BYTES, KEYS, VALUE, Figures
from benchmarks.rivals.stores import CALL_TIMEOUT_S, Redis
from crdtsync.client import AsyncClient

IN_FLIGHT = 64
WAIT_S = 60.0


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
    relay = Relay()
    async with Fleet(1) as fleet:
        await relay.start(fleet[0].port)
        late = fleet.add("late", [f"ws://127.0.0.1:{relay.port}"])
        try:
            async with AsyncClient(fleet[0].socket, timeout=CALL_TIMEOUT_S) as near:
                token = await _write(near, KEYS, 0)
                await late.start()
                await _reach(late.socket, token)
                await late.stop()
                token = await _write(near, overwrites, 1)
                before_bytes = relay.received_bytes
                await late.start()
                start_s = perf_counter()
                await _reach(late.socket, token)
                took_s = perf_counter() - start_s
            return {CATCH_UP: took_s * 1000, CATCH_UP_BYTES: (relay.received_bytes - before_bytes) / 1024}
        finally:
            relay.stop()


async def _write(client: AsyncClient, count: int, turn: int) -> str:
    numbers = iter(range(count))

    async def write() -> None:
        for number in numbers:
            await client.set(f"k{number % KEYS}", f"{turn}{VALUE}")

    await asyncio.gather(*(write() for _ in range(IN_FLIGHT)))
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
        await server.client.mset({f"k{number}": VALUE for number in range(KEYS)})
        names = [f"k{number}" for number in range(KEYS)]
        start_s = perf_counter()
        values = await server.client.mget(names)
        took_s = perf_counter() - start_s
        packed = importlib.import_module("redis").utils.str_if_bytes(values[0])
        return {CATCH_UP: took_s * 1000, CATCH_UP_BYTES: KEYS * (len(packed) + len("$100\r\n\r\n")) / 1024}
    finally:
        await server.stop()
