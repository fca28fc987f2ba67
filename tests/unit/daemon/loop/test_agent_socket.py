"""One agent's connection: frames, turns, and what happens when it does not take its replies."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import pytest
from crdtsyncd.loop import agent_socket
from crdtsyncd.loop.agent_budget import LargeRequests
from crdtsyncd.loop.agent_socket import (
    BACKLOG_REQUESTS_MAX,
    TURN_REQUESTS_MAX,
    WRITE_BUFFER_BYTES_MAX,
    AgentConnection,
    serve_agents,
)

from crdtsync.core.access.agent import User
from crdtsync.errors import ConfigError, CrdtSyncError, QuotaExceeded
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX


class Sink:
    """Notes what a connection reports."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.served = 0
        self.flow: list[bool] = []
        self.closed: list[int] = []
        self.later: list[AgentConnection] = []
        self.logged: list[str] = []
        self.refusal: CrdtSyncError | None = None
        self.answer_bytes = 0
        self.peer = (User(0), 0)
        self.large_requests = LargeRequests()
        self.then: Callable[[], object] | None = None
        self.is_open = True
        self.is_full = False

    def may_go_on(self, _connection: AgentConnection, then: Callable[[], object]) -> bool:
        self.then = None if self.is_open else then
        return self.is_open

    def is_turn_full(self) -> bool:
        return self.is_full

    def agent_opened(self, _connection: AgentConnection, user: User, pid: int) -> int:
        self.peer = (user, pid)
        return 7

    def agent_frame(self, conn: int, payload: bytes) -> int:
        assert conn == 7
        self.frames.append(payload)
        return self.answer_bytes

    def agent_served(self) -> None:
        self.served += 1

    def agent_flow(self, _conn: int, blocked: bool) -> None:
        self.flow.append(blocked)

    def agent_closed(self, conn: int) -> None:
        self.closed.append(conn)

    def take_turns_later(self, connection: AgentConnection) -> None:
        self.later.append(connection)

    def refuse_agent(self, _user: User) -> CrdtSyncError | None:
        return self.refusal

    def log(self, event: str, level: str = "info", **_fields: object) -> None:
        self.logged.append(event)


class Transport(asyncio.Transport):
    """The other side of a protocol, without any I/O."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__({"socket": sock})
        self.written = b""
        self.reading = True
        self.closing = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == WRITE_BUFFER_BYTES_MAX

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True


def frame(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def receive(connection: AgentConnection, data: bytes) -> None:
    """As the event loop does."""
    while data:
        into = connection.get_buffer(-1)
        count = min(len(into), len(data))
        into[:count] = data[:count]
        connection.buffer_updated(count)
        data = data[count:]


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def transport() -> Iterator[Transport]:
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        yield Transport(here)


@pytest.fixture
async def connection(sink: Sink, transport: Transport) -> AgentConnection:
    made = AgentConnection(sink)
    made.connection_made(transport)
    return made


async def test_whoever_connects_is_known_by_the_kernel(connection: AgentConnection, sink: Sink) -> None:
    assert sink.peer == (User(os.getuid(), tuple(sorted({os.getgid(), *os.getgroups()})), is_local=True), os.getpid())
    connection.connection_lost(None)
    assert sink.closed == [7]


@pytest.mark.parametrize("step", [1, 2, 3, 5, 1000])
async def test_frames_are_cut_wherever_the_stream_is_torn(connection: AgentConnection, sink: Sink, step: int) -> None:
    payloads = [b"a", b"bc" * 40, bytes(300)]
    stream = b"".join(map(frame, payloads))
    for at in range(0, len(stream), step):
        receive(connection, stream[at : at + step])
    assert sink.frames == payloads
    connection.connection_lost(None)


@pytest.mark.parametrize("size", [0, AGENT_FRAME_BYTES_MAX + 1])
async def test_a_length_out_of_bounds_gets_one_error_and_the_end(
    connection: AgentConnection, sink: Sink, transport: Transport, size: int
) -> None:
    receive(connection, struct.pack(">I", size))
    request, status, fields = msgpack.unpackb(transport.written[4:])
    assert (request, status, fields["code"]) == (0, 1, "invalid_encoding")
    assert transport.closing
    assert sink.logged == ["agent_refused"]
    connection.connection_lost(None)


async def test_a_turn_is_bounded_and_the_rest_comes_in_the_next(connection: AgentConnection, sink: Sink) -> None:
    receive(connection, frame(b"x") * (TURN_REQUESTS_MAX + 5))
    assert len(sink.frames) == TURN_REQUESTS_MAX
    assert sink.later == [connection]
    connection.take_turn()
    assert len(sink.frames) == TURN_REQUESTS_MAX + 5
    connection.connection_lost(None)


async def test_one_that_has_written_too_fast_goes_on_where_it_was(connection: AgentConnection, sink: Sink) -> None:
    sink.is_open = False
    receive(connection, frame(b"x") * 3)
    assert (sink.frames, sink.later) == ([], [])
    assert sink.then is not None
    sink.is_open = True
    sink.then()
    assert sink.later == [connection]
    connection.take_turn()
    assert sink.frames == [b"x"] * 3
    sink.is_open = False
    receive(connection, frame(b"y"))
    then = sink.then
    connection.connection_lost(None)
    assert then is not None
    then()
    assert sink.later == [connection], "it is gone"


async def test_a_large_request_does_not_come_into_a_turn_that_is_full(connection: AgentConnection, sink: Sink) -> None:
    sink.is_full = True
    large = frame(b"x" * agent_socket.READ_BYTES)
    receive(connection, frame(b"small"))
    receive(connection, large)
    receive(connection, frame(b"behind it"))
    assert sink.frames == [b"small"]
    assert connection in sink.later
    sink.is_full = False
    connection.take_turn()
    assert [len(payload) for payload in sink.frames] == [5, agent_socket.READ_BYTES, 9]
    connection.connection_lost(None)


async def test_a_turn_ends_when_it_has_been_answered_at_length(connection: AgentConnection, sink: Sink) -> None:
    sink.answer_bytes = WRITE_BUFFER_BYTES_MAX // 2
    receive(connection, frame(b"x") * 10)
    assert len(sink.frames) == 2
    assert sink.later == [connection]
    connection.connection_lost(None)


async def test_one_that_sends_faster_than_it_is_served_is_not_read_from(
    connection: AgentConnection, transport: Transport
) -> None:
    receive(connection, frame(b"x") * (BACKLOG_REQUESTS_MAX + TURN_REQUESTS_MAX + 1))
    assert [transport.reading] == [False]
    connection.take_turn()
    assert [transport.reading] == [True]
    connection.connection_lost(None)


async def test_one_that_does_not_take_its_replies_is_not_served(
    connection: AgentConnection, sink: Sink, transport: Transport
) -> None:
    connection.pause_writing()
    assert [transport.reading] == [False]
    receive(connection, frame(b"x"))
    assert sink.frames == []
    connection.resume_writing()
    assert [transport.reading] == [True]
    assert sink.later == [connection]
    connection.take_turn()
    assert sink.frames == [b"x"]
    assert sink.flow == [True, False]
    connection.connection_lost(None)


async def test_after_the_end_nothing_is_handed_on(connection: AgentConnection, sink: Sink) -> None:
    receive(connection, frame(b"x") * (TURN_REQUESTS_MAX + 1))
    connection.connection_lost(None)
    connection.take_turn()
    receive(connection, frame(b"y"))
    connection.write(b"late")
    assert len(sink.frames) == TURN_REQUESTS_MAX


async def test_one_too_many_is_told_why(sink: Sink, transport: Transport) -> None:
    sink.refusal = QuotaExceeded("too many")
    connection = AgentConnection(sink)
    connection.connection_made(transport)
    assert msgpack.unpackb(transport.written[4:])[2]["code"] == "quota_exceeded"
    assert transport.closing
    receive(connection, frame(b"x"))
    connection.connection_lost(None)
    assert (sink.frames, sink.closed) == ([], [])


async def test_silence_before_hello_is_ended(monkeypatch: pytest.MonkeyPatch, sink: Sink, transport: Transport) -> None:
    monkeypatch.setattr(agent_socket, "HELLO_TIMEOUT_S", 0.01)
    connection = AgentConnection(sink)
    connection.connection_made(transport)
    receive(connection, b"\0\0")
    async with asyncio.timeout(60):
        while not transport.closing:  # noqa: ASYNC110  # a transport has no event to await
            await asyncio.sleep(0.001)
    assert b"hello" in transport.written
    connection.connection_lost(None)


# -- the socket --------------------------------------------------------------------------------------------------------


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="cs", dir="/tmp"))
    yield path
    shutil.rmtree(path)


async def serve(path: Path, sink: Sink, mode: int = 0o600) -> asyncio.Server:
    return await serve_agents(path, mode, lambda: AgentConnection(sink))


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
async def test_the_socket_has_the_permissions_asked_for(place: Path, sink: Sink, mode: int) -> None:
    before = os.umask(0o022)
    try:
        server = await serve(place / "run" / "s", sink, mode)
        assert stat.S_IMODE((place / "run" / "s").stat().st_mode) == mode
        assert os.umask(0o022) == 0o022, "the process's own mask is as it was"
        server.close()
    finally:
        os.umask(before)


async def test_a_stale_socket_is_replaced(place: Path, sink: Sink) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place / "s"))
    server = await serve(place / "s", sink)
    server.close()


async def test_a_live_socket_is_left_alone(place: Path, sink: Sink) -> None:
    with socket.socket(socket.AF_UNIX) as live:
        live.bind(str(place / "s"))
        live.listen()
        inode = (place / "s").stat().st_ino
        with pytest.raises(ConfigError, match="another program listens"):
            await serve(place / "s", sink)
        assert (place / "s").stat().st_ino == inode


async def test_a_live_socket_whose_queue_is_full_is_left_alone(place: Path, sink: Sink) -> None:
    with socket.socket(socket.AF_UNIX) as live:
        live.bind(str(place / "s"))
        live.listen(0)
        waiting = []
        try:
            for _ in range(5):
                each = socket.socket(socket.AF_UNIX)
                waiting.append(each)
                each.setblocking(False)
                if each.connect_ex(str(place / "s")):
                    break
            with pytest.raises(ConfigError, match="another program listens"):
                await serve(place / "s", sink)
            assert (place / "s").is_socket()
        finally:
            for each in waiting:
                each.close()


@pytest.mark.parametrize("what", ["file", "directory", "link"])
async def test_what_is_no_socket_is_left_alone(place: Path, sink: Sink, what: str) -> None:
    path = place / "s"
    match what:
        case "file":
            path.write_text("precious")
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="not a socket"):
        await serve(path, sink)
    assert path.lstat()


# -- large requests ----------------------------------------------------------------------------------------------------


async def attached(sink: Sink, transport: Transport) -> AgentConnection:
    made = AgentConnection(sink)
    made.connection_made(transport)
    receive(made, frame(b"hello"))
    return made


def another(transport: Transport) -> Transport:
    return Transport(transport.get_extra_info("socket"))


async def test_what_finds_no_room_is_read_no_further_until_there_is(sink: Sink, transport: Transport) -> None:
    size_bytes = AGENT_FRAME_BYTES_MAX
    begun = struct.pack(">I", size_bytes) + bytes(100)
    first = [await attached(sink, another(transport)) for _ in range(3)]
    for connection in first:
        receive(connection, begun)
    assert sink.large_requests.taken_bytes == 3 * size_bytes
    late = await attached(sink, transport)
    receive(late, begun)
    reading = [transport.reading]
    receive(first[1], bytes(size_bytes - 100))
    assert len(sink.frames[-1]) == size_bytes
    reading.append(transport.reading)
    assert reading == [False, True]
    receive(late, bytes(size_bytes - 100))
    assert len(sink.frames[-1]) == size_bytes
    assert sink.large_requests.taken_bytes == 2 * size_bytes
    for connection in (*first, late):
        connection.connection_lost(None)
    assert sink.large_requests.taken_bytes == 0


async def test_who_has_gone_waits_no_longer(sink: Sink, transport: Transport) -> None:
    begun = struct.pack(">I", AGENT_FRAME_BYTES_MAX) + bytes(100)
    made = [await attached(sink, another(transport)) for _ in range(4)]
    for connection in made:
        receive(connection, begun)
    for connection in reversed(made):
        connection.connection_lost(None)
    assert sink.large_requests.taken_bytes == 0


async def test_a_large_request_must_be_whole_in_time(
    monkeypatch: pytest.MonkeyPatch, sink: Sink, transport: Transport
) -> None:
    monkeypatch.setattr(agent_socket, "LARGE_TIMEOUT_S", 0.01)
    connection = await attached(sink, transport)
    receive(connection, struct.pack(">I", 100_000))
    async with asyncio.timeout(60):
        while not transport.closing:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert b"100,000 bytes was not whole" in transport.written
    assert sink.large_requests.taken_bytes == 0
    connection.connection_lost(None)


async def test_nobody_who_has_not_said_hello_gets_more_than_a_hello_takes(
    connection: AgentConnection, transport: Transport
) -> None:
    receive(connection, struct.pack(">I", agent_socket.HELLO_BYTES_MAX + 1))
    assert b"frames have 1 to 16,384" in transport.written
    assert transport.closing
    connection.connection_lost(None)
