"""Daemons converge: nothing is lost in a partition, nothing is overwritten unseen, order is causal everywhere."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.harness import Cluster, Daemon, wait_until, wait_until_equal

pytestmark = pytest.mark.integration


def siblings_of(daemon: Daemon, key: str) -> list[Any]:
    """All live values of a key, the winner first."""
    with daemon.client() as client:
        entry = client.entry(key)
    return [] if entry is None else [entry.value, *(sibling.value for sibling in entry.siblings)]


@contextmanager
def running(*works: Callable[[], object]) -> Iterator[None]:
    """Run these in threads while the block runs; their failures are raised at its end."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # raised below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


# -- partitions ------------------------------


def test_a_write_survives_a_concurrent_delete(pair: Cluster) -> None:
    deleter, writer = pair[0].client(), pair[1].client()
    deleter.set("task", 1)
    wait_until_equal(pair)
    assert deleter.get("task") == writer.get("task") == 1
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    assert deleter.delete("task")
    writer.set("task", 2)
    pair.heal()
    wait_until_equal(pair)
    assert siblings_of(pair[0], "task") == siblings_of(pair[1], "task") == [2]


def test_changes_go_around_a_cut_link(cluster: Cluster) -> None:
    cluster.cut(0, 1)
    cluster.wait_parted(0, 1)
    a, b = cluster[0].client(), cluster[1].client()
    for n in range(20):
        a.append("log", n)
        b.append("log", 100 + n)
    token_a, token_b = a.last_token, b.last_token
    assert token_a is not None
    assert token_b is not None
    b.wait(token_a)
    a.wait(token_b)
    peer = cluster[0].peer("host-b")
    assert peer is not None
    assert peer["state"] != "connected"
    wait_until_equal(cluster)


def test_changes_go_around_a_link_that_swallows_everything(cluster: Cluster) -> None:
    """Both ends of the link still think that they are connected."""
    cluster[0].client().set("k", 0)
    wait_until_equal(cluster)
    cluster.link(0, 1).freeze()
    cluster.link(1, 0).freeze()
    token = cluster[0].client().set("k", 1)
    cluster[1].client().wait(token)
    token = cluster[1].client().set("k2", 3)
    cluster[0].client().wait(token)
    cluster.link(0, 1).thaw()
    cluster.link(1, 0).thaw()
    wait_until_equal(cluster)


def test_a_node_that_joins_late_gets_everything(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(3, start=False)
    for daemon in (cluster[0], cluster[1]):
        daemon.start()
    cluster.wait_connected(0, 1)
    with cluster[0].client() as a, cluster[1].client() as b:
        for n in range(300):
            (a, b)[n % 2].set(f"k/{n % 50}", n)
            (a, b)[n % 2].append("log", n)
    cluster[2].start()
    wait_until_equal(cluster)
    assert sorted(cluster[2].client().log("log")) == list(range(300))


def test_slow_links_converge_too(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(3)
    cluster.delay(50)

    def work(daemon: Daemon) -> None:
        with daemon.client(daemon.name) as client:
            for n in range(60):
                client.append("log", [daemon.name, n])
                client.set(f"k/{n % 7}", [daemon.name, n])

    with running(*(lambda daemon=daemon: work(daemon) for daemon in cluster)):
        pass
    wait_until_equal(cluster)
    logs = [daemon.client().log("log") for daemon in cluster]
    assert logs[0] == logs[1] == logs[2]
    assert len(logs[0]) == 180


def test_a_flapping_link_loses_and_repeats_nothing(pair: Cluster) -> None:
    rng = random.Random(1)
    done = threading.Event()

    def work(daemon: Daemon) -> None:
        with daemon.client(daemon.name) as client:
            for n in range(800):
                client.append("log", [daemon.name, n, "x" * rng.randrange(300)])

    def flap() -> None:
        for _ in range(12):
            for link in (pair.link(0, 1), pair.link(1, 0)):
                link.cut_after(*rng.sample([rng.randrange(1, 200_000), None], 2))
            if done.wait(0.1):
                break
            if rng.random() < 0.5:
                pair.cut(0, 1)
                pair.heal()

    with running(flap):
        with running(*(lambda daemon=daemon: work(daemon) for daemon in pair)):
            pass
        done.set()
    wait_until_equal(pair)
    logs = [[tuple(item[:2]) for item in daemon.client().log("log")] for daemon in pair]
    assert logs[0] == logs[1]
    assert len(logs[0]) == len(set(logs[0])) == 1600


# -- no silent overwrite ------------------------------


def test_a_writer_that_read_before_its_daemon_heard_of_more_makes_a_sibling(pair: Cluster) -> None:
    here, there = pair[0].client(), pair[1].client()
    here.set("plan", "v1")
    wait_until_equal(pair)
    assert here.get("plan") == there.get("plan") == "v1"
    token = here.set("plan", "v2")
    there.wait(token)  # its daemon holds v2 now, but nobody has shown it to this agent
    written = there.set("plan", "v3")
    assert written.siblings == 1
    wait_until_equal(pair)
    for daemon in pair:
        assert siblings_of(daemon, "plan") == ["v3", "v2"]


def test_a_blind_write_says_what_it_replaced(pair: Cluster) -> None:
    pair[0].client().set("plan", "theirs")
    wait_until_equal(pair)
    written = pair[1].client().set("plan", "mine")
    assert written.replaced is not None
    assert (written.replaced.value, written.replaced.node) == ("theirs", "host-a")
    wait_until_equal(pair)
    assert siblings_of(pair[0], "plan") == ["mine"]


# -- causality ------------------------------


def test_a_token_from_one_node_is_honoured_on_another(cluster: Cluster) -> None:
    cluster.delay(5)
    writers = [daemon.client("writer") for daemon in cluster]
    readers = [daemon.client("reader") for daemon in cluster]
    for n in range(30):
        token = writers[n % 3].set("number", n, seen=None)
        assert readers[(n + 1) % 3].get("number", after=token) == n
        assert readers[(n + 2) % 3].get("number", after=token) == n


@pytest.mark.parametrize("direct_link", ["cut", "slow"])
def test_what_an_agent_had_seen_is_there_before_what_it_wrote(cluster: Cluster, direct_link: str) -> None:
    """A asks, B answers what it saw, and C never sees an answer without its question."""
    if direct_link == "cut":
        cluster.cut(0, 2)
        cluster.wait_parted(0, 2)
    else:
        cluster.link(0, 2).delay_ms = cluster.link(2, 0).delay_ms = 150
    asker, answerer, watcher = (daemon.client() for daemon in cluster)
    with watcher.watch("", timeout=60) as watch:
        first = watch.next()
        assert first is not None
        assert first.event == "snapshot"
        for n in range(50):
            answerer.get(f"q/{n}", after=asker.set(f"q/{n}", n))
            answerer.set(f"a/{n}", n)
        asked: set[int] = set()
        answered: list[int] = []
        while len(answered) < 50:
            event = watch.next()
            assert event is not None
            assert event.key is not None
            if event.key.startswith("q/"):
                asked.add(event.value)
            else:
                assert event.value in asked
                answered.append(event.value)


def test_what_was_written_in_a_cut_is_known_to_be_held_everywhere_after_it(cluster: Cluster) -> None:
    """Also when both ends dial at once, and one of two connections is given up in the middle of catching up."""
    client = cluster[0].client()
    links = [cluster.link(0, 2), cluster.link(2, 0)]
    for n in range(3):
        cluster.isolate(2)
        client.append("log", n)
        token = cluster[2].client().set("k", n)
        wait_until(lambda: all(link.waiting for link in links), what="both ends dial")
        cluster.heal()
        assert cluster[2].client().wait(token, w="all") == 3
        assert client.last_token is not None
        assert client.wait(client.last_token, w="all") == 3


# -- what the status says ------------------------------


def test_the_status_tells_how_far_a_peer_is_behind(pair: Cluster) -> None:
    pair[0].client().set("k", 0, w="all")
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    client = pair[0].client()
    for n in range(7):
        client.append("log", n)
    peer = pair[0].peer("host-b")
    assert peer is not None
    assert peer["behind"] == {"default": 7}
    assert peer["state"] != "connected"
    pair.heal()
    wait_until(lambda: (pair[0].peer("host-b") or {})["behind"] == {"default": 0}, what="the peer has caught up")


def test_a_peer_whose_connection_broke_is_not_called_connected(cluster: Cluster) -> None:
    cluster.isolate(0)
    for other in (1, 2):
        cluster.wait_parted(0, other)
