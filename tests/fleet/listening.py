"""Everything that hosts, or a host and a stranger, say to each other, written down line by line.

    x -> a  CHANGES default 77:3
    a       holds {}, 1 at the gate

What is written down is all that was said, so that a message too many shows as well as one that is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.changes import Ack, Changes
from crdtsync.wire.peer.gossip import Resolvers
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Links
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.peer.transfer import Offer, Part, Take
from tests.fleet.fleet import CODEC, Fleet
from tests.fleet.host import Host
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


class Overhearing:
    """All that the hosts of a fleet say to each other, in the order in which they say it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.lines: list[str] = []
        fleet.hearing.append(self._hear)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def note(self, text: str) -> None:
        """What happens now, as a heading of what is said then."""
        self.lines += [*([""] if self.lines else []), f"# {text}"]

    def ends(self, text: str) -> None:
        """What has come of it."""
        self.lines.append(f"= {text}")

    def _hear(self, sender: Host, receiver: Host, data: bytes) -> None:
        nodes = {machine.node.identity.node: name for name, machine in self.fleet.machines.items()}
        self.lines.append(f"{sender.name} -> {receiver.name}  {shown(decode_message(data), nodes)}")


def shown(message: Any, nodes: Mapping[str, str] | None = None) -> str:
    """A message in a line: its name, and what of it does not depend on hashes; ``nodes`` are names of hosts by id."""
    name = type(message).__name__.upper()
    names = nodes or {}

    def listed(some: Iterable[str]) -> str:
        return ", ".join(sorted(names.get(node, node) for node in some)) or "none"

    match message:
        case Hello(name=who, spaces=spaces):
            held = {space: {writer: head[0] for writer, head in at[1].items()} for space, at in spaces.items()}
            return f"{name} {who} {held}"
        case Changes(space=space, bodies=bodies):
            changes = [CODEC.decode(body) for body in bodies]
            return " ".join([name, space, *(f"{change.writer}:{change.seq}" for change in changes)])
        case Ack(received_bytes=received, spaces=spaces):
            parts = [f"{each.space} {each.vector}" + " with a digest" * bool(each.digest) for each in spaces]
            if nodes is None:  # else how many bytes depends on how well parts of snapshots are compressed
                parts.append(f"received={received}")
            return " ".join([name, *parts])
        case Links(nodes=linked) if nodes is not None:
            return f"{name} {listed(linked)}"
        case Offer(space=space):
            return f"{name} {space}"
        case Take(space=space, snapshot=snapshot, part=part):
            return f"{name} {space} {'the same' if snapshot else 'a new one'} from part {part}"
        case Part(space=space, part=part, is_last=is_last):
            return f"{name} {space} {part}" + ", the last" * is_last
        case Resolvers(node=node, patterns=patterns, keys=keys):
            settles = [one.pattern for one in patterns]
            at_work = [f"{one.key}, {one.asked} asked" for one in keys]
            return f"{name} of {listed([node])}: settle {settles}, at work on {at_work}"
    return name
