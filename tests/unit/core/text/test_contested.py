"""Edits that compete for the same places cost the Yjs library time: what that comes to is bounded, edit and text."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.core.text.document import AUTHOR_LOOKED_AT_MAX
from crdtsync.core.text.yjs_library import edited_by, new_doc, text_of
from fuzz.yjs_steps import Item, update_of
from tests.fleet.agent import Agent, Refusal
from tests.fleet.editor import Editor, texts_of
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.snapshots import agree, events, trim

ITEMS = 1000


def seed() -> bytes:
    """A text of items none of which goes on where another one ends, one after the other."""
    return update_of(Item((5, clock), None, (5, clock - 1) if clock else None) for clock in range(ITEMS))


def wide(number: int, items: int) -> bytes:
    """Items that claim the whole text as the place in which they stand."""
    return update_of(Item((10**6 + number * 1000 + client, 0), None, None) for client in range(items))


def write(agent: Agent, update: bytes, document: Any = None) -> Any:
    return agent.do("text_apply", key="t", document=document, update=update)["document"]


def test_an_edit_that_would_keep_each_host_busy_is_refused(node: Host) -> None:
    agent = node.agent()
    document = write(agent, seed())
    with pytest.raises(Refusal, match="would keep each host busy"):
        write(agent, wide(0, AUTHOR_LOOKED_AT_MAX // ITEMS + 1), document)
    assert texts_of(node) == ["a" * ITEMS]
    write(agent, wide(0, 10), document)
    assert texts_of(node) == ["a" * (ITEMS + 10)]


def test_a_contested_text_is_compacted_by_itself(pair: Fleet) -> None:
    agent = pair["a"].agent()
    document = write(agent, seed())
    for number in range(15):
        write(agent, wide(number, 10), document)
        pair.run(0.1)
    pair.run(10.0)
    editor = Editor(pair["a"])
    editor.read()
    assert editor.replica.document != document
    for machine in pair.machines.values():
        assert texts_of(machine) == ["a" * (ITEMS + 150)]
        assert machine.alarms == set()


def test_a_contested_text_that_cannot_be_compacted_takes_no_more_insertions(node: Host) -> None:
    agent = node.agent()
    document = write(agent, seed())
    doc = new_doc(7)
    doc.apply_update(agent.ask("text_read", key="t")["update"])
    before = doc.get_state()
    text_of(doc).format(0, 3, {"bold": True})
    write(agent, doc.get_update(before), document)
    for number in range(4):
        write(agent, wide(number, 50), document)
        node.fleet.run(5.0)
    assert node.alarms == set()
    for number in range(4, 8):
        write(agent, wide(number, 50), document)
    node.fleet.run(5.0)
    with pytest.raises(Refusal, match="compete for the same places"):
        write(agent, wide(8, 50), document)
    assert node.alarms == {"text_contested"}
    assert "'t'" in node.node.alarms.raised()[0].message
    state = agent.ask("text_read", key="t")["update"]
    write(agent, edited_by(state, [(5, 900, "")], 8), document)
    assert len(texts_of(node)[0]) < ITEMS
    agent.do("set", key="other", value=b"\1")


def test_a_state_that_would_take_long_to_load_is_not_taken_in(apart: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is fenced; the rest of the snapshot, and what comes after, is there."""
    monkeypatch.setattr("crdtsync.core.text.document.STATE_STEPS_MAX", 1000)
    a, b = apart["a"], apart["b"]
    agent, reader = a.agent(), b.agent()
    document = write(agent, seed())
    write(agent, wide(0, 10), document)
    agent.do("set", key="other", value=b"\1")
    trim(a)
    apart.link("b", "a")
    apart.run(2.0)
    assert b.replica.vector == a.replica.vector
    assert reader.get("other") == 1
    assert "text_contested" in b.alarms
    assert "'t'" in next(alarm.message for alarm in b.node.alarms.raised() if alarm.code == "text_contested")
    for operation in ("get", "text_read"):
        with pytest.raises(Refusal, match="does not hold the text"):
            reader.ask(operation, key="t")
    with pytest.raises(Refusal, match="does not hold the text"):
        write(reader, wide(1, 1))
    write(agent, wide(2, 1), document)
    apart.run(2.0)
    assert b.replica.vector == a.replica.vector
    assert len(events(b, "snapshot_taken")) == 1
    b.restart()
    apart.link("b", "a")
    apart.run(2.0)
    with pytest.raises(Refusal, match="does not hold the text"):
        b.agent().get("t")
    agent.delete("t")
    write(agent, update_of([Item((7, 0), None, None)]))
    apart.run(2.0)
    assert texts_of(b) == texts_of(a) == ["a"]
    agree(apart, "a", "b")


def test_an_edit_of_many_deletions_is_refused(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtsync.core.text.document.EDIT_DELETES_MAX", 2)
    agent = node.agent()
    document = write(
        agent, update_of([Item((5, clock), (5, clock - 1) if clock else None, None) for clock in range(9)])
    )
    state = agent.ask("text_read", key="t")["update"]
    with pytest.raises(Refusal, match="deletes 3 ranges"):
        write(agent, edited_by(state, [(1, 2, ""), (4, 5, ""), (7, 8, "")], 8), document)
