"""Everything that a host and a stranger say to each other, written down line by line.

    x -> a  CHANGES default 77:3
    a       holds {}, 1 at the gate

What is written down is all that was said, so that a message too many shows as well as one that is missing.
"""

from __future__ import annotations

from typing import Any

from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.changes import Ack, Changes
from crdtsync.wire.peer.hello import Hello
from tests.fleet.fleet import CODEC
from tests.fleet.stranger import Stranger


class Listening:
    """A stranger whose talk with its host is written down."""

    def __init__(self, stranger: Stranger, name: str = "x") -> None:
        self.stranger = stranger
        self.name = name
        self.lines: list[str] = []
        self.listen()

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def say(self, *messages: Message, why: str = "") -> None:
        """Say it, and write down what the host answers and what it holds then."""
        for message in messages:
            self._write(self.name, self._host.name, shown(message), why)
            self.stranger.say(message)
        self.listen()

    def pass_time(self, seconds: float) -> None:
        self.lines.append(f"+{seconds * 1000:.0f} ms")
        self._host.fleet.pass_time(seconds)
        self.listen()

    def listen(self) -> None:
        host = self._host
        for message in self.stranger.heard():
            self._write(host.name, self.name, shown(message), "")
        gate = len(host.replica.gate)
        alarms = "".join(f", alarm {code}" for code in sorted(host.alarms))
        self.lines.append(f"{host.name:8}holds {host.replica.vector}" + f", {gate} at the gate" * bool(gate) + alarms)

    @property
    def _host(self) -> Any:
        return self.stranger.machine

    def _write(self, one: str, other: str, said: str, why: str) -> None:
        self.lines.append(f"{f'{one} -> {other}':8}{said}" + (f"  # {why}" if why else ""))


def shown(message: Any) -> str:
    """A message in a line: its name, and what of it does not depend on hashes."""
    name = type(message).__name__.upper()
    match message:
        case Hello(name=who, spaces=spaces):
            held = {space: {writer: head[0] for writer, head in at[1].items()} for space, at in spaces.items()}
            return f"{name} {who} {held}"
        case Changes(space=space, bodies=bodies):
            changes = [CODEC.decode(body) for body in bodies]
            return " ".join([name, space, *(f"{change.writer}:{change.seq}" for change in changes)])
        case Ack(received_bytes=received, spaces=spaces):
            parts = [f"{each.space} {each.vector}" + " with a digest" * bool(each.digest) for each in spaces]
            return " ".join([name, *parts, f"received={received}"])
    return name
