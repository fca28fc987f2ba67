"""What peers say comes back as it was said; anything malformed has one exception; what is newer is ignored."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import SEQ_MAX, WRITER_MAX, Dot
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.limits import PEER_FRAME_BYTES_MAX
from crdtsync.wire.peer.changes import FRAME_CHANGES_MAX, Ack, Changes, SpaceAck, Stop, Want
from crdtsync.wire.peer.comparing import Digests, Removed
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import (
    ASKED_WRITERS_MAX,
    HOPS_MAX,
    LINKS_MAX,
    Ask,
    Asked,
    Held,
    Holding,
    Links,
    Reached,
    Relays,
)
from crdtsync.wire.peer.messages import decode_message, message_name
from crdtsync.wire.peer.resolvers import (
    RESOLVER_TAKEOVER_MS_MAX,
    RESOLVERS_KEYS_MAX,
    RESOLVERS_PATTERNS_MAX,
    HandledKey,
    ResolvedPattern,
    Resolvers,
)

COUNTS = st.integers(0, SEQ_MAX)
WRITERS = st.integers(0, WRITER_MAX)
NAMES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,10}", fullmatch=True)
SPACES = NAMES | st.just("_cluster")
ASKED_SIZE_MAX = 16
ASKED = st.builds(Asked, SPACES, COUNTS, st.lists(WRITERS, max_size=ASKED_SIZE_MAX).map(tuple))
IDS = st.text(min_size=1, max_size=20)
SHORT = st.binary(min_size=8, max_size=8)
FRONTIERS = st.dictionaries(WRITERS, st.tuples(COUNTS, SHORT), max_size=4)
VECTORS = st.dictionaries(WRITERS, COUNTS, max_size=4)
MESSAGES = st.one_of(
    st.builds(
        Hello,
        IDS,
        NAMES,
        st.binary(max_size=64),
        st.binary(max_size=64),
        st.dictionaries(SPACES, st.tuples(COUNTS, FRONTIERS), max_size=3),
        COUNTS,
        COUNTS,
        st.lists(IDS, max_size=3).map(tuple),
    ),
    st.builds(Changes, SPACES, COUNTS, st.lists(st.binary(max_size=30), min_size=1, max_size=4)),
    st.builds(
        Ack,
        COUNTS,
        st.lists(
            st.builds(SpaceAck, SPACES, COUNTS, VECTORS, st.binary(max_size=8), st.binary(max_size=16)), max_size=3
        ),
    ),
    st.builds(Want, SPACES, COUNTS, FRONTIERS),
    st.builds(Links, st.frozensets(IDS, max_size=4)),
    st.builds(Relays, st.booleans(), st.dictionaries(SPACES | st.just(""), st.frozensets(IDS, max_size=3), max_size=3)),
    st.builds(Ask, IDS, COUNTS, st.lists(ASKED, max_size=ASKED_WRITERS_MAX // ASKED_SIZE_MAX).map(tuple)),
    st.builds(
        Holding,
        IDS,
        st.lists(st.builds(Held, SPACES, COUNTS, IDS, NAMES, st.binary(max_size=64), VECTORS), max_size=3).map(tuple),
    ),
    st.builds(Reached, st.dictionaries(IDS, st.integers(0, HOPS_MAX), max_size=3)),
    st.builds(Stop, SPACES, IDS, st.text(max_size=30)),
    st.builds(
        Resolvers,
        IDS,
        st.lists(st.builds(ResolvedPattern, SPACES, IDS, st.integers(0, RESOLVER_TAKEOVER_MS_MAX)), max_size=3).map(
            tuple
        ),
        st.lists(st.builds(HandledKey, SPACES, IDS, COUNTS), max_size=3).map(tuple),
    ),
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**64 - 1) | st.floats() | st.text(max_size=4) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
EXAMPLES = [
    Hello("n", "host", b"c", b"d", {"default": (0, {5: (2, b"12345678")})}, 7),
    Changes("default", 0, [b"x"]),
    Ack(3, [SpaceAck("default", 0, {5: 2}, b"c", b"d")]),
    Want("default", 0, {5: (2, b"12345678")}),
    Links(frozenset({"n"})),
    Stop("default", "fork", "why"),
    Digests("default", 0, b"c", b"d", b"t"),
    Removed("default", 0, (("k", Dot(5, 2, 0)),)),
    Resolvers("n", (ResolvedPattern("default", "plan/**", 30_000),), (HandledKey("default", "plan/goal", 1),)),
]
IDS_OF_EXAMPLES = [type(example).__name__ for example in EXAMPLES]


@given(MESSAGES)
def test_round_trip(message):
    assert decode_message(message.encode()) == message


@given(MESSAGES)
def test_every_truncation_is_refused(message):
    data = message.encode()
    for end in range(len(data)):
        with pytest.raises(InvalidEncoding):
            decode_message(data[:end])


@given(MESSAGES, st.lists(PLAIN, min_size=1, max_size=3))
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


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS_OF_EXAMPLES)
@given(data=st.data())
def test_any_part_may_hold_anything(example, data):
    plain = unpack(example.encode())
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


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS_OF_EXAMPLES)
def test_a_message_has_the_name_of_its_class(example):
    assert message_name(example.encode()) == type(example).__name__.upper()


@pytest.mark.parametrize("data", [b"", b"\x91", b"\x91\x7f", b"\x91\xc0"])
def test_what_is_no_known_message_has_no_name(data):
    assert message_name(data) == "?"
