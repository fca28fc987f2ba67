"""What the client's tests share: a daemon that does what a script says, and a player for plans."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgpack
import pytest
import uvloop

from crdtsync.client.protocol.steps import NEXT_PAGE, Exchange
from crdtsync.errors import CrdtSyncError

PATIENCE_S = 60.0


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """Coroutine tests run on both event loops."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Peer:
    """The daemon's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.hello: dict[str, Any] = {}

    def greet(self, database: bytes = b"d" * 16, features: Sequence[str] = ()) -> None:
        """Answer the hello."""
        request_id, operation, self.hello = self.receive()
        assert (request_id, operation) == (1, "hello")
        about = {"protocol": 1, "version": "0", "node": "n", "name": "n", "database": database}
        self.reply(1, {**about, "features": [*features]})

    def receive(self) -> tuple[int, str, dict[str, Any]]:
        """The next request."""
        (length,) = struct.unpack(">I", self._exactly(4))
        request_id, operation, arguments = msgpack.unpackb(self._exactly(length))
        return request_id, operation, arguments

    def reply(self, request_id: int, result: object) -> None:
        self.send([request_id, 0, result])

    def refuse(self, request_id: int, code: str, **details: object) -> None:
        self.send([request_id, 1, {"code": code, "message": f"refused: {code}", **details}])

    def events(self, request_id: int, *events: dict[str, object]) -> None:
        self.send([request_id, 2, list(events)])

    def send(self, message: object) -> None:
        self.socket.sendall(frame(message))

    def wait_for_end(self) -> None:
        """Until the client has closed its end."""
        with contextlib.suppress(OSError):
            while self.socket.recv(65536):
                pass

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise EOFError("the client hung up")
            data += more
        return data


def frame(message: object) -> bytes:
    """A message as it travels."""
    body = msgpack.packb(message)
    return struct.pack(">I", len(body)) + body


Scene = Callable[[Peer], None]


def idle(peer: Peer) -> None:
    """A scene: there, and asked nothing, perhaps not even until it has greeted."""
    with contextlib.suppress(ConnectionError, EOFError):
        peer.greet()
        peer.wait_for_end()


class ScriptedDaemon:
    """Plays one scene for each connection, in the order in which they come, and fails the test if a scene fails."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.idle = idle
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def play(self, *scenes: Scene) -> None:
        """Take one connection for each scene."""
        self._start(self._accept, scenes)

    def finish(self) -> None:
        """All scenes have been played."""
        for thread in self._threads:  # grows meanwhile
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a scene waits for something that did not come"
        self._listener.close()
        if self._failures:
            raise self._failures[0]

    def _accept(self, scenes: tuple[Scene, ...]) -> None:
        for scene in scenes:
            connection, _ = self._listener.accept()
            connection.settimeout(PATIENCE_S)
            self._start(self._play, scene, connection)

    def _play(self, scene: Scene, connection: socket.socket) -> None:
        with connection:
            scene(Peer(connection))

    def _start(self, function: Callable[..., None], *arguments: Any) -> None:
        def run() -> None:
            try:
                function(*arguments)
            except BaseException as error:  # noqa: BLE001  # handed to the test
                self._failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[ScriptedDaemon]:
    scripted = ScriptedDaemon(tmp_path / "agent.sock")
    yield scripted
    scripted.finish()


def go_on(plan: Any, step: Any, reply: Any) -> Any:
    """A plan's next step, after ``reply`` to this one: what the daemon says, or an exception."""
    try:
        if isinstance(step, Exchange) and not isinstance(reply, BaseException):
            step.result = reply
            reply = step.outcome()
        elif isinstance(step, Exchange) and isinstance(reply, CrdtSyncError):
            step.error = reply
            step.outcome()
        elif isinstance(reply, BaseException):
            raise reply
    except BaseException as error:  # noqa: BLE001  # the plan's to handle
        return plan.throw(error)
    return plan.send(reply)


class Played:
    """What came of a plan: its steps as ``(operation, arguments)``, its result, and whether the time limit began anew
    before each step.
    """

    def __init__(self, steps: list[Any], result: Any, *, is_each_timed_anew: bool) -> None:
        self.steps = steps
        self.result = result
        self.is_each_timed_anew = is_each_timed_anew

    @property
    def arguments(self) -> dict[str, Any]:
        """Of the only request."""
        (call,) = self.steps
        return call.arguments


@pytest.fixture
def reply_to() -> Callable[..., Any]:
    """For tests that play a plan step by step."""
    return go_on


@pytest.fixture
def play() -> Callable[..., Played]:
    """Run a plan against replies that are given in advance; an exception among them is thrown in."""

    def run(plan: Any, *replies: Any) -> Played:
        steps, left, timed_anew, is_anew = [], list(replies), list[bool](), True
        plan = iter(plan)
        try:
            step = next(plan)
            while True:
                if step is NEXT_PAGE:
                    is_anew, step = True, plan.send(None)
                    continue
                timed_anew.append(is_anew)
                steps.append(step)
                is_anew, step = False, go_on(plan, step, left.pop(0))
        except StopIteration as done:
            assert not left, f"the plan did not ask for {left}"
            return Played(steps, done.value, is_each_timed_anew=all(timed_anew))

    return run
