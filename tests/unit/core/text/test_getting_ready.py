"""A long text is made ready for edits in slices: no turn is long, and no edit overtakes one that waits."""

from __future__ import annotations

from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync.causality import Dot
from crdtsync.core.interface import Ready
from crdtsync.core.kinds.text_join import text_op
from crdtsync.core.replica import text_edits
from crdtsync.core.text import document as module
from crdtsync.core.text import document_cache, passing, taking_ahead
from crdtsync.core.text.family import OLDER_MAX
from crdtsync.core.text.judging import EDIT_STRUCTS_MAX, judge_edit
from crdtsync.core.text.marker import named_document
from crdtsync.core.text.word_merge import union_slowly
from crdtsync.core.text.yjs_library import ROOT, edited_by, in_few
from crdtsync.errors import CrdtSyncError
from crdtsync.wire.tokens import decode_dot, encode_dot
from crdtsync.wire.yjs.encoding import STRING, Steps, read_sections
from crdtsync.wire.yjs.lib0 import written_text, written_uint
from crdtsync.wire.yjs.rewriting import NewStruct, forwarded, written_item, written_update
from crdtsync.wire.yjs.validator import InvalidUpdate
from fuzz.yjs_steps import Item, update_of
from tests.fleet.agent import Agent, Refusal
from tests.fleet.editor import Editor, texts_of
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.limits import set_limits
from tests.fleet.renegade import Renegade

STEP_STRUCTS = 50
ITEMS = 4 * STEP_STRUCTS


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    take_short_steps(monkeypatch)


def take_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a text of 200 structs take the steps that one of 4,000 takes."""
    set_limits(monkeypatch, STEP_STRUCTS=STEP_STRUCTS, AT_ONCE_BYTES_MAX=800)
    monkeypatch.setattr(taking_ahead, "STEP_BYTES", 320)


def make_long_text(agent: Agent, key: str = "t") -> Any:
    """A text of single characters, each before the one that was typed last, in parts that each fit into an edit."""
    items = [Item((5, clock), None, (5, clock - 1) if clock else None) for clock in range(ITEMS)]
    document = None
    for start in range(0, ITEMS, STEP_STRUCTS):
        update = update_of(items[start : start + STEP_STRUCTS])
        document = agent.do("text_apply", key=key, document=document, update=update)["document"]
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


def test_a_restore_of_a_long_text_waits_while_others_are_served(unread: Host) -> None:
    agent = unread.agent()
    agent.do("checkpoint_set", name="before")
    (edit,) = edits_of(agent, 1)
    agent.do_slowly("text_apply", key="t", update=edit)
    unread.restart()
    agent, other = unread.agent(), unread.agent("other")
    request = agent.write("restore", at="checkpoint:before")
    turns = 0
    while request not in agent.replies:
        other.set("key", turns)
        turns += 1
        assert turns < 100
    assert turns > ITEMS // STEP_STRUCTS
    assert agent.result(request)["items"] == [["t", "restored"]]
    assert texts_of(unread) == ["a" * ITEMS]


def test_a_restore_makes_the_edit_of_a_long_text_before_the_turn_that_writes_it(
    node: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = node.agent()
    make_long_text(agent)
    agent.do("checkpoint_set", name="before")
    for update in edits_of(agent, 5):
        agent.do("text_apply", key="t", update=update)
    made = module.Document.edited
    monkeypatch.delattr(module.Document, "edited")
    agent.do_slowly("restore", at="checkpoint:before")
    monkeypatch.setattr(module.Document, "edited", made, raising=False)
    assert texts_of(node) == ["a" * ITEMS]


@pytest.mark.parametrize("operation", ["get", "text_read"])
def test_a_text_of_the_past_is_loaded_over_several_turns(
    node: Host, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    monkeypatch.setattr(module, "LOAD_STEP_BYTES", STEP_STRUCTS // 2)
    agent = node.agent()
    make_long_text(agent)
    for update in edits_of(agent, 50):
        agent.do("text_apply", key="t", update=update)
    agent.do("checkpoint_set", name="then")
    read = agent.ask(operation, key="t")
    for update in edits_of(agent, 50):
        agent.do("text_apply", key="t", update=update)
    request = agent.send(operation, key="t", at="checkpoint:then")
    assert turns_until(node, request, agent) > 4
    for name in ("value", "update"):
        assert agent.result(request).get(name) == read.get(name)


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


def test_the_turn_after_the_last_slice_lets_go_of_what_nobody_uses(unread: Host) -> None:
    agent, other = unread.agent(), unread.agent("other")
    other.do("text_apply", key="u", update=update_of([Item((1, 0), None, None)]))
    (edit,) = edits_of(agent, 1)
    agent.write("text_apply", key="t", update=edit)
    keeper, now_s = unread.node._texts["default"], unread.node.now_s
    for _ in range(100):
        if keeper.has_readied:
            break
        other.get("u")
    assert keeper.has_readied
    assert keeper.deadline_s(now_s, is_writable=True) == now_s


def test_what_is_made_ready_in_steps_is_what_is_made_at_once(unread: Host) -> None:
    document = decode_dot(unread.agent().ask("text_read", key="t")["document"])
    held = unread.replica.documents.get(document)
    assert len([*held.make_ready()]) > ITEMS // STEP_STRUCTS
    anew = module.Document(document, lambda _: (held.state(), []))
    assert held.outline() == anew.outline()


# -- compaction --------------------------------------------------------------------------------------------------------


def make_bulky_text(agent: Agent, key: str = "t") -> None:
    """A long text of which most is deleted, every other character being left."""
    document = make_long_text(agent, key)
    ranges = b"".join(written_uint(clock) + b"\1" for clock in range(0, ITEMS, 2))
    agent.do_slowly("text_apply", key=key, document=document, update=b"\0\1\5" + written_uint(ITEMS // 2) + ranges)


def turns_until(machine: Host, request: int, agent: Agent) -> int:
    for turns in range(1000):
        if request in agent.replies:
            return turns
        machine.turn()
    raise AssertionError("no reply")


def test_a_long_text_is_compacted_while_others_are_served(node: Host) -> None:
    agent, other = node.agent(), node.agent("other")
    make_bulky_text(agent)
    request = agent.write("text_compact", key="t")
    other.set("key", 1)
    (edit,) = edits_of(agent, 1)
    other.do_slowly("text_apply", key="t", update=edit)
    assert request not in agent.replies
    assert turns_until(node, request, agent) > ITEMS // STEP_STRUCTS
    assert agent.result(request)["bytes_after"] < agent.result(request)["bytes_before"]
    assert texts_of(node) == ["a" * (ITEMS // 2) + " 0"]
    assert not node.replica.documents.made


def test_two_who_want_a_text_compacted_both_have_their_answer(node: Host) -> None:
    agent, other = node.agent(), node.agent("other")
    make_bulky_text(agent)
    requests = [(each, each.write("text_compact", key="t")) for each in (agent, other)]
    for each, request in requests:
        turns_until(node, request, each)
    documents = [each.result(request)["document"] for each, request in requests]
    assert documents[-1] == agent.ask("text_read", key="t")["document"]
    assert texts_of(node) == ["a" * (ITEMS // 2)]


def test_one_batch_compacts_several_long_texts(node: Host) -> None:
    agent = node.agent()
    keys = ("t", "u", "v")
    for key in keys:
        make_bulky_text(agent, key)
    request = agent.write("batch", ops=[["text_compact", {"key": key}] for key in keys])
    turns_until(node, request, agent)
    assert all(each["bytes_after"] < each["bytes_before"] for each in agent.result(request)["results"])
    assert [node.agent().get(key) for key in keys] == ["a" * (ITEMS // 2)] * 3
    node.turn()
    assert not node.replica.documents.made


def test_a_long_text_that_cannot_be_compacted_says_why(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = node.agent()
    make_bulky_text(agent)
    monkeypatch.setattr("crdtsync.wire.yjs.rewriting.WholeText.is_only_text", lambda _: False)
    with pytest.raises(Refusal, match="more than characters"):
        agent.do_slowly("text_compact", key="t")
    assert texts_of(node) == ["a" * (ITEMS // 2)]


def test_a_host_without_texts_takes_in_one_that_begins_with_much(pair: Fleet) -> None:
    words = "word " * 3000
    doc: Doc[Any] = Doc()
    text = doc.get("text", type=Text)
    updates = []
    for _ in range(3):
        before = doc.get_state()
        text += words
        updates.append(doc.get_update(before))
    ops = [["text_apply", {"key": "t", "update": update}] for update in updates]
    pair["a"].agent().do("batch", ops=ops)
    pair.sync()
    assert texts_of(pair["b"]) == [words * 3]


def test_each_host_takes_a_compacted_text_in_over_several_turns(pair: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtsync.core.text.document_cache.EDIT_STRUCTS_MAX", STEP_STRUCTS // 2)
    monkeypatch.setattr("crdtsync.core.replica.text_edits.AT_ONCE_BYTES_MAX", 50)
    a, b = pair["a"], pair["b"]
    agent = a.agent()
    make_bulky_text(agent)
    pair.sync()
    agent.do_slowly("text_compact", key="t")
    for update in edits_of(agent, 3):
        agent.do_slowly("text_apply", key="t", update=update)
    (wire,) = pair.wires
    wire.deliver(b)
    turns = 0
    while len(b.replica.gate):
        b.turn()
        turns += 1
    assert turns >= ITEMS // STEP_STRUCTS
    pair.sync()
    assert texts_of(b) == texts_of(a) == ["a" * (ITEMS // 2) + " 0 1 2"]
    assert b.alarms == set()


# -- edits beside what a compaction has forgotten ----------------------------------------------------------------------


@pytest.fixture
def in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of that is found out in one go."""

    def refuse(_steps: Any) -> None:
        raise AssertionError("found out in one go")

    monkeypatch.setattr("crdtsync.core.text.passing.at_once", refuse)


def replica_of(agent: Agent) -> tuple[Any, Doc[Any]]:
    read = agent.ask("text_read", key="t")
    doc: Doc[Any] = Doc()
    doc.apply_update(read["update"])
    return read["document"], doc


def typed_into(doc: Doc[Any], at: int) -> bytes:
    before = doc.get_state()
    doc.get("text", type=Text).insert(at, "LATE")
    return doc.get_update(before)


def delete_every_other(agent: Agent, document: Any) -> None:
    ranges = b"".join(written_uint(clock) + b"\1" for clock in range(0, ITEMS, 2))
    agent.do_slowly("text_apply", key="t", document=document, update=b"\0\1\5" + written_uint(ITEMS // 2) + ranges)


@pytest.mark.parametrize("is_of_older", [True, False])
@pytest.mark.usefixtures("in_steps")
def test_an_edit_beside_what_is_forgotten_waits_while_others_are_served(node: Host, is_of_older: bool) -> None:
    agent, other = node.agent(), node.agent("other")
    make_long_text(agent)
    document, doc = replica_of(other)
    delete_every_other(agent, document)
    agent.do_slowly("text_compact", key="t")
    named = document if is_of_older else agent.ask("text_read", key="t")["document"]
    updates = [typed_into(doc, at) for at in (5, 9, ITEMS // 4)]
    requests = [other.write("text_apply", key="t", document=named, update=update) for update in updates]
    agent.set("key", 1)
    assert turns_until(node, requests[0], other) > ITEMS // STEP_STRUCTS
    for request in requests:
        other.result(request)
    before = (ITEMS // 4 - 8) // 2
    assert texts_of(node) == ["aaaLATELATE" + "a" * (before - 3) + "LATE" + "a" * (ITEMS // 2 - before)]
    assert node.alarms == set()


def test_such_an_edit_is_placed_in_one_turn_and_judged_in_another(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, other = node.agent(), node.agent("other")
    make_long_text(agent)
    document, doc = replica_of(other)
    delete_every_other(agent, document)
    agent.do_slowly("text_compact", key="t")
    turns: list[list[str]] = [[]]

    def noted(name: str, work: Any) -> Any:
        def note(*args: Any, **named: Any) -> Any:
            result = work(*args, **named)
            turns[-1].append(name)
            return result

        return note

    def turn(host: Host) -> Ready:
        turns.append([])
        return turns_of(host)

    turns_of = Host.turn
    monkeypatch.setattr(Host, "turn", turn)
    monkeypatch.setattr("crdtsync.core.text.passing.forwarded", noted("placed", forwarded))
    monkeypatch.setattr("crdtsync.core.text.document.judge_edit", noted("judged", judge_edit))
    request = other.write("text_apply", key="t", document=document, update=typed_into(doc, 5))
    turns_until(node, request, other)
    assert list(filter(None, turns)) == [["placed"], ["judged"]]
    assert texts_of(node) == ["aaaLATE" + "a" * (ITEMS // 2 - 3)]
    turns[:] = [[]]
    other.do_slowly("text_apply", key="t", document=document, update=typed_into(doc, 0))  # nothing is to be found out
    monkeypatch.setattr("crdtsync.core.kinds.text.STEP_PARTS_MAX", 0)
    other.do_slowly("text_apply", key="t", document=document, update=typed_into(doc, 0))
    with pytest.raises(Refusal, match="invalid_value"):
        other.do_slowly("text_apply", key="t", document=document, update=update_of([Item((7, 9), None, (7, 8))] * 9))
    assert list(filter(None, turns)) == [["placed", "judged"], ["placed"], ["judged"]]
    assert texts_of(node) == ["LATELATEaaaLATE" + "a" * (ITEMS // 2 - 3)]


@pytest.mark.usefixtures("in_steps")
def test_such_an_edit_of_another_host_waits(apart: Fleet) -> None:
    a, b = apart["a"], apart["b"]
    agent, other = a.agent(), b.agent("other")
    make_long_text(agent)
    wire = apart.link("a", "b")
    apart.sync()
    document, doc = replica_of(other)
    wire.close()
    delete_every_other(agent, document)
    agent.do_slowly("text_compact", key="t")
    for at in (5, 9):
        other.do_slowly("text_apply", key="t", document=document, update=typed_into(doc, at))
    apart.link("a", "b")
    apart.sync()
    apart.run(2.0)
    assert texts_of(a) == texts_of(b) == ["aaaLATELATE" + "a" * (ITEMS // 2 - 3)]
    assert a.alarms == b.alarms == set()


@pytest.mark.usefixtures("in_steps")
def test_such_an_edit_that_comes_amid_the_compaction_is_taken_in(pair: Fleet) -> None:
    a, b = pair["a"], pair["b"]
    agent, other = a.agent(), a.agent("other")
    make_long_text(agent)
    document, doc = replica_of(other)
    delete_every_other(agent, document)
    pair.sync()
    request = agent.write("text_compact", key="t")
    for _ in range(3):
        a.turn()
    other.do("text_apply", key="t", document=document, update=typed_into(doc, 5))
    turns_until(a, request, agent)
    pair.sync()
    pair.run(2.0)
    assert agent.ask("text_read", key="t")["document"] != document
    assert texts_of(a) == texts_of(b) == ["aaaLATE" + "a" * (ITEMS // 2 - 3)]
    assert a.alarms == b.alarms == set()


def compacted_often(fleet: Fleet) -> tuple[Editor, Editor]:
    """Two hosts cut off from each other after they have read a text, which is compacted on the first one as often as
    it may be.
    """
    wire = fleet.link("a", "b")
    here, there = Editor(fleet["a"]), Editor(fleet["b"])
    here.append("begin end")
    fleet.sync()
    there.read()
    wire.close()
    for _ in range(OLDER_MAX):
        here.read()
        here.edit(5, 5, " gone")
        here.edit(5, 10, "")
        here.compact()
    return here, there


def test_edits_from_before_many_compactions_are_passed_on_over_several_turns(
    apart: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = apart["a"], apart["b"]
    _, there = compacted_often(apart)
    for number in range(60):
        there.edit(5, 5, f" late{number}")
    passed: list[int] = []
    deliver = Host.deliver

    def count(host: Host, ready: Ready) -> None:
        rows = ready.persist.document_updates if host is a else ()
        passed.append(sum(row.by_n >= text_edits.PASSED_ON for row in rows))
        deliver(host, ready)

    monkeypatch.setattr(Host, "deliver", count)
    apart.link("a", "b")
    apart.run(2.0)
    assert sum(passed) == 60 * OLDER_MAX
    assert max(passed) < 70
    (text,) = texts_of(a)
    assert [text] == texts_of(b)
    assert sorted(text.split()) == sorted(["begin", "end", *(f"late{number}" for number in range(60))])


def test_a_compaction_amid_a_large_late_edit_shows_nothing_of_it_before_the_rest_of_its_change(apart: Fleet) -> None:
    a, b = apart["a"], apart["b"]
    here, there = compacted_often(apart)
    pasted = written_item(STRING, None, None, ROOT, written_text("late " * 60_000))
    edits = [["text_apply", {"key": "t", "update": written_update([NewStruct(n, 0, pasted)])}] for n in (5, 6, 7)]
    there.session.do("batch", ops=[*edits, ["set", {"key": "with it", "value": b"\1"}]])
    wire = apart.link("a", "b")
    while not a.replica.documents.unready:
        wire.deliver(a)
        wire.deliver(b)
        a.turn()
        b.turn()
    for _ in range(3):
        a.turn()
    assert a.replica.documents.unready
    here.compact()
    assert not a.agent("reader").values("with it")
    assert texts_of(a) == ["begin end"]
    apart.run(1.0)
    assert a.agent("reader").values("with it") == [1]
    (text,) = texts_of(a)
    assert [text] == texts_of(b)
    assert text.count("late ") == 180_000
    assert a.alarms == b.alarms == set()


def test_an_edit_from_before_more_compactions_than_there_is_room_for_is_taken_in(
    apart: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = apart["a"], apart["b"]
    _, there = compacted_often(apart)
    there.edit(5, 5, " late")
    a.restart()
    for place in (passing, text_edits, module):
        monkeypatch.setattr(place, "AT_ONCE_BYTES_MAX", 0)
    monkeypatch.setattr(document_cache, "OPEN_BYTES_MAX", 16_000)  # of four
    apart.link("a", "b")
    apart.run(1.0)
    assert texts_of(a) == texts_of(b) == ["begin late end"]
    assert a.alarms == b.alarms == set()


@pytest.mark.parametrize("is_compacted_meanwhile", [False, True])
def test_a_batch_from_before_many_compactions_comes_whole(apart: Fleet, is_compacted_meanwhile: bool) -> None:
    a, b = apart["a"], apart["b"]
    here, there = compacted_often(apart)
    updates = edits_of(b.agent(), 60)
    there.session.do("batch", ops=[["text_apply", {"key": "t", "update": update}] for update in updates])
    here.read()
    here.edit(5, 5, " gone")
    here.edit(5, 10, "")
    wire = apart.link("a", "b")
    turns = 0
    while texts_of(a) == ["begin end"]:
        wire.deliver(a)
        wire.deliver(b)
        a.turn()
        b.turn()
        turns += 1
        if is_compacted_meanwhile and len(a.replica.gate):
            is_compacted_meanwhile = False
            here.compact()
    assert turns > 10
    words = " ".join(map(str, range(60)))
    assert texts_of(a)[0].endswith(f" end {words}")
    apart.run(2.0)
    assert texts_of(a) == texts_of(b)
    assert a.alarms == b.alarms == set()


# -- changes that come to much -----------------------------------------------------------------------------------------


PASTED = 40_000
DELETED = 5000


def pasted(agent: Agent) -> Any:
    text = written_item(STRING, None, None, ROOT, written_text("a" * PASTED))
    return agent.do("text_apply", key="t", update=written_update([NewStruct(5, 0, text)]))["document"]


def insertions() -> bytes:
    """As many as an edit of another host may have, all over a pasted text."""
    return update_of([Item((6, n), (5, 9 * n), (5, 9 * n + 1)) for n in range(EDIT_STRUCTS_MAX)])


def deletions() -> bytes:
    ranges = b"".join(written_uint(5 * n) + b"\1" for n in range(DELETED))
    return b"\0\1\5" + written_uint(DELETED) + ranges


@pytest.mark.parametrize(
    "update, length",
    [(insertions(), PASTED + EDIT_STRUCTS_MAX), (deletions(), PASTED - DELETED)],
)
def test_a_large_edit_of_a_member_is_taken_in_over_several_turns(node: Host, update: bytes, length: int) -> None:
    agent = node.agent()
    document = decode_dot(pasted(agent))
    member = Renegade(node)
    member.write("default", text_op("t", None, document, update, member.held("t", "default")))
    (late,) = edits_of(agent, 1)
    request = agent.write("text_apply", key="t", update=late)
    turns = 0
    while texts_of(node) == ["a" * PASTED]:
        node.turn()
        turns += 1
    assert turns > 1
    turns_until(node, request, agent)
    agent.result(request)
    (text,) = texts_of(node)
    assert len(text) == length + len(" 0")
    assert text.endswith("a 0")
    node.restart()
    assert texts_of(node) == [text]
    assert node.alarms == set()


def structs_in(update: bytes) -> int:
    return sum(map(len, read_sections(update)[0].values()))


@pytest.mark.parametrize("is_of_member", [False, True])
def test_pieces_that_fit_together_are_taken_in_as_one(
    node: Host, monkeypatch: pytest.MonkeyPatch, is_of_member: bool
) -> None:
    """From the last on the Yjs library makes them one, and copies each time what is one already."""
    agent = node.agent()
    document = pasted(agent)
    pieces, chars = 1000, 500
    update = written_update(
        [
            NewStruct(
                6,
                at,
                written_item(STRING, (6, at - 1) if at else (5, PASTED - 1), None, ROOT, written_text("b" * chars)),
            )
            for at in range(0, pieces * chars, chars)
        ]
    )
    taken: list[int] = []
    loaded: list[int] = []
    monkeypatch.setattr(document_cache, "STATE_EVERY_PARTS", 10**9)

    def take(held: module.Document, piece: bytes) -> None:
        taken.append(structs_in(piece))
        takes(held, piece)

    def load(update: bytes) -> bytes:
        few = in_few(update)
        loaded.append(structs_in(few))
        return few

    takes = module.Document._library_takes
    monkeypatch.setattr(module.Document, "_library_takes", take)
    monkeypatch.setattr(module, "in_few", load)
    if is_of_member:
        Renegade(node).write("default", text_op("t", None, decode_dot(document), update, ()))
        node.fleet.run(1.0)
    else:
        agent.do("text_apply", key="t", update=update)
    assert sum(taken) == 1
    for _ in range(2):
        assert texts_of(node) == ["a" * PASTED + "b" * pieces * chars]
        node.restart()
    assert max(loaded) == 1


def test_copies_of_many_texts_are_not_all_in_memory(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = node.agent()
    keys = [f"t{number}" for number in range(8)]
    documents = [decode_dot(make_long_text(agent, key)) for key in keys]
    monkeypatch.setattr(taking_ahead, "COPIES_BYTES_MAX", 2 * node.replica.documents.get(documents[0]).memory_bytes)
    in_memory: list[int] = []

    def use(stage: taking_ahead.Ahead, dot: Dot) -> None:
        used(stage, dot)
        in_memory.append(sum(copy.memory_bytes for copy in stage.copies.values()))

    used = taking_ahead.Ahead._use
    monkeypatch.setattr(taking_ahead.Ahead, "_use", use)
    firsts = [Item((6, clock), (6, clock - 1) if clock else (5, 0), None) for clock in range(200)]
    lasts = [Item((6, clock), (6, clock - 1), None) for clock in range(200, 210)]
    member = Renegade(node)
    ops = [
        text_op(key, None, document, update_of(items), ())
        for items in (firsts, lasts)
        for key, document in zip(keys, documents, strict=True)
    ]
    member.write("default", *ops)
    turns = 0
    while texts_of(node, keys[0]) == ["a" * ITEMS]:
        node.turn()
        turns += 1
    assert turns > len(keys)
    assert len(in_memory) >= len(ops)
    assert max(in_memory) < 2 * taking_ahead.COPIES_BYTES_MAX
    for _ in range(2):
        assert [node.agent().get(key) for key in keys] == ["a" * (ITEMS + 210)] * len(keys)
        node.restart()
    assert node.alarms == set()


@pytest.mark.parametrize("of", ["peer", "agent"])
def test_edits_of_more_texts_than_there_is_room_for_are_all_made(
    node: Host, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    """In one change of a peer, or in one batch of an agent."""
    agent = node.agent()
    keys = [f"t{number}" for number in range(6)]
    documents = [decode_dot(make_long_text(agent, key)) for key in keys]
    monkeypatch.setattr(document_cache, "OPEN_BYTES_MAX", node.replica.documents.get(documents[0]).memory_bytes)
    node.restart()
    agent, update = node.agent(), update_of([Item((6, 0), (5, 0), None)])
    request = None
    if of == "agent":
        request = agent.write("batch", ops=[["text_apply", {"key": key, "update": update}] for key in keys])
    else:
        ops = [text_op(key, None, document, update, ()) for key, document in zip(keys, documents, strict=True)]
        Renegade(node).write("default", *ops)
    turns = 0
    while len(node.replica.gate) or (request is not None and request not in agent.replies):
        node.turn()
        node.fleet.pass_time(0.3)
        assert not len(node.replica.gate) or len(node.replica.documents) < len(keys) // 2
        turns += 1
        assert turns < 300
    if request is not None:
        agent.result(request)
    assert turns > len(keys)
    assert [node.agent().get(key) for key in keys] == ["a" * (ITEMS + 1)] * len(keys)
    assert node.alarms == set()
    node.fleet.run(2.0)
    assert node.replica.documents.memory_bytes <= document_cache.OPEN_BYTES_MAX


# -- merging -----------------------------------------------------------------------------------------------------------


def test_long_texts_are_merged_while_others_are_served(apart: Fleet) -> None:
    a, b = apart["a"], apart["b"]
    agent = a.agent()
    make_long_text(agent)
    make_long_text(b.agent())
    (edit,) = edits_of(b.agent(), 1)
    b.agent().do("text_apply", key="t", update=edit)
    apart.link("a", "b")
    apart.sync()
    a.restart()
    agent = a.agent()
    request = agent.write("resolve", key="t", merge=True, seen=agent.ask("get", key="t")["version"])
    assert turns_until(a, request, agent) > 2 * ITEMS // STEP_STRUCTS
    assert agent.result(request)["resolved"] == 1
    assert texts_of(a) == ["a" * ITEMS + " 0"]


def test_a_merge_holds_what_was_edited_while_it_was_made_ready(apart: Fleet) -> None:
    a, b = apart["a"], apart["b"]
    agent, other = a.agent(), a.agent("other")
    make_long_text(agent)
    make_long_text(b.agent())
    apart.link("a", "b")
    apart.sync()
    request = agent.write("resolve", key="t", merge=True)
    for _ in range(3):
        a.turn()
    winner = decode_dot(agent.ask("text_read", key="t")["document"])
    (loser,) = {*map(named_document, a.replica.documents.names())} - {winner}
    update = edited_by(a.replica.documents.get(loser).state(), [(ITEMS, ITEMS, " late")], 8)
    other.do("text_apply", key="t", document=encode_dot(loser), update=update)
    assert request not in agent.replies
    turns_until(a, request, agent)
    assert texts_of(a) == ["a" * ITEMS + " late"]
    assert not a.replica.documents.joins


def test_a_merge_is_made_anew_if_a_text_was_edited_once_they_were_united(
    apart: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edit comes from another host and is older than the text that wins, which is still the winner then."""
    a, b = apart["a"], apart["b"]
    agent, other = a.agent(), b.agent()
    documents = [make_long_text(agent), make_long_text(other)]
    wire = apart.link("a", "b")
    apart.sync()
    wire.close()
    for host, document in ((b, documents[1]), (a, documents[0])):
        apart.pass_time(1.0)
        update = edited_by(
            host.replica.documents.get(decode_dot(document)).state(), [(ITEMS, ITEMS, f" {host.name}")], 8
        )
        host.agent().do("text_apply", key="t", document=document, update=update)
    united: list[str] = []

    def unite(texts: list[str]) -> Steps[str]:
        whole = yield from union_slowly(texts)
        united.append(whole)
        yield
        return whole

    monkeypatch.setattr("crdtsync.core.text.document_cache.union_slowly", unite)
    request = agent.write("resolve", key="t", merge=True)
    while not united:
        a.turn()
    assert request not in agent.replies
    apart.link("a", "b")
    apart.sync()
    assert agent.result(request)["resolved"] == 1
    assert len(united) == 2
    (text,) = texts_of(a)
    assert sorted(text.split()) == ["a", "a" * ITEMS, "b"]


def test_one_batch_merges_several_long_texts(apart: Fleet) -> None:
    a, b = apart["a"], apart["b"]
    agent = a.agent()
    for key in ("t", "u", "v"):
        make_long_text(agent, key)
        make_long_text(b.agent(), key)
    apart.link("a", "b")
    apart.sync()
    parts = [["resolve", {"key": key, "merge": True}] for key in ("t", "u", "v")]
    request = agent.write("batch", ops=parts)
    turns_until(a, request, agent)
    assert [result["resolved"] for result in agent.result(request)["results"]] == [1, 1, 1]
    a.turn()
    assert not a.replica.documents.joins


def test_a_request_that_waits_for_several_texts_waits_no_longer_than_it_may(apart: Fleet) -> None:
    a, b = apart["a"], apart["b"]
    agent = a.agent()
    for key in ("t", "u"):
        make_long_text(agent, key)
        make_long_text(b.agent(), key)
    apart.link("a", "b")
    apart.sync()
    parts = [["resolve", {"key": key, "merge": True}] for key in ("t", "u")]
    request = agent.write("batch", ops=parts, timeout=1000)
    apart.pass_time(0.9)
    while not a.replica.documents.joins:  # the first of them is united
        a.turn()
    a.turn()
    assert request not in agent.replies
    apart.pass_time(0.2)
    a.turn()
    with pytest.raises(Refusal, match="could not be made ready"):
        agent.result(request)
