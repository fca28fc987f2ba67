"""The history of keys whose schema caps it: it goes first, says so, and leaves that of all others alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crdtsync.core.background import pattern_trimming
from crdtsync.core.background.retention_caps import Caps
from crdtsync.errors import NoSpace
from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.unit.daemon.counting import counters, counters_by_sum

DAY_S = 24 * 3600


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_trimming, "SLICE_ROWS", 8)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleet_of("a", caps=Caps(history_bytes_max=20_000)) as made:
        yield made


def declare(machine: Host, pattern: str, history: object) -> None:
    machine.agent().do("schema_set", pattern=pattern, policy="lww", history=history)


def write(machine: Host, key: str, times: int, begin: int = 0) -> None:
    ann = machine.agent()
    for n in range(begin, begin + times):
        ann.set(key, n)


def told(machine: Host, key: str) -> tuple[list[Any], bool]:
    """The values that history tells of a key, the newest first, and whether these are all."""
    values: list[Any] = []
    before = None
    while True:
        page = machine.agent().ask("history", key=key, limit=500, **({} if before is None else {"before": before}))
        values += [unpack(item["value"]) for item in page["items"]]
        before = page["before"]
        if before is None:
            return values, page["complete"]


def settle(fleet: Fleet) -> None:
    fleet.run(3, 0.02)
    machine = fleet["a"]
    assert counters(machine.store) == counters_by_sum(machine.store)


def test_none_is_kept_where_the_schema_says_so(fleet: Fleet) -> None:
    a = fleet["a"]
    declare(a, "beat/*", False)
    write(a, "plan", 5)
    for n in range(0, 500, 100):
        write(a, "beat/a", 100, n)
        settle(fleet)
    assert told(a, "beat/a") == ([499], False)
    assert told(a, "plan") == ([4, 3, 2, 1, 0], True)
    rows = a.store.oldest_dead(1, 999)
    assert [row.key for row in rows] == ["plan"] * 4
    assert len(a.store.oldest_removals(1, 999)) == 4


def test_without_a_cap_the_bulk_pushes_the_plan_out(fleet: Fleet) -> None:
    """What the cap is for: the control."""
    a = fleet["a"]
    write(a, "plan", 5)
    for n in range(0, 500, 100):
        write(a, "beat/a", 100, n)
        settle(fleet)
    assert told(a, "plan") == ([4], False)


def test_so_many_bytes_are_kept_the_newest(fleet: Fleet) -> None:
    a = fleet["a"]
    declare(a, "beat/**", {"bytes": 3000})
    write(a, "plan", 3)
    for n in range(100):
        write(a, f"beat/{n % 3}", 1, n)
    settle(fleet)
    kept = [row for row in a.store.dead_after(1, 0, 0, 999) if row.key != "plan"]
    assert 2700 < sum(row.size_bytes for row in kept) <= 3000
    values, is_complete = told(a, "beat/0")
    assert values == [*range(99, 99 - 3 * len(values), -3)]
    assert not is_complete
    assert told(a, "plan") == ([2, 1, 0], True)


def test_what_ended_within_a_time_is_kept(fleet: Fleet) -> None:
    a = fleet["a"]
    declare(a, "beat/*", {"age_ms": DAY_S * 1000})
    write(a, "beat/a", 5)
    write(a, "plan", 5)
    settle(fleet)
    assert told(a, "beat/a") == ([4, 3, 2, 1, 0], True)
    fleet.pass_time(DAY_S / 2)
    write(a, "beat/a", 5, 5)
    fleet.pass_time(DAY_S / 2 + 61)
    settle(fleet)
    assert told(a, "beat/a") == ([9, 8, 7, 6, 5, 4], False)
    fleet.pass_time(DAY_S)
    settle(fleet)
    assert told(a, "beat/a") == ([9], False)
    assert told(a, "plan") == ([4, 3, 2, 1, 0], True)


def test_the_most_specific_schema_decides(fleet: Fleet) -> None:
    a = fleet["a"]
    declare(a, "beat/**", False)
    declare(a, "beat/kept", True)
    write(a, "beat/a", 20)
    write(a, "beat/kept", 20)
    settle(fleet)
    assert len(told(a, "beat/a")[0]) == 1
    assert len(told(a, "beat/kept")[0]) == 20


def test_a_schema_that_comes_later_reaches_what_is_there_and_one_that_goes_keeps_what_comes(fleet: Fleet) -> None:
    a = fleet["a"]
    write(a, "beat/a", 30)
    settle(fleet)
    declare(a, "beat/*", False)
    settle(fleet)
    assert told(a, "beat/a") == ([29], False)
    a.agent().do("schema_set", pattern="beat/*", remove=True)
    write(a, "beat/a", 5, 30)
    settle(fleet)
    assert told(a, "beat/a") == ([34, 33, 32, 31, 30, 29], False)


def test_deletes_of_many_at_once_go_with_their_removal(fleet: Fleet) -> None:
    a = fleet["a"]
    declare(a, "log/*", False)
    ann = a.agent()
    for n in range(30):
        ann.do("append", key="log/a", value=pack(n))
    ann.do("delete", key="log/a")
    settle(fleet)
    assert a.store.dead_after(1, 0, 0, 999) == []
    assert a.store.oldest_removals(1, 999) == []


def test_after_a_restart_and_after_a_failed_commit_it_goes_on(fleet: Fleet) -> None:
    a = fleet["a"]
    declare(a, "beat/*", {"bytes": 2000})
    write(a, "beat/a", 50)
    settle(fleet)
    before = a.replica.past.floors("beat/a")
    a.restart()
    assert a.replica.past.floors("beat/a") == before
    assert a.replica.past.floors("plan") == []
    write(a, "beat/a", 50, 50)
    fleet.pass_time(2)
    a.refuse(NoSpace("full"))
    write(a, "beat/a", 50, 100)
    settle(fleet)
    kept = [row for row in a.store.dead_after(1, 0, 0, 999) if row.key == "beat/a"]
    assert 1700 < sum(row.size_bytes for row in kept) <= 2000


def test_the_caps_of_space_and_pattern_hold_side_by_side(fleet: Fleet) -> None:
    a = fleet["a"]
    declare(a, "beat/*", {"bytes": 5000})
    for n in range(300):
        write(a, "beat/a", 1, n)
        write(a, "plan", 2, 2 * n)
    settle(fleet)
    assert counters(a.store)["history_bytes"] <= 20_000
    kept = [row for row in a.store.dead_after(1, 0, 0, 999) if row.key == "beat/a"]
    assert sum(row.size_bytes for row in kept) <= 5000
    write(a, "beat/a", 300, 300)
    settle(fleet)
    kept = [row for row in a.store.dead_after(1, 0, 0, 9999) if row.key == "beat/a"]
    assert 4700 < sum(row.size_bytes for row in kept) <= 5000


def test_the_floor_of_a_pattern_goes_once_that_of_the_space_covers_it(fleet: Fleet) -> None:
    a = fleet["a"]
    declare(a, "beat/*", False)
    write(a, "beat/a", 20)
    settle(fleet)
    assert a.store.metas("history_floor/")
    write(a, "plan", 500)
    settle(fleet)
    assert a.store.metas("history_floor/") == []
    assert len(a.replica.past.floors("beat/a")) == 1


@pytest.mark.parametrize("history", [{"bytes": 0}, {"bytes": 1.5}, {"age_ms": -1}, {"days": 1}, 0, "none", None, {}])
def test_what_is_no_cap_is_refused(fleet: Fleet, history: object) -> None:
    with pytest.raises(Refusal, match="history must be"):
        declare(fleet["a"], "beat/*", history)
