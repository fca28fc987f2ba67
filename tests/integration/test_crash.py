"""What was acknowledged survives kill -9; a disk that went back makes no second history under an old name."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any, Self

import msgpack
import pytest

from crdtsync import Client, CrdtSyncError, OutcomeUnknown
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal
from tests.harness.cluster import wait_until_forks_heal
from tests.harness.daemon import CHANGED
from tests.integration.test_turn_bound import EVERY_LINE

pytestmark = pytest.mark.integration

LONG_FORK = 3000
HEALED_CHANGES_MAX = 400
"""In one turn that was long enough to be told."""


class Load:
    """Agents that write without pause, repeat nothing, and remember what was acknowledged."""

    def __init__(self, daemon: Daemon, agents: int = 4, pipelined: int = 8) -> None:
        self.acknowledged: list[tuple[str, Any]] = []
        self._daemon = daemon
        self._pipelined = pipelined
        self._numbers = iter(range(10**9))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._guarded, args=(n,), daemon=True) for n in range(agents)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert not self._failures, self._failures[0]

    def wait_for(self, more: int) -> None:
        """Until so many more writes are acknowledged."""
        wanted = len(self.acknowledged) + more
        wait_until(lambda: self._failures or len(self.acknowledged) >= wanted, what=f"{more} writes are done")

    def _guarded(self, agent: int) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._write(agent)
                except (OSError, EOFError):
                    self._stop.wait(0.01)  # the daemon is down
        except BaseException as error:  # noqa: BLE001  # raised at the end
            self._failures.append(error)

    def _write(self, agent: int) -> None:
        with self._daemon.raw(f"agent-{agent}", timeout_s=5) as raw:
            while not self._stop.is_set():
                asked = []
                for _ in range(self._pipelined):
                    with self._lock:
                        number = next(self._numbers)
                    if number % 3:
                        asked.append(("log", number, raw.send_write("append", key="log", value=number)))
                    else:
                        asked.append((f"k/{number}", number, raw.send_write("set", key=f"k/{number}", value=number)))
                for key, number, request in asked:
                    raw.result(request)
                    self.acknowledged.append((key, number))


def check_held(daemon: Daemon, acknowledged: list[tuple[str, Any]]) -> None:
    """Every acknowledged write is there, once."""
    with daemon.client("checker") as client:
        log = client.log("log")
        keys = dict(client.items("k/"))
    assert len(log) == len(set(log))
    there = set(log)
    missing = [
        (key, value) for key, value in acknowledged if (value not in there if key == "log" else keys.get(key) != value)
    ]
    assert not missing, f"{len(missing)} acknowledged writes are gone, such as {missing[:3]}"


def writers(daemon: Daemon) -> dict[str, int]:
    """The version vector of the default space."""
    vector: dict[str, int] = daemon.space()["version_vector"]
    return vector


# -- kill -9 ------------------------------


def test_every_acknowledged_write_survives_kill_9(daemon: Daemon) -> None:
    rng = random.Random(1)
    with Load(daemon) as load:
        for _ in range(6):
            load.wait_for(rng.randrange(1, 400))
            daemon.kill()
            daemon.start()
            check_held(daemon, list(load.acknowledged))
        load.wait_for(50)
    check_held(daemon, load.acknowledged)
    assert len(writers(daemon)) == 1, "on the same machine the same writer goes on"
    assert daemon.alarms() == []


def test_a_peer_never_holds_what_its_author_lost(pair: Cluster) -> None:
    """Nothing leaves before it is on disk."""
    rng = random.Random(5)
    author, peer = pair
    with Load(author) as load:
        for _ in range(5):
            load.wait_for(rng.randrange(1, 400))
            author.kill()
            pair.isolate(author)
            held = writers(peer)
            author.start()
            mine = writers(author)
            assert all(mine.get(writer, 0) >= seq for writer, seq in held.items()), "a peer has what the author has not"
            pair.heal()
    wait_until_equal(pair)
    for daemon in pair:
        check_held(daemon, load.acknowledged)
        assert daemon.alarms() == []


def test_killed_daemons_come_back_equal(cluster: Cluster) -> None:
    rng = random.Random(1)
    loads = [Load(daemon, agents=2) for daemon in cluster]
    with loads[0], loads[1], loads[2]:
        for _ in range(4):
            victim = rng.randrange(3)
            loads[victim].wait_for(rng.randrange(1, 200))
            cluster[victim].kill()
            cluster[victim].start()
    wait_until_equal(cluster)
    for daemon in cluster:
        with daemon.client() as client:
            log = client.log("log")
        for load in loads:
            missing = {value for key, value in load.acknowledged if key == "log"} - set(log)
            assert not missing


def test_sigterm_under_load_loses_nothing_and_takes_seconds_at_most(daemon: Daemon) -> None:
    with Load(daemon) as load:
        for _ in range(3):
            load.wait_for(100)
            assert daemon.stop() == 0
            daemon.start()
    check_held(daemon, load.acknowledged)
    assert len(writers(daemon)) == 1


def test_sigterm_of_a_daemon_with_busy_peers_and_watchers(cluster: Cluster) -> None:
    with cluster[0].client() as client, client.watch("", timeout=0.05), Load(cluster[1]), Load(cluster[0]) as load:
        load.wait_for(100)
        assert cluster[0].stop() == 0
        cluster[0].start()
    wait_until_equal(cluster)


# -- disks that go back ------------------------------


def keep(daemon: Daemon) -> None:
    """Copy the data directory of a daemon that does not run."""
    shutil.copytree(daemon.data, daemon.base / "kept")


def put_back(daemon: Daemon) -> None:
    shutil.rmtree(daemon.data)
    shutil.copytree(daemon.base / "kept", daemon.data)


def append(daemon: Daemon, *values: Any) -> None:
    with daemon.client(daemon.name) as client:
        for value in values:
            client.append("log", value)


def test_a_write_whose_answer_was_lost_is_not_repeated_where_the_disk_went_back(pair: Cluster) -> None:
    """It was stored, and is at the peer; the copy that is put back knows nothing of it, nor of its number."""
    victim, peer = pair
    append(victim, "first")
    wait_until_equal(pair)
    victim.stop()
    keep(victim)
    victim.start(peers=[*victim.settings["peers"], "ws://127.0.0.1:9"])  # a third node, which never confirms
    outcome: list[Exception] = []

    def write(state: Client) -> None:
        try:
            state.append("log", "second")
            state.set("waiting", 1, w=3, timeout=60)
        except CrdtSyncError as error:
            outcome.append(error)

    with victim.client(timeout=60) as state:
        writer = threading.Thread(target=write, args=(state,))
        writer.start()
        other = peer.client()
        wait_until(lambda: other.get("waiting") == 1, what="the write is at the peer")
        victim.kill()
        put_back(victim)
        victim.start()
        writer.join(60)
        assert [type(error) for error in outcome] == [OutcomeUnknown]
        wait_until(lambda: state.get("waiting") == 1, what="the peer has given it back")
        assert [past.fate for past in state.history("waiting")] == ["live"]


def test_a_daemon_that_was_killed_is_the_same_database_to_its_clients(daemon: Daemon) -> None:
    with daemon.raw() as agent:
        before = agent.hello["database"]
    with daemon.client() as state:
        state.set("k", 1)
    daemon.kill()
    daemon.start()
    with daemon.raw() as agent:
        assert agent.hello["database"] == before


@pytest.mark.parametrize("forget_mark", [False, True], ids=["mark-ahead", "mark-gone"])
def test_a_data_directory_that_was_rolled_back_takes_a_new_writer(pair: Cluster, forget_mark: bool) -> None:
    victim, peer = pair
    append(victim, *range(10))
    wait_until_equal(pair)
    victim.stop()
    keep(victim)
    victim.start()
    append(victim, *range(10, 20))
    wait_until_equal(pair)
    before = writers(peer)
    victim.kill()
    pair.isolate(victim)
    put_back(victim)
    if forget_mark:
        for mark in victim.run.glob("mark-*"):
            mark.unlink()
    victim.start()
    append(victim, "after")
    assert len(writers(victim)) == 2, "it did not go on under its old name"
    pair.heal()
    wait_until_equal(pair)
    for daemon in pair:
        assert daemon.alarms() == []
        with daemon.client() as client:
            assert sorted(map(str, client.log("log"))) == sorted(map(str, [*range(20), "after"]))
    (old,) = before
    assert writers(victim)[old] == 20
    append(victim, "more")
    wait_until_equal(pair)
    assert len(writers(victim)) == 2, "the new writer stays"


def test_a_daemon_that_was_rolled_back_while_connected_catches_up_before_it_writes(pair: Cluster) -> None:
    victim, _ = pair
    append(victim, *range(10))
    victim.stop()
    keep(victim)
    victim.start()
    append(victim, *range(10, 20))
    wait_until_equal(pair)
    victim.kill()
    put_back(victim)
    victim.start()
    append(victim, "at once")
    wait_until_equal(pair)
    for daemon in pair:
        assert daemon.alarms() == []
        with daemon.client() as client:
            assert sorted(map(str, client.log("log"))) == sorted(map(str, [*range(20), "at once"]))


def test_a_rolled_back_database_does_not_answer_for_writes_it_forgot(daemon: Daemon) -> None:
    """A client that sends a write again gets it done, for the database that knew it has gone back."""
    daemon.stop()
    keep(daemon)
    daemon.start()
    client = os.urandom(16)
    with daemon.raw(client=client) as raw:
        raw.write("append", key="log", value=1, n=1)
    daemon.kill()
    put_back(daemon)
    daemon.start()
    with daemon.raw(client=client) as raw:
        assert raw.write("append", key="log", value=1, n=1, again=True)["length"] == 1
        assert raw.write("append", key="log", value=1, n=1, again=True)["length"] == 1
        assert msgpack.unpackb(raw.call("get", key="log")["value"]) == [1]


def test_two_daemons_cannot_run_on_one_data_directory(daemon: Daemon, make_daemon: Callable[..., Daemon]) -> None:
    second = make_daemon(start=False, data_dir=str(daemon.data))
    second.start(wait=False)
    assert second.wait_exit() != 0
    assert any("stop it" in line for line in second.log_lines()), second.log_lines()


def test_two_daemons_cannot_run_on_copies_of_one_database_on_one_host(
    daemon: Daemon, make_daemon: Callable[..., Daemon]
) -> None:
    daemon.stop()
    second = make_daemon(start=False, socket=str(daemon.run / "b"))
    shutil.copytree(daemon.data, second.data)
    daemon.start()
    second.start(wait=False)
    assert second.wait_exit() != 0
    assert any("a copy of it" in line for line in second.log_lines()), second.log_lines()


# -- forks ------------------------------


def clone(original: Daemon, copy: Daemon) -> None:
    """A copy that does not know that it is one: with the mark, and passing for another node."""
    shutil.copytree(original.data, copy.data)
    copy.run.mkdir()
    for mark in original.run.glob("mark-*"):
        shutil.copy(mark, copy.run)
    with closing(sqlite3.connect(copy.data / "crdtsync.db")) as db:
        db.execute("UPDATE meta SET value = ? WHERE name = 'node'", (os.urandom(16).hex().encode(),))
        db.commit()


@pytest.fixture
def forked(make_cluster: Callable[..., Cluster]) -> Callable[[int, int], Cluster]:
    """Three daemons without a link, of which the first two went on so far from one copy, under one writer."""

    def make(here: int, there: int) -> Cluster:
        cluster = make_cluster(3, start=False, program=f"{CHANGED}{EVERY_LINE}")
        for daemon in cluster:
            cluster.isolate(daemon)
        cluster[0].start()
        append(cluster[0], *range(5))
        cluster[0].stop()
        clone(cluster[0], cluster[1])
        for daemon in cluster:
            daemon.start()
        append(cluster[0], *(f"a{n}" for n in range(here)))
        append(cluster[1], *(f"b{n}" for n in range(there)))
        assert writers(cluster[0]).keys() == writers(cluster[1]).keys(), "the fork was not made"
        return cluster

    return make


def values(daemon: Daemon) -> list[str]:
    with daemon.client() as client:
        return sorted(map(str, client.log("log")))


@pytest.mark.parametrize("here, there", [(3, 3), (1, 4)])
def test_a_fork_by_a_copied_disk_heals(forked: Callable[[int, int], Cluster], here: int, there: int) -> None:
    cluster = forked(here, there)
    for daemon, by in ((cluster[0], 10), (cluster[1], 100)):
        with daemon.client() as client:
            client.incr("n", by)
    cluster.heal(0, 1)
    wait_until_forks_heal(cluster[0], cluster[1])
    expected = sorted([*map(str, range(5)), *(f"a{n}" for n in range(here)), *(f"b{n}" for n in range(there))])
    assert values(cluster[0]) == values(cluster[1]) == expected
    for daemon in (cluster[0], cluster[1]):
        append(daemon, "on")
        with daemon.client() as client:
            assert client.get("n") == 110
    cluster.heal(0, 2)
    cluster.heal(1, 2)
    wait_until_equal([*cluster])
    cluster[0].kill()
    cluster[1].kill()
    cluster[0].start()
    cluster[1].start()
    wait_until_equal([*cluster])
    assert values(cluster[0]) == values(cluster[2]) == sorted([*expected, "on", "on"])


def test_a_long_fork_heals_in_slices(forked: Callable[[int, int], Cluster]) -> None:
    """At one go 3,000 changes would hold the loop three times as long as they may here."""
    cluster = forked(1, 1)
    halves = cluster[0], cluster[1]
    for daemon in halves:
        with daemon.raw(daemon.name) as agent:
            for start in range(0, LONG_FORK, 100):
                numbers = range(start, start + 100)
                sent = [agent.send_write("set", key=f"k/{n % 500}/{daemon.name}", value=n) for n in numbers]
                for request in sent:
                    agent.result(request)
    cluster.heal(0, 1)
    wait_until_forks_heal(cluster[0], cluster[1])
    lines = [line for daemon in halves for line in daemon.log_events("slow_turn")]
    assert not [line for line in lines if line.get("wrote_rows", {}).get("changes", 0) > HEALED_CHANGES_MAX]
    expected = {f"k/{n % 500}/{daemon.name}": n for daemon in halves for n in range(LONG_FORK)}
    for daemon in halves:
        with daemon.client() as client:
            assert {key: client.get(key) for key in expected} == expected


def test_a_fork_that_comes_about_while_connected_heals(forked: Callable[[int, int], Cluster]) -> None:
    cluster = forked(0, 0)
    cluster.heal(0, 1)
    cluster.wait_connected(0, 1)
    assert cluster[0].alarms() == []
    cluster.link(0, 1).freeze()  # what one has heard of the other's writing keeps it from making a fork
    cluster.link(1, 0).freeze()
    for n in range(3):
        append(cluster[0], f"a{n}")
        append(cluster[1], f"b{n}")
    cluster.link(0, 1).thaw()
    cluster.link(1, 0).thaw()
    wait_until_forks_heal(cluster[0], cluster[1])
    assert len(values(cluster[0])) == 11


def test_a_third_host_learns_both_branches_from_whom_it_meets(forked: Callable[[int, int], Cluster]) -> None:
    cluster = forked(3, 3)
    cluster.heal(0, 2)
    cluster.wait_connected(0, 2)
    append(cluster[2], "to a")
    wait_until_equal([cluster[0], cluster[2]])
    cluster.heal(1, 2)  # and not to the first one
    append(cluster[1], "to c")
    wait_until_forks_heal(*cluster)
    assert values(cluster[1]) == sorted(
        [*map(str, range(5)), *(f"{x}{n}" for x in "ab" for n in range(3)), "to a", "to c"]
    )
