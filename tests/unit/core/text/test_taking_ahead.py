"""Changes that are taken in by copies over several turns, and what may happen to their documents meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.causality import Dot
from crdtsync.client.text.replica import TextReplica
from crdtsync.core.crdt.causal_gate import CausalGate
from crdtsync.core.replica.text_edits import TextEdits
from crdtsync.core.text.document import Document
from crdtsync.core.text.taking_ahead import Ahead
from crdtsync.errors import InvalidValue
from crdtsync.wire.tokens import decode_dot
from fuzz.yjs_steps import Item, update_of
from tests.fleet.agent import Refusal
from tests.fleet.editor import Editor, texts_of
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.unit.core.text.test_getting_ready import (
    ITEMS,
    compacted_often,
    edits_of,
    make_long_text,
    take_short_steps,
)


def with_garbage(host: Host) -> Editor:
    """An editor of a text from which much was deleted, so that a compaction makes it anew."""
    editor = Editor(host)
    editor.append("begin end")
    for _ in range(40):
        editor.edit(5, 5, " gone gone gone")
        editor.edit(5, 20, "")
    return editor


def first_edit(text: str) -> bytes:
    """An edit of a text by somebody who knows nothing of it."""
    (update,) = TextReplica(None, None).edit([(0, 0, text)])
    return update


def hand_over(to: Host, of: Host, first: int = 1) -> None:
    """Give a host what another one has written, at once."""
    writer = of.replica.writer
    assert writer is not None
    for seq in range(first, of.replica.vector[writer] + 1):
        body = of.store.change_body(of.replica.id, writer, seq)
        assert body is not None
        done, _ = to.replica.receive(to.replica.codec.decode(body), to.now.wall_ms)
        to.node.received(done)


def play(host: Host) -> None:
    """Turns until nothing waits."""
    for _ in range(300):
        host.turn()
        if not len(host.replica.gate):
            host.turn()
            return
    raise AssertionError("a change waits for ever")


def test_an_edit_behind_a_compaction_in_one_batch_is_kept(node: Host) -> None:
    with_garbage(node)
    batch = [["text_compact", {"key": "t"}], ["text_apply", {"key": "t", "update": first_edit("new ")}]]
    node.agent().do("batch", ops=batch)
    (now,) = texts_of(node)
    assert now in ("new begin end", "begin endnew ")
    node.restart()
    assert texts_of(node) == [now]


def test_a_batch_that_fails_leaves_nothing_of_its_compaction(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with_garbage(node)
    agent, other = node.agent(), Editor(node, "u")
    other.append("other")
    (refused,) = other.replica.edit([(0, 0, "x")])
    apply = Document.apply

    def refuse(self: Document, update: bytes, *args: Any, **kwargs: Any) -> None:
        if update == refused:
            raise InvalidValue("the Yjs library refuses this update", path="$")
        apply(self, update, *args, **kwargs)

    edit = {"key": "u", "document": other.replica.document, "update": refused}
    with monkeypatch.context() as patch:
        patch.setattr(Document, "apply", refuse)
        with pytest.raises(Refusal, match="refuses"):
            agent.do("batch", ops=[["text_apply", edit], ["text_compact", {"key": "t"}]])
    fresh = {"key": "v", "update": first_edit("new")}
    agent.do("batch", ops=[["set", {"key": "k", "value": b"\1"}], ["text_apply", fresh]])
    assert texts_of(node, "v") == ["new"]
    node.restart()
    assert texts_of(node, "v") == ["new"]


def items(client: int, count: int) -> bytes:
    return update_of([Item((client, k), None, (client, k - 1) if k else None) for k in range(count)])


def test_copies_that_came_too_late_are_not_used(apart: Fleet) -> None:
    """The text is deleted while they are made, so the change comes to less, and its documents have moved on."""
    a, b, c = (apart[name] for name in "abc")
    _, there = compacted_often(apart)
    wire = apart.link("a", "c")
    apart.sync()
    wire.close()
    edits = [["text_apply", {"key": "t", "update": update}] for update in edits_of(b.agent(), 60)]
    there.session.do("batch", ops=edits)
    agent = c.agent()
    agent.do("text_apply", key="u", update=items(71, 400))
    document = agent.ask("text_read", key="t")["document"]
    agent.do("text_apply", key="t", document=document, update=items(72, 400))
    hand_over(a, c)
    hand_over(a, b)
    assert len(a.replica.gate) > 0
    a.agent("other").delete("t")
    play(a)
    now = texts_of(a)
    a.restart()
    assert texts_of(a) == now


def test_copies_hold_until_a_document_that_was_looked_for_is_edited_comes_or_goes(node: Host) -> None:
    editor = Editor(node)
    editor.append("begin end")
    assert editor.replica.document is not None
    documents, dot = node.replica.documents, decode_dot(editor.replica.document)
    node.turn()

    def looked_at(document: Dot) -> Ahead:
        stage = Ahead(documents)
        stage.exists(document)
        assert stage.is_valid
        return stage

    stage = looked_at(dot)
    editor.append(" more")
    assert not stage.is_valid
    stage = looked_at(dot)
    documents.drop(dot)
    assert not stage.is_valid
    absent = dot._replace(seq=dot.seq + 1)
    stage = looked_at(absent)
    documents.apply(absent, first_edit("new"))
    assert not stage.is_valid


@pytest.mark.parametrize("turns", [20, 30, 38, 41])
def test_a_document_that_goes_while_copies_are_made_stays_gone(apart: Fleet, turns: int) -> None:
    a, b = apart["a"], apart["b"]
    _, there = compacted_often(apart)
    edits = [["text_apply", {"key": "t", "update": update}] for update in edits_of(b.agent(), 60)]
    there.session.do("batch", ops=edits)
    hand_over(a, b)
    documents = a.replica.documents
    waiting = list(documents.unready)
    for _ in range(turns):
        a.turn()
    between = [dot for dot in waiting[1:] if not documents.is_named(dot)][2]
    assert documents.exists(between)
    a.replica.texts.drop(between)
    play(a)
    shown = documents.get(between).read() if documents.exists(between) else None
    a.restart()
    documents = a.replica.documents
    assert (documents.get(between).read() if documents.exists(between) else None) == shown


def test_an_edit_of_a_purged_text_is_not_made_ahead(apart: Fleet) -> None:
    a, b = apart["a"], apart["b"]
    purged, there = Editor(a, "p"), Editor(b, "p")
    purged.append("secret")
    _, late = compacted_often(apart)
    there.read()
    document = there.replica.document
    assert document is not None
    edits = [["text_apply", {"key": "t", "update": update}] for update in edits_of(b.agent(), 60)]
    edit = {"key": "p", "document": document, "update": first_edit("X")}
    late.session.do("batch", ops=[["text_apply", edit], *edits])
    a.agent().do("purge", pattern="p")
    for _ in range(60):
        apart.pass_time(1.0)
        a.turn()
    assert not a.replica.documents.exists(decode_dot(document))
    hand_over(a, b)
    play(a)
    assert not a.replica.documents.exists(decode_dot(document))


def test_a_change_that_comes_twice_is_taken_ahead_once(trio: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    take_short_steps(monkeypatch)
    a, b = trio["a"], trio["b"]
    make_long_text(a.agent())
    trio.sync()
    editor = Editor(a)
    editor.read()
    editor.edit(0, ITEMS // 2, "")
    trio.sync()
    taken = []
    take = TextEdits._take_ahead

    def counted(self: TextEdits, change: Any) -> Any:
        taken.append(change.seq)
        return take(self, change)

    monkeypatch.setattr(TextEdits, "_take_ahead", counted)
    editor.compact()
    writer = a.replica.writer
    assert writer is not None
    last = a.replica.vector[writer]
    for turn in range(400):
        if turn in (0, 5, 9):
            hand_over(b, a, last)
        b.turn()
        if b.replica.vector.get(writer) == last and not b.replica.documents.unready:
            break
    assert taken == [last]
    assert texts_of(b) == texts_of(a)


def test_small_edits_of_a_host_that_was_away_are_taken_in_by_the_thousand(
    apart: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = apart["a"], apart["b"]
    editor = Editor(a)
    for _ in range(2500):
        editor.append("word ")
    held = []
    hold = CausalGate.hold

    def counted(self: CausalGate, *args: Any) -> bool:
        held.append(args)
        return hold(self, *args)

    monkeypatch.setattr(CausalGate, "hold", counted)
    apart.link("a", "b")
    apart.sync()
    assert texts_of(b) == texts_of(a)
    assert held == []
