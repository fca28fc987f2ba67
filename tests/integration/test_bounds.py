"""The past has bounds: what is kept of it does not grow with the number of writes, also when the daemon is killed."""

from __future__ import annotations

import random
import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from crdtsyncd.storage.database import Store

from tests.harness import Daemon, wait_until
from tests.harness.raw import RawAgent
from tests.unit.daemon.counting import counters, counters_by_sum

pytestmark = pytest.mark.integration

CAPS = {"log_bytes_max": 128 * 1024, "history_bytes_max": 128 * 1024}
KEYS = 50


def overwrite(agent: RawAgent, count: int, first: int = 0) -> dict[str, int]:
    """So many writes over a few keys, pipelined; what the keys hold then."""
    asked: deque[int] = deque()
    for n in range(first, first + count):
        asked.append(agent.send_write("set", key=f"k/{n % KEYS}", value=n))
        if len(asked) >= 128:
            agent.result(asked.popleft())
    for request in asked:
        agent.result(request)
    return {f"k/{n % KEYS}": n for n in range(first, first + count)}


def is_within_caps(daemon: Daemon) -> bool:
    space = daemon.space()
    assert (space["log_bytes_max"], space["history_bytes_max"]) == (CAPS["log_bytes_max"], CAPS["history_bytes_max"])
    return bool(space["log_bytes"] <= CAPS["log_bytes_max"] and space["history_bytes"] <= CAPS["history_bytes_max"])


def check_database(data: Path, scratch: Path) -> int:
    """A copy of the database is whole: exact counters, a log without gaps above its floor. How much was trimmed."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(data, scratch / "data")
    (scratch / "run").mkdir()
    store = Store(scratch / "data", scratch / "run")
    try:
        assert counters(store) == counters_by_sum(store)
        space = next(space for space in store.spaces() if space.name == "default")
        held: dict[int, list[int]] = {}
        for row in store.log(1, 0, 2**40, 2**30):
            held.setdefault(row.writer, []).append(row.seq)
        for writer, seq, _ in store.heads(1):
            floor = space.floor.get(writer, 0)
            assert held.get(writer, []) == [*range(floor + 1, seq + 1)]
            assert not floor or store.change_hash(1, writer, floor)
        assert store._one("PRAGMA integrity_check", ()) == ("ok",)
        return sum(space.floor.values())
    finally:
        store.close()


@pytest.mark.slow
def test_after_20_000_overwrites_there_is_little_on_disk(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    daemon = make_daemon(**CAPS)
    with daemon.raw() as agent:
        begin = agent.write("set", key="k/0", value="first")["token"]
        wanted = overwrite(agent, 20_000)
    # Some 40 MiB have gone through the write-ahead log, which begins anew each time that it has been moved.
    assert (daemon.data / "crdtsync.db-wal").stat().st_size < 16 * 1024 * 1024
    wait_until(lambda: is_within_caps(daemon), what="log and history are within their caps")
    assert daemon.stop() == 0
    on_disk_bytes = (daemon.data / "crdtsync.db").stat().st_size
    # Beside log and history: hashes and replies, of which each has a cap of its own.
    assert on_disk_bytes < 8 * 1024 * 1024, f"{on_disk_bytes:,} bytes on disk"
    assert check_database(daemon.data, tmp_path / "copy") > 15_000
    daemon.start()
    with daemon.client("reader") as client:
        assert dict(client.items("k/")) == wanted
    with daemon.raw() as agent:
        wanted |= overwrite(agent, 100, first=20_000)
        watch = agent.send("watch", prefix="k/", after=begin)
        agent.result(watch)
        events: list[dict[str, object]] = []
        while not events or (events[-1]["event"], events[-1]["key"]) != ("snapshot", None):
            events += agent.receive()[2]
    assert events[0]["event"] == "reset"
    assert {str(e["key"]): msgpack.unpackb(e["value"]) for e in events[1:-1]} == wanted
    assert len(daemon.space()["version_vector"]) == 1
    assert daemon.alarms() == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_killed_in_the_middle_of_trims(make_daemon: Callable[..., Daemon], tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    daemon = make_daemon(**CAPS)
    count = trimmed = 0
    wanted: dict[str, int] = {}
    for _ in range(4):
        with daemon.raw() as agent:
            more = rng.randrange(800, 2000)
            wanted |= overwrite(agent, more, first=count)
            count += more
            # the next writes are not waited for: the kill comes between any two of them, and of the slices
            pending = [agent.send_write("set", key="other", value=n) for n in range(rng.randrange(300))]
            if pending and rng.random() < 0.5:
                agent.result(pending[0])
            daemon.kill()
        before, trimmed = trimmed, check_database(daemon.data, tmp_path / "copy")
        assert trimmed >= before
        daemon.start()
        with daemon.client("reader") as client:
            assert dict(client.items("k/")) == wanted
    assert trimmed > count / 4  # how much, goes by the second in which each kill came
    wait_until(lambda: is_within_caps(daemon), what="log and history are within their caps")
    assert daemon.alarms() == []
    assert len(daemon.space()["version_vector"]) == 1, "the same writer went on"
