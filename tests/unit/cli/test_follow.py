"""``log -f`` joins a reading and a watch that overlap: each element once, also those that look alike."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from crdtsyncd.cli import output
from crdtsyncd.cli.commands import logs

from crdtsync.client import Client, Event, LogItem

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
END = Event("snapshot", None, None, None, None, None, "c1.0", None, None, None)


def appended(value, key="log", event="set"):
    return Event(event, key, "log", value, "append", "v1.x", "c1.x", "a", "n", NOON)


def batched(*events):
    return Event("batch", None, None, None, None, None, "c1.x", "a", "n", NOON, events=list(events))


class FakeWatch:
    """The events of a watch, and then its end."""

    def __init__(self, events):
        self.iterator = iter(events)

    def __iter__(self):
        return self.iterator

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class FakeClient(Client):
    """A log that held these values when it was read, and a watch that began before that."""

    def __init__(self, held, *events):
        self.held = [LogItem(n, value, f"1.{n}.0", "a", "n", NOON) for n, value in enumerate(held)]
        self.events = events

    def watch(self, *_, **__):
        return FakeWatch([END, *self.events])

    def log_items(self, key, *, start=0, last=None, **_):
        return self.held[-last:] if last else self.held[start:]


@pytest.fixture
def followed(capfd):
    def follow(client, count=None):
        logs._follow(client, "log", count, logs._show_value)
        output.flush()
        captured = capfd.readouterr()
        return captured.out.split(), captured.err

    return follow


def test_what_the_watch_repeats_is_left_out(followed):
    client = FakeClient([1, 2], appended(2), appended(3))
    assert followed(client) == (["1", "2", "3"], "")


def test_elements_that_look_alike_are_counted(followed):
    client = FakeClient(["x", "x"], *[appended("x")] * 3)
    assert followed(client) == (['"x"'] * 3, "")


def test_values_that_only_python_takes_for_equal_are_told_apart(followed):
    assert followed(FakeClient([1], appended(1.0), appended(True)))[0] == ["1", "1.0", "true"]


def test_batches_are_looked_into_and_other_keys_left_out(followed):
    client = FakeClient([], batched(appended(1), appended(2, key="log/other"), appended(3)), appended(4, key="logs"))
    assert followed(client) == (["1", "3"], "")


def test_only_the_last_ones_and_what_comes(followed):
    assert followed(FakeClient([1, 2, 3], appended(4)), count=1) == (["3", "4"], "")
    assert followed(FakeClient([1, 2, 3], appended(4)), count=0) == (["4"], "")


def test_a_gap_is_told(followed):
    lagged = Event("lagged", None, None, None, None, None, None, None, None, None)
    shown, warning = followed(FakeClient([], appended(1), lagged, appended(9)))
    assert shown == ["1", "9"]
    assert "see crdtsync log log for all" in warning
