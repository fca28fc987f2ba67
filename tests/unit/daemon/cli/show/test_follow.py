"""``log -f``: a reading and the watches behind it make one sequence with each element once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from crdtsyncd.cli.commands.kinds import logs
from crdtsyncd.cli.show import follow as following
from crdtsyncd.cli.show import output

from crdtsync.client import Client, Event, Listing, LogItem

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Ended(Exception):
    """Ctrl-C."""


def at(n):
    return NOON + timedelta(seconds=n)


def an_item(n, value):
    return LogItem(n, value, f"1.{n}.0", "a", "n", at(n))


def appended(n, value=None, key="log", event="set"):
    """The event of the element that was appended as number ``n``."""
    return Event(
        event, key, "log", n if value is None else value, "append", "v1.x", f"c1.{n}", "a", "n", at(n), dot=f"1.{n}.0"
    )


def batched(*events):
    return Event("batch", None, None, None, "batch", None, events[-1].token, "a", "n", NOON, events=list(events))


def state(token=None, key="log"):
    return Event("set", key, "log", [], "state", "v1.x", token, "a", "n", NOON, dot="1.9.0")


def without_token(event):
    return replace(event, token=None)


def plain(event):
    return Event(event, None, None, None, None, None, None, None, None, None)


LAGGED, RESET = plain("lagged"), plain("reset")


class FakeClient(Client):
    """A log whose readings and watches are given; a watch that has no more events is interrupted."""

    def __init__(self, held, *watches):
        self.held = [an_item(n, value) for n, value in enumerate(held)]
        self.watches = list(watches)
        self.asked_after = []
        self.grows_while_read = []

    def watch(self, prefix="", *, after=None, **_):
        self.asked_after.append(after)
        return FakeWatch(self.watches.pop(0))

    def log_items(self, key, *, start=0, last=None, limit=None, **_):
        token = f"c1.{len(self.held) - 1}"
        if isinstance(start, LogItem):
            start = [item.dot for item in self.held].index(start.dot) + 1
        found = self.held[-last:] if last else self.held[start:]
        page = Listing(found[:limit], token)
        self.held += self.grows_while_read
        self.grows_while_read = []
        return page


class FakeWatch:
    def __init__(self, events):
        self.events = events

    def __iter__(self):
        yield from self.events
        raise Ended

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def followed(capfd):
    def follow(client, count=None):
        with pytest.raises(Ended):
            logs._follow(client, "log", count, logs._show_value)
        output.flush()
        captured = capfd.readouterr()
        return captured.out.split(), captured.err

    return follow


def test_the_watch_goes_on_where_the_reading_ended(followed):
    client = FakeClient([0, 1], [appended(2), appended(3)])
    assert followed(client) == (["0", "1", "2", "3"], "")
    assert client.asked_after == ["c1.1"]


def test_elements_that_look_alike_are_all_shown(followed):
    assert followed(FakeClient(["x", "x"], [appended(2, "x"), appended(3, "x")]))[0] == ['"x"'] * 4


def test_batches_are_looked_into_and_other_keys_left_out(followed):
    batch = batched(appended(0), appended(1, key="log/other"), appended(2))
    trim = Event("set", "log", "log", None, "trim", None, "c1.4", "a", "n", NOON)
    assert followed(FakeClient([], [batch, appended(3, key="logs"), trim, appended(5)]))[0] == ["0", "2", "5"]


def test_only_the_last_ones_and_what_comes(followed):
    assert followed(FakeClient([0, 1, 2], [appended(3)]), count=1)[0] == ["2", "3"]
    assert followed(FakeClient([0, 1, 2], [appended(3)]), count=0)[0] == ["3"]
    assert followed(FakeClient([], [appended(0)]), count=0)[0] == ["0"]


def test_what_comes_between_two_pages_is_shown_once(followed, monkeypatch):
    """The watch begins at the point of the first page, and so brings again what only a later page showed."""
    monkeypatch.setattr(following, "PAGE_ITEMS", 2)
    client = FakeClient([0, 1, 2], [appended(3), appended(4)])
    client.grows_while_read = [an_item(3, 3)]
    assert followed(client) == (["0", "1", "2", "3", "4"], "")
    assert client.asked_after == ["c1.2"]


@pytest.mark.parametrize("gap", [LAGGED, RESET, plain("snapshot"), appended(3, [0, 1], event="conflict")])
def test_a_watch_that_is_lost_begins_again_behind_its_last_event(followed, gap):
    client = FakeClient([0], [appended(1), gap, appended(9)], [appended(2), appended(3)])
    assert followed(client) == (["0", "1", "2", "3"], "")
    assert client.asked_after == ["c1.0", "c1.1"]


def test_a_batch_with_a_conflict_is_not_shown_by_halves(followed):
    whole = [appended(1), appended(2)]
    broken = batched(whole[0], appended(2, [0, 1, 2], event="conflict"))
    assert followed(FakeClient([0], [broken], [batched(*whole)]))[0] == ["0", "1", "2"]


def test_without_history_it_reads_on_behind_what_was_shown_and_says_so(followed, monkeypatch):
    client = FakeClient([0], [appended(1), RESET], [RESET], [appended(3)])
    original = client.watch

    def watch(prefix, *, after):
        if after == "c1.1":
            client.held += [an_item(1, 1), an_item(2, 2)]
        return original(prefix, after=after)

    monkeypatch.setattr(client, "watch", watch)
    shown, warning = followed(client)
    assert shown == ["0", "1", "2", "3"]
    assert "history does not reach back" in warning
    assert client.asked_after == ["c1.0", "c1.1", "c1.2"]


def test_a_log_with_rivals_is_followed_too(followed):
    """Each append to it is a conflict, and the log that then tells it has no token until the state is told too."""
    lost = [appended(1, "winner", event="conflict")]
    again = [without_token(appended(1)), without_token(appended(2)), LAGGED]
    client = FakeClient([0], lost, again, [*again[:2], state("c1.2"), appended(3)])
    assert followed(client) == (["0", "1", "2", "3"], "")
    assert client.asked_after == ["c1.0"] * 3
