"""Reducers: what two cut-off hosts do to one log, counter, set or map is all there when they meet, alike on both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crdtsync import Client
from tests.harness import Cluster, wait_until_equal
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

TIMES = 200


def meet(pair: Cluster) -> list[Client]:
    pair.heal()
    pair.wait_connected()
    wait_until_equal(pair)
    return [daemon.client() for daemon in pair]


def test_all_appends_are_there_in_the_same_order(parted: Cluster) -> None:
    for side, daemon in enumerate(parted):
        client = daemon.client()
        assert [client.append("log", [side, n]) for n in range(TIMES)] == list(range(1, TIMES + 1))
    first, second = (client.log("log") for client in meet(parted))
    assert first == second
    assert sorted(first) == [[side, n] for side in range(2) for n in range(TIMES)]
    for side in range(2):
        assert [n for where, n in first if where == side] == list(range(TIMES)), "each host's in its own order"


def test_all_increments_count(parted: Cluster) -> None:
    for side, daemon in enumerate(parted):
        client = daemon.client()
        for n in range(TIMES):
            client.incr("counter", n if side else -1)
    total = sum(range(TIMES)) - TIMES
    assert [client.get("counter") for client in meet(parted)] == [total, total]


def test_a_reset_takes_off_what_its_host_had_counted(parted: Cluster) -> None:
    here, there = (daemon.client() for daemon in parted)
    here.incr("counter", 10)
    there.incr("counter", 5)
    assert here.reset("counter") == 10
    here.incr("counter", 1)
    assert [client.get("counter") for client in meet(parted)] == [6, 6]


def test_all_elements_are_in_the_set_and_adding_wins(pair: Cluster) -> None:
    here, there = (daemon.client() for daemon in pair)
    for value in ("both", "discarded"):
        here.add("set", value)
    wait_until_equal(pair)
    assert there.members("set") == ["both", "discarded"]
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for side, client in enumerate((here, there)):
        for n in range(TIMES):
            client.add("set", [side, n % 50])
    here.add("set", "both")
    for value in ("both", "discarded"):
        assert there.discard("set", value)
    sets = [client.members("set") for client in meet(pair)]
    assert sets[0] == sets[1]
    assert [value for value in sets[0] if isinstance(value, str)] == ["both"]
    assert sorted(value for value in sets[0] if not isinstance(value, str)) == [
        [side, n] for side in range(2) for n in range(50)
    ]


def test_all_fields_are_in_the_map_and_of_a_field_of_both_both_values_are_kept(parted: Cluster) -> None:
    for side, daemon in enumerate(parted):
        client = daemon.client(f"agent-{side}")
        for n in range(TIMES):
            client.merge("map", {f"{side}/{n}": n, "shared": [side, n]})
    for client in meet(parted):
        entry = client.entry("map")
        assert entry is not None
        own = {f"{side}/{n}": n for side in range(2) for n in range(TIMES)}
        assert {name: value for name, value in entry.value.items() if name != "shared"} == own
        (loser,) = entry.siblings
        assert loser.field == "shared"
        assert sorted([entry.value["shared"], loser.value]) == [[0, TIMES - 1], [1, TIMES - 1]]
        assert {loser.agent, loser.node} <= {"agent-0", "agent-1", "host-a", "host-b"}


def test_from_the_command_line(parted: Cluster, tmp_path: Path) -> None:
    shells: list[Shell] = []
    for daemon in parted:
        (tmp_path / daemon.name).mkdir()
        shells.append(Shell(daemon.socket, tmp_path / daemon.name))
    for name, shell in zip("ab", shells, strict=True):
        for n in range(5):
            assert shell.ok("append", "log", json.dumps([name, n])) == str(n + 1)
        assert shell.ok("incr", "counter", "7") == "7"
        shell.ok("add", "set", "--string", name)
        shell.ok("merge", "map", json.dumps({name: 1}))
    meet(parted)

    def shown(shell: Shell) -> list[Any]:
        lists = [shell.ok(command, key).split("\n") for command, key in (("log", "log"), ("members", "set"))]
        return [*lists, shell.ok("get", "counter"), json.loads(shell.ok("get", "map"))]

    first, second = map(shown, shells)
    assert first == second
    assert (len(first[0]), sorted(first[1]), first[2], first[3]) == (10, ['"a"', '"b"'], "14", {"a": 1, "b": 1})
