"""Compaction, and edits made without knowing of it, on documents of pycrdt: none is lost, doubled or undone."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Map, Text

from crdtsync.causality import Dot, Writer
from crdtsync.core.text import places
from crdtsync.core.text.document import Document
from crdtsync.core.text.family import Member
from crdtsync.core.text.forgetting import forget
from crdtsync.core.text.judging import EDIT_STRUCTS_MAX
from crdtsync.core.text.passing import found, missing_from, passed, placed
from crdtsync.core.text.yjs_library import text_in
from crdtsync.errors import InvalidValue
from crdtsync.wire.yjs.encoding import CLOCK_MAX, Steps, at_once
from crdtsync.wire.yjs.state_vector import decode_state_vector, encode_state_vector

NEW, OLD = Dot(Writer(1), 2, 0), Dot(Writer(1), 1, 0)


class Typist:
    """Somebody with a replica of a text, whose insertions can be told from all others."""

    def __init__(self, number: int) -> None:
        self.doc: Doc[Text] = Doc(client_id=number)
        self.text = self.doc.get("text", type=Text)
        self.count = 0
        self.first = 0x1000 * number

    def edit(self, random: Random) -> None:
        content = str(self.text)
        at = random.randrange(len(content) + 1)
        if content and random.random() < 0.4:
            end = min(len(content), at + random.randrange(1, 4))
            del self.text[len(content[:at].encode()) : len(content[:end].encode())]
            return
        piece = "".join(chr(self.first + self.count + n) for n in range(random.randrange(1, 4)))
        self.count += len(piece)
        self.text.insert(len(content[:at].encode()), piece + random.choice(["", "😀"]))

    def hear(self, other: Typist) -> None:
        self.doc.apply_update(other.doc.get_update(self.doc.get_state()))

    def said(self, before: bytes) -> bytes:
        return self.doc.get_update(before)


def held(dot: Dot, *updates: bytes) -> Document:
    return Document(dot, lambda _: (None, [*updates]))


def session(random: Random, edits: int) -> list[Typist]:
    typists = [Typist(number) for number in (1, 2, 3)]
    for _ in range(edits):
        typist = random.choice(typists)
        if random.random() < 0.2:
            typist.hear(random.choice(typists))
        else:
            typist.edit(random)
    return typists


def compacted(typist: Typist) -> tuple[Document, Member, int]:
    """The document that a compaction makes of what one of them has, and its size."""
    return compacted_of(typist.doc.get_update())


def compacted_of(state: bytes) -> tuple[Document, Member, int]:
    made = at_once(forget(state, 3, 5))
    return held(NEW, *made.updates), Member(1, encode_state_vector(made.cut)), sum(map(len, made.updates))


@given(st.integers(0, 2**32), st.integers(0, 60))
def test_the_text_is_the_same_and_later_edits_go_on_from_it(seed: int, edits: int) -> None:
    typist, *_ = session(Random(seed), edits)
    document, _, _ = compacted(typist)
    assert document.read() == str(typist.text)
    assert document.clocks() == decode_state_vector(typist.doc.get_state())


@given(st.integers(0, 2**32), st.integers(0, 60))
def test_every_late_edit_is_made_once_however_it_comes(seed: int, edits: int) -> None:
    """One replica takes the edits one by one, some twice; the other all at once."""
    random = Random(seed)
    typists = session(random, edits)
    one_by_one, member, _ = compacted(typists[0])
    at_once, _, _ = compacted(typists[0])
    old = held(OLD, typists[0].doc.get_update())
    for _ in range(edits):
        typist = random.choice(typists[1:])
        before = typist.doc.get_state()
        typist.edit(random)
        others = typist.doc.get_update() if random.random() < 0.3 else b"\0\0"
        for update in (typist.said(decode_and_back(old, before)), others):
            old.apply(update, CLOCK_MAX)
            one_by_one.apply(passed(update, old, one_by_one, member), EDIT_STRUCTS_MAX)
    missing = missing_from(old, at_once, member)
    if missing is not None:
        at_once.apply(missing, CLOCK_MAX)
    assert sorted(one_by_one.read()) == sorted(at_once.read()) == sorted(old.read())
    again = missing_from(old, one_by_one, member)
    if again is not None:
        content = one_by_one.content()
        one_by_one.apply(again, CLOCK_MAX)
        assert one_by_one.content() == content


def decode_and_back(old: Document, before: bytes) -> bytes:
    """What both know: an edit is told from there, with whatever the other side lacks."""
    known = decode_state_vector(before)
    return encode_state_vector({client: min(clock, known.get(client, 0)) for client, clock in old.clocks().items()})


def test_a_late_edit_stands_where_its_forgotten_neighbours_stood() -> None:
    ann, bob = Typist(1), Typist(2)
    ann.text.insert(0, "Hello cruel big world")
    bob.hear(ann)
    before = bob.doc.get_state()
    del ann.text[6:16]
    newer, member, size_bytes = compacted(ann)
    assert (newer.read(), size_bytes) < ("Hello world!", len(ann.doc.get_update()) + 20)
    bob.text.insert(11, "ly")  # after "cruel"
    old = held(OLD, ann.doc.get_update())
    update = bob.said(before)
    old.apply(update)
    newer.apply(passed(update, old, newer, member))
    assert newer.read() == "Hello lyworld"


def test_a_late_edit_stays_between_what_its_author_saw_it_between() -> None:
    """Dora's ``x`` goes between ``3`` and ``9``, which stand the other way round in the new document."""
    ann, bob, carl, dora = Typist(9), Typist(5), Typist(7), Typist(11)
    ann.text.insert(0, "ac")
    for typist in (bob, carl):
        typist.hear(ann)
    before = carl.doc.get_state()
    bob.text.insert(1, "3")
    carl.text.insert(1, "9")
    for typist in (bob, carl):
        dora.hear(typist)
    told = dora.doc.get_state()
    dora.text.insert(2, "x")
    assert str(dora.text) == "a3x9c"
    old = held(OLD, dora.doc.get_update())
    for late in ([carl.said(before), dora.said(told)], [dora.said(bob.doc.get_state())]):
        newer, member, _ = compacted(bob)
        for update in late:
            newer.apply(passed(update, old, newer, member))
        assert newer.read() == "a93xc"

    newer, member, _ = compacted(bob)
    newer.apply(passed(carl.said(before), old, newer, member))
    third, member, _ = compacted_of(newer.state())  # of which both are part
    third.apply(passed(dora.said(told), old, third, member))
    assert third.read() == "a93xc"


def test_a_late_edit_beside_the_wrong_neighbours_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test before."""
    for side in ("left", "right"):
        monkeypatch.setattr(places.Places, side, lambda *_: None)
    with pytest.raises(AssertionError):
        test_a_late_edit_stands_where_its_forgotten_neighbours_stood()


def test_a_lineage_that_claims_what_its_document_did_not_begin_with_is_refused() -> None:
    """Only a forged one does: what it names came later."""
    ann = Typist(1)
    ann.text.insert(0, "ac")
    old, newer = held(OLD, ann.doc.get_update()), held(NEW, ann.doc.get_update())
    forged = Member(1, encode_state_vector({1: 2, 2: 100, 4: 100}))

    def edit(number: int, at: int, piece: str) -> None:
        typist = Typist(number)
        typist.doc.apply_update(old.state())
        before = typist.doc.get_state()
        typist.text.insert(at, piece)
        update = typist.said(before)
        late = passed(update, old, newer, forged)
        old.apply(update)
        newer.apply(late)

    edit(2, 1, "x")
    edit(3, 2, "y")
    edit(4, 1, "z")
    assert newer.read() == "azxyc"
    with pytest.raises(InvalidValue, match="did not begin with clock 0 of client 4"):
        edit(5, 2, "w")


def test_two_compactions_at_once_take_each_others_edits() -> None:
    ann, bob = Typist(1), Typist(2)
    ann.text.insert(0, "one two three")
    bob.hear(ann)
    del ann.text[0:4]
    del bob.text[3:7]
    made = [compacted(typist) for typist in (ann, bob)]
    old = held(OLD, ann.doc.get_update())
    old.apply(bob.doc.get_update())
    for newer, member, _ in made:
        missing = missing_from(old, newer, member)
        assert missing is not None
        newer.apply(missing)
    (first, _, _), (second, member, _) = made
    assert first.read() == second.read() == " three"
    eve = Typist(3)
    eve.doc.apply_update(first.state())
    before = eve.doc.get_state()
    eve.text.insert(6, "!")
    first.apply(eve.said(before))
    second.apply(passed(eve.said(before), first, second, member))
    assert second.read() == " three!"


def another_text(_state: bytes) -> Steps[str]:
    yield
    return "another"


def test_a_document_whose_order_is_forged_is_not_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    typist, *_ = session(Random(2), 30)
    monkeypatch.setattr("crdtsync.core.text.forgetting.text_in", another_text)
    with pytest.raises(InvalidValue, match="another order"):
        compacted(typist)


def test_what_cannot_be_placed_is_refused() -> None:
    ann, bob = Typist(1), Typist(2)
    ann.text.insert(0, "abc")
    bob.hear(ann)
    before = bob.doc.get_state()
    bob.text.insert(1, "x")
    del ann.text[0:3]
    newer, member, _ = compacted(ann)
    with pytest.raises(InvalidValue, match="nobody knows where"):
        passed(bob.said(before), held(OLD), newer, member)
    assert at_once(text_in(newer.state())) == ""


def test_what_has_to_be_placed_in_or_by_what_cannot_be_read_is_refused() -> None:
    """As a document that an older version took in, with other documents in it."""
    ann, bob = Typist(1), Typist(2)
    ann.text.insert(0, "a forgotten" * 2000)
    bob.hear(ann)
    before = bob.doc.get_state()
    bob.text.insert(1, "x")
    del ann.text[0:10]
    newer, member, _ = compacted(ann)
    other: Doc[Any] = Doc()
    other.get("doc", type=Map)["inner"] = Doc()
    strange = held(OLD, ann.doc.get_update(), other.get_update())
    for attempt in (
        partial(passed, bob.said(before), strange, newer, member, may_wait=True),
        partial(missing_from, newer, strange, member, may_wait=True),
        partial(placed, bob.said(before), strange, member, [newer.dot], lambda _: newer),
    ):
        with pytest.raises(InvalidValue, match="content kind 9"):
            at_once(found(attempt))


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_who_goes_on_with_an_older_replica_writes_to_the_new_document_and_loses_nothing(seed: int, edits: int) -> None:
    random = Random(seed)
    author, other, _ = session(random, edits)
    author.hear(other)
    document, member, _ = compacted(author)
    older = held(OLD, author.doc.get_update())
    before = author.doc.get_state()
    for _ in range(5):
        author.edit(random)
    document.apply(placed(author.said(before), document, member, [older.dot], lambda _: older))
    assert document.read() == str(author.text)
