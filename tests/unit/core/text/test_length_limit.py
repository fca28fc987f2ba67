"""A text has a bound, which only the author's own node enforces; one that is too long breaks nobody but its readers."""

from __future__ import annotations

import pytest

from crdtsync.core.text.yjs_library import fresh_updates
from crdtsync.core.watch import event_size, events
from crdtsync.errors import TooLarge
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import TEXT_BYTES_MAX
from tests.fleet.agent import Refusal
from tests.fleet.editor import Editor, texts_of
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.unit.core.text.test_texts import heal
from tests.unit.core.watch.test_change_watch import watch
from tests.unit.core.watch.test_state_watch import Copy, settle

PART_CHARS = 800_000


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of up to 1,000 bytes."""
    monkeypatch.setattr("crdtsync.core.text.length_limit.TEXT_BYTES_MAX", 1000)


def grow(machine: Host, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    """Type so many parts, as could be done before there was a bound."""
    with monkeypatch.context() as patched:
        patched.setattr("crdtsync.core.text.length_limit.TEXT_BYTES_MAX", 1 << 40)
        patched.setattr("crdtsync.core.text.length_limit.DOCUMENT_BYTES_MAX", 1 << 40)
        editor = Editor(machine)
        for _ in range(parts):
            editor.append("abcdefghij" * (PART_CHARS // 10))


# -- the bound -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("short")
def test_an_edit_that_makes_a_text_too_long_is_refused(node: Host) -> None:
    editor = Editor(node)
    editor.append("é" * 500)
    with pytest.raises(Refusal, match=r"the text 't' would have 1,001 bytes of UTF-8; at most 1,000") as refused:
        editor.edit(0, 0, "x")
    assert refused.value.code == "too_large"
    editor.replica = Editor(node).replica
    assert editor.read() == "é" * 500
    editor.edit(0, 1, "xy")
    assert texts_of(node) == ["xy" + "é" * 499]


def test_what_was_deleted_counts_until_it_is_compacted(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtsync.core.text.length_limit.DOCUMENT_BYTES_MAX", 1000)
    editor = Editor(node)
    editor.append("ab" * 20)

    def retype() -> None:
        for at in range(200):
            editor.edit(at % 40, at % 40 + 1, "x")

    with pytest.raises(Refusal, match=r"takes [\d,]+ bytes with what was deleted .* compact it") as refused:
        retype()
    assert refused.value.code == "too_large"
    editor.replica = Editor(node).replica
    editor.read()
    editor.edit(1, 40, "")  # no insertion: always allowed
    editor.compact()
    editor.read()
    editor.append("c")
    assert len(texts_of(node)[0]) == 2


@pytest.mark.usefixtures("short")
def test_a_new_text_has_the_same_bound(node: Host) -> None:
    with pytest.raises(Refusal, match="would have 1,001 bytes"):
        Editor(node).append("x" * 1001)
    assert texts_of(node) == []


@pytest.mark.usefixtures("short")
def test_so_have_all_edits_of_a_batch_together(node: Host) -> None:
    first, second, third = fresh_updates("x" * 1200, b"seed", 400)
    ann = node.agent("ann")

    def batch(*updates: bytes) -> list[list[object]]:
        return [["text_apply", {"key": "t", "update": update}] for update in updates]

    with pytest.raises(Refusal, match="would have 1,200 bytes"):
        ann.do("batch", ops=batch(first, second, third))
    assert texts_of(node) == []
    ann.do("batch", ops=batch(first, second))
    with pytest.raises(Refusal, match="would have 1,200 bytes"):
        ann.do("batch", ops=batch(third))
    ann.do("batch", ops=batch(second))  # again: it makes the text no longer
    assert texts_of(node) == ["x" * 800]


@pytest.mark.usefixtures("short")
def test_edits_of_two_hosts_may_add_up_to_more_and_can_be_shortened(pair: Fleet) -> None:
    Editor(pair["a"]).append("-")
    pair.sync()
    pair.wires[0].close()
    for name in "ab":
        editor = Editor(pair[name])
        editor.read()
        editor.append(name * 900)
    heal(pair)
    editor = Editor(pair["a"])
    text = editor.read()
    assert len(text) == 1801
    with pytest.raises(Refusal, match="would have 1,802 bytes"):
        editor.append("x")
    editor = Editor(pair["a"])
    editor.read()
    editor.edit(0, 300, "shorter")
    editor.edit(0, 5, "longe")  # as long as before
    editor.compact()
    assert texts_of(pair["a"]) == ["longeer" + text[300:]]


def test_the_longest_text_can_be_told_and_compacted(node: Host) -> None:
    copy, editor = Copy(node), Editor(node)
    while (left := TEXT_BYTES_MAX - len(editor.replica.content)) > 0:
        editor.append("x" * min(left, PART_CHARS))
    editor.edit_all([(at, at + 1, "y") for at in range(0, 300_000, 1000)])
    before = editor.read()
    reply = editor.compact()
    assert reply["bytes_after"] < reply["bytes_before"]
    assert copy.state["t"] == texts_of(node)[0] == before
    with pytest.raises(Refusal, match="too_large"):
        editor.append("x")


# -- texts beyond it -------------------------------------------------------------------------------------------------


def test_a_text_too_long_for_a_frame_breaks_no_mirror_and_no_watch(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = node.agent("ann")
    ann.set("small", 1)
    copy, watcher = Copy(node), watch(node)
    watcher.told()
    grow(node, monkeypatch, 11)
    settle(node)
    for one in (copy, Copy(node)):
        assert (one.state["small"], "t" in one.state) == (1, True)
        with pytest.raises(TooLarge, match="this text is too large for a mirror"):
            _ = one.state["t"]
    assert all(len(pack(event)) < 1024 * 1024 for event in watcher.told())
    large = next(event for event in watch(node).told() if event["key"] == "t")
    assert (large["event"], large["value"], large["cut"]) == ("snapshot", None, True)
    ann.set("small", 2)
    assert copy.state["small"] == 2
    with pytest.raises(Refusal, match=r"the text 't' has 8,800,000 bytes; .* can only be deleted") as refused:
        ann.ask("get", key="t")
    assert refused.value.code == "too_large"
    with pytest.raises(Refusal, match=r"the text 't' takes 8,800,\d+ bytes .* compact it"):
        Editor(node).read()
    ann.do_slowly("text_compact", key="t")
    ann.do("delete", key="t")
    ann.set("t", "short")
    assert copy.state["t"] == "short"


def test_one_that_fits_into_a_reply_stays_readable(node: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the values that it has as siblings, in a mirror and a watch it does not."""
    grow(node, monkeypatch, 10)
    assert len(unpack(node.agent("ann").ask("get", key="t")["value"])) == 10 * PART_CHARS
    assert Editor(node).read() == "abcdefghij" * PART_CHARS
    assert not [event for event in watch(node).told() if event["value"] is not None]


# -- whatever makes an event long ------------------------------------------------------------------------------------


def test_long_tokens_leave_a_batch_before_its_values_do(monkeypatch: pytest.MonkeyPatch) -> None:
    event = {"event": "set", "op": "set", "key": "k", "value": pack("x"), "version": "v", "token": "t" * 500}
    assert event_size.fitting([pack(event)] * 3) == [pack(event)] * 3
    monkeypatch.setattr(event_size, "BATCH_BYTES_MAX", 1000)
    assert event_size.fitting([pack(event)] * 3) == [pack(event | {"token": None})] * 3


def test_an_event_that_would_fit_into_no_frame_is_told_without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    event = {"event": "set", "key": "k", "value": b"x" * 2_000, "version": "v", "token": "t"}
    batch = {"event": "batch", "key": None, "events": [event, event], "token": "t"}
    monkeypatch.setattr(events, "EVENT_BYTES_MAX", 1_500)
    monkeypatch.setattr(events, "FRAME_BYTES_MAX", 1_000)
    ready = events.event_frames(7, [pack(event), pack({"event": "current"}), pack(batch)])
    assert all(len(data) < 1_500 for data in ready)
    slim, current, whole = (unpack(data[4:])[2][0] for data in ready)
    assert (slim["key"], slim["value"], slim["cut"], slim["token"]) == ("k", None, True, "t")
    assert current == {"event": "current"}
    assert [one["value"] for one in whole["events"]] == [None, None]
