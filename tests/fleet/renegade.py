"""A member of the cluster that keeps to no rule, played by the test: it writes whatever it likes, in any space."""

from __future__ import annotations

from typing import Any

from crdtsync.causality import Dot, Hlc, Writer
from crdtsync.core.crdt.entries import DIGEST_MODULUS
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.wire.change import NO_HASH, Change, Codec, Dep, Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CLUSTER_SPACE
from crdtsync.wire.peer.changes import Changes
from crdtsync.wire.peer.messages import FEATURES
from crdtsync.wire.peer.probes import PROBES
from crdtsync.wire.peer.snapshot import (
    Header,
    WriterRow,
    encode_entries,
    encode_header,
    encode_writers,
    part_hash,
)
from crdtsync.wire.peer.transfer import Offer, Part
from tests.fleet.clock import START_MS
from tests.fleet.host import Host
from tests.fleet.stranger import Stranger

SNAPSHOT = b"mad snapshot 001"


def put(key: str, value: bytes, removes: tuple[Dot, ...] = (), **fields: Any) -> Op:
    """A register's value, as packed bytes, in place of others."""
    usual: dict[str, Any] = {"sub": None, "kind": int(Kind.REGISTER), "attrs": None}
    return Op(key=key, value=value, value_hash=value_hash(value), removes=removes, **(usual | fields))


def delete(key: str, removes: tuple[Dot, ...]) -> Op:
    return Op(key, None, int(Kind.REGISTER), None, None, removes, None)


class Renegade(Stranger):
    """Its changes are one chain in each space."""

    def __init__(self, machine: Host, node: str = "renegade", writer: int = 666) -> None:
        spaces: dict[str, Any] = {"default": (0, {}), CLUSTER_SPACE: (0, {})}
        features = tuple(feature for feature in FEATURES if feature != PROBES)  # it would have to answer them
        super().__init__(machine, node, spaces=spaces, features=features)
        self.node = node
        self.writer = Writer(writer)
        self._heads: dict[str, tuple[int, bytes]] = {}

    def make(self, space: str, *ops: Op, hlc: int | None = None, deps: tuple[Dep, ...] = ()) -> Change:
        """Its next change, not sent."""
        seq, prev_hash = self._heads.get(space, (0, NO_HASH))
        time = Hlc(START_MS << 16) if hlc is None else Hlc(hlc)
        origin = (self.node, self.node) if seq == 0 else None
        change = Change(self.writer, seq + 1, deps, prev_hash, time, "mad", None, ops, origin)
        change = Codec(LOOPBACK_CLUSTER, space, 0).encode(change)
        self._heads[space] = change.seq, change.hash
        return change

    def write(self, space: str, *ops: Op, hlc: int | None = None) -> Change:
        """Make a change and send it, and have it committed."""
        change = self.make(space, *ops, hlc=hlc)
        self.say(Changes(space, 0, [change.body]))
        self.machine.turn()
        return change

    def held(self, key: str, space: str = CLUSTER_SPACE) -> tuple[Dot, ...]:
        """What the machine holds of a key: what a change removes to take all of it away."""
        return tuple(entry.dot for entry in self.machine.node.replicas[space].entries.held(key))

    def take_away(self, key: str) -> None:
        """Delete a record of the cluster."""
        self.write(CLUSTER_SPACE, delete(key, self.held(key)))

    def overwrite(self, key: str, record: object) -> None:
        """Write something else in place of a record of the cluster."""
        self.write(CLUSTER_SPACE, put(key, pack(record), self.held(key)))

    def snapshot(self, space: str, writers: list[WriterRow], entries: list[Entry]) -> None:
        """Offer a snapshot of its own making, give all of it, and have it looked at."""
        self.say(Offer(space, 0))
        self.machine.turn()
        digest = sum(entry.digest for entry in entries) % DIGEST_MODULUS
        header = Header(self.node, START_MS << 16, digest, len(writers), len(entries), 0)
        parts = [encode_header(header), encode_writers(writers)] + ([encode_entries(entries)] if entries else [])
        for number, data in enumerate(parts):
            checksum, is_last = part_hash(SNAPSHOT, number, data), number == len(parts) - 1
            self.say(Part(space, 0, SNAPSHOT, number, data, checksum, is_last))
            self.machine.turn()

    def heads(self, space: str, beyond: int = 0) -> list[WriterRow]:
        """The heads of all writers that the machine knows, so far beyond what they are."""
        replica = self.machine.node.replicas[space]
        return [
            WriterRow(writer, seq + beyond, b"!" * 16 if beyond else replica.hashes[writer], None)
            for writer, seq in sorted(replica.vector.items())
        ]
