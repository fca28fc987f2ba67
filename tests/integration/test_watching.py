"""Watches and mirrors of real daemons: killed and resumed, many at once, slow ones among them."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import pytest

from benchmarks.gauges import rss_bytes
from crdtsync import AsyncClient, Client
from crdtsync.causality import covers
from crdtsync.client import Event
from crdtsync.client.protocol.frames import MessageReader, encode_hello, encode_request
from crdtsync.client.values.encoding import plain
from crdtsync.errors import OutcomeUnknown
from crdtsync.wire.tokens import decode_token
from tests.harness import Daemon, wait_until
from tests.harness.cluster import wait_until_equal

pytestmark = pytest.mark.integration

KEYS = 200


class Writers:
    """Agents that write for as long as they are told: batches, so that a count in two keys is always the same."""

    def __init__(self, daemon: Daemon, writes: int, agents: int = 8, size_bytes: int = 20) -> None:
        self.last: dict[str, int] = {}
        self.done = 0
        self.allowed = writes
        """They pause when they have done so many."""
        self._daemon = daemon
        self._wanted = writes
        self._agents = agents
        self._filler = "x" * size_bytes
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def has_done(self, writes: int) -> bool:
        return self.done >= writes or self.is_done

    async def _run(self) -> None:
        try:
            async with AsyncClient(self._daemon.socket, agent="writer", timeout=60.0) as state:
                await asyncio.gather(*(self._write(state.session(), number) for number in range(self._agents)))
        except BaseException as error:  # noqa: BLE001  # shown by the test
            self._failure = error

    async def _write(self, state: Any, agent: int) -> None:
        rng = Random(agent)
        count = 0
        while self.done < self._wanted:
            if self.done >= self.allowed:
                await asyncio.sleep(0.005)
                continue
            key = f"w/{agent}/{rng.randrange(KEYS // self._agents)}"
            count += 1
            self.done += 1
            if count % 4:
                await self._again(partial(state.set, key, [count, self._filler]))
                self.last[key] = count
            else:
                async with state.batch() as batch:
                    for name in ("one", "other"):
                        batch.set(f"w/{agent}/{name}", [count, self._filler])
                self.last |= {f"w/{agent}/one": count, f"w/{agent}/other": count}

    async def _again(self, write: Callable[[], Any]) -> None:
        while True:
            try:
                await write()
            except OutcomeUnknown:
                continue
            return


class Follower:
    """What somebody knows who only looks at events; every event must not go back behind those before."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.vector: dict[Any, int] = {}
        self.token: str | None = None
        self.counts: dict[str, int] = {}

    def take(self, event: dict[str, Any]) -> None:
        self.counts[event["event"]] = self.counts.get(event["event"], 0) + 1
        parts = event.get("events") or [event]
        for part in parts:
            if part["key"] is not None:
                count = part["value"][0]
                assert count >= self.values.get(part["key"], 0), f"{part['key']} goes back to {count}"
                self.values[part["key"]] = count
        if event["event"] == "batch":
            assert len(parts) == 2, "half of a batch"
            assert parts[0]["value"][0] == parts[1]["value"][0]
        if event["token"] is not None:
            vector = decode_token(event["token"])["default"][1]
            assert covers(vector, self.vector), "a token names less than one before"
            self.token, self.vector = event["token"], vector


# -- killed and resumed ----------------------------------------------------------------------------------------------


def follow(daemon: Daemon, after: str | None, out: Path) -> subprocess.Popen[bytes]:
    """``crdtsync watch`` in a process of its own."""
    code = "from crdtsyncd.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", code, "watch", "w/", "--socket", str(daemon.socket), "--json"]
    with out.open("ab") as stream:
        return subprocess.Popen([*command, *(("--after", after) if after else ())], stdout=stream)


def has_grown(out: Path, size_bytes: int) -> bool:
    return out.stat().st_size > size_bytes


def read_lines(out: Path, follower: Follower, start: int) -> int:
    """Hand on the whole lines from ``start`` on; where the next begins."""
    with out.open("rb") as stream:
        stream.seek(start)
        data = stream.read()
    end = data.rfind(b"\n") + 1
    for line in data[:end].splitlines():
        follower.take(json.loads(line))
    return start + end


def check_killed_watcher(daemon: Daemon, tmp_path: Path, kills: int, writes: int, size_bytes: int = 20) -> Follower:
    follower, out, at = Follower(), tmp_path / "events", 0
    writers = Writers(daemon, writes, size_bytes=size_bytes)
    rng = Random(kills)
    share = writes // kills
    for number in range(kills):
        writers.allowed = (number + 1) * share  # some are left for each watcher, however fast the writers are
        watcher = follow(daemon, follower.token, out)
        try:
            before = out.stat().st_size
            wait_until(partial(has_grown, out, before))
            threading.Event().wait(rng.random() * 0.1)  # anywhere in what it does
            wait_until(partial(writers.has_done, number * share + share // 2))
        finally:
            watcher.kill()
            watcher.wait()
        at = read_lines(out, follower, at)
        os.truncate(out, at)  # half a line was never said
        if follower.token is None:
            follower.values.clear()  # it was killed in its first snapshot: it begins anew
    writers.allowed = writes
    watcher = follow(daemon, follower.token, out)
    try:
        wait_until(lambda: writers.is_done, 120)
        deadline = monotonic() + 60
        while follower.values != writers.last:
            assert monotonic() < deadline, (len(follower.values), len(writers.last))
            at = read_lines(out, follower, at)
            threading.Event().wait(0.02)
        watcher.send_signal(signal.SIGINT)
        watcher.wait(20)
    finally:
        watcher.kill()
        watcher.wait()
    return follower


def test_a_watcher_that_is_killed_and_resumed_misses_nothing_and_never_goes_back(daemon, tmp_path):
    check_killed_watcher(daemon, tmp_path, kills=8, writes=3000)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_fifty_times_during_twenty_thousand_writes(daemon, tmp_path):
    check_killed_watcher(daemon, tmp_path, kills=50, writes=20_000)


@pytest.mark.parametrize("kills,writes", [(4, 3000), pytest.param(50, 20_000, marks=pytest.mark.soak)])
def test_so_is_one_whose_daemon_is_killed(daemon, kills, writes):
    """The watch, the writers and the mirror find back by themselves."""
    follower = Follower()
    shown: list[str] = []
    with daemon.client("watcher") as client, client.watch("w/") as events, client.mirror("w/") as mirror:

        def run() -> None:
            for event in events:
                follower.take(_record(event))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        writers = Writers(daemon, writes)
        for number in range(kills):
            writers.allowed = (number + 2) * writes // (kills + 1)  # some are left for each kill
            wait_until(partial(writers.has_done, (number + 1) * writes // (kills + 1)), 120)
            daemon.kill()
            before = mirror.snapshot()
            daemon.start()
            assert all(before[key][0] <= mirror[key][0] for key in before)
            shown.append(mirror.token or "")
        wait_until(lambda: writers.is_done, 120)
        wait_until(lambda: follower.values == writers.last)
        mirror.wait(client.keys("w/").token)
        assert {key: value[0] for key, value in mirror.items()} == writers.last
        assert mirror == dict(client.items("w/"))
        assert mirror.staleness_s < 60
        vectors = [decode_token(token)["default"][1] for token in shown]
        assert all(covers(later, earlier) for earlier, later in itertools.pairwise(vectors))
    thread.join(60)


# -- many ------------------------------------------------------------------------------------------------------------


class Raw:
    """A watch of which the test reads as much as it likes."""

    def __init__(self, daemon: Daemon, number: int, states: bool = False) -> None:
        self.follower = Follower()
        self.read_bytes = 0
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(daemon.socket))
        self.socket.settimeout(20)
        self._frames = MessageReader()
        arguments: dict[str, object] = {"prefix": "w/", **({"states": True} if states else {})}
        hello = encode_hello(os.urandom(16), f"raw-{number}", "default")
        self.socket.sendall(hello + encode_request(2, "watch", arguments))

    def read_some(self, size_bytes: int) -> None:
        data = self.socket.recv(size_bytes)
        assert data, "the daemon hung up"
        self.read_bytes += len(data)
        for _, status, content in self._frames.feed(data):
            for event in content if status == 2 else ():
                self.follower.take(_plain(event))


class Crowd:
    """Watchers that read at once, in one process; a few of them look at what they read."""

    def __init__(self, daemon: Daemon, count: int, looking: int) -> None:
        self.followers: list[Follower] = []
        self.read_bytes = 0
        self._daemon = daemon
        self._counts = (count, looking)
        self._failure: BaseException | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._is_over.set()
        self._thread.join(120)
        if self._failure is not None:
            raise self._failure
        assert not self._thread.is_alive(), "the quick ones have not been told all"

    async def _run(self) -> None:
        count, looking = self._counts
        try:
            others = [asyncio.create_task(self._read(number)) for number in range(count - looking)]
            await asyncio.gather(*(self._look(number) for number in range(looking)))
            for task in others:
                task.cancel()
        except BaseException as error:  # noqa: BLE001  # shown by the test
            self._failure = error

    async def _look(self, number: int) -> None:
        follower = Follower()
        self.followers.append(follower)
        async with AsyncClient(self._daemon.socket, agent=f"quick-{number}") as client, client.watch("w/") as events:
            async for event in events:
                follower.take(_record(event))
                if follower.values.get("w/end"):
                    return

    async def _read(self, number: int) -> None:
        reader, writer = await asyncio.open_unix_connection(str(self._daemon.socket), limit=1 << 20)
        writer.write(encode_hello(os.urandom(16), f"crowd-{number}", "default"))
        writer.write(encode_request(2, "watch", {"prefix": "w/"}))
        try:
            while data := await reader.read(1 << 18):
                self.read_bytes += len(data)
        finally:
            writer.close()


def _record(event: Event) -> dict[str, Any]:
    parts = [{"key": part.key, "value": part.value} for part in event.events]
    return {"event": event.event, "key": event.key, "value": event.value, "token": event.token, "events": parts}


def _plain(event: dict[str, Any]) -> dict[str, Any]:
    parts = [_plain(part) for part in event.get("events") or ()]
    return {**event, "value": plain(event.get("value")), "events": parts}


def test_two_hundred_watchers_of_which_half_are_slow(daemon):
    """Those that read nothing or little keep nothing from the others, and cost the daemon little memory."""
    idle = [Raw(daemon, number, states=number % 2 == 1) for number in range(50)]
    slow = [Raw(daemon, 50 + number, states=number % 2 == 1) for number in range(50)]
    crowd = Crowd(daemon, 100, looking=5)
    wait_until(lambda: len(daemon.status()["agents"]) >= 200)
    before_bytes = most_bytes = rss_bytes(daemon.pid)
    writers = Writers(daemon, 2000, agents=4, size_bytes=2000)  # 5 MB for each watcher
    while not writers.is_done:
        for each in slow:
            each.read_some(4096)  # about two events
        most_bytes = max(most_bytes, rss_bytes(daemon.pid))
        threading.Event().wait(0.25)
    daemon.client("end").set("w/end", [1])
    crowd.finish()
    wanted = {**writers.last, "w/end": 1}
    assert all(follower.values == wanted for follower in crowd.followers)
    assert (most_bytes - before_bytes) / 2**20 < 60
    for each in (*idle[:2], *slow[:2]):
        while each.follower.values != wanted:
            each.read_some(1 << 16)
        assert each.read_bytes < 3_500_000, "told all that happened, and not what was missed"
    assert idle[0].follower.counts["lagged"] >= 1
    for each in (*idle, *slow):
        each.socket.close()


# -- a mirror --------------------------------------------------------------------------------------------------------


def test_a_mirror_of_every_kind_is_what_the_daemon_holds_on_two_hosts_and_through_kills(make_cluster):
    """Random writes on both sides, links cut and mended, a daemon killed in between."""
    pair = make_cluster(2)
    rng = Random(5)
    clients = [pair[0].client("ann"), pair[1].client("bob")]
    mirrors = [client.mirror("m/") for client in clients]
    for number in range(400):
        client = rng.choice(clients)
        write(rng, client, number)
        if number % 80 == 40:
            pair.cut(0, 1)
        if number % 80 == 70:
            pair.heal(0, 1)
        if number == 200:
            pair[1].kill()
            pair[1].start()
    pair.heal(0, 1)
    wait_until(lambda: not any(client.keys("m/soon") for client in clients))  # or they may expire between two looks
    wait_until_equal(pair)
    for client, mirror in zip(clients, mirrors, strict=True):
        mirror.wait(client.keys().token)
        there = dict(client.items("m/"))
        assert {key: repr(value) for key, value in mirror.items()} == {k: repr(v) for k, v in there.items()}
        for key in there:
            entry, shown = client.entry(key), mirror.entry(key)
            assert entry is not None
            assert shown is not None
            assert [one.value for one in entry.siblings] == [one.value for one in shown.siblings]


def write(rng: Random, client: Client, number: int) -> None:
    operations: list[Callable[[], object]] = [
        lambda: client.set(f"m/k{number % 7}", number),
        lambda: client.set(f"m/k{number % 7}", {"n": number}, seen="?"),
        lambda: client.append("m/log", number),
        lambda: client.append("m/log", number),
        lambda: client.trim("m/log", 30),
        lambda: client.add("m/set", number % 50),
        lambda: client.add("m/set", f"element {number}"),
        lambda: client.discard("m/set", number % 50),
        lambda: client.merge("m/map", {f"f{number % 30}": number, "all": number}),
        lambda: client.drop("m/map", f"f{number % 30}"),
        lambda: client.incr("m/counter", number),
        lambda: client.text(f"m/text{number % 2}").insert(0, f"{number} 🙂 "),
        lambda: client.delete(f"m/k{number % 7}"),
        lambda: client.set(f"m/soon{number % 3}", number, ttl=0.3),
    ]
    rng.choice(operations)()


def test_what_has_changed_since_a_token_is_named_once(daemon: Daemon) -> None:
    state = daemon.client("ann")
    state.set("plan/a", 1)
    state.append("plan/log", 1)
    state.set("other", 1)
    first = state.changes("plan/")
    assert (first.changed, first.gone, first.is_all) == (["plan/a", "plan/log"], [], True)
    assert state.changes("plan/", after=first.token) == replace(first, changed=[], is_all=False)
    for number in range(3):
        state.set("plan/b", number)
    state.append("plan/log", 2)
    state.delete("plan/a")
    state.set("other", 2)
    then = state.changes("plan/", after=first.token)
    assert (then.changed, then.gone, then.is_all) == (["plan/b", "plan/log"], ["plan/a"], False)
    assert state.get("plan/b") == 2


def test_after_a_database_of_which_the_token_is_not_all_keys_are_named(make_daemon: Callable[..., Daemon]) -> None:
    one, other = make_daemon(), make_daemon()
    one.client("ann").set("k", 1)
    other.client("bob").set("j", 1)
    token = one.client("ann").changes().token
    found = other.client("bob").changes(after=token)
    assert (found.changed, found.is_all) == (["j"], True)


async def test_asyncio_asks_the_same(daemon: Daemon) -> None:
    async with AsyncClient(socket=daemon.socket, agent="ann") as state:
        await state.set("k", 1)
        first = await state.changes()
        assert (first.changed, first.is_all) == (["k"], True)
        await state.delete("k")
        assert (await state.changes(after=first.token)).gone == ["k"]
