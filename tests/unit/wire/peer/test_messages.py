"""What peers say comes back as it was said; anything malformed has one exception; what is newer is ignored."""

# Writers are plain numbers here.
# mypy: disable-error-code="dict-item"

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import SEQ_MAX, WRITER_MAX, Dot
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import PEER_FRAME_BYTES_MAX
from crdtsync.wire.peer.base import TYPE_MAX, Message, message
from crdtsync.wire.peer.changes import FRAME_CHANGES_MAX, STOP_CHARS_MAX, Stop, Want
from crdtsync.wire.peer.fields import Number, Octets, Several, Words
from crdtsync.wire.peer.gossip import RESOLVER_TAKEOVER_MS_MAX, RESOLVERS_KEYS_MAX, RESOLVERS_PATTERNS_MAX, Resolvers
from crdtsync.wire.peer.meshing import LINKS_MAX, Links
from crdtsync.wire.peer.messages import FEATURES, MESSAGES, SUBJECTS, decode_message, message_name, type_of
from tests.examples import examples

ITEMS_MAX = 3
OCTETS_MAX = 64
COUNTS = st.integers(0, SEQ_MAX)
WRITERS = st.integers(0, WRITER_MAX)
FLAT = {
    "version vector": st.dictionaries(WRITERS, COUNTS, max_size=ITEMS_MAX),
    "points": st.dictionaries(COUNTS, st.binary(min_size=8, max_size=8), max_size=ITEMS_MAX),
    "frontier": st.dictionaries(WRITERS, st.tuples(COUNTS, st.binary(min_size=8, max_size=8)), max_size=ITEMS_MAX),
    "entry": st.tuples(st.text(min_size=1, max_size=8), st.builds(Dot, WRITERS, COUNTS, COUNTS)),
}


def fields_of(cls):
    """The fields of a message, or of a record in one, with their annotations."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}


def holding(hint, least=0):
    """Values of a field, made from its annotation."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return of_form(hint, inner[1])
    if origin is Union:
        return st.one_of(*map(holding, inner))
    if origin is tuple and inner[-1] is not Ellipsis:
        return st.tuples(*map(holding, inner))
    if origin is Mapping:
        return st.dictionaries(holding(inner[0]), holding(inner[1]), max_size=ITEMS_MAX)
    if origin in (list, tuple, frozenset):
        return st.lists(holding(inner[0]), min_size=least, max_size=ITEMS_MAX).map(origin)
    return st.booleans() if hint is bool else made(hint)


def of_form(hint, form):
    """Values of a form; see :mod:`crdtsync.wire.peer.fields`."""
    if isinstance(form, Several):
        return holding(get_args(hint)[0], form.least)
    if isinstance(form, Number):
        return st.integers(0, form.highest)
    if isinstance(form, Octets):
        return st.binary(min_size=form.least, max_size=min(form.most, OCTETS_MAX))
    if isinstance(form, Words):
        return st.from_regex(form.pattern, fullmatch=True)
    return FLAT[form.name]


def made(cls):
    """Messages, or records, of a class."""
    return st.builds(cls, **{name: holding(hint) for name, hint in fields_of(cls).items()})


CLASSES = list(MESSAGES.values())
ANY_MESSAGE = st.one_of(*map(made, CLASSES))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**64 - 1) | st.floats() | st.text(max_size=4) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(ANY_MESSAGE)
def test_round_trip(message):
    assert decode_message(message.encode()) == message


@given(ANY_MESSAGE)
def test_every_truncation_is_refused(message):
    data = message.encode()
    for end in range(len(data)):
        with pytest.raises(InvalidEncoding):
            decode_message(data[:end])


@given(ANY_MESSAGE, st.lists(PLAIN, min_size=1, max_size=3))
def test_elements_after_the_known_ones_are_ignored(message, more):
    assert decode_message(pack([*unpack(message.encode()), *more])) == message


@pytest.mark.parametrize("number", [0, 98, 99, -1, 2**40])
def test_unknown_types_are_ignored(number):
    assert decode_message(pack([number, "whatever", {}])) is None


@given(st.binary(max_size=60))
def test_garbage(data):
    with contextlib.suppress(InvalidEncoding):
        decode_message(data)


@given(PLAIN)
def test_well_packed_garbage(plain):
    with contextlib.suppress(InvalidEncoding):
        decode_message(pack(plain))


@pytest.mark.parametrize("cls", CLASSES)
@examples(10)
@given(data=st.data())
def test_any_part_may_hold_anything(cls, data):
    plain = unpack(data.draw(made(cls)).encode())
    damage(plain, data)
    with contextlib.suppress(InvalidEncoding):
        decode_message(pack(plain))


def damage(plain, data):
    """Replace one part, at some depth, by something else."""
    place = data.draw(st.sampled_from([*plain] if isinstance(plain, dict) else range(len(plain))))
    inside = plain[place]
    if isinstance(inside, (list, dict)) and inside and data.draw(st.booleans()):
        damage(inside, data)
    else:
        plain[place] = data.draw(PLAIN)


def beyond():
    """A value just beyond the bound of each field that has one, for each class."""
    for cls in CLASSES:
        for name, hint in fields_of(cls).items():
            form = get_args(hint)[1] if get_origin(hint) is Annotated else None
            if isinstance(form, Number):
                yield cls, name, form.highest + 1
            elif isinstance(form, Octets) and form.most < PEER_FRAME_BYTES_MAX:
                yield cls, name, bytes(form.most + 1)
            elif isinstance(form, Words) and re.fullmatch(form.pattern, "") is None:
                yield cls, name, ""


@pytest.mark.parametrize("cls, name, value", [*beyond()])
@examples(5)
@given(data=st.data())
def test_a_field_beyond_its_declared_bound_is_refused(cls, name, value, data):
    message = data.draw(made(cls)).replaced(**{name: value})
    with pytest.raises(InvalidEncoding):
        decode_message(message.encode())


def test_the_reason_of_a_stop_is_cut():
    assert decode_message(Stop("default", "fork", "x" * (STOP_CHARS_MAX + 1)).encode()) == Stop(
        "default", "fork", "x" * STOP_CHARS_MAX
    )


@given(ANY_MESSAGE)
def test_the_type_shows_without_decoding(message):
    assert type_of(message.encode()) == message.TYPE


def test_a_class_is_entered_once_with_a_type_of_its_own():
    for number in (0, TYPE_MAX + 1, *MESSAGES):
        with pytest.raises(AssertionError):
            message(type("Another", (Message,), {"TYPE": number}))
    assert [cls for cls in CLASSES if cls.__name__ == "Another"] == []


def test_every_message_is_of_a_subject_and_its_feature_is_told():
    assert {cls.__module__ for cls in CLASSES} == {module.__name__ for module in SUBJECTS}
    assert {cls.FEATURE for cls in CLASSES if cls.FEATURE} == {*FEATURES} - {"deflate"}


@pytest.mark.parametrize(
    "plain",
    [
        [2, "default", 0, []],
        [2, "default", 0, [b"x"] * (FRAME_CHANGES_MAX + 1)],
        [2, "Not A Name", 0, [b"x"]],
        [2, "default", -1, [b"x"]],
        [2, "default", 0, ["text"]],
        [3, SEQ_MAX + 1, []],
        [3, 0, [["default", 0, [5], b"", b""]]],
        [3, 0, [["default", 0, [5, 2], bytes(65), b""]]],
        [4, "default", 0, [5, 2]],
        [4, "default", 0, [5, 2, bytes(9)]],
        [5, [""]],
        [5, ["n"] * (LINKS_MAX + 1)],
        [6, "default", "", "why"],
        [10, "n", [["default", "k", 1]] * (RESOLVERS_PATTERNS_MAX + 1), []],
        [10, "n", [], [["default", "k", 1]] * (RESOLVERS_KEYS_MAX + 1)],
        [10, "n", [["default", "k", RESOLVER_TAKEOVER_MS_MAX + 1]], []],
        [10, "n", [["default", "", 1]], []],
        [10, "n", [], [["default", "k", -1]]],
        [10, "n", [["default", "k"]], []],
        [],
        [2],
        {"1": 2},
        7,
    ],
    ids=repr,
)
def test_what_no_correct_node_says(plain):
    with pytest.raises(InvalidEncoding):
        decode_message(pack(plain))


def test_a_message_over_the_limit():
    with pytest.raises(InvalidEncoding, match="over the limit"):
        decode_message(bytes(PEER_FRAME_BYTES_MAX + 1))


def test_equal_messages_have_equal_bytes():
    one = Want("default", 0, {5: (2, b"12345678"), 3: (1, b"12345678")})
    other = Want("default", 0, {3: (1, b"12345678"), 5: (2, b"12345678")})
    assert one.encode() == other.encode()
    assert Links(frozenset("abc")).encode() == Links(frozenset("cba")).encode()


@given(ANY_MESSAGE)
def test_a_message_has_the_name_of_its_class(message):
    assert message_name(message.encode()) == type(message).__name__.upper()


@pytest.mark.parametrize("data", [b"", b"\x91", b"\x91\x7f", b"\x91\xc0"])
def test_what_is_no_known_message_has_no_name(data):
    assert message_name(data) == "?"


def test_a_field_that_an_older_version_lacks_has_its_default():
    assert decode_message(pack([10, "n"])) == Resolvers("n")
    with pytest.raises(InvalidEncoding, match="a part is missing"):
        decode_message(pack([10]))
