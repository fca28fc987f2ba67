"""Conditions: every write may name the version that it wants to find; a refusal shows what there is instead."""

from __future__ import annotations

from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Refusal


def text_update(content):
    doc: Doc[Text] = Doc()
    doc["text"] = Text()
    before = doc.get_state()
    doc["text"] += content
    return doc.get_update(before)


WRITES: dict[str, dict[str, Any]] = {
    "set": {"value": pack(2)},
    "delete": {},
    "append": {"value": pack(2)},
    "trim": {"keep": 0},
    "incr": {"by": 2},
    "reset": {},
    "add": {"value": pack(2)},
    "discard": {"value": pack(1)},
    "merge": {"fields": {"f": pack(2)}},
    "drop": {"field": "f"},
    "resolve": {"value": pack(2)},
    "text_apply": {"document": None, "update": text_update("b")},
    "text_compact": {},
}
FIRST: dict[str, tuple[str, dict[str, Any]]] = {
    "register": ("set", {"value": pack(1)}),
    "log": ("append", {"value": pack(1)}),
    "counter": ("incr", {"by": 1}),
    "set": ("add", {"value": pack(1)}),
    "map": ("merge", {"fields": {"f": pack(1)}}),
    "text": ("text_apply", {"document": None, "update": text_update("a")}),
}
KIND_OF = {
    "append": "log", "trim": "log", "incr": "counter", "reset": "counter", "add": "set", "discard": "set",
    "merge": "map", "drop": "map", "text_apply": "text", "text_compact": "text",
}  # fmt: skip


def begin(session, operation, key="k"):
    name, args = FIRST[KIND_OF.get(operation, "register")]
    session.do(name, key=key, **args)
    return session.ask("entry", key=key)["version"]


@pytest.mark.parametrize("operation", WRITES)
def test_every_write_takes_if_version(node, operation):
    ann = node.agent()
    version = begin(ann, operation)
    again, args = FIRST[KIND_OF.get(operation, "register")]
    node.agent().do(again, key="k", **({"seen": version} | args if again == "set" else args))
    before = ann.ask("entry", key="k")
    position = node.replica.position
    with pytest.raises(Refusal) as refusal:
        ann.do(operation, key="k", if_version=version, **WRITES[operation])
    assert refusal.value.code == "version_mismatch"
    assert refusal.value.fields["current"] == before
    assert node.replica.position == position
    ann.do(operation, key="k", if_version=before["version"], **WRITES[operation])


@pytest.mark.parametrize("operation", WRITES)
def test_every_write_takes_if_absent(node, operation):
    ann = node.agent()
    begin(ann, operation)
    before = ann.ask("entry", key="k")
    with pytest.raises(Refusal) as refusal:
        ann.do(operation, key="k", if_absent=True, **WRITES[operation])
    assert refusal.value.code == "version_mismatch"
    assert refusal.value.fields["current"] == before


@pytest.mark.parametrize("operation", WRITES)
def test_a_version_of_what_is_gone_does_not_fit_an_absent_key(node, operation):
    ann = node.agent()
    version = begin(ann, operation)
    node.agent().delete("k")
    with pytest.raises(Refusal) as refusal:
        ann.do(operation, key="k", if_version=version, **WRITES[operation])
    assert refusal.value.code == "version_mismatch"
    assert (refusal.value.fields["current"], refusal.value.fields["key"]) == (None, "k")


@pytest.mark.parametrize("operation", WRITES)
def test_a_version_and_an_absent_key_cannot_both_be_wanted(node, operation):
    ann = node.agent()
    version = begin(ann, operation)
    with pytest.raises(Refusal, match="cannot both") as refusal:
        ann.do(operation, key="k", if_version=version, if_absent=True, **WRITES[operation])
    assert refusal.value.code == "invalid_request"


@pytest.mark.parametrize("operation", WRITES)
def test_a_refused_operation_refuses_its_batch_and_says_which_it_was(node, operation):
    ann = node.agent()
    version = begin(ann, operation)
    node.agent().delete("k")
    position = node.replica.position
    ops = [
        ["set", {"key": "a", "value": pack(1)}],
        ["incr", {"key": "n", "by": 1}],
        [operation, {"key": "k", "if_version": version, **WRITES[operation]}],
        ["append", {"key": "l", "value": pack(1)}],
    ]
    with pytest.raises(Refusal, match=rf"operation 2 of the batch \({operation}\): 'k' has changed") as refusal:
        ann.do("batch", ops=ops)
    fields = refusal.value.fields
    assert (fields["code"], fields["index"], fields["op"], fields["key"]) == ("version_mismatch", 2, operation, "k")
    assert node.replica.position == position
    assert ann.ask("scan", prefix="")["items"] == []


def test_what_is_no_operation_of_a_batch_is_named_by_its_place(node):
    with pytest.raises(Refusal, match="operation 1 of the batch") as refusal:
        node.agent().do("batch", ops=[["set", {"key": "a", "value": pack(1)}], ["get", {"key": "a"}]])
    assert refusal.value.fields["index"] == 1


def test_a_batch_of_conditions_is_refused_by_the_first_that_is_false(node):
    ann = node.agent()
    versions = {}
    for key in "abc":
        ann.set(key, 0)
        versions[key] = ann.version(key)
    node.agent().do("set", key="b", value=pack(9))
    ops = [["set", {"key": key, "value": pack(1), "if_version": versions[key]}] for key in "abc"]
    with pytest.raises(Refusal) as refusal:
        ann.do("batch", ops=ops)
    assert refusal.value.fields["index"] == 1
    assert unpack(refusal.value.fields["current"]["value"]) == 9
    assert [ann.get(key) for key in "abc"] == [0, 9, 0]


def test_a_dot_that_nobody_has_ends_a_resolution_at_once(pair):
    """A mistyped dot must not have its author wait."""
    ann = pair["a"].agent()
    ann.set("k", 1)
    pair["b"].agent().set("j", 1)
    pair.run(1)
    for writer in pair["a"].replica.vector:
        request = ann.write("resolve", key="k", take=f"{writer}.99.0", timeout=60_000)
        pair["a"].turn()
        with pytest.raises(Refusal, match="no node is known that does") as refusal:
            ann.result(request)
        assert refusal.value.code == "version_mismatch"


def test_beside_a_condition_what_is_given_as_seen_is_what_is_replaced(node):
    """The condition is about the whole key, and its author knows it as it is; it says which of its values it read."""
    ann = node.agent()
    ann.set("k", 1)
    read = ann.ask("get", key="k")["version"]
    node.agent().set("k", 2, seen="?")
    both = ann.ask("entry", key="k")["version"]
    assert ann.set("k", 3, if_version=both, seen=read)["siblings"] == 1
    assert sorted(ann.values("k")) == [2, 3]


def test_a_strict_write_counts_what_it_names_and_not_what_it_follows(node):
    ann = node.agent()
    ann.set("k", 1)
    read = ann.ask("get", key="k")["version"]
    first = ann.write("set", key="k", value=pack(2), seen=read)
    follows = {"k": [ann.number, 0]}
    strict = ann.write("set", key="k", value=pack(3), seen=read, strict=True, follows=follows)
    node.turn()
    assert (ann.result(first)["siblings"], ann.result(strict)["siblings"]) == (0, 1)
    assert sorted(ann.values("k")) == [2, 3]
    third = ann.write("set", key="k", value=pack(4), seen=read, follows={"k": [ann.number, 0]})
    node.turn()
    assert ann.result(third)["siblings"] == 1  # what the newest of them left counts, where nothing speaks against it
