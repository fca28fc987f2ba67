"""Counters, sets, maps and conflicts: each operation's request, what its reply means, and what the session has read."""

from __future__ import annotations

import msgpack
import pytest

from crdtsync.client.operations import writes
from crdtsync.client.operations.batch import Batch
from crdtsync.client.operations.keys import Operations
from crdtsync.client.operations.listings import Selection
from crdtsync.client.session.read_memory import NOTHING_STORED
from crdtsync.client.values.results import Member
from crdtsync.errors import InvalidRequest, InvalidValue, StaleRead, TooLarge

T = 30.0
GREW = {"token": "c1.t", "version": "v1.grown", "behind": False}


def packed(value):
    return msgpack.packb(value)


@pytest.fixture
def operations():
    return Operations()


@pytest.fixture
def send(play, operations):
    """Build a write, send it, and play the daemon's reply."""

    def run(build, *arguments, reply):
        write = build(operations, *arguments)
        return play(operations.send(write, None, T), {"token": "c1.t", **reply})

    return run


# -- counters ---------------------------------------------------------------------------------------------------


def test_an_increment_gives_the_new_value(send, operations):
    played = send(writes.incr, "c", -3, reply={"value": 4})
    assert (played.steps[0].operation, played.arguments, played.result) == ("incr", {"key": "c", "by": -3}, 4)
    assert played.steps[0].is_write
    assert operations.last_token == "c1.t"


@pytest.mark.parametrize("n", [1.0, True, "1", None, 2**53 + 1, -(2**53) - 1])
def test_a_counter_takes_whole_numbers(operations, n):
    with pytest.raises(InvalidValue, match=r"whole numbers from -2\^53 to 2\^53") as refused:
        writes.incr(operations, "c", n)
    assert refused.value.path == "$"
    assert isinstance(refused.value, ValueError)


def test_a_reset_gives_what_the_counter_was(send):
    played = send(writes.reset, "c", None, reply={"value": 7})
    assert (played.steps[0].operation, played.arguments, played.result) == ("reset", {"key": "c"}, 7)
    conditional = send(writes.reset, "c", "v1.x", reply={"value": 0})
    assert conditional.arguments == {"key": "c", "if_version": "v1.x", "timeout": 30_000}
    assert conditional.steps[0].waits


# -- sets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 1, "x", b"\x00\xff", [1, [2]], {"a": {"b": b"c"}}])
def test_elements_of_a_set_are_values(send, value):
    added = send(writes.add, "s", value, reply={"added": True, "length": 1})
    assert (added.arguments, added.result) == ({"key": "s", "value": packed(value)}, True)
    gone = send(writes.discard, "s", value, ..., reply={"existed": False, "length": 1})
    assert (gone.arguments, gone.result) == ({"key": "s", "value": packed(value)}, False)


def members_page(start, values, length, dots=None):
    return {
        "items": [[packed(v), dot, "me", "n", 0] for v, dot in zip(values, dots or values, strict=True)],
        "start": start,
        "length": length,
        "version": "v1.set",
        "token": f"c1.{length}",
    }


def test_members_are_fetched_page_by_page_and_count_as_read(operations, play):
    pages = members_page(0, ["a", "b"], 3), members_page(2, [{"c": b"\x00"}], 3, ["c"])
    played = play(operations.members("s", None, None, T), *pages)
    assert [member.value for member in played.result] == ["a", "b", {"c": b"\x00"}]
    assert isinstance(played.result[0], Member)
    assert [step.arguments for step in played.steps] == [
        {"key": "s", "limit": 1000},
        {"key": "s", "limit": 1000, "start": 2, "previous": "b"},
    ]
    assert played.result.token == "c1.3"
    assert operations.memory.seen("s") == "v1.set"


def test_an_element_that_is_added_again_between_two_pages_is_given_once(operations, play):
    pages = members_page(0, ["a", "b"], 3), members_page(2, ["a"], 3, ["a2"])
    assert [member.value for member in play(operations.members("s", None, None, T), *pages).result] == ["b", "a"]


def test_members_stop_at_the_limit_and_of_an_absent_set_there_are_none(operations, play):
    played = play(operations.members("s", 2, None, T), members_page(0, ["a", "b"], 3))
    assert (len(played.result), played.arguments["limit"]) == (2, 2)
    assert play(operations.members("none", None, None, T), members_page(0, [], 0)).result == []
    assert operations.memory.seen("none") == "?"
    assert play(operations.members("s", 0, None, T)).result == []


# -- maps -------------------------------------------------------------------------------------------------------


def test_a_merge_sends_each_field_by_itself(send):
    reply = {"version": "v1.m", "siblings": 1, "replaced": None, "behind": True}
    played = send(writes.merge, "m", {"a": 1, "b": b"\x00"}, ..., reply=reply)
    assert played.arguments == {"key": "m", "fields": {"a": packed(1), "b": packed(b"\x00")}}
    written = played.result
    assert (written, written.version, written.siblings, written.behind) == ("c1.t", "v1.m", 1, True)
    assert (written.replaced, written.replaced_fields) == (None, {})


def test_a_blind_merge_says_what_it_replaced_of_which_field(send):
    replaced = {"a": {"kind": "map", "value": packed("theirs"), "dot": "1.1.0", "agent": "b"}}
    written = send(writes.merge, "m", {"a": 1}, None, reply={"siblings": 0, "replaced": replaced}).result
    assert written.replaced is None
    assert {field: entry.value for field, entry in written.replaced_fields.items()} == {"a": "theirs"}


@pytest.mark.parametrize(
    "fields, path",
    [
        ({"a": 1, "b": {"c": [1, {2}]}}, "$.b.c[1]"),
        ({"a": float("nan")}, "$.a"),
        ({1: 1}, "$"),
        ({"\ud800": 1}, "$"),
        ([("a", 1)], "$"),
        (None, "$"),
    ],
)
def test_what_no_map_can_hold_is_refused_with_its_path(operations, fields, path):
    with pytest.raises(InvalidValue) as refused:
        writes.merge(operations, "m", fields, ...)
    assert refused.value.path == path


def test_a_field_that_is_too_large_is_named(operations):
    with pytest.raises(TooLarge, match=r"at \$\.b takes"):
        writes.merge(operations, "m", {"a": 1, "b": "x" * 2**20}, ...)


def test_a_dropped_field(send):
    played = send(writes.drop, "m", "a", ..., reply={"existed": True})
    assert (played.steps[0].operation, played.arguments, played.result) == ("drop", {"key": "m", "field": "a"}, True)


# -- what a write had seen ----------------------------------------------------------------------------------------

GROWTHS = [(writes.incr, "k", 1), (writes.reset, "k", None), (writes.add, "k", "x"), (writes.merge, "k", {"f": 1}, ...)]
REPLY = {"value": 1, "added": True, "siblings": 0, "replaced": None}


@pytest.mark.parametrize("growth", GROWTHS)
def test_own_writes_add_to_what_was_read(send, operations, growth):
    send(*growth, reply=REPLY)
    assert operations.memory.seen("k") is None, "own writes do not count as read"
    operations.memory.read("k", "v1.read")
    assert send(*growth, reply={**REPLY, **GREW}).arguments["seen"] == "v1.read"
    assert operations.memory.seen("k") == "v1.grown"
    send(*growth, reply=REPLY)  # the daemon does not tell any more, for it would be long
    assert operations.memory.is_forgotten("k")


@pytest.mark.parametrize("growth", GROWTHS[:3])
def test_what_is_added_to_a_key_that_was_absent_is_known(send, operations, growth):
    operations.memory.read("k", None)
    assert send(*growth, reply={**REPLY, **GREW}).arguments["seen"] == NOTHING_STORED
    assert operations.memory.seen("k") == "v1.grown"


@pytest.mark.parametrize("growth", GROWTHS[:3])
def test_what_is_added_to_a_key_that_was_read_long_ago_is_not_all_there_is(send, operations, growth):
    operations.memory.read("k", "v1.read")
    operations.memory.forget("k")
    assert "seen" not in send(*growth, reply=REPLY).arguments
    assert operations.memory.is_forgotten("k")


REMOVALS = [(writes.discard, "k", "x"), (writes.drop, "k", "f")]


@pytest.mark.parametrize("build, key, part", REMOVALS)
def test_a_removal_takes_what_was_read(send, operations, build, key, part):
    reply = {"existed": True}
    assert "seen" not in send(build, key, part, ..., reply=reply).arguments
    operations.memory.read(key, "v1.read")
    assert send(build, key, part, ..., reply=reply).arguments["seen"] == "v1.read"
    assert operations.memory.seen(key) == "v1.read", "what was read still covers the rest"
    assert "seen" not in send(build, key, part, None, reply=reply).arguments
    stated = send(build, key, part, "v1.x", reply=reply)
    assert (stated.arguments["seen"], stated.arguments["strict"], stated.steps[0].waits) == ("v1.x", True, True)


@pytest.mark.parametrize("build, key, part", REMOVALS)
def test_a_removal_from_what_was_read_long_ago_is_refused(operations, build, key, part):
    operations.memory.read(key, "v1.read")
    operations.memory.forget(key)
    with pytest.raises(StaleRead, match="read it again, or pass seen=None"):
        build(operations, key, part, ...)


# -- conflicts ----------------------------------------------------------------------------------------------------


def described(value, dot="1.1.0", **fields):
    return {"kind": "register", "value": None if value is None else packed(value), "dot": dot, **fields}


def conflicting(key, *siblings, value=0, **fields):
    return {"key": key, "version": f"v1.{key}", **described(value, **fields), "siblings": list(siblings)}


def test_conflicts_are_whole_entries_and_count_as_read(operations, play):
    rows = [
        conflicting("a", described(1, "2.1.0")),
        conflicting("m", described(2, "2.2.0", kind="map", field="f"), value={"f": 3}, kind="map"),
    ]
    played = play(operations.conflicts(Selection("p"), None, T), {"items": rows, "more": False, "token": "c1.p"})
    assert played.arguments == {"prefix": "p", "limit": 1000, "values": True, "entries": True, "conflicts": True}
    assert [[s.value for s in entry.siblings] for entry in played.result] == [[1], [2]]
    assert [entry.siblings[0].field for entry in played.result] == [None, "f"]
    assert (operations.memory.seen("a"), operations.memory.seen("m")) == ("v1.a", "v1.m")
    assert played.result.token == "c1.p"


def test_what_a_scan_leaves_out_of_a_conflict_is_read_after_it(operations, play):
    rows = [conflicting(key, described(1), value=None, kind="log") for key in ("settled", "long", "huge")]
    replies = None, conflicting("long", described(1), value=[1, 2], kind="log"), TooLarge("too long")
    played = play(operations.conflicts(Selection(), None, T), {"items": rows, "more": False, "token": "c1.p"}, *replies)
    assert [(entry.key, entry.value) for entry in played.result] == [
        ("settled", None),
        ("long", [1, 2]),
        ("huge", None),
    ]
    assert operations.memory.seen("huge") is None, "not all of it was handed over"


@pytest.mark.parametrize(
    "choice, sent",
    [
        (("1.2.0", ..., False), {"take": "1.2.0", "timeout": 30_000}),  # it may still be on its way
        ((None, {"a": None}, False), {"value": packed({"a": None})}),
        ((None, None, False), {"value": packed(None)}),
        ((None, ..., True), {"merge": True}),
    ],
)
def test_a_resolution_settles_what_was_read(send, operations, choice, sent):
    operations.memory.read("k", "v1.read")
    reply = {"version": "v1.one", "resolved": 2}
    played = send(writes.resolve, "k", *choice, ..., reply=reply)
    assert played.arguments == {"key": "k", **sent, "seen": "v1.read"}
    assert (played.result, played.result.resolved, played.result.version) == ("c1.t", 2, "v1.one")
    assert operations.memory.seen("k") == "v1.one"


@pytest.mark.parametrize("choice", [(None, ..., False), ("1.2.0", 1, False), ("1.2.0", ..., True), (None, 1, True)])
def test_a_resolution_needs_exactly_one_choice(operations, choice):
    take, value, merge = choice
    with pytest.raises(InvalidRequest, match="exactly one of take, value and merge"):
        writes.resolve(operations, "k", take, value, merge, ...)


# -- batches ------------------------------------------------------------------------------------------------------


def test_every_write_may_be_part_of_a_batch(operations, play):
    batch = Batch(operations, None)
    batch.incr("c")
    batch.incr("c", -2)
    batch.reset("c")
    batch.add("s", "x")
    batch.discard("s", "y")
    batch.merge("m", {"f": 1})
    batch.drop("m", "g")
    batch.resolve("r", value=1)
    results = [
        {"value": 1},
        {"value": -1},
        {"value": -1},
        {"added": True, "length": 1},
        {"existed": False, "length": 1},
        {"siblings": 0, "replaced": None},
        {"existed": True},
        {"resolved": 1, "version": "v1.r"},
    ]
    played = play(batch.commit(T), {"token": "c1.b", "results": results})
    assert played.arguments["ops"] == [
        ("incr", {"key": "c", "by": 1}),
        ("incr", {"key": "c", "by": -2}),
        ("reset", {"key": "c"}),
        ("add", {"key": "s", "value": packed("x")}),
        ("discard", {"key": "s", "value": packed("y")}),
        ("merge", {"key": "m", "fields": {"f": packed(1)}}),
        ("drop", {"key": "m", "field": "g"}),
        ("resolve", {"key": "r", "value": packed(1)}),
    ]
    assert batch.results == [1, -1, -1, True, False, "c1.b", True, "c1.b"]


def test_a_batch_knows_what_it_wrote_to_a_key_that_was_absent(operations):
    for key in "sm":
        operations.memory.read(key, None)
    batch = Batch(operations, None)
    batch.discard("s", "x")
    batch.add("s", "x")
    batch.discard("s", "x")
    batch.merge("m", {"f": 1})
    batch.drop("m", "f")
    sent = [write.arguments.get("seen") for write in batch._writes]
    assert sent == ["?", NOTHING_STORED, NOTHING_STORED, "?", NOTHING_STORED]


@pytest.mark.parametrize("name, reply", [("add", {"added": True}), ("append", {"length": 1}), ("incr", {"value": 1})])
def test_a_batch_adds_what_it_wrote_to_what_was_read(operations, play, name, reply):
    from crdtsync.causality import Dot, Writer
    from crdtsync.wire.tokens import Version, decode_version, encode_version

    before, mine = Dot(Writer(1), 1, 0), tuple(Dot(Writer(1), 2, n) for n in range(2))
    operations.memory.read("s", encode_version(Version((before,))))
    batch = Batch(operations, None)
    getattr(batch, name)("s", 1)
    getattr(batch, name)("s", 2)
    results = [{**reply, "version": encode_version(Version(mine))}] * 2
    played = play(batch.commit(T), {"token": "c1.b", "results": results})
    assert [arguments["seen"] for _, arguments in played.arguments["ops"]] == [NOTHING_STORED] * 2
    assert decode_version(operations.memory.seen("s")).dots == (before, *mine)
