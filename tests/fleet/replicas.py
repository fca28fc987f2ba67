"""Replicas without daemons, disks and links: a few sites that write, and hand each other changes as a test wants it."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from crdtsync.causality import Hlc, Writer
from crdtsync.core.alarms import Alarms
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.kinds.schema_check import schema_version
from crdtsync.core.reads.operations import READS, Reader
from crdtsync.core.replica.replica import Replica
from crdtsync.core.replica.space_draft import SpaceDraft
from crdtsync.core.replica.write_operations import WRITES
from crdtsync.core.storage.long_values import ValueCache
from crdtsync.core.storage.rows import SpaceRow
from crdtsync.core.storage.write_batch import Ledger
from crdtsync.wire.change import NO_HASH, Change, Op, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from tests.fleet.clock import START_MS


class NoStorage:
    """The storage of a new node: there is nothing."""

    has_backlog = False
    backlog_position = None

    def seen(self, _row: int) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return lambda *_args: (None, []) if name == "document" else ()


def space_row() -> SpaceRow:
    """A new space."""
    values: dict[str, Any] = {"id": 1, "name": "default", "epoch": 0, "own_writer": None, "position": 0, "hlc": 0}
    values |= {"floor": {}, "own_position": 0, "history_floor": {}, "history_since_ms": 0}
    row: Any = {name: values.get(name) for name in SpaceRow._fields}
    return SpaceRow(**row)


class Site:
    """One replica."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.now_ms = START_MS
        storage: Any = NoStorage()
        random = Random(name)
        alarms, ledger, me = Alarms(lambda *_args, **_fields: None), Ledger(0, 0), (name, name)
        self.replica = Replica(space_row(), LOOPBACK_CLUSTER, storage, ledger, random, me, alarms, ValueCache())
        self.reader = Reader(self.replica, storage, self.now_ms, self.replica.node_of)
        self.changes: list[Change] = []  # in the order in which they were applied

    def do(self, operation: str, key: str = "k", **args: Any) -> dict[str, Any]:
        """A write request; its reply. Values are packed."""
        args = self.packed(args)
        draft = SpaceDraft(self.replica, self.now_ms)
        draft.author, draft.schema_version = self.name, schema_version(args)
        result = WRITES[operation](draft, args if operation == "batch" else {"key": key, **args})
        if draft.ops:
            applied = self.replica.commit(draft.ops, self.name, None, self.now_ms)
            draft.finish(applied)
            self.changes.append(applied.change)
        return result

    @staticmethod
    def packed(args: dict[str, Any]) -> dict[str, Any]:
        """Arguments as requests have them."""
        packed = dict(args)
        if "value" in args:
            packed["value"] = pack(args["value"])
        if "fields" in args:
            packed["fields"] = {field: pack(value) for field, value in args["fields"].items()}
        return packed

    def forge(self, *ops: tuple[str | None, Kind, object], key: str = "k") -> Change:
        """A change of entries that no request would make: ``(sub, kind, value)``, bytes as a node takes them in."""
        made = []
        for sub, kind, plain in ops:
            value = plain if isinstance(plain, bytes) else pack(plain)
            made.append(Op(key, sub, kind, value, value_hash(value), (), None))
        forged = self.replica.codec.encode(Change(Writer(1), 1, (), NO_HASH, Hlc(1), self.name, None, tuple(made)))
        taken = self.replica.codec.decode(forged.body).ops
        change = self.replica.commit(taken, self.name, None, self.now_ms).change
        self.changes.append(change)
        return change

    def take(self, changes: Iterable[Change]) -> None:
        """Changes of others, in whatever order."""
        for change in changes:
            applied, kept = self.replica.receive(change, self.now_ms)
            assert kept
            self.changes += [each.change for each in applied]

    def sync(self, *others: Site) -> None:
        """Exchange everything with others."""
        for other in others:
            self.take(other.changes)
            other.take(self.changes)

    def ask(self, operation: str, key: str = "k", **args: Any) -> Any:
        """A read request."""
        return READS[operation](self.reader, {"key": key, **args})

    def get(self, key: str = "k") -> Any:
        """The value; None if it is absent."""
        got = self.ask("get", key)
        return None if got is None else unpack(got["value"])

    def version(self, key: str = "k") -> Any:
        """What a reader of all values has seen."""
        return self.ask("entry", key)["version"]

    def values(self, key: str = "k") -> list[Any]:
        """All values, the winner first; a value of a map's field as (field, value)."""
        entry = self.ask("entry", key)
        if entry is None:
            return []
        parts = [(part.get("field"), unpack(part["value"])) for part in (entry, *entry["siblings"])]
        return [value if field is None else (field, value) for field, value in parts]

    def dots(self, key: str = "k") -> list[str]:
        """The dots of all values."""
        entry = self.ask("entry", key)
        return [part["dot"] for part in (entry, *entry["siblings"])]


def sites(*names: str) -> list[Site]:
    """New sites."""
    return [Site(name) for name in names]


def shuffled(site: Site, seed: int) -> Site:
    """A new site that gets all changes of another in another order, some of them twice."""
    random = Random(seed)
    changes = [*site.changes, *site.changes[: len(site.changes) // 3]]
    random.shuffle(changes)
    late = Site("late")
    late.take(changes)
    return late
