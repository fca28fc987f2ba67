"""A node that cannot be served from the log takes a snapshot: over cut links, through kills, while others write."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from random import Random

import pytest

from tests.harness import Cluster, wait_until, wait_until_equal

pytestmark = pytest.mark.integration

LOG_BYTES_MAX = 1024 * 1024
KEYS = 4000
VALUE_BYTES = 1000


def value_of(number: int) -> bytes:
    """What cannot be compressed: a snapshot is as large as what is in it."""
    return Random(number).randbytes(VALUE_BYTES)


@pytest.fixture
def behind(make_cluster: Callable[..., Cluster]) -> Cluster:
    """The first of two daemons holds far more than its log; the second has not started, and dials the first."""
    cluster = make_cluster(2, start=False, log_bytes_max=LOG_BYTES_MAX)
    cluster.link(0, 1).cut(refuse=True)
    first = cluster[0]
    first.start()
    with first.client("filler") as client:
        for start in range(0, KEYS, 500):
            with client.batch() as batch:
                for n in range(start, start + 500):
                    batch.set(f"k/{n:05}", value_of(n))
        client.append("log", "one")
        client.text("notes").insert(0, "a text")
    wait_until(lambda: first.space()["log_bytes"] <= LOG_BYTES_MAX, what="the log is trimmed")
    return cluster


def given(cluster: Cluster) -> list[tuple[str, int]]:
    """What the first daemon says of the snapshots that it gave away."""
    names = ("snapshot_started", "snapshot_resumed")
    return [(event["event"], event["part"]) for event in cluster[0].log_events() if event["event"] in names]


def check(cluster: Cluster) -> None:
    """The second daemon holds what the first holds, and serves it, also after a restart."""
    first, second = cluster
    wait_until_equal(cluster)
    assert first.alarms() == second.alarms() == []
    second.kill()
    second.start()
    with second.client() as client:
        assert [client.get(f"k/{n:05}") for n in (0, KEYS - 1)] == [value_of(0), value_of(KEYS - 1)]
        assert client.get("log") == ["one"]
        assert client.text("notes").read() == "a text"
    assert len(second.log_events("snapshot_taken")) == 1


def test_a_new_node_takes_a_snapshot_while_others_write(behind: Cluster) -> None:
    first, second = behind
    done = threading.Event()
    written: list[int] = []

    def keep_writing() -> None:
        with first.client("writer") as client:
            for n in count():
                if done.is_set():
                    return
                client.set(f"live/{n % 100}", n)
                written.append(n)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        second.start()
        second.wait_log("snapshot_taken")
        before = len(written)
        wait_until(lambda: len(written) > before + 50, what="the writer goes on")
    finally:
        done.set()
        writer.join(60)
    check(behind)
    assert given(behind) == [("snapshot_started", 0)]
    with second.client() as client:
        client.set("k/00001", "from the new node")
    wait_until_equal(behind)


def test_a_link_that_is_cut_half_way_costs_one_part(behind: Cluster) -> None:
    link = behind.link(1, 0)
    link.cut_after(down=KEYS * VALUE_BYTES // 2)
    behind[1].start()
    check(behind)
    assert link.cuts == 1
    started, resumed = given(behind)
    assert started == ("snapshot_started", 0)
    assert resumed[0] == "snapshot_resumed"
    assert resumed[1] > 2


def test_a_taker_that_is_killed_half_way_goes_on(behind: Cluster) -> None:
    link = behind.link(1, 0)
    link.cut_after(down=KEYS * VALUE_BYTES // 2)
    behind[1].start()
    wait_until(lambda: link.cuts, what="half of it has come")
    link.cut_after(down=KEYS * VALUE_BYTES // 4)
    wait_until(lambda: len(given(behind)) > 1, what="it has that on disk, and asks for the rest")
    behind[1].kill()
    behind[1].start()
    check(behind)
    assert [name for name, _ in given(behind)].count("snapshot_started") == 1
    assert max(part for _, part in given(behind)) > 0, "it went on after the parts that it had on disk"


def test_a_giver_that_is_killed_half_way_gives_another(behind: Cluster) -> None:
    link = behind.link(1, 0)
    link.cut_after(down=KEYS * VALUE_BYTES // 2)
    behind[1].start()
    wait_until(lambda: link.cuts, what="half of it has come")
    behind[0].kill()
    behind[0].start()
    check(behind)
    assert given(behind)[-1] == ("snapshot_started", 0)
