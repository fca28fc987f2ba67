"""What a person at a terminal is told of a watch's events."""

from __future__ import annotations

from datetime import UTC, datetime

from crdtsyncd.cli.show.watch_lines import told

from crdtsync.client import Event
from crdtsync.client.values.results import entry_from_wire

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def event(name, key="plan/a", value=1, op=None, **fields):
    known = {"kind": "register", "version": None, "token": None, "agent": "ann", "node": "a", "time": TIME}
    return Event(event=name, key=key, value=value, op=op or name, **{**known, **fields})


def test_a_line_says_when_what_and_who():
    assert told(event("set", op="incr", value=3), 80) == ["03:04:05 incr     plan/a 3  by ann on a"]
    assert told(event("delete", value=None), 80) == ["03:04:05 delete   plan/a  by ann on a"]
    assert told(event("snapshot", op="state"), 80) == ["03:04:05 snapshot plan/a 1  by ann on a"]


def test_a_batch_is_told_whole():
    batch = event("batch", key=None, value=None, events=[event("set"), event("set", key="plan/b")])
    assert told(batch, 80) == [
        "03:04:05 batch of 2  by ann on a",
        "03:04:05 set      plan/a 1  by ann on a",
        "03:04:05 set      plan/b 1  by ann on a",
    ]


def test_a_conflict_shows_what_stands_beside():
    sibling = entry_from_wire("plan/a", {"kind": "register", "value": b"\x02", "dot": "1.2.0"})
    assert told(event("conflict", siblings=[sibling]), 80)[1] == "                  beside 2"


def test_what_concerns_no_key_is_a_sentence():
    for name in ("lagged", "reset", "snapshot"):
        (line,) = told(event(name, key=None, value=None, time=None, agent=None), 80)
        assert line.strip()


def test_lines_fit_the_terminal_and_bytes_are_left_out():
    (line,) = told(event("set", value="x" * 200), 60)
    assert len(line) <= 60
    assert line.endswith("…  by ann on a")
    assert told(event("set", op="text", value=b"yjs"), 80) == ["03:04:05 text     plan/a  by ann on a"]
