"""Genuine messages of the peer protocol, and a writer of changes that hang together."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

import msgpack
import pycrdt

from crdtsync.causality import Dot, Hlc, Writer
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.wire.change import NO_HASH, Change, Codec, Dep, Op, RemoveRange, value_hash
from crdtsync.wire.kinds import Kind
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.fields import Form, Number, Octets, Several, Words
from crdtsync.wire.peer.gossip import RESOLVERS
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.messages import MESSAGES
from crdtsync.wire.peer.snapshot import Header, WriterRow, encode_header, encode_writers, part_hash
from crdtsync.wire.peer.transfer import Part
from fuzz.mutation import Mutator, Tree, packed

SAMPLES = 2
"""Messages of each type that a fuzzer starts from."""


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
    """Messages of every type, as trees: first a HELLO that is taken, then some of each."""
    hello = Hello(
        node, "fuzzed", cluster, bytes(16), {"default": (0, {Writer(rng.randrange(1, 2**53)): (3, bytes(8))})}, 0,
        features=(RESOLVERS,),
    )  # fmt: skip
    sampler = Sampler(rng, node)
    classes = [cls for cls in MESSAGES.values() if cls is not Hello]
    messages: list[Message] = [hello, *(sampler.made(cls) for cls in classes for _ in range(SAMPLES))]
    return [msgpack.unpackb(message.encode()) for message in (*messages, *snapshot_messages(rng, node))]


class Sampler:
    """Makes messages from what their fields are declared to hold.

    Names, keys and patterns are of the few that the fuzzers' daemons have, so that what comes in concerns something.
    """

    def __init__(self, rng: random.Random, node: str) -> None:
        self._rng = rng
        self._words = {
            "space name": ("default",), "key": ("p/1", "p/**", "**"), "node id": (node, "0" * 32), "name": ("fuzzed",),
            "short string": ("fork", "resolvers"), "reason": ("a reason",), "every space": ("",),
        }  # fmt: skip

    def made(self, cls: type[Any]) -> Any:
        """A message, or a record in one."""
        hints = get_type_hints(cls, include_extras=True)
        return cls(**{name: self._value(hint) for name, hint in hints.items() if get_origin(hint) is not ClassVar})

    def _value(self, hint: Any, least: int = 0) -> Any:
        rng, origin, inner = self._rng, get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._of_form(inner[0], inner[1])
        if origin is Union:
            return self._value(rng.choice(inner))
        if origin is tuple and inner[-1] is not Ellipsis:
            return tuple(self._value(one) for one in inner)
        items = range(max(least, rng.randrange(3)))
        if origin is Mapping:
            return {self._value(inner[0]): self._value(inner[1]) for _ in items}
        if origin in (list, tuple, frozenset):
            return origin(self._value(inner[0]) for _ in items)
        return rng.random() < 0.5 if hint is bool else self.made(hint)

    def _of_form(self, plain: Any, form: Form | Several) -> Any:
        rng = self._rng
        if isinstance(form, Several):
            return self._value(plain, form.least)
        if isinstance(form, Number):
            return rng.choice((0, 1, 5, form.highest)) if form.name != "epoch" else 0
        if isinstance(form, Octets):
            return rng.randbytes(max(form.least, min(form.most, 8 * rng.randrange(4))))
        if isinstance(form, Words):
            return rng.choice(self._words[form.name])
        flat = {
            "version vector": {Writer(5): 6},
            "frontier": {Writer(5): (6, bytes(8))},
            "points": {6: bytes(8)},
            "entry": ("p/1", Dot(Writer(5), 6, 0)),
        }
        return flat[form.name]


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
