"""What an import does with each record, and how it groups them."""

from __future__ import annotations

import pytest
from crdtsyncd.cli.importing import BATCH_BYTES_MAX, BATCH_WRITES_MAX, Importer, Write, chunks, outcome_of, parts
from crdtsyncd.cli.ndjson import Line
from crdtsyncd.cli.records import Record, Variant

from crdtsync.client import Client, Entry
from crdtsync.errors import VersionMismatch


def record(kind, *contents, key="k"):
    return Record(Line("file", 1, {}), key, kind, tuple(Variant(content) for content in contents))


def entry(kind, value, *siblings, key="k"):
    others = [entry(kind, sibling) for sibling in siblings]
    return Entry(key, kind, value, "v1.x", "1.1.0", others, "a", "n", None, None, None, None)


@pytest.mark.parametrize(
    "new, held, policy, outcome",
    [
        (record("register", 1), None, "skip", "created"),
        (record("log"), None, "skip", "unchanged"),
        (record("register", 1), entry("register", 1), "set", "unchanged"),
        (record("register", 1), entry("register", 1.0), "skip", "skipped"),
        (record("register", 1), entry("register", True), "skip", "skipped"),
        (record("register", 1, 2), entry("register", 2, 1), "set", "unchanged"),
        (record("register", 1), entry("register", 1, 2), "set", "replaced"),
        (record("register", 1), entry("register", 2), "set", "replaced"),
        (record("register", 1), entry("register", 2), "sibling", "added"),
        (record("log", 1, 2), entry("log", [1, 2]), "set", "unchanged"),
        (record("log", 1, 2), entry("log", [2, 1]), "skip", "skipped"),
        (record("log", 1), entry("log", [2]), "sibling", "added"),
        (record("text", "a"), entry("text", "a"), "set", "unchanged"),
        (record("text", "a"), entry("text", "b"), "sibling", "skipped"),
        (record("text", "a"), entry("register", "a"), "set", "replaced"),
        (record("log", 1), entry("register", [1]), "sibling", "skipped"),
    ],
)
def test_outcomes(new, held, policy, outcome):
    assert outcome_of(new, held, policy) == outcome


def keys(groups):
    return [[member.key for member in group] for group in groups]


def test_a_group_fits_into_a_batch():
    records = [record("register", 1, key=str(n)) for n in range(1200)]
    groups = list(chunks(records))
    assert [member for group in groups for member in group] == records
    assert all(sum(len(member.variants) for member in group) <= BATCH_WRITES_MAX for group in groups)
    assert len(groups) < 10


def test_large_values_make_small_groups():
    records = [record("register", "x" * (BATCH_BYTES_MAX // 3), key=str(n)) for n in range(5)]
    assert keys(chunks(records)) == [["0", "1"], ["2", "3"], ["4"]]


def test_texts_stand_alone_and_no_key_is_twice_in_a_group():
    records = [
        record(kind, "x", key=key) for kind, key in [("register", "a"), ("text", "b"), ("log", "c"), ("log", "c")]
    ]
    assert keys(chunks(records)) == [["a"], ["b"], ["c"], ["c"]]


class FakeBatch:
    def __init__(self, client):
        self.client = client

    def __enter__(self):
        self.writes = []
        return self

    def __exit__(self, kind, *_):
        self.client.commit(self.writes)

    def __getattr__(self, method):
        return lambda **arguments: self.writes.append((method, arguments))


class FakeClient(Client):
    """Keys that come into being between a reading and the write that follows."""

    def __init__(self, *surprises):
        self.held: dict[str, Entry] = {}
        self.done = []
        self.surprises = list(surprises)

    def entry(self, key, **_):
        return self.held.get(key)

    def batch(self, **_):
        return FakeBatch(self)

    def commit(self, writes):
        if self.surprises:
            key = self.surprises.pop()
            self.held[key] = entry("register", "theirs", key=key)
            raise VersionMismatch("exists already")
        self.done.append(writes)


def test_a_key_that_comes_into_being_meanwhile_is_looked_at_again():
    client = FakeClient("a")
    importer = Importer(client, "skip")
    list(importer.write([record("register", 1, key="a"), record("register", 2, key="b")]))
    assert client.done == [[("set", {"key": "b", "value": 2, "if_absent": True})]]
    assert importer.counts == {"skipped": 1, "created": 1}


def test_siblings_are_written_the_winner_last():
    client = FakeClient()
    list(Importer(client, "skip").write([record("register", "winner", "second", "third")]))
    assert client.done == [
        [
            ("set", {"key": "k", "value": "third", "if_absent": True}),
            ("set", {"key": "k", "value": "second", "seen": "?"}),
            ("set", {"key": "k", "value": "winner", "seen": "?"}),
        ]
    ]


def test_replacing_supersedes_all_that_was_read_and_nothing_newer():
    client = FakeClient()
    client.held["k"] = entry("register", "old", "older")
    list(Importer(client, "set").write([record("register", "new")]))
    assert client.done == [[("set", {"key": "k", "value": "new", "seen": "v1.x"})]]


def test_siblings_are_split_only_where_no_change_can_hold_them():
    writes = [Write("set", {"key": "b", "value": "x" * (BATCH_BYTES_MAX - 5)}) for _ in range(4)]
    assert [len(part) for part in parts(writes)] == [3, 1]


def test_a_log_longer_than_a_batch_is_written_in_several():
    client = FakeClient()
    list(Importer(client, "skip").write([record("log", *range(BATCH_WRITES_MAX + 1))]))
    assert [len(writes) for writes in client.done] == [BATCH_WRITES_MAX, 1]
