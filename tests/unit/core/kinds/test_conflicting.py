"""Which keys are in conflict is known without a look at all, and is what a look at all would find."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item"

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from crdtsync.causality import Dot
from crdtsync.core.crdt.entries import Entries, IncomingEntries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.kinds.values import ConflictingKeys, is_conflict
from crdtsync.wire.change import RemoveRange, value_hash
from crdtsync.wire.kinds import Kind
from tests.examples import examples

KEYS = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from([Kind.REGISTER, Kind.REGISTER, Kind.MAP, Kind.LOG])
FIELDS = st.sampled_from(["x", "y"])
TTLS = st.sampled_from([None, None, 1, 3])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, KINDS, FIELDS, TTLS),
        st.tuples(st.just("remove"), KEYS, st.integers(1, 30)),
        st.tuples(st.just("exchange"), KEYS, st.integers(1, 30), KINDS, FIELDS),
        st.tuples(st.just("judge"), st.integers(0, 2)),
        st.tuples(st.just("look"), st.integers(0, 5)),
    ),
    max_size=30,
)


def made(seq: int, key: str, kind: Kind, field: str, ttl: int | None = None) -> Entry:
    attrs = None if ttl is None else {"ttl": ttl}
    sub = field if kind == Kind.MAP else None
    return Entry(0, Dot(1, seq, 0), key, sub, int(kind), 0, "x", b"\x01", value_hash(b"\x01"), attrs)


@examples(200)
@example(
    [("add", "a", Kind.REGISTER, "x", None), ("add", "a", Kind.REGISTER, "x", None), ("look", 0), ("remove", "a", 1)]
)
@given(STEPS)
def test_they_are_those_that_a_look_at_all_keys_finds(steps):
    entries = Entries()
    conflicting = ConflictingKeys(entries)
    for seq, (step, *args) in enumerate([*steps, ("look", 2)], 1):
        if step == "add":
            entries.add(made(seq, *args))
        elif step == "remove":
            key, end = args
            entries.remove(key, RemoveRange({1: end}))
        elif step == "exchange":
            key, end, kind, field = args
            gone = [entry for entry in entries.held(key) if entry.is_in({1: end})]
            come = [made(100 + seq, key, kind, field), made(200 + seq, key, kind, "y")]
            entries.exchange(gone, IncomingEntries(come), 0)
        elif step == "judge":
            conflicting.judge(*args)
        else:
            (now_ms,) = args
            keys = sorted(entries.keys(hidden=True))
            expected = [key for key in keys if is_conflict(entries, entries.live(key, now_ms))]
            assert conflicting.at(now_ms) == expected
