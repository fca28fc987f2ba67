"""What an import does with each record, and how it groups them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from crdtsyncd.cli.data.export_records import ExportRecord, Variant
from crdtsyncd.cli.data.importer import (
    BATCH_BYTES_MAX,
    BATCH_WRITES_MAX,
    Importer,
    chunks,
    cut_off_at,
    outcome_of,
    parts,
)
from crdtsyncd.cli.data.kinds import KindWrite
from crdtsyncd.cli.data.ndjson import Line

from crdtsync.client import Client, Entry, Schema
from crdtsync.errors import VersionMismatch


def record(kind, *contents, key="k"):
    return ExportRecord(Line("file", 1, {}), key, kind, tuple(Variant(content) for content in contents))


def of_map(value, *siblings, key="k"):
    """A map, with other values of its fields as (field, value)."""
    variants = [*value.items(), *siblings]
    return ExportRecord(Line("file", 1, {}), key, "map", tuple(Variant(each, field=name) for name, each in variants))


def held_map(value, *siblings):
    losers = [replace(entry("map", each), field=name) for name, each in siblings]
    return replace(entry("map", value), siblings=losers)


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
        (record("counter", 3), entry("counter", 3), "set", "unchanged"),
        (record("counter", 3), entry("counter", 4), "sibling", "added"),
        (record("counter", 3), entry("register", 3), "set", "replaced"),
        (record("set", 1, "a"), entry("set", ["a", 1]), "set", "unchanged"),
        (record("set", {"a": 1, "b": 2}), entry("set", [{"b": 2, "a": 1}]), "set", "unchanged"),
        (record("set", 1), entry("set", [1.0]), "skip", "skipped"),
        (of_map({"a": 1, "b": 2}), held_map({"b": 2, "a": 1}), "set", "unchanged"),
        (of_map({"a": 1}, ("a", 2)), held_map({"a": 2}, ("a", 1)), "set", "unchanged"),
        (of_map({"a": 1}), held_map({"a": 1}, ("a", 2)), "set", "replaced"),
        (of_map({"a": 1}), held_map({"a": 1, "b": 2}), "skip", "skipped"),
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
        self.policy = "lww"
        self.reads = []

    def schema(self, key, **_):
        return Schema(key, self.policy, False, {}, 0, None, None, None)

    def entry(self, key, **_):
        self.reads.append(key)
        return self.held.get(key)

    def get_many(self, keys, **_):
        self.reads.append([*keys])
        return {key: self.held[key].value for key in keys if key in self.held}

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


@pytest.mark.parametrize("act", [Importer.write, Importer.foretell])
def test_one_request_tells_which_keys_are_there(act):
    client = FakeClient()
    client.held["b"] = entry("register", 1, key="b")
    importer = Importer(client, "skip")
    list(act(importer, [record("register", 1, key=key) for key in "abc"]))
    assert client.reads == [["a", "b", "c"], "b"]
    assert importer.counts == {"created": 2, "unchanged": 1}


def test_where_the_first_wins_the_winner_is_written_first():
    client = FakeClient()
    client.policy = "first"
    list(Importer(client, "skip").write([record("register", "winner", "second")]))
    assert client.done == [
        [
            ("set", {"key": "k", "value": "winner", "if_absent": True}),
            ("set", {"key": "k", "value": "second", "seen": "?"}),
        ]
    ]


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
    writes = [KindWrite("set", {"key": "b", "value": "x" * (BATCH_BYTES_MAX - 5)}) for _ in range(4)]
    assert [len(part) for part in parts(writes)] == [3, 1]


def test_a_log_longer_than_a_batch_is_written_in_several():
    client = FakeClient()
    list(Importer(client, "skip").write([record("log", *range(BATCH_WRITES_MAX + 1))]))
    assert [len(writes) for writes in client.done] == [BATCH_WRITES_MAX, 1]


@pytest.mark.parametrize("policy", ["skip", "set", "sibling"])
@pytest.mark.parametrize(
    "new, there",
    [
        (record("log", *range(1200)), entry("log", [*range(1000)])),
        (record("set", *range(1200)), entry("set", [*range(500)])),
        (of_map({f"f{n}": n for n in range(1200)}), entry("map", {f"f{n}": n for n in range(200, 1200)})),
    ],
)
def test_an_import_that_was_cut_off_goes_on_where_it_was(new, there, policy):
    """The key holds exactly the first batches: under every policy the rest is written, and nothing twice."""
    whole, _ = imported(new, None, policy)
    rest, counts = imported(new, there, policy)
    assert rest == whole[len(there.value) :]
    assert counts == {"created": 1}


def test_what_is_no_whole_number_of_batches_is_somebody_elses(monkeypatch):
    for there in ([*range(999)], [*range(999), "another"], []):
        rest, counts = imported(record("log", *range(1200)), entry("log", there), "skip")
        assert (rest, counts) == ([], {"skipped": 1})


def test_a_text_that_was_cut_off_goes_on_where_it_was(monkeypatch):
    monkeypatch.setattr("crdtsyncd.cli.data.importer.TEXT_PART_CHARS", 3)
    assert [cut_off_at(record("text", "abcdefgh"), entry("text", there)) for there in ("abc", "abcdef", "abd")] == [
        3,
        6,
        0,
    ]
    assert [cut_off_at(record("text", "abcdef"), entry("text", there)) for there in ("", "ab", "abcdef")] == [0, 0, 0]


def written(client):
    return [write for writes in client.done for write in writes]


def imported(new, held, policy):
    client = FakeClient()
    if held is not None:
        client.held["k"] = held
    importer = Importer(client, policy)
    list(importer.write([new]))
    return written(client), dict(importer.counts)


def test_a_counter_is_counted_up_to_what_the_file_says():
    assert imported(record("counter", 5), None, "skip") == ([("incr", {"key": "k", "n": 5})], {"created": 1})
    assert imported(record("counter", 0), None, "skip") == ([("incr", {"key": "k", "n": 0})], {"created": 1})
    assert imported(record("counter", 5), entry("counter", 7), "set")[0] == [("incr", {"key": "k", "n": -2})]
    assert imported(record("counter", 5), entry("counter", 7), "sibling")[0] == [("incr", {"key": "k", "n": 5})]
    steps = imported(record("counter", -(2**54) - 3), None, "skip")[0]
    assert [arguments["n"] for _, arguments in steps] == [-(2**53), -(2**53), -3]


def test_a_set_gets_what_it_lacks_and_loses_what_is_too_much():
    writes, counts = imported(record("set", 1, "a", None), entry("set", ["a", "b", 1.0]), "set")
    assert writes == [
        ("discard", {"key": "k", "value": "b", "seen": "v1.x"}),
        ("discard", {"key": "k", "value": 1.0, "seen": "v1.x"}),
        ("add", {"key": "k", "value": 1}),
        ("add", {"key": "k", "value": None}),
    ]
    assert counts == {"replaced": 1}
    assert imported(record("set", 1, "a"), entry("set", ["a", "b"]), "sibling")[0] == [
        ("add", {"key": "k", "value": 1})
    ]
    assert imported(record("set", "a"), entry("set", ["a", "b"]), "sibling") == ([], {"unchanged": 1})


def merged(field, value, seen):
    return "merge", {"key": "k", "fields": {field: value}, "seen": seen}


def test_a_map_is_made_field_by_field_with_the_winner_last():
    writes, counts = imported(of_map({"a": 1, "b": 2}, ("a", 3)), None, "skip")
    assert writes == [merged("a", 3, "?"), merged("b", 2, "?"), merged("a", 1, "?")]
    assert counts == {"created": 1}


def test_a_map_is_changed_where_it_differs():
    held = held_map({"a": 1, "b": 2, "c": 3, "d": 4}, ("b", 5), ("d", 6))
    writes, _ = imported(of_map({"a": 1, "b": 2, "d": 6, "e": 7}, ("d", 4)), held, "set")
    assert writes == [
        ("drop", {"key": "k", "field": "c", "seen": "v1.x"}),
        merged("e", 7, "v1.x"),
        merged("b", 2, "v1.x"),
    ]


def test_a_map_gets_what_differs_beside_its_own():
    writes, counts = imported(of_map({"a": 1, "b": 2}, ("a", 3)), held_map({"a": 1, "b": 4}), "sibling")
    assert writes == [merged("a", 3, "?"), merged("b", 2, "?")]
    assert counts == {"added": 1}


def test_a_key_of_another_kind_goes_first():
    held = entry("register", 1)
    assert imported(record("set", 1), held, "set")[0] == [
        ("delete", {"key": "k", "seen": "v1.x"}),
        ("add", {"key": "k", "value": 1}),
    ]
    mixed = replace(entry("counter", 1), siblings=[entry("register", 2)])
    assert imported(record("counter", 5), mixed, "set")[0] == [
        ("delete", {"key": "k", "seen": "v1.x"}),
        ("incr", {"key": "k", "n": 5}),
    ]
