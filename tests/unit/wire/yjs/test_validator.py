"""Genuine Yjs updates pass in every causal order; whatever pycrdt must not see is refused, with the reason."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pycrdt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.wire.yjs import encoding, validator
from crdtsync.wire.yjs.validator import InvalidUpdate, Outline, UpdateSummary, advance, validate_update
from fuzz.yjs_sessions import KINDS, Replica, session
from fuzz.yjs_updates import fuzz
from fuzz.yjs_worker import Worker, state_of

ROOTS = KINDS


# -- updates by hand --------------------------------------------------------------------------------------------------


def uint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def string(value):
    data = value if isinstance(value, bytes) else value.encode()
    return uint(len(data)) + data


def item(kind, content, origin=None, right=None, parent=None, key=None):
    """One item; ``parent`` is a root's name or an id and needed only without origins."""
    info = kind | 0x80 * (origin is not None) | 0x40 * (right is not None) | 0x20 * (key is not None)
    out = bytes([info])
    for pair in (origin, right):
        if pair is not None:
            out += uint(pair[0]) + uint(pair[1])
    if origin is None and right is None:
        out += b"\1" + string(parent) if isinstance(parent, str) else b"\0" + uint(parent[0]) + uint(parent[1])
        if key is not None:
            out += string(key)
    return out + content


def text(value, **where):
    return item(4, string(value), **(where or {"parent": "text"}))


def anys(*values, **where):
    return item(8, uint(len(values)) + b"".join(values), **(where or {"parent": "array"}))


def shared(kind, **where):
    return item(7, bytes([kind]) if isinstance(kind, int) else kind, **(where or {"parent": "array"}))


def embed(json, **where):
    return item(5, string(json), **(where or {"parent": "text"}))


def gc(length):
    return b"\0" + uint(length)


def update(*sections, deletes=()):
    """Sections are (client, clock, structs…), deletes (client, (clock, length)…)."""
    out = uint(len(sections))
    for client, clock, *structs in sections:
        out += uint(len(structs)) + uint(client) + uint(clock) + b"".join(structs)
    out += uint(len(deletes))
    for client, *ranges in deletes:
        out += uint(client) + uint(len(ranges)) + b"".join(uint(clock) + uint(size) for clock, size in ranges)
    return out


def outline(*updates):
    """An outline of a document that holds these updates."""
    known = Outline(ROOTS)
    for data in updates:
        advance(known, validate_update(data, known))
    return known


def state(doc):
    """A document's state vector."""
    return state_of(doc)


# -- what is genuine passes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_every_update_of_a_session_passes_and_its_ranges_are_what_the_document_holds(seed):
    updates = session(random.Random(seed), 30, only_text=seed % 2 == 0)
    doc: Any = pycrdt.Doc()
    known = Outline(ROOTS)
    plain: dict[int, int] = {}
    assert updates
    for data in updates:
        summary = validate_update(data, known)
        assert summary == validate_update(data, plain)
        assert summary.parts > 0
        advance(known, summary)
        advance(plain, summary)
        doc.apply_update(data)
        assert known == plain == state(doc)


@pytest.mark.parametrize("seed", range(5))
def test_every_replica_passes_all_updates_in_its_own_causal_order(seed):
    rng = random.Random(seed)
    replicas = [Replica(client_id, rng) for client_id in rng.sample(range(1, 2**53), rng.randint(2, 4))]
    known = [Outline(ROOTS) for _ in replicas]
    sent: list[tuple[int, bytes]] = []

    def deliver(index):
        for author, data in sent[replicas[index].applied :]:
            if author != index:
                advance(known[index], validate_update(data, known[index]))
                replicas[index].receive(data)
                assert known[index] == state(replicas[index].doc)
        replicas[index].applied = len(sent)

    for _ in range(40):
        index = rng.randrange(len(replicas))
        if rng.random() < 0.4:
            deliver(index)
        replicas[index].edit()
        for data in replicas[index].made:
            advance(known[index], validate_update(data, known[index]))
            sent.append((index, data))
        replicas[index].made.clear()
    for index in range(len(replicas)):
        deliver(index)
    assert known[0]
    assert all(each == known[0] for each in known)


@pytest.mark.parametrize("seed", range(5))
def test_whole_documents_differences_and_merged_updates_pass(seed):
    rng = random.Random(1000 + seed)
    updates = session(rng, 25)
    half = len(updates) // 2
    early: Any = pycrdt.Doc()
    late: Any = pycrdt.Doc()
    for data in updates[:half]:
        early.apply_update(data)
    for data in updates:
        late.apply_update(data)
    known = outline(early.get_update())
    assert known == state(early)
    for data in (
        late.get_update(early.get_state()),
        late.get_update(),
        pycrdt.merge_updates(*updates[half:], b"\0\0"),
        pycrdt.merge_updates(*updates),
        *updates[half:],
    ):
        after = Outline(ROOTS)
        advance(after, validate_update(early.get_update(), after))
        if data not in updates:
            advance(after, validate_update(data, after))
            assert after == state(late)
    for data in updates[half:]:
        advance(known, validate_update(data, known))
    assert known == state(late)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_may_come_again(seed):
    updates = session(random.Random(2000 + seed), 20)
    known = outline(*updates)
    before = dict(known)
    for data in updates:
        advance(known, validate_update(data, known))
    assert known == before


edits = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 60), st.text(max_size=6), st.booleans()), max_size=25)


@given(edits)
def test_any_text_passes(steps):
    """Whatever two people type and delete, characters of any plane included."""
    docs: list[Any] = [pycrdt.Doc(client_id=1), pycrdt.Doc(client_id=2)]
    texts = [doc.get("text", type=pycrdt.Text) for doc in docs]
    known = Outline(ROOTS)
    for who, at, typed, deletes in steps:
        other = docs[1 - who]
        string_now = str(texts[who])
        start = len(string_now[:at].encode())
        before = docs[who].get_state()
        if deletes:
            del texts[who][start : start + len(string_now[at : at + 3].encode())]
        else:
            texts[who].insert(start, typed)
        data = docs[who].get_update(before)
        advance(known, validate_update(data, known))
        if at % 3:
            other.apply_update(docs[who].get_update())
            docs[who].apply_update(other.get_update())
    for doc in docs:
        fresh = Outline(ROOTS)
        advance(fresh, validate_update(doc.get_update(), fresh))
        assert fresh == state(doc)


GOOD = {
    "nothing": b"\0\0",
    "ascii": update((1, 0, text("abc"))),
    "astral": update((1, 0, text("a😀b"), text("x", origin=(1, 3)))),
    "surrogates side by side": update((1, 0, text("😀😀"), text("x", origin=(1, 1), right=(1, 2)))),
    "noncharacters and nul": update((1, 0, text("\0\uffff\ufdd0\U0010ffff"))),
    "values": update((1, 0, anys(b"\x7f", b"\x7e", b"\x7d\x00", b"\x7d\x7f", b"\x7d\xbf\x01", b"\x78", b"\x79"))),
    "numbers": update((1, 0, anys(b"\x7c" + bytes(4), b"\x7b" + b"\xff" * 8, b"\x7a" + b"\x80" + bytes(7)))),
    "negative zero and -2^53+1": update((1, 0, anys(b"\x7d\x40", b"\x7d\xff\xff\xff\xff\xff\xff\xff\x0f"))),
    "nested values": update((1, 0, anys(b"\x75\x02\x76\x01\x01k\x77\x01v\x74\x02\x00\xff"))),
    "binary": update((1, 0, item(3, string(b"\xff\xfe"), parent="array"))),
    "embed": update((1, 0, embed('{"image":["a",1.5,null,"\\ud83d\\ude00"]}'))),
    "format": update((1, 0, item(6, string("bold") + string("true"), parent="text"))),
    "xml": update((1, 0, shared(b"\x03\x01p", parent="xml"), shared(6, parent=(1, 0)), text("x", parent=(1, 1)))),
    "xml attribute": update((1, 0, shared(b"\x03\x01p", parent="xml"), anys(b"\x77\x01v", parent=(1, 0), key="id"))),
    "map of types": update((1, 0, shared(1, parent="map", key="k"), anys(b"\x78", parent=(1, 0), key="x"))),
    "gc": update((1, 0, gc(2**20), text("x", origin=(1, 7)))),
    "deleted content": update((1, 0, item(1, uint(9), parent="text"), text("x", origin=(1, 8)))),
    "a child of what is gone": update((1, 0, gc(3), anys(b"\x7f", parent=(1, 1)))),
    "a nested type in what is gone": update(
        (1, 0, gc(3), shared(1, parent=(1, 1)), anys(b"\x7f", parent=(1, 3), key="k"))
    ),
    "unread root": update((1, 0, text("x", parent="other"), anys(b"\x7f", parent="other"))),
    "largest client": update((2**53 - 1, 0, text("x"))),
    "largest clock": update((1, 0, gc(2**31 - 2), text("x"))),
    "deletes": update((1, 0, text("abcdef")), deletes=((1, (0, 1), (1, 2), (5, 1)),)),
    "no ranges": update((1, 0, text("a")), deletes=((1,),)),
    "clients that wait for each other in turn": update(
        (2, 0, text("a", origin=(1, 0)), text("b", origin=(1, 1))), (1, 0, text("c"), text("d", origin=(2, 0)))
    ),
    "later client first": update((1, 0, text("a", origin=(3, 1), right=(3, 2))), (3, 0, text("xyz"))),
}


@pytest.mark.parametrize("name", GOOD)
def test_unusual_but_sound_updates_pass_and_pycrdt_agrees(name):
    doc: Any = pycrdt.Doc()
    for root, kind in (
        ("text", pycrdt.Text),
        ("array", pycrdt.Array),
        ("map", pycrdt.Map),
        ("xml", pycrdt.XmlFragment),
    ):
        doc.get(root, type=kind)
    known = outline(GOOD[name])
    doc.apply_update(GOOD[name])
    assert state(doc) == known
    assert validate_update(doc.get_update(), Outline(ROOTS)).ranges.keys() == known.keys()


# -- what is not, does not --------------------------------------------------------------------------------------------


def deep_any(levels):
    return b"\x75\x01" * levels + b"\x7f"


def nested_types(levels):
    return [shared(0), *(shared(0, parent=(1, level)) for level in range(levels - 1))]


BAD = {
    # varints and counts
    "nothing at all": (b"", "ends inside a value"),
    "trailing byte": (update((1, 0, text("a"))) + b"\0", "1 bytes follow the delete set"),
    "a long zero": (b"\x80\x00\x00", "longer than it needs to be"),
    "an endless integer": (b"\x80" * 40, "over 9 bytes"),
    "2^63 clients": (uint(2**62) + bytes(9), "clients are announced"),
    "more clients than bytes": (b"\x05" + bytes(20), "5 clients are announced and 20 bytes are left"),
    "more structs than bytes": (b"\x01\xff\xff\xff\xff\x0f\x01\x00\x04", "structs are announced"),
    "more deletes than bytes": (b"\x00\x01\x01\x09\x00\x01", "9 ranges are announced"),
    "more values than bytes": (update((1, 0, item(8, uint(2**31) + b"\x7f", parent="array"))), "values are announced"),
    "a longer string than bytes": (update((1, 0, item(4, uint(99) + b"a", parent="text"))), "99 bytes are announced"),
    "no structs": (b"\x01\x00\x01\x00\x00\x00\x00\x00", "client 1 has no structs"),
    "a client twice": (update((1, 0, text("a")), (1, 1, text("b"))), "client 1 occurs twice"),
    "client 2^53": (update((2**53, 0, text("a"))), "client id 9007199254740992 is too high"),
    "clock 2^31": (update((1, 0, gc(2**31 - 1), text("a"))), "ends at clock 2147483648"),
    "length 2^32": (update((1, 0, gc(2**32))), "ends at clock 4294967296"),
    # structs
    "skip": (update((1, 0, b"\x0a\x01")), "content kind 10"),
    "gc with flags": (update((1, 0, b"\x80\x01\x00\x01")), "content kind 0"),
    "gc of nothing": (update((1, 0, gc(0))), "length 0"),
    "empty string": (update((1, 0, text(""))), "length 0"),
    "no values": (update((1, 0, anys())), "length 0"),
    "JSON content": (update((1, 0, item(2, b"\x01\x011", parent="array"))), "content kind 2"),
    "subdocument": (update((1, 0, item(9, string("guid") + b"\x76\x00", parent="array"))), "content kind 9"),
    "move": (update((1, 0, item(11, b"\x00\x01\x00", parent="array"))), "content kind 11"),
    "bit 4": (update((1, 0, item(0x14, string("a"), parent="text"))), "content kind 20"),
    "parent tag 2": (update((1, 0, b"\x04\x02\x01t\x01a")), "parent tag 2"),
    "long root name": (update((1, 0, text("a", parent="r" * 1025))), "root name has 1025 bytes"),
    "xml hook": (update((1, 0, shared(b"\x05\x01h"))), "shared type 5"),
    "weak link": (update((1, 0, shared(7))), "shared type 7"),
    # strings and values
    "invalid UTF-8": (update((1, 0, text(b"a\xff"))), r"invalid UTF-8 \(invalid start byte\), at byte 13"),
    "lone surrogate": (update((1, 0, text(b"\xed\xa0\xbd"))), "invalid UTF-8"),
    "overlong": (update((1, 0, text(b"\xc0\x80"))), "invalid UTF-8"),
    "over 10ffff": (update((1, 0, text(b"\xf4\x90\x80\x80"))), "invalid UTF-8"),
    "root name": (b"\x01\x01\x01\x00\x04\x01\x01\xff\x01a\x00", "invalid UTF-8"),
    "key": (update((1, 0, anys(b"\x7f", parent="map", key=b"\xff"))), "invalid UTF-8"),
    "value tag": (update((1, 0, anys(b"\x73"))), "value tag 115"),
    "value string": (update((1, 0, anys(b"\x77\x01\xff"))), "invalid UTF-8"),
    "value key": (update((1, 0, anys(b"\x76\x01\x01\xff\x7f"))), "invalid UTF-8"),
    "value integer": (update((1, 0, anys(b"\x7d" + b"\xff" * 8 + b"\x01"))), "over 53 bits"),
    "value depth": (update((1, 0, anys(deep_any(65)))), "nested too deeply"),
    "JSON text": (update((1, 0, embed("{"))), "invalid JSON"),
    "JSON NaN": (update((1, 0, embed("NaN"))), "NaN is not JSON"),
    "JSON number": (update((1, 0, embed("1e999"))), "out of range"),
    "JSON 64 bits": (update((1, 0, embed(str(2**63)))), "64th bit"),
    "JSON depth": (update((1, 0, embed("[" * 65 + "]" * 65))), "nested too deeply"),
    "JSON great depth": (update((1, 0, embed("[" * 100_000 + "]" * 100_000))), "invalid JSON"),
    "JSON surrogate": (update((1, 0, embed('{"\\ud800":1}'))), "invalid JSON"),
    "format value": (update((1, 0, item(6, string("bold") + string("yes"), parent="text"))), "invalid JSON"),
    # references
    "first clock": (update((1, 1, text("a"))), "client 1 starts at clock 1"),
    "own later clock": (update((1, 0, text("ab", origin=(1, 2)), text("c"))), "refers to 2 of its own client"),
    "itself": (update((1, 0, text("ab", right=(1, 0)))), "refers to 0 of its own client"),
    "unknown client": (update((1, 0, text("a", origin=(2, 0)))), "clock 0 of client 2 is not known"),
    "beyond the update": (
        update((2, 0, text("a", right=(1, 1))), (1, 0, text("x"))),
        "clock 1 of client 1 is not known",
    ),
    "unknown parent": (update((1, 0, anys(b"\x7f", parent=(2, 0)))), "clock 0 of client 2 is not known"),
    "circle": (update((2, 0, text("a", origin=(1, 0))), (1, 0, text("b", origin=(2, 0)))), "waits for what waits"),
    "one neighbour twice": (
        update((1, 0, text("ab"), text("c", origin=(1, 0), right=(1, 0)))),
        "both after and before",
    ),
    "a string as parent": (update((1, 0, text("ab"), text("c", parent=(1, 1)))), "is no shared type"),
    "inside a pair, left": (update((1, 0, text("😀"), text("b", origin=(1, 0)))), "inside a surrogate pair"),
    "inside a pair, right": (update((1, 0, text("😀"), text("b", right=(1, 1)))), "inside a surrogate pair"),
    "parents differ": (
        update((1, 0, text("ab"), text("c", parent="other"), text("d", origin=(1, 0), right=(1, 2)))),
        "different parents",
    ),
    "keys differ": (
        update(
            (1, 0, anys(b"\x7f"), anys(b"\x7f", parent="array", key="k"), anys(b"\x7f", origin=(1, 0), right=(1, 1)))
        ),
        "different parents",
    ),
    # what a type can hold
    "string in array": (update((1, 0, text("日本", parent="array"))), "content kind 4 in shared type 0"),
    "string in nested array": (update((1, 0, shared(0), text("a", parent=(1, 0)))), "content kind 4 in shared type 0"),
    "string beside a value": (update((1, 0, anys(b"\x7f"), text("a", origin=(1, 0)))), "content kind 4 in shared"),
    "value in text": (update((1, 0, anys(b"\x7f", parent="text"))), "content kind 8 in shared type 2"),
    "value in map without key": (update((1, 0, anys(b"\x7f", parent="map"))), "content kind 8 in shared type 1"),
    "string under a key": (update((1, 0, text("a", parent="map", key="k"))), "content kind 4 in shared type 1"),
    "map in xml": (update((1, 0, shared(1, parent="xml"))), "shared type 1 in shared type 4"),
    "deep types": (update((1, 0, *nested_types(65))), "shared types are nested too deeply"),
    # deletes
    "delete of the unknown": (update(deletes=((1, (0, 1)),)), "deletes clocks up to 1"),
    "delete beyond": (update((1, 0, text("ab")), deletes=((1, (1, 2)),)), "deletes clocks up to 3"),
    "delete wraps": (update((1, 0, text("ab")), deletes=((1, (1, 2**32 - 1)),)), "deletes clocks up to"),
    "empty delete": (update((1, 0, text("ab")), deletes=((1, (0, 0)),)), "deletes clock 0, 0 long"),
    "falling deletes": (update((1, 0, text("ab")), deletes=((1, (1, 1), (0, 1)),)), "deletes clock 0"),
    "overlapping deletes": (update((1, 0, text("abc")), deletes=((1, (0, 2), (1, 1)),)), "deletes clock 1"),
    "deletes twice": (update((1, 0, text("ab")), deletes=((1, (0, 1)), (1, (1, 1)))), "client 1 occurs twice"),
    "half a pair, first": (update((1, 0, text("a😀")), deletes=((1, (0, 2)),)), "half of a surrogate pair"),
    "half a pair, second": (update((1, 0, text("a😀")), deletes=((1, (2, 1)),)), "half of a surrogate pair"),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_with_the_reason(name):
    data, reason = BAD[name]
    with pytest.raises(InvalidUpdate, match=reason) as caught:
        validate_update(data, Outline(ROOTS))
    assert ", at byte " in str(caught.value)
    assert "; expected " in str(caught.value)


@pytest.mark.parametrize("seed", range(2))
def test_truncated_anywhere_or_followed_by_anything_is_refused(seed):
    updates = session(random.Random(3000 + seed), 12)
    known = Outline(ROOTS)
    for data in updates:
        for size in range(len(data)):
            with pytest.raises(InvalidUpdate):
                validate_update(data[:size], known)
        for extra in (b"\0", b"\1", data):
            with pytest.raises(InvalidUpdate, match="bytes follow the delete set"):
                validate_update(data + extra, known)
        advance(known, validate_update(data, known))


@pytest.mark.parametrize("left_out", [0, 4, 8])
def test_any_update_left_out_makes_its_author_s_next_one_a_gap(left_out):
    doc: Any = pycrdt.Doc(client_id=7)
    typed = doc.get("text", type=pycrdt.Text)
    updates = []
    doc.observe(lambda event: updates.append(event.update))
    for number in range(10):
        typed.insert(0, str(number))
    known = outline(*updates[:left_out])
    with pytest.raises(InvalidUpdate, match=rf"client 7 starts at clock {left_out + 1}.*expected {left_out} at most"):
        validate_update(updates[left_out + 1], known)


@pytest.mark.parametrize("data", [b"", *(GOOD[name] for name in ("ascii", "astral", "values", "nested values", "xml"))])
def test_only_one_exception_ever_leaves(data):
    """Every byte replaced by every value, with and without what is known: a summary or InvalidUpdate."""
    knowns: tuple[dict[int, int], ...] = ({}, outline(update((1, 0, text("a😀b")), (2, 0, shared(0)))))
    for known in knowns:
        for at in range(len(data)):
            for byte in range(256):
                changed = data[:at] + bytes([byte]) + data[at + 1 :]
                with contextlib.suppress(InvalidUpdate):
                    assert isinstance(validate_update(changed, known), UpdateSummary)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_never_do_harm(data):
    with contextlib.suppress(InvalidUpdate):
        assert isinstance(validate_update(data, {1: 5, 2: 2**31 - 2}), UpdateSummary)


def test_size_and_number_of_structs_are_bounded(monkeypatch):
    monkeypatch.setattr(validator, "UPDATE_BYTES_MAX", 100)
    with pytest.raises(InvalidUpdate, match="the update has 101 bytes"):
        validate_update(bytes(101), {})
    monkeypatch.setattr(encoding, "STRUCTS_MAX", 3)
    three = update((1, 0, text("a"), text("b", origin=(1, 0))), (2, 0, text("c")))
    assert validate_update(three, {}).structs == 3
    with pytest.raises(InvalidUpdate, match="too many structs"):
        validate_update(update((1, 0, text("a"), text("b")), (2, 0, text("c"), text("d"))), {})


# -- against what the document holds ----------------------------------------------------------------------------------

HELD = update((1, 0, text("a😀b")), (2, 0, shared(0), anys(b"\x7f"), shared(b"\x03\x01p", parent="xml")))

BAD_AGAINST_HELD = {
    "string into the array, by origin": (update((3, 0, text("日", origin=(2, 1)))), "content kind 4 in shared type 0"),
    "string into the array, by parent": (update((3, 0, text("日", parent=(2, 0)))), "content kind 4 in shared type 0"),
    "string into the element": (update((3, 0, text("x", parent=(2, 2)))), "content kind 4 in shared type 3"),
    "value into the text": (update((3, 0, anys(b"\x7f", right=(1, 0)))), "content kind 8 in shared type 2"),
    "array into the element": (update((3, 0, shared(0, parent=(2, 2)))), "shared type 0 in shared type 3"),
    "parent is a string": (update((3, 0, text("x", parent=(1, 0)))), "is no shared type"),
    "parents differ": (update((3, 0, text("x", origin=(1, 0), right=(2, 0)))), "different parents"),
    "inside the pair, left": (update((3, 0, text("x", origin=(1, 1)))), "inside a surrogate pair"),
    "inside the pair, right": (update((3, 0, text("x", right=(1, 2)))), "inside a surrogate pair"),
    "delete half": (update(deletes=((1, (1, 1)),)), "half of a surrogate pair"),
    "delete from half": (update(deletes=((1, (2, 1)),)), "half of a surrogate pair"),
    "delete beyond": (update(deletes=((1, (4, 1)),)), "deletes clocks up to 5"),
    "gap": (update((1, 5, text("x"))), "client 1 starts at clock 5"),
    "overlap elsewhere": (update((1, 3, anys(b"\x7f", b"\x7f"))), "does not continue clock 3"),
    "overlap in a pair": (update((1, 3, text("😀x"))), "does not continue clock 3"),
    "unknown origin": (update((3, 0, text("x", origin=(1, 4)))), "clock 4 of client 1 is not known"),
}


@pytest.mark.parametrize("name", BAD_AGAINST_HELD)
def test_an_outline_refuses_what_would_harm_this_document(name):
    data, reason = BAD_AGAINST_HELD[name]
    with pytest.raises(InvalidUpdate, match=reason):
        validate_update(data, outline(HELD))


@pytest.mark.parametrize(
    "data",
    [
        update((3, 0, text("x", origin=(1, 0), right=(1, 1)))),
        update((3, 0, text("x", origin=(1, 2)))),
        update((3, 0, anys(b"\x7f", parent=(2, 0)))),
        update((3, 0, anys(b"\x7f", origin=(2, 1)))),
        update((3, 0, shared(6, parent=(2, 2)))),
        update((1, 3, text("bc"))),
        update((1, 0, text("a😀b"), text("c", origin=(1, 3)))),
        update(deletes=((1, (1, 2)), (2, (0, 3)))),
    ],
)
def test_and_passes_what_fits(data):
    known = outline(HELD)
    advance(known, validate_update(data, known))
    doc: Any = pycrdt.Doc()
    doc.apply_update(HELD)
    doc.apply_update(data)
    assert known == state(doc)


def test_depth_counts_over_many_updates():
    known = outline(update((1, 0, shared(0))))
    for level in range(63):
        advance(known, validate_update(update((1, level + 1, shared(0, parent=(1, level)))), known))
    with pytest.raises(InvalidUpdate, match="shared types are nested too deeply"):
        validate_update(update((1, 64, shared(0, parent=(1, 63)))), known)


def test_a_late_edit_of_a_deleted_type_passes_a_reloaded_outline():
    """After a reload what was deleted is only a range; an author who has not seen that may still write to it."""
    doc: Any = pycrdt.Doc(client_id=1)
    array = doc.get("array", type=pycrdt.Array)
    array.append(pycrdt.Map({"k": pycrdt.Text("x")}))
    late: Any = pycrdt.Doc(client_id=2)
    late.apply_update(doc.get_update())
    before = late.get_state()
    inner = late.get("array", type=pycrdt.Array)[0]
    inner["n"] = pycrdt.Array([pycrdt.Map({"deep": 1})])
    inner["k"].insert(0, "y")
    del array[0]
    known = outline(doc.get_update())
    edit = late.get_update(before)
    advance(known, validate_update(edit, known))
    doc.apply_update(edit)
    assert known == state(doc)
    assert array.to_py() == []


def test_a_plain_mapping_judges_the_update_alone():
    known = {1: 4, 2: 3}
    for name in ("gap", "delete beyond", "unknown origin"):
        data, reason = BAD_AGAINST_HELD[name]
        with pytest.raises(InvalidUpdate, match=reason):
            validate_update(data, known)
    summary = validate_update(BAD_AGAINST_HELD["string into the array, by origin"][0], known)
    assert summary.ranges == {3: (0, 1)}
    nested = update((3, 0, shared(0, origin=(2, 1)), anys(b"\x7f", parent=(3, 0))))
    assert validate_update(nested, known).ranges == {3: (0, 2)}


def test_summary_and_advance():
    data = update((5, 2, text("é😀")), (4, 0, gc(3)), deletes=((5, (0, 1), (3, 2)), (4, (0, 3))))
    known = {5: 2, 9: 7}
    summary = validate_update(data, known)
    assert summary.ranges == {5: (2, 5), 4: (0, 3)}
    assert summary.deletes == {5: [(0, 1), (3, 5)], 4: [(0, 3)]}
    assert summary.structs == 2
    assert summary.parts == 5
    advance(known, summary)
    assert known == {5: 5, 4: 3, 9: 7}
    advance(known, validate_update(update((5, 0, text("old"))), known))
    assert known[5] == 5
    assert validate_update(b"\0\0", known).parts == 0
    assert validate_update(update(deletes=((9, (0, 1)),)), known).parts == 1


def test_pycrdt_still_swallows_a_gap():
    """The reason for refusing gaps; if this fails, pycrdt has changed and the rule may go."""
    doc: Any = pycrdt.Doc()
    doc.apply_update(update((1, 1, text("a"))))
    assert state(doc) == {}


@pytest.mark.integration
def test_the_fuzzer_finds_nothing():
    totals = fuzz(inputs=500, seed=1, seconds=240)
    assert totals.inputs >= 500
    assert totals.accepted > 100
    assert totals.failures == []


@pytest.mark.integration
def test_the_fuzzer_notices_a_failure_and_a_crash():
    runner = Worker()
    try:
        assert runner.run([GOOD["astral"]], 0) == ""
        assert runner.run([update((1, 0, text("日本😀", parent="array")))], 0).startswith("panic: InvalidUpdate")
        assert runner.process is not None
        runner.process.kill()
        assert runner.run([GOOD["ascii"]], 0) == "crash: the worker ended with SIGKILL"
    finally:
        runner.stop()
