"""The order in which characters stand, found out in steps, is that in which the library puts them when it loads all."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync.wire.yjs import order
from crdtsync.wire.yjs.encoding import STEP_STRUCTS, at_once, read_sections
from crdtsync.wire.yjs.rewriting import WholeText, in_pieces, units
from fuzz.yjs_steps import ROOT, Item, forged, in_some_order, update_of


def loaded(*updates: bytes) -> str:
    doc: Doc[Any] = Doc()
    for update in updates:
        doc.apply_update(update)
    return str(doc.get(ROOT, type=Text))


def ordered(state: bytes) -> str:
    whole = at_once(WholeText.read(state, ROOT))
    texts = at_once(whole.characters())
    return "".join(
        units(texts[struct], run.clock - struct.clock, run.end - struct.clock)
        for run, struct in at_once(whole.in_order())
        if struct in texts
    )


def forged_state(seed: int) -> bytes:
    """What a document holds in the end, each item another letter, some of them deleted."""
    rng = random.Random(seed)
    doc: Doc[Any] = Doc()
    text = doc.get(ROOT, type=Text)
    for number, item in enumerate(in_some_order(forged(rng, rng.choice((5, 30, 60))), rng)):
        data = update_of([item])
        doc.apply_update(data[:-2] + chr(ord("!") + number).encode() + data[-1:])
    if rng.random() < 0.5:
        del text[2:4]
    return doc.get_update()


def test_items_that_claim_any_neighbours_stand_as_the_library_puts_them() -> None:
    for seed in range(100):
        state = forged_state(seed)
        assert ordered(state) == loaded(state), seed


def test_a_document_in_pieces_is_the_same() -> None:
    for seed in range(50):
        state = forged_state(seed)
        groups = at_once(in_pieces(state, {}, 3, 1))
        assert loaded(*(piece for group in groups for piece in group)) == loaded(state), seed


def test_a_piece_has_no_more_than_was_asked_for() -> None:
    late = update_of([Item((client, 0), (1, 9 - client), None) for client in (4, 3, 2)])
    typed = update_of([Item((1, clock), (1, clock - 1) if clock else None, None) for clock in range(10)])
    deletion = b"\0\1\1\3\0\1\2\1\4\1"
    update = late[:-1] + deletion[1:]
    groups = at_once(in_pieces(update, {1: 10}, 2, 2))
    sizes = [[sum(map(len, read_sections(piece)[0].values())) for piece in group] for group in groups]
    assert sizes == [[1, 1], [1], [0], [0]]
    assert loaded(typed, *(piece for group in groups for piece in group)) == loaded(typed, update)


def test_others_are_put_into_items_that_came_as_one() -> None:
    """The library tells such items in pieces; an update of somebody else's need not."""
    doc: Doc[Any] = Doc(client_id=1)
    text = doc.get(ROOT, type=Text)
    text += "abcdef"
    first = doc.get_update()
    other: Doc[Any] = Doc(client_id=2)
    other.apply_update(first)
    before = other.get_state()
    other.get(ROOT, type=Text).insert(3, "X")
    other.get(ROOT, type=Text).insert(1, "Y")
    late = other.get_update(before)
    both = bytes((2,)) + first[1:-1] + late[1:]
    assert ordered(both) == loaded(both) == "aYbcXdef"


def test_many_that_compete_are_looked_at_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "STEP_LOOKED_AT", 10)
    items = [Item((client, 0), None, None) for client in range(1, 101)]
    whole = at_once(WholeText.read(update_of(items), ROOT))
    assert len(items) < STEP_STRUCTS
    assert len([*whole.in_order()]) > 5
