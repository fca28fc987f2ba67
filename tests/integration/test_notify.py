"""Notification: a watch tells every change under its prefix, made wherever, and goes on where it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crdtsync.client import Event, Watch
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

LONG_S = 60.0


def told(watch: Watch) -> Event:
    event = watch.next(LONG_S)
    assert event is not None
    return event


def through_snapshot(watch: Watch) -> dict[str | None, Any]:
    """What the snapshot holds."""
    held: dict[str | None, Any] = {}
    while (event := told(watch)).key is not None:
        assert event.event == "snapshot"
        held[event.key] = event.value
    return held


def test_only_what_begins_with_the_prefix_is_told(daemon: Daemon) -> None:
    state = daemon.client()
    state.set("plan/a", 0)
    state.set("other", 0)
    with daemon.client("watcher").watch("plan/") as watch:
        assert through_snapshot(watch) == {"plan/a": 0}
        for key in ("other", "plan", "plan/b", "plans/c", "plan/a"):
            state.set(key, 1)
        assert [told(watch).key for _ in range(2)] == ["plan/b", "plan/a"]


def test_nothing_is_missed_through_a_partition_and_restarts(pair: Cluster) -> None:
    """What the other host wrote while it was cut off comes when they meet, once each, in its order."""
    watch = pair[1].client("watcher").watch("n/")
    through_snapshot(watch)
    writer = pair[0].client("writer")
    writer.append("n/log", 0)
    assert told(watch).value == 0
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for n in range(1, 51):
        writer.append("n/log", n)
    pair[1].kill()
    pair[1].start()
    pair.heal()
    assert [told(watch).value for _ in range(50)] == list(range(1, 51))
    pair[1].stop()
    pair[1].start()
    writer.append("n/log", 51)
    assert told(watch).value == 51
    watch.close()


def test_a_watch_goes_on_after_its_token_also_on_another_host(pair: Cluster) -> None:
    state = pair[0].client()
    for n in range(5):
        state.append("log", n)
    with pair[0].client("watcher").watch("log") as watch:
        through_snapshot(watch)
        state.append("log", 5)
        token = told(watch).token
    for n in range(6, 10):
        state.append("log", n)
    wait_until_equal(pair)
    for daemon in pair:
        with daemon.client("watcher").watch("log", after=token) as watch:
            assert [told(watch).value for _ in range(4)] == [6, 7, 8, 9]


def test_a_conflict_is_told_on_both_hosts(pair: Cluster) -> None:
    watches = [daemon.client("watcher").watch("k") for daemon in pair]
    for watch in watches:
        through_snapshot(watch)
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for daemon in pair:
        daemon.client(f"agent-{daemon.name}").set("k", daemon.name)
    pair.heal()
    for watch in watches:
        while (event := told(watch)).event != "conflict":
            assert event.event == "set"
        both = {(event.value, event.agent, event.node), *((s.value, s.agent, s.node) for s in event.siblings)}
        assert both == {(name, f"agent-{name}", name) for name in ("host-a", "host-b")}
        watch.close()


def test_what_history_no_longer_reaches_back_to_begins_with_a_reset(pair: Cluster) -> None:
    pair[1].stop()
    pair[1].start(log_bytes_max=65536)
    pair.wait_connected()
    state = pair[1].client()
    token = state.set("k/first", 0)
    for n in range(400):
        state.set(f"k/{n % 20}", "x" * 1000 + str(n))
    state.set("k/last", 1, w=2)
    wait_until(lambda: pair[1].space()["log_bytes"] <= 65536, what="the log has been trimmed")
    watch = pair[1].client("watcher").watch("k/", after=token)
    event = told(watch)
    assert event.event == "reset"
    held = through_snapshot(watch)
    assert (held["k/first"], held["k/last"], len(held)) == (0, 1, 22)
    watch.close()


def test_from_the_command_line(pair: Cluster, tmp_path: Path) -> None:
    shell = Shell(pair[1].socket, tmp_path)
    state = pair[0].client()
    with shell.start("watch", "k/") as watch:
        assert watch.event()["event"] == "snapshot"
        state.set("k/1", 1)
        token = watch.event()["token"]
    state.set("other", 0)
    state.set("k/2", 2)
    with shell.start("watch", "k/", "--after", token) as watch:
        assert watch.event()["value"] == 2
