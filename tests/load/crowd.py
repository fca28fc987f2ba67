"""Those who are too many, or do not read what they asked for."""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import msgpack
from websockets.sync.client import connect

from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.wire.peer.hello import Hello
from tests.harness.daemon import Daemon
from tests.harness.raw import RawAgent

PACE_S = 0.02
LARGE_BYTES = 1024 * 1024 - 64
UNHEARD = logging.getLogger(f"{__name__}.unheard")
"""What comes while a silent peer closes, websockets takes for an error of its own, and logs it."""
UNHEARD.addHandler(logging.NullHandler())
UNHEARD.propagate = False


class Crowd:
    """Agents that are attached and do nothing; ``silent`` ones of them watch everything and never read."""

    def __init__(self, daemon: Daemon, agents: int, silent: int, prefix: str = "") -> None:
        self._sockets: list[socket.socket] = []
        for number in range(agents):
            self._sockets.append(self._attach(daemon, number, prefix if number < silent else None))

    def _attach(self, daemon: Daemon, number: int, watched: str | None) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(30)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect(os.fspath(daemon.socket))
        hello = {"protocol": 1, "client": os.urandom(16), "agent": f"crowd-{number}", "space": "default"}
        made.sendall(_framed([1, "hello", hello]))
        size = struct.unpack(">I", _exactly(made, 4))[0]
        _, status, content = msgpack.unpackb(_exactly(made, size), strict_map_key=False)
        assert status == 0, content
        if watched is not None:
            # each by a number of its own, or all would be sent the same bytes, which take memory once
            made.sendall(_framed([2 + number, "watch", {"prefix": watched}]))
        return made

    def close(self) -> None:
        """All go."""
        for each in self._sockets:
            each.close()


class SilentPeer:
    """A peer that introduces itself and reads nothing ever after."""

    def __init__(self, daemon: Daemon, number: int) -> None:
        self._socket = socket.create_connection(_address(daemon))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._peer = connect(
            daemon.url, sock=self._socket, compression=None, proxy=None, ping_interval=None, close_timeout=0.1,
            max_queue=1, legacy=True, logger=UNHEARD,
        )  # fmt: skip
        hello = Hello(
            node=f"{number + 1:032x}", name=f"silent-{number}", cluster=LOOPBACK_CLUSTER, database=os.urandom(16),
            time_ms=0, spaces={"default": (0, {})}, features=(),
        )  # fmt: skip
        self._peer.send(hello.encode())

    def close(self) -> None:
        """Gone."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._peer.close()


def _address(daemon: Daemon) -> tuple[str, int]:
    host, _, port = daemon.address.rpartition(":")
    return host, int(port)


class Writers:
    """Agents that write small values, each so often in a second."""

    def __init__(self, daemon: Daemon, count: int = 2) -> None:
        self._ended = threading.Event()
        self.written = 0
        self._threads = [
            threading.Thread(target=self._write, args=(daemon, number), daemon=True) for number in range(count)
        ]

    def _write(self, daemon: Daemon, number: int) -> None:
        # where a daemon has gone the bystander says so
        with suppress(OSError, EOFError), daemon.raw(f"writer-{number}", timeout_s=60) as agent:
            while not self._ended.wait(PACE_S):
                agent.write("set", key=f"w/{number}/{self.written % 100}", value=self.written)
                self.written += 1

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)


@contextmanager
def _timed(took_s: list[float]) -> Iterator[None]:
    began_s = time.perf_counter()
    yield
    took_s.append(time.perf_counter() - began_s)


def write_large(daemon: Daemon, count: int, took_s: list[float], keys: int = 10) -> None:
    """Values of 1 MiB, one after the other over few keys. How long each takes goes to ``took_s``."""
    value = b"\xc6" + struct.pack(">I", LARGE_BYTES - 5) + bytes(LARGE_BYTES - 5)
    with daemon.raw("large") as agent:
        for number in range(count):
            with _timed(took_s):
                agent.call("set", key=f"large/{number % keys}", value=value, n=number + 1)


def make_spaces(daemon: Daemon, count: int, took_s: list[float]) -> None:
    """So many spaces with a key each, 50 requests at once."""
    with daemon.raw("maker", timeout_s=60) as agent:
        for first in range(0, count, 50):
            names = [f"space-{number}" for number in range(first, min(first + 50, count))]
            with _timed(took_s):
                _all(agent, [agent.send("space_create", name=name) for name in names])
            with _timed(took_s):
                _all(agent, [agent.send_write("set", key="k", value=name, space=name) for name in names])


def make_keys(daemon: Daemon, count: int, took_s: list[float]) -> None:
    """So many keys, in batches of 1,000."""
    with daemon.raw("maker", timeout_s=60) as agent:
        for first in range(0, count, 1000):
            numbers = range(first, min(first + 1000, count))
            ops = [["set", {"key": f"many/{number}", "value": msgpack.packb(number)}] for number in numbers]
            with _timed(took_s):
                agent.write("batch", ops=ops)


def _all(agent: RawAgent, requests: list[int]) -> None:
    for request in requests:
        agent.result(request)


def _framed(tree: Any) -> bytes:
    payload = msgpack.packb(tree)
    return struct.pack(">I", len(payload)) + payload


def _exactly(made: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = made.recv(count - len(data))
        assert more, "the daemon closed the connection"
        data += more
    return data
