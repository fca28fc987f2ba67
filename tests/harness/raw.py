"""The agent protocol by hand: requests without any of the client library's care."""

from __future__ import annotations

import itertools
import os
import socket
import struct
from collections import deque
from contextlib import suppress
from socket import socket as Socket  # noqa: N812  # an attribute has that name
from time import monotonic
from typing import Any, Self

import msgpack


class RawError(Exception):
    """The daemon answered with an error."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(f"{fields.get('code')}: {fields.get('message')}")
        self.fields = fields
        self.code = fields.get("code")


class RawAgent:
    """One connection. ``send`` and ``receive`` move frames; ``call`` does both; ``events`` collect aside."""

    socket: Socket
    client: bytes
    hello: dict[str, Any]

    def __init__(
        self,
        path: str | os.PathLike[str],
        agent: str | None = "raw",
        *,
        client: bytes | None = None,
        space: str = "default",
        timeout_s: float = 60.0,
    ) -> None:
        self.begin(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), client, timeout_s)
        try:
            self.socket.connect(os.fspath(path))
            if agent is not None:
                with suppress(BrokenPipeError):  # refused before it could say hello: it is told why all the same
                    self.send("hello", protocol=1, client=self.client, agent=agent, space=space)
                self.hello = self.result(1)
        except BaseException:
            self.socket.close()
            raise

    def begin(self, connection: Socket, client: bytes | None = None, timeout_s: float = 60.0) -> None:
        """Start afresh on this connection."""
        self.client = client or os.urandom(16)
        self.timeout_s = timeout_s
        self.events: deque[tuple[int, Any]] = deque()
        self.hello = {}
        self._ids = itertools.count(1)
        self._numbers = itertools.count(1)
        self._buffer = bytearray()
        self._replies: dict[int, tuple[int, Any]] = {}
        self.socket = connection
        self.socket.settimeout(timeout_s)

    def send(self, operation: str, /, **arguments: Any) -> int:
        """Send a request without waiting; its id."""
        request = next(self._ids)
        self.send_frame(msgpack.packb([request, operation, arguments]))
        return request

    def send_frame(self, payload: bytes) -> None:
        self.send_bytes(struct.pack(">I", len(payload)) + payload)

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """A request and its result.

        :raises RawError: the daemon says no.
        """
        return self.result(self.send(operation, **arguments))

    def write(self, operation: str, /, **arguments: Any) -> Any:
        """A write, numbered by itself; ``value`` may be any Python value."""
        return self.result(self.send_write(operation, **arguments))

    def send_write(self, operation: str, /, **arguments: Any) -> int:
        arguments.setdefault("n", next(self._numbers))
        if "value" in arguments:
            arguments["value"] = msgpack.packb(arguments["value"])
        return self.send(operation, **arguments)

    def result(self, request: int) -> Any:
        """The result of a request that was sent before."""
        deadline = monotonic() + self.timeout_s
        while request not in self._replies:
            number, status, content = self.receive(max(deadline - monotonic(), 0.001))
            if status == 2:
                self.events.append((number, content))
            elif number == 0:
                raise RawError(content)
            else:
                self._replies[number] = (status, content)
        status, content = self._replies.pop(request)
        if status == 1:
            raise RawError(content)
        return content

    def receive(self, timeout_s: float | None = None) -> tuple[int, int, Any]:
        """The next frame, decoded.

        :raises EOFError: the daemon closed the connection.
        :raises TimeoutError: nothing came.
        """
        length = struct.unpack(">I", self._exactly(4, timeout_s))[0]
        request, status, content = msgpack.unpackb(self._exactly(length, timeout_s), strict_map_key=False)
        return request, status, content

    def wait_closed(self, timeout_s: float = 60.0) -> None:
        """Until the daemon closes the connection.

        :raises TimeoutError: it does not.
        """
        self.socket.settimeout(timeout_s)
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def receive_bytes(self) -> bytes:
        """What has come, some of it at least; empty at the end."""
        return self.socket.recv(1 << 16)

    def _exactly(self, count: int, timeout_s: float | None) -> bytes:
        self.socket.settimeout(self.timeout_s if timeout_s is None else timeout_s)
        while len(self._buffer) < count:
            more = self.receive_bytes()
            if not more:
                raise EOFError("the daemon closed the connection")
            self._buffer += more
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data
