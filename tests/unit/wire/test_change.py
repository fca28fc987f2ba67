"""Changes keep their bytes and their hash; what no correct node could have made is refused, with one exception."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import HLC_MAX, SEQ_MAX, WRITER_MAX, Dot, Hlc, Writer
from crdtsync.errors import InvalidEncoding, TooLarge
from crdtsync.wire.change import HASH_BYTES, NO_HASH, SHORT_HASH_BYTES, Change, Codec, Dep, Op, RemoveRange, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import VALUE_KINDS, Kind
from crdtsync.wire.limits import (
    CHANGE_BYTES_MAX,
    CHANGE_OPS_MAX,
    IDEMPOTENCY_BYTES_MAX,
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
)
from crdtsync.wire.stored_values import is_storable

CODEC = Codec(bytes(16), "default", 0)
WRITERS = st.integers(1, WRITER_MAX).map(Writer)
SEQS = st.integers(1, SEQ_MAX)
DOTS = st.builds(Dot, WRITERS, SEQS, st.integers(0, CHANGE_OPS_MAX))
KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=12)
RANGES = st.builds(
    RemoveRange,
    st.dictionaries(WRITERS, SEQS, min_size=1, max_size=3),
    st.none() | st.tuples(st.integers(0, HLC_MAX), WRITERS, SEQS, st.integers(0, CHANGE_OPS_MAX)),
)
ATTRS = st.none() | st.dictionaries(st.text(max_size=5), st.integers(-5, 2**50) | st.text(max_size=5), max_size=3)


@st.composite
def ops(draw):
    kind = draw(st.integers(0, 9))
    value = draw(st.none() | (st.text(max_size=20).map(pack) if kind in VALUE_KINDS else st.binary(max_size=20)))
    return Op(
        draw(KEYS),
        draw(st.none() | st.text(max_size=5)),
        kind,
        value,
        None if value is None else value_hash(value),
        draw(RANGES | st.lists(DOTS, max_size=3).map(tuple)),
        draw(ATTRS),
    )


@st.composite
def changes(draw):
    return Change(
        draw(WRITERS),
        draw(SEQS),
        tuple(draw(st.lists(st.builds(Dep, WRITERS, SEQS, st.binary(min_size=8, max_size=8)), max_size=3))),
        draw(st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES)),
        Hlc(draw(st.integers(0, HLC_MAX))),
        draw(st.text(max_size=20)),
        draw(st.none() | st.binary(max_size=IDEMPOTENCY_BYTES_MAX)),
        tuple(draw(st.lists(ops(), min_size=1, max_size=4))),
        draw(st.none() | st.tuples(st.text(min_size=1, max_size=10), st.just("host-a"))),
    )


def fields(change):
    return {name: getattr(change, name) for name in Change.__slots__}


@given(changes())
def test_round_trip(change):
    encoded = CODEC.encode(change)
    assert fields(CODEC.decode(encoded.body)) == fields(encoded)


@given(changes(), st.binary(max_size=20))
def test_what_no_agent_can_store_is_as_if_it_had_been_purged(change, junk):
    op = Op("k", None, Kind.REGISTER, junk, value_hash(junk), (), None)
    change.ops = (*change.ops, op)
    decoded = CODEC.decode(CODEC.encode(change).body)
    assert decoded.hash == change.hash
    assert decoded.ops[-1].value_hash == op.value_hash
    assert decoded.ops[-1].value == (junk if is_storable(junk) else None)
    assert decoded.is_malformed or is_storable(junk)


@given(changes())
def test_every_truncation_is_refused(change):
    body = CODEC.encode(change).body
    for end in range(len(body)):
        with pytest.raises(InvalidEncoding):
            CODEC.decode(body[:end])


@given(changes(), st.data())
def test_any_changed_byte_is_refused_or_gives_another_hash(change, data):
    body = CODEC.encode(change).body
    at = data.draw(st.integers(0, len(body) - 1))
    other = bytes([*body[:at], data.draw(st.integers(0, 255).filter(lambda byte: byte != body[at])), *body[at + 1 :]])
    try:
        decoded = CODEC.decode(other)
    except InvalidEncoding:
        return
    # The frame around header and values may have several encodings; what they hold may not.
    assert decoded.hash != change.hash or unpack(other) == unpack(body)


@given(st.binary(max_size=60))
def test_garbage(data):
    with contextlib.suppress(InvalidEncoding):
        CODEC.decode(data)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**64 - 1) | st.floats() | st.text(max_size=4) | st.binary(max_size=17),
    lambda inner: (
        st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=2) | st.integers(0, 2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.integers(0, 9), PLAIN)
def test_any_field_may_hold_anything_and_is_refused(place, thing):
    header = [1, 5, 1, [], NO_HASH, 7, "agent", None, [["k", None, 0, True, None, None]], None]
    header[place] = thing
    decode_or_refuse(header)


@given(st.integers(0, 5), PLAIN)
def test_any_part_of_an_operation_may_hold_anything(place, thing):
    op = ["k", None, 0, True, None, None]
    op[place] = thing
    decode_or_refuse([1, 5, 1, [], NO_HASH, 7, "agent", None, [op], None])


@given(PLAIN, PLAIN)
def test_removed_ranges_may_hold_anything(vector, bound):
    for removes in ({0: vector, 1: bound}, {0: vector}, {1: bound}, {}):
        decode_or_refuse([1, 5, 1, [], NO_HASH, 7, "agent", None, [["k", None, 0, True, removes, None]], None])


@given(PLAIN)
def test_values_may_hold_anything(value):
    header = pack([1, 5, 1, [], NO_HASH, 7, "agent", None, [["k", None, 0, True, None, None]], None])
    with contextlib.suppress(InvalidEncoding):
        CODEC.decode(pack([header, value]))


def decode_or_refuse(header):
    try:
        change = CODEC.decode(pack([pack(header), b"\x01"]))
    except InvalidEncoding:
        return
    assert CODEC.decode(change.body).hash == change.hash


# -- what the hash covers ------------------------------------------------------------------------------------------


def example(**others):
    parts = {
        "writer": Writer(5),
        "seq": 2,
        "deps": (Dep(Writer(9), 4, b"12345678"),),
        "prev_hash": b"p" * 16,
        "hlc": Hlc(77),
        "agent": "a",
        "idempotency": b"i",
        "ops": (
            Op("k", None, 0, b"\x01", value_hash(b"\x01"), (Dot(Writer(9), 4, 0),), None),
            Op("gone", None, 0, None, None, (Dot(Writer(9), 3, 0),), None),
        ),
        "origin": None,
    }
    return Change(**{**parts, **others})


@dataclass
class Difference:
    what: str
    change: Change


DIFFERENCES = [
    ("writer", {"writer": Writer(6)}),
    ("seq", {"seq": 3}),
    ("deps", {"deps": ()}),
    ("previous hash", {"prev_hash": b"q" * 16}),
    ("clock", {"hlc": Hlc(78)}),
    ("agent", {"agent": "b"}),
    ("idempotency id", {"idempotency": None}),
    ("value", {"ops": (Op("k", None, 0, b"\x02", value_hash(b"\x02"), (), None),)}),
    ("attributes", {"ops": (Op("k", None, 0, b"\x01", value_hash(b"\x01"), (), {"ttl": 5}),)}),
    ("origin", {"origin": ("node", "name")}),
]


@pytest.mark.parametrize("others", [pytest.param(others, id=what) for what, others in DIFFERENCES])
def test_the_hash_covers(others):
    assert CODEC.encode(example(**others)).hash != CODEC.encode(example()).hash


@pytest.mark.parametrize(
    "codec", [Codec(b"\1" * 16, "default", 0), Codec(bytes(16), "other", 0), Codec(bytes(16), "default", 1)]
)
def test_the_hash_binds_a_change_to_its_cluster_space_and_epoch(codec):
    body = CODEC.encode(example()).body
    assert codec.decode(body).hash != CODEC.decode(body).hash


def test_the_short_hash_is_how_the_hash_begins():
    change = CODEC.encode(example())
    assert change.short_hash == change.hash[:SHORT_HASH_BYTES]
    assert len(change.short_hash) == SHORT_HASH_BYTES


def test_unknown_trailing_fields_ride_along_and_count_in_the_hash():
    """A newer version may append to the header and to an operation."""
    header, *values = unpack(CODEC.encode(example()).body)
    plain = unpack(header, strict_map_key=False)
    plain[8][0].append({"new": True})
    plain.append(["new", 1])
    body = pack([pack(plain), *values])
    change = CODEC.decode(body)
    assert change.body == body
    assert [op.key for op in change.ops] == ["k", "gone"]
    assert change.hash != CODEC.encode(example()).hash
    assert CODEC.decode(change.body).hash == change.hash


def test_unknown_kinds_are_kept():
    ops_ = (Op("k", "sub", 4711, b"\x01", value_hash(b"\x01"), (), {"attr": [1]}),)
    change = CODEC.decode(CODEC.encode(example(ops=ops_)).body)
    assert change.ops == ops_


def test_a_purged_value_keeps_the_hash_of_the_chain():
    """Replace the value by its hash: the change keeps its hash, and only the value is gone."""
    whole = CODEC.encode(example())
    header, value = unpack(whole.body)
    purged = CODEC.decode(pack([header, [value_hash(value)]]))
    assert purged.hash == whole.hash
    assert purged.ops[0].value is None
    assert purged.ops[0].value_hash == value_hash(value)


def test_a_purged_value_cannot_stand_for_another():
    header, _ = unpack(CODEC.encode(example()).body)
    assert CODEC.decode(pack([header, [value_hash(b"\x02")]])).hash != CODEC.encode(example()).hash


# -- limits ----------------------------------------------------------------------------------------------------------


def put(key="k", value=b"\x01", **others):
    return Op(key, None, 0, value, value_hash(value), (), None)._replace(**others)


@pytest.mark.parametrize(
    "others",
    [
        pytest.param({"ops": (put("k" * KEY_BYTES_MAX),)}, id="key"),
        pytest.param({"ops": (put("ü" * (KEY_BYTES_MAX // 2)),)}, id="key of two-byte characters"),
        pytest.param({"ops": (put(value=bytes(VALUE_BYTES_MAX)),)}, id="value"),
        pytest.param({"ops": (put(),) * CHANGE_OPS_MAX}, id="operations"),
        pytest.param({"writer": Writer(WRITER_MAX), "seq": SEQ_MAX, "hlc": Hlc(HLC_MAX)}, id="numbers"),
        pytest.param({"agent": "a" * 128}, id="agent"),
        pytest.param({"idempotency": bytes(IDEMPOTENCY_BYTES_MAX)}, id="idempotency id"),
    ],
)
def test_what_is_just_within_a_limit_passes(others):
    CODEC.decode(CODEC.encode(example(**others)).body)


@pytest.mark.parametrize(
    "others",
    [
        pytest.param({"ops": (put("k" * (KEY_BYTES_MAX + 1)),)}, id="key"),
        pytest.param({"ops": (put("ü" * (KEY_BYTES_MAX // 2) + "x"),)}, id="key of two-byte characters"),
        pytest.param({"ops": (put(""),)}, id="empty key"),
        pytest.param({"ops": (put("a\nb"),)}, id="control character"),
        pytest.param({"ops": (put(value=bytes(VALUE_BYTES_MAX + 1)),)}, id="value"),
        pytest.param({"ops": (put(),) * (CHANGE_OPS_MAX + 1)}, id="operations"),
        pytest.param({"ops": ()}, id="no operation"),
        pytest.param({"writer": Writer(WRITER_MAX + 1)}, id="writer"),
        pytest.param({"writer": Writer(0)}, id="writer 0"),
        pytest.param({"seq": 0}, id="seq 0"),
        pytest.param({"seq": SEQ_MAX + 1}, id="seq"),
        pytest.param({"agent": "a" * 129}, id="agent"),
        pytest.param({"idempotency": bytes(IDEMPOTENCY_BYTES_MAX + 1)}, id="idempotency id"),
        pytest.param({"prev_hash": bytes(15)}, id="previous hash"),
        pytest.param({"deps": (Dep(Writer(1), 1, b"1234567"),)}, id="short hash"),
        pytest.param({"origin": ("n", "Not A Name")}, id="node name"),
        pytest.param({"origin": ("", "name")}, id="node id"),
    ],
)
def test_what_is_beyond_a_limit_is_refused(others):
    with pytest.raises(InvalidEncoding):
        CODEC.decode(CODEC.encode(example(**others)).body)


def test_too_large_a_change_is_not_made_and_not_taken():
    ops_ = tuple(put(f"k{i}", bytes(VALUE_BYTES_MAX)) for i in range(4))
    with pytest.raises(TooLarge, match="4,194,304"):
        CODEC.encode(example(ops=ops_))
    with pytest.raises(InvalidEncoding, match="over the limit"):
        CODEC.decode(bytes(CHANGE_BYTES_MAX + 1))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_values_as_operations_that_have_one(count):
    header, _ = unpack(CODEC.encode(example(ops=(put(), put("l")))).body)[:2]
    with pytest.raises(InvalidEncoding):
        CODEC.decode(pack([header, *[b"\x01"] * count]))
