"""How the other hosts are, seen from one: versions, alarms, disks, and a link that is cut though a detour is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cluster, Daemon, wait_until
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

PLENTY = 1 << 50
"""More than any disk has, to be kept in reserve: such a node is full."""


@pytest.fixture
def fleet() -> Iterator[Cluster]:
    """All three are connected to each other."""
    with Cluster(3) as cluster:
        yield cluster


def shell(daemon: Daemon, place: Path) -> Shell:
    return Shell(daemon.socket, place)


def rows(daemon: Daemon, place: Path) -> dict[str, dict[str, Any]]:
    lines = shell(daemon, place).ok("cluster", "status", "--json").splitlines()
    return {row["name"]: row for row in map(json.loads, lines)}


def test_one_screen_shows_versions_alarms_and_disks_of_all(fleet: Cluster, tmp_path: Path) -> None:
    here, there, full = fleet
    full.stop()
    full.settings["free_bytes_min"] = PLENTY
    full.start()
    fleet.wait_connected()
    wait_until(lambda: (rows(here, tmp_path)[full.name]["state"]) == "read-only", what="the full one says so")
    wait_until(lambda: rows(here, tmp_path)[there.name]["state"] == "ready")
    seen = rows(here, tmp_path)
    assert next(iter(seen)) == here.name
    version = here.status()["node"]["version"]
    assert {row["version"] for row in seen.values()} == {version}
    assert [alarm["code"] for alarm in seen[full.name]["alarms"]] == ["no_space"]
    assert seen[there.name]["alarms"] == []
    assert all(row["bytes"] > 0 and row["free_bytes"] > 0 for row in seen.values())
    table = shell(here, tmp_path).ok("cluster", "status")
    assert f"{full.name}  no_space, since" in table
    assert "connected, read-only" in shell(here, tmp_path).ok("peers")
    assert f"{full.name} is read-only: its disk is full" in shell(here, tmp_path)("doctor").out
    full.stop()
    wait_until(lambda: rows(here, tmp_path)[full.name]["connection"] == "down")
    assert rows(here, tmp_path)[full.name]["state"] == "read-only", "as it was when it was heard last"


def test_a_link_that_is_cut_shows_though_another_way_is_left(fleet: Cluster, tmp_path: Path) -> None:
    here, between, there = fleet
    wait_until(lambda: rows(here, tmp_path)[there.name]["version"] is not None)
    assert "alone" not in shell(here, tmp_path)("doctor").out
    fleet.cut(here, there)
    wait_until(lambda: peer(here, there)["state"] == "indirect" and peer(here, there)["last_error"])
    shown = shell(here, tmp_path).ok("peers")
    assert f"over {between.name}" in shown
    assert peer(here, there)["last_error"] in shown
    assert f"{there.name} is reached over {between.name} alone: " in shell(here, tmp_path)("doctor").out
    fleet.heal()
    wait_until(lambda: peer(here, there)["state"] == "connected")
    assert peer(here, there)["last_error"] == ""


def peer(daemon: Daemon, other: Daemon) -> dict[str, Any]:
    found = daemon.peer(other.name)
    assert found is not None
    return found
