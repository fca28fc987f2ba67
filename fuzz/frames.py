"""Structure-aware fuzzing of both protocols against a real daemon: whatever comes in, it serves all others.

Genuine frames are recorded from a working session: requests with the tokens, versions and dots of their replies, and
from these one of every other operation on keys; hellos, changes, acknowledgements and wants as a daemon itself sends
them. They are mutated as bytes, as trees of msgpack (also inside the values, headers and tokens that travel as bytes),
and as a stream. After each batch a bystander writes, reads and receives its watch's event. It fails on: a dead daemon,
a bystander that waits a second, a bug in the log, and 64 MB of growth.

    python -m fuzz frames --inputs 20000 --seed 1
    python -m fuzz peer --seconds 60

prints the seed and the figures; the exit status is 1 if anything was found, with the last frames in hex.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import msgpack
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import connect

from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.wire.peer.changes import Ack, Changes
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.messages import type_of
from crdtsync.wire.requests import REQUESTS, Form
from fuzz.messages import Chain, genuine_messages, yjs
from fuzz.mutation import Mutator, Tree, packed
from tests.harness import Daemon, RawAgent
from tests.simulator.commands import positive_float, positive_int

ANSWER_S_MAX: Final = 1.0
GROWTH_BYTES_MAX: Final = 64 * 1024 * 1024
BATCH_INPUTS: Final = 50
SETTLE_INPUTS: Final = 500
"""Memory is compared with what it was after so many inputs: by then caches and code are loaded."""
FAILURES_MAX: Final = 5
REPLY_TIMEOUT_S: Final = 10.0


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
        document = do("text_apply", key="r/text", document=None, update=yjs("hello"), n=next(n))["document"]
        do("text_apply", key="r/text", document=document, update=yjs("more", 9), n=next(n))
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
        part, upload = b"part", "0" * 24
        blob = {"key": "r/blob", "upload": upload}
        do("blob_write", **blob, part=0, value=part, n=next(n))
        do("blob_set", **blob, size=4, sha256=sha256(part).hexdigest(), media_type="text/plain", n=next(n))
        do("blob_read", **blob, part=0)
        do("blob_parts", key="r/blob", sha256=sha256(part).hexdigest())
        do("checkpoint_set", name="c", note="why", prefixes=["r/"], n=next(n))
        do("scan", prefix="r/", limit=10, values=True, at="checkpoint:c")
        do("restore", prefix="r/", at="checkpoint:c", n=next(n))
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


def other_requests(recorded: list[Tree]) -> list[Tree]:
    """A request of every operation on keys that was not recorded, with what was under the names of its arguments."""
    names = {name for _, name, _ in recorded}
    known = {argument: value for _, _, arguments in recorded for argument, value in arguments.items()}
    return [
        [2, name, {argument: known.get(argument, "r/a") for argument in sorted(request.arguments)}]
        for name, request in REQUESTS.items()
        if name not in names and request.form is not Form.NODE  # of those some change the node under test
    ]


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
        recorded = record_requests(daemon)
        self.requests = recorded + other_requests(recorded)
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


_BARRIER: Final = Changes("barrier", 0, [b"x"]).encode()
"""Changes of a space that does not exist are dropped, and acknowledged at once."""


CONNECTING: Final[dict[str, Any]] = {
    "compression": None, "max_size": None, "proxy": None, "ping_interval": None, "close_timeout": 1, "legacy": True,
}  # fmt: skip


class Peers:
    """Messages of the peer protocol."""

    def __init__(self, daemon: Daemon, rng: random.Random, totals: Totals) -> None:
        self.daemon, self.rng, self.totals = daemon, rng, totals
        self.mutator = Mutator(rng)
        self.node, self.cluster = self._identity()
        self.messages = genuine_messages(rng, self.node, self.cluster)
        for message in self.messages:
            self.mutator.learn(message)
        self.chain = self._new_chain()
        self._socket: Any = None
        self._sent = 0

    def _identity(self) -> tuple[str, bytes]:
        return f"{self.rng.getrandbits(128):032x}", LOOPBACK_CLUSTER

    def _new_chain(self) -> Chain:
        return Chain(self.rng, self.cluster)

    def _connect(self) -> Any:
        return connect(self.daemon.url, **CONNECTING)

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
            while type_of(self._socket.recv(timeout=REPLY_TIMEOUT_S)) != Ack.TYPE:
                pass
            self.totals.outcomes["taken"] += 1
        except (ConnectionClosed, OSError):
            self._refused()

    def _attach(self) -> bool:
        self._socket = self._connect()  # closed by hand: it outlives this function
        hello = self.messages[0]
        if self.rng.random() < 0.2:
            data = self.mutator.message(hello)
        else:
            data = packed([Hello.TYPE, {**hello[1], "spaces": {"default": [0, []]}}])
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
            return Changes(self.chain.space, 0, bodies).encode()
        return self.mutator.message(self.rng.choice(self.messages))

    def _refused(self) -> None:
        self.totals.outcomes["connection closed"] += 1
        with suppress(WebSocketException, OSError):
            self.chain = self._new_chain() if self.rng.random() < 0.02 else self.chain
        self._resume()
        self.close()

    def _resume(self) -> None:
        """Go on from what the daemon holds: some of what was sent may have come too late."""
        if self.chain.space != "default":
            self.chain = self._new_chain()
            return
        held = self.daemon.space()["version_vector"].get(str(self.chain.writer), 0)
        if held != self.chain.seq:
            self.chain = self._new_chain()

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


def cpu_s(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_late(took_s: float, busy_s: float) -> bool:
    """Whether an answer took too long and the daemon computed for much of that time: else others had the machine."""
    return took_s > ANSWER_S_MAX and (busy_s > ANSWER_S_MAX / 2 or took_s > REPLY_TIMEOUT_S)


def judge(daemon: Daemon, bystander: Bystander, totals: Totals, base_bytes: int) -> None:
    """Look whether anything is wrong after a batch of inputs."""
    used_s = cpu_s(daemon.pid)
    try:
        took_s = bystander.ask()
    except (AssertionError, OSError, EOFError, TimeoutError) as error:
        totals.failures.append(f"the bystander was not served: {type(error).__name__}: {error}")
        return
    totals.slowest_s = max(totals.slowest_s, took_s)
    busy_s = cpu_s(daemon.pid) - used_s
    if is_late(took_s, busy_s):
        totals.failures.append(f"the bystander waited {took_s:.2f} s, of which the daemon computed for {busy_s:.2f} s")
    if base_bytes:
        totals.grown_bytes = rss_bytes(daemon.pid) - base_bytes
        if totals.grown_bytes > GROWTH_BYTES_MAX:
            totals.failures.append(f"the daemon grew by {totals.grown_bytes:,} bytes")
    lines = daemon.log_lines()
    bugs = [at for at, line in enumerate(lines) if "Traceback" in line or '"event": "bug"' in line]
    if bugs:  # what nobody caught is told over many lines
        told = "\n".join(lines[bugs[-1] : bugs[-1] + TRACEBACK_LINES_MAX])
        totals.failures.append(f"a bug in the log: {told[:3000]}")


TRACEBACK_LINES_MAX = 40

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
    if target == "member":
        from fuzz.members import Members  # noqa: PLC0415  # so does this

        return Members, {"insecure_loopback": False}
    return (Peers if target == "peer" else Agents), {}


def main(target: str = "frames") -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog=f"fuzz {target}", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=positive_int, default=20_000, help="mutated frames to send")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--seconds", type=positive_float, default=600.0, help="stop after this time")
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
