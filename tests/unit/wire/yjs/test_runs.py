"""What comes in pieces that fit together is one item to the library, and means the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pycrdt import Array, Doc, Map, Text, merge_updates

from crdtsync.core.text.yjs_library import LONG_BYTES_MIN, in_few, whole_state
from crdtsync.wire.yjs import validator
from crdtsync.wire.yjs.encoding import STRING, read_sections
from crdtsync.wire.yjs.lib0 import InvalidUpdate, written_text
from crdtsync.wire.yjs.rewriting import NewStruct, joined, written_item, written_update
from crdtsync.wire.yjs.validator import Outline, advance, validate_update
from fuzz.yjs_steps import ROOT


def typed(seed: int) -> list[bytes]:
    """What two hosts have typed, as they made it; some of it at the same places."""
    rng = random.Random(seed)
    docs: list[Doc[Any]] = [Doc(client_id=client) for client in (1, 2)]
    made: list[bytes] = []
    watching = [doc.observe(lambda event: made.append(event.update)) for doc in docs]
    for _ in range(80):
        doc = rng.choice(docs)
        text, root = doc.get(ROOT, type=Text), doc.get("doc", type=Map)
        size = len(str(text))
        what = rng.randrange(12)
        if what == 0:
            for other in docs:
                other.apply_update(doc.get_update(other.get_state()))
        elif what == 1 and str(text).isascii() and size > 3:
            del text[size // 2 : size // 2 + 2]
        elif what == 2 and str(text).isascii():
            text.insert(rng.randrange(size + 1), "x")
        elif what == 3 and "list" not in root:
            root["list"] = Array([1])
        elif what == 4 and "list" in root:
            root["list"] += [rng.choice((2, "three", [4]))]
        else:
            text += rng.choice(("a", "bc", "é", *"😀"[: seed % 2]))
    for doc, subscription in zip(docs, watching, strict=True):
        doc.unobserve(subscription)
    return made


def structs_in(update: bytes) -> int:
    return sum(map(len, read_sections(update)[0].values()))


@pytest.mark.parametrize("seed", range(40))
def test_an_update_whose_runs_are_joined_does_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On top of nothing, and on top of a part of it."""
    made = typed(seed)
    whole = merge_updates(*made)
    assert structs_in(joined(whole, 2000)) < structs_in(whole)
    monkeypatch.setattr(validator, "COPIED_MAX", -1)
    for count in (0, len(made) // 3, len(made) - 1):
        outline, raw, other = Outline({ROOT: "text", "doc": "map"}), Doc[Any](), Doc[Any]()
        for update in made[:count]:
            advance(outline, validate_update(update, outline))
            raw.apply_update(update)
            other.apply_update(update)
        summary = validate_update(whole, outline)
        raw.apply_update(whole)
        other.apply_update(summary.joined or b"")
        assert summary.structs == structs_in(whole)
        assert str(other.get(ROOT, type=Text)) == str(raw.get(ROOT, type=Text))
        assert other.get_state() == raw.get_state()
        assert other.get_update() == raw.get_update()


def pieces(*texts: str) -> bytes:
    """Client 5 types them, each after the one before."""
    structs: list[NewStruct] = []
    clock = 0
    for text in texts:
        item = written_item(STRING, (5, clock - 1) if clock else None, None, ROOT, written_text(text))
        structs.append(NewStruct(5, clock, item))
        clock += len(text.encode("utf-16-le")) // 2
    return written_update(structs)


def test_a_pair_in_a_run_is_not_torn() -> None:
    outline = Outline({ROOT: "text"})
    advance(outline, validate_update(pieces("ab", "c😀", "d😀"), outline))
    for at in (3, 6):  # the first halves
        item = written_item(STRING, (5, at), None, ROOT, written_text("x"))
        with pytest.raises(InvalidUpdate, match="inside a surrogate pair"):
            validate_update(written_update([NewStruct(6, 0, item)]), outline)


def test_what_does_not_fit_together_stays_apart() -> None:
    """Another right neighbour; a place before."""
    first = NewStruct(5, 0, written_item(STRING, None, None, ROOT, written_text("a")))
    other_right = NewStruct(5, 1, written_item(STRING, (5, 0), (4, 0), ROOT, written_text("b")))
    before = NewStruct(5, 2, written_item(STRING, (5, 0), (4, 0), ROOT, written_text("c")))
    update = written_update([first, other_right, before])
    assert joined(update, 9) == update


def test_only_what_takes_long_to_join_is_written_anew() -> None:
    assert validate_update(pieces(*["a" * 100] * 20), {}).joined is None
    assert structs_in(validate_update(pieces(*["a" * 100] * 250), {}).joined or b"") == 1


def test_a_stored_edit_in_many_pieces_is_taken_in_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    update = pieces(*["a" * 100] * 100)
    assert len(update) > LONG_BYTES_MIN
    assert structs_in(in_few(update)) == 1
    assert whole_state(None, [update]) == joined(update, 100)
    with monkeypatch.context() as patch:
        patch.setattr("crdtsync.core.text.yjs_library.PIECES_MAX", 50)
        assert in_few(update) is update
