"""Each message between peers, and each request of an agent, at its worst: what takes the most memory of all that the
decoder lets through. ``tests/integration/test_memory.py`` fails for a message that is not in the table here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgpack

from crdtsync.causality import SEQ_MAX, WRITER_MAX, Dot, Hlc, Writer
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.wire.change import NO_HASH, Change, Codec, Dep, Op, RemoveRange, value_hash
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import (
    AGENT_FRAME_BYTES_MAX,
    CHANGE_DEPS_MAX,
    KEY_BYTES_MAX,
    MESSAGE_ITEMS_MAX,
    NAME_CHARS_MAX,
    PEER_FRAME_BYTES_MAX,
    REQUEST_ITEMS_MAX,
)
from crdtsync.wire.peer import meshing
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.changes import Ack, Changes, SpaceAck, Stop, Want
from crdtsync.wire.peer.comparing import (
    CHAIN_POINTS_MAX,
    REMOVED_ENTRIES_MAX,
    SAMPLE_ENTRIES_MAX,
    SAMPLE_WRITERS_MAX,
    Chain,
    Digests,
    Removed,
    Sample,
    Sampled,
)
from crdtsync.wire.peer.gossip import (
    ALARMS_TOLD_MAX,
    CARD_BYTES_MAX,
    CARDS_TOLD_MAX,
    Cards,
    HandledKey,
    Health,
    ResolvedPattern,
    Resolvers,
    ToldAlarm,
    ToldCard,
)
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Ask, Asked, Held, Holding, Links, Reached, Relays
from crdtsync.wire.peer.probes import Probe, Probed
from crdtsync.wire.peer.transfer import Offer, Part, Take
from crdtsync.wire.peer.values import PLACE_BYTES_MAX, SPOILT_ENTRIES_MAX, UNTOLD_MAX, Intact, Recall, Recalled, Spoilt
from crdtsync.wire.peer.votes import ASK, VOTERS_MAX, KnownVoter, Vote, Voted
from crdtsync.wire.requests import ARGUMENTS, REQUESTS, WRITE_ARGUMENTS

SPACE = "default"
_CODEC = Codec(LOOPBACK_CLUSTER, SPACE, 0)
_numbers = count(1)

Maker = Callable[[], Iterator[bytes]]


def writers(many: int) -> list[Writer]:
    """So many that nobody has heard of."""
    return [Writer(WRITER_MAX - next(_numbers)) for _ in range(many)]


def names(many: int) -> list[str]:
    """So many names of nodes, as long as they may be."""
    return [f"{next(_numbers):x}".rjust(NAME_CHARS_MAX, "n") for _ in range(many)]


def change(writer: Writer, seq: int, *ops: Op, deps: tuple[Dep, ...] = ()) -> bytes:
    """A change that is well formed, whether it can be applied or not."""
    origin = ("0" * 32, "stranger") if seq == 1 else None
    plain = Change(writer, seq, deps, NO_HASH, Hlc(1 << 40), "worst", None, ops, origin)
    return _CODEC.encode(plain).body


def put(key: str, **fields: Any) -> Op:
    """The smallest operation there is."""
    usual: dict[str, Any] = {
        "sub": None, "kind": Kind.REGISTER, "value": b"\xc0", "value_hash": value_hash(b"\xc0"), "removes": (),
        "attrs": None,
    }  # fmt: skip
    return Op(key=key, **(usual | fields))


def hello(node: str, **fields: Any) -> Hello:
    """As one whom the test plays says who it is."""
    usual: dict[str, Any] = {
        "node": node, "name": "worst", "cluster": LOOPBACK_CLUSTER, "database": bytes(16), "spaces": {SPACE: (0, {})},
        "time_ms": 0,
    }  # fmt: skip
    return Hello(**(usual | fields))


def _hellos() -> Iterator[bytes]:
    while True:
        frontier = {writer: (SEQ_MAX, os.urandom(8)) for writer in writers(CHANGE_DEPS_MAX)}
        yield hello(names(1)[0], spaces={SPACE: (0, frontier)}).encode()


def _empty_lists() -> Iterator[bytes]:
    """One byte each on the wire, and 64 in memory."""
    items = MESSAGE_ITEMS_MAX - 3
    while True:
        yield b"\x92\x05\xdd" + struct.pack(">I", items) + b"\x90" * items


def _early() -> Iterator[bytes]:
    """Small changes of writers that nobody knows, each waiting for its own first."""
    while True:
        yield Changes(SPACE, 0, [change(writer, 2, put("k")) for writer in writers(256)]).encode()


def _early_with_deps() -> Iterator[bytes]:
    while True:
        deps = tuple(sorted(Dep(writer, 1, bytes(8)) for writer in writers(20_000)))
        yield Changes(SPACE, 0, [change(writers(1)[0], 2, put("k"), deps=deps)]).encode()


def _early_with_attributes() -> Iterator[bytes]:
    attrs: dict[str, Any] = {"x": [[]] * 100_000}
    while True:
        yield Changes(SPACE, 0, [change(writers(1)[0], 2, put("k", attrs=attrs))]).encode()


def _early_with_removals() -> Iterator[bytes]:
    while True:
        dots = tuple(Dot(writer, 1, 0) for writer in writers(50_000))
        vector = dict.fromkeys(writers(50_000), 1)
        ops = put("k", removes=dots), put("l", removes=RemoveRange(vector))
        yield Changes(SPACE, 0, [change(writers(1)[0], 2, *ops)]).encode()


def _acks() -> Iterator[bytes]:
    while True:
        yield Ack(0, [SpaceAck(SPACE, 0, dict.fromkeys(writers(50_000), SEQ_MAX))]).encode()


def _wants() -> Iterator[bytes]:
    while True:
        yield Want(SPACE, 0, {writer: (SEQ_MAX, os.urandom(8)) for writer in writers(CHANGE_DEPS_MAX)}).encode()


def _links() -> Iterator[bytes]:
    while True:
        yield Links(frozenset(names(meshing.LINKS_MAX))).encode()


def _stops() -> Iterator[bytes]:
    while True:
        yield Stop(SPACE, names(1)[0], "x" * (PEER_FRAME_BYTES_MAX // 2)).encode()


def _parts() -> Iterator[bytes]:
    while True:
        yield Part(SPACE, 0, os.urandom(16), 0, bytes(PEER_FRAME_BYTES_MAX - 200), bytes(8), False).encode()


def _resolvers() -> Iterator[bytes]:
    while True:
        node = names(1)[0]
        keys = tuple(HandledKey(SPACE, f"{next(_numbers)}".rjust(1000, "k"), 1) for _ in range(256))
        patterns = tuple(ResolvedPattern(SPACE, f"{next(_numbers)}".rjust(1000, "p"), 1000) for _ in range(256))
        yield Resolvers(node, patterns, keys).encode()


def _relays() -> Iterator[bytes]:
    while True:
        yield Relays(False, {"": frozenset(names(5_000)), SPACE: frozenset(names(5_000))}).encode()


def _asks() -> Iterator[bytes]:
    while True:
        yield Ask(names(1)[0], next(_numbers), (Asked(SPACE, 0, tuple(writers(256))),)).encode()


def _holdings() -> Iterator[bytes]:
    """About a question of their own, and one of the node's that it did not ask."""
    asker = names(1)[0]
    while True:
        asked = tuple(writers(16))
        yield Ask(asker, next(_numbers), (Asked(SPACE, 0, asked),)).encode()
        held = [Held(SPACE, 0, node, "worst", bytes(16), dict.fromkeys(asked, 1)) for node in names(10_000)]
        yield Holding(asker, tuple(held)).encode()


def _reached() -> Iterator[bytes]:
    while True:
        yield Reached(dict.fromkeys(names(meshing.REACHED_NODES_MAX), 2)).encode()


def _removed() -> Iterator[bytes]:
    while True:
        dots = [("k" * 1024, Dot(writer, 1, 0)) for writer in writers(REMOVED_ENTRIES_MAX)]
        yield Removed(SPACE, 0, dots).encode()


def _healths() -> Iterator[bytes]:
    while True:
        alarms = tuple(ToldAlarm(code, SEQ_MAX) for code in names(ALARMS_TOLD_MAX))
        node, version, state = names(3)
        yield Health(node, SEQ_MAX, version, state, SEQ_MAX, SEQ_MAX, alarms).encode()


def _samples() -> Iterator[bytes]:
    while True:
        vector = dict.fromkeys(writers(SAMPLE_WRITERS_MAX), SEQ_MAX)
        entries = [("k" * 1024, Dot(writer, 1, 0)) for writer in writers(SAMPLE_ENTRIES_MAX)]
        yield Sample(SPACE, 0, os.urandom(16), vector, entries).encode()


def _chains() -> Iterator[bytes]:
    """Of writers that nobody knows: as many points as there may be, or the longest body."""
    while True:
        points = {seq: os.urandom(8) for seq in range(1, CHAIN_POINTS_MAX + 1)}
        yield Chain(SPACE, 0, writers(1)[0], points).encode()
        yield Chain(SPACE, 0, writers(1)[0], {1: os.urandom(8)}, bytes(PEER_FRAME_BYTES_MAX - 200)).encode()


def _cards() -> Iterator[bytes]:
    """All that a node may show, of one node after the other."""
    while True:
        node = names(1)[0]
        keys = [f"{next(_numbers)}".rjust(1000, "k") for _ in range(CARDS_TOLD_MAX)]
        cards = tuple(ToldCard(SPACE, key, "worst", bytes(CARD_BYTES_MAX)) for key in keys)
        yield Cards(node, node, SEQ_MAX, cards).encode()


def _of(make: Callable[[int], Message]) -> Maker:
    """Many small ones, that differ in a number."""
    return lambda: (make(next(_numbers)).encode() for _ in count())


def _named(count: int) -> list[tuple[str, Dot]]:
    """Entries of keys as long as a key may be."""
    return [(os.urandom(KEY_BYTES_MAX // 2).hex(), Dot(writer, SEQ_MAX, 0)) for writer in writers(count)]


def _spoilts() -> Iterator[bytes]:
    while True:
        yield Spoilt(SPACE, 0, _named(SPOILT_ENTRIES_MAX)).encode()


def _intacts() -> Iterator[bytes]:
    """Of values that nobody has asked for."""
    values = [bytes(PEER_FRAME_BYTES_MAX // (2 * SPOILT_ENTRIES_MAX))] * SPOILT_ENTRIES_MAX
    while True:
        yield Intact(SPACE, 0, _named(SPOILT_ENTRIES_MAX), values).encode()


def _recalls() -> Iterator[bytes]:
    """Of checkpoints that nobody has made, at the longest places."""
    while True:
        yield Recall(SPACE, 0, _named(1)[0], os.urandom(PLACE_BYTES_MAX)).encode()


def _recalleds() -> Iterator[bytes]:
    """Of what nobody has asked for."""
    data, untold = bytes(PEER_FRAME_BYTES_MAX // 2), [key for key, _ in _named(UNTOLD_MAX)]
    while True:
        yield Recalled(SPACE, 0, _named(1)[0], os.urandom(PLACE_BYTES_MAX), data, b"", untold).encode()


def _votes() -> Iterator[bytes]:
    """Of claims that nobody else knows, with the highest ballots."""
    for number in count(1):
        key = os.urandom(KEY_BYTES_MAX // 2).hex()
        yield Vote(number, bytes(16), ASK, key, os.urandom(16), SEQ_MAX, SEQ_MAX, "worst", os.urandom(16)).encode()


def _voteds() -> Iterator[bytes]:
    """Answers to what nobody has asked."""
    known = tuple(KnownVoter(name, os.urandom(16)) for name in names(VOTERS_MAX))
    for number in count(1):
        yield Voted(number, 1, SEQ_MAX, SEQ_MAX, "x" * 1000, os.urandom(16), known).encode()


WORST: dict[type[Message], tuple[Maker, ...]] = {
    Hello: (_hellos,),
    Changes: (_early, _early_with_deps, _early_with_attributes, _early_with_removals),
    Ack: (_acks,),
    Want: (_wants,),
    Links: (_links, _empty_lists),
    Stop: (_stops,),
    Offer: (_of(lambda _number: Offer(SPACE, 0)),),
    Take: (_of(lambda number: Take(SPACE, 0, struct.pack(">QQ", 0, number), number)),),
    Part: (_parts,),
    Resolvers: (_resolvers,),
    Probe: (_of(Probe),),
    Probed: (_of(lambda number: Probed(number, number)),),
    Relays: (_relays,),
    Ask: (_asks,),
    Holding: (_holdings,),
    Reached: (_reached,),
    Digests: (_of(lambda number: Digests(SPACE, 0, struct.pack(">Q", number), bytes(16), bytes(16))),),
    Removed: (_removed,),
    Health: (_healths,),
    Sample: (_samples,),
    Chain: (_chains,),
    Cards: (_cards,),
    Spoilt: (_spoilts,),
    Intact: (_intacts,),
    Recall: (_recalls,),
    Recalled: (_recalleds,),
    Vote: (_votes,),
    Voted: (_voteds,),
    Sampled: (_of(lambda number: Sampled(SPACE, 0, struct.pack(">QQ", 0, number), True, number, True)),),
}


def worst_requests(name: str) -> Iterator[bytes]:
    """A request with as much in each of its arguments as a frame holds: lists, bytes, text, maps."""
    arguments = sorted(REQUESTS[name].arguments | ARGUMENTS | WRITE_ARGUMENTS.keys())
    items = REQUEST_ITEMS_MAX // (2 * len(arguments) + 1)
    size_bytes = (AGENT_FRAME_BYTES_MAX - 4096) // len(arguments) - 64
    contents: tuple[Any, ...] = (
        [[]] * items, bytes(size_bytes), "x" * size_bytes, {str(at): {} for at in range(items // 2)},
    )  # fmt: skip
    known = {"key": "worst", "n": 1, "space": "default", "agent": "worst", "timeout": 100}
    for content in contents:
        for right in ((), known, (*known, "need")):
            made = {each: known.get(each) if each in right else content for each in arguments}
            yield msgpack.packb([7, name, {each: value for each, value in made.items() if value is not None}])
