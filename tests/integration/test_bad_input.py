"""What an agent may do wrong: it is told so in a sentence, nothing is changed, and its neighbours notice nothing."""

from __future__ import annotations

import math
import os
import resource
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import msgpack
import pycrdt
import pytest

from crdtsync.causality import Writer
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX, CHANGE_OPS_MAX, VALUE_BYTES_MAX
from crdtsync.wire.tokens import Version, encode_token, encode_version
from tests.harness import Daemon, RawAgent, RawError, wait_until, wait_until_equal
from tests.integration.witness import Witness, assert_clean, assert_sentence, rss_bytes, undisturbed

pytestmark = pytest.mark.integration

NIL = b"\xc0"
MIB = 1024 * 1024


def nested(depth: int, inside: object = None) -> Any:
    for _ in range(depth):
        inside = [inside]
    return inside


def nested_bytes(depth: int) -> bytes:
    return b"\x91" * depth + NIL


def bin32(data: bytes) -> bytes:
    return b"\xc6" + struct.pack(">I", len(data)) + data


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """One daemon for all of these: what one case breaks, the next one shows."""
    with Daemon() as started:
        yield started


@pytest.fixture(scope="module")
def witness(daemon: Daemon) -> Iterator[Witness]:
    with undisturbed(daemon) as bystander:
        yield bystander


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[RawAgent]:
    with daemon.raw("clumsy") as connected:
        yield connected


UNSTORABLE = {
    "nan": msgpack.packb(math.nan),
    "infinity": msgpack.packb([1, {"a": math.inf}]),
    "extension type": msgpack.packb(msgpack.ExtType(5, b"x")),
    "timestamp extension": b"\xd6\xff\x00\x00\x00\x00",
    "invalid utf-8": b"\xa2\xff\xfe",
    "surrogate in utf-8": b"\xa3\xed\xa0\x80",
    "map key that is an int": msgpack.packb({1: 2}),
    "map key that is bytes": msgpack.packb({b"a": 2}),
    "map key that is a list": b"\x81\x90\x00",
    "65 levels": nested_bytes(65),
    "2,000 levels": nested_bytes(2000),
    "a million levels": b"\x91" * (MIB - 8),
    "trailing bytes": NIL + NIL,
    "truncated": b"\x92" + NIL,
    "claims four billion items": b"\xdd\xff\xff\xff\xff",
    "claims a string of 4 GB": b"\xdb\xff\xff\xff\xff",
    "reserved byte": b"\xc1",
    "nothing": b"",
}

OPEN_VERSION = encode_version(Version(vector={Writer(7): 3}))

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    # operation, arguments, code
    "unknown operation": ("frobnicate", {}, "invalid_request"),
    "empty operation": ("", {}, "invalid_request"),
    "internal name": ("__class__", {}, "invalid_request"),
    "set without key": ("set", {"value": NIL, "n": 1}, "invalid_request"),
    "set without value": ("set", {"key": "k", "n": 1}, "invalid_request"),
    "set without n": ("set", {"key": "k", "value": NIL}, "invalid_request"),
    "n negative": ("set", {"key": "k", "value": NIL, "n": -1}, "invalid_request"),
    "n huge": ("set", {"key": "k", "value": NIL, "n": 2**64 - 1}, "invalid_request"),
    "n text": ("set", {"key": "k", "value": NIL, "n": "1"}, "invalid_request"),
    "n true": ("set", {"key": "k", "value": NIL, "n": True}, "invalid_request"),
    "key empty": ("set", {"key": "", "value": NIL, "n": 1}, "invalid_request"),
    "key of 1,025 bytes": ("set", {"key": "é" * 512 + "x", "value": NIL, "n": 1}, "invalid_request"),
    "key with a control character": ("set", {"key": "a\x00b", "value": NIL, "n": 1}, "invalid_request"),
    "key reserved": ("set", {"key": "_sys/x", "value": NIL, "n": 1}, "invalid_request"),
    "key bytes": ("set", {"key": b"k", "value": NIL, "n": 1}, "invalid_request"),
    "key nested deep": ("set", {"key": nested(400), "value": NIL, "n": 1}, "invalid_request"),
    "key a list": ("get", {"key": [0] * 60_000}, "invalid_request"),
    "value a str": ("set", {"key": "k", "value": "plain", "n": 1}, "invalid_request"),
    "value too large": ("set", {"key": "k", "value": bin32(bytes(VALUE_BYTES_MAX)), "n": 1}, "too_large"),
    "element too large": ("append", {"key": "k", "value": bin32(bytes(VALUE_BYTES_MAX)), "n": 1}, "too_large"),
    "ttl 0": ("set", {"key": "k", "value": NIL, "n": 1, "ttl": 0}, "invalid_request"),
    "ttl text": ("set", {"key": "k", "value": NIL, "n": 1, "ttl": "10s"}, "invalid_request"),
    "ttl without end": ("set", {"key": "k", "value": NIL, "n": 1, "ttl": 2**60}, "invalid_request"),
    "confidence 2": ("set", {"key": "k", "value": NIL, "n": 1, "confidence": 2}, "invalid_request"),
    "confidence nan": ("set", {"key": "k", "value": NIL, "n": 1, "confidence": math.nan}, "invalid_request"),
    "meta a map": ("set", {"key": "k", "value": NIL, "n": 1, "meta": {}}, "invalid_request"),
    "meta of nan": ("set", {"key": "k", "value": NIL, "n": 1, "meta": msgpack.packb(math.nan)}, "invalid_value"),
    "seen garbage": ("set", {"key": "k", "value": NIL, "n": 1, "seen": "garbage"}, "invalid_request"),
    "seen of another kind": ("set", {"key": "k", "value": NIL, "n": 1, "seen": 17}, "invalid_request"),
    "seen bad base64": ("set", {"key": "k", "value": NIL, "n": 1, "seen": "v1.*é*"}, "invalid_request"),
    "seen bad inside": ("set", {"key": "k", "value": NIL, "n": 1, "seen": "v1.kwAA"}, "invalid_request"),
    "seen nested deep": ("set", {"key": "k", "value": NIL, "n": 1, "seen": nested(400)}, "invalid_request"),
    "if_version garbage": ("set", {"key": "k", "value": NIL, "n": 1, "if_version": "v1."}, "invalid_request"),
    "strict seen that never comes": (
        "set",
        {"key": "k", "value": NIL, "n": 1, "seen": OPEN_VERSION, "strict": True, "timeout": 20},
        "timeout",
    ),
    "timeout text": ("wait", {"token": encode_token([("default", 0, {})]), "timeout": "5s"}, "invalid_request"),
    "timeout negative": ("wait", {"token": encode_token([("default", 0, {})]), "timeout": -1}, "invalid_request"),
    "w of a write": ("set", {"key": "k", "value": NIL, "n": 1, "w": "most"}, "invalid_request"),
    "w true of a write": ("set", {"key": "k", "value": NIL, "n": 1, "w": True}, "invalid_request"),
    "w 1.0 of a write": ("set", {"key": "k", "value": NIL, "n": 1, "w": 1.0}, "invalid_request"),
    "w 0 of a write": ("set", {"key": "k", "value": NIL, "n": 1, "w": 0}, "invalid_request"),
    "timeout of a write": ("set", {"key": "k", "value": NIL, "n": 1, "w": 2, "timeout": "5s"}, "invalid_request"),
    "author": ("set", {"key": "k", "value": NIL, "n": 1, "agent": "two\nlines"}, "invalid_request"),
    "author nested deep": ("set", {"key": "k", "value": NIL, "n": 1, "agent": nested(400)}, "invalid_request"),
    "space unknown": ("get", {"key": "k", "space": "nowhere"}, "unknown_space"),
    "space a list": ("get", {"key": "k", "space": ["default"]}, "unknown_space"),
    "space nested deep": ("get", {"key": "k", "space": nested(400)}, "unknown_space"),
    "trim without keep": ("trim", {"key": "k", "n": 1}, "invalid_request"),
    "trim to less than nothing": ("trim", {"key": "k", "n": 1, "keep": -1}, "invalid_request"),
    "text without update": ("text_apply", {"key": "k", "n": 1}, "invalid_request"),
    "text with garbage": ("text_apply", {"key": "k", "n": 1, "update": os.urandom(64)}, "invalid_value"),
    "text with nothing": ("text_apply", {"key": "k", "n": 1, "update": b""}, "invalid_value"),
    "text too large": ("text_apply", {"key": "k", "n": 1, "update": bytes(VALUE_BYTES_MAX + 1)}, "too_large"),
    "document garbage": ("text_apply", {"key": "k", "n": 1, "update": b"\0\0", "document": "x"}, "invalid_request"),
    "document absurd": (
        "text_apply",
        {"key": "k", "n": 1, "update": b"\0\0", "document": f"{2**60}.1.0"},
        "invalid_request",
    ),
    "batch without ops": ("batch", {"n": 1}, "invalid_request"),
    "batch of nothing": ("batch", {"n": 1, "ops": []}, "invalid_request"),
    "batch of a map": ("batch", {"n": 1, "ops": {"set": 1}}, "invalid_request"),
    "batch in a batch": ("batch", {"n": 1, "ops": [["batch", {"ops": []}]]}, "invalid_request"),
    "batch with a read": ("batch", {"n": 1, "ops": [["get", {"key": "k"}]]}, "invalid_request"),
    "batch nested deep": ("batch", {"n": 1, "ops": [nested(400)]}, "invalid_request"),
    "batch of too many": (
        "batch",
        {"n": 1, "ops": [["set", {"key": "k", "value": NIL}]] * (CHANGE_OPS_MAX + 1)},
        "too_large",
    ),
    "batch of too many bytes": (
        "batch",
        {"n": 1, "ops": [["set", {"key": f"k{i}", "value": bin32(bytes(MIB - 5))}] for i in range(5)]},
        "too_large",
    ),
    "batch with one bad": (
        "batch",
        {"n": 1, "ops": [["set", {"key": "k", "value": NIL}], ["set", {"key": "", "value": NIL}]]},
        "invalid_request",
    ),
    "get without key": ("get", {}, "invalid_request"),
    "get of a nested key": ("get", {"key": nested(400)}, "invalid_request"),
    "entry without key": ("entry", {}, "invalid_request"),
    "scan prefix": ("scan", {"prefix": 5}, "invalid_request"),
    "scan start": ("scan", {"start": None}, "invalid_request"),
    "scan limit 0": ("scan", {"limit": 0}, "invalid_request"),
    "scan limit huge": ("scan", {"limit": 1_000_000}, "invalid_request"),
    "log start": ("log", {"key": "k", "start": "first"}, "invalid_request"),
    "log limit": ("log", {"key": "k", "limit": -1}, "invalid_request"),
    "after garbage": ("get", {"key": "k", "after": "garbage"}, "invalid_request"),
    "after of a later epoch": (
        "get",
        {"key": "k", "after": encode_token([("default", 9, {})]), "timeout": 20},
        "timeout",
    ),
    "after nested deep": ("get", {"key": "k", "after": nested(400)}, "invalid_request"),
    "after that never comes": (
        "get",
        {"key": "k", "after": encode_token([("default", 0, {Writer(5): 5})]), "timeout": 20},
        "timeout",
    ),
    "wait without token": ("wait", {}, "invalid_request"),
    "wait for another space": ("wait", {"token": encode_token([("nowhere", 0, {})])}, "unknown_space"),
    "wait for w": ("wait", {"token": encode_token([("default", 0, {})]), "w": "most"}, "invalid_request"),
    "watch prefix": ("watch", {"prefix": ["a"]}, "invalid_request"),
    "watch after": ("watch", {"after": 5}, "invalid_request"),
    "unwatch without watch": ("unwatch", {}, "invalid_request"),
    "unwatch text": ("unwatch", {"watch": "all"}, "invalid_request"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_request_is_refused_in_a_sentence_and_changes_nothing(
    daemon: Daemon, witness: Witness, agent: RawAgent, case: str
) -> None:
    operation, arguments, code = REFUSED[case]
    before = daemon.space()["version_vector"]
    with pytest.raises(RawError) as refusal:
        agent.call(operation, **arguments)
    assert refusal.value.code == code, refusal.value
    assert_sentence(refusal.value.fields["message"])
    assert daemon.space()["version_vector"] == before
    assert agent.call("get", key="absent") is None, "the connection goes on"
    witness.works()


@pytest.mark.parametrize("case", UNSTORABLE)
@pytest.mark.parametrize("operation", ["set", "append", "batch"])
def test_a_value_that_cannot_be_stored_is_refused(
    daemon: Daemon, witness: Witness, agent: RawAgent, operation: str, case: str
) -> None:
    arguments: dict[str, Any] = {"key": "unstorable", "value": UNSTORABLE[case]}
    if operation == "batch":
        arguments = {"ops": [["set", arguments]]}
    before = daemon.space()["version_vector"]
    with pytest.raises(RawError) as refusal:
        agent.call(operation, **arguments, n=1)
    assert refusal.value.code == "invalid_value"
    assert_sentence(refusal.value.fields["message"])
    assert daemon.space()["version_vector"] == before
    witness.works()


def test_values_at_the_limits_are_taken(agent: RawAgent) -> None:
    largest = bin32(bytes(VALUE_BYTES_MAX - 5))
    deepest = nested_bytes(64)
    agent.call("set", key="é" * 512, value=largest, n=1)
    agent.call("set", key="deep", value=deepest, n=2)
    assert agent.call("get", key="é" * 512)["value"] == largest
    assert agent.call("get", key="deep")["value"] == deepest
    agent.call("batch", ops=[["set", {"key": f"many/{i}", "value": NIL}] for i in range(CHANGE_OPS_MAX)], n=3)


@pytest.mark.parametrize(
    "first,second",
    [
        ("set", "append"), ("set", "trim"), ("set", "text_apply"), ("set", "log"), ("set", "text_read"),
        ("append", "set"), ("append", "text_apply"), ("append", "text_read"),
        ("text_apply", "set"), ("text_apply", "append"), ("text_apply", "log"),
    ],
)  # fmt: skip
def test_an_operation_of_another_kind_is_refused(witness: Witness, agent: RawAgent, first: str, second: str) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "set": {"value": NIL}, "append": {"value": NIL}, "trim": {"keep": 0}, "text_apply": {"update": b"\0\0"},
    }  # fmt: skip
    key = f"kinds/{first}/{second}"
    agent.call(first, key=key, n=1, **arguments[first])
    with pytest.raises(RawError) as refusal:
        agent.call(second, key=key, n=2, **arguments.get(second, {}))
    assert refusal.value.code == "kind_mismatch"
    assert refusal.value.fields["key"] == key
    assert_sentence(refusal.value.fields["message"])
    assert repr(key) in refusal.value.fields["message"]


BAD_FRAMES = {
    "not msgpack": b"\xc1",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "empty array": b"\x90",
    "a map": msgpack.packb({"id": 1}),
    "a number": b"\x05",
    "two elements": msgpack.packb([2, "get"]),
    "four elements": msgpack.packb([2, "get", {}, None]),
    "id 0": msgpack.packb([0, "get", {"key": "k"}]),
    "id negative": msgpack.packb([-5, "get", {"key": "k"}]),
    "id text": msgpack.packb(["2", "get", {"key": "k"}]),
    "id over 63 bits": msgpack.packb([2**64 - 1, "get", {"key": "k"}]),
    "id a float": msgpack.packb([2.0, "get", {"key": "k"}]),
    "operation not text": msgpack.packb([2, b"get", {"key": "k"}]),
    "arguments a list": msgpack.packb([2, "get", ["k"]]),
    "arguments with an int key": msgpack.packb([2, "get", {1: 2}]),
    "extension type": msgpack.packb([2, "get", {"key": msgpack.ExtType(1, b"")}]),
    "invalid utf-8": b"\x93\x02\xa3get\x81\xa3key\xa1\xff",
    "nested 5,000 deep": b"\x93\x02\xa3get\x81\xa3key" + nested_bytes(5000),
    "trailing bytes": msgpack.packb([2, "get", {"key": "k"}]) + b"\0",
    "truncated": msgpack.packb([2, "get", {"key": "k"}])[:-1],
    "two million items": msgpack.packb([2, "get", {"key": [0] * 2_000_000}]),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_a_frame_that_is_no_request_gets_one_error_and_a_closed_connection(
    daemon: Daemon, witness: Witness, agent: RawAgent, case: str
) -> None:
    agent.send_frame(BAD_FRAMES[case])
    assert_refused(agent)
    witness.works()


@pytest.mark.parametrize("length", [0, AGENT_FRAME_BYTES_MAX + 1, 2**32 - 1])
@pytest.mark.parametrize("greeted", [True, False])
def test_a_frame_length_out_of_bounds_closes_the_connection(
    daemon: Daemon, witness: Witness, length: int, greeted: bool
) -> None:
    with daemon.raw("clumsy" if greeted else None) as agent:
        agent.send_bytes(struct.pack(">I", length) + b"x")
        assert f"{length:,}" in assert_refused(agent)
    witness.works()


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", os.urandom(4096), b"\n" * 100, b"\0" * 64, b"\xff" * 64]
)
def test_garbage_instead_of_a_hello(daemon: Daemon, witness: Witness, garbage: bytes) -> None:
    with daemon.raw(None) as agent:
        agent.send_bytes(garbage)
        agent.socket.shutdown(socket.SHUT_WR)
        agent.wait_closed()
    witness.works()


@pytest.mark.parametrize(
    "changed,code",
    [
        ({"protocol": 2}, "invalid_request"),
        ({"protocol": None}, "invalid_request"),
        ({"protocol": nested(400)}, "invalid_request"),
        ({"protocol": "x" * 10_000}, "invalid_request"),
        ({"client": b"short"}, "invalid_request"),
        ({"client": "0123456789abcdef"}, "invalid_request"),
        ({"agent": None}, "invalid_request"),
        ({"agent": "two\nlines"}, "invalid_request"),
        ({"agent": "x" * 129}, "invalid_request"),
        ({"agent": nested(400)}, "invalid_request"),
        ({"space": "nowhere"}, "unknown_space"),
        ({"space": 5}, "unknown_space"),
    ],
)
def test_a_bad_hello_is_refused_and_the_connection_closed(
    daemon: Daemon, witness: Witness, changed: dict[str, Any], code: str
) -> None:
    hello: dict[str, Any] = {"protocol": 1, "client": os.urandom(16), "agent": "clumsy", "space": "default"}
    with daemon.raw(None) as agent:
        request = agent.send("hello", **{**hello, **changed})
        with pytest.raises(RawError) as refusal:
            agent.result(request)
        assert refusal.value.code == code
        assert_sentence(refusal.value.fields["message"])
        agent.wait_closed()
    witness.works()


def test_a_request_before_hello_is_refused_and_the_connection_closed(daemon: Daemon, witness: Witness) -> None:
    with daemon.raw(None) as agent:
        with pytest.raises(RawError, match="hello"):
            agent.call("get", key="k")
        agent.wait_closed()
    witness.works()


def test_every_refusal_of_a_connection_is_logged_with_its_reason(daemon: Daemon) -> None:
    for payload in (b"\xc1", msgpack.packb([1, "hello", {"protocol": 99}])):
        mark = len(daemon.log_lines())
        with daemon.raw(None) as agent:
            agent.send_frame(payload)
            agent.wait_closed()
        event = daemon.wait_log(lambda event: "agent" in event["event"] and event.get("reason"), after=mark)
        assert event["level"] == "warning"


def test_an_earlier_connection_of_the_same_client_is_closed(daemon: Daemon, witness: Witness) -> None:
    with daemon.raw("twice") as first, daemon.raw("twice", client=first.client) as second:
        first.wait_closed()
        assert second.call("get", key="k") is None
    witness.works()


@pytest.mark.parametrize("operation,argument", [("get", "key"), ("get", "after"), ("get", "space"), ("frob", "x"),
    ("set", "seen"), ("set", "key"), ("set", "agent"), ("hello", "protocol"), ("text_apply", "document")])  # fmt: skip
def test_nesting_that_python_itself_cannot_print(
    daemon: Daemon, witness: Witness, operation: str, argument: str
) -> None:
    """The deepest that msgpack takes, where a message would show what was sent."""
    arguments = {"key": "k", "value": NIL, "n": 1, "update": b"\0\0", "protocol": 1, "agent": "a", "client": bytes(16)}
    arguments.pop(argument, None)
    body = msgpack.packb([5, operation, arguments])
    header = msgpack.packb(arguments)[:1]
    at = body.index(header)
    body = body[:at] + bytes([header[0] + 1]) + msgpack.packb(argument) + nested_bytes(1000) + body[at + 1 :]
    with daemon.raw(None if operation == "hello" else "clumsy") as agent:
        agent.send_frame(body)
        _, status, fields = agent.receive()
        assert status == 1
        assert fields["code"] in ("invalid_request", "unknown_space"), fields
        assert_sentence(fields["message"])
    witness.works()


def test_a_second_hello_is_refused_and_the_connection_closed(agent: RawAgent, witness: Witness) -> None:
    with pytest.raises(RawError, match="hello"):
        agent.call("hello", protocol=1, client=agent.client, agent="again")
    agent.wait_closed()
    witness.works()


# -- what was refused after it was done, or done so that others cannot take it ---------------------------------------


def test_what_an_author_may_commit_its_peers_take(make_cluster: Any) -> None:
    """Edges of requests, each once: a change that peers refuse would hold up all that follow."""
    with make_cluster(2) as pair:
        agent = pair[0].raw("edgy")
        agent.write("set", key="edge", value=1)
        writer = Writer(int(next(iter(pair[0].space()["version_vector"]))))
        zero = encode_version(Version(vector={writer: 0}))
        agent.write("set", key="edge", value=2, seen=zero)
        agent.write("delete", key="edge", seen=zero)
        agent.write("delete", key="edge", seen=encode_version(Version(vector={Writer(0): 5, writer: 0})))
        with pytest.raises(RawError, match="too_large"):
            agent.call("text_apply", key="text", update=_yjs_text(VALUE_BYTES_MAX), n=9_001)
        agent.call("text_apply", key="text", update=_yjs_text(VALUE_BYTES_MAX - 64), n=9_002)
        agent.write("set", key="é" * 512, value="x" * (VALUE_BYTES_MAX - 5), meta=msgpack.packb("m" * 1000))
        agent.write("set", key="last", value="reached")
        agent.close()
        wait_until_equal(pair)
        assert_clean(pair[0])
        assert_clean(pair[1])


def _yjs_text(size_bytes: int) -> bytes:
    """A Yjs update of exactly so many bytes."""
    chars = size_bytes - 100
    while True:
        doc: Any = pycrdt.Doc(client_id=5)
        doc["text"] = text = pycrdt.Text()
        text += "x" * chars
        update = bytes(doc.get_update())
        if len(update) == size_bytes:
            return update
        chars += size_bytes - len(update)


# -- what costs ------------------------------------------------------------------------------------------------------


def test_half_a_frame_then_silence_disturbs_nobody(daemon: Daemon, witness: Witness) -> None:
    with ExitStack() as stack:
        for size in (1, 3, 4, 5, 100_000):
            agent = stack.enter_context(daemon.raw("half"))
            agent.send_bytes((struct.pack(">I", AGENT_FRAME_BYTES_MAX) + b"\x93" * 200_000)[:size])
        witness.works()
    witness.works()


def test_a_frame_in_single_bytes_is_a_frame(daemon: Daemon, witness: Witness, agent: RawAgent) -> None:
    payload = msgpack.packb([77, "get", {"key": "absent"}])
    for byte in struct.pack(">I", len(payload)) + payload:
        agent.send_bytes(bytes([byte]))
    assert agent.receive() == (77, 0, None)
    witness.works()


def test_an_agent_that_never_reads_costs_bounded_memory() -> None:
    """It asks for 1 MiB again and again and takes no reply: what waits for it in the daemon is bounded."""
    with Daemon() as daemon, undisturbed(daemon) as witness:
        with daemon.raw("writer") as writer:
            writer.write("set", key="large", value=bytes(MIB - 8))
        before = rss_bytes(daemon.pid)
        with ExitStack() as stack:
            for _ in range(4):
                _flood(stack.enter_context(daemon.raw("deaf")), msgpack.packb([9, "get", {"key": "large"}]))
            for _ in range(20):
                witness.works()
            grown = rss_bytes(daemon.pid) - before
        assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB wait for four agents that do not read"


def test_a_watcher_that_never_reads_costs_bounded_memory() -> None:
    with Daemon() as daemon, undisturbed(daemon) as witness, daemon.raw("writer") as writer:
        before = rss_bytes(daemon.pid)
        with ExitStack() as stack:
            for _ in range(4):
                deaf = stack.enter_context(daemon.raw("deaf"))
                deaf.call("watch", prefix="news/")
            for _ in range(400):
                writer.write("set", key="news/a", value=bytes(100_000))
            witness.works()
            grown = rss_bytes(daemon.pid) - before
        assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB wait for four watchers that do not read"


def test_frames_that_unpack_to_far_more_than_their_bytes() -> None:
    """8 MiB of empty arrays would be half a gigabyte of lists."""
    with Daemon() as daemon, undisturbed(daemon) as witness:
        before = rss_bytes(daemon.pid)
        for item in (b"\x90", b"\x80", b"\xc0"):
            count = AGENT_FRAME_BYTES_MAX - 32
            with daemon.raw("bomber") as agent:
                agent.send_frame(b"\x93\x02\xa3get\x81\xa3key\xdd" + struct.pack(">I", count) + item * count)
                witness.works()
        witness.works()
        grown = rss_bytes(daemon.pid) - before
        assert grown < 64 * MIB, f"grew by {grown / MIB:.0f} MiB"


def _flood(agent: RawAgent, payload: bytes) -> None:
    """Send requests until the daemon takes no more, and read nothing."""
    frame = struct.pack(">I", len(payload)) + payload
    agent.socket.settimeout(0.5)
    try:
        for _ in range(200):
            agent.socket.sendall(frame * 1000)
    except TimeoutError:
        return
    raise AssertionError("the daemon took 200,000 requests from an agent that reads no reply")


def test_agents_max_is_kept_and_5000_connections_do_no_harm() -> None:
    wanted = 5_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted + 500:
        pytest.skip(f"this process may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + 500, hard))
    try:
        with Daemon() as daemon, undisturbed(daemon) as witness, ExitStack() as stack:
            _five_thousand(daemon, witness, stack, wanted)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _five_thousand(daemon: Daemon, witness: Witness, stack: ExitStack, wanted: int) -> None:
    attached, refused = [], 0
    for _ in range(wanted):
        agent = stack.enter_context(daemon.raw(None))
        with suppress(BrokenPipeError):  # refused already; why is there to be read
            agent.send("hello", protocol=1, client=agent.client, agent="one-of-many")
        request, status, content = agent.receive()
        if (request, status) == (1, 0):
            attached.append(agent)
            continue
        assert (request, status, content["code"]) == (0, 1, "quota_exceeded")
        assert "agents_max" in content["message"]
        refused += 1
    assert len(attached) == 4096 - 1, "the witness is one of agents_max"
    assert refused == wanted - len(attached)
    witness.works()
    attached[0].close()
    wait_until(lambda: _attaches(daemon), what="a place that was freed can be taken")
    assert attached[-1].call("get", key="k") is None


def _attaches(daemon: Daemon) -> bool:
    try:
        with daemon.raw("late"):
            return True
    except (RawError, OSError):
        return False


def test_a_flood_of_requests_leaves_others_their_turns(daemon: Daemon, witness: Witness) -> None:
    frame = msgpack.packb([5, "get", {"key": "absent"}])
    flood = (struct.pack(">I", len(frame)) + frame) * 2000
    with daemon.raw("busy") as busy:
        drain = threading.Thread(target=_drain, args=(busy.socket,), daemon=True)
        drain.start()
        done = threading.Event()
        pump = threading.Thread(target=_pump, args=(busy.socket, flood, done), daemon=True)
        pump.start()
        for _ in range(50):
            witness.works()
        done.set()
        pump.join(60)
    drain.join(60)


def _pump(sock: socket.socket, data: bytes, done: threading.Event) -> None:
    while not done.is_set():
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def _drain(sock: socket.socket) -> None:
    try:
        while sock.recv(1 << 20):
            pass
    except OSError:
        return


def assert_refused(agent: RawAgent) -> str:
    """One error frame with id 0, then the end of the connection; its message."""
    request, status, fields = agent.receive()
    assert (request, status) == (0, 1)
    assert_sentence(fields["message"])
    agent.wait_closed()
    return str(fields["message"])
