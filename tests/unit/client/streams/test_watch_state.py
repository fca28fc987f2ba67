"""A watch over several connections: no gap, no repeat, and a snapshot that was cut off starts again."""

import msgpack
import pytest

from crdtsync.causality import Dot, Writer
from crdtsync.client.session.read_memory import ReadMemory
from crdtsync.client.streams.watch_state import WATCH_ID, WatchState
from crdtsync.errors import UnknownSpace
from crdtsync.wire.tokens import Version, decode_version, encode_token, encode_version


@pytest.fixture
def memory():
    return ReadMemory()


def watch(memory, after=None):
    return WatchState(memory, "p/", after, {"agent": "me"})


def asked(state):
    request_id, operation, arguments = msgpack.unpackb(state.request()[4:])
    assert (request_id, operation) == (WATCH_ID, "watch")
    return arguments


def an_event(event, key="p/k", token=None, **fields):
    defaults = {"kind": "register", "value": msgpack.packb(1), "op": "set", "version": "v1.e"}
    return {"event": event, "key": key, "token": token, **defaults, **fields}


def come(state, *events):
    assert state.take((WATCH_ID, 2, list(events))) is False


def handed_out(state):
    found = []
    while (event := state.next_event()) is not None:
        found.append((event.event, event.key))
    return found


def test_it_starts_with_a_snapshot_or_after_a_token(memory):
    assert asked(watch(memory)) == {"prefix": "p/", "agent": "me"}
    assert asked(watch(memory, "c1.x"))["after"] == "c1.x"
    assert watch(memory).take((WATCH_ID, 0, {"token": "c1.x"})) is True


def test_it_goes_on_after_the_last_event_that_came(memory):
    state = watch(memory)
    asked(state)
    come(state, an_event("snapshot"), an_event("snapshot", key=None, token="c1.1"))
    assert asked(state)["after"] == "c1.1"
    come(state, an_event("set", token="c1.2"), an_event("set", token="c1.3"))
    assert asked(state)["after"] == "c1.3"
    assert handed_out(state) == [("snapshot", "p/k"), ("snapshot", None), ("set", "p/k"), ("set", "p/k")]


def test_its_token_is_that_of_the_event_handed_out_last(memory):
    state = watch(memory, "c1.0")
    come(state, an_event("set", token="c1.1"), an_event("set", token="c1.2"))
    assert state.token == "c1.0"
    state.next_event()
    assert state.token == "c1.1"


def test_a_snapshot_that_was_cut_off_starts_again_and_says_so(memory):
    state = watch(memory)
    asked(state)
    come(state, an_event("snapshot", key="p/1"))
    assert "after" not in asked(state)
    come(state, an_event("snapshot", key="p/2"), an_event("snapshot", key=None, token="c1.1"))
    assert handed_out(state) == [("snapshot", "p/1"), ("reset", None), ("snapshot", "p/2"), ("snapshot", None)]


def test_a_snapshot_that_had_not_begun_needs_no_reset(memory):
    state = watch(memory)
    asked(state)
    asked(state)
    assert handed_out(state) == []


def test_after_a_reset_the_old_token_is_of_no_use(memory):
    state = watch(memory, "c1.old")
    asked(state)
    come(state, {"event": "reset", "token": "c1.9"}, an_event("snapshot", token="c1.9"))
    assert "after" not in asked(state)


def test_an_error_ends_it(memory):
    with pytest.raises(UnknownSpace):
        watch(memory).take((WATCH_ID, 1, {"code": "unknown_space", "message": "gone"}))


def test_what_it_hands_over_counts_as_read(memory):
    state = watch(memory, "c1.0")
    come(
        state,
        an_event("set", key="p/a", version="v1.a"),
        an_event("conflict", key="p/b", version="v1.both", siblings=[{"kind": "register", "value": msgpack.packb(2)}]),
        an_event("delete", key="p/c", version=None),
        {"event": "batch", "key": None, "events": [an_event("set", key="p/d", version="v1.d")]},
        an_event("set", key="p/l", kind="log", op="append", token="c1.1"),
    )
    assert memory.seen("p/a") is None  # has come, but nobody has seen it
    handed_out(state)
    assert [memory.seen(f"p/{key}") for key in "abcdl"] == ["v1.a", "v1.both", "?", "v1.d", None]


def part(seq, event="set", **fields):
    """The event of one element that was added to a set."""
    fields = {"kind": "set", "op": "add", "version": encode_version(Version((Dot(Writer(1), seq, 0),))), **fields}
    return an_event(event, key="p/s", **fields)


def test_a_set_that_is_followed_from_its_snapshot_on_counts_as_read_however_long_that_goes(memory):
    state = watch(memory)
    asked(state)
    come(state, part(1, event="snapshot", op="state"), an_event("snapshot", key=None, token="c1.1"))
    for seq in range(2, 1000):
        come(state, part(seq, token=encode_token([("default", 0, {Writer(1): seq})])))
    handed_out(state)
    known = decode_version(memory.seen("p/s"))
    assert (known.vector, known.dots) == ({1: 999}, ())


def test_a_set_that_is_followed_from_some_point_on_is_known_in_the_parts_that_came(memory):
    memory.read("p/s", encode_version(Version((Dot(Writer(1), 1, 0),))))
    state = watch(memory, "c1.0")
    come(state, *(part(seq, token=encode_token([("default", 0, {Writer(1): seq})])) for seq in (5, 7)))
    handed_out(state)
    known = decode_version(memory.seen("p/s"))
    assert (known.vector, [d.seq for d in known.dots]) == (None, [1, 5, 7]), "what was skipped was not handed over"


def test_a_set_that_was_never_read_as_a_whole_is_not_known_by_a_part(memory):
    state = watch(memory, "c1.0")
    come(state, part(1, token="c1.1"), part(1, event="snapshot", op="state", value=None))
    handed_out(state)
    assert memory.seen("p/s") is None


def test_after_a_reset_everything_is_handed_over_anew(memory):
    state = watch(memory, "c1.0")
    come(state, {"event": "reset", "token": None}, part(1, event="snapshot", op="state"))
    come(state, part(9, token=encode_token([("default", 0, {Writer(1): 9})])))
    handed_out(state)
    assert decode_version(memory.seen("p/s")).vector == {1: 9}
