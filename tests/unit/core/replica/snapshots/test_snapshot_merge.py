"""Merging a snapshot is exact: it leaves what applying every change of its frontier would have left.

Compared with the textbook observed-remove set, over explicit sets of changes: what lives is what some change added and
none removed. Snapshots are cut at any time, given away in parts, and merged stale, repeated and crosswise.
"""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.causality import Dot
from crdtsync.core.alarms import Alarms
from crdtsync.core.crdt.entries import Entries, IncomingEntries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.replica.replica import Replica
from crdtsync.core.replica.snapshots import snapshot as snapshot_module
from crdtsync.core.replica.snapshots.merge import merge_snapshot
from crdtsync.core.replica.snapshots.snapshot import Snapshot, Taking
from crdtsync.core.storage.long_values import ValueCache
from crdtsync.core.storage.rows import SnapshotPartRow, SpaceRow
from crdtsync.core.storage.write_batch import Ledger
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.change import Op, RemoveRange, value_hash
from crdtsync.wire.codec import pack
from crdtsync.wire.limits import PEER_FRAME_BYTES_MAX
from crdtsync.wire.peer.snapshot import compressed, decode_part, encode_entries
from crdtsync.wire.yjs.encoding import at_once
from tests.examples import examples
from tests.fleet.clock import START_MS

KEYS = ("a", "b", "c")
NODES = 3


def nothing(*_args: Any, **_kwargs: Any) -> Any:
    return []


DISK: Any = SimpleNamespace(
    heads=nothing,
    origins=nothing,
    entries=nothing,
    heads_after=nothing,
    change_hash=lambda *_: None,
    document=lambda *_: (None, []),
    document_exists=lambda *_: False,
    meta=lambda *_: None,
    metas=nothing,
    value=lambda *_: None,
    values=nothing,
)


class Host:
    """One replica without a disk."""

    def __init__(self, number: int) -> None:
        self.ledger = Ledger(0, 0)
        row = SpaceRow(1, "default", 0, None, 0, 0, 0, {}, 0, {})
        node = (f"node-{number}", f"host-{number}")
        random = Random(number)
        self.replica = Replica(row, LOOPBACK_CLUSTER, DISK, self.ledger, random, node, Alarms(nothing), ValueCache())
        self.number = number
        self.log: list[Any] = []

    def cut(self) -> Snapshot:
        number = bytes([self.number]) * 16
        return self.replica.snapshot(number, list, lambda _: b"")


def carried(snapshot: Snapshot, stage: Callable[[SnapshotPartRow, list[Entry]], None] = nothing) -> Taking:
    """A snapshot as it arrives."""
    node = f"node-{snapshot.id[0]}"
    taking = Taking(snapshot.id, node)
    number, is_last = 0, False
    while not is_last:
        data, is_last = snapshot.part(number)
        taking.add(data)
        stage(SnapshotPartRow(1, number, snapshot.id, data), taking.arrived)
        number += 1
    at_once(taking.finish())
    return taking


class History:
    """A few hosts, all changes ever made, and what each host must hold."""

    def __init__(self) -> None:
        self.hosts = [Host(number) for number in range(NODES)]
        self.changes: dict[tuple[int, int], tuple[set[Dot], set[Dot]]] = {}
        self.snapshots: list[Snapshot] = []

    def write(self, host: Host, key: str, choice: int) -> None:
        """Add a value that supersedes some of what is held, or only remove; one dot by one, or by a range."""
        replica = host.replica
        held = replica.entries.held(key)
        gone = {entry.dot for n, entry in enumerate(held) if choice >> n & 1}
        removes: Any = tuple(sorted(gone))
        if choice % 5 == 0 and held:
            removes = RemoveRange(dict(replica.vector))
            gone = {entry.dot for entry in held}
        value = pack(choice) if choice % 3 or not gone else None
        hashed = None if value is None else value_hash(value)
        op = Op(key, None, 0, value, hashed, removes, {"meta": choice} if choice % 7 == 0 else None)
        applied = replica.commit([op], "agent", None, START_MS)
        change = applied.change
        added = {Dot(change.writer, change.seq, 0)} if value is not None else set()
        self.changes[change.writer, change.seq] = (added, gone)
        host.log.append(change)

    def send(self, giver: Host, taker: Host, begin: int, count: int) -> None:
        at = begin % (len(giver.log) + 1)
        for change in giver.log[at : at + count]:
            applied, _ = taker.replica.receive(taker.replica.codec.decode(change.body), START_MS)
            taker.log.extend(item.change for item in applied)

    def merge(self, snapshot: Snapshot, host: Host) -> None:
        replica = host.replica
        before = dict(replica.vector)
        merged = merge_snapshot(
            replica, carried(snapshot, replica.staging.stage if snapshot.id[0] else nothing), START_MS
        )
        replica.staging.drop()
        host.log.extend(item.change for item in merged.applied)
        after = {w: max(before.get(w, 0), snapshot.vector.get(w, 0)) for w in {*before, *snapshot.vector}}
        for item in merged.applied:
            after[item.change.writer] = item.change.seq
        assert replica.vector == after
        assert merged.advanced == {w for w, seq in snapshot.vector.items() if seq > before.get(w, 0)}
        assert all(replica.floor[w] == snapshot.vector[w] for w in merged.advanced)

    def check(self, host: Host) -> None:
        replica: Any = host.replica
        added: set[Dot] = set()
        removed: set[Dot] = set()
        for (writer, seq), (adds, removes) in self.changes.items():
            if seq <= replica.vector.get(writer, 0):
                added |= adds
                removed |= removes
        assert {entry.dot for entry in replica.entries.all()} == added - removed
        assert replica.entries.digest == sum(entry.digest for entry in replica.entries.all()) % (1 << 128)
        assert replica.entries.count == len(added - removed)
        assert replica.entries.keys_with_several == {key for key in KEYS if len(replica.entries.held(key)) > 1}
        for key in KEYS:
            held = replica.entries.held(key)
            assert [e.order for e in held] == sorted(e.order for e in held)
        self.check_rows(host)

    def check_rows(self, host: Host) -> None:
        """What the disk would hold, by the rows that were to be written."""
        batch = host.ledger.batch
        live = {row.row: row for row in batch.entries if row.space == 1}
        for removed in batch.removed_rows:
            del live[removed.row]
        assert {(row.writer, row.seq, row.n) for row in live.values()} == {e.dot for e in host.replica.entries.all()}
        assert {e.row for e in host.replica.entries.all()} == set(live)


COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "send", "cut", "merge"]),
        st.integers(0, NODES - 1),
        st.integers(0, NODES - 1),
        st.integers(0, 40),
        st.integers(0, 6),
    ),
    min_size=5,
    max_size=60,
)


@examples(250)
@given(COMMANDS)
def test_merging_equals_applying_every_change(commands):
    history = History()
    for what, first, second, big, small in commands:
        host = history.hosts[first]
        if what == "write":
            history.write(host, KEYS[small % 3], big)
        elif what == "send":
            history.send(host, history.hosts[second], big, small)
        elif what == "cut":
            history.snapshots.append(host.cut())
        elif history.snapshots:
            history.merge(history.snapshots[big % len(history.snapshots)], host)
        history.check(host)
        history.check(history.hosts[second])
    for host in history.hosts:
        for other in history.hosts:
            history.merge(other.cut(), host)
    for host in history.hosts:
        history.merge(history.hosts[-1].cut(), host)
        history.check(host)
        assert host.replica.vector == history.hosts[-1].replica.vector
        assert host.replica.entries.digest == history.hosts[-1].replica.entries.digest


def test_a_snapshot_can_be_given_from_any_part_on_and_again(monkeypatch):
    monkeypatch.setattr(snapshot_module, "PART_ENTRIES_MAX", 3)
    history = History()
    host = history.hosts[0]
    for n in range(20):
        history.write(host, KEYS[n % 3], 2 * 3 * 64)
    snapshot = host.cut()
    first = [snapshot.part(n) for n in range(4)]
    assert snapshot.knows(4)
    assert not snapshot.knows(5)
    history.write(host, "a", 2 * 3 * 64)
    assert [snapshot.part(n) for n in range(4)] == first
    taking = carried(snapshot)
    assert len(taking.entries) == 20
    assert taking.parts == taking.parts_expected
    assert taking.vector == snapshot.vector


def test_an_empty_space_has_a_snapshot_too():
    taking = carried(Host(0).cut())
    assert (taking.parts, taking.entries, taking.vector) == (1, {}, {})


def test_entries_come_back_as_they_were():
    host = Host(0)
    ops = [
        Op("k", "sub", 4, None, b"h" * 16, (), None),  # purged
        Op("ключ", None, 77, b"\x01", value_hash(b"\x01"), (), {"ttl": 5, "new": [1, {"x": b"y"}]}),
        Op("t", None, 3, b"\x02", b"other hash 16 by", (), None),
    ]
    host.replica.commit(ops, "ann", None, START_MS)
    entries = list(host.replica.entries.all())
    fields: Any = decode_part(encode_entries(entries))
    assert [(*f,) for f in fields] == [
        (e.dot, e.key, e.sub, e.kind, e.hlc, e.agent, e.value, e.value_hash, e.attrs) for e in entries
    ]


def test_a_part_may_come_compressed_and_is_bounded_then_too():
    host = Host(0)
    host.replica.commit([Op("k", None, 0, b"x" * 1000, value_hash(b"x" * 1000), (), None)], "ann", None, START_MS)
    data = encode_entries([*host.replica.entries.all()])
    small = compressed(data)
    assert len(small) < len(data) / 2
    assert decode_part(small) == decode_part(data)
    assert compressed(small) == small, "what does not become smaller stays as it is"
    bomb = zlib.compress(bytes(PEER_FRAME_BYTES_MAX + 1))
    for bad in (small[:-1], small + b"x", small[:1] + b"\xff" * 9, bomb):
        with pytest.raises(InvalidEncoding, match="malformed part of a snapshot"):
            decode_part(bad)


def test_a_log_that_has_grown_elsewhere_comes_as_a_whole():
    """Many entries at once for keys that are held: their order is made anew, and nothing else is different."""
    here, there = Host(0), Host(1)
    for number in range(3):
        host = (here, there)[number % 2]
        host.replica.commit(
            [Op("log", None, 4, b"%d" % n, value_hash(b"%d" % n), (), None) for n in range(number, 90)], "a", None,
            START_MS + number,
        )  # fmt: skip
    before = [*here.replica.entries.all()]
    entries = Entries()
    entries.load([*before])
    others = [*there.replica.entries.all()]
    entries.exchange([], IncomingEntries(others), sum(entry.digest for entry in others))
    expected = Entries()
    for entry in (*before, *others):
        expected.add(entry)
    assert (entries.digest, entries.count) == (expected.digest, expected.count)
    assert entries.held("log") == expected.held("log")
    assert entries.copy_of("log").by_dot == expected.copy_of("log").by_dot


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**64 - 1) | st.floats() | st.text(max_size=4) | st.binary(max_size=17),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=30,
)


@given(
    st.binary(max_size=60)
    | st.binary(max_size=60).map(zlib.compress)
    | st.tuples(st.integers(1, 4), PLAIN, PLAIN).map(lambda parts: pack([*parts]))
)
def test_any_bytes_are_a_part_or_refused(data):
    with contextlib.suppress(InvalidEncoding):
        assert decode_part(data) is not None
