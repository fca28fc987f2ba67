"""Systems that keep keys and values, each behind the same few calls."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from signal import SIGTERM
from time import perf_counter
from typing import Any, Protocol

from benchmarks.daemons import Daemons
from benchmarks.rivals.processes import POLL_S, Process, ServerError, answers, disk_bytes, free_port, rss_bytes
from crdtsync.client import AsyncClient, Client

CALL_TIMEOUT_S = 20.0
"""Of one call of a client that has no limit of its own by default: one that hangs must not hang the benchmark."""


class Blocking(Protocol):
    """One client of one thread."""

    def set(self, key: str, value: str) -> object:
        """Returns once the system has acknowledged."""

    def get(self, key: str) -> object:
        """The value."""


class Store(Protocol):
    """A system that is being measured. ``durability``: what its acknowledgement means."""

    name: str
    durability: str

    @property
    def pid(self) -> int | None:
        """Of the server's process, while it runs."""

    async def start(self, directory: Path) -> None:
        """Start it, empty, with its files in ``directory``."""

    async def restart(self, *, kill: bool) -> float:
        """End it (``kill``: with SIGKILL) and start it again; the seconds until it takes a connection."""

    async def stop(self) -> None:
        """End it for good."""

    def opener(self) -> Callable[[], Blocking]:
        """What makes a new client for one thread; another process can be given it."""

    async def connect(self) -> None:
        """Open what :meth:`set` and :meth:`get` use."""

    async def disconnect(self) -> None:
        """Close that."""

    async def set(self, key: str, value: str) -> object:
        """Many may be in flight."""

    async def get(self, key: str) -> str | None:
        """The value, or None."""

    def rss_bytes(self) -> int:
        """Memory of the server."""

    def disk_bytes(self) -> int:
        """What its files take."""


class Crdtsync:
    """This project: one daemon."""

    name = "crdtsync"
    durability = "fsync before the reply"

    @property
    def pid(self) -> int | None:
        """See :class:`Store`."""
        return self._fleet[0].pid

    async def start(self, directory: Path) -> None:
        """See :class:`Store`."""
        del directory  # a fleet has one of its own
        self._fleet = await Daemons(1).__aenter__()

    async def restart(self, *, kill: bool) -> float:
        """See :class:`Store`."""
        daemon = self._fleet[0]
        await (daemon.kill() if kill else daemon.stop())
        start_s = perf_counter()
        ready = asyncio.create_task(daemon.start())
        while not ready.done() and not answers(str(daemon.socket)):  # noqa: ASYNC110  # another process, as of the others
            await asyncio.sleep(POLL_S)
        took_s = perf_counter() - start_s
        await ready
        return took_s

    async def stop(self) -> None:
        """See :class:`Store`."""
        await self._fleet.__aexit__()

    def opener(self) -> Callable[[], Blocking]:
        """See :class:`Store`."""
        return partial(Client, self._fleet[0].socket, timeout=CALL_TIMEOUT_S)

    async def connect(self) -> None:
        """See :class:`Store`."""
        self._client = AsyncClient(self._fleet[0].socket, timeout=CALL_TIMEOUT_S)
        await self._client.get("k0")

    async def disconnect(self) -> None:
        """See :class:`Store`."""
        await self._client.close()

    async def set(self, key: str, value: str) -> object:
        """See :class:`Store`."""
        return await self._client.set(key, value)

    async def get(self, key: str) -> str | None:
        """See :class:`Store`."""
        found: str | None = await self._client.get(key)
        return found

    def mirror_reads(self, keys: Sequence[str], times: int) -> list[float]:
        """Seconds of a read from a copy in this process: each the mean over ``keys``, for one takes less than to look
        at the clock.
        """
        found = []
        with Client(self._fleet[0].socket, timeout=CALL_TIMEOUT_S) as client, client.mirror("k") as mirror:
            for _ in range(times):
                start_s = perf_counter()
                for key in keys:
                    mirror[key]
                found.append((perf_counter() - start_s) / len(keys))
        return found

    def rss_bytes(self) -> int:
        """See :class:`Store`."""
        return rss_bytes(self.pid)

    def disk_bytes(self) -> int:
        """See :class:`Store`."""
        return disk_bytes(self._fleet[0].database.parent)


class Served:
    """What the systems have in common whose server is one process."""

    process: Process

    @property
    def pid(self) -> int | None:
        """See :class:`Store`."""
        return self.process.pid

    async def restart(self, *, kill: bool) -> float:
        """See :class:`Store`."""
        await (self.process.end() if kill else self.process.end(SIGTERM))
        return await self.process.start()

    async def stop(self) -> None:
        """See :class:`Store`."""
        await self.process.end()

    def rss_bytes(self) -> int:
        """See :class:`Store`."""
        return rss_bytes(self.pid)

    def disk_bytes(self) -> int:
        """See :class:`Store`."""
        return disk_bytes(self.process.directory)


class Redis(Served):
    """Redis over its unix socket, through redis-py."""

    def __init__(self, fsync: str) -> None:
        self.name = f"Redis {fsync}"
        self.durability = {"always": "fsync before the reply", "everysec": "fsync every second"}[fsync]
        self._fsync = fsync

    async def start(self, directory: Path) -> None:
        """See :class:`Store`."""
        self._socket = str(directory / "redis.sock")
        options = ["--port", "0", "--unixsocket", self._socket, "--dir", str(directory), "--save", ""]
        options += ["--appendonly", "yes", "--appendfsync", self._fsync]
        self.process = Process(["redis-server", *options], directory, self._socket)
        await self.process.start()

    def opener(self) -> Callable[[], Blocking]:
        """See :class:`Store`."""
        return partial(_redis_client, self._socket)

    async def connect(self) -> None:
        """See :class:`Store`."""
        self.client: Any = importlib.import_module("redis.asyncio").Redis(unix_socket_path=self._socket)

    async def disconnect(self) -> None:
        """See :class:`Store`."""
        await self.client.aclose()

    async def set(self, key: str, value: str) -> object:
        """See :class:`Store`."""
        return await self.client.set(key, value)

    async def get(self, key: str) -> str | None:
        """See :class:`Store`."""
        found: bytes | None = await self.client.get(key)
        return None if found is None else found.decode()


def _redis_client(path: str) -> Blocking:
    found: Blocking = importlib.import_module("redis").Redis(unix_socket_path=path)
    return found


async def _quiet(_error: Exception) -> None:
    """A connection whose server is killed is lost, as it should be."""


class Nats(Served):
    """A key-value bucket of NATS JetStream, on files, through nats-py."""

    name = "NATS JetStream KV"
    durability = "fsync every two minutes"

    async def start(self, directory: Path) -> None:
        """See :class:`Store`."""
        self._port = free_port()
        options = ["-js", "-sd", str(directory / "data"), "-a", "127.0.0.1", "-p", str(self._port)]
        self.process = Process(["nats-server", *options], directory, self._port)
        await self.process.start()

    def opener(self) -> Callable[[], Blocking]:
        """See :class:`Store`."""
        raise NotImplementedError("nats-py has no blocking client")

    async def connect(self) -> None:
        """See :class:`Store`."""
        nats: Any = importlib.import_module("nats")
        url = f"nats://127.0.0.1:{self._port}"
        self._connection = await nats.connect(url, allow_reconnect=False, error_cb=_quiet)
        stream = self._connection.jetstream()
        for _ in range(100):  # it takes connections before its streams are there
            for way in (stream.key_value, stream.create_key_value):
                try:
                    self._bucket = await (way("bench") if way == stream.key_value else way(bucket="bench"))
                except Exception:  # noqa: BLE001  # whatever it says: not there yet
                    await asyncio.sleep(0.05)
                else:
                    return
        raise ServerError("NATS has no bucket")

    async def disconnect(self) -> None:
        """See :class:`Store`."""
        await self._connection.close()

    async def set(self, key: str, value: str) -> object:
        """See :class:`Store`."""
        return await self._bucket.put(key, value.encode())

    async def get(self, key: str) -> str | None:
        """See :class:`Store`."""
        try:
            entry = await self._bucket.get(key)
        except Exception:  # noqa: BLE001  # a class of a package that is not always there: not found
            return None
        return str(entry.value.decode())


class Etcd(Served):
    """etcd, through its JSON gateway: there is no Python client of it that is looked after."""

    name = "etcd (JSON gateway)"
    durability = "fsync before the reply"

    async def start(self, directory: Path) -> None:
        """See :class:`Store`."""
        self._port = free_port()
        url, peers = f"http://127.0.0.1:{self._port}", f"http://127.0.0.1:{free_port()}"
        options = ["--data-dir", str(directory / "data"), "--listen-client-urls", url, "--advertise-client-urls", url]
        options += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        options += ["--initial-cluster", f"default={peers}", "--log-level", "error"]
        self.process = Process(["etcd", *options], directory, self._port)
        await self.process.start()

    def opener(self) -> Callable[[], Blocking]:
        """See :class:`Store`."""
        return partial(_EtcdClient, self._port)

    async def connect(self) -> None:
        """See :class:`Store`."""
        self._clients = [_EtcdClient(self._port) for _ in range(16)]

    async def disconnect(self) -> None:
        """See :class:`Store`."""
        self._clients.clear()

    async def set(self, key: str, value: str) -> object:
        """See :class:`Store`."""
        client = self._clients.pop()
        try:
            return await asyncio.to_thread(client.set, key, value)
        finally:
            self._clients.append(client)

    async def get(self, key: str) -> str | None:
        """See :class:`Store`."""
        client = self._clients.pop()
        try:
            return await asyncio.to_thread(client.get, key)
        finally:
            self._clients.append(client)


class _EtcdClient:
    def __init__(self, port: int) -> None:
        self._http = HTTPConnection("127.0.0.1", port, timeout=CALL_TIMEOUT_S)

    def _call(self, name: str, body: dict[str, str]) -> Any:
        self._http.request("POST", f"/v3/kv/{name}", json.dumps(body))
        response = self._http.getresponse()
        found = json.loads(response.read())
        if response.status != 200:
            raise OSError(f"etcd answered {response.status}: {found}")
        return found

    def set(self, key: str, value: str) -> object:
        return self._call("put", {"key": _base64(key), "value": _base64(value)})

    def get(self, key: str) -> str | None:
        found = self._call("range", {"key": _base64(key)}).get("kvs")
        return base64.b64decode(found[0]["value"]).decode() if found else None


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
