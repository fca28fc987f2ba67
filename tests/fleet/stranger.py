"""A peer that the test plays itself, message by message."""

from __future__ import annotations

from typing import Any

from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.interface import PeerClosed, PeerFrame, PeerOpened
from crdtsync.wire.change import Change
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.changes import Changes
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.messages import decode_message
from tests.fleet.clock import START_MS
from tests.fleet.host import Host


class Stranger:
    """A peer that the test plays itself, connected to one machine."""

    def __init__(self, machine: Host, node: str = "stranger", hello: bool = True, **fields: Any) -> None:
        self.machine = machine
        self.conn = machine.fleet.new_conn()
        self.waiting: list[bytes] = []
        self.reason: str | None = None
        machine.wires[self.conn] = self
        machine.step(PeerOpened(self.conn, "ws://stranger", False))
        if hello:
            usual: dict[str, Any] = {"name": "stranger", "spaces": {"default": (0, {})}, "time_ms": START_MS}
            self.say(Hello(node, cluster=LOOPBACK_CLUSTER, database=b"d" * 16, **(usual | fields)))
            machine.turn()

    def put(self, sender: Host, data: bytes) -> None:
        self.waiting.append(data)

    def close(self, reason: str = "cut") -> None:
        if self.reason is None:
            self.reason = reason
            del self.machine.wires[self.conn]
            self.machine.step(PeerClosed(self.conn, reason))

    def say(self, message: Message | bytes) -> None:
        data = message if isinstance(message, bytes) else message.encode()
        self.machine.step(PeerFrame(self.conn, data))

    def send(self, *changes: Change) -> None:
        """Send changes, and have them committed."""
        self.say(Changes("default", 0, [change.body for change in changes]))
        self.machine.turn()

    def heard(self, kind: type = object) -> list[Any]:
        """What the machine has said since the last call."""
        self.machine.turn()
        messages = [decode_message(data) for data in self.waiting]
        self.waiting.clear()
        return [message for message in messages if isinstance(message, kind)]
