"""A watch whose connection breaks again and again goes on without going back and without telling twice."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.client.session.read_memory import ReadMemory
from crdtsync.client.streams import held_events
from crdtsync.client.streams.watch_state import WatchState
from crdtsync.client.values.results import Event
from crdtsync.core.watch import change_watch
from crdtsync.wire.codec import unpack
from tests.fleet.agent import Agent
from tests.fleet.host import Host


class Watching:
    """A client's watch at a node, over as many connections as it takes."""

    def __init__(self, host: Host, after: str | None) -> None:
        self.host = host
        self.state = WatchState(ReadMemory(), "", after, {})
        self.told: list[Event] = []
        self.agent: Agent | None = None

    def connect(self) -> None:
        """A new connection, in place of the one before."""
        if self.agent is not None:
            self.agent.close()
        self.agent = self.host.agent("watcher")
        _, operation, arguments = unpack(self.state.request()[4:])
        self.agent.send(operation, **arguments)

    def turns(self, count: int) -> None:
        """So many turns of the node; what has come is handed out."""
        for _ in range(count):
            self.host.turn()
        assert self.agent is not None
        self.state.take((2, 2, self.agent.told()))
        while (event := self.state.next_event()) is not None:
            self.told.append(event)

    def values(self, key: str) -> list[Any]:
        """What was told of a key, in order."""
        return [event.value for event in self.told if event.key == key]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_watch, "SLICE_CHANGES_MAX", 3)
    monkeypatch.setattr(change_watch, "SLICE_KEYS_MAX", 2)


def backlog(node: Host) -> str:
    """Writes of registers and counters; the token before them."""
    ann = node.agent("ann")
    token: str = ann.set("k", 0)["token"]
    ann.do("incr", key="counter", by=1)
    for n in range(1, 21):
        ann.set("k", n)
        ann.do("incr", key="counter", by=1)
        ann.set(f"other/{n}", n)
    return token


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("broken", [2, 3, 5])
def test_a_backlog_with_a_counter_in_it_is_told_once(node, broken):
    watching = Watching(node, backlog(node))
    for _ in range(broken):
        watching.connect()
        watching.turns(3)
    watching.connect()
    watching.turns(60)
    assert watching.values("k") == [*range(1, 21)]
    assert [event.event for event in watching.told if event.event in ("lagged", "reset")] == []
    assert watching.values("counter")[-1] == 21
    assert [watching.values(f"other/{n}") for n in range(1, 21)] == [[n] for n in range(1, 21)]


@pytest.mark.usefixtures("small")
def test_what_a_slow_watcher_missed_is_not_followed_by_older_values(node):
    """It is told the newest states; then the connection breaks before all of them are told."""
    ann = node.agent("ann")
    watching = Watching(node, ann.set("k", 0)["token"])
    watching.connect()
    watching.turns(3)
    assert watching.agent is not None
    watching.agent.flow(True)
    for n in range(1, 11):
        ann.set("k", n)
        for other in range(6):
            ann.set(f"other/{other}", n)
    watching.agent.flow(False)
    watching.turns(1)
    watching.connect()
    watching.turns(60)
    values = watching.values("k")
    assert values == sorted({*values})
    assert values[-1] == 10


@pytest.mark.usefixtures("small")
def test_where_too_much_would_wait_the_watch_starts_over_and_says_so(node, monkeypatch):
    monkeypatch.setattr(held_events, "EVENTS_MAX", 5)
    watching = Watching(node, backlog(node))
    watching.connect()
    watching.turns(5)
    assert watching.told
    watching.connect()
    watching.turns(60)
    names = [event.event for event in watching.told]
    assert names.count("reset") == 1
    after = watching.told[names.index("reset") :]
    assert {event.key: event.value for event in after if event.key is not None} == {
        "k": 20, "counter": 21, **{f"other/{n}": n for n in range(1, 21)},
    }  # fmt: skip


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("last", range(15, 35))
def test_who_is_told_a_state_ahead_of_the_log_gets_a_token_at_rest(node, last):
    """A counter's state is told with the commit under way, which the log then brings without news."""
    watching = Watching(node, backlog(node))
    watching.connect()
    bob = node.agent("bob")
    for _ in range(last):
        bob.write("incr", key="counter", by=1)
        watching.turns(1)
    watching.turns(20)
    assert watching.values("counter")[-1] == 21 + last
    assert not node.node.dispatcher.watches.has_more()
