"""``top``: rates between two looks, the keys written most, and a page that fits every terminal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from crdtsyncd.top import hot_keys
from crdtsyncd.top.sample import Frame, hottest, rates
from crdtsyncd.top.screen import draw
from rich.console import Console


def status(writes: int = 0, pid: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "node": {"id": "1f", "name": "a", "version": "1", "uptime_s": 61.0, "pid": pid, "state": "ready"},
        "spaces": [
            {"name": "default", "keys": 3, "siblings": 1, "pending_changes": 0, "log_bytes": 1, "history_bytes": 1}
        ],
        "peers": [
            {
                "name": f"host-{n}", "id": str(n), "url": "", "state": "connected" if n else "down", "rtt_ms": 0.5,
                "behind": {"default": 1000 * n}, "ahead": {}, "last_seen": 1, "last_error": "no route to host",
            }
            for n in range(3)
        ],
        "agents": [],
        "alarms": [{"code": "fork", "message": "a long sentence " * 20, "since": 1}] * 9,
        "store": {
            "commits": writes, "bytes": 10**6, "free_bytes": 10**9, "last_commit_ms": 0.2, "growth_bytes_per_hour": -5,
        },
        "counters": {
            "changes_received": 0, "conflicts": 0, "requests": {"set": writes, "get": 7}, "refusals": {"kind": 0},
        },
        "usage": [{"name": "agents", "percent": 99.0, "kind": "limit"}],
        **fields,
    }  # fmt: skip


def test_a_rate_is_what_moved_between_two_looks():
    found = rates(status(10), status(30), 2.0)
    assert (found["writes"], found["reads"], found["commits"]) == (10.0, 0.0, 10.0)


def test_there_are_no_rates_at_the_first_look_and_after_a_restart():
    assert set(rates(None, status(5), 1.0).values()) == {0.0}
    assert set(rates(status(500), status(5, pid=2), 1.0).values()) == {0.0}


def test_the_hottest_key_comes_first():
    assert hottest({"b": 4, "a": 4, "c": 8}, 2.0) == [("c", 4.0), ("a", 2.0), ("b", 2.0)]


def test_batches_count_their_parts_and_the_memory_is_bounded(monkeypatch):
    counts: dict[str, int] = {}
    part = SimpleNamespace(event="set", key="a", events=[])
    hot_keys.count(counts, [SimpleNamespace(event="batch", key=None, events=[part, part]), part])  # type: ignore[list-item]
    assert counts == {"a": 3}
    monkeypatch.setattr(hot_keys, "KEYS_MAX", 4)
    for n in range(50):
        hot_keys.count(counts, [SimpleNamespace(event="set", key=f"k{n}", events=[])])  # type: ignore[list-item]
    assert len(counts) <= 5
    assert counts["a"] == 3, "what is written most stays"


def page(hint: str) -> str:
    console = Console(width=110, height=30, color_system=None)
    with console.capture() as capture:
        console.print(draw(Frame(status(), rates(None, status(), 1.0)), 110, 30, hint))
    return capture.get()


def test_only_a_terminal_is_told_which_key_ends_it():
    assert "q quits" in page("q quits").split("\n")[0]
    assert "quits" not in page("")


@pytest.mark.parametrize("width, height", [(200, 50), (110, 30), (60, 24), (40, 12), (20, 6)])
def test_it_fits_every_terminal(width, height):
    long = [("key/" + "x" * 300, 5.0)] * 100
    frame = Frame(status(), rates(None, status(), 1.0), long, [("conflict/" + "y" * 300, 3)] * 100)
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(draw(frame, width, height))
    lines = capture.get().rstrip("\n").split("\n")
    assert max(map(len, lines)) <= width
    if height >= 20:
        assert len(lines) <= height
        assert "HOTTEST" in capture.get()
        assert "host-0" in capture.get(), "who is in trouble is shown"
