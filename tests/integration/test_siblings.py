"""Conflicts are seen: what was written at once is all there, with who wrote it, where and when."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crdtsync.client import Entry
from tests.harness import Cluster, wait_until_equal
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

CLOSE = timedelta(minutes=5)


@pytest.fixture
def fought(cluster: Cluster) -> Cluster:
    """Three hosts, each of which wrote one key while it was cut off from the others."""
    for a, b in ((0, 1), (0, 2), (1, 2)):
        cluster.cut(a, b)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        cluster.wait_parted(a, b)
    for number, daemon in enumerate(cluster):
        daemon.client(f"agent-{number}").set("plan", {"by": number}, confidence=number / 4, meta={"n": number})
    cluster.heal()
    cluster.wait_connected()
    wait_until_equal(cluster)
    return cluster


def values_of(entry: Entry) -> list[Entry]:
    return [entry, *entry.siblings]


def test_each_value_has_its_author_host_time_and_dot(fought: Cluster) -> None:
    entries = [daemon.client().entry("plan") for daemon in fought]
    assert entries[0] is not None
    assert entries[0] == entries[1] == entries[2], "the same winner, and the same order, on every host"
    found = values_of(entries[0])
    assert sorted((one.value["by"], one.agent, one.node) for one in found) == [
        (number, f"agent-{number}", f"host-{'abc'[number]}") for number in range(3)
    ]
    now = datetime.now(UTC)
    assert all(one.time is not None and abs(now - one.time) < CLOSE for one in found)
    assert sorted((one.time for one in found if one.time), reverse=True) == [one.time for one in found]
    assert len({one.dot for one in found}) == 3
    assert sorted((one.confidence, one.meta) for one in found) == [(n / 4, {"n": n}) for n in range(3)]


def test_they_are_listed_until_they_are_settled(fought: Cluster) -> None:
    listed = [daemon.client().conflicts() for daemon in fought]
    assert listed[0] == listed[1] == listed[2]
    (conflict,) = listed[0]
    state = fought[1].client("judge")
    state.conflicts()
    state.resolve("plan", take=conflict.siblings[-1].dot)
    wait_until_equal(fought)
    for daemon in fought:
        client = daemon.client()
        assert client.conflicts() == []
        assert client.get("plan") == conflict.siblings[-1].value


def test_a_write_supersedes_what_its_author_had_read_and_nothing_else(fought: Cluster) -> None:
    reader = fought[0].client("reader")
    entry = reader.entry("plan")
    assert entry is not None
    fought[1].client("late").set("plan", "late", seen="?")
    wait_until_equal(fought)
    reader.set("plan", "settled")
    wait_until_equal(fought)
    for daemon in fought:
        found = daemon.client().entry("plan")
        assert found is not None
        assert [one.value for one in values_of(found)] == ["settled", "late"]


def test_the_command_line_shows_them(fought: Cluster, tmp_path: Path) -> None:
    shell = Shell(fought[2].socket, tmp_path)
    done = shell("get", "plan")
    assert done.status == 0
    assert "2 other values were written to 'plan' at the same time" in done.err
    assert len(shell.ok("get", "plan", "--siblings").splitlines()) == 3
    entry = json.loads(shell("get", "plan", "--json").out)
    for one in (entry, *entry["siblings"]):
        assert {"value", "agent", "node", "time", "dot", "confidence", "meta"} <= set(one)
    (conflict,) = shell.json("conflicts", "--json")
    assert {name: conflict[name] for name in ("key", "value", "siblings")} == {
        name: entry[name] for name in ("key", "value", "siblings")
    }
