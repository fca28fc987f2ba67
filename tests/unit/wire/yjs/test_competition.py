"""What Yjs does to put items in order is bounded in every order in which they come, and is 0 for plain work."""

from __future__ import annotations

import random
from typing import Any

import pycrdt
import pytest

from crdtsync.wire.yjs.competition import counted, exact
from crdtsync.wire.yjs.encoding import at_once
from crdtsync.wire.yjs.validator import Outline, advance, validate_update
from fuzz.yjs_steps import ROOT, Item, forged, in_some_order, integrate, update_of


def steps_of(items: list[Item]) -> int:
    return at_once(exact([item.placed() for item in items])).steps


@pytest.mark.parametrize("seed", range(8))
def test_nobody_takes_more_steps_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        items = forged(rng, rng.choice((5, 20, 40)))
        bound = steps_of(items)
        for _ in range(4):
            order = in_some_order(items, rng)
            known = Outline({ROOT: "text"})
            steps = 0
            for number, item in enumerate(order, 1):
                advance(known, validate_update(update_of([item]), known))
                steps = integrate(order[:number])[1]
                assert steps <= known.competition.looked_at + number
            assert steps <= bound + len(items)
            assert bound <= known.competition.steps


@pytest.mark.parametrize("seed", range(5))
def test_items_are_in_the_order_that_the_library_puts_them_in(seed: int) -> None:
    rng = random.Random(seed)
    items = in_some_order(forged(rng, 30), rng)
    doc: Any = pycrdt.Doc()
    text = doc.get(ROOT, type=pycrdt.Text)
    for number, item in enumerate(items):
        data = update_of([item])
        doc.apply_update(data[:-2] + chr(ord("A") + number).encode() + data[-1:])
    letters = {item.id: chr(ord("A") + number) for number, item in enumerate(items)}
    assert str(text) == "".join(letters[name] for name in integrate(items)[0])


def test_what_people_write_one_after_the_other_takes_no_steps() -> None:
    rng = random.Random(1)
    docs: list[Any] = [pycrdt.Doc(client_id=client) for client in (3, 1, 2)]
    texts = [doc.get(ROOT, type=pycrdt.Text) for doc in docs]
    known = Outline({ROOT: "text"})
    for _ in range(400):
        index = rng.randrange(3)
        text = texts[index]
        before = docs[index].get_state()
        if len(text) > 20 and rng.random() < 0.4:
            at = rng.randrange(len(text) - 5)
            del text[at : at + 5]
        else:
            text.insert(rng.choice((0, len(text), rng.randrange(len(text) + 1))), "word ")
        update = docs[index].get_update(before)
        advance(known, validate_update(update, known))
        for doc in docs:
            doc.apply_update(update)
    assert known.competition.looked_at == 0
    assert at_once(counted(docs[0].get_update(), ROOT)).steps == 0


def test_claiming_places_between_which_much_stands_is_told() -> None:
    seed = [Item((5, clock), None, (5, clock - 1) if clock else None) for clock in range(1000)]
    known = Outline({ROOT: "text"})
    advance(known, validate_update(update_of(seed), known))
    assert known.competition.steps == 0
    wide = [Item((100 + number, 0), None, None) for number in range(10)]
    assert validate_update(update_of(wide), known).competition.looked_at >= 10 * 1000
