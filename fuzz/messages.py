"""Genuine messages of the peer protocol, and a writer of changes that hang together."""

from __future__ import annotations

import random
import time
from typing import Any

import msgpack
import pycrdt

from crdtsync.causality import Dot, Hlc, Writer
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.wire.change import NO_HASH, Change, Codec, Dep, Kind, Op, RemoveRange, value_hash
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.changes import Ack, Changes, SpaceAck, Stop, Want
from crdtsync.wire.peer.comparing import Digests, Removed
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Links
from crdtsync.wire.peer.probes import Probe, Probed
from crdtsync.wire.peer.resolvers import HandledKey, ResolvedPattern, Resolvers
from crdtsync.wire.peer.snapshot import Header, WriterRow, encode_header, encode_writers, part_hash
from crdtsync.wire.peer.transfer import Offer, Part, Take
from fuzz.mutation import Mutator, Tree, packed


def yjs(text: str, client_id: int = 5) -> bytes:
    """A Yjs update that inserts a text."""
    doc: Any = pycrdt.Doc(client_id=client_id)
    doc["text"] = content = pycrdt.Text()
    content += text
    return bytes(doc.get_update())


class Chain:
    """A writer whose changes hang together, so that mutated ones among them are applied and not only refused."""

    def __init__(self, rng: random.Random, cluster: bytes = LOOPBACK_CLUSTER, space: str = "default") -> None:
        self.rng = rng
        self.space = space
        self.codec = Codec(cluster, space, 0)
        self.writer = Writer(rng.randrange(1, 2**53))
        self.seq = 0
        self.prev = NO_HASH

    def ops(self) -> list[Op]:
        """A genuine change's operations."""
        rng = self.rng
        key = f"p/{rng.randrange(20)}"
        dots = tuple(Dot(self.writer, max(1, self.seq - i), 0) for i in range(rng.randrange(4)))
        value = packed([rng.randrange(100)])
        marker = packed([None, yjs("peer", rng.randrange(1, 2**31))])
        attrs = rng.choice((None, {"ttl": 1000}, {"meta": value}))
        seq = max(1, self.seq)
        trimmed = RemoveRange({self.writer: seq}, (2**60, self.writer, seq, 5))
        return [
            Op(key, None, Kind.REGISTER, value, value_hash(value), dots, attrs),
            Op(f"{key}/log", None, Kind.LOG, value, value_hash(value), (), None),
            Op(f"{key}/text", None, Kind.TEXT, marker, value_hash(marker), (), None),
            Op(f"{key}/log", None, Kind.LOG, None, None, trimmed, None),
        ]  # fmt: skip

    def next_body(self, mutator: Mutator) -> bytes:
        """The next change, in bytes; often worse than genuine."""
        deps = (Dep(Writer(77), 1, bytes(8)),) if self.rng.random() < 0.05 else ()
        hlc = Hlc(int(time.time() * 1000) << 16)
        origin = ("f" * 32, "fuzzed") if self.seq == 0 else None
        ops = tuple(self.rng.sample(self.ops(), self.rng.randint(1, 4)))
        change = self.codec.encode(
            Change(self.writer, self.seq + 1, deps, self.prev, hlc, "fuzz", b"i" * 16, ops, origin)
        )
        body = change.body
        if self.rng.random() < 0.6:
            header, *values = msgpack.unpackb(body)
            fields = msgpack.unpackb(header, strict_map_key=False)
            if self.rng.random() < 0.5:
                fields[8] = mutator.tree(fields[8], self.rng.choice((1, 1, 2)))
            elif self.rng.random() < 0.5:
                fields = mutator.tree(fields, 1)
            else:
                values = mutator.tree(values, 1)
            body = packed([packed(fields), *values] if isinstance(values, list) else [packed(fields), values])
        try:
            made = self.codec.decode(body)
        except ValueError:
            return body
        if (made.writer, made.seq, made.prev_hash) == (self.writer, self.seq + 1, self.prev) and not made.deps:
            self.seq, self.prev = made.seq, made.hash
        return body


def genuine_messages(rng: random.Random, node: str, cluster: bytes = LOOPBACK_CLUSTER) -> list[Tree]:
    """Messages of every type, as trees."""
    introduction: dict[str, Any] = {
        "node": node, "name": "fuzzed", "cluster": cluster, "database": bytes(16), "time_ms": 0,
        "spaces": {"default": (0, {Writer(rng.randrange(1, 2**53)): (3, bytes(8))})}, "features": ("resolvers",),
    }  # fmt: skip
    messages: list[Message] = [
        Hello(**introduction),
        Ack(0, [SpaceAck("default", 0, {Writer(5): 6}, bytes(8), bytes(16))]),
        Want("default", 0, {}),
        Want("default", 0, {Writer(5): (6, bytes(8))}),
        Links(frozenset({node, "0" * 32})),
        Stop("default", "fork", "a reason"),
        Resolvers(node, (ResolvedPattern("default", "p/**", 1000),), (HandledKey("default", "p/1", 1),)),
        Resolvers("0" * 32, (ResolvedPattern("default", "**", 1),), (HandledKey("default", "p/1", 0),)),
        Changes("default", 0, [b"\x91\xc4\x00"]),
        Offer("default", 0),
        Take("default", 0, b"", 0),
        Take("default", 0, bytes(16), 1),
        Probe(5),
        Probed(5, 10**12),
        Digests("default", 0, bytes(8), bytes(16), bytes(16)),
        Removed("default", 0, [("k", Dot(Writer(5), 6, 0))]),
        *snapshot_messages(rng, node),
    ]
    return [msgpack.unpackb(message.encode()) for message in messages]


def snapshot_messages(rng: random.Random, node: str) -> list[Message]:
    """The first parts of a snapshot that somebody might have asked for."""
    name = rng.randbytes(16)
    parts = [
        encode_header(Header(node, 1, 0, 1, 0, 0)),
        encode_writers([WriterRow(Writer(5), 6, bytes(16), (node, "fuzzed"))]),
    ]
    return [
        Part("default", 0, name, number, data, part_hash(name, number, data), number == len(parts) - 1)
        for number, data in enumerate(parts)
    ]
