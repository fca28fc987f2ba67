"""Edits that compete for the same places cost the Yjs library time: what that comes to is bounded, edit and text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from crdtsync.client.text.editor_state import Editing
from crdtsync.client.text.tree import DocumentTree
from crdtsync.core.interface import Ready
from crdtsync.core.text.document_cache import IDLE_S
from crdtsync.core.text.drafted_edits import REPEATED_EDITS_MAX
from crdtsync.core.text.judging import AUTHOR_LOOKED_AT_MAX, EDIT_STRUCTS_MAX
from crdtsync.core.text.yjs_library import NO_CHANGE, edited_by, fresh_updates, new_doc, text_of
from crdtsync.wire.tokens import decode_dot
from crdtsync.wire.yjs import validator
from crdtsync.wire.yjs.competition import COMPARED_A_PART, SIBLINGS_MAX, Competition, Placed
from crdtsync.wire.yjs.encoding import read_sections
from crdtsync.wire.yjs.lib0 import written_uint
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
    monkeypatch.setattr("crdtsync.core.text.judging.STATE_STEPS_MAX", 1000)
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
    monkeypatch.setattr("crdtsync.core.text.judging.EDIT_DELETES_MAX", 2)
    agent = node.agent()
    document = write(
        agent, update_of([Item((5, clock), (5, clock - 1) if clock else None, None) for clock in range(9)])
    )
    state = agent.ask("text_read", key="t")["update"]
    with pytest.raises(Refusal, match="too many ranges are deleted"):
        write(agent, edited_by(state, [(1, 2, ""), (4, 5, ""), (7, 8, "")], 8), document)


def test_an_edit_that_says_it_is_too_large_is_not_read(node: Host) -> None:
    parts = b"\1" + written_uint(EDIT_STRUCTS_MAX + 1) + b"\5\0" + b"\x1f" * 3 * EDIT_STRUCTS_MAX
    with pytest.raises(Refusal, match=r"too many structs.* at most 1300: split the edit"):
        write(node.agent(), parts)


def batch(agent: Agent, *updates: bytes, keys: str = "t") -> None:
    agent.do("batch", ops=[["text_apply", {"key": key, "update": update}] for update in updates for key in keys])


def test_the_edits_of_one_request_are_what_fits_into_a_turn(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever texts they are of; one by one they are taken."""
    monkeypatch.setattr("crdtsync.core.text.drafted_edits.WORK_PARTS_MAX", 38)
    first, second, third = (
        update_of(Item((5, clock), (5, clock - 1) if clock else None, None) for clock in range(at, at + 7))
        for at in (0, 7, 14)
    )
    agent = node.agent()
    for refused in (lambda: batch(agent, first, second, third), lambda: batch(agent, first, second, keys="tu")):
        with pytest.raises(Refusal, match=r"operation 2 .* come to 53 parts; at most 38 .*; nothing of the batch"):
            refused()
    assert texts_of(node) == []
    batch(agent, first, second)
    write(agent, third)
    assert texts_of(node) == ["a" * 21]


def test_an_edit_that_does_not_fit_any_more_is_not_judged(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes as long as to take it in."""
    monkeypatch.setattr("crdtsync.core.text.drafted_edits.WORK_PARTS_MAX", 38)
    judged: list[int] = []
    integrate = validator._Judge.integrate

    def count(judge: validator._Judge, sections: Any) -> Any:
        judged.append(len(sections))
        return integrate(judge, sections)

    monkeypatch.setattr(validator._Judge, "integrate", count)
    first, second = (update_of(Item((at + n, 0), None, None) for n in range(size)) for at, size in ((1, 7), (9, 13)))
    with pytest.raises(Refusal, match=r"operation 1 .* too many structs.* at most 12: split"):
        batch(node.agent(), first, second)
    assert [count for count in judged if count] == [7]


def test_what_an_edit_deletes_counts(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most where it cuts a string in two."""
    monkeypatch.setattr("crdtsync.core.text.drafted_edits.WORK_PARTS_MAX", 20)
    agent = node.agent()
    document = write(agent, fresh_updates("ab" * 40, b"", 99)[0])

    def every_other(start: int, end: int) -> bytes:
        state = agent.ask("text_read", key="t")["update"]
        return edited_by(state, [(at, at + 1, "") for at in range(start, end, 2)], 8)

    with pytest.raises(Refusal, match="come to 23 parts"):
        write(agent, every_other(0, 40), document)
    write(agent, every_other(0, 36), document)
    state = agent.ask("text_read", key="t")["update"]
    monkeypatch.setattr("crdtsync.core.text.drafted_edits.WORK_PARTS_MAX", 3)
    write(agent, edited_by(state, [(at, at + 1, "") for at in range(18)], 8), document)  # what is left between
    assert texts_of(node) == ["ab" * 22]


def test_siblings_that_an_edit_is_compared_with_count(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more are compared than fit, and where nobody else writes as many parts fit as ever."""
    monkeypatch.setattr("crdtsync.core.text.drafted_edits.WORK_PARTS_MAX", 60)
    compared: list[int] = []
    compete = Competition._compete

    def count(competition: Competition, item: Placed, siblings: Any) -> None:
        compared.append(len(siblings))
        compete(competition, item, siblings)

    monkeypatch.setattr(Competition, "_compete", count)
    apart = update_of(Item((5, clock), (5, clock - 1) if clock else None, None) for clock in range(60))
    at_end = update_of(Item((6, clock), (6, clock - 1) if clock else (5, 59), None) for clock in range(20))
    agent = node.agent()
    document = write(agent, apart)
    assert compared == []
    write(agent, wide(0, 30), document)
    assert sum(compared) == sum(range(1, 31))
    compared.clear()
    with pytest.raises(Refusal, match="too much stands at its places"):
        write(agent, wide(1, 30), document)
    assert 30 * COMPARED_A_PART < sum(compared) <= 30 * COMPARED_A_PART + SIBLINGS_MAX
    with pytest.raises(Refusal, match="too many structs"):
        batch(agent, wide(1, 12), at_end)
    batch(agent, wide(1, 1), at_end)
    assert texts_of(node) == ["a" * (60 + 30 + 1 + 20)]


LONG = "ab" * 50_000


def insertions(places: Sequence[int], client: int) -> list[bytes]:
    """After these characters of a pasted text, one by one in this order."""
    (first,) = fresh_updates(LONG, b"", 10**6)
    ((of, _),) = read_sections(first)[0].items()
    return [update_of([Item((client, n), (of, at), (of, at + 1))]) for n, at in enumerate(places)]


def test_places_of_a_long_string_are_dear_from_its_end_on(node: Host) -> None:
    """To find one, the Yjs library goes through the string from its beginning, or from where it was cut last."""
    agent = node.agent()
    write(agent, fresh_updates(LONG, b"", 10**6)[0])
    upwards = range(30_000, 96_000, 60)
    with pytest.raises(Refusal, match="many places of a long string"):
        write(agent, together(insertions(upwards[::-1], 6)))
    write(agent, together(insertions(upwards, 6)))


def sent(editing: Editing, agent: Agent) -> int:
    """All that was typed, as an editor sends it; in how many requests."""
    requests = 0
    while parts := editing.request():
        ops = [["text_apply", {"key": "t", "document": editing.document, "update": part.update}] for part in parts]
        agent.do("batch", ops=ops)
        editing.succeeded(editing.document or "")
        requests += 1
    return requests


@pytest.mark.parametrize("is_apart", [False, True])
def test_an_editor_sends_what_a_turn_takes_wherever_it_types(node: Host, is_apart: bool) -> None:
    """From the end of a pasted text to its beginning, then upwards behind the words that were typed."""
    agent = node.agent()
    write(agent, fresh_updates(LONG * 3, b"", 10**6)[0])
    held = agent.ask("text_read", key="t")
    editing = Editing()
    editing.fetching()
    editing.fetched(held["document"], held["update"], held["version"])
    editing.read()
    places = range(1000, 298_000, 900)
    for at in reversed(places):
        editing.typed.edit(at, at + 3, "word")
        if is_apart and at % 20_000 == 0:
            editing.cut()
    requests = sent(editing, agent)
    for number, at in enumerate(places):
        editing.typed.edit(at + 2 * number + 4, at + 2 * number + 4, "s")
    assert requests + sent(editing, agent) > 2
    assert texts_of(node) == [str(editing.typed)]
    assert texts_of(node)[0].count("words") == len(places)


def test_so_are_the_edits_of_one_request(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtsync.core.text.drafted_edits.MOVED_BYTES_A_PART", len(LONG) // 60)
    agent = node.agent()
    write(agent, fresh_updates(LONG, b"", 10**6)[0])
    upwards = range(50_000, 77_500, 500)
    with pytest.raises(Refusal, match="many places of a long string"):
        batch(agent, *insertions(upwards[::-1], 6))
    batch(agent, *insertions(upwards, 6))
    batch(agent, *insertions(upwards[:20:-1], 7)[:10])


def test_edits_of_one_request_that_are_two_authors_under_one_id_are_refused(node: Host) -> None:
    """The Yjs library would drop the second without a word. Twice the same is there once."""
    agent = node.agent()
    first, other = (edited_by(NO_CHANGE, [(0, 0, text)], 7) for text in "ab")
    with pytest.raises(Refusal, match=r"clock 0 of the Yjs client id 7 is another character already"):
        batch(agent, first, other)
    assert texts_of(node) == []
    batch(agent, first, first)
    assert texts_of(node) == ["a"]
    with pytest.raises(Refusal, match="repeat each other"):
        batch(agent, *[update_of([Item((8, 0), None, None)])] * (REPEATED_EDITS_MAX + 2))


def together(updates: list[bytes]) -> bytes:
    """One update of those of one client."""
    doc = new_doc()
    doc.apply_update(fresh_updates(LONG, b"", 10**6)[0])
    before = doc.get_state()
    for update in updates:
        doc.apply_update(update)
    return doc.get_update(before)


def test_edits_of_many_parts_have_a_text_stored_whole(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next load makes them all anew, in one turn."""
    monkeypatch.setattr("crdtsync.core.text.document_cache.STATE_EVERY_PARTS", 100)
    agent = node.agent()
    document = write(agent, fresh_updates("ab" * 1000, b"", 99_999)[0])
    held = node.replica.documents.get(decode_dot(document))
    for number in range(6):
        state = agent.ask("text_read", key="t")["update"]
        write(agent, edited_by(state, [(at, at, "x") for at in range(0, 1800, 90)], 8 + number), document)
        assert held.work_since_state < 100
    node.restart()
    held = node.replica.documents.get(decode_dot(document))
    assert len(held.read()) == 2000 + 6 * 20
    assert held.updates_since_state <= 4


@pytest.mark.parametrize("long", [1, 4])
def test_a_commit_of_long_edits_stores_no_text_whole(node: Host, long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one does, also if its edits are as long: else the text would never be stored whole under such edits."""
    monkeypatch.setattr("crdtsync.core.text.document_cache.STATE_EVERY_PARTS", 100)
    monkeypatch.setattr("crdtsync.core.text.document_cache.STATES_BYTES_MAX", 30_000)
    stored: list[int] = []
    deliver = Host.deliver

    def count(host: Host, ready: Ready) -> None:
        if ready.persist.document_updates:
            stored.append(len(ready.persist.document_states))
        deliver(host, ready)

    monkeypatch.setattr(Host, "deliver", count)
    agent = node.agent()
    document = write(agent, fresh_updates("ab" * 20_000, b"", 99_999)[0])
    for number in range(1, long):
        write(agent, fresh_updates("ab" * 20_000, bytes([number]), 99_999)[0], document)
    for clock in range(2):
        write(agent, update_of([Item((5, clock), None, None)]), document)
    assert stored == ([0, 1, 0] if long == 1 else [0, 1, 0, 1, 0, 0])


def crowd(agent: Agent, pieces: int) -> Any:
    """A text of so many pieces none of which goes on where another one ends, every other one deleted."""
    document = write(agent, update_of(Item((5, at), None, (5, at - 1) if at else None) for at in range(pieces)))
    write(agent, holes_in(5, range(0, pieces, 2)), document)
    return document


def holes_in(client: int, clocks: range) -> bytes:
    return (
        b"\0\1"
        + b"".join(map(written_uint, (client, len(clocks))))
        + b"".join(written_uint(at) + b"\1" for at in clocks)
    )


def test_a_text_of_many_pieces_takes_no_more_until_it_is_compacted(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtsync.core.text.length_limit.ITEMS_MAX", 100)
    agent = node.agent()
    document = crowd(agent, 40)
    write(agent, wide(0, 8), document)
    with pytest.raises(Refusal, match=r"would be in 102 pieces.* at most 100 may be edited, and 200 by deleting"):
        write(agent, wide(1, 3), document)
    write(agent, holes_in(5, range(1, 15, 2)), document)
    with pytest.raises(Refusal, match="compact it"):
        write(agent, wide(1, 3), document)
    compacted = agent.do_slowly("text_compact", key="t")["document"]
    write(agent, wide(1, 3), compacted)
    assert [len(text) for text in texts_of(node)] == [20 - 7 + 8 + 3]


def test_a_document_of_many_pieces_takes_more_once_parts_of_it_are_deleted(
    node: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never compacted, and nobody is told to."""
    monkeypatch.setattr("crdtsync.core.text.length_limit.ITEMS_MAX", 100)
    agent = node.agent()

    def edit(change: Callable[[DocumentTree], None]) -> None:
        held = agent.ask("text_read", key="t") or {"update": None, "document": None}
        update = DocumentTree(held["update"]).edited(change)
        assert update is not None
        write(agent, update, held["document"])

    fields = {f"{number}": number for number in range(20)}
    for name in ("one", "two"):
        edit(lambda tree, name=name: tree.set(name, fields))  # type: ignore[misc]  # a lambda with a default
    with pytest.raises(Refusal, match="by deleting: delete parts of it and leave it alone for a minute, or go on in"):
        edit(lambda tree: tree.set("three", fields))
    edit(lambda tree: tree.delete("one"))
    node.fleet.run(IDLE_S + 10.0)
    edit(lambda tree: tree.set("three", fields))


def test_a_text_of_too_many_pieces_to_delete_from_is_compacted(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtsync.core.text.length_limit.ITEMS_MAX", 20)
    agent = node.agent()
    document = write(agent, fresh_updates("ab" * 40, b"", 99)[0])
    state = agent.ask("text_read", key="t")["update"]
    with pytest.raises(Refusal, match="and 40 by deleting"):
        write(agent, edited_by(state, [(at, at + 1, "") for at in range(0, 44, 2)], 8), document)
    write(agent, edited_by(state, [(at, at + 1, "") for at in range(0, 36, 2)], 8), document)
    assert texts_of(node) == ["b" * 18 + "ab" * 22]


def test_what_is_typed_on_is_one_piece(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each keystroke is one at first; they are counted now and then."""
    monkeypatch.setattr("crdtsync.core.text.length_limit.ITEMS_MAX", 60)
    monkeypatch.setattr("crdtsync.core.text.document.COUNT_ITEMS_EACH", 20)
    agent = node.agent()
    document = None
    for clock in range(200):
        document = write(agent, update_of([Item((5, clock), (5, clock - 1) if clock else None, None)]), document)
        node.fleet.run(0.01)
    assert texts_of(node) == ["a" * 200]


def test_a_text_of_many_pieces_is_compacted_by_itself_however_many_older_documents_there_are(
    pair: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtsync.core.kinds.text_join.OLDER_MAX", 0)
    monkeypatch.setattr("crdtsync.core.text.document.CROWDED_ITEMS_MIN", 50)
    monkeypatch.setattr("crdtsync.core.text.document.COUNT_ITEMS_EACH", 20)
    document = crowd(pair["a"].agent(), 100)
    pair.run(10.0)
    editor = Editor(pair["b"])
    editor.read()
    assert editor.replica.document != document
    for machine in pair.machines.values():
        assert texts_of(machine) == ["a" * 50]
        assert machine.alarms == set()


def test_a_text_of_too_many_pieces_is_told(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits of several hosts, or deletions, have left it so."""
    for name, most in (("CROWDED_ITEMS_MIN", 20), ("COUNT_ITEMS_EACH", 10)):
        monkeypatch.setattr(f"crdtsync.core.text.document.{name}", most)
    monkeypatch.setattr("crdtsync.core.background.text_maintenance.ITEMS_MAX", 30)
    crowd(node.agent(), 40)
    node.fleet.run(5.0)
    assert node.alarms == {"text_contested"}
    assert "'t'" in node.node.alarms.raised()[0].message
