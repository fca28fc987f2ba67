"""One of everything that goes over a wire or to a disk, made of fixed parts: the same bytes every time."""

from __future__ import annotations

from typing import Any

from crdtsync.causality import Dot, Hlc, Writer
from crdtsync.errors import Timeout, VersionMismatch, to_wire
from crdtsync.wire.change import NO_HASH, Change, Codec, Dep, Op, RemoveRange, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.framing import frame
from crdtsync.wire.kinds import Kind
from crdtsync.wire.peer.changes import Ack, Changes, SpaceAck, Stop, Want
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Links
from crdtsync.wire.tokens import Version, encode_dot, encode_token, encode_version

CLUSTER = bytes(range(16))
CODEC = Codec(CLUSTER, "default", 0)
ANN, BOB = Writer(1234567890123456), Writer(77)
HLC = Hlc(1_800_000_000_000 << 16)
TEXT_UPDATE = bytes.fromhex("0101b9600004010474657874026869" + "00")


def _put(key: str, value: object, **others: Any) -> Op:
    packed = pack(value)
    return Op(key, None, Kind.REGISTER, packed, value_hash(packed), (), None)._replace(**others)


def _change(seq: int, *ops: Op, **others: Any) -> Change:
    parts: dict[str, Any] = {
        "writer": ANN,
        "seq": seq,
        "deps": (),
        "prev_hash": NO_HASH if seq == 1 else bytes(range(100, 116)),
        "hlc": Hlc(HLC + seq),
        "agent": "researcher-1",
        "idempotency": bytes(8) + seq.to_bytes(8, "big"),
        "ops": ops,
        "origin": None,
    }
    return CODEC.encode(Change(**{**parts, **others}))


def changes() -> dict[str, Change]:
    """Every shape of operation and every field of a change."""
    text = pack([None, TEXT_UPDATE])
    edit = pack([[int(ANN), 4, 0], TEXT_UPDATE])
    made = {
        "put, first of its writer": _change(
            1, _put("plan/goal", {"text": "ship", "n": 1}), origin=("0" * 32, "host-a")
        ),
        "put that removes dots": _change(2, _put("plan/goal", "ü", removes=(Dot(ANN, 1, 0), Dot(BOB, 3, 1)))),
        "put with attributes": _change(
            3, _put("k", None, attrs={"ttl": 60_000, "confidence": 0.5, "meta": pack({"source": "test"})})
        ),
        "text, created": _change(4, Op("notes", None, Kind.TEXT, text, value_hash(text), (), None)),
        "text, edited": _change(5, Op("notes", None, Kind.TEXT, edit, value_hash(edit), (Dot(ANN, 4, 0),), None)),
        "log, appended": _change(6, _put("log", [1, 2.5, b"bytes", True], kind=Kind.LOG)),
        "delete": _change(7, Op("plan/goal", None, Kind.REGISTER, None, None, (Dot(ANN, 2, 0),), None)),
        "delete of a range": _change(8, Op("log", None, Kind.LOG, None, None, RemoveRange({BOB: 9, ANN: 6}), None)),
        "trim: a range with a bound": _change(
            9, Op("log", None, Kind.LOG, None, None, RemoveRange({ANN: 6}, (int(HLC), int(ANN), 6, 0)), None)
        ),
        "deps": _change(10, _put("k", 1), deps=(Dep(BOB, 3, b"12345678"), Dep(Writer(2**53 - 1), 2**53 - 1, bytes(8)))),
        "batch, with a sub and an unknown kind": _change(
            11, _put("a", 1), _put("b", 2, sub="field", kind=99), Op("c", None, 0, None, None, (Dot(BOB, 1, 0),), None)
        ),
        "without idempotency id and agent": _change(12, _put("k", 1), idempotency=None, agent=""),
    }
    made["put that removes what its author had not read"] = _change(
        13, _put("k", 2, removes=(Dot(ANN, 12, 0),), blind=True)
    )
    header, value = unpack(made["put, first of its writer"].body)
    made["purged value"] = CODEC.decode(pack([header, [value_hash(value)]]))
    plain = unpack(header, strict_map_key=False)
    made["fields of a newer version"] = CODEC.decode(pack([pack([*plain, {"new": 1}]), value]))
    return made


def messages() -> dict[str, bytes]:
    """Every message of the peer protocol."""
    frontier = {ANN: (12, b"abcdefgh"), BOB: (3, b"12345678")}
    return {
        "hello": Hello(
            "0" * 32,
            "host-a",
            CLUSTER,
            bytes(16),
            {"default": (0, frontier), "notes": (2, {})},
            1_800_000_000_000,
            1,
            ("a",),
        ).encode(),
        "changes": Changes("default", 0, [change.body for change in changes().values()][:2]).encode(),
        "ack": Ack(4096, [SpaceAck("default", 0, {BOB: 3, ANN: 12}, b"cut-cut-", bytes(range(16)))]).encode(),
        "want": Want("default", 0, frontier).encode(),
        "links": Links(frozenset({"1" * 32, "0" * 32})).encode(),
        "stop": Stop("default", "fork", "two different changes are both number 3").encode(),
    }


def agent_frames() -> dict[str, bytes]:
    """Requests, replies and events as they stand on the socket."""
    version = encode_version(Version((Dot(ANN, 2, 0),), hlc=int(HLC)))
    desk_fields = to_wire(Timeout("1 of the 2 nodes wanted hold it so far: a", token="c1.x", held_by=["a"]))
    mismatch = to_wire(VersionMismatch("'k' exists already", current=None))
    requests = {
        "hello": [1, "hello", {"protocol": 1, "client": bytes(16), "agent": "ann", "space": "default"}],
        "set": [2, "set", {"key": "k", "value": pack([1]), "n": 1, "seen": version, "ttl": 1000}],
        "batch": [3, "batch", {"ops": [["set", {"key": "k", "value": pack(1)}], ["delete", {"key": "j"}]], "n": 2}],
        "watch": [4, "watch", {"prefix": "plan/"}],
        "result": [2, 0, {"behind": False, "replaced": None, "siblings": 0, "version": version, "token": "c1.x"}],
        "timeout": [2, 1, desk_fields],
        "version mismatch": [2, 1, mismatch],
        "events": [4, 2, [{"event": "snapshot", "key": None, "token": "c1.x"}]],
    }
    return {name: frame(pack(plain)) for name, plain in requests.items()}


def strings() -> dict[str, str]:
    """What users hold on to."""
    return {
        "token of one change": encode_token([("default", 0, {ANN: 12})]),
        "token of two spaces": encode_token([("_cluster", 3, {BOB: 1}), ("default", 0, {ANN: 12, BOB: 3})]),
        "version of nothing": encode_version(Version()),
        "version of one dot": encode_version(Version((Dot(ANN, 2, 0),), hlc=int(HLC))),
        "version with others": encode_version(Version((Dot(ANN, 2, 0),), (Dot(BOB, 3, 1),), None, int(HLC))),
        "version with a vector": encode_version(Version((Dot(ANN, 13, 0),), (), {ANN: 12, BOB: 3}, int(HLC))),
        "dot": encode_dot(Dot(ANN, 2, 0)),
    }
