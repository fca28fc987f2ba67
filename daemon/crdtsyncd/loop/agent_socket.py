"""The agents' unix socket: one protocol object a connection, fair turns, bounded buffers.

One agent sends 10,000 requests without waiting, one never reads its replies, and one sends 8 MiB byte by byte. None of
them may hold up a fourth one, nor fill the memory. So a turn takes :data:`TURN_REQUESTS_MAX` requests of a connection;
a connection with too many requests that wait, or too many replies that are not read, is read no further; and large
frames of all agents share a budget (:mod:`crdtsyncd.loop.agent_budget`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from crdtsyncd.config.exit_status import AddressTaken
from crdtsyncd.loop.agent_budget import LargeRequests

from crdtsync.core.access.agent import User
from crdtsync.errors import ConfigError, CrdtSyncError, QuotaExceeded, to_wire
from crdtsync.wire.codec import pack
from crdtsync.wire.framing import PREFIX_BYTES, FrameReader, frame
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX

TURN_REQUESTS_MAX = 64
"""Requests of an agent in one turn."""
BACKLOG_AGENTS_MAX = 4096
"""So many may wait to be let in: as many as may be attached by default. The units of systemd say the same."""
BACKLOG_REQUESTS_MAX = 256
"""Requests waiting for their turn before the socket is read no further."""
WRITE_BUFFER_BYTES_MAX = 1024 * 1024
"""Unread replies of an agent before it is served no further."""
LARGE_REPLY_BYTES = 256 * 1024
"""A connection with a longer reply, such as a part of a blob, gets room in the kernel for it."""
SEND_BUFFER_BYTES = 1024 * 1024
"""So much: the part goes out at once, while the daemon is at the next one. With the kernel's own 208 KiB both sides
wait for each other three times a part."""
BACKLOG_BYTES_MAX = 64 * 1024
"""Requests waiting for their turn, but for large ones."""
HELLO_TIMEOUT_S = 10.0
"""Until an agent's hello."""
HELLO_BYTES_MAX = 16 * 1024
"""An agent's hello."""
READ_BYTES = 16 * 1024
"""Bytes of an agent that are read at once; a frame that does not fit is large, and charged to its user. Then as many as
it lacks, up to :data:`LARGE_READ_BYTES`.
"""
LARGE_READ_BYTES = 256 * 1024
LARGE_TIMEOUT_S = 30.0
"""For a large frame to be whole, from the moment on when there is room for it."""
PROBE_TIMEOUT_S = 1.0
SO_PEERGROUPS = 59
"""All groups of the process at the other end, as Linux has it since 4.13; Python has no name for it."""
PEER_GROUPS_BYTES = 1024


def user_of(connected: socket.socket) -> tuple[User, int]:
    """Whose process is at the other end of a unix socket, as the kernel says, and its pid."""
    pid, uid, gid = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    gids = {gid}
    with contextlib.suppress(OSError):  # of an old kernel, or over 256 groups: the first one is known all the same
        packed = connected.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, PEER_GROUPS_BYTES)
        gids.update(struct.unpack(f"{len(packed) // 4}I", packed))
    return User(uid, tuple(sorted(gids)), _is_local(connected.getsockname(), uid, gids)), pid


def _is_local(path: object, uid: int, gids: set[int]) -> bool:
    """Whether somebody owns the socket, or is in its group."""
    try:
        about = Path(str(path)).stat()
    except (OSError, ValueError):
        return False  # it has been removed
    return uid == about.st_uid or about.st_gid in gids


class AgentSink(Protocol):
    """Where the agents' connections report to."""

    def agent_opened(self, connection: AgentConnection, user: User, pid: int) -> int:
        """A new connection; returns its number."""

    def agent_frame(self, conn: int, payload: bytes) -> int:
        """One frame from it; returns how many bytes it was answered with."""

    def agent_served(self) -> None:
        """That was all of them for this turn."""

    def agent_flow(self, conn: int, blocked: bool) -> None:
        """It cannot take more for now, or can again."""

    def agent_closed(self, conn: int) -> None:
        """It is gone."""

    def take_turns_later(self, connection: AgentConnection) -> None:
        """It has more frames than fit into one turn."""

    def may_go_on(self, connection: AgentConnection, then: Callable[[], object]) -> bool:
        """Whether it may ask for more; else ``then`` is called when it may: it has written faster than is good."""

    def is_turn_full(self) -> bool:
        """Whether the turn under way has taken so long already that no large request is to come into it."""

    large_requests: LargeRequests

    def refuse_agent(self, user: User) -> CrdtSyncError | None:
        """Why no further connection of this user can be taken; None if it can."""

    def log(self, event: str, level: str = "info", **fields: object) -> None:
        """Log one event."""


_read_into = memoryview(bytearray(LARGE_READ_BYTES))  # of all connections: what comes is taken out at once


class AgentConnection(asyncio.BufferedProtocol):
    """One agent's connection.

    The daemon holds a bounded part of it: the first 16 KiB of a frame, requests that wait for their turn, and large
    frames as far as there is room (:class:`crdtsyncd.loop.agent_budget.LargeRequests`). Else it is read no further.
    """

    def __init__(self, sink: AgentSink) -> None:
        self._sink = sink
        self._reader = FrameReader(AGENT_FRAME_BYTES_MAX, HELLO_BYTES_MAX)
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0  # without large ones
        self._charged_bytes = 0  # for large ones: in the backlog, or the one that has begun
        self._is_begun = False  # whether a large one has, and there is room for it
        self._is_waiting = False  # whether it waits for room
        self._large_timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused_by_peer = False
        self._is_throttled = False
        self._is_widened = False
        self.conn = 0
        self._uid = -1

    @property
    def backlog_requests(self) -> int:
        """How many requests wait for their turn."""
        return len(self._backlog)

    @property
    def unread_bytes(self) -> int:
        """How much has been written that the agent has not read."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.BufferedProtocol`, as for all that follow."""
        self._transport = cast(asyncio.Transport, transport)
        user, pid = user_of(self._transport.get_extra_info("socket"))
        refusal = self._sink.refuse_agent(user)
        if refusal is not None:
            self._refuse(refusal)
            return
        self._uid = user.uid
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self.conn = self._sink.agent_opened(self, user, pid)
        self._timer = asyncio.get_running_loop().call_later(HELLO_TIMEOUT_S, self._no_hello)

    def get_buffer(self, _size_hint: int) -> memoryview:
        if self._is_begun:  # and no more than it lacks: every large frame is seen to begin
            return _read_into[: min(self._reader.missing_bytes, LARGE_READ_BYTES)]
        return _read_into[:READ_BYTES]

    def buffer_updated(self, count_bytes: int) -> None:
        if not self.conn:
            return
        try:
            frames = self._reader.feed(bytes(_read_into[:count_bytes]))
        except CrdtSyncError as error:
            self._sink.log("agent_refused", level="warning", conn=self.conn, reason=error.message)
            self._refuse(error)
            return
        if frames and self._is_begun:  # it alone: no more is read than it lacks
            self._end_large()
        else:
            self._backlog_bytes += sum(map(len, frames))
        self._backlog.extend(frames)
        begun_bytes = self._reader.begun_bytes
        if _is_large(begun_bytes) and not self._is_begun:
            if self._sink.large_requests.take(self._uid, begun_bytes, self._admitted):
                self._begin_large()
            else:
                self._is_waiting = True
        self.take_turn()

    def _admitted(self) -> None:
        """There is room for the large frame that waits."""
        self._is_waiting = False
        self._begin_large()
        self._throttle()

    def _begin_large(self) -> None:
        self._is_begun = True
        self._charged_bytes += self._reader.begun_bytes
        self._large_timer = asyncio.get_running_loop().call_later(LARGE_TIMEOUT_S, self._large_is_late)

    def _end_large(self) -> None:
        self._is_begun = False
        if self._large_timer is not None:
            self._large_timer.cancel()
            self._large_timer = None

    def _large_is_late(self) -> None:
        size_bytes = self._reader.begun_bytes
        self._refuse(QuotaExceeded(f"a request of {size_bytes:,} bytes was not whole within {LARGE_TIMEOUT_S:.0f} s"))

    def _next_request(self) -> bytes:
        payload = self._backlog.popleft()
        if self._charged_bytes and _is_large(len(payload)):
            self._charged_bytes -= len(payload)
            self._sink.large_requests.give_back(self._uid, len(payload))
        else:
            self._backlog_bytes -= len(payload)
        return payload

    def _drop_requests(self) -> None:
        """Nothing that has come, or is still coming, is handled any more."""
        self._backlog.clear()
        self._backlog_bytes = 0
        self._end_large()
        if self._is_waiting:
            self._is_waiting = False
            self._sink.large_requests.forget(self._admitted)
        if self._charged_bytes:
            charged_bytes, self._charged_bytes = self._charged_bytes, 0
            self._sink.large_requests.give_back(self._uid, charged_bytes)

    def take_turn(self) -> None:
        """Hand on a bounded number of frames; the rest waits for the next turn."""
        backlog = self._backlog
        if self._timer is not None and backlog:
            self._timer.cancel()
            self._timer = None
        answered_bytes = 0
        for _ in range(min(TURN_REQUESTS_MAX, len(backlog))):
            if not self.conn or self._paused_by_peer or not self._sink.may_go_on(self, self._go_on):
                break
            if self._charged_bytes and _is_large(len(backlog[0])) and self._sink.is_turn_full():
                break  # others have asked for much at the same moment
            if answered_bytes >= WRITE_BUFFER_BYTES_MAX:
                break  # whether it takes its replies shows when these are written
            answered_bytes += self._sink.agent_frame(self.conn, self._next_request())
        if backlog:
            self._go_on()
        self._sink.agent_served()
        self._throttle()

    def _go_on(self) -> None:
        if self.conn and not self._paused_by_peer and self._sink.may_go_on(self, self._go_on):
            self._sink.take_turns_later(self)

    def pause_writing(self) -> None:
        self._paused_by_peer = True
        self._sink.agent_flow(self.conn, blocked=True)
        self._throttle()

    def resume_writing(self) -> None:
        self._paused_by_peer = False
        self._sink.agent_flow(self.conn, blocked=False)
        if self._backlog:
            self._go_on()
        self._throttle()

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._drop_requests()
        self._transport = None
        if self.conn:
            conn, self.conn = self.conn, 0
            self._sink.agent_closed(conn)

    def write(self, data: bytes) -> None:
        """Send a frame, or do nothing if the connection is gone."""
        if self._transport is not None:
            if len(data) > LARGE_REPLY_BYTES and not self._is_widened:
                self._is_widened = True
                connected = self._transport.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            self._transport.write(data)

    def close(self) -> None:
        """Close after what was written is sent; nothing that came in is handled any more."""
        self._drop_requests()
        if self._transport is not None:
            self._transport.close()

    def _throttle(self) -> None:
        """Read no further from an agent that sends faster than it is served, or does not take its replies."""
        is_throttled = (
            self._paused_by_peer
            or self._is_waiting
            or len(self._backlog) > BACKLOG_REQUESTS_MAX
            or self._backlog_bytes > BACKLOG_BYTES_MAX
        )
        if is_throttled == self._is_throttled or self._transport is None or self._transport.is_closing():
            return
        self._is_throttled = is_throttled
        if is_throttled:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _refuse(self, error: CrdtSyncError) -> None:
        self.write(frame(pack([0, 1, to_wire(error)])))
        self.close()

    def _no_hello(self) -> None:
        self._refuse(QuotaExceeded(f"no hello within {HELLO_TIMEOUT_S:.0f} s"))


def _is_large(frame_bytes: int) -> bool:
    """Whether a frame may not come whole at once."""
    return frame_bytes > READ_BYTES - PREFIX_BYTES


async def serve_agents(path: Path, mode: int, make: Callable[[], AgentConnection]) -> asyncio.Server:
    """Listen on a unix socket. A socket that nobody listens on any more is replaced.

    :raises ConfigError: somebody listens on it, or it cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_stale(path)
        before = os.umask(0o777 & ~mode)
        try:
            return await asyncio.get_running_loop().create_unix_server(make, str(path), backlog=BACKLOG_AGENTS_MAX)
        finally:
            os.umask(before)
    except OSError as error:
        raise ConfigError(f"cannot listen on {path}: {error.strerror or error}; choose another with --socket") from None


async def serve_agents_on(sockets: list[socket.socket], make: Callable[[], AgentConnection]) -> asyncio.Server:
    """Listen on a unix socket that somebody else opened, and keeps.

    :raises ConfigError: there are several, or it is of another kind.
    """
    if len(sockets) != 1 or sockets[0].family != socket.AF_UNIX or sockets[0].type != socket.SOCK_STREAM:
        raise ConfigError("agents need exactly one inherited socket, a unix stream socket: see the socket unit")
    return await asyncio.get_running_loop().create_unix_server(make, sock=sockets[0], backlog=BACKLOG_AGENTS_MAX)


def _remove_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(f"{path} is there and is not a socket: move it away, or choose another with --socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass  # somebody listens, and is too busy to answer, or it is not for us
    raise AddressTaken(f"another program listens on {path}: stop it, or choose another socket with --socket")
