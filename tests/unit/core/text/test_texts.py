"""Texts over their whole life: deleted and edited at once, made twice, merged, compacted, dropped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync.causality import Dot, Writer
from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.interface import Tick
from crdtsync.core.text.document import BULKY_BYTES_MIN, Document
from crdtsync.core.text.document_cache import IDLE_S
from crdtsync.core.text.family import OLDER_MAX, families
from crdtsync.core.text.yjs_library import fresh_updates
from crdtsync.wire.change import NO_HASH, Change, Op, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.tokens import decode_dot
from crdtsync.wire.yjs.encoding import Steps
from crdtsync.wire.yjs.validator import Outline, UpdateSummary, validate_slowly
from tests.fleet.agent import Refusal
from tests.fleet.clock import START_MS
from tests.fleet.editor import Editor, texts_of
from tests.fleet.fleet import CODEC, Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.limits import set_limits
from tests.fleet.stranger import Stranger

SHORT_LOG = Caps(log_bytes_max=1, log_age_ms_max=10_000, history_bytes_max=1, history_age_ms_max=10_000)


def stored(machine: Host, document: str | Dot) -> bool:
    dot = decode_dot(document) if isinstance(document, str) else document
    return machine.store.document_exists(1, dot)


def document_bytes(machine: Host) -> int:
    """What the status says, which must be what is there."""
    rows = machine.store._db.execute(
        "SELECT (SELECT IFNULL(SUM(LENGTH(update_v1)), 0) FROM document_updates) "
        "+ (SELECT IFNULL(SUM(LENGTH(state)), 0) FROM document_states)"
    ).fetchone()
    told = machine.store.log_stats(1)["document_bytes"]
    assert told == rows[0]
    return int(told)


BULKY_BYTES = 8 * 1024


@pytest.fixture
def soon_bulky(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is bulky from so many bytes on: an eighth of what it takes elsewhere."""
    set_limits(monkeypatch, BULKY_BYTES_MIN=BULKY_BYTES)


def bloat(editor: Editor) -> None:
    """Make the document large, by some 10 kB, and leave the text as it is."""
    text = editor.read()
    editor.append("-" * 1000)
    positions = range(len(text) + 1, len(editor.replica.content))
    editor.edit_all([(at, at, "y") for at in positions])
    editor.edit_all([(at + n, at + n + 1, "") for n, at in enumerate(positions)])
    editor.edit(len(text), len(editor.replica.content), "")


@pytest.fixture
def split(pair: Fleet) -> Fleet:
    """Machines a and b that hold the text ``one two three`` and are cut off from each other."""
    editor = Editor(pair["a"])
    editor.append("one two three")
    pair.sync()
    pair.wires[0].close()
    return pair


def heal(fleet: Fleet) -> None:
    names = sorted(fleet.machines)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            fleet.link(first, second)
    fleet.run(3.0)
    assert len({machine.replica.entries.digest for machine in fleet.machines.values()}) == 1
    assert not any(machine.alarms for machine in fleet.machines.values())


# -- deleted on one host, edited on another ----------------------------------------------------------------------


def test_an_edit_made_at_the_same_time_as_the_deletion_keeps_the_text_with_its_past(split: Fleet) -> None:
    editor = Editor(split["b"])
    editor.read()
    split["a"].agent().delete("t")
    editor.append(" four")
    heal(split)
    for machine in split.machines.values():
        assert texts_of(machine) == ["one two three four"]


def test_a_deleted_document_goes_with_the_log(caps_fleet: Fleet) -> None:
    machine = caps_fleet["a"]
    editor = Editor(machine)
    document = editor.append("secret")["document"]
    machine.agent().delete("t")
    caps_fleet.run(5.0, 1.0)
    assert stored(machine, document)
    assert texts_of(machine) == []
    caps_fleet.run(200.0, 5.0)
    machine.agent().set("other", 1)
    caps_fleet.run(200.0, 5.0)
    assert not stored(machine, document)
    assert document_bytes(machine) == 0
    with pytest.raises(Refusal, match="no longer"):
        editor.append("!")


def test_a_deleted_document_that_a_snapshot_held_goes_when_that_is_over(caps_fleet: Fleet) -> None:
    """No further trim is needed for it."""
    machine = caps_fleet["a"]
    document = Editor(machine).append("secret")["document"]
    machine.agent().delete("t")
    machine.agent().set("other", 1)
    pin = machine.replica.position
    machine.replica.pins.add(pin)
    caps_fleet.run(400.0, 5.0)
    assert stored(machine, document)
    assert machine.replica.trimmed_position >= pin - 1
    machine.replica.pins.discard(pin)
    caps_fleet.run(130.0, 5.0)
    assert not stored(machine, document)


def test_a_living_document_stays_however_old(caps_fleet: Fleet) -> None:
    machine = caps_fleet["a"]
    document = Editor(machine).append("old")["document"]
    for _ in range(3):
        caps_fleet.run(100.0, 5.0)
        machine.agent().set("other", 1)
    assert stored(machine, document)
    machine.restart()
    assert texts_of(machine) == ["old"]
    document_bytes(machine)


def test_a_document_is_kept_from_its_deletion_on_not_from_its_last_edit(caps_fleet: Fleet) -> None:
    machine = caps_fleet["a"]
    document = Editor(machine).append("old")["document"]
    caps_fleet.run(200.0, 5.0)
    machine.agent().delete("t")
    machine.restart()
    caps_fleet.run(5.0, 1.0)
    assert stored(machine, document)
    caps_fleet.run(200.0, 5.0)
    assert not stored(machine, document)


def test_a_document_is_not_dropped_by_the_commit_that_deletes_it(node: Host) -> None:
    document = decode_dot(Editor(node).append("old")["document"])
    node.agent().write("delete", key="t")
    assert not node.replica.documents.is_named(document)
    node.replica.texts.drop(document)
    node.turn()
    assert stored(node, document)
    node.replica.texts.drop(document)
    node.step(Tick())
    node.turn()
    assert not stored(node, document)


@pytest.fixture
def caps_fleet() -> Iterator[Fleet]:
    """Host a, whose log reaches back 10 seconds."""
    with fleet_of("a", caps=SHORT_LOG._replace(log_bytes_max=1 << 30)) as fleet:
        yield fleet


# -- made on two hosts at once -----------------------------------------------------------------------------------


def make_siblings(fleet: Fleet, first: str, second: str) -> None:
    Editor(fleet["a"]).append(first)
    fleet.pass_time(1.0)
    Editor(fleet["b"]).append(second)
    heal(fleet)
    assert sorted(texts_of(fleet["a"])) == sorted([first, second])


@pytest.fixture
def duo() -> Iterator[Fleet]:
    """Machines a and b, not connected."""
    with fleet_of("a", "b") as fleet:
        yield fleet


def merge(machine: Host, **args: Any) -> Any:
    return machine.agent("merger").do("resolve", key="t", merge=True, **args)


@pytest.mark.parametrize(
    "first, second, joined",
    [
        ("same\ntext\n", "same\ntext\n", "same\ntext\n"),
        ("buy milk", "call Bob", None),
        ("title\nfrom a\nend\n", "title\nfrom b\nend\n", None),
        ("one two", "one two three", "one two three"),
        ("", "alone", "alone"),
    ],
)
def test_merged_texts_have_the_content_of_all_and_common_parts_once(
    duo: Fleet, first: str, second: str, joined: str | None
) -> None:
    make_siblings(duo, first, second)
    assert merge(duo["b"])["resolved"] == 1
    duo.sync()
    for machine in duo.machines.values():
        (text,) = texts_of(machine)
        if joined is not None:
            assert text == joined
        for line in {*first.splitlines(), *second.splitlines()}:
            assert text.count(line) == 1


def test_a_merge_is_one_change(duo: Fleet) -> None:
    make_siblings(duo, "from a", "from b")
    before = sum(duo["a"].replica.vector.values())
    merge(duo["a"])
    assert sum(duo["a"].replica.vector.values()) == before + 1


def test_two_merges_at_once_converge_and_repeat_nothing(duo: Fleet) -> None:
    make_siblings(duo, "from a\n", "from b\n")
    duo.wires[0].close()
    merge(duo["a"])
    merge(duo["b"])
    heal(duo)
    (text,) = texts_of(duo["a"])
    assert texts_of(duo["b"]) == [text]
    assert sorted(text.splitlines()) == ["from a", "from b"]


def test_opposite_merges_lose_nothing(duo: Fleet) -> None:
    make_siblings(duo, "from a\n", "from b\n")
    duo.wires[0].close()
    winner = Editor(duo["a"])
    winner.read()
    loser = duo["b"].agent("loser")
    entry = loser.ask("entry", key="t")
    loser.do("resolve", key="t", take=entry["siblings"][0]["dot"])
    late = Editor(duo["b"])
    late.read()
    late.append("late\n")
    merge(duo["a"])
    heal(duo)
    if len(texts_of(duo["a"])) > 1:
        merge(duo["a"])
        duo.sync()
    (text,) = texts_of(duo["a"])
    assert texts_of(duo["b"]) == [text]
    assert sorted(text.splitlines()) == ["from a", "from b", "late"]


def test_an_edit_made_at_the_same_time_as_a_merge_is_there(duo: Fleet) -> None:
    make_siblings(duo, "from a\n", "from b\n")
    duo.wires[0].close()
    editors = [Editor(duo["b"]), Editor(duo["b"])]
    for number, editor in enumerate(editors):
        editor.read()
        editor.append(f"late {number}\n")
    merge(duo["a"])
    heal(duo)
    (text,) = texts_of(duo["a"])
    assert texts_of(duo["b"]) == [text]
    assert sorted(text.splitlines()) == ["from a", "from b", "late 0", "late 1"]


def test_merging_again_changes_nothing(duo: Fleet) -> None:
    make_siblings(duo, "from a", "from b")
    merge(duo["a"])
    (text,) = texts_of(duo["a"])
    assert merge(duo["a"])["resolved"] == 0
    assert texts_of(duo["a"]) == [text]


# -- compaction ----------------------------------------------------------------------------------------------------


def test_compacting_keeps_the_text_and_not_the_size(node: Host) -> None:
    editor = Editor(node)
    editor.append("the text, añ😀")
    bloat(editor)
    done = editor.compact()
    assert done["bytes_before"] > 10 * done["bytes_after"]
    assert done["bytes_after"] < 100
    assert texts_of(node) == ["the text, añ😀"]
    assert done["document"] != editor.replica.document
    node.restart()
    assert texts_of(node) == ["the text, añ😀"]


def test_a_text_is_compacted_a_few_times_until_older_documents_of_it_are_gone(caps_fleet: Fleet) -> None:
    machine = caps_fleet["a"]
    editor = Editor(machine)
    first = editor.append("text")["document"]
    documents = [forgetting(editor) for _ in range(OLDER_MAX)]
    assert len({first, *documents}) == OLDER_MAX + 1
    assert forgetting(editor) == documents[-1]
    caps_fleet.run(200.0, 5.0)
    assert not stored(machine, first)
    assert forgetting(editor) not in {first, *documents}
    assert texts_of(machine) == ["text"]


def forgetting(editor: Editor) -> str:
    """The document of a text that is compacted when something was deleted from it."""
    editor.read()
    editor.edit(0, 0, "gone")
    editor.edit(0, 4, "")
    return str(editor.compact()["document"])


@pytest.mark.usefixtures("soon_bulky")
def test_a_text_of_many_older_documents_is_not_compacted_by_itself_for_its_size(
    pair: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtsync.core.kinds.text_join.OLDER_MAX", 0)
    editor = Editor(pair["a"])
    editor.append("the text")
    bloat(editor)
    before = editor.replica.document
    pair.run(2 * IDLE_S, 5.0)
    editor.read()
    assert editor.replica.document == before


def test_a_compact_text_stays_as_it_is(node: Host) -> None:
    editor = Editor(node)
    document = editor.append("short")["document"]
    done = editor.compact()
    assert done["document"] == document
    assert done["bytes_before"] == done["bytes_after"]


def test_a_long_text_is_compacted_in_parts(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtsync.core.text.document_cache.CHUNK_CHARS_MAX", 10)
    editor = Editor(node)
    editor.append("0123456789" * 20)
    bloat(editor)
    text = editor.replica.content
    assert editor.compact()["document"] != editor.replica.document
    assert texts_of(node) == [text]
    assert len(node.replica.entries.held("t")) == 2


def test_who_goes_on_with_an_older_replica_may_name_the_compacted_document(node: Host) -> None:
    """As an unmodified Yjs editor does, which comes back with edits beside what has been forgotten meanwhile."""
    late = Editor(node)
    late.append("one two three")
    late.edit(4, 8, "")
    late.append("")
    (update,) = late.replica.edit([(4, 4, "2 ")])
    document = Editor(node).compact()["document"]
    assert document != late.replica.document
    node.agent("late").do("text_apply", key="t", document=document, update=update)
    assert texts_of(node) == ["one 2 three"]


def test_an_edit_of_a_compacted_text_may_stand_on_another_one_of_its_batch(node: Host) -> None:
    editor = Editor(node)
    editor.append("one two three")
    editor.edit(4, 8, "")
    editor.compact()
    editor.read()
    updates = [update for word in "XYZ" for update in editor.replica.edit([(4, 4, word)])]
    edits = [["text_apply", {"key": "t", "document": editor.replica.document, "update": each}] for each in updates]
    node.agent().do("batch", ops=edits)
    assert texts_of(node) == ["one ZYXthree"]


def test_as_many_edits_of_an_older_document_fit_into_a_batch(node: Host) -> None:
    """They are made in the document that is the text now, and in no other."""
    late, editor = Editor(node), Editor(node)
    editor.append("one two three")
    late.read()
    for _ in range(3):
        editor.read()
        editor.edit(8, 13, "")
        editor.append("three")
        editor.compact()
    document = node.agent().ask("text_read", key="t")["document"]
    updates = [update for number in range(64) for update in late.replica.edit([(4, 4, f"{number} ")])]
    edits = [["text_apply", {"key": "t", "document": late.replica.document, "update": each}] for each in updates]
    results = node.agent().do("batch", ops=edits)["results"]
    assert {result["document"] for result in results} == {document}
    assert texts_of(node) == [late.replica.content]


def test_a_text_with_formats_is_not_compacted(node: Host) -> None:
    session = node.agent()
    doc: Doc[Text] = Doc()
    doc.get("text", type=Text).insert(0, "bold", {"bold": True})
    session.do("text_apply", key="t", update=doc.get_update())
    with pytest.raises(Refusal, match="more than characters"):
        session.do_slowly("text_compact", key="t")


def test_compacting_nothing_is_refused(node: Host) -> None:
    with pytest.raises(Refusal, match="there is no text"):
        node.agent().do_slowly("text_compact", key="t")


def test_an_agent_that_has_not_heard_of_it_goes_on_editing(node: Host) -> None:
    """Positions keep meaning the text as it last read it."""
    late, other = Editor(node), Editor(node)
    late.append("one two three")
    other.read()
    other.edit(0, 3, "ONE")
    other.compact()
    other.read()
    other.append(" four")
    late.edit(4, 7, "TWO")
    assert len(families(node.replica.entries.held("t"))) == 1
    late.edit(8, 8, "and ")
    assert texts_of(node) == ["ONE TWO and three four"]
    assert late.read() == "ONE TWO and three four"
    late.append("!")
    assert texts_of(node) == ["ONE TWO and three four!"]
    assert len(node.replica.entries.held("t")) <= 2


def test_an_edit_made_on_another_host_meanwhile_is_in_the_new_document(split: Fleet) -> None:
    editor, late = Editor(split["a"]), Editor(split["b"])
    bloat(editor)
    editor.compact()
    late.read()
    late.edit(4, 4, "and ")
    late.append(" four")
    heal(split)
    for machine in split.machines.values():
        assert texts_of(machine) == ["one and two three four"]
    late.append(" five")
    late.read()
    late.append(" six")
    split.sync()
    assert texts_of(split["a"]) == ["one and two three four five six"]


def test_it_does_not_matter_through_whom_a_late_edit_comes(trio: Fleet) -> None:
    editor = Editor(trio["a"])
    editor.append("one two three")
    trio.sync()
    cut_off(trio, "a")
    bloat(editor)
    editor.compact()
    late = Editor(trio["b"])
    late.read()
    late.append(" four")
    trio.sync()
    cut_off(trio, "b")
    cut_off(trio, "c")
    trio.link("a", "c")
    trio.run(3.0)
    assert texts_of(trio["a"]) == ["one two three four"]
    assert texts_of(trio["b"]) == ["one two three four"]


def test_a_late_edit_beside_a_deleted_word_stands_where_that_stood(split: Fleet) -> None:
    editor, late = Editor(split["a"]), Editor(split["b"])
    late.read()
    editor.read()
    editor.edit(4, 8, "")
    editor.append(" four")
    editor.compact()
    late.edit(7, 7, ",")  # after "two", which is forgotten
    heal(split)
    for machine in split.machines.values():
        assert texts_of(machine) == ["one ,three four"]


def cut_off(fleet: Fleet, name: str) -> None:
    for wire in list(fleet.wires):
        if fleet[name] in wire.ends:
            wire.close()


def test_a_late_edit_may_stand_on_another_one(trio: Fleet) -> None:
    editor = Editor(trio["a"])
    editor.append("one")
    trio.sync()
    cut_off(trio, "a")
    bloat(editor)
    editor.compact()
    for name in ("b", "c"):
        late = Editor(trio[name])
        late.read()
        late.append(f" {name}")
        trio.sync()
    cut_off(trio, "b")
    trio.link("a", "c")
    trio.run(3.0)
    assert any("b" in text for text in texts_of(trio["a"]))
    heal(trio)
    (text,) = texts_of(trio["a"])
    assert sorted(text.split()) == ["b", "c", "one"]


def test_late_edits_are_made_in_both_documents_where_two_have_compacted(trio: Fleet) -> None:
    editor, late = Editor(trio["a"]), Editor(trio["b"])
    editor.append("one ")
    trio.sync()
    late.read()
    cut_off(trio, "c")
    for name in ("a", "c"):  # a and c replace the document, and b learns of a's first
        compacter = Editor(trio[name])
        bloat(compacter)
        compacter.compact()
    trio.sync()
    late.append("two ")
    trio.sync()
    cut_off(trio, "a")
    trio.link("b", "c")
    trio.run(3.0)
    late.append("three ")
    trio.sync()
    heal(trio)
    (text,) = texts_of(trio["a"])
    assert sorted(text.split()) == ["one", "three", "two"]


@pytest.mark.parametrize("away_s", [2.0, 300.0])
def test_late_edits_of_a_host_that_was_away_for_longer_than_the_log_are_not_lost(away_s: float) -> None:
    """It gets a snapshot."""
    with fleet_of("a", "b", caps=SHORT_LOG._replace(log_bytes_max=1 << 30)) as fleet:
        fleet.link("a", "b")
        editor, late = Editor(fleet["a"]), Editor(fleet["b"])
        editor.append("one ")
        fleet.sync()
        late.read()
        cut_off(fleet, "b")
        late.append("late ")
        editor.append("two ")
        bloat(editor)
        editor.compact()
        editor.read()
        editor.append("three ")
        fleet.run(away_s, max(1.0, away_s / 30))
        editor.append("four ")
        fleet.link("a", "b")
        fleet.run(20.0, 0.5)
        assert texts_of(fleet["a"]) == texts_of(fleet["b"])
        for machine in fleet.machines.values():
            (text,) = texts_of(machine)
            assert sorted(text.split()) == ["four", "late", "one", "three", "two"]


def test_two_hosts_that_compact_at_once_end_with_one_text(split: Fleet) -> None:
    for name in ("a", "b"):
        editor = Editor(split[name])
        editor.read()
        editor.append(f" {name}1")
        bloat(editor)
        editor.compact()
        editor.read()
        editor.append(f" {name}2")
    heal(split)
    (text,) = texts_of(split["a"])
    assert texts_of(split["b"]) == [text]
    assert sorted(text.split()) == ["a1", "a2", "b1", "b2", "one", "three", "two"]


def test_a_late_edit_is_in_the_new_document_after_a_restart_too(split: Fleet) -> None:
    editor, late = Editor(split["a"]), Editor(split["b"])
    bloat(editor)
    editor.compact()
    late.read()
    late.append(" four")
    heal(split)
    for machine in split.machines.values():
        machine.restart()
    heal(split)
    for machine in split.machines.values():
        assert texts_of(machine) == ["one two three four"]


@pytest.mark.usefixtures("soon_bulky")
def test_an_idle_bulky_text_is_compacted_by_itself(pair: Fleet) -> None:
    editor = Editor(pair["a"])
    editor.append("the text")
    bloat(editor)
    pair.sync()
    before = editor.replica.document
    assert len(pair["a"].replica.documents.get(decode_dot(before)).state()) > BULKY_BYTES
    pair.run(IDLE_S - 1, 1.0)
    editor.read()
    assert editor.replica.document == before
    changes = dict(pair["b"].replica.vector)
    pair.run(3.0, 1.0)
    assert editor.read() == "the text"
    assert editor.replica.document != before
    pair.run(2 * IDLE_S, 5.0)
    assert sum(pair["b"].replica.vector.values()) == sum(changes.values()) + 1  # one node did it, once
    assert texts_of(pair["b"]) == ["the text"]


@pytest.mark.usefixtures("soon_bulky")
def test_a_compaction_takes_in_what_is_edited_meanwhile(node: Host) -> None:
    editor = Editor(node)
    editor.append("the text")
    bloat(editor)
    node.fleet.run(1.0)
    keeper, now_ms = node.node._texts["default"], node.fleet.now.wall_ms
    keeper._compact("t", now_ms)
    assert keeper.keep(now_ms, is_writable=True) == []
    assert keeper.deadline_s(7.0, is_writable=True) == 7.0
    editor.append("!")
    node.fleet.run(1.0)
    assert keeper._under_way is None
    assert editor.read() == "the text!"
    assert editor.replica.document is not None
    assert len(families(node.replica.entries.held("t"))[0].members) == 2


def test_a_large_text_that_is_not_bloated_is_left_alone(node: Host) -> None:
    editor = Editor(node)
    editor.append("x" * (BULKY_BYTES_MIN + 1))
    before = dict(node.replica.vector)
    node.fleet.run(2 * IDLE_S, 10.0)
    assert node.replica.vector == before


def test_documents_leave_memory_when_nobody_uses_them(node: Host) -> None:
    editor = Editor(node)
    editor.append("text")
    assert len(node.replica.documents) == 1
    node.fleet.run(IDLE_S + 1, 5.0)
    assert len(node.replica.documents) == 0
    editor.append("!")
    assert texts_of(node) == ["text!"]


# -- one Yjs client id for one author ---------------------------------------------------------------------------------


def test_two_programs_with_one_yjs_client_id_are_told(node: Host) -> None:
    """The Yjs library takes what comes first and drops the other edit without a word, which was acknowledged then."""
    session = node.agent()
    docs: list[Doc[Text]] = [Doc(client_id=7), Doc(client_id=7)]
    first, second = (doc.get("text", type=Text) for doc in docs)
    first.insert(0, "one 😀 two")
    session.do("text_apply", key="t", update=docs[0].get_update())
    session.do("text_apply", key="t", update=docs[0].get_update())  # a repetition
    second.insert(0, "one 😀 TWO and more")
    with pytest.raises(Refusal, match=r"clock 7 of the Yjs client id 7 is another character already"):
        session.do("text_apply", key="t", update=docs[1].get_update())
    assert texts_of(node) == ["one 😀 two"]
    first.insert(0, "zero ")
    del first[0:3]
    session.do("text_apply", key="t", update=docs[0].get_update())  # all of it, of which half is known
    assert texts_of(node) == ["o one 😀 two"]


# -- batches -------------------------------------------------------------------------------------------------------


def test_a_batch_may_edit_what_it_has_written(node: Host) -> None:
    editor = Editor(node)
    (first,) = editor.replica.edit([(0, 0, "one")])
    (second,) = editor.replica.edit([(3, 3, " two")])
    session = node.agent()
    ops = [["text_apply", {"key": "t", "update": update}] for update in (first, second)]
    results = session.do("batch", ops=ops)["results"]
    assert results[0]["document"] == results[1]["document"]
    assert texts_of(node) == ["one two"]
    with pytest.raises(Refusal, match="not an acceptable Yjs update"):
        session.do("batch", ops=[["text_apply", {"key": "u", "update": update}] for update in (second, first)])
    assert texts_of(node, "u") == []


def test_each_edit_of_a_batch_is_judged_once(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = Editor(node)
    updates = [update for n in range(9) for update in editor.replica.edit([(n, n, str(n))])]
    judged: list[bytes] = []

    def judge(update: bytes, known: Outline, **bounds: Any) -> Steps[UpdateSummary]:
        judged.append(update)
        return validate_slowly(update, known, **bounds)

    for module in ("core.text.judging", "wire.yjs.validator"):
        monkeypatch.setattr(f"crdtsync.{module}.validate_slowly", judge)
    session = node.agent()
    for key in "tu":
        session.do("text_apply", key=key, update=updates[0])
    judged.clear()
    ops = [["text_apply", {"key": key, "update": update}] for update in updates[1:] for key in "tu"]
    session.do("batch", ops=ops)
    assert sorted(judged) == sorted(update for update in updates[1:] for _ in "tu")
    assert texts_of(node, "t") == texts_of(node, "u") == ["012345678"]
    for key in "tu":
        dot = decode_dot(session.ask("text_read", key=key)["document"])
        document = node.replica.documents.get(dot)
        anew = Document(dot, lambda _, document=document: (document.state(), []))  # type: ignore[misc]
        assert document.outline() == anew.outline() == document.clocks()


def test_a_batch_does_not_replace_what_it_edits(node: Host) -> None:
    editor = Editor(node)
    editor.append("one")
    (update,) = editor.replica.edit([(0, 0, "x")])
    ops: list[Any] = [["text_apply", {"key": "t", "update": update}], ["text_compact", {"key": "t"}]]
    with pytest.raises(Refusal, match="in a request of its own"):
        node.agent().do("batch", ops=ops)


# -- hostile peers ---------------------------------------------------------------------------------------------------


def changes_with(values: Iterator[bytes], total: int, key: str = "t") -> Iterator[Change]:
    """Changes of a stranger's writer that each replace the marker of the one before."""
    previous, removes = NO_HASH, ()
    for seq, value in zip(range(1, total + 1), values, strict=False):
        op = Op(key, None, Kind.TEXT, value, value_hash(value), removes, None)
        origin = ("stranger", "stranger") if seq == 1 else None
        change = CODEC.encode(
            Change(Writer(99), seq, (), previous, START_MS << 16, "eve", None, (op,), origin)  # type: ignore[arg-type]
        )
        previous, removes = change.hash, (Dot(Writer(99), seq, 0),)  # type: ignore[assignment]
        yield change


def test_every_skipped_edit_is_logged_and_leaves_nothing_but_its_marker(node: Host) -> None:
    eve = Stranger(node)
    garbage = (pack([None, b"\1\1" + bytes([number % 251]) * 9]) for number in count())
    for change in changes_with(garbage, 300):
        eve.send(change)
    skipped = [fields for event, fields in node.log if event == "edit_skipped"]
    assert len(skipped) == 300
    assert skipped[7].items() >= {"key": "t", "node": "stranger", "agent": "eve", "dot": "99.8.0"}.items()
    assert "not an acceptable Yjs update" in str(skipped[7]["reason"])
    assert [alarm.code for alarm in node.node.alarms.raised()] == ["edit_skipped"]
    assert len(node.replica.entries.held("t")) == 1
    assert document_bytes(node) == 0
    node.fleet.run(IDLE_S + 1, 10.0)
    assert len(node.replica.documents) == 0
    assert len(node.replica.documents._markers) == 1


def test_a_skipped_edit_does_not_part_the_nodes(pair: Fleet) -> None:
    eve = Stranger(pair["a"])
    good = pack([None, fresh_updates("good", b"", 100)[0]])
    eve.send(*changes_with(iter([good, pack([[99, 1, 0], b"\xff\xff"]), pack([[99, 1, 0], b"\1\1\5\x09"])]), 3))
    pair.run(3.0)
    assert {machine.replica.entries.digest for machine in pair.machines.values()} == {pair["a"].replica.entries.digest}
    for machine in pair.machines.values():
        assert texts_of(machine) == ["good"]
        assert machine.alarms == {"edit_skipped"}


@pytest.mark.parametrize(
    "attrs",
    [
        {"family": 7},
        {"family": [[1, 2]]},
        {"family": [[1, 2, 3, 1, [4]]]},
        {"family": [["a", 2, 3, 1, b""]]},
        {"family": [[1, 2, 3, None, b""]]},
        {"family": [[1, 2, 3, 1, b"\x09"]]},
        {"family": {"a": 1}},
    ],
)
def test_a_careless_lineage_counts_as_nothing(node: Host, attrs: dict[str, Any]) -> None:
    editor = Editor(node)
    editor.append("mine")
    eve = Stranger(node)
    value = pack([None, fresh_updates("theirs", b"", 100)[0]])
    op = Op("t", "lineage", Kind.TEXT, value, value_hash(value), (), attrs)
    eve.send(
        CODEC.encode(Change(Writer(99), 1, (), NO_HASH, START_MS << 16, "eve", None, (op,), ("eve", "eve")))  # type: ignore[arg-type]
    )
    editor.append("!")
    node.fleet.run(2.0)
    assert sorted(texts_of(node)) == ["mine!", "theirs"]
