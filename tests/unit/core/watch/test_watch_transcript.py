"""All that a watcher is told of a story, as a whole: ``watch.txt``.

``./dev test -n 0 --rewrite tests/unit/core/watch`` writes it anew; then read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Agent
from tests.fleet.fleet import fleet_of
from tests.unit.core.watch.test_change_watch import settle, watch


def shown(event: dict[str, Any]) -> str:
    """An event in a line: what of it depends neither on hashes nor on the clock."""
    if event["event"] == "batch":
        return f"batch {', '.join(map(shown, event['events']))}"
    value = "" if event.get("value") is None else f" {unpack(event['value'])}"
    others = "".join(f" +{unpack(part['value'])}" for part in event.get("siblings", ()))
    by = f" by {event['agent']}" if event.get("agent") else ""
    token = "" if event.get("token") else ", no token"
    words = (event["event"], event.get("op"), event.get("key"))
    return " ".join(word for word in words if word) + f"{value}{others}{by}{token}"


def test_a_watch_from_its_snapshot_to_a_deletion(same_as_file: Callable[[str, str], None]) -> None:
    lines: list[str] = []
    with fleet_of("a", "b") as fleet:
        a, b = fleet["a"], fleet["b"]
        watcher: Agent

        def told(what: str) -> None:
            settle(a)
            lines.extend([*([""] if lines else []), f"# {what}", *(shown(event) for event in watcher.told())])

        ann, bob = a.agent("ann"), b.agent("bob")
        ann.set("plan/goal", "ship")
        ann.append("plan/log", "begun")
        watcher = watch(a, "plan/")
        told("a watch begins")
        ann.set("plan/goal", "ship 2")
        ann.append("plan/log", "more")
        ann.do("incr", key="plan/count", by=3)
        ann.set("other", "not watched")
        told("ann writes")
        ann.do("batch", ops=[["set", {"key": "plan/goal", "value": pack("ship 3")}], ["delete", {"key": "plan/log"}]])
        told("ann writes a batch")
        bob.set("plan/goal", "rest")
        fleet.link("a", "b")
        fleet.run(1, 0.5)
        told("what bob wrote while his host was cut off")
        ann.delete("plan/goal")
        ann.do("set", key="plan/soon", value=pack("over"), ttl=1000)
        told("ann deletes the goal, which she never read, and writes for a second")
        fleet.run(2, 0.5)
        told("two seconds pass")
    same_as_file("watch.txt", "".join(f"{line.rstrip()}\n" for line in lines))
