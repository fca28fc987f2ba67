"""What a snapshot took away with nobody to confirm it is kept for a week, and can be brought back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crdtsync.core.access.agent import User
from crdtsync.core.background.retention_caps import DEFAULT_CAPS
from crdtsync.core.cluster.admission import Reach
from crdtsync.core.history import taken_away
from crdtsync.core.history.taken_away import PIN_MS
from crdtsync.core.replica import bring_back
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.snapshot import WriterRow
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.renegade import Renegade
from tests.fleet.snapshots import fill

KEYS = 30
TIGHT = DEFAULT_CAPS._replace(history_bytes_max=10_000, history_age_ms_max=3600_000)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleet_of("b", caps=TIGHT) as found:
        yield found


def wipe(machine: Host, seq: int = 1) -> None:
    """A member gives an empty state, and there is nobody to ask."""
    renegade = Renegade(machine)
    heads = [row for row in renegade.heads("default") if row.writer != renegade.writer]
    own = WriterRow(renegade.writer, seq, bytes([seq]) * 16, (renegade.node, renegade.node))
    renegade.snapshot("default", [*heads, own], [])
    machine.turn()
    renegade.close()
    assert machine.replica.entries.count == 0
    assert (
        "crdtsync bring-back --space default" in {a.code: a.message for a in machine.node.alarms.raised()}["taken_away"]
    )


def bring_all_back(machine: Host, parts_max: int = 1000) -> list[dict[str, Any]]:
    machine.step(Reach(operators=(0,)))
    agent = machine.agent("root", user=User(0))
    replies = [agent.do("bring_back")]
    while replies[-1]["more"] and len(replies) < parts_max:
        replies.append(agent.do("bring_back"))
    return replies


def state(agent: Agent) -> dict[str, Any]:
    return {
        "register": agent.get("register"), "map": agent.get("map"), "log": agent.get("log"),
        "set": sorted(agent.get("set")), "counter": agent.get("counter"),
        "keys": [agent.get(f"key/{n:05}") for n in range(KEYS)],
    }  # fmt: skip


def write_all_kinds(agent: Agent, machine: Host) -> None:
    fill(machine, KEYS, "key")
    agent.set("register", {"a": [1, 2]})
    agent.do("merge", key="map", fields={"f": pack(1), "g": pack("x")})
    for n in (1, 2, 2, 3):
        agent.append("log", n)
        agent.do("add", key="set", value=pack(n))
        agent.do("incr", key="counter", by=n)


@pytest.mark.parametrize("rows_max", [7, 500])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_all_of_it_comes_back(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, rows_max: int, is_restarted: bool):
    monkeypatch.setattr(bring_back, "ROWS_MAX", rows_max)
    b = fleet["b"]
    write_all_kinds(b.agent(), b)
    before = state(b.agent())
    wipe(b)
    replies = bring_all_back(b, parts_max=1) if is_restarted else []
    if is_restarted:
        b.restart()
    replies += bring_all_back(b)
    assert state(b.agent()) == before
    assert sum(reply["left"] for reply in replies) == 0
    position = b.replica.position
    assert not any(reply["written"] for reply in bring_all_back(b))
    assert b.replica.position == position, "nothing comes back twice"


def test_what_was_written_meanwhile_stays_and_what_is_there_again_is_left(fleet: Fleet):
    b = fleet["b"]
    ann = b.agent()
    for key in ("again", "other", "text"):
        ann.set(key, 1)
    fill(b, KEYS, "key")
    wipe(b)
    ann = b.agent()
    ann.set("again", 1)
    ann.set("other", 2)
    (reply,) = bring_all_back(b)
    assert (reply["written"], reply["left"]) == (KEYS + 2, 1)
    assert ann.values("again") == [1]
    assert sorted(ann.values("other")) == [1, 2]


def test_history_keeps_it_while_more_comes_and_for_a_week(fleet: Fleet):
    b = fleet["b"]
    fill(b, KEYS, "key")
    wipe(b)
    for n in range(20):
        b.agent().set("busy", n)
        fleet.run(2, 1)
    fleet.pass_time(24 * 3600)
    fleet.run(5, 1)
    assert sum(reply["written"] for reply in bring_all_back(b)) == KEYS
    wipe(b, 2)
    fleet.pass_time(PIN_MS / 1000 + 1)
    fleet.run(120, 10)
    assert sum(reply["written"] for reply in bring_all_back(b)) == 0


def test_it_is_bounded(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    """By how often, and by how much history there may be: it gives way where that would be over twice its cap."""
    monkeypatch.setattr(taken_away, "PINS_MAX", 2)
    b = fleet["b"]
    for seq in range(1, 4):
        fill(b, KEYS, f"key-{seq}")
        wipe(b, seq)
    assert len(b.replica.past.taken_away.before()) == 2
    assert sum(reply["written"] for reply in bring_all_back(b)) == 2 * KEYS
    wipe(b, 4)
    for _ in range(60):
        b.agent().set("busy", bytes(500))
        fleet.run(1, 1)
    assert b.store.log_stats(b.replica.id)["history_bytes"] <= 3 * TIGHT.history_bytes_max


def test_operators_alone_may_and_not_in_a_batch(fleet: Fleet):
    b = fleet["b"]
    fill(b, KEYS, "key")
    wipe(b)
    with pytest.raises(Refusal, match="not_allowed"):
        b.agent().do("bring_back")
    b.step(Reach(operators=(0,)))
    with pytest.raises(Refusal, match="invalid_request"):
        b.agent("root", user=User(0)).do("batch", ops=[["bring_back", {}]])
    assert sum(reply["written"] for reply in bring_all_back(b)) == KEYS
