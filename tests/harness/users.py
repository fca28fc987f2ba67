"""Other users of this machine: connections that the kernel says are theirs."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from tests.harness.raw import RawAgent


class User(NamedTuple):
    """Who a process is. Nobody of that number needs to be known to the machine."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def connect_as(user: User, path: str | os.PathLike[str], count: int) -> list[socket.socket]:
    """Connections that a process of another user has opened, and handed over. Root alone can do that.

    The kernel notes who opened a connection, and tells the other side for as long as it stands.
    """
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups(user.groups)
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
            made = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(count)]
            for one in made:
                one.connect(os.fspath(path))
            socket.send_fds(there, [b"x"], [one.fileno() for one in made])
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    there.close()
    try:
        assert status == 0, f"{user} cannot connect to {path}"
        _, numbers, _, _ = socket.recv_fds(here, 1, count)
    finally:
        here.close()
    return [socket.socket(fileno=number) for number in numbers]


class ForeignAgent(RawAgent):
    """An agent on a connection that somebody else has opened. Notes in ``heard`` all that it is told."""

    def __init__(self, connection: socket.socket, agent: str, **hello: object) -> None:
        self.heard = bytearray()
        self.begin(connection)
        self.hello = self.call("hello", protocol=1, client=self.client, agent=agent, **hello)

    def receive_bytes(self) -> bytes:
        more = super().receive_bytes()
        self.heard += more
        return more
