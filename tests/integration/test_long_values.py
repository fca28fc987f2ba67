"""Values on disk: what a daemon's memory holds of them, and what follows where the disk has spoilt one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from crdtsyncd.cli.data.export_records import lines_of

from crdtsync.errors import DamagedValue
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal
from tests.integration.witness import rss_bytes

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
COUNT = 300
VALUE_BYTES = 150_000
CACHE_BYTES = 8 * MIB
GROWN_BYTES_MAX = COUNT * VALUE_BYTES // 2


def value_of(number: int) -> bytes:
    return Random(number).randbytes(VALUE_BYTES)


def test_memory_holds_what_is_in_use_here_and_on_a_node_that_joins_later(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(2, start=False, log_bytes_max=MIB, history_bytes_max=MIB, value_cache_bytes=CACHE_BYTES)
    cluster.link(0, 1).cut(refuse=True)
    first, second = cluster
    first.start()
    empty_bytes = rss_bytes(first.pid)
    with first.client() as client:
        for n in range(COUNT):
            client.set(f"k/{n:03}", value_of(n))
        assert rss_bytes(first.pid) < empty_bytes + GROWN_BYTES_MAX
        assert dict(client.items("k/", limit=3)) == {f"k/{n:03}": value_of(n) for n in range(3)}
    wait_until(lambda: first.space()["log_bytes"] <= MIB, what="the log is trimmed")
    second.start()
    cluster.link(0, 1).heal()
    wait_until_equal(cluster)
    for daemon in cluster:
        assert rss_bytes(daemon.pid) < empty_bytes + GROWN_BYTES_MAX
        daemon.kill()
        daemon.start()
        assert rss_bytes(daemon.pid) < empty_bytes + GROWN_BYTES_MAX
        with daemon.client() as client:
            for n in range(COUNT):
                assert client.get(f"k/{n:03}") == value_of(n)
        assert rss_bytes(daemon.pid) < empty_bytes + GROWN_BYTES_MAX
        (cache,) = [usage for usage in daemon.status()["usage"] if usage["name"] == "value_cache"]
        assert CACHE_BYTES - 2 * VALUE_BYTES < cache["used"] <= cache["bound"] == CACHE_BYTES
        assert daemon.alarms() == []


def flip_a_bit(database: Path, value: bytes) -> None:
    """One bit in the middle of a value, where the state holds it: its bytes may also stand on pages that are free."""
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        ((row, held),) = db.execute("SELECT row, value FROM entry_values WHERE INSTR(value, ?)", (value,)).fetchall()
        at = len(held) // 2
        spoilt = held[:at] + bytes([held[at] ^ 1]) + held[at + 1 :]
        db.execute("UPDATE entry_values SET value = ? WHERE row = ?", (spoilt, row))


def test_a_flipped_bit_is_told_and_everything_else_is_served(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon(log_bytes_max=65536)
    with daemon.client() as client:
        for n in range(5):
            client.set(f"k/{n}", value_of(n))
        client.set("other", 1)
        wait_until(lambda: daemon.space()["log_bytes"] <= 65536, what="the log is trimmed")
    database = Path(daemon.status()["store"]["path"])
    daemon.stop()
    flip_a_bit(database, value_of(2))
    daemon.start()
    with daemon.client() as client:
        with pytest.raises(DamagedValue, match="k/2"):
            client.get("k/2")
        for n in (0, 1, 3, 4):
            assert client.get(f"k/{n}") == value_of(n)
        assert sorted(client.keys()) == ["k/0", "k/1", "k/2", "k/3", "k/4", "other"]
        assert daemon.alarms() == ["value_damaged"]
        assert [event["key"] for event in daemon.log_events("value_damaged")] == ["k/2"]
        with pytest.raises(DamagedValue, match="k/2"):  # an export with null in its place would be imported as that
            assert [[*lines_of(client, entry)] for entry in client.entries()]
        client.set("k/2", "anew")
        assert client.get("k/2") == "anew"


@pytest.mark.parametrize(
    "word, alarms, event",
    [(b"-" * 9, [], "change_mended"), (b"v/one", ["change_damaged"], "snapshot_taken")],
)
def test_what_is_spoilt_in_the_log_reaches_no_node_that_joins(
    make_cluster: Callable[..., Cluster], word: bytes, alarms: list[str], event: str
) -> None:
    """Else the new node would take it for what an agent wrote, and later changes for those of a fork."""
    cluster = make_cluster(3, start=False)
    first, second, third = cluster
    for daemon in (first, second):
        daemon.start()
    with first.client() as client:
        client.set("v/one", "-" * 16_000)
        token = client.set("v/two", 2).token
    with second.client() as client:
        assert client.get("v/two", after=token) == 2
    database = Path(second.status()["store"]["path"])
    first.stop()
    second.stop()
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        ((position, body),) = db.execute(
            "SELECT position, body FROM changes WHERE INSTR(body, CAST('v/one' AS BLOB))"
        ).fetchall()
        spoilt = bytearray(body)
        spoilt[body.index(word)] ^= 1
        db.execute("UPDATE changes SET body = ? WHERE position = ?", (bytes(spoilt), position))
    second.start()
    third.start()
    with third.client() as client:
        wait_until(lambda: client.get("v/two") == 2, what="the third host has what the second one has")
        assert client.get("v/one") == "-" * 16_000
    assert (second if event == "change_mended" else third).log_events(event)
    assert (second.alarms(), third.alarms()) == (alarms, [])
    first.start()
    with first.client() as client:
        client.set("v/two", 3)
    wait_until_equal(cluster)
    wait_until(lambda: not second.alarms(), what="the first host has given the change")
    assert [daemon.alarms() for daemon in cluster] == [[], [], []]
