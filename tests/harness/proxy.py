"""A network under control: stream proxies that cut, hold, delay and heal connections, TCP or unix."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
CHUNK_BYTES = 64 * 1024
CALL_TIMEOUT_S = 60.0
Address = tuple[str, int] | str  # a str is the path of a unix socket


class Network:
    """An event loop in a thread of its own that carries any number of proxies."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()
        self._proxies: list[Proxy] = []

    def proxy(self, target: Address, listen: Address = ("127.0.0.1", 0)) -> Proxy:
        """A new proxy in front of ``target``."""
        proxy = Proxy(self, target)
        self.run(proxy.open(listen))
        self._proxies.append(proxy)
        return proxy

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the network's loop, from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT_S)

    def close(self) -> None:
        """End every connection and the thread. Idempotent."""
        if self._loop.is_closed():
            return
        for proxy in self._proxies:
            self.run(proxy.shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self._loop.close()


class Proxy:
    """One listening address in front of one target.

    While it is cut, live connections are gone and new ones are held without an answer, as packets in a partition
    would be; :meth:`heal` lets those through that still wait (``waiting`` of them). With ``refuse`` new ones are
    closed at once instead.
    """

    def __init__(self, network: Network, target: Address) -> None:
        self.target = target
        self.address: Address = ""
        self.delay_ms = 0.0
        self.cuts = 0
        self.accepted = 0
        self.waiting = 0
        self.forwarded = [0, 0]
        self._network = network
        self._server: asyncio.Server | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._refuse = False
        self._frozen = asyncio.Event()
        self._frozen.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._budget: list[int | None] = [None, None]

    # -- from any thread ------------------------------

    @property
    def port(self) -> int:
        assert not isinstance(self.address, str)
        return self.address[1]

    @property
    def live(self) -> int:
        """How many connections it carries now."""
        return len(self._writers) // 2

    def cut(self, *, refuse: bool = False) -> None:
        """End every live connection, hard, and let no new one through until :meth:`heal`."""
        self._network.run(self._cut(refuse))

    def heal(self) -> None:
        """Let connections through again."""
        self._network.run(self._heal())

    def drop(self) -> None:
        """End every live connection; new ones go through."""
        self._network.run(self._drop())

    def freeze(self) -> None:
        """Forward nothing and end nothing: both ends still think that they are connected."""
        self._network.run(self._set(self._frozen.clear))

    def thaw(self) -> None:
        self._network.run(self._set(self._frozen.set))

    def cut_after(self, up: int | None = None, down: int | None = None) -> None:
        """Let so many more bytes through towards the target (``up``) or back (``down``), then end that connection,
        once. ``cuts`` counts how often that happened.
        """
        self._network.run(self._set(lambda: self._arm(up, down)))

    # -- on the loop ------------------------------

    async def open(self, listen: Address) -> None:
        if isinstance(listen, str):
            self._server = await asyncio.start_unix_server(self._accept, listen)
            self.address = listen
        else:
            self._server = await asyncio.start_server(self._accept, *listen)
            self.address = self._server.sockets[0].getsockname()[:2]

    async def shut(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._drop()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        if isinstance(self.address, str):
            with suppress(OSError):
                Path(self.address).unlink()  # noqa: ASYNC240  # on a loop that serves tests alone

    async def _set(self, change: Callable[[], None]) -> None:
        change()

    def _arm(self, up: int | None, down: int | None) -> None:
        self._budget = [up, down]

    async def _cut(self, refuse: bool) -> None:
        self._refuse = refuse
        self._open.clear()
        await self._drop()

    async def _heal(self) -> None:
        self._refuse = False
        self._open.set()

    async def _drop(self) -> None:
        for writer in list(self._writers):
            _abort(writer)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        try:
            while not self._open.is_set():
                if self._refuse:
                    return
                self.waiting += 1
                try:
                    await self._open.wait()
                finally:
                    self.waiting -= 1
            try:
                back, upstream = await self._connect()
            except OSError:
                return
            if not self._open.is_set():
                return
            self._writers |= {writer, upstream}
            pumps = [
                asyncio.ensure_future(self._pump(reader, upstream, 0)),
                asyncio.ensure_future(self._pump(back, writer, 1)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                if not any(pump.done() and pump.result() for pump in pumps):  # else: cut here, with the bytes allowed
                    await asyncio.wait(pumps, timeout=5)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.wait(pumps)
        finally:
            for each in (writer, upstream):
                if each is not None:
                    self._writers.discard(each)
                    each.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.target, str):
            return await asyncio.open_unix_connection(self.target)
        return await asyncio.open_connection(*self.target)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: int) -> bool:
        """Carry one direction to its end. True: it was cut off on purpose."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        late = asyncio.ensure_future(self._deliver_late(queue, writer))
        try:
            while True:
                try:
                    data = await reader.read(CHUNK_BYTES)
                except OSError:
                    data = b""
                await self._frozen.wait()
                budget = self._budget[way]
                if budget is not None:
                    if data and len(data) >= budget:
                        self._budget = [None, None]
                        self.cuts += 1
                        if budget:
                            writer.write(data[:budget])
                            self.forwarded[way] += budget
                        return True
                    self._budget[way] = budget - len(data)
                self.forwarded[way] += len(data)
                if self.delay_ms or not queue.empty():
                    await queue.put((loop.time() + self.delay_ms / 1000, data))
                    if data:
                        continue
                    await queue.join()
                    return False
                if not data:
                    with suppress(OSError, RuntimeError):
                        writer.write_eof()
                    return False
                writer.write(data)
                with suppress(OSError):
                    await writer.drain()
        finally:
            late.cancel()

    async def _deliver_late(self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            due_s, data = await queue.get()
            await asyncio.sleep(due_s - asyncio.get_running_loop().time())
            if data:
                writer.write(data)
            else:
                with suppress(OSError, RuntimeError):
                    writer.write_eof()
            queue.task_done()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close at once, what is buffered is lost; TCP sends a reset."""
    with suppress(OSError, ValueError):  # it may be closed by now
        sock = writer.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
