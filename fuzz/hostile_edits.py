"""Hostile edits of texts from a peer: mutated Yjs updates in validly encoded changes, over a real websocket.

A stranger connects to one of two linked daemons and replays editing sessions into texts of its own and into one that
honest agents edit. Most of its updates are mutated, in their bytes or in their structure. Whatever the judge of
updates refuses must be skipped alike on both daemons, each one logged with its reason, while agents are served and the
two daemons go on syncing. In the end every text is read and edited on both, and once more after both were killed and
started again. It fails on: a dead daemon, an agent that waits a second, 64 MB of growth, an edit that is skipped
without a word, a bug in the log, daemons whose digests differ, and texts that differ for longer than it takes the two
to compare what they hold.

Until then a text that a hostile edit got into may differ. Yjs puts an item that claims neighbours which nobody can have
seen side by side where the order of integration puts it; and the judge knows less of what was deleted in a document
that was loaded as a whole, and passes edits into it that others refuse. Such texts are written anew.

    python -m fuzz hostile-edits --inputs 20000 --seed 1

prints the seed and the figures; the exit status is 1 if anything was found, with the last updates in hex.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from benchmarks.verdict import first_difference
from crdtsync.causality import Dot, Hlc, Writer
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.text.judging import EDIT_STRUCTS_MAX
from crdtsync.errors import CrdtSyncError
from crdtsync.wire.change import NO_HASH, Change, Codec, Op, value_hash
from crdtsync.wire.kinds import Kind
from crdtsync.wire.peer.changes import Ack, Changes
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.tokens import decode_dot
from crdtsync.wire.yjs.validator import InvalidUpdate, Outline, UpdateSummary, advance, validate_update
from fuzz.frames import Bystander, Totals, cpu_s, is_late, judge, report, rss_bytes
from fuzz.mutation import packed
from fuzz.yjs_mutation import Mutator
from fuzz.yjs_sessions import session
from tests.harness import Cluster, Daemon, differences, wait_until, wait_until_equal
from tests.simulator.commands import positive_float, positive_int

SKIPPED: Final = "edit_skipped"
"""The event in a daemon's log of an edit that is not applied."""
BATCH_CHANGES: Final = 12
CHANGE_OPS_MAX: Final = 5
SETTLE_INPUTS: Final = 500
HONEST_EVERY_BATCHES: Final = 10
HONEST_TIMEOUT_MS: Final = 10_000
PING_EVERY_S: Final = 0.02
REPLY_TIMEOUT_S: Final = 10.0
EQUAL_TIMEOUT_S: Final = 60.0
NOBODYS_SHARE: Final = 0.05
HONEST_KEY: Final = "honest/text"


@dataclass
class Target:
    """A text under attack: its document, and what a daemon must hold of it."""

    key: str
    document: Dot | None
    is_known: bool = True
    """False when the Yjs library did not take what the judge had passed: then nobody here knows what it holds."""
    marker: Dot | None = None
    known: Outline = field(default_factory=lambda: Outline({"text": "text"}))

    def judge(self, update: bytes) -> str:
        """What the daemon will say against the update; empty if it takes it, and then it counts as taken."""
        try:
            summary: UpdateSummary = validate_update(update, self.known)
        except InvalidUpdate as error:
            return str(error)
        if summary.structs > EDIT_STRUCTS_MAX:
            return f"{summary.structs} parts"
        advance(self.known, summary)
        return ""


class Stranger:
    """A peer by hand, with one writer whose changes hang together."""

    def __init__(self, daemon: Daemon, rng: random.Random) -> None:
        self.node = f"{rng.getrandbits(128):032x}"
        self.writer = Writer(rng.randrange(1, 2**53))
        self._codec = Codec(LOOPBACK_CLUSTER, "default", 0)
        self._seq = 0
        self._prev = NO_HASH
        self._sent_bytes = 0
        self._acked_bytes = 0
        self._socket: Any = connect(  # ends with this object
            daemon.url, compression=None, max_size=None, proxy=None, ping_interval=None, close_timeout=1
        )
        introduction = {"node": self.node, "name": "hostile", "cluster": LOOPBACK_CLUSTER, "database": bytes(16)}
        self._send(Hello(**introduction, spaces={"default": (0, {})}, time_ms=0))  # type: ignore[arg-type]

    def next_dot(self, n: int) -> Dot:
        """The name of the n-th operation of the next change."""
        return Dot(self.writer, self._seq + 1, n)

    def change(self, ops: list[Op]) -> bytes:
        """The next change."""
        self._seq += 1
        origin = (self.node, "hostile") if self._seq == 1 else None
        hlc = Hlc(int(time.time() * 1000) << 16 | self._seq & 0xFFFF)
        made = self._codec.encode(
            Change(self.writer, self._seq, (), self._prev, hlc, "hostile", None, tuple(ops), origin)
        )
        self._prev = made.hash
        return made.body

    def send_changes(self, bodies: list[bytes]) -> None:
        """Send them, and wait until the daemon has taken them in.

        :raises ConnectionClosed: it closes the connection.
        """
        self._sent_bytes += sum(map(len, bodies))
        self._send(Changes("default", 0, bodies))
        deadline_s = time.monotonic() + REPLY_TIMEOUT_S
        while self._acked_bytes < self._sent_bytes:
            message = decode_message(self._socket.recv(timeout=max(0.001, deadline_s - time.monotonic())))
            if isinstance(message, Ack):
                self._acked_bytes = message.received_bytes

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._socket.close()

    def _send(self, message: Any) -> None:
        self._socket.send(message.encode())


class Attack:
    """Editing sessions without end, most of their updates worse than genuine."""

    def __init__(self, pair: Cluster, rng: random.Random, totals: Totals) -> None:
        self.pair = pair
        self.rng = rng
        self.totals = totals
        self.stranger = Stranger(pair[0], rng)
        self.judged: list[tuple[Target, Dot, str]] = []
        """Every update with the dot of its operation, and why the daemons must not take it; empty: they must."""
        self.texts: list[str] = []
        self.genuine = 0
        self._honest = pair[0].client("honest")
        self._number = 0
        self._start()

    def batch(self) -> None:
        """Send some changes.

        :raises ConnectionClosed: the daemon closes the connection.
        """
        bodies = [self._change() for _ in range(BATCH_CHANGES)]
        self.stranger.send_changes(bodies)
        if self._left <= 0:
            self._start()

    def _start(self) -> None:
        """A new session, and the text that it is replayed into."""
        rng = self.rng
        self._updates: list[bytes] = []
        while not self._updates:
            self._updates = session(rng, rng.randint(2, 25), only_text=rng.random() < 0.85)
        self._mutator = Mutator(list(self._updates), rng)
        self._left = rng.choice((20, 60, 60, 120))
        self._number += 1
        if rng.random() < 0.25:
            self._target = self._honest_text()
            return
        key = f"hostile/{self._number}"
        self.texts.append(key)
        self._target = Target(key, None)
        if rng.random() < NOBODYS_SHARE:
            self._target.document = Dot(self.stranger.writer, 2**40 + self._number, 0)  # a document that nobody has

    def _honest_text(self) -> Target:
        """The honest agents' text: what is known of it comes from the daemon."""
        text = self._honest.text(HONEST_KEY)
        written = text.insert(0, "honest 😀 ")
        target = Target(HONEST_KEY, decode_dot(written.document))
        for item in text.updates():
            target.judge(item.update)
        return target

    def _change(self) -> bytes:
        ops: list[Op] = []
        for n in range(self.rng.randint(1, CHANGE_OPS_MAX)):
            op, update = self._op(self.stranger.next_dot(n))
            ops.append(op)
            self.totals.last.append(update)
        return self.stranger.change(ops)

    def _op(self, dot: Dot) -> tuple[Op, bytes]:
        target = self._target
        creates = target.document is None
        update = self._update(genuine=creates and self.rng.random() < 0.9)
        named = None if creates else list(target.document or ())
        if creates:
            target.document = dot
        reason = target.judge(update)
        self.judged.append((target, dot, reason))
        removes = () if target.marker is None else (target.marker,)
        target.marker = dot
        value = packed([named, update])
        return Op(target.key, None, Kind.TEXT, value, value_hash(value), removes, None), update

    def _update(self, *, genuine: bool) -> bytes:
        if self._updates and (genuine or self.rng.random() < 0.15):
            self.genuine += 1
            return self._updates.pop(0)
        self.totals.inputs += 1
        self._left -= 1
        base = self.rng.choice(self._updates[:3] or self._mutator.updates)
        return self._mutator.mutate(base, self._target.known)


class Pinger:
    """An agent that asks all the time, from a thread of its own; ``slowest_s`` is the longest wait of it."""

    def __init__(self, daemon: Daemon) -> None:
        self.slowest_s = 0.0
        self.error = ""
        self._pid = daemon.pid
        self._agent = daemon.raw("pinger", timeout_s=REPLY_TIMEOUT_S)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pinger", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(PING_EVERY_S):
            try:
                started_s, used_s = time.monotonic(), cpu_s(self._pid)
                self._agent.call("get", key="bystander/key")
                took_s, busy_s = time.monotonic() - started_s, cpu_s(self._pid) - used_s
            except (OSError, EOFError, TimeoutError) as error:
                self.error = f"{type(error).__name__}: {error}"
                return
            self.slowest_s = max(self.slowest_s, took_s)
            if is_late(took_s, busy_s):
                self.error = f"it waited {took_s:.2f} s, of which the daemon computed for {busy_s:.2f} s"

    def close(self) -> None:
        """End it."""
        self._end.set()
        self._thread.join(REPLY_TIMEOUT_S)
        self._agent.close()


@dataclass
class Found:
    """The figures of a run, beside those of :class:`fuzz.frames.Totals`."""

    genuine: int = 0
    refused: int = 0
    logged: list[int] = field(default_factory=list)
    """Lines in the log of each daemon about skipped edits."""
    library: int = 0
    """Edits that the judge passed and the daemon skipped: the Yjs library would not have them."""
    texts: int = 0
    snapshots: int = 0
    """How many the second daemon took from the first, for edits of documents that it did not have."""
    different: list[str] = field(default_factory=list)
    """Texts that the two show otherwise, until they have compared what they hold."""
    rewritten: int = 0
    """Those that Yjs could not unite, and that were written anew."""
    alone: int = 0
    """Edits that one daemon skipped and the other took."""
    slowest_honest_s: float = 0.0
    """The longest that a write took until both daemons had it."""


def fuzz(inputs: int, seconds: float, seed: int) -> tuple[Totals, Found]:
    """Attack a fresh pair of daemons until so many updates have been tried, the time is over, or they failed."""
    totals, found, rng = Totals(), Found(), random.Random(seed)
    deadline_s = time.monotonic() + seconds
    with Cluster(2) as pair:
        bystander, pinger = Bystander(pair[0]), Pinger(pair[0])
        try:
            attack = Attack(pair, rng, totals)
            _attack(attack, bystander, found, inputs, deadline_s)
            pinger.close()
            totals.slowest_s = max(totals.slowest_s, pinger.slowest_s)
            if pinger.error:
                totals.failures.append(f"an agent was not served: {pinger.error}")
            if not totals.failures:
                _aftermath(pair, attack, totals, found)
        except (OSError, EOFError, AssertionError, ConnectionClosed, CrdtSyncError) as error:
            totals.failures.append(f"{type(error).__name__}: {error}")
        finally:
            pinger.close()
            bystander.agent.close()
        for daemon in pair:
            if not daemon.is_running:
                totals.failures.append(f"{daemon.name} is dead:\n" + "\n".join(daemon.log_lines()[-10:]))
            totals.failures += [f"{daemon.name} logged a bug: {bug}" for bug in daemon.log_events("bug")[:1]]
    return totals, found


def _attack(attack: Attack, bystander: Bystander, found: Found, inputs: int, deadline_s: float) -> None:
    pair, totals = attack.pair, attack.totals
    base_bytes = batches = 0
    with pair[1].raw("far", timeout_s=HONEST_TIMEOUT_MS / 1000 + 1) as far:
        while totals.inputs < inputs and time.monotonic() < deadline_s and not totals.failures:
            attack.batch()
            batches += 1
            judge(pair[0], bystander, totals, base_bytes)
            if not base_bytes and totals.inputs >= SETTLE_INPUTS:
                base_bytes = rss_bytes(pair[0].pid)
            if batches % HONEST_EVERY_BATCHES == 0:
                started_s = time.monotonic()
                far.write("set", key="far/key", value=batches, w=2, timeout=HONEST_TIMEOUT_MS)
                found.slowest_honest_s = max(found.slowest_honest_s, time.monotonic() - started_s)
    attack.stranger.close()


def _aftermath(pair: Cluster, attack: Attack, totals: Totals, found: Found) -> None:
    """Both daemons hold the same, skipped the same and said so; every text can be read and edited, after a kill too."""
    found.genuine, found.texts = attack.genuine, len(attack.texts)
    wait_until_equal(pair, EQUAL_TIMEOUT_S)
    skipped = [_skipped(daemon, totals) for daemon in pair]
    found.snapshots = len(pair[1].log_events("snapshot_taken"))
    found.alone = len(skipped[0].keys() ^ skipped[1].keys())
    found.logged = [len(of_one) for of_one in skipped]
    _compare_with_judge(attack, skipped[0], totals, found)
    _edit(pair, attack.texts)
    found.different = _different(pair, attack.texts)
    _restart(pair)  # and with it begins a comparison
    wait_until(lambda: not _different(pair, attack.texts), EQUAL_TIMEOUT_S, "both show the same texts")
    wait_until_equal(pair, EQUAL_TIMEOUT_S)
    found.rewritten = sum(len(daemon.log_events("text_rewritten")) for daemon in pair)
    shown = [_texts(daemon, attack.texts) for daemon in pair]
    _restart(pair)
    for daemon, before in zip(pair, shown, strict=True):
        _compare_texts(f"{daemon.name} after a kill", before, _texts(daemon, attack.texts), totals)


def _different(pair: Cluster, keys: list[str]) -> list[str]:
    first, second = (_texts(daemon, keys) for daemon in pair)
    return [key for key in first if first[key] != second[key]]


def _restart(pair: Cluster) -> None:
    for daemon in pair:
        daemon.kill()
        daemon.start()
    pair.wait_connected()
    wait_until(lambda: not differences(list(pair)), EQUAL_TIMEOUT_S, "both hold the same again")


def _compare_texts(who: str, expected: dict[str, object], shown: dict[str, object], totals: Totals) -> None:
    for key in (key for key in expected if shown[key] != expected[key]):
        told = first_difference(shown[key], str(expected[key]))
        totals.failures.append(f"{who} shows another text for {key}: {told}")


def _compare_with_judge(attack: Attack, skipped: dict[Dot, str], totals: Totals, found: Found) -> None:
    """What the judge refuses is skipped with a word; what else is skipped the Yjs library did not want."""
    silent = []
    for target, dot, reason in attack.judged:
        if not target.is_known:
            continue
        if reason:
            found.refused += 1
            silent += [] if dot in skipped else [f"{dot} of {target.key}: {reason}"]
        elif dot in skipped:
            found.library += 1
            target.is_known = False
    if silent:
        totals.failures.append(f"{len(silent):,} edits were taken, or skipped without a word, as {silent[0]}")


def _skipped(daemon: Daemon, totals: Totals) -> dict[Dot, str]:
    """The edits that the daemon says it skipped, and why."""
    skipped = {}
    for event in daemon.log_events(SKIPPED):
        if not event.get("reason"):
            totals.failures.append(f"{daemon.name} skipped an edit and did not say why: {event}")
        skipped[decode_dot(event["dot"])] = str(event.get("reason"))
    return skipped


def _edit(pair: Cluster, keys: list[str]) -> None:
    """An honest edit of every text, on the second daemon."""
    editor = pair[1].client("editor")
    for key in keys:
        with suppress(CrdtSyncError):  # it may never have come to be
            editor.text(key).insert(0, "edited ")
    wait_until_equal(pair, EQUAL_TIMEOUT_S)


def _texts(daemon: Daemon, keys: list[str]) -> dict[str, object]:
    client = daemon.client("reader")
    return {key: client.get(key) for key in [*keys, HONEST_KEY]}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="fuzz hostile-edits", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=positive_int, default=20_000, help="mutated updates to send")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--seconds", type=positive_float, default=1200.0, help="stop after this time")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    started_s = time.monotonic()
    totals, found = fuzz(arguments.inputs, arguments.seconds, seed)
    report(totals, time.monotonic() - started_s)
    logged = " and ".join(f"{count:,}" for count in found.logged)
    print(
        f"{found.genuine:,} genuine updates among them; {found.refused:,} refused by the judge, {found.library:,} "
        f"by the Yjs library alone; {logged} logged as skipped by the two daemons; {found.texts:,} texts of its own; "
        f"{found.snapshots:,} snapshots for edits of unknown documents; "
        f"a write reached both daemons within {found.slowest_honest_s * 1000:.0f} ms"
    )
    print(
        f"{found.alone:,} edits were skipped by one of them alone; {len(found.different):,} texts differed until they "
        f"were compared, {found.rewritten:,} of all were written anew"
    )
    return 1 if totals.failures else 0


if __name__ == "__main__":
    sys.exit(main())
