"""A node that came later, by a snapshot, comes to hold what older checkpoints hold."""

from __future__ import annotations

from typing import Any

from crdtsync.core.background.retention_caps import Caps
from tests.fleet.agent import Agent
from tests.fleet.editor import Editor
from tests.fleet.fleet import Fleet, fleet_of
from tests.simulator.cuts import put_blob, restore, said, shown

TINY_LOG = Caps(2000, 7 * 86_400_000, 1 << 40, 86_400_000)
AT = "checkpoint:before"


def is_whole(session: Agent, name: str = "before") -> bool:
    (found,) = [item for item in session.ask("checkpoints")["items"] if item["name"] == name]
    return bool(found["whole"])


def fill(session: Agent) -> None:
    """Write keys of all kinds."""
    for n in range(20):
        session.set(f"k/{n:02}", n)
    session.set("long", "x" * 5000)
    session.do("incr", key="counter", by=3)
    for n in range(5):
        session.append("log", n)
    for n in range(3):
        session.do("add", key="set", value=b"%c" % n)
    session.do("merge", key="map", fields={"a": b"\x01", "b": b"\x02"})
    put_blob(session, "blob", b"bytes " * 1000, "a" * 24)
    editor = Editor(session.machine, "text", "ann")
    editor.edit(0, 0, "hello")


def ruin(session: Agent) -> None:
    """Overwrite and delete all of that."""
    for n in range(10):
        session.set(f"k/{n:02}", "ruined")
    for key in ("k/12", "k/13", "map", "blob", "counter"):
        session.delete(key)
    session.set("long", "y")
    session.do("trim", key="log", keep=1)
    session.append("log", 99)
    editor = Editor(session.machine, "text", session.name)
    length = len(editor.read())
    editor.edit(length, length, " world")


def late_fleet(fleet: Fleet) -> tuple[list[Any], dict[str, Any]]:
    """A checkpoint on a, and what it holds is gone when c comes and gets a snapshot."""
    ann, bob = fleet["a"].agent("ann"), fleet["b"].agent("bob")
    fill(ann)
    fleet.sync()
    ann.do("checkpoint_set", name="before")
    before, words = shown(ann), said(ann)
    fleet.sync()
    fleet.run(5, step_s=1)
    ruin(bob)
    fleet.sync()
    for n in range(100):
        ann.set("churn", n)
    fleet.run(20, step_s=1)
    assert shown(ann, AT) == before
    fleet.add("c")
    return before, words


def test_a_node_that_comes_later_has_what_a_checkpoint_holds_when_all_others_are_gone():
    with fleet_of("a", "b", linked=True, caps=TINY_LOG) as fleet:
        before, words = late_fleet(fleet)
        fleet.link("c", "a")
        fleet.run(30, step_s=0.5)
        cid = fleet["c"].agent("cid")
        assert fleet["c"].replica.floor
        assert is_whole(cid)
        for wire in list(fleet.wires):
            wire.close("gone")
        assert shown(cid, AT) == before
        assert said(cid, AT) == words
        fleet["c"].restart()
        cid = fleet["c"].agent("cid")
        assert shown(cid, AT) == before
        fleet.add("d")
        fleet.link("d", "c")
        fleet.run(30, step_s=0.5)
        dan = fleet["d"].agent("dan")
        assert is_whole(dan)
        assert shown(dan, AT) == before
        restore(dan, AT)
        fleet.sync()
        assert said(dan) == words
        assert said(cid) == words
