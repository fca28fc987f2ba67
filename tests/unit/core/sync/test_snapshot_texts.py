"""Texts in snapshots: whole, as of the cut, merged with what the taker wrote; and texts fetched for late edits."""

# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

import pytest
from pycrdt import Doc, Text

from crdtsync.core.replica.snapshots import snapshot
from crdtsync.core.storage.rows import DocumentDrop
from crdtsync.core.text import document
from crdtsync.core.text.marker import named_document
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.snapshot import part_hash
from crdtsync.wire.peer.transfer import Offer, Part, Take
from crdtsync.wire.yjs import encoding, validator
from fuzz.yjs_steps import Item, update_of
from tests.fleet.fleet import CODEC
from tests.fleet.limits import set_limits
from tests.fleet.snapshots import agree, events, fill, trim
from tests.fleet.stranger import Stranger
from tests.unit.core.sync.test_snapshot_abuse import give, giver_of, rewritten
from tests.unit.core.sync.test_sync import change_of


def write(agent, key, text, at_end=True):
    """Insert into a text as this node holds it, or begin one."""
    got = agent.ask("text_read", key=key)
    doc: Doc[Text] = Doc()
    if got is not None:
        doc.apply_update(got["update"])
    before = doc.get_state()
    body = doc.get("text", type=Text)
    body.insert(len(str(body).encode()) if at_end else 0, text)
    agent.do("text_apply", key=key, update=doc.get_update(before), document=got and got["document"])


def forget(machine, key, document=None):
    """Drop a document from disk and memory, as retention does long after its key is gone."""
    replica = machine.replica
    document = document or named_document(replica.entries.held(key)[-1].value)
    machine.node.ledger.batch.document_drops.append(DocumentDrop(replica.id, *document))
    machine.turn()
    machine.restart()
    assert not machine.replica.documents.exists(document)


def test_a_text_comes_whole_and_can_be_edited_on_both_sides(apart):
    a, b = apart["a"], apart["b"]
    for word in ("one ", "two ", "three"):
        write(a.agent(), "t", word)
    trim(a)
    apart.link("b", "a")
    apart.run(1)
    assert b.agent().get("t") == "one two three"
    write(b.agent(), "t", "; from b")
    write(a.agent(), "t", "from a: ", at_end=False)
    apart.run(2)
    agree(apart, "a", "b")
    for machine in (a, b):
        assert machine.agent().get("t") == "from a: one two three; from b"
        machine.restart()
        assert machine.agent().get("t") == "from a: one two three; from b"


def test_a_large_text_goes_on_in_the_next_part(apart, monkeypatch):
    monkeypatch.setattr(snapshot, "PART_BYTES_MAX", 1000)
    a, b = apart["a"], apart["b"]
    write(a.agent(), "small", "x")
    write(a.agent(), "large", "0123456789" * 500)
    write(a.agent(), "also small", "y")
    trim(a)
    apart.link("b", "a")
    apart.run(1)
    agree(apart, "a", "b")
    assert b.agent().get("large") == "0123456789" * 500
    assert (b.agent().get("small"), b.agent().get("also small")) == ("x", "y")


def test_both_edited_one_text_while_they_were_apart(apart):
    a, b = apart["a"], apart["b"]
    wire = apart.link("a", "b")
    write(a.agent(), "t", "base")
    apart.run(2)
    wire.close()
    write(a.agent(), "t", " and a")
    write(b.agent(), "t", "b and ", at_end=False)
    trim(a)
    apart.link("a", "b")
    apart.run(2)
    agree(apart, "a", "b")
    assert a.agent().get("t") == b.agent().get("t") == "b and base and a"
    b.restart()
    assert b.agent().get("t") == "b and base and a"


def test_edits_after_the_cut_are_not_in_the_snapshot(apart, small):
    """A text must not show what the frontier does not cover: readers of tokens would see the future."""
    a, b = apart["a"], apart["b"]
    fill(a, 50)
    write(a.agent(), "t", "before")
    trim(a)
    wire = apart.link("b", "a")
    writer = a.agent()
    seen = []
    for n in range(200):
        for end in wire.ends:
            wire.deliver(end, 1)
            end.turn()
        if n == 4:
            write(writer, "t", " after")
        if b.replica.entries.count:
            seen.append((b.replica.vector[a.replica.writer], b.agent().get("t")))
    assert set(seen) == {(51, "before"), (52, "before after")}


def test_a_late_edit_of_a_text_that_is_gone_here_fetches_it(apart):
    """b deleted the text and has forgotten it; c, who was away, edits it on: nobody's edit may be lost."""
    b, c = apart["b"], apart["c"]
    wire = apart.link("b", "c")
    write(b.agent(), "t", "base")
    apart.run(2)
    wire.close()
    document = named_document(b.replica.entries.held("t")[-1].value)
    b.agent().delete("t")
    write(c.agent(), "t", " edited late")
    forget(b, "t", document)
    apart.link("b", "c")
    apart.run(3)
    agree(apart, "b", "c")
    assert b.agent().get("t") == c.agent().get("t") == "base edited late"
    assert len(events(b, "snapshot_taken")) == 1


def edit_of(writer, seq, document, prev_hash=bytes(16)):
    doc: Doc[Text] = Doc()
    doc.get("text", type=Text).insert(0, "a")
    before = doc.get_state()
    doc.get("text", type=Text).insert(1, "b")
    value = pack([document, doc.get_update(before)])
    change = change_of(writer, seq, prev_hash=prev_hash, value=value, key="t")
    op = change.ops[0]._replace(kind=5)
    change.ops = (op,)
    return CODEC.encode(change)


def test_an_edit_of_a_text_that_nobody_holds_is_skipped_in_the_end(apart, small):
    """The snapshot does not hold it either: so the edit is skipped, as it is everywhere."""
    giver, parts = giver_of(apart)
    b = apart["b"]
    first = edit_of(77, 1, [78, 9, 0])
    giver.send(first)
    assert [take.part for take in giver.heard(Take)] == [0]
    assert b.replica.vector == {}
    give(giver, parts)
    giver.send(first)
    assert b.replica.vector[77] == 1
    assert b.alarms == {"edit_skipped"}
    assert giver.heard(Take) == []


def test_an_edit_of_an_unknown_text_from_a_peer_without_snapshots_is_skipped(apart):
    b = apart["b"]
    Stranger(b).send(edit_of(77, 1, [78, 9, 0]))
    assert b.replica.vector == {77: 1}
    assert b.alarms == {"edit_skipped"}


def with_text(parts, state):
    """A snapshot with one text more."""

    def with_document(number, plain):
        if number == 0:
            plain[7] = 1

    made = rewritten(parts, with_document)
    last = made[-1]
    data = pack([4, [77, 1, 0, len(state), state]])
    number = last.part + 1
    end = Part("default", 0, last.snapshot, number, data, part_hash(last.snapshot, number, data), True)
    open_end = Part("default", 0, last.snapshot, last.part, last.data, last.short_hash, False)
    return [*made[:-1], open_end, end]


@pytest.mark.parametrize("state", [b"\xff\xff\xff", b"\x01\x01\x05\x05\x04\x01\x04text\x01a\x00"])
def test_a_text_that_is_no_valid_document_refuses_the_snapshot(apart, small, state):
    giver, parts = giver_of(apart)
    giver.say(Offer("default", 0))
    giver.heard()

    give(giver, with_text(parts, state))
    assert apart["b"].alarms == {"snapshot_refused"}
    assert apart["b"].replica.vector == {}


def whole_edit_of(writer, seq, document, key, text, prev_hash=bytes(16)):
    """An edit that fits on an empty document, though the document is another's."""
    doc: Doc[Text] = Doc()
    doc.get("text", type=Text).insert(0, text)
    change = change_of(writer, seq, prev_hash=prev_hash, value=pack([document, doc.get_update()]), key=key)
    change.ops = (change.ops[0]._replace(kind=5),)
    return CODEC.encode(change)


def test_texts_that_nobody_began_are_the_same_everywhere(apart):
    """A careless peer edits documents that no change began. Who gets them by way of another must hold what that holds,
    also of the second, for which the snapshot that brought the first, a moment ago, is too old.
    """
    a, b = apart["a"], apart["b"]
    fill(b, 3)
    apart.link("a", "b")
    apart.run(2)
    stranger = Stranger(a)
    first = whole_edit_of(77, 1, [78, 9, 0], "t/1", "one")
    stranger.send(first)
    apart.run(1.5)
    second = whole_edit_of(77, 2, [78, 10, 0], "t/2", "two", first.hash)
    stranger.send(second)
    apart.run(1.5)
    stranger.send(whole_edit_of(77, 3, [78, 10, 0], "t/2", "more", second.hash))
    apart.run(5)
    agree(apart, "a", "b")
    for key in ("t/1", "t/2"):
        assert a.agent().get(key) == b.agent().get(key)
    assert a.agent().get("t/1") == "one"
    assert len(events(b, "snapshot_taken")) == 2


# -- checked over several turns ----------------------------------------------------------------------------------------

STEPS = 20


@pytest.fixture
def counted(monkeypatch):
    """How many structs of texts have been looked at since it was cleared."""
    set_limits(monkeypatch, STEP_STRUCTS=100)
    looked_at = []
    read, integrate = encoding._read_struct, validator._Judge._integrate

    def read_noted(*arguments):
        looked_at.append("read")
        return read(*arguments)

    def integrate_noted(*arguments):
        looked_at.append("integrate")
        integrate(*arguments)

    monkeypatch.setattr(encoding, "_read_struct", read_noted)
    monkeypatch.setattr(validator._Judge, "_integrate", integrate_noted)
    return looked_at


def under_check(apart):
    """b has all parts of a's snapshot, with a text of many items, and has begun to look through it."""
    a, b = apart["a"], apart["b"]
    items = [Item((5, clock), None, (5, clock - 1) if clock else None) for clock in range(100 * STEPS)]
    document = None
    for start in range(0, len(items), 1000):  # as much as fits into an edit
        update = update_of(items[start : start + 1000])
        document = a.agent().do("text_apply", key="t", document=document, update=update)["document"]
    trim(a)
    wire = apart.link("b", "a")
    for _ in range(100):
        receipt = b.node.sync.snapshot_client.receipts.get("default")
        if receipt is not None and receipt.finishing is not None:
            return wire
        for end in wire.ends:
            wire.deliver(end, 1)
            end.turn()
    raise AssertionError("it was not whole, or was checked at once")


def test_a_large_text_is_checked_over_several_turns_while_others_are_served(apart, counted):
    b = apart["b"]
    under_check(apart)
    agent = b.agent()
    turns = 0
    while b.node.sync.snapshot_client.receipts:
        assert agent.get("t") is None
        assert b.replica.vector.keys() <= {b.replica.writer}
        agent.set("other", turns)
        assert agent.get("other") == turns
        assert b.node.deadline_s() <= apart.now.mono_s
        counted.clear()
        b.turn()
        assert len(counted) <= 100
        turns += 1
    assert turns >= STEPS // 4  # and in each of them the agent caused some
    assert agent.get("t") == "a" * 100 * STEPS
    apart.run(1)
    agree(apart, "a", "b")


def test_another_state_of_a_large_text_that_is_held_is_judged_over_several_turns(apart, counted, monkeypatch):
    a, b = apart["a"], apart["b"]
    under_check(apart)
    apart.run(1)
    for wire in list(apart.wires):
        wire.close()
    write(a.agent(), "t", "from a")
    write(b.agent(), "t", "from b", at_end=False)
    apart.run(1)
    trim(a)
    b.restart()
    monkeypatch.setattr(document, "AT_ONCE_BYTES_MAX", 1000)
    wire = apart.link("b", "a")
    most = 0
    for _ in range(300):
        for end in wire.ends:
            wire.deliver(end, 1)
            counted.clear()
            end.turn()
            most = max(most, len(counted))
    assert most <= 150
    agree(apart, "a", "b")
    assert b.agent().get("t") == "from b" + "a" * 100 * STEPS + "from a"


def test_a_connection_that_breaks_during_the_check_ends_it(apart, counted):
    b = apart["b"]
    wire = under_check(apart)
    wire.close()
    assert b.node.sync.snapshot_client.receipts == {}
    counted.clear()
    b.turn()
    assert counted == []
    assert b.replica.vector == {}
    apart.link("b", "a")
    apart.run(1)
    agree(apart, "a", "b")
    assert b.agent().get("t") == "a" * 100 * STEPS


def test_a_restart_during_the_check_takes_what_is_missing_anew(apart, counted):
    b = apart["b"]
    under_check(apart).close()
    b.restart()
    assert b.replica.vector == {}
    apart.link("b", "a")
    apart.run(1)
    agree(apart, "a", "b")
    assert b.agent().get("t") == "a" * 100 * STEPS


def test_a_text_that_turns_out_malformed_late_refuses_the_whole_snapshot(apart, small, counted):
    giver, parts = giver_of(apart)
    giver.say(Offer("default", 0))
    giver.heard()
    good = update_of(Item((5, clock), None, None) for clock in range(100 * STEPS))
    b = apart["b"]
    give(giver, with_text(parts, good[:-1] + b"\x01\x05\x01\x00\xff\x7f"))  # it deletes more than there is
    assert b.node.sync.snapshot_client.receipts["default"].finishing is not None
    apart.sync()
    assert b.alarms == {"snapshot_refused"}
    assert b.replica.vector == {}
    assert b.node.sync.snapshot_client.receipts == {}


def test_small_texts_are_not_checked_all_in_one_turn(apart, counted, monkeypatch):
    """Each takes but a step."""
    monkeypatch.setattr(snapshot, "STEP_BYTES", 200)
    a, b = apart["a"], apart["b"]
    for n in range(30):
        write(a.agent(), f"t/{n}", "0123456789")
    trim(a)
    wire = apart.link("b", "a")
    most = 0
    for _ in range(200):
        for end in wire.ends:
            wire.deliver(end, 1)
            counted.clear()
            end.turn()
            most = max(most, len(counted)) if end is b else most
    assert 0 < most < 30
    agree(apart, "a", "b")
    assert [b.agent().get(f"t/{n}") for n in range(30)] == ["0123456789"] * 30
