"""Structure-aware fuzzing of both protocols against a real daemon: whatever comes in, it serves all others.

Genuine frames are recorded from a working session: requests of every operation with the tokens, versions and dots of
their replies; hellos, changes, acknowledgements and wants as a daemon itself sends them. They are mutated as bytes,
as trees of msgpack (also inside the values, headers and tokens that travel as bytes), and as a stream. After each
batch a bystander writes, reads and receives its watch's event. It fails on: a dead daemon, a bystander that waits
a second, a bug in the log, and 64 MB of growth.

    python -m fuzz frames --inputs 20000 --seed 1
    python -m fuzz peer --seconds 60

prints the seed and the figures; the exit status is 1 if anything was found, with the last frames in hex.
"""

from __future__ import annotations

import argparse
import binascii
import collections
import os
import random
import struct
import sys
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgpack
import pycrdt
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import connect

from crdtsync.causality import Dot, Hlc, Writer
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.wire.change import NO_HASH, Change, Codec, Dep, Kind, Op, RemoveRange, value_hash
from crdtsync.wire.messages import (
    Ack,
    Changes,
    HandledKey,
    Hello,
    Links,
    Message,
    ResolvedPattern,
    Resolvers,
    SpaceAck,
    Stop,
    Want,
    encode_message,
)
from tests.harness import Daemon, RawAgent

ANSWER_S_MAX: Final = 1.0
GROWTH_BYTES_MAX: Final = 64 * 1024 * 1024
BATCH_INPUTS: Final = 50
SETTLE_INPUTS: Final = 500
"""Memory is compared with what it was after so many inputs: by then caches and code are loaded."""
FAILURES_MAX: Final = 5
REPLY_TIMEOUT_S: Final = 10.0
FRAME_BYTES_MAX: Final = 300_000
PACK_DEPTH_MAX: Final = 200

Tree = Any  # what msgpack unpacks to


# -- mutation ---------------------------------------------------------------------------------------------------------

_INTS: Final = (
    0,
    1,
    2,
    -1,
    7,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    2**31,
    2**32 - 1,
    2**53 - 1,
    2**53,
    2**63 - 1,
    2**64 - 1,
    -(2**63),
)
_TEXTS: Final = (
    "",
    "default",
    "_cluster",
    "k",
    "a/b",
    "*",
    "..",
    "\0",
    "é",
    "😀" * 10,
    "x" * 129,
    "y" * 1025,
    "v1.",
    "c1.",
    "1.2.3",
    "?",
    "all",
    "majority",
)
_BLOBS: Final = (b"", b"\0", b"\xc0", b"\xc1", bytes(8), bytes(16), b"\x91" * 70, b"\xff" * 16, b"\xdd\xff\xff\xff\xff")
_FLOATS: Final = (0.0, -0.5, 1.5, float("nan"), float("inf"), 1e308)


class Mutator:
    """Makes a genuine message worse, at random."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.scraps: list[Tree] = []

    def learn(self, tree: Tree) -> None:
        """Remember the parts of a genuine message, to put them where they do not belong."""
        for part in _parts(tree):
            if len(self.scraps) < 2000:
                self.scraps.append(part)

    def tree(self, tree: Tree, edits: int) -> Tree:
        """A copy with some parts replaced, removed, repeated or moved."""
        for _ in range(edits):
            tree = self._edit(tree)
        return tree

    def _edit(self, tree: Tree) -> Tree:
        rng = self.rng
        if isinstance(tree, list) and tree and rng.random() < 0.85:
            at = rng.randrange(len(tree))
            copy = list(tree)
            match rng.randrange(12):
                case 0:
                    del copy[at]
                case 1:
                    copy.insert(at, self.scrap())
                case 2:
                    copy[at:at] = [copy[at]] * rng.choice((1, 2, 10, 300))
                case 3:
                    other = rng.randrange(len(copy))
                    copy[at], copy[other] = copy[other], copy[at]
                case _:
                    copy[at] = self._edit(copy[at])
            return copy
        if isinstance(tree, dict) and tree and rng.random() < 0.85:
            name = rng.choice(list(tree))
            changed = dict(tree)
            match rng.randrange(8):
                case 0:
                    del changed[name]
                case 1:
                    changed[rng.choice(_TEXTS)] = self.scrap()
                case 2:
                    changed[
                        rng.choice(("seen", "strict", "w", "timeout", "again", "after", "if_version", "space", "n"))
                    ] = self.scrap()
                case _:
                    changed[name] = self._edit(tree[name])
            return changed
        return self._leaf(tree)

    def _leaf(self, leaf: Tree) -> Tree:
        rng = self.rng
        if rng.random() < 0.4:
            return self.scrap()
        if isinstance(leaf, bytes):
            inner = _unpacked(leaf)
            if inner is not None and rng.random() < 0.7:
                return packed(self._edit(inner))
            return self.octets(leaf)
        if isinstance(leaf, str):
            return self._text(leaf)
        if isinstance(leaf, bool):
            return not leaf
        if isinstance(leaf, int):
            return rng.choice((leaf + 1, leaf - 1, -leaf, leaf * 2, leaf ^ (1 << rng.randrange(62))))
        return self.scrap()

    def _text(self, text: str) -> str:
        rng = self.rng
        if text[:3] in ("c1.", "v1.") and rng.random() < 0.7:
            with suppress(ValueError, binascii.Error):
                inner = _unpacked(urlsafe_b64decode(text[3:] + "=" * (-len(text[3:]) % 4)))
                if inner is not None:
                    return text[:3] + urlsafe_b64encode(packed(self._edit(inner))).rstrip(b"=").decode()
        at = rng.randrange(len(text) + 1)
        return text[:at] + rng.choice(_TEXTS) + text[at + rng.randrange(3) :]

    def scrap(self) -> Tree:
        """A value that is nasty, or genuine and out of place."""
        rng = self.rng
        if self.scraps and rng.random() < 0.4:
            return rng.choice(self.scraps)
        return rng.choice((
            rng.choice(_INTS), rng.choice(_TEXTS), rng.choice(_BLOBS), rng.choice(_FLOATS), None, True, False, [], {},
            [[]], {"a": {}}, _nested(rng.choice((3, 64, 65, 150))), [rng.choice(_INTS)] * rng.choice((1, 3, 100, 5000)),
            {str(i): i for i in range(rng.choice((1, 20, 500)))}, msgpack.ExtType(rng.randrange(128), b"x"),
            rng.randbytes(rng.choice((1, 16, 300))),
        ))  # fmt: skip

    def octets(self, data: bytes) -> bytes:
        """The bytes with some flipped, cut, repeated or put in."""
        rng = self.rng
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(changed) + 1)
            match rng.randrange(6):
                case 0:
                    del changed[at : at + rng.choice((1, 2, 10))]
                case 1:
                    changed[at:at] = rng.randbytes(rng.choice((1, 4, 30)))
                case 2:
                    changed[at:at] = rng.choice(_BLOBS)
                case 3:
                    del changed[at:]
                case _:
                    if at < len(changed):
                        changed[at] = rng.choice((changed[at] ^ (1 << rng.randrange(8)), rng.randrange(256)))
        return bytes(changed)

    def message(self, tree: Tree) -> bytes:
        """A worse form of a whole message; sometimes none the worse."""
        edits = self.rng.choice((0, 1, 1, 1, 2, 3, 6))
        data = packed(self.tree(tree, edits))
        return self.octets(data) if self.rng.random() < 0.15 else data


def packed(tree: Tree) -> bytes:
    """As msgpack; what cannot be packed (too deep) becomes nil."""
    try:
        return bytes(msgpack.packb(tree, use_bin_type=True))[:FRAME_BYTES_MAX]
    except (ValueError, OverflowError, TypeError):
        return b"\xc0"


def _unpacked(data: bytes) -> Tree | None:
    try:
        tree = msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, msgpack.exceptions.UnpackException, TypeError):
        return None
    return tree if isinstance(tree, list | dict) else None


def _parts(tree: Tree) -> Iterator[Tree]:
    yield tree
    children: Any = tree if isinstance(tree, list) else tree.values() if isinstance(tree, dict) else ()
    for child in children:
        yield from _parts(child)


def _nested(depth: int) -> Tree:
    tree: Tree = None
    for _ in range(min(depth, PACK_DEPTH_MAX)):
        tree = [tree]
    return tree


# -- genuine sessions -------------------------------------------------------------------------------------------------


def record_requests(daemon: Daemon) -> list[Tree]:
    """Requests of every operation, with arguments that a session of this daemon gave."""
    recorded: list[Tree] = []
    with daemon.raw("recorder") as agent:

        def do(operation: str, **arguments: Any) -> Any:
            recorded.append([2, operation, arguments])
            return agent.call(operation, **arguments)

        value, n = packed({"a": [1, 2.5, "x"]}), iter(range(1, 100))
        token = do("set", key="r/a", value=value, n=next(n), ttl=60_000, confidence=0.5, meta=packed({"m": 1}))["token"]
        version = do("get", key="r/a", after=token)["version"]
        do("set", key="r/a", value=value, n=next(n), seen=version)
        do("set", key="r/a", value=value, n=next(n), seen="?")
        entry = do("entry", key="r/a")
        do("set", key="r/a", value=value, n=next(n), if_version=entry["version"])
        do("set", key="r/b", value=value, n=next(n), if_absent=True, agent="other", space="default")
        do("delete", key="r/b", n=next(n), seen=version, strict=False)
        for _ in range(3):
            do("append", key="r/log", value=value, n=next(n))
        do("log", key="r/log", start=-2, limit=10)
        do("trim", key="r/log", keep=1, n=next(n))
        document = do("text_apply", key="r/text", document=None, update=_yjs("hello"), n=next(n))["document"]
        do("text_apply", key="r/text", document=document, update=_yjs("more", 9), n=next(n))
        text = do("text_read", key="r/text")
        do("text_read", key="r/text", document=document, state=b"\0")
        do("text_updates", key="r/text", after=token, limit=10)
        do("set", key="r/c", value=value, n=next(n), seen=text["version"], w=1, timeout=10)
        ops = [
            ["set", {"key": "r/d", "value": value}],
            ["append", {"key": "r/log", "value": value}],
            ["delete", {"key": "r/d"}],
        ]
        do("batch", ops=ops, n=next(n))
        do("scan", prefix="r/", start="r/a", limit=10, values=True)
        do("wait", token=token, w=1, timeout=10)
        do("watch", prefix="r/", after=token)
        do("unwatch", watch=2)
        do("resolver", pattern="r/**", takeover=1000)
        do("resolver", pattern="r/*", space="default")
        do("status")
        recorded.append([1, "hello", {"protocol": 1, "client": bytes(16), "agent": "recorder", "space": "default"}])
        recorded.append([2, "set", {"key": "r/a", "value": value, "n": 1, "again": True}])
        recorded.append([2, "resolver_done", {"resolver": 2, "key": "r/a"}])
        recorded.append([3, "resolver_done", {"resolver": 2, "key": "r/a", "error": "no idea"}])
        recorded.append([2, "set", {"key": "r/w", "value": value, "n": 50, "w": 2, "timeout": 20}])
    return recorded


def _yjs(text: str, client_id: int = 5) -> bytes:
    doc: Any = pycrdt.Doc(client_id=client_id)
    doc["text"] = content = pycrdt.Text()
    content += text
    return bytes(doc.get_update())


class Chain:
    """A writer whose changes hang together, so that mutated ones among them are applied and not only refused."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.codec = Codec(LOOPBACK_CLUSTER, "default", 0)
        self.writer = Writer(rng.randrange(1, 2**53))
        self.seq = 0
        self.prev = NO_HASH

    def ops(self) -> list[Op]:
        """A genuine change's operations."""
        rng = self.rng
        key = f"p/{rng.randrange(20)}"
        dots = tuple(Dot(self.writer, max(1, self.seq - i), 0) for i in range(rng.randrange(4)))
        value = packed([rng.randrange(100)])
        marker = packed([None, _yjs("peer", rng.randrange(1, 2**31))])
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


def genuine_messages(rng: random.Random, node: str) -> list[Tree]:
    """Messages of every type, as trees."""
    introduction: dict[str, Any] = {
        "node": node, "name": "fuzzed", "cluster": LOOPBACK_CLUSTER, "database": bytes(16), "time_ms": 0,
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
    ]
    return [msgpack.unpackb(encode_message(message)) for message in messages]


# -- the targets ------------------------------------------------------------------------------------------------------


class Target(Protocol):
    """One protocol under attack."""

    def attack(self) -> None:
        """Send one input and take what comes of it."""

    def close(self) -> None:
        """End what is open."""


@dataclass
class Totals:
    """The figures of a run."""

    inputs: int = 0
    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    last: collections.deque[bytes] = field(default_factory=lambda: collections.deque(maxlen=BATCH_INPUTS + 1))
    slowest_s: float = 0.0
    grown_bytes: int = 0
    failures: list[str] = field(default_factory=list)


class Agents:
    """Frames of the agent protocol."""

    def __init__(self, daemon: Daemon, rng: random.Random, totals: Totals) -> None:
        self.daemon, self.rng, self.totals = daemon, rng, totals
        self.mutator = Mutator(rng)
        self.requests = record_requests(daemon)
        for request in self.requests:
            self.mutator.learn(request)
        self._agent: RawAgent | None = None
        self._id = 1000

    def attack(self) -> None:
        """See :class:`Target`."""
        agent = self._agent or self._attach()
        frame = self._stream(self.mutator.message(self.rng.choice(self.requests)))
        self.totals.last.append(frame)
        self._id += 1
        sentinel = packed([self._id, "get", {"key": "r/a"}])
        try:
            agent.send_bytes(frame)
            agent.send_bytes(struct.pack(">I", len(sentinel)) + sentinel)
            self._await(agent, self._id)
        except (EOFError, ConnectionError):
            self.totals.outcomes["connection closed"] += 1
            self.close()
        except TimeoutError:
            self.totals.outcomes["waits for more of a frame"] += 1
            self.close()

    def _attach(self) -> RawAgent:
        greeted = self.rng.random() < 0.9
        self._agent = RawAgent(self.daemon.socket, "fuzzed" if greeted else None, timeout_s=REPLY_TIMEOUT_S)
        return self._agent

    def _stream(self, payload: bytes) -> bytes:
        length = len(payload)
        if self.rng.random() < 0.03:
            length = self.rng.choice((0, length - 1, 2**23 + 1, 2**32 - 1, 2**31)) % 2**32
        return struct.pack(">I", length) + payload

    def _await(self, agent: RawAgent, sentinel: int) -> None:
        """Until the sentinel is answered. A frame that claims to be longer swallows it: then nothing comes."""
        while True:
            request, status, content = agent.receive(0.5)
            if status == 1:
                self.totals.outcomes[str(content.get("code"))] += 1
                if content.get("code") == "internal":
                    self.totals.failures.append(f"internal error: {content}")
            elif status == 0 and request != sentinel:
                self.totals.outcomes["done"] += 1
            if request == sentinel:
                return

    def close(self) -> None:
        """See :class:`Target`."""
        if self._agent is not None:
            self._agent.close()
            self._agent = None


_ACK: Final = 3
_BARRIER: Final = packed([2, "barrier", 0, [b"x"]])
"""Changes of a space that does not exist are dropped, and acknowledged at once."""


class Peers:
    """Messages of the peer protocol."""

    def __init__(self, daemon: Daemon, rng: random.Random, totals: Totals) -> None:
        self.daemon, self.rng, self.totals = daemon, rng, totals
        self.mutator = Mutator(rng)
        self.node = f"{rng.getrandbits(128):032x}"
        self.messages = genuine_messages(rng, self.node)
        for message in self.messages:
            self.mutator.learn(message)
        self.chain = Chain(rng)
        self._socket: Any = None
        self._sent = 0

    def attack(self) -> None:
        """See :class:`Target`."""
        if self._socket is None or self._sent > 200:
            self.close()
            if not self._attach():
                return
        data = self._message()
        self.totals.last.append(data)
        self._sent += 1
        try:
            self._socket.send(data)
            self._socket.send(_BARRIER)
            while msgpack.unpackb(self._socket.recv(timeout=REPLY_TIMEOUT_S))[0] != _ACK:
                pass
            self.totals.outcomes["taken"] += 1
        except (ConnectionClosed, OSError):
            self._refused()

    def _attach(self) -> bool:
        self._socket = connect(  # closed by hand: it outlives this function
            self.daemon.url,
            compression=None,
            max_size=None,
            proxy=None,
            ping_interval=None,
            close_timeout=1,
            legacy=True,
        )
        hello = self.messages[0]
        if self.rng.random() < 0.2:
            data = self.mutator.message(hello)
        else:
            data = packed([1, {**hello[1], "spaces": {"default": [0, []]}}])
        self.totals.last.append(data)
        self._sent = 0
        try:
            self._socket.send(data)
            self._socket.recv(timeout=REPLY_TIMEOUT_S)
        except (ConnectionClosed, OSError):
            self._refused()
            return False
        return True

    def _message(self) -> bytes:
        if self.rng.random() < 0.5:
            bodies = [self.chain.next_body(self.mutator) for _ in range(self.rng.choice((1, 1, 3)))]
            return packed([2, "default", 0, bodies])
        return self.mutator.message(self.rng.choice(self.messages))

    def _refused(self) -> None:
        self.totals.outcomes["connection closed"] += 1
        with suppress(WebSocketException, OSError):
            self.chain = Chain(self.rng) if self.rng.random() < 0.02 else self.chain
        self._resume()
        self.close()

    def _resume(self) -> None:
        """Go on from what the daemon holds: some of what was sent may have come too late."""
        held = self.daemon.space()["version_vector"].get(str(self.chain.writer), 0)
        if held != self.chain.seq:
            self.chain = Chain(self.rng)

    def close(self) -> None:
        """See :class:`Target`."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


# -- the judge --------------------------------------------------------------------------------------------------------


class Bystander:
    """An agent that does nothing wrong and must notice nothing."""

    def __init__(self, daemon: Daemon) -> None:
        self.agent = daemon.raw("bystander", timeout_s=REPLY_TIMEOUT_S)
        self.agent.call("watch", prefix="bystander/")
        self.count = 0

    def ask(self) -> float:
        """A write, a read, an event; how long they took, in seconds."""
        self.count += 1
        started = time.monotonic()
        token = self.agent.write("set", key="bystander/key", value=self.count)["token"]
        found = self.agent.call("get", key="bystander/key", after=token)
        assert msgpack.unpackb(found["value"]) == self.count
        while not self._has_event():
            request, status, content = self.agent.receive()
            assert status == 2, (request, status)
            self.agent.events.append((request, content))
        self.agent.events.clear()
        return time.monotonic() - started

    def _has_event(self) -> bool:
        for _, events in self.agent.events:
            for event in events:
                assert event["event"] != "reset", "the daemon started over"
                if event["value"] == packed(self.count):
                    return True
        return False


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    statm = Path(f"/proc/{pid}/statm").read_text().split()
    return int(statm[1]) * os.sysconf("SC_PAGE_SIZE")


def judge(daemon: Daemon, bystander: Bystander, totals: Totals, base_bytes: int) -> None:
    """Look whether anything is wrong after a batch of inputs."""
    try:
        took_s = bystander.ask()
    except (AssertionError, OSError, EOFError, TimeoutError) as error:
        totals.failures.append(f"the bystander was not served: {type(error).__name__}: {error}")
        return
    totals.slowest_s = max(totals.slowest_s, took_s)
    if took_s > ANSWER_S_MAX:
        totals.failures.append(f"the bystander waited {took_s:.2f} s")
    if base_bytes:
        totals.grown_bytes = rss_bytes(daemon.pid) - base_bytes
        if totals.grown_bytes > GROWTH_BYTES_MAX:
            totals.failures.append(f"the daemon grew by {totals.grown_bytes:,} bytes")
    bugs = [line for line in daemon.log_lines() if "Traceback" in line or '"event": "bug"' in line]
    if bugs:
        totals.failures.append(f"a bug in the log: {bugs[-1][-3000:]}")


Make = Callable[[Daemon, random.Random, Totals], Target]


def fuzz(make: Make, inputs: int, seconds: float, seed: int, **settings: Any) -> Totals:
    """Attack a fresh daemon until so many inputs have been tried, the time is over, or it failed."""
    totals, rng = Totals(), random.Random(seed)
    deadline = time.monotonic() + seconds
    with Daemon("fuzzed", **settings) as daemon:
        bystander = Bystander(daemon)
        target = make(daemon, rng, totals)
        base_bytes = 0
        try:
            while totals.inputs < inputs and time.monotonic() < deadline and not totals.failures:
                for _ in range(BATCH_INPUTS):
                    target.attack()
                totals.inputs += BATCH_INPUTS
                judge(daemon, bystander, totals, base_bytes)
                if not base_bytes and totals.inputs >= SETTLE_INPUTS:
                    base_bytes = rss_bytes(daemon.pid)
        except (OSError, EOFError, AssertionError) as error:
            totals.failures.append(f"the daemon does not answer: {type(error).__name__}: {error}")
        finally:
            target.close()
            bystander.agent.close()
        if not daemon.is_running:
            totals.failures.append("the daemon is dead:\n" + "\n".join(daemon.log_lines()[-10:]))
    return totals


def report(totals: Totals, seconds: float) -> None:
    """Print the figures."""
    rate = totals.inputs / max(seconds, 0.001)
    print(f"{totals.inputs:,} inputs, {seconds:.0f} s, {rate:,.0f} a second")
    print(
        f"bystander's slowest answer {totals.slowest_s * 1000:.0f} ms, "
        f"memory grew by {totals.grown_bytes / 2**20:.1f} MiB"
    )
    for outcome, count in totals.outcomes.most_common():
        print(f"  {count:8}  {outcome}")
    for failure in totals.failures[:FAILURES_MAX]:
        print(f"FOUND {failure}")
    if totals.failures:
        print("the last inputs, newest last:")
        for data in totals.last:
            print(f"  {data[:2000].hex()}{'…' if len(data) > 2000 else ''}")


def _target(target: str) -> tuple[Make, dict[str, Any]]:
    """Who attacks, and the settings of the daemon."""
    if target == "joining":
        from fuzz.joining import Joiners  # noqa: PLC0415  # it imports this module

        return Joiners, {"insecure_loopback": False}
    return (Peers if target == "peer" else Agents), {}


def main(target: str = "frames") -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog=f"fuzz {target}", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=20_000, help="mutated frames to send")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--seconds", type=float, default=600.0, help="stop after this time")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    make, settings = _target(target)
    started = time.monotonic()
    totals = fuzz(make, arguments.inputs, arguments.seconds, seed, **settings)
    report(totals, time.monotonic() - started)
    return 1 if totals.failures else 0


if __name__ == "__main__":
    sys.exit(main())
