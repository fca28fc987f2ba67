"""Reads show the winner, the siblings, pages and ranges, as they are documented."""

from __future__ import annotations

from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync.core.kinds import base as rules
from crdtsync.core.reads import pages
from crdtsync.core.text.document import Document
from crdtsync.errors import CrdtSyncError
from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Refusal


def test_absent(node):
    ann = node.agent()
    assert ann.ask("get", key="k") is None
    assert ann.ask("entry", key="k") is None
    assert ann.ask("text_read", key="k") is None
    assert ann.ask("text_updates", key="k") is None
    assert ann.ask("log", key="k")["items"] == []
    assert {name: ann.ask("scan")[name] for name in ("items", "more")} == {"items": [], "more": False}


def test_the_winner_is_the_same_on_every_node(trio):
    for wire in list(trio.wires):
        wire.close()
    trio.sync()
    for name in "cab":
        trio[name].agent().set("k", name)
        trio.pass_time(0.001)
    for pair in ("ab", "bc", "ca"):
        trio.link(*pair)
    trio.run(3)
    orders = [trio[name].agent().values("k") for name in "abc"]
    assert orders == [["b", "a", "c"]] * 3  # the latest first


def test_an_entry_says_all_that_is_known_of_it(node):
    ann = node.agent("ann")
    written = ann.set("k", [1, "x"], ttl=5000, confidence=0.25, meta=pack({"why": "test"}))
    entry = ann.ask("entry", key="k")
    assert entry == {
        "key": "k",
        "kind": "register",
        "value": pack([1, "x"]),
        "version": written["version"],
        "agent": "ann",
        "node": "a",
        "dot": f"{node.replica.writer}.1.0",
        "time": node.fleet.now.wall_ms,
        "confidence": 0.25,
        "meta": pack({"why": "test"}),
        "ttl": 5000,
        "policy": "lww",
        "siblings": [],
    }


def test_scan_in_order_by_prefix_and_in_pages(node):
    ann = node.agent()
    for key in ("b/2", "a/1", "b/10", "c", "b/1"):
        ann.set(key, key)
    keys = ["b/1", "b/10", "b/2"]
    assert [item[0] for item in ann.ask("scan", prefix="b/")["items"]] == keys
    page = ann.ask("scan", prefix="b/", limit=2, values=True)
    assert [(key, unpack(value)) for key, _, value, _, _ in page["items"]] == [("b/1", "b/1"), ("b/10", "b/10")]
    assert page["more"]
    rest = ann.ask("scan", prefix="b/", limit=2, start="b/10")
    assert [item[0] for item in rest["items"]] == ["b/2"]
    assert not rest["more"]


def test_scan_pages_end_early_by_size(node, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_BYTES_MAX", 1000)
    ann = node.agent()
    for n in range(10):
        ann.set(f"k{n}", bytes(300))
    found, start = [], ""
    while True:
        page = ann.ask("scan", values=True, start=start)
        assert 1 <= len(page["items"]) <= 4
        found += [item[0] for item in page["items"]]
        start = found[-1]
        if not page["more"]:
            break
    assert found == [f"k{n}" for n in range(10)]


def test_scan_leaves_out_what_has_expired(node):
    ann = node.agent()
    ann.set("gone", 1, ttl=10)
    ann.append("log", 1)
    node.fleet.pass_time(1)
    page = ann.ask("scan", values=True)
    assert [(key, kind, unpack(value)) for key, kind, value, _, _ in page["items"]] == [("log", "log", [1])]


def test_scan_shows_logs_and_texts_that_are_short(node):
    """What one page shows is of one moment, so what is left out of it has to be as little as can be."""
    ann = node.agent()
    for n in range(rules.INLINE_ENTRIES_MAX + 1):
        ann.append("log/many", n)
    ann.append("log/long", "x" * rules.INLINE_BYTES_MAX)
    ann.append("log/short", "x" * (rules.INLINE_BYTES_MAX - 3))
    ann.do("text_apply", key="text/long", update=Writer().insert(0, "é" * (rules.INLINE_BYTES_MAX // 2) + "x"))
    ann.do("text_apply", key="text/short", update=Writer().insert(0, "é" * (rules.INLINE_BYTES_MAX // 2)))
    for rows in (ann.ask("scan", values=True)["items"], ann.ask("scan", values=True, entries=True)["items"]):
        values = {row["key"]: row["value"] for row in rows} if isinstance(rows[0], dict) else {r[0]: r[2] for r in rows}
        assert [key for key, value in values.items() if value is None] == ["log/long", "log/many", "text/long"]
        assert all(unpack(values[key]) == ann.get(key) for key in ("log/short", "text/short"))


def test_scan_pages_end_early_when_many_texts_come_from_disk(node, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_OPENED_TEXTS_MAX", 2)
    ann = node.agent()
    for n in range(5):
        ann.do("text_apply", key=f"t{n}", update=Writer().insert(0, f"text {n}"))
    assert len(ann.ask("scan", values=True)["items"]) == 5, "all are in memory"
    node.restart()
    ann = node.agent()
    assert len(ann.ask("scan")["items"]) == 5, "nobody asked for values"
    found: list[Any] = []
    start = ""
    while not found or found[-1]["more"]:
        found.append(ann.ask("scan", values=True, start=start))
        start = found[-1]["items"][-1][0]
    assert [[unpack(item[2]) for item in page["items"]] for page in found] == [
        ["text 0", "text 1"],
        ["text 2", "text 3"],
        ["text 4"],
    ]


def test_a_text_that_cannot_be_read_is_left_out_of_a_scan_alone(node, monkeypatch):
    ann = node.agent()
    ann.set("a", 1)
    ann.do("text_apply", key="t", update=Writer().insert(0, "hello"))

    def fail(_document):
        raise CrdtSyncError("the text cannot be read")

    monkeypatch.setattr(Document, "text_bytes", fail)
    assert [row[2] for row in ann.ask("scan", values=True)["items"]] == [pack(1), None]


def test_the_version_of_a_page_of_a_long_map_holds_whatever_else_is_written(node):
    """It named all that the space had, so nothing could be written by it."""
    ann = node.agent("ann")
    for n in range(70):
        ann.do("merge", key="m", fields={f"f{n:03}": pack(n)})
    ann.set("other", 1)
    page = ann.ask("fields", key="m", limit=10)
    assert page["version"] == ann.ask("get", key="m")["version"]
    ann.do("merge", key="m", fields={"f000": pack(1)}, if_version=page["version"])


@pytest.mark.parametrize(
    "start, limit, wanted",
    [(0, 3, [0, 1, 2]), (7, 100, [7, 8, 9]), (-2, 100, [8, 9]), (-50, 1, [0]), (10, 5, []), (99, 5, [])],
)
def test_a_range_of_a_log(node, start, limit, wanted):
    ann = node.agent()
    for n in range(10):
        ann.append("log", n)
    result = ann.ask("log", key="log", start=start, limit=limit)
    assert [unpack(item[0]) for item in result["items"]] == wanted
    assert result["length"] == 10
    assert not wanted or result["start"] == wanted[0]


def test_a_log_as_a_whole(node):
    ann = node.agent()
    for n in range(20):
        ann.append("log", n)
    assert ann.get("log") == [*range(20)]


def test_a_log_too_large_for_one_reply_is_read_in_parts(node):
    ann = node.agent()
    for _ in range(5):
        ann.append("log", bytes(1_000_000))
    with pytest.raises(Refusal, match="in parts"):
        ann.get("log")
    first = ann.ask("log", key="log")
    assert 1 <= len(first["items"]) < 5
    rest = ann.ask("log", key="log", start=len(first["items"]), limit=1)
    assert len(rest["items"]) == 1


@pytest.mark.parametrize("read, kind", [("log", "register"), ("text_read", "register"), ("text_updates", "register")])
def test_reading_another_kind(node, read, kind):
    ann = node.agent()
    ann.set("k", 1)
    with pytest.raises(Refusal, match=kind) as refusal:
        ann.ask(read, key="k")
    assert refusal.value.code == "kind_mismatch"


@pytest.mark.parametrize(
    "read, args",
    [
        ("get", {}),
        ("get", {"key": 5}),
        ("get", {"key": ""}),
        ("scan", {"prefix": 5}),
        ("scan", {"limit": 0}),
        ("scan", {"limit": 1001}),
        ("scan", {"limit": True}),
        ("scan", {"start": None}),
        ("log", {"key": "k", "start": "1"}),
        ("log", {"key": "k", "limit": -1}),
        ("get", {"key": "k", "after": "garbage"}),
        ("get", {"key": "k", "after": 5}),
        ("get", {"key": "k", "space": "nowhere"}),
        ("text_read", {"key": 1}),
        ("text_read", {"key": "k", "sibling": 1}),
        ("text_read", {"key": "k", "sibling": "1.1.1"}),
        ("watch", {"prefix": 7}),
        ("watch", {"after": "c1.zzz"}),
        ("unwatch", {"watch": []}),
        ("unwatch", {}),
        ("wait", {}),
        ("wait", {"token": "x"}),
    ],
)
def test_what_makes_no_sense_is_refused(node, read, args):
    ann = node.agent()
    with pytest.raises(Refusal) as refusal:
        ann.ask(read, **args)
    assert refusal.value.code in ("invalid_request", "unknown_space")


# -- texts -----------------------------------------------------------------------------------------------------------


class Writer:
    """A replica of a text that makes edits."""

    def __init__(self, update=None) -> None:
        self.doc: Doc[Text] = Doc()
        if update is not None:
            self.doc.apply_update(update)
        self.text = self.doc.get("text", type=Text)

    def insert(self, at, word):
        before = self.doc.get_state()
        self.text.insert(at, word)
        return self.doc.get_update(before)


def test_a_text_is_read_whole_or_from_where_the_reader_is(node):
    ann = node.agent()
    writer = Writer()
    document = ann.do("text_apply", key="t", update=writer.insert(0, "hello"))["document"]
    whole = ann.ask("text_read", key="t")
    assert whole["document"] == document
    reader = Writer(whole["update"])
    assert str(reader.text) == "hello"
    ann.do("text_apply", key="t", document=document, update=writer.insert(5, " world"))
    rest = ann.ask("text_read", key="t", document=document, state=reader.doc.get_state())
    assert len(rest["update"]) < len(ann.ask("text_read", key="t")["update"])
    reader.doc.apply_update(rest["update"])
    assert str(reader.text) == ann.get("t") == "hello world"


def test_the_state_of_another_document_gets_the_whole_text(node):
    ann = node.agent()
    ann.do("text_apply", key="t", update=Writer().insert(0, "hello"))
    other = Writer()
    other.insert(0, "x")
    known = Writer(ann.ask("text_read", key="t")["update"])  # as of this one, if it were believed
    for state in (other.doc.get_state(), known.doc.get_state()):
        got = ann.ask("text_read", key="t", document="1.2.3", state=state)
        assert str(Writer(got["update"]).text) == "hello"


@pytest.mark.parametrize("state", [b"\xff", b"\x01", 5, b"\x01\x01" + b"\xff" * 9])
def test_a_state_that_is_none(node, state):
    ann = node.agent()
    document = ann.do("text_apply", key="t", update=Writer().insert(0, "hello"))["document"]
    with pytest.raises(Refusal):
        ann.ask("text_read", key="t", document=document, state=state)


@pytest.mark.parametrize("clock", [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53])
def test_a_state_with_a_clock_that_nobody_reached(node, clock):
    ann = node.agent()
    document = ann.do("text_apply", key="t", update=Writer().insert(0, "hello"))["document"]
    state = b"\x01\x05" + b"".join(
        bytes([clock >> 7 * i & 0x7F | (0x80 if clock >> 7 * (i + 1) else 0)])
        for i in range((clock.bit_length() + 6) // 7)
    )
    request = ann.send("text_read", key="t", document=document, state=state)
    node.turn()
    status, content = ann.replies[request]
    assert content["code"] == "invalid_value" if status else str(Writer(content["update"]).text) == "hello"


def test_the_edits_of_a_text_in_pages(node):
    ann = node.agent()
    writer = Writer()
    document = ann.do("text_apply", key="t", update=writer.insert(0, "0"))["document"]
    for n in range(1, 10):
        ann.do("text_apply", key="t", document=document, update=writer.insert(n, str(n)))
    reader, token = Writer(), None
    found_pages = 0
    while True:
        page = ann.ask("text_updates", key="t", limit=3, **({"after": token} if token else {}))
        assert len(page["items"]) <= 3
        for update, *_ in page["items"]:
            reader.doc.apply_update(update)
        token = page["token"]
        found_pages += 1
        if not page["more"]:
            break
    assert (str(reader.text), found_pages) == ("0123456789", 4)
    assert ann.ask("text_updates", key="t", after=token)["items"] == []


def test_edits_of_two_hosts_merge(pair):
    ann, bob = pair["a"].agent(), pair["b"].agent()
    base = Writer()
    document = ann.do("text_apply", key="t", update=base.insert(0, "middle"))["document"]
    pair.run(2)
    pair.wires[0].close()
    pair.sync()
    for agent, at, word in ((ann, 0, "front "), (bob, 6, " back")):
        copy = Writer(agent.ask("text_read", key="t")["update"])
        agent.do("text_apply", key="t", document=document, update=copy.insert(at, word))
    pair.link("a", "b")
    pair.run(3)
    assert ann.get("t") == bob.get("t") == "front middle back"
    assert ann.ask("get", key="t")["siblings"] == 0
    pair["a"].restart()
    assert pair["a"].agent().get("t") == "front middle back"


def test_two_hosts_that_create_one_text_make_siblings(apart):
    for name in "ab":
        apart[name].agent().do("text_apply", key="t", update=Writer().insert(0, name))
    apart.link("a", "b")
    apart.run(3)
    for name in "ab":
        assert sorted(apart[name].agent().values("t")) == ["a", "b"]


def test_an_edit_on_what_this_daemon_does_not_hold_is_refused(node):
    ann = node.agent()
    writer = Writer()
    document = ann.do("text_apply", key="t", update=writer.insert(0, "hello"))["document"]
    writer.insert(5, " lost")
    with pytest.raises(Refusal) as refusal:
        ann.do("text_apply", key="t", document=document, update=writer.insert(10, " world"))
    assert refusal.value.code == "invalid_value"
    assert ann.get("t") == "hello"
