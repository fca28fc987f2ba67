"""Files of operations and records: whatever is wrong with a line is said with its place, before anything is written."""

from __future__ import annotations

import io
import json

import pytest
from crdtsyncd.cli.data import ndjson
from crdtsyncd.cli.data.batch_lines import BatchLine, operation_of
from crdtsyncd.cli.data.export_records import Variant, record_of
from crdtsyncd.cli.data.kinds import OPERATIONS
from crdtsyncd.cli.errors import CommandFailed


def lines(text):
    return ndjson.lines(io.BytesIO(text if isinstance(text, bytes) else text.encode()), "file")


def only(fields):
    (line,) = lines(json.dumps(fields))
    return line


def fault(function, *arguments):
    with pytest.raises(CommandFailed) as caught:
        function(*arguments)
    assert caught.value.status == 4
    return caught.value.message


def test_blank_lines_count_as_lines_and_not_as_objects():
    found = list(lines('{"a": 1}\n\n  \r\n{"b": 2}'))
    assert [(line.number, line.fields) for line in found] == [(1, {"a": 1}), (4, {"b": 2})]


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"a": "x', "file:1: it is not JSON (unterminated string starting at column 7)"),
        ('"a\tb"', "file:1: it is not JSON (invalid control character at column 3)"),
        ("{}\nx", "file:2: it is not JSON (expecting value at column 1)"),
        ('{"a": \r\n{}\n', "file:1: it is not JSON (expecting value at column 7)"),
        ("[1]", "file:1: it is not a JSON object"),
        ('{"$bytes": ""}', "file:1: it is not a JSON object"),
        ('{"a": NaN}', "file:1: it cannot be stored: NaN is not JSON and no value can hold it"),
        (b'{"a": "\xff"}', "file:1: it is not UTF-8"),
        ('{"a": 1', "file:1: it is not JSON (expecting ',' delimiter at column 8)"),
    ],
)
def test_a_bad_line_is_named(text, message):
    assert fault(list, lines(text)) == message


@pytest.mark.parametrize(
    "fields, operation",
    [
        ({"op": "set", "key": "k", "value": None}, BatchLine("set", {"key": "k", "value": None})),
        (
            {"op": "set", "key": "k", "value": 1, "ttl": "2m", "confidence": 1, "meta": {}, "if_absent": True},
            BatchLine("set", {"key": "k", "value": 1, "ttl": 120.0, "confidence": 1, "meta": {}, "if_absent": True}),
        ),
        ({"op": "set", "key": "k", "value": 1, "ttl": 0.5}, BatchLine("set", {"key": "k", "value": 1, "ttl": 0.5})),
        ({"op": "append", "key": "k", "value": [1]}, BatchLine("append", {"key": "k", "value": [1]})),
        ({"op": "del", "key": "k", "seen": "v1.x"}, BatchLine("delete", {"key": "k", "seen": "v1.x"})),
        ({"op": "trim", "key": "k", "keep": 0}, BatchLine("trim", {"key": "k", "keep": 0})),
        ({"op": "incr", "key": "k"}, BatchLine("incr", {"key": "k"})),
        ({"op": "incr", "key": "k", "n": -(2**53)}, BatchLine("incr", {"key": "k", "n": -(2**53)})),
        ({"op": "reset", "key": "k", "if_version": "v"}, BatchLine("reset", {"key": "k", "if_version": "v"})),
        ({"op": "add", "key": "k", "value": None}, BatchLine("add", {"key": "k", "value": None})),
        (
            {"op": "discard", "key": "k", "value": 1, "seen": "v"},
            BatchLine("discard", {"key": "k", "value": 1, "seen": "v"}),
        ),
        ({"op": "merge", "key": "k", "fields": {"a": 1}}, BatchLine("merge", {"key": "k", "fields": {"a": 1}})),
        ({"op": "drop", "key": "k", "field": "a"}, BatchLine("drop", {"key": "k", "field": "a"})),
    ],
)
def test_operations(fields, operation):
    assert operation_of(only(fields)) == operation


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"key": "k"}, '"op" must be one of set, touch, incr, reset,'),
        ({"op": ["set"]}, '"op" must be one of'),
        ({"op": "set", "key": "k"}, '"value" is missing'),
        ({"op": "set", "value": 1}, '"key" is missing'),
        ({"op": "set", "key": 1, "value": 1}, '"key" must be a string'),
        ({"op": "set", "key": "k", "value": 1, "tll": 1}, '"tll" is not a field of set'),
        ({"op": "set", "key": "k", "value": 1, "ttl": "1y"}, "'1y' is not a duration"),
        ({"op": "set", "key": "k", "value": 1, "ttl": 0}, '"ttl" must be'),
        ({"op": "set", "key": "k", "value": 1, "confidence": True}, '"confidence" must be'),
        ({"op": "set", "key": "k", "value": 1, "if_absent": 1}, '"if_absent" must be true or false'),
        ({"op": "trim", "key": "k", "keep": -1}, '"keep" must be'),
        ({"op": "trim", "key": "k", "keep": True}, '"keep" must be'),
        ({"op": "add", "key": "k", "value": 1, "ttl": 1}, '"ttl" is not a field of add'),
        ({"op": "incr", "key": "k", "n": 1.0}, '"n" must be a whole number'),
        ({"op": "incr", "key": "k", "n": True}, '"n" must be a whole number'),
        ({"op": "incr", "key": "k", "n": 2**53 + 1}, '"n" must be a whole number'),
        ({"op": "add", "key": "k"}, '"value" is missing'),
        ({"op": "merge", "key": "k", "fields": [1]}, '"fields" must be an object'),
        ({"op": "drop", "key": "k"}, '"field" is missing'),
    ],
)
def test_what_is_no_operation(fields, said):
    message = fault(operation_of, only(fields))
    assert message.startswith("file:1: ")
    assert said in message


def test_operations_are_methods_of_a_batch():
    from crdtsync.client import Batch

    assert [method for method, _ in OPERATIONS.values() if not callable(getattr(Batch, method))] == []


def test_records():
    sibling = {"value": b"\x00".hex(), "agent": "b"}
    fields = {"key": "k", "kind": "register", "value": 1, "ttl": 5, "agent": "a", "siblings": [sibling]}
    record = record_of(only(fields))
    assert (record.key, record.kind) == ("k", "register")
    assert record.variants == (Variant(1, {"ttl": 5}), Variant("00"))
    assert record_of(only({"key": "k", "kind": "log", "value": [1, [2]]})).variants == (Variant(1), Variant([2]))
    assert record_of(only({"key": "k", "kind": "text", "value": "x"})).variants == (Variant("x"),)
    assert record_of(only({"key": "k", "kind": "counter", "value": -3})).variants == (Variant(-3),)
    assert record_of(only({"key": "k", "kind": "set", "value": [1, [2]]})).variants == (Variant(1), Variant([2]))


def test_a_record_of_a_map_has_the_winners_of_its_fields_first():
    siblings = [{"field": "a", "value": 3, "agent": "b"}]
    fields = {"key": "k", "kind": "map", "value": {"a": 1, "b": None}, "agent": "a", "siblings": siblings}
    assert record_of(only(fields)).variants == (
        Variant(1, field="a"),
        Variant(None, field="b"),
        Variant(3, field="a"),
    )


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"kind": "register", "value": 1}, '"key" must be'),
        ({"key": "_k", "kind": "register", "value": 1}, '"key" must be'),
        ({"key": "a\nb", "kind": "register", "value": 1}, '"key" must be'),
        ({"key": "k" * 1025, "kind": "register", "value": 1}, '"key" must be'),
        ({"key": "\ud800", "kind": "register", "value": 1}, '"key" must be'),
        ({"key": "k", "value": 1}, '"kind" must be one of register, counter, set,'),
        ({"key": "k", "kind": "register"}, '"value" is missing'),
        ({"key": "k", "kind": "log", "value": 1}, 'the "value" of a log must be a list'),
        ({"key": "k", "kind": "text", "value": 1}, 'the "value" of a text must be a string'),
        ({"key": "k", "kind": "log", "value": [], "ttl": 1}, '"ttl" is not a field here'),
        ({"key": "k", "kind": "counter", "value": 1.5}, 'the "value" of a counter must be a whole number'),
        ({"key": "k", "kind": "counter", "value": True}, 'the "value" of a counter must be a whole number'),
        ({"key": "k", "kind": "counter", "value": 1, "siblings": []}, '"siblings" is not a field here'),
        ({"key": "k", "kind": "set", "value": {}}, 'the "value" of a set must be a list'),
        ({"key": "k", "kind": "map", "value": []}, 'the "value" of a map must be an object'),
        ({"key": "k", "kind": "map", "value": {"": 1}}, 'the "value" of a map must be an object'),
        ({"key": "k", "kind": "map", "value": {"a\n": 1}}, 'the "value" of a map must be an object'),
        ({"key": "k", "kind": "map", "value": {}, "siblings": [{"value": 1}]}, '"field" must be'),
        ({"key": "k", "kind": "map", "value": {}, "siblings": [{"value": 1, "field": ""}]}, '"field" must be'),
        ({"key": "k", "kind": "map", "value": {}, "siblings": [{"value": 1, "field": "f", "ttl": 1}]}, '"ttl" is not'),
        ({"key": "k", "kind": "register", "value": 1, "typo": 1}, '"typo" is not a field here'),
        ({"key": "k", "kind": "register", "value": 1, "ttl": 0}, '"ttl" must be'),
        ({"key": "k", "kind": "register", "value": 1, "siblings": [1]}, '"siblings" must be'),
        ({"key": "k", "kind": "register", "value": 1, "siblings": [{}]}, '"value" is missing'),
        ({"key": "k", "kind": "register", "value": "x" * 2**20}, "one key holds at most"),
        ({"key": "k", "kind": "log", "value": ["\ud800"]}, "lone surrogate"),
    ],
)
def test_what_is_no_record(fields, said):
    message = fault(record_of, only(fields))
    assert message.startswith("file:1: ")
    assert said in message
