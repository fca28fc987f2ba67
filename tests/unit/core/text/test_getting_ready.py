"""A long text is made ready for edits in slices: no turn is long, and no edit overtakes one that waits."""

from __future__ import annotations

from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync.core.text import document as module
from crdtsync.errors import CrdtSyncError
from crdtsync.wire.tokens import decode_dot
from crdtsync.wire.yjs.encoding import STEP_STRUCTS
from crdtsync.wire.yjs.validator import InvalidUpdate
from fuzz.yjs_steps import Item, update_of
from tests.fleet.agent import Agent, Refusal
from tests.fleet.editor import texts_of
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host

ITEMS = 4 * STEP_STRUCTS


def make_long_text(agent: Agent) -> Any:
    """A text of single characters, each before the one that was typed last, in parts that each fit into an edit."""
    items = [Item((5, clock), None, (5, clock - 1) if clock else None) for clock in range(ITEMS)]
    document = None
    for start in range(0, ITEMS, STEP_STRUCTS):
        update = update_of(items[start : start + STEP_STRUCTS])
        document = agent.do("text_apply", key="t", document=document, update=update)["document"]
    return document


def edits_of(agent: Agent, words: int) -> list[bytes]:
    """Words at the end of the text, each after the one before."""
    doc: Doc[Any] = Doc()
    doc.apply_update(agent.ask("text_read", key="t")["update"])
    text = doc.get("text", type=Text)
    updates = []
    for number in range(words):
        before = doc.get_state()
        text += f" {number}"
        updates.append(doc.get_update(before))
    return updates


@pytest.fixture
def unread(node: Host) -> Host:
    """A machine with a long text that is not in memory."""
    make_long_text(node.agent())
    node.restart()
    return node


def test_an_edit_of_a_long_text_waits_while_others_are_served(unread: Host) -> None:
    agent, other = unread.agent(), unread.agent("other")
    (edit,) = edits_of(agent, 1)
    request = agent.write("text_apply", key="t", update=edit)
    turns = 0
    while request not in agent.replies:
        other.set("key", turns)
        turns += 1
        assert turns < 100
    assert turns > ITEMS // STEP_STRUCTS
    agent.result(request)
    assert texts_of(unread) == ["a" * ITEMS + " 0"]


def test_no_edit_overtakes_one_that_waits(unread: Host) -> None:
    agent, other = unread.agent(), unread.agent("other")
    updates = edits_of(agent, 30)
    requests = []
    for number, update in enumerate(updates):
        requests.append((agent if number % 2 else other).write("text_apply", key="t", update=update))
        if number % 3 == 0:
            unread.turn()
    unread.fleet.run(1.0)
    for number, request in enumerate(requests):
        (agent if number % 2 else other).result(request)
    assert texts_of(unread) == ["a" * ITEMS + "".join(f" {n}" for n in range(30))]


def test_edits_of_another_host_wait_and_come_in_order(pair: Fleet) -> None:
    a, b = pair["a"], pair["b"]
    agent = a.agent()
    make_long_text(agent)
    pair.sync()
    b.restart()
    wire = pair.link("a", "b")
    pair.sync()
    for update in edits_of(agent, 5):
        agent.do("text_apply", key="t", update=update)
    wire.deliver(b)
    assert len(b.replica.gate) == 5
    pair.run(1.0)
    assert len(b.replica.gate) == 0
    assert texts_of(b) == texts_of(a) == ["a" * ITEMS + " 0 1 2 3 4"]
    assert b.alarms == set()


def test_an_edit_that_waits_keeps_a_text_that_is_deleted_meanwhile(unread: Host) -> None:
    agent, other = unread.agent(), unread.agent("other")
    document = agent.ask("text_read", key="t")["document"]
    (edit,) = edits_of(agent, 1)
    request = agent.write("text_apply", key="t", document=document, update=edit)
    other.delete("t")
    unread.fleet.run(1.0)
    assert agent.result(request)["document"] == document
    assert texts_of(unread) == ["a" * ITEMS + " 0"]


def test_a_text_that_cannot_be_made_ready_refuses_its_edits(unread: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise InvalidUpdate("spoilt")

    agent = unread.agent()
    (edit,) = edits_of(agent, 1)
    monkeypatch.setattr(module, "validate_slowly", refuse)
    request = agent.write("text_apply", key="t", update=edit)
    unread.fleet.run(1.0)
    with pytest.raises(Refusal, match="spoilt"):
        agent.result(request)


def test_making_ready_goes_on_after_a_failed_commit(unread: Host) -> None:
    agent = unread.agent()
    (edit,) = edits_of(agent, 1)
    request = agent.write("text_apply", key="t", update=edit)
    unread.turn()
    unread.refuse(CrdtSyncError("the disk"))
    unread.fleet.run(1.0)
    agent.result(request)
    assert texts_of(unread) == ["a" * ITEMS + " 0"]


def test_what_is_made_ready_in_steps_is_what_is_made_at_once(unread: Host) -> None:
    document = decode_dot(unread.agent().ask("text_read", key="t")["document"])
    held = unread.replica.documents.get(document)
    assert len([*held.make_ready()]) > ITEMS // STEP_STRUCTS
    anew = module.Document(document, lambda _: (held.state(), []))
    assert held.outline() == anew.outline()
