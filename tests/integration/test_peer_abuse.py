"""What may come in on the peer port: garbage, silence, lies. It is refused with a reason that the log holds, and true
peers and agents notice nothing."""

from __future__ import annotations

import os
import resource
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic
from typing import Any, Self, cast

import msgpack
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from crdtsync.causality import HLC_MAX, SEQ_MAX, WRITER_MAX, Dot, Hlc, Writer
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.wire.change import NO_HASH, Change, Codec, Dep, Op, RemoveRange, value_hash
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import CHANGE_BYTES_MAX, PEER_FRAME_BYTES_MAX
from crdtsync.wire.peer.changes import Ack, Changes, SpaceAck, Stop, Want
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Links
from crdtsync.wire.peer.messages import decode_message
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal
from tests.integration.witness import Witness, assert_clean, assert_sentence, rss_bytes, undisturbed

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
NIL = b"\xc0"


class Stranger:
    """A peer by hand."""

    def __init__(self, daemon: Daemon, hello: bool = True, **changed: Any) -> None:
        self.daemon = daemon
        self.node = os.urandom(16).hex()
        self._stack = ExitStack()
        self.socket: ClientConnection = self._stack.enter_context(
            connect(daemon.url, compression=None, max_size=None, proxy=None, ping_interval=None, close_timeout=1)
        )
        if hello:
            self.send(Hello(**{**self.introduction(), **changed}))

    def introduction(self) -> dict[str, Any]:
        return {
            "node": self.node, "name": "stranger", "cluster": LOOPBACK_CLUSTER, "database": bytes(16),
            "spaces": {"default": (0, {})}, "time_ms": 0,
        }  # fmt: skip

    def send(self, message: Any) -> None:
        self.send_bytes(message.encode())

    def send_bytes(self, data: bytes | str) -> None:
        self.socket.send(data)

    def send_changes(self, *changes: Change, epoch: int = 0, space: str = "default") -> None:
        self.send(Changes(space, epoch, [change.body for change in changes]))

    def receive(self, kind: type, timeout_s: float = 60.0) -> Any:
        """The next message of a kind."""
        deadline = monotonic() + timeout_s
        while True:
            message = decode_message(cast("bytes", self.socket.recv(timeout=max(0.001, deadline - monotonic()))))
            if isinstance(message, kind):
                return message

    def wait_refused(self, timeout_s: float = 60.0) -> str:
        """Until the daemon closes the connection; the reason that it gives."""
        deadline = monotonic() + timeout_s
        try:
            while True:
                self.socket.recv(timeout=max(0.001, deadline - monotonic()))
        except ConnectionClosed as end:
            return end.rcvd.reason if end.rcvd is not None else ""

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cluster]:
    """Two true peers; strangers come to the first."""
    with Cluster(2) as pair:
        yield pair


@pytest.fixture(scope="module")
def daemon(fleet: Cluster) -> Daemon:
    return fleet[0]


@pytest.fixture(scope="module")
def witness(daemon: Daemon) -> Iterator[Witness]:
    with undisturbed(daemon) as bystander:
        yield bystander


@pytest.fixture(autouse=True)
def _true_peers_notice_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    if "fleet" not in request.fixturenames:
        yield
        return
    fleet, witness = request.getfixturevalue("fleet"), request.getfixturevalue("witness")
    before = [len(daemon.log_events("peer_down")) for daemon in fleet]
    witness.works()
    yield
    witness.works()
    with fleet[1].raw("far") as agent:
        agent.write("set", key=f"far/{os.urandom(4).hex()}", value=1, w=2, timeout=10_000)
    lost = [
        [
            event
            for event in daemon.log_events("peer_down")[count:]
            if event["peer"] != "stranger" and "duplicate" not in event["reason"]
        ]
        for daemon, count in zip(fleet, before, strict=True)
    ]
    assert lost == [[], []], "the true peers stay connected"
    for daemon in fleet:
        assert_clean(daemon)


def refusal(daemon: Daemon, mark: int) -> str:
    """The reason in the log of the first refusal after line ``mark``."""
    event = daemon.wait_log("peer_refused", 15, after=mark)
    assert event["level"] == "warning"
    assert_sentence(event["reason"])
    assert event["url"]
    return str(event["reason"])


# -- no websocket ------------------------------------------------------------------------------------------------------

RAW = {
    "zeros": bytes(1000),
    "random": os.urandom(5000),
    "a line without end": b"G" * 100_000,
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "http get": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "http post": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    "a thousand headers": b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
    "a long header": b"GET / HTTP/1.1\r\nA: " + b"b" * 100_000 + b"\r\n\r\n",
    "a wrong version": b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 99\r\n\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("case", RAW)
def test_what_is_no_websocket_is_refused_and_logged(daemon: Daemon, witness: Witness, case: str) -> None:
    mark = len(daemon.log_lines())
    with socket.create_connection((daemon.address.split(":")[0], daemon.port), timeout=60) as raw:
        raw.sendall(RAW[case])
        raw.shutdown(socket.SHUT_WR)
        try:
            while raw.recv(65536):
                pass
        except ConnectionResetError:
            pass
    refusal(daemon, mark)


def test_garbage_after_the_handshake_is_refused_and_logged(daemon: Daemon, witness: Witness) -> None:
    mark = len(daemon.log_lines())
    with Stranger(daemon) as stranger:
        stranger.receive(Hello)
        stranger.socket.socket.sendall(os.urandom(200) + b"\xff" * 20)
        stranger.wait_refused()
    refusal(daemon, mark)


def test_text_messages_are_refused(daemon: Daemon, witness: Witness) -> None:
    for hello in (True, False):
        mark = len(daemon.log_lines())
        with Stranger(daemon, hello) as stranger:
            stranger.send_bytes("hello?")
            assert "text messages" in stranger.wait_refused()
        assert "text messages" in refusal(daemon, mark)


def test_a_message_over_the_limit_is_refused(daemon: Daemon, witness: Witness) -> None:
    before = rss_bytes(daemon.pid)
    for _ in range(3):
        mark = len(daemon.log_lines())
        with Stranger(daemon) as stranger:
            frame = b"\x82\xff" + struct.pack(">Q", PEER_FRAME_BYTES_MAX + 1) + bytes(4)
            stranger.socket.socket.sendall(frame + bytes(1000))
            stranger.wait_refused()
        assert "big" in refusal(daemon, mark) or "exceeds" in refusal(daemon, mark)
    assert rss_bytes(daemon.pid) - before < 16 * MIB


def test_a_message_in_endless_fragments_is_refused(daemon: Daemon, witness: Witness) -> None:
    before = rss_bytes(daemon.pid)
    with Stranger(daemon) as stranger:

        def fragments() -> Iterator[bytes]:
            while True:
                yield bytes(MIB)

        with pytest.raises(ConnectionClosed):
            stranger.socket.send(fragments())
    assert rss_bytes(daemon.pid) - before < 32 * MIB


# -- malformed messages ------------------------------------------------------------------------------------------------


def hello_fields(**changed: Any) -> bytes:
    fields: dict[str, Any] = {
        "protocol": 1, "features": [], "node": "n" * 32, "name": "stranger", "cluster": LOOPBACK_CLUSTER,
        "database": bytes(16), "spaces": {"default": [0, []]}, "time_ms": 0,
    }  # fmt: skip
    fields |= changed
    return msgpack.packb([1, {name: value for name, value in fields.items() if value != "absent"}])


BAD_HELLOS = {
    "not msgpack": b"\xc1\xc1",
    "empty": b"",
    "a map": msgpack.packb({"type": 1}),
    "a number": b"\x01",
    "text": msgpack.packb("hello"),
    "empty array": b"\x90",
    "type alone": msgpack.packb([1]),
    "fields a list": msgpack.packb([1, []]),
    "fields nil": msgpack.packb([1, None]),
    "unknown type first": msgpack.packb([77, "x"]),
    "another message first": Links(frozenset({"a"})).encode(),
    "type a list": b"\x92\x90\x80",
    "no node": hello_fields(node="absent"),
    "node empty": hello_fields(node=""),
    "node long": hello_fields(node="n" * 1000),
    "node a number": hello_fields(node=5),
    "name bad": hello_fields(name="No Name"),
    "cluster text": hello_fields(cluster="x"),
    "cluster long": hello_fields(cluster=bytes(1000)),
    "spaces a list": hello_fields(spaces=[]),
    "space of a bad name": hello_fields(spaces={"../etc": [0, []]}),
    "epoch negative": hello_fields(spaces={"default": [-1, []]}),
    "epoch huge": hello_fields(spaces={"default": [2**63, []]}),
    "frontier odd": hello_fields(spaces={"default": [0, [1, 2]]}),
    "frontier of text": hello_fields(spaces={"default": [0, ["a", "b", "c"]]}),
    "frontier writer huge": hello_fields(spaces={"default": [0, [2**60, 1, b"12345678"]]}),
    "frontier seq negative": hello_fields(spaces={"default": [0, [5, -1, b"12345678"]]}),
    "frontier hash long": hello_fields(spaces={"default": [0, [5, 1, bytes(100)]]}),
    "time negative": hello_fields(time_ms=-5),
    "time text": hello_fields(time_ms="now"),
    "protocol text": hello_fields(protocol="1"),
    "protocol nested": b"\x92\x01\x81\xa8protocol" + b"\x91" * 1000 + NIL,
    "features a map": hello_fields(features={}),
    "features of numbers": hello_fields(features=[1]),
    "trailing bytes": hello_fields() + b"\0",
    "nested": b"\x91" * 1_000_000,
    "millions of items": b"\x92\x01\xdd" + struct.pack(">I", 8_000_000) + b"\x90" * 8_000_000,
    "another cluster": hello_fields(cluster=b"another cluster!"),
    "an old protocol": hello_fields(protocol=0),
}


@pytest.mark.parametrize("case", BAD_HELLOS)
def test_a_bad_hello_is_refused_with_its_reason(daemon: Daemon, witness: Witness, case: str) -> None:
    mark = len(daemon.log_lines())
    with Stranger(daemon, hello=False) as stranger:
        stranger.send_bytes(BAD_HELLOS[case])
        told = stranger.wait_refused()
    logged = refusal(daemon, mark)
    assert told
    assert logged.startswith(told), "the peer is told what the log says"
    if case == "another cluster":
        assert "another cluster" in logged
    if case == "an old protocol":
        assert "protocol 0" in logged


def test_a_newer_protocol_is_welcome(daemon: Daemon, witness: Witness) -> None:
    with Stranger(daemon, protocol=7, features=("flying",)) as stranger:
        stranger.send_bytes(msgpack.packb([99, "a message of the future"]))
        assert stranger.receive(Links)


def test_the_node_itself_is_refused(daemon: Daemon, witness: Witness) -> None:
    mark = len(daemon.log_lines())
    with Stranger(daemon, node=daemon.status()["node"]["id"]) as stranger:
        assert "the node itself" in stranger.wait_refused()
    assert "the node itself" in refusal(daemon, mark)


def test_a_daemon_that_dials_itself_says_so_and_works() -> None:
    with Daemon(start=False) as daemon:
        daemon.start(peers=[daemon.url])
        with undisturbed(daemon):
            event = daemon.wait_log("peer_refused")
            assert "the node itself" in event["reason"]
            wait_until(
                lambda: any("the node itself" in peer["last_error"] for peer in daemon.status()["peers"]),
                what="the status says why",
            )


def test_a_second_hello_is_refused(daemon: Daemon, witness: Witness) -> None:
    mark = len(daemon.log_lines())
    with Stranger(daemon) as stranger:
        stranger.receive(Links)
        stranger.send(Hello(**stranger.introduction()))
        assert "second hello" in stranger.wait_refused()
    assert "second hello" in refusal(daemon, mark)


def test_of_two_connections_of_one_node_one_is_kept(daemon: Daemon, witness: Witness) -> None:
    with Stranger(daemon) as first:
        first.receive(Links)
        with Stranger(daemon, node=first.node) as second:
            second.receive(Links)
            assert first.wait_refused().startswith("duplicate")
            second.send(Ack(0, []))
            states = [peer for peer in daemon.status()["peers"] if peer["id"] == first.node]
            assert [peer["state"] for peer in states] == ["connected"]


BAD_MESSAGES = {
    "changes of none": msgpack.packb([2, "default", 0, []]),
    "changes of text": msgpack.packb([2, "default", 0, ["a"]]),
    "changes of nil": msgpack.packb([2, "default", 0, None]),
    "too many changes": msgpack.packb([2, "default", 0, [b"x"] * 257]),
    "changes of a bad space": msgpack.packb([2, "..", 0, [b"x"]]),
    "changes of a bad epoch": msgpack.packb([2, "default", -1, [b"x"]]),
    "ack short": msgpack.packb([3]),
    "ack negative": msgpack.packb([3, -5, []]),
    "ack of more than was sent": msgpack.packb([3, 2**40, []]),
    "ack of text": msgpack.packb([3, 0, [["default", 0, "vector", b"", b""]]]),
    "ack of half a vector": msgpack.packb([3, 0, [["default", 0, [1], b"", b""]]]),
    "want short": msgpack.packb([4, "default"]),
    "want of text": msgpack.packb([4, "default", 0, "x"]),
    "links of numbers": msgpack.packb([5, [1, 2]]),
    "links of too many": msgpack.packb([5, ["n"] * 10_001]),
    "stop short": msgpack.packb([6, "default"]),
    "stop of lists": b"\x94\x06\xa7default\xa1x" + b"\x91" * 1000 + NIL,
    "not msgpack": os.urandom(3) + b"\xc1",
}


@pytest.mark.parametrize("case", BAD_MESSAGES)
def test_a_bad_message_is_refused_with_its_reason(daemon: Daemon, witness: Witness, case: str) -> None:
    mark = len(daemon.log_lines())
    with Stranger(daemon) as stranger:
        stranger.receive(Links)
        stranger.send_bytes(BAD_MESSAGES[case])
        told = stranger.wait_refused()
    assert told
    assert refusal(daemon, mark).startswith(told)


# -- changes -----------------------------------------------------------------------------------------------------------

CODEC = Codec(LOOPBACK_CLUSTER, "default", 0)


def change(writer: int, seq: int = 1, *ops: Op, **fields: Any) -> Change:
    defaults: dict[str, Any] = {
        "deps": (), "prev_hash": NO_HASH, "hlc": Hlc(1 << 40), "agent": "stranger", "idempotency": None,
        "origin": ("0" * 32, "stranger") if seq == 1 else None,
    }  # fmt: skip
    return CODEC.encode(Change(Writer(writer), seq, ops=ops or (put("hostile/a"),), **{**defaults, **fields}))


def put(key: str, value: bytes | None = NIL, kind: int = Kind.REGISTER, **fields: Any) -> Op:
    hashed = None if value is None else value_hash(value)
    return Op(key, fields.get("sub"), kind, value, hashed, fields.get("removes", ()), fields.get("attrs"))


def nested(depth: int) -> Any:
    inside: Any = None
    for _ in range(depth):
        inside = [inside]
    return inside


def header(*fields: Any, values: tuple[Any, ...] = ()) -> bytes:
    return msgpack.packb([msgpack.packb(list(fields)), *values])


GOOD_OP = ["k", None, 0, False, None, None]
BAD_BODIES: dict[str, bytes] = {
    "random": os.urandom(300),
    "empty": b"",
    "no header": msgpack.packb([]),
    "header text": msgpack.packb(["x"]),
    "header not msgpack": msgpack.packb([b"\xc1"]),
    "format 9": header(9, 5, 1, [], NO_HASH, 1, "a", None, [GOOD_OP], None),
    "writer 0": header(1, 0, 1, [], NO_HASH, 1, "a", None, [GOOD_OP], None),
    "writer huge": header(1, WRITER_MAX + 1, 1, [], NO_HASH, 1, "a", None, [GOOD_OP], None),
    "writer a float": header(1, 5.0, 1, [], NO_HASH, 1, "a", None, [GOOD_OP], None),
    "seq 0": header(1, 5, 0, [], NO_HASH, 1, "a", None, [GOOD_OP], None),
    "seq huge": header(1, 5, SEQ_MAX + 1, [], NO_HASH, 1, "a", None, [GOOD_OP], None),
    "seq nested": header(1, 5, nested(400), [], NO_HASH, 1, "a", None, [GOOD_OP], None),
    "hlc negative": header(1, 5, 1, [], NO_HASH, -1, "a", None, [GOOD_OP], None),
    "deps odd": header(1, 5, 1, [1, 2], NO_HASH, 1, "a", None, [GOOD_OP], None),
    "deps of nil": header(1, 5, 1, None, NO_HASH, 1, "a", None, [GOOD_OP], None),
    "hash short": header(1, 5, 1, [], b"x", 1, "a", None, [GOOD_OP], None),
    "agent bytes": header(1, 5, 1, [], NO_HASH, 1, b"a", None, [GOOD_OP], None),
    "no ops": header(1, 5, 1, [], NO_HASH, 1, "a", None, [], None),
    "too many ops": header(1, 5, 1, [], NO_HASH, 1, "a", None, [GOOD_OP] * 1001, None),
    "op short": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["k"]], None),
    "op a map": header(1, 5, 1, [], NO_HASH, 1, "a", None, [{"k": 1}], None),
    "key empty": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["", None, 0, False, None, None]], None),
    "key long": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["k" * 2000, None, 0, False, None, None]], None),
    "kind negative": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["k", None, -1, False, None, None]], None),
    "value missing": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["k", None, 0, True, None, None]], None),
    "value too large": header(
        1, 5, 1, [], NO_HASH, 1, "a", None, [["k", None, 0, True, None, None]], None, values=(bytes(MIB + 1),)
    ),
    "value too many": header(1, 5, 1, [], NO_HASH, 1, "a", None, [GOOD_OP], None, values=(b"x",)),
    "removes odd": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["k", None, 0, False, [1, 2], None]], None),
    "removes a number": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["k", None, 0, False, 5, None]], None),
    "removes an empty map": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["k", None, 0, False, {}, None]], None),
    "removes 0 of one": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["k", None, 0, False, {0: [5, 0]}, None]], None),
    "attributes a list": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["k", None, 0, False, None, []]], None),
    "attributes by number": header(1, 5, 1, [], NO_HASH, 1, "a", None, [["k", None, 0, False, None, {1: 2}]], None),
    "attributes deep": header(
        1, 5, 1, [], NO_HASH, 1, "a", None, [["k", None, 0, False, None, {"a": nested(200)}]], None
    ),
    "attributes by a list": msgpack.packb(
        [msgpack.packb([1, 5, 1, [], NO_HASH, 1, "a", None])[:-0 or None].replace(b"\x98", b"\x9a", 1)
         + b"\x91\x96\xa1k\xc0\x00\xc2\xc0\x81\x90\x00\xc0"]
    ),
    "origin odd": header(1, 5, 1, [], NO_HASH, 1, "a", None, [GOOD_OP], ["x"]),
    "over 4 MiB": bytes(CHANGE_BYTES_MAX + 1),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_BODIES)
def test_a_malformed_change_is_refused_with_its_reason(daemon: Daemon, witness: Witness, case: str) -> None:
    mark = len(daemon.log_lines())
    before = daemon.space()["keys"]
    with Stranger(daemon) as stranger:
        stranger.receive(Links)
        stranger.send(Changes("default", 0, [BAD_BODIES[case]]))
        assert stranger.wait_refused()
    refusal(daemon, mark)
    assert daemon.space()["keys"] == before


def test_valid_changes_with_absurd_content_are_taken_and_read_without_harm(make_cluster: Callable[..., Any]) -> None:
    """Whatever a change may hold must be taken by all, or all that depends on it stalls; no reader may stumble."""
    with make_cluster(2) as pair, ExitStack() as stack:
        daemon = pair[0]
        witness = Witness(daemon)
        stack.callback(witness.close)
        watcher = stack.enter_context(daemon.raw("watcher"))
        watcher.call("watch", prefix="odd/")
        ops = [
            put("odd/unknown-kind", b"\xc1garbage", kind=60_000),
            put("odd/not-msgpack", b"\xc1\xc1"),
            put("odd/empty-value", b""),
            put("odd/deep", b"\x91" * 5000 + NIL),
            put("odd/nan", msgpack.packb(float("nan"))),
            put("odd/text", b"garbage", kind=Kind.TEXT),
            put("odd/text2", msgpack.packb([[1, 2], b"x"]), kind=Kind.TEXT),
            put("odd/text3", msgpack.packb([[-1, 2**60, -7], b"x"]), kind=Kind.TEXT),
            put("odd/text4", msgpack.packb([None, os.urandom(50)]), kind=Kind.TEXT),
            put("odd/text5", msgpack.packb([None, 7]), kind=Kind.TEXT),
            put("odd/log", b"\xc1", kind=Kind.LOG),
            put("odd/counter", b"x", kind=Kind.COUNTER, sub="s" * 100_000),
            put("odd/mixed", NIL, kind=Kind.REGISTER),
            put("odd/mixed", b"junk", kind=Kind.TEXT),
            put("odd/mixed", NIL, kind=Kind.LOG),
            put("odd/attrs", NIL, attrs={"ttl": -5, "confidence": "high", "meta": [1], "\0": {}}),
            put("odd/ttl", NIL, attrs={"ttl": 2**63}),
            put("odd/ttl2", NIL, attrs={"ttl": True}),
            put("odd/gone", None, removes=tuple(Dot(Writer(i), 1, 0) for i in range(1, 2000))),
            put("odd/range", None, removes=RemoveRange({Writer(9): SEQ_MAX}, (HLC_MAX, WRITER_MAX, SEQ_MAX, 1000))),
            put("_reserved", NIL),
            put("odd/" + "é" * 500, NIL),
        ]
        with Stranger(daemon) as stranger:
            stranger.receive(Links)
            stranger.send_changes(change(41, 1, *ops, agent="ü \0 ✓", hlc=Hlc(HLC_MAX)))
            wait_until(lambda: daemon.space()["version_vector"].get("41") == 1, what="the change is applied")
        purged = Op("odd/purged-text", None, Kind.TEXT, None, value_hash(b"gone"), (), None)
        body = purged_body(43, purged)
        with Stranger(daemon) as stranger:
            stranger.receive(Links)
            stranger.send(Changes("default", 0, [body]))
            wait_until(lambda: daemon.space()["version_vector"].get("43") == 1, what="the purged change is applied")
        reader = stack.enter_context(daemon.raw("reader"))
        for key in sorted({op.key for op in ops} | {"odd/purged-text"}):
            for operation in ("get", "entry", "log", "text_read", "text_updates"):
                answer(reader, operation, key=key)
        for page in (reader.call("scan", prefix="", values=True), reader.call("status")):
            assert page
        for operation, extra in (
            ("append", {"value": NIL}), ("trim", {"keep": 0}), ("text_apply", {"update": b"\0\0"}),
            ("set", {"value": NIL}), ("delete", {}),
        ):  # fmt: skip
            for key in sorted({op.key for op in ops if op.key.startswith("odd/")}):
                answer(reader, operation, key=key, n=len(key) * 1000 + len(operation), **extra)
        with daemon.raw("late") as late:
            late.call("watch", prefix="odd/", after="c1.kZOnZGVmYXVsdACQ")
            late.call("watch", prefix="odd/")
            late.call("status")
        wait_until_equal(pair)
        witness.works()
        for each in pair:
            assert_clean(each)
        before = daemon.space()["digest"]
        daemon.kill()
        daemon.start()
        assert daemon.space()["digest"] == before
        with daemon.raw() as agent:
            agent.write("set", key="after", value=1)
            assert agent.call("entry", key="after")["time"] < 2**47, "a clock from far ahead is not taken over"
        pair.wait_connected()
        wait_until_equal(pair)
        for each in pair:
            assert_clean(each)


def answer(agent: Any, operation: str, **arguments: Any) -> None:
    """Any answer will do, but one there must be, and no internal error."""
    number, status = 0, 2
    content: Any = None
    request = agent.send(operation, **arguments)
    while number != request or status == 2:
        number, status, content = agent.receive()
    if status == 1:
        assert content["code"] != "internal", (operation, arguments, content)
        assert_sentence(content["message"])


def purged_body(writer: int, op: Op) -> bytes:
    plain = [op.key, op.sub, int(op.kind), True, None, None]
    return msgpack.packb(
        [
            msgpack.packb([1, writer, 1, [], NO_HASH, 1 << 40, "a", None, [plain], ["0" * 32, "stranger"]]),
            [op.value_hash],
        ]
    )


def test_a_change_with_a_wrong_past_harms_only_its_sender(make_cluster: Callable[..., Any]) -> None:
    """A stranger sends ahead what contradicts the true change that a true peer brings later."""
    with make_cluster(2) as pair:
        daemon, other = pair
        with other.raw("author") as author:
            author.write("set", key="k/1", value=1)
            wait_until_equal(pair)
            writer = int(next(iter(other.space()["version_vector"])))
            pair.cut(0, 1)
            pair.wait_parted(0, 1)
            with Stranger(daemon) as stranger:
                stranger.receive(Links)
                stranger.send_changes(change(writer, 3, put("forged"), prev_hash=b"wrong" * 3 + b"!"))
                wait_until(lambda: daemon.space()["pending_changes"] == 1, what="the forgery waits")
                for i in range(2, 10):
                    author.write("set", key=f"k/{i}", value=i)
                pair.heal()
                wait_until_equal(pair)
                with daemon.raw() as agent:
                    assert agent.call("get", key="forged") is None
                    assert agent.call("get", key="k/9") is not None
                assert pair[1].name not in [alarm["message"] for alarm in daemon.status()["alarms"]]
        for each in pair:
            assert_clean(each)


def test_changes_that_can_never_be_applied_cost_bounded_memory() -> None:
    with Daemon() as daemon, undisturbed(daemon) as witness:
        before = rss_bytes(daemon.pid)
        with Stranger(daemon) as stranger:
            stranger.receive(Links)
            value = os.urandom(500_000)
            for writer in range(1, 251):
                early = change(writer, 2, put("early", value), deps=(Dep(Writer(WRITER_MAX), SEQ_MAX, bytes(8)),))
                stranger.send_changes(early)
                if writer % 50 == 0:
                    witness.works()
            wait_until(lambda: daemon.space()["pending_changes"] > 0, what="they arrive")
            grown = rss_bytes(daemon.pid) - before
        assert grown < 96 * MIB, f"{grown / MIB:.0f} MiB are held for changes that wait for ever"


def test_lies_about_what_is_held_cost_bounded_memory() -> None:
    with Daemon() as daemon, undisturbed(daemon) as witness:
        before = rss_bytes(daemon.pid)
        with Stranger(daemon) as stranger:
            stranger.receive(Links)
            try:
                for start in range(1, 4_000_000, 50_000):
                    vector = {Writer(writer): SEQ_MAX for writer in range(start, start + 50_000)}
                    stranger.send(Ack(0, [SpaceAck("default", 0, vector)]))
            except ConnectionClosed:
                pass
            witness.works()
            grown = rss_bytes(daemon.pid) - before
        assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB"


def test_absurd_frontiers_wants_and_stops_harm_only_their_sender(daemon: Daemon, witness: Witness) -> None:
    frontier = {Writer(writer): (SEQ_MAX, bytes(8)) for writer in range(1, 20_000)}
    with Stranger(daemon, spaces={"default": (0, frontier)}) as stranger:
        stranger.receive(Links)
        stranger.send(Want("default", 0, frontier))
        wait_until(lambda: _claims(daemon, stranger) == SEQ_MAX, what="the status shows the claim")
        stranger.send(Want("nowhere", 0, frontier))
        stranger.send(Want("default", 5, {}))
        stranger.send(Stop("default", "because", "x" * 5000))
        stranger.send(Stop("nowhere", "because", "x"))
        stranger.send_changes(change(77), space="nowhere")
        stranger.send_changes(change(77), epoch=5)
        stranger.send(Links(frozenset({"0" * 32, stranger.node, daemon.status()["node"]["id"]})))
        witness.works()
        assert "77" not in daemon.space()["version_vector"]


def _claims(daemon: Daemon, stranger: Stranger) -> int:
    peer = next(peer for peer in daemon.status()["peers"] if peer["id"] == stranger.node)
    return int(peer["ahead"]["default"])


def test_asking_for_everything_again_and_again_leaves_others_their_turns(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    with daemon.raw() as agent:
        for i in range(300):
            agent.send_write("set", key=f"k/{i}", value=os.urandom(1000))
        agent.write("set", key="k/last", value=1)
    with undisturbed(daemon) as witness, Stranger(daemon) as stranger:
        before = rss_bytes(daemon.pid)
        for _ in range(300):
            stranger.send(Want("default", 0, {}))
        for _ in range(20):
            witness.works()
        grown = rss_bytes(daemon.pid) - before
        assert grown < 32 * MIB, f"{grown / MIB:.0f} MiB wait for a peer that acknowledges nothing"


# -- silence and crowds ------------------------------------------------------------------------------------------------


def test_the_silent_are_cut_off_in_time(fleet: Cluster, daemon: Daemon, witness: Witness) -> None:
    """Agents and peers that never say hello, at whatever point they fall silent: 10 s each, all at once."""
    host = daemon.address.split(":")[0]
    with ExitStack() as stack:
        raws = []
        for data in (b"", b"GET / HTTP/1.1\r\n", b"\x16\x03"):
            raw = stack.enter_context(socket.create_connection((host, daemon.port), timeout=60))
            raw.sendall(data)
            raws.append(raw)
        strangers = [stack.enter_context(Stranger(daemon, hello=False)) for _ in range(2)]
        strangers[1].socket.socket.sendall(b"\x82\xfe\x01\x00")  # the start of a frame
        agents = [stack.enter_context(daemon.raw(None)) for _ in range(3)]
        agents[1].send_bytes(b"\0")
        agents[2].send_bytes(struct.pack(">I", 100) + b"\x93")
        started = monotonic()
        for agent in agents:
            agent.wait_closed()
        for raw in raws:
            while raw.recv(1000):
                pass
        assert "hello" in strangers[0].wait_refused()
        strangers[1].wait_refused()
        assert monotonic() - started < 40, "all at once, not one after the other"
        witness.works()


def test_more_peers_than_peers_max_are_refused_with_a_reason() -> None:
    with Daemon(peers_max=5) as daemon, undisturbed(daemon) as witness, ExitStack() as stack:
        kept = [stack.enter_context(Stranger(daemon)) for _ in range(5)]
        for stranger in kept:
            stranger.receive(Links)
        mark = len(daemon.log_lines())
        with Stranger(daemon, hello=False) as late:
            assert "5 peer connections" in late.wait_refused()
        assert "5 peer connections" in refusal(daemon, mark)
        witness.works()
        kept[0].close()
        wait_until(lambda: _is_welcome(daemon), what="a place that was freed can be taken")


def _is_welcome(daemon: Daemon) -> bool:
    try:
        with Stranger(daemon) as stranger:
            return bool(stranger.receive(Links))
    except ConnectionClosed:
        return False


def test_a_crowd_on_the_port_that_never_speaks_keeps_nobody_out() -> None:
    wanted = 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2000)), hard))
    with Daemon() as daemon, undisturbed(daemon) as witness, ExitStack() as stack:
        host = daemon.address.split(":")[0]
        for _ in range(wanted):
            stack.enter_context(socket.create_connection((host, daemon.port), timeout=60))
        witness.works()
        assert _is_welcome(daemon)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_peer_that_never_reads_costs_bounded_memory() -> None:
    with Daemon() as daemon, undisturbed(daemon) as witness, Stranger(daemon) as deaf:
        deaf.receive(Links)
        before = rss_bytes(daemon.pid)
        with daemon.raw() as agent:
            for _ in range(150):
                agent.write("set", key="k", value=os.urandom(200_000))
        witness.works()
        grown = rss_bytes(daemon.pid) - before
        assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB wait for a peer that does not read"


def test_a_peer_that_floods_leaves_others_their_turns() -> None:
    with Daemon() as daemon, undisturbed(daemon) as witness, Stranger(daemon) as busy:
        busy.receive(Links)
        prev, bodies = NO_HASH, []
        for seq in range(1, 3001):
            made = change(51, seq, put(f"flood/{seq % 100}", os.urandom(200)), prev_hash=prev)
            prev = made.hash
            bodies.append(made.body)
        for start in range(0, len(bodies), 200):
            busy.send(Changes("default", 0, bodies[start : start + 200]))
            if start % 1000 == 0:
                witness.works()
        wait_until(lambda: daemon.space()["version_vector"].get("51") == 3000, what="all is taken")
