"""A register's value that takes the place of the one before has a short way: it leaves the rows of the long one."""

from __future__ import annotations

import pytest

from crdtsync.core.crdt.read_context import READ_LONG_AGO
from crdtsync.core.kinds.operations import RESOLVED_ATTR
from crdtsync.core.replica import replica as replica_module
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.kinds import Kind
from crdtsync.wire.tokens import decode_dot
from tests.fleet.replicas import Site, sites


def overwriting(author: Site, other: Site) -> None:
    """Batches of each kind of overwriting: read and blind, with and without values there, twice, among other kinds."""
    batch = [["set", {"key": f"k{n}", "value": b"\x01"}] for n in range(3)]
    author.do("batch", ops=batch)
    other.do("set", "k2", value=7)
    other.sync(author)
    author.do("batch", ops=[*batch, ["append", {"key": "log", "value": b"\x02"}], ["delete", {"key": "k1"}], *batch])
    seen = other.version("k0")
    other.do(
        "batch",
        ops=[
            ["incr", {"key": "count", "by": 1}],
            ["set", {"key": "k0", "value": b"\x03", "seen": seen}],
            ["set", {"key": "k1", "value": b"\x04"}],
            ["set", {"key": "k3", "value": b"\x05"}],
            ["set", {"key": "k3", "value": b"\x06", "seen": READ_LONG_AGO}],
        ],
    )
    other.sync(author)
    for key in ("k0", "k1"):
        author.do("resolve", key, value=8, seen=author.version(key))
    author.do("batch", ops=[["delete", {"key": "k2"}], ["set", {"key": "k2", "value": b"\x09"}]])
    other.sync(author)
    first, second = (decode_dot(other.dots("k3")[n]) for n in (0, 1))
    author.replica.commit(
        [
            Op("k3", None, Kind.REGISTER, None, None, (first,), {RESOLVED_ATTR: True}),
            Op("k3", None, Kind.REGISTER, b"\x0a", value_hash(b"\x0a"), (second,), None, blind=True),
        ],
        "somebody",
        None,
        author.now_ms,
    )


def rows(ways: str, patch: pytest.MonkeyPatch) -> list[WriteBatch]:
    with patch.context() as patched:
        if ways == "long":
            patched.setattr(replica_module, "_REGISTER", -1)
        made = sites("ann", "bob")
        overwriting(*made)
        return [site.replica.ledger.batch for site in made]


def test_both_ways_leave_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for short, long in zip(rows("short", monkeypatch), rows("long", monkeypatch), strict=True):
        for table in ("changes", "entries", "removed_rows", "removals"):
            assert getattr(short, table) == getattr(long, table)
