"""What turns bytes or text from outside into values: each must take it, or refuse it with an error of its own.

Nothing here has a daemon: an input costs some ten microseconds. :mod:`fuzz.workers` runs them in processes of their
own.
"""

from __future__ import annotations

import os
import random
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import msgpack
from crdtsyncd.config.model import load_config
from crdtsyncd.peers.websocket_frames import Splitter, whole_message
from websockets.frames import Frame, Opcode
from websockets.protocol import SERVER, State
from websockets.protocol import Protocol as Websocket

from crdtsync.causality import Dot, Hlc, Writer, flatten
from crdtsync.core.agents.frames import request_of
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.schemas import schema_of
from crdtsync.core.history.checkpoint_policies import policy_of
from crdtsync.core.history.checkpoints import record_of
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.reads.gone_since import packed_place, place_of
from crdtsync.core.storage.rows import DeadPlace
from crdtsync.errors import ConfigError, CrdtSyncError, InvalidEncoding, InvalidRequest
from crdtsync.wire.blobs import Manifest, manifest_of
from crdtsync.wire.change import Codec
from crdtsync.wire.codec import pack
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.invites import INVITE_PREFIX, Invite, decode_invite, encode_invite
from crdtsync.wire.invites import _check as check_of
from crdtsync.wire.patterns import check_pattern
from crdtsync.wire.peer.joining import Admitted, Challenge, Join, NotAdmitted, decode_join_message, encode_join_message
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.peer.snapshot import (
    DocumentPiece,
    EntryFields,
    Header,
    WriterRow,
    decode_part,
    encode_entries,
    encode_header,
    encode_pieces,
    encode_writers,
)
from crdtsync.wire.tokens import (
    Version,
    decode_dot,
    decode_token,
    decode_version,
    encode_dot,
    encode_token,
    encode_version,
)
from fuzz import session_files
from fuzz.messages import Chain, genuine_messages
from fuzz.mutation import Mutator, packed

Make = Callable[[random.Random], Callable[[], bytes]]
"""From a source of chance, a source of inputs."""


@dataclass(frozen=True)
class Decoder:
    """One way in. ``take`` raises one of ``refuses``, or returns; anything else is a find."""

    name: str
    make: Make
    take: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...]


def _trees(genuine: Callable[[random.Random], list[bytes]]) -> Make:
    """Inputs that are msgpack, mutated as trees and as bytes."""

    def make(rng: random.Random) -> Callable[[], bytes]:
        mutator = Mutator(rng)
        trees = [msgpack.unpackb(data, strict_map_key=False) for data in genuine(rng)]
        for tree in trees:
            mutator.learn(tree)
        return lambda: mutator.message(rng.choice(trees))

    return make


def _texts(genuine: Callable[[random.Random], list[str]]) -> Make:
    """Inputs that are text: characters and lines go, come twice, and are exchanged; what is packed inside, too."""

    def make(rng: random.Random) -> Callable[[], bytes]:
        mutator, texts = Mutator(rng), genuine(rng)

        def one() -> bytes:
            text = rng.choice(texts)
            for _ in range(rng.choice((0, 1, 1, 2, 5))):
                text = mutator.text(text)
            if rng.random() < 0.1:
                lines = text.split("\n")
                rng.shuffle(lines)
                text = "\n".join(lines * rng.choice((1, 1, 2)))
            data = text.encode(errors="surrogatepass")
            return mutator.octets(data) if rng.random() < 0.2 else data

        return one

    return make


# -- genuine examples --------------------------------------------------------------------------------------------------


def _dot(rng: random.Random) -> Dot:
    return Dot(Writer(rng.randrange(1, 2**53)), rng.randrange(1, 1000), rng.randrange(4))


def _places(rng: random.Random) -> list[bytes]:
    """Where a peer goes on that asks for what a checkpoint holds."""
    return [packed_place(place) for place in (DeadPlace("plan/goal", bytes(8), 7), (1, None), (2, _dot(rng)))]


def _snapshot_parts(rng: random.Random) -> list[bytes]:
    node = f"{rng.getrandbits(128):032x}"
    value = packed({"a": [1, "x"]})
    entries: list[Any] = [
        EntryFields(_dot(rng), f"k/{n}", None, 1, Hlc(n + 1), "fuzz", value, b"h" * 16, {"confidence": 0.5})
        for n in range(3)
    ]
    return [
        encode_header(Header(node, 5, 7, 2, 3, 1)),
        encode_writers([WriterRow(Writer(5), 6, bytes(16), (node, "name")), WriterRow(Writer(6), 6, bytes(16), None)]),
        encode_entries(entries),
        encode_pieces([DocumentPiece(_dot(rng), 10, b"0123456789"), DocumentPiece(_dot(rng), 0, b"")]),
    ]


def _join_messages(_: random.Random) -> list[bytes]:
    join = Join(b"i" * 16, b"c" * 300, "fuzzed", ("127.0.0.1:1",))
    return [
        encode_join_message(message)
        for message in (
            Challenge(b"n" * 32),
            join,
            Admitted(b"c" * 16, "0" * 32, {"0" * 32: {"name": "x"}}),
            NotAdmitted("code", "why"),
        )
    ]


def _requests(_: random.Random) -> list[bytes]:
    requests = [
        (1, "hello", {"protocol": 1, "client": bytes(16), "agent": "a", "space": "default"}),
        (2, "set", {"key": "k", "value": packed([1]), "n": 1, "seen": "v1.kA", "w": "majority", "timeout": 5}),
        (3, "batch", {"ops": [["set", {"key": "k", "value": packed(1)}], ["incr", {"key": "c"}]], "n": 2}),
    ]
    return [packed(list(request)) for request in requests]


def _tokens(rng: random.Random) -> list[str]:
    dots = [_dot(rng) for _ in range(3)]
    points = {dot.writer: dot.seq for dot in dots}
    return [
        encode_token([("default", 0, points)]), encode_token([("a", 1, {}), ("b", 2, points)]), encode_dot(dots[0]),
        encode_version(Version(tuple(dots), (), None, 7)), encode_version(Version(tuple(dots[:1]), (), points, 7)),
        "c1.", "v1.", "c1.kA", "before", "checkpoint:x",
    ]  # fmt: skip


def _invites(rng: random.Random) -> Callable[[], bytes]:
    """Also such as have a right checksum over what is wrong."""
    made = Invite(b"c" * 16, b"p" * 32, b"i" * 12, b"s" * 24, 10**13, ("10.0.0.1:7420", "[::1]:7420"))
    fields = [made.cluster, made.pin, made.invite, made.secret, made.expires_ms, list(made.addresses)]
    mutator, damaged = Mutator(rng), _texts(lambda _: [encode_invite(made), encode_invite(made)[:40]])(rng)
    mutator.learn(fields)

    def sealed() -> bytes:
        plain = mutator.message(fields)
        return (INVITE_PREFIX + urlsafe_b64encode(plain + check_of(plain)).decode().rstrip("=")).encode()

    return lambda: sealed() if rng.random() < 0.7 else damaged()


def _patterns(_: random.Random) -> list[str]:
    return ["a/b/c", "a/*/c", "**", "a/**/b", "*", "plan/**", "é/*"]


def _config(_: random.Random) -> list[str]:
    whole = """node_name = "node-1"
data_dir = "/tmp/x/1"
socket = "/tmp/x/1.sock"
listen = ["127.0.0.1:34865", "[::1]:1"]
advertise = ["host.example:7420"]
peers = ["ws://127.0.0.1:35743", "wss://host-a:7420"]
insecure_loopback = true
log_level = "info"
log_format = "json"
ballast_bytes = 8388608
log_bytes_max = 67108864
log_age_max = "7d"
history_age_max = "30d"
agents_max = 4096
mdns = false
metrics_listen = "127.0.0.1:9742"
"""
    return [whole, *whole.splitlines(), "[table]\nx = 1\n", 'join = "crdtsync-1.abc"\n', 'socket_mode = "0660"\n']


def _records(_: random.Random) -> list[bytes]:
    record = {"cut": [5, 6], "digest": bytes(16), "keys": 3, "note": "why", "prefixes": ["a/"], "policy": "often"}
    policy = {"prefixes": ["a/"], "every": 60_000, "keep": 24, "age": None}
    return [packed(record), packed(policy), Manifest(600_000, "0" * 64, "text/plain", "0" * 24).packed()]


def _changes(rng: random.Random) -> Callable[[], bytes]:
    mutator, chain = Mutator(rng), Chain(rng)
    return lambda: chain.next_body(mutator)


def _frames(rng: random.Random) -> Callable[[], bytes]:
    mutator = Mutator(rng)
    genuine = [len(each).to_bytes(4, "big") + each for each in _requests(rng)]
    return lambda: mutator.octets(b"".join(rng.choices(genuine, k=rng.randrange(1, 4))))


def _websocket_frames(rng: random.Random) -> Callable[[], bytes]:
    mutator = Mutator(rng)
    firsts = (0x82, 0x82, 0x82, 0x02, 0x80, 0x89, 0x88)

    def next_stream() -> bytes:
        frames = [Frame(Opcode(first & 15), rng.randbytes(rng.choice((0, 5, 125, 126, 300))), fin=first >= 0x80)
                  for first in rng.choices(firsts, k=rng.randrange(1, 5))]  # fmt: skip
        stream = b"".join(frame.serialize(mask=True) for frame in frames if len(frame.data) < 126 or frame.opcode < 8)
        return mutator.octets(stream) if rng.random() < 0.7 else stream

    return next_stream


def _schemas(rng: random.Random) -> Callable[[], bytes]:
    return _trees(lambda _: [packed({"policy": "max", "refuse_lower": True}), packed({"policy": "first"})])(rng)


# -- what takes them ---------------------------------------------------------------------------------------------------

_CODEC: Final = Codec(LOOPBACK_CLUSTER, "default", 0)


def _take_message(data: bytes) -> None:
    message = decode_message(data)
    if message is not None:
        again = decode_message(message.encode())
        assert again == message, "what was read is not what is written"


def _take_token(data: bytes) -> None:
    text = data.decode(errors="replace")
    wrong: InvalidRequest | None = None
    for decode in (decode_token, decode_version, decode_dot):
        try:
            found: Any = decode(text)
        except InvalidRequest as error:
            wrong = error
            continue
        if decode is decode_token:
            assert decode_token(encode_token([(name, *point) for name, point in found.items()])) == found
    if wrong is not None:
        raise wrong


def _take_config(data: bytes) -> None:
    path = Path(tempfile.gettempdir()) / f"csf{os.getpid()}.toml"
    path.write_bytes(data)
    try:
        load_config(path, {})
    finally:
        path.unlink()


def _take_frames(data: bytes) -> None:
    reader = FrameReader(1 << 20)
    for at in range(0, len(data), 7):
        for payload in reader.feed(data[at : at + 7]):
            request_of(payload)


def _take_websocket_frames(data: bytes) -> None:
    """As :class:`~crdtsyncd.peers.websocket_peer.Counted` does: a message is taken, the rest is the library's."""
    library, rest, splitter = Websocket(SERVER, max_size=1 << 16), Websocket(SERVER, max_size=1 << 16), Splitter()
    library.receive_data(data)
    expected = [bytes(event.data) for event in library.events_received() if isinstance(event, Frame)]
    splitter.split(b"\r\n\r\n")
    found: list[bytes] = []
    for at in range(0, len(data), 50):
        for piece, is_frame in splitter.split(data[at : at + 50]):
            is_open = rest.state is State.OPEN and rest.current_size is None
            message = whole_message(piece, is_masked=True) if is_frame and is_open else None
            if message is not None:
                found.append(message)
                continue
            rest.receive_data(piece)
            found += [bytes(event.data) for event in rest.events_received() if isinstance(event, Frame)]
    assert found == expected, "what the library reads"


def _take_schema(data: bytes) -> None:
    entry: Any = _Entry(data)
    schema_of("a/*", [entry])


def _take_record(data: bytes) -> None:
    """What a member has written under a reserved key, or as a blob: what is taken of it can be told to others."""
    manifest, entry = manifest_of(data), cast(Entry, _Entry(data))
    assert manifest is None or manifest_of(manifest.packed()) == manifest
    checkpoint, policy = record_of(entry), policy_of("often", [entry])
    if checkpoint is not None:
        pack([flatten(checkpoint.vector), checkpoint.note, checkpoint.keys, checkpoint.digest, *checkpoint.prefixes])
    if policy is not None:
        pack([policy.every_ms, policy.keep, policy.age_ms, *policy.prefixes])


class _Entry:
    """As much of an entry as a schema or a record is read from."""

    def __init__(self, value: bytes) -> None:
        self.value = value
        self.kind, self.sub, self.hlc, self.dot = 1, None, Hlc(1), Dot(Writer(1), 1, 0)
        self.key, self.order = "_checkpoint/x", (1, 1, 1, 0)


def _take_invite(data: bytes) -> None:
    found = decode_invite(data.decode(errors="replace"))
    assert decode_invite(encode_invite(found)) == found


DECODERS: Final = {
    decoder.name: decoder
    for decoder in (
        Decoder("messages", _trees(lambda rng: [packed(m) for m in genuine_messages(rng, "0" * 32)]), _take_message,
                (InvalidEncoding,)),
        Decoder("changes", _changes, _CODEC.decode, (InvalidEncoding,)),
        Decoder("snapshots", _trees(_snapshot_parts), decode_part, (InvalidEncoding,)),
        Decoder("join-messages", _trees(_join_messages), decode_join_message, (InvalidEncoding,)),
        Decoder("requests", _trees(_requests), request_of, (InvalidEncoding, InvalidRequest)),
        Decoder("framing", _frames, _take_frames, (InvalidEncoding, InvalidRequest)),
        Decoder("websocket-frames", _websocket_frames, _take_websocket_frames, ()),
        Decoder("tokens", _texts(_tokens), _take_token, (InvalidRequest,)),
        Decoder("invites", _invites, _take_invite, (InvalidRequest,)),
        Decoder("patterns", _texts(_patterns), lambda data: check_pattern(data.decode(errors="replace")),
                (InvalidRequest,)),
        Decoder("schemas", _schemas, _take_schema, (CrdtSyncError,)),
        Decoder("places", _trees(_places), place_of, (InvalidEncoding,)),
        Decoder("records", _trees(_records), _take_record, ()),
        Decoder("config", _texts(_config), _take_config, (ConfigError,)),
        Decoder("session-files", session_files.make, session_files.take, ()),
    )
}  # fmt: skip
