"""An agent of a host: what it asks, what it is answered, what it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.core.access.agent import User
from crdtsync.core.interface import AgentClosed, AgentFlow, AgentFrame, AgentOpened
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX

if TYPE_CHECKING:
    from tests.fleet.host import Host

SOMEBODY = User(1000)
TURNS_MAX = 10_000


class Refusal(Exception):
    """The daemon's error reply."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(f"{fields['code']}: {fields['message']}")
        self.code = fields["code"]
        self.fields = fields


class Agent:
    """One agent's connection. Requests are answered by the machine's next turn, which :meth:`ask` makes at once."""

    def __init__(
        self, machine: Host, name: str, client: bytes | None = None, user: User = SOMEBODY, **hello: Any
    ) -> None:
        self.machine = machine
        self.name = name
        self.conn = machine.fleet.new_conn()
        self.client = client or machine.fleet.random.randbytes(16)
        self.replies: dict[int, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.frames: list[list[dict[str, Any]]] = []
        self.closed = False
        self.request_last = 0
        self.number = 0
        machine.sessions[self.conn] = self
        machine.step(AgentOpened(self.conn, user.uid, 4242, user.gids, user.is_local))
        self.points: list[tuple[int, str, str]] = []
        self.ask("hello", protocol=1, client=self.client, agent=name, **hello)

    def send(self, operation: str, **args: Any) -> int:
        """Make a request without waiting; its id."""
        self.request_last += 1
        self.machine.step(AgentFrame(self.conn, pack([self.request_last, operation, args])))
        return self.request_last

    def write(self, operation: str, **args: Any) -> int:
        self.number += 1
        return self.send(operation, n=self.number, **args)

    def result(self, request: int) -> Any:
        """The reply to a request; raises :class:`Refusal` for an error, KeyError if there is none yet."""
        status, content = self.replies[request]
        if status == 1:
            raise Refusal(content)
        return content

    def ask(self, operation: str, **args: Any) -> Any:
        request = self.send(operation, **args)
        self.machine.turn()
        return self.result(request)

    def do(self, operation: str, **args: Any) -> Any:
        request = self.write(operation, **args)
        self.machine.turn()
        return self.result(request)

    def do_slowly(self, operation: str, **args: Any) -> Any:
        """A write that takes some turns."""
        request = self.write(operation, **args)
        for _ in range(TURNS_MAX):
            self.machine.turn()
            if request in self.replies:
                break
        return self.result(request)

    # -- the usual ones; values are packed and unpacked ------------------------------------------------------------

    def set(self, key: str, value: object, **args: Any) -> Any:
        return self.do("set", key=key, value=pack(value), **args)

    def delete(self, key: str, **args: Any) -> Any:
        return self.do("delete", key=key, **args)

    def append(self, key: str, value: object, **args: Any) -> Any:
        return self.do("append", key=key, value=pack(value), **args)

    def get(self, key: str, **args: Any) -> Any:
        """The value, or None."""
        got = self.ask("get", key=key, **args)
        return None if got is None else unpack(got["value"])

    def version(self, key: str) -> str:
        return self.ask("get", key=key)["version"]

    def values(self, key: str) -> list[Any]:
        """All values of a key, the winner first."""
        entry = self.ask("entry", key=key)
        return [] if entry is None else [unpack(part["value"]) for part in (entry, *entry["siblings"])]

    def told(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def flow(self, blocked: bool) -> None:
        self.machine.step(AgentFlow(self.conn, blocked))

    def close(self) -> None:
        self.machine.step(AgentClosed(self.conn))
        self.machine.sessions.pop(self.conn, None)

    def received(self, data: bytes) -> None:
        for payload in FrameReader(AGENT_FRAME_BYTES_MAX).feed(data):
            request, status, content = unpack(payload)
            if status == 2:
                self.events += content
                self.frames.append(content)
            elif status == 3:
                self.points.append((request, *content))
            else:
                assert request not in self.replies, "a second reply to one request"
                self.replies[request] = (status, content)
