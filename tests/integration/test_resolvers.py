"""Resolvers on real daemons: asked once per connected side, taken over, and their answers merged like any writes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from crdtsync import AsyncClient, Client
from crdtsync.client import Conflict, Event, Watch
from crdtsync.errors import InvalidRequest
from tests.harness import Cluster, Daemon, Network, wait_until, wait_until_equal
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

WAIT_S = 60.0


def conflict(daemon: Daemon, key: str, *values: object) -> None:
    """Siblings of a key, each by an author who had not seen the others."""
    for number, value in enumerate(values):
        with daemon.client(f"author-{number}") as client:
            client.set(key, value, seen="?")


def value_of(daemon: Daemon, key: str) -> list[Any]:
    """All values of a key."""
    with daemon.client() as client:
        entry = client.entry(key)
    return [] if entry is None else [entry.value, *(sibling.value for sibling in entry.siblings)]


class Asked:
    """A resolver in a thread of this process: what it was asked, and answers when told to."""

    def __init__(self, daemon: Daemon, pattern: str, answer: object = "joined", **options: Any) -> None:
        self.daemon = daemon
        self.name = daemon.name
        self.calls: list[tuple[str, frozenset[Any]]] = []
        self.news: Queue[Conflict] = Queue()
        self.gate = threading.Event()
        self.gate.set()
        self._answer = answer
        self.client = daemon.client(f"resolver-{daemon.name}")
        self.resolver = self.client.resolver(pattern, self.called, **options)

    def called(self, asked: Conflict) -> object:
        self.calls.append((asked.key, frozenset(map(str, asked.values))))
        self.news.put(asked)
        assert self.gate.wait(WAIT_S)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer(asked) if callable(self._answer) else self._answer

    def close(self) -> None:
        self.gate.set()
        self.client.close()


@pytest.fixture
def asking() -> Iterator[Callable[..., Asked]]:
    """Resolvers that end with the test."""
    with ExitStack() as stack:

        def make(*args: Any, **options: Any) -> Asked:
            asked = Asked(*args, **options)
            stack.callback(asked.close)
            return asked

        yield make


@pytest.fixture
def three(make_cluster: Callable[..., Cluster]) -> tuple[Cluster, list[Daemon]]:
    """Three connected daemons, and the same by node id."""
    cluster = make_cluster(3)
    return cluster, sorted(cluster, key=node_id)


def next_of(events: Watch) -> Event:
    event = events.next(WAIT_S)
    assert event is not None
    return event


def node_id(daemon: Daemon) -> str:
    return str(daemon.status()["node"]["id"])


def known_everywhere(daemons: list[Daemon], count: int) -> None:
    """Until each daemon knows of so many resolvers."""
    for daemon in daemons:
        wait_until(partial(knows, daemon, count), WAIT_S, f"{daemon.name} knows {count}")


def knows(daemon: Daemon, count: int) -> bool:
    return len(daemon.status()["resolvers"]) == count


def holds(daemon: Daemon, key: str, *values: object) -> bool:
    return value_of(daemon, key) == [*values]


# -- one daemon ------------------------------


def test_a_function_settles_what_there_is_and_what_comes(daemon: Daemon) -> None:
    conflict(daemon, "plan/before", "a", "b")
    with daemon.client("resolver") as client, client.resolver("plan/*", lambda asked: sorted(asked.values)) as resolver:
        wait_until(lambda: value_of(daemon, "plan/before") == [["a", "b"]])
        conflict(daemon, "plan/after", 2, 1)
        wait_until(lambda: value_of(daemon, "plan/after") == [[1, 2]])
        conflict(daemon, "other", 1, 2)
        assert resolver.failed == 0
    assert sorted(value_of(daemon, "other")) == [1, 2]
    assert daemon.status()["resolvers"] == []


async def test_the_asyncio_client_does_the_same(daemon: Daemon) -> None:
    async def settle(asked: Conflict) -> object:
        await asyncio.sleep(0)
        return sorted(asked.values)

    conflict(daemon, "plan/before", "a", "b")
    async with AsyncClient(daemon.socket, agent="resolver") as client:
        events = client.watch("plan/")
        async with events, client.resolver("plan/*", settle) as resolver:
            async for event in events:
                if event.key == "plan/before" and event.op == "resolve":
                    break
        assert event.value == ["a", "b"]
        assert (resolver.settled, resolver.failed) == (1, 0)
        conflict(daemon, "plan/after", 2, 1)
        async with client.resolver("plan/*") as conflicts:
            async for asked in conflicts:
                await conflicts.answer(asked, asked.take(asked.entries[1]))
                break
    assert value_of(daemon, "plan/after") == [2]


def test_an_iterator_settles_one_after_the_other(daemon: Daemon) -> None:
    for number in range(3):
        conflict(daemon, f"k/{number}", "a", "b")
    with daemon.client("resolver") as client, client.resolver("k/*") as conflicts:
        seen = []
        for asked in conflicts:
            seen.append(asked.key)
            token = conflicts.answer(asked, asked.take(asked.entries[-1]))
            assert client.get(asked.key, after=token) == "a"
            if len(seen) == 3:
                break
    assert sorted(seen) == ["k/0", "k/1", "k/2"]


def test_fields_of_maps_and_texts_are_settled_in_their_own_way(pair: Cluster) -> None:
    first, second = pair
    with first.client() as a, second.client() as b:
        token = a.merge("profile", {"name": "x", "age": 1})
        b.wait(token)
        pair.isolate(first)
        pair.wait_parted(first, second)
        a.merge("profile", {"name": "a"})
        b.merge("profile", {"name": "b"})
        a.text("notes").insert(0, "from a\n")
        b.text("notes").insert(0, "from b\n")
    pair.heal()
    wait_until_equal(pair)
    with first.client("resolver") as client:

        def settle(asked: Conflict) -> object:
            return asked.merge() if asked.kind == "text" else {**asked.values[0], "name": "a and b"}

        with client.resolver("**", settle):
            wait_until(lambda: not client.conflicts())
        assert client.get("profile") == {"name": "a and b", "age": 1}
        assert sorted(client.text("notes").read().splitlines()) == ["from a", "from b"]


def test_a_value_that_cannot_be_the_answer_is_a_failure_that_the_status_shows(
    daemon: Daemon, asking: Any, tmp_path: Path
) -> None:
    asked = asking(daemon, "k", {1, 2})
    conflict(daemon, "k", "a", "b")
    wait_until(lambda: "resolver_failed" in daemon.alarms())
    wait_until(lambda: asked.resolver.last_error is not None)  # its reply comes after
    (alarm,) = daemon.status()["alarms"]
    assert "'k'" in alarm["message"]
    (shown,) = daemon.status()["resolvers"]
    assert (shown["pattern"], shown["agent"], shown["failed"]) == ("k", f"resolver-{daemon.name}", 1)
    assert len(asked.calls) == 1
    told = [line.split() for line in Shell(daemon.socket, tmp_path).ok("status").splitlines()]
    name = f"resolver-{daemon.name}"
    assert ["k", name, "idle", "0", "0", "1"] in told, told
    assert sum(line[:1] == [name] for line in told) == 1, "one client, whatever connections it has"


def test_another_resolver_of_the_host_is_asked_when_one_raises(daemon: Daemon, asking: Any) -> None:
    bad = asking(daemon, "k", RuntimeError("the model is down"))
    good = asking(daemon, "**", "fine")
    conflict(daemon, "k", "a", "b")
    wait_until(lambda: value_of(daemon, "k") == ["fine"])
    assert len(bad.calls) == len(good.calls) == 1
    assert "the model is down" in daemon.status()["alarms"][0]["message"]


def test_a_pattern_that_is_none_is_refused_at_once(daemon: Daemon) -> None:
    with daemon.client() as client, pytest.raises(InvalidRequest, match="whole parts"):
        client.resolver("plan-*", lambda _: None)


async def test_a_pattern_that_is_none_is_refused_at_once_by_asyncio_too(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket) as client:
        with pytest.raises(InvalidRequest, match="whole parts"):
            async with client.resolver("plan-*", lambda _: None):
                pass


def test_it_survives_restarts_of_its_daemon_and_cut_connections(daemon: Daemon) -> None:
    network = Network()
    doorway = network.proxy(str(daemon.socket), str(daemon.run / "d"))
    try:
        with Client(str(doorway.address), agent="resolver") as client:
            calls: list[str] = []

            def settle(asked: Conflict) -> object:
                calls.append(asked.key)
                return "settled"

            with client.resolver("**", settle):
                for number, disturb in enumerate((doorway.drop, daemon.kill, doorway.drop)):
                    disturb()
                    if not daemon.is_running:
                        daemon.start()
                    conflict(daemon, f"k/{number}", "a", "b")
                    wait_until(partial(holds, daemon, f"k/{number}", "settled"))
            assert calls == ["k/0", "k/1", "k/2"]
    finally:
        network.close()


def test_a_hundred_conflicts_are_each_asked_once(daemon: Daemon, asking: Any) -> None:
    many = [asking(daemon, "k/**", "x") for _ in range(3)]
    for number in range(100):
        conflict(daemon, f"k/{number}", "a", "b")
    wait_until(lambda: daemon.space()["siblings"] == 0)
    calls = [key for one in many for key, _ in one.calls]
    assert sorted(calls) == sorted(f"k/{number}" for number in range(100))


# -- three daemons ------------------------------


def test_of_three_hosts_the_lowest_node_asks(three: tuple[Cluster, list[Daemon]], asking: Any) -> None:
    cluster, daemons = three
    many = [asking(daemon, "plan/**") for daemon in daemons]
    known_everywhere(daemons, 3)
    for number in range(30):
        conflict(daemons[number % 3], f"plan/{number}", "a", "b")
    wait_until_equal(cluster)
    wait_until(lambda: all(daemon.space()["siblings"] == 0 for daemon in daemons))
    assert sorted(key for key, _ in many[0].calls) == sorted(f"plan/{number}" for number in range(30))
    assert (many[1].calls, many[2].calls) == ([], [])


def test_two_sides_of_a_partition_ask_one_each_and_their_answers_are_asked_about(
    three: tuple[Cluster, list[Daemon]], asking: Any
) -> None:
    cluster, daemons = three
    many = [asking(daemon, "**", lambda asked, n=daemon.name: f"{n} of {len(asked.values)}") for daemon in daemons]
    known_everywhere(daemons, 3)
    many[0].gate.clear()
    conflict(daemons[2], "k", "a", "b")
    wait_until(lambda: many[0].calls)  # and now it is cut off before it has answered
    cluster.isolate(daemons[0])
    wait_until(lambda: len(many[1].calls) == 1)
    wait_until(lambda: value_of(daemons[2], "k") == [f"{daemons[1].name} of 2"])
    assert many[2].calls == []
    many[0].gate.set()
    wait_until(lambda: value_of(daemons[0], "k") == [f"{daemons[0].name} of 2"])
    both = frozenset({f"{daemons[0].name} of 2", f"{daemons[1].name} of 2"})
    cluster.heal(daemons[0], daemons[1])  # whoever is asked must know of the other: both hear of it when they meet
    wait_until(lambda: all(len(value_of(daemon, "k")) == 1 for daemon in daemons))
    cluster.heal()
    cluster.wait_connected()
    wait_until_equal(cluster)
    wait_until(lambda: all(len(value_of(daemon, "k")) == 1 for daemon in daemons))
    assert any(call[1] == both for one in many for call in one.calls)


RESOLVER = """
import os, sys, time
from crdtsync import Client
def settle(conflict):
    print(conflict.key, flush=True)
    time.sleep(600)
with Client(sys.argv[1], agent="doomed") as client, client.resolver("**", settle, takeover=float(sys.argv[2])):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("way", ["resolver is killed", "resolver hangs", "daemon is killed", "daemon is cut off"])
def test_others_take_over_in_the_middle_of_an_answer(
    three: tuple[Cluster, list[Daemon]], asking: Any, way: str
) -> None:
    cluster, daemons = three
    takeover = "1" if way == "resolver hangs" else "60"
    command = [sys.executable, "-c", RESOLVER, str(daemons[0].socket), takeover]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CRDTSYNC_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as doomed:
        try:
            assert doomed.stdout is not None
            assert doomed.stdout.readline() == "ready\n"
            others = [asking(daemon, "**", "taken over") for daemon in daemons[1:]]
            known_everywhere(daemons, 3)
            conflict(daemons[1], "k", "a", "b")
            assert doomed.stdout.readline() == "k\n"
            assert [one.calls for one in others] == [[], []]
            match way:
                case "resolver is killed":
                    doomed.kill()
                case "daemon is killed":
                    daemons[0].kill()
                case "daemon is cut off":
                    cluster.isolate(daemons[0])
            wait_until(lambda: value_of(daemons[2], "k") == ["taken over"])
            assert [len(one.calls) for one in others] == [1, 0]
            if way == "resolver hangs":
                assert "resolver_failed" in daemons[0].alarms()
        finally:
            doomed.send_signal(signal.SIGKILL)


def test_what_one_resolver_fails_on_the_next_host_is_asked_at_once(
    three: tuple[Cluster, list[Daemon]], asking: Any
) -> None:
    _, daemons = three
    bad = [asking(daemons[0], "**", ValueError("no idea")), asking(daemons[1], "**", {1, 2})]
    good = asking(daemons[2], "**", "fine")
    known_everywhere(daemons, 3)
    conflict(daemons[0], "k", "a", "b")
    wait_until(lambda: value_of(daemons[0], "k") == ["fine"])
    assert [len(one.calls) for one in (*bad, good)] == [1, 1, 1]


def test_conflicts_that_a_watch_tells_are_those_that_a_resolver_is_asked(
    three: tuple[Cluster, list[Daemon]], asking: Any
) -> None:
    """Watchers on every host see the conflict, then its end, whoever settled it, in causal order."""
    cluster, daemons = three
    asked = asking(daemons[0], "k")
    asked.gate.clear()
    with ExitStack() as stack:
        watches = [stack.enter_context(stack.enter_context(daemon.client()).watch("k")) for daemon in daemons]
        for events in watches:
            assert next_of(events).event == "snapshot"
        cluster.isolate(daemons[2])
        for daemon in daemons[:2]:
            cluster.wait_parted(daemon, daemons[2])
        with daemons[1].client("left") as left, daemons[2].client("right") as right:
            left.set("k", "left")
            right.set("k", "right")
        cluster.heal()
        wait_until_equal(cluster)
        asked.gate.set()
        wait_until(lambda: all(value_of(daemon, "k") == ["joined"] for daemon in daemons))
        for events in watches:
            told = [next_of(events) for _ in range(3)]
            assert [event.event for event in told] == ["set", "conflict", "set"]
            conflict_told = told[1]
            assert {conflict_told.value, *(one.value for one in conflict_told.siblings)} == {"left", "right"}
            assert (told[2].op, told[2].value, told[2].agent) == ("resolve", "joined", f"resolver-{daemons[0].name}")
            with pytest.raises(TimeoutError):
                events.next(0.05)


# -- the command line ------------------------------


@pytest.fixture
def crdtsync(daemon: Daemon, tmp_path: Path) -> Shell:
    return Shell(daemon.socket, tmp_path)


def test_a_command_settles_conflicts(daemon: Daemon, crdtsync: Shell) -> None:
    program = (
        "import json, sys; c = json.load(sys.stdin); print(max([c['value'], *(s['value'] for s in c['siblings'])]))"
    )
    conflict(daemon, "plan/1", 3, 7, 5)
    with crdtsync.start("resolver", "plan/*", "--json", "--", sys.executable, "-c", program) as running:
        first = running.event()
        assert first["key"] == "plan/1"
        conflict(daemon, "plan/2", 2, 1)
        assert running.event()["key"] == "plan/2"
        assert (value_of(daemon, "plan/1"), value_of(daemon, "plan/2")) == ([7], [2])
        assert running.interrupt() == (130, "")


def test_a_command_may_take_one_of_the_values(daemon: Daemon, crdtsync: Shell) -> None:
    conflict(daemon, "k", "a", "b")
    program = "import json, sys; print(json.load(sys.stdin)['siblings'][0]['dot'])"
    with crdtsync.start("resolver", "k", "--take", "--", sys.executable, "-c", program) as running:
        assert running.line() == "k\n"
    assert value_of(daemon, "k") == ["a"]


def test_a_command_that_fails_is_reported_and_nothing_is_written(daemon: Daemon, crdtsync: Shell) -> None:
    conflict(daemon, "k", "a", "b")
    for command, why in (
        (["false"], "failed with 1"),
        (["echo", "{"], "is not JSON"),
        (["/nonexistent"], "cannot be run"),
        (["sleep", "20"], "took longer than 0.3 s"),
    ):
        with crdtsync.start("resolver", "k", "--takeover", "300ms", "--", *command) as running:
            assert running.process.stderr is not None
            assert why in running.process.stderr.readline().decode()
    assert crdtsync("resolver", "absent", "--timeout", "1s", "--merge").status == 5
    assert sorted(value_of(daemon, "k")) == ["a", "b"]


def test_texts_are_merged_without_a_command(pair: Cluster, tmp_path: Path) -> None:
    first, second = pair
    pair.isolate(first)
    pair.wait_parted(first, second)
    for daemon in pair:
        with daemon.client() as client:
            client.text("notes").insert(0, f"{daemon.name}\n")
    pair.heal()
    wait_until_equal(pair)
    shell = Shell(first.socket, tmp_path)
    with shell.start("resolver", "notes", "--merge") as running:
        assert running.line() == "notes\n"
    with first.client() as client:
        assert sorted(client.text("notes").read().splitlines()) == ["host-a", "host-b"]


def test_half_a_command_line_is_a_usage_error(crdtsync: Shell) -> None:
    for arguments in (["k"], ["k", "--merge", "--", "true"], ["k", "--merge", "--take"], []):
        done = crdtsync("--json", "resolver", *arguments)
        assert (done.status, json.loads(done.err)["error"]["code"]) == (2, "usage"), arguments
