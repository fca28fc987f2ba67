"""One request brings no more than can be looked at in a turn, however its values are made up."""

from __future__ import annotations

import pytest

from crdtsync.core.kinds import arguments
from crdtsync.wire.codec import pack
from tests.fleet.agent import Refusal

NESTED = pack([{}])  # 17 parts
TOO_MANY = "too many parts"


@pytest.fixture(autouse=True)
def few_parts(monkeypatch):
    monkeypatch.setattr(arguments, "REQUEST_PARTS_MAX", 3 * 17)


def test_a_batch_holds_so_many_parts_and_no_more(node):
    ann = node.agent()
    ops = [["set", {"key": f"k{n}", "value": NESTED}] for n in range(4)]
    ann.do("batch", ops=ops[:3])
    with pytest.raises(Refusal, match=TOO_MANY) as refusal:
        ann.do("batch", ops=ops)
    assert (refusal.value.code, refusal.value.fields["index"]) == ("too_large", 3)
    assert ann.get("k3") is None
    ann.do("batch", ops=ops[3:])
    assert ann.get("k3") == [{}]


@pytest.mark.parametrize(
    "operation, args",
    [
        ("append", {"value": NESTED}),
        ("set", {"value": pack(1), "meta": NESTED}),
        ("incr", {"by": 1, "meta": NESTED}),
        ("merge", {"fields": {"f": NESTED}}),
        ("resolve", {"value": NESTED}),
    ],
)
def test_every_value_of_a_request_counts(node, operation, args):
    ann = node.agent()
    ops = [["set", {"key": "k/2", "value": NESTED}], ["set", {"key": "k/3", "value": NESTED}]]
    ann.do("batch", ops=[*ops, [operation, {"key": "k", **args}]])
    with pytest.raises(Refusal, match=TOO_MANY):
        ann.do("batch", ops=[*ops, ["set", {"key": "k/4", "value": NESTED}], [operation, {"key": "j", **args}]])


def test_fields_of_one_merge_count_together(node):
    ann = node.agent()
    with pytest.raises(Refusal, match=TOO_MANY):
        ann.do("merge", key="m", fields={f"f{n}": NESTED for n in range(4)})
    ann.do("merge", key="m", fields={f"f{n}": NESTED for n in range(3)})


def test_elements_of_sets_count_for_more(node):
    """Their identity has the keys of their maps in order."""
    ann = node.agent()
    ann.do("add", key="s", value=NESTED)
    for operation in ("add", "discard"):
        with pytest.raises(Refusal, match=TOO_MANY):
            ann.do("batch", ops=[["set", {"key": "k", "value": NESTED}], [operation, {"key": "s", "value": NESTED}]])
    ann.do("discard", key="s", value=NESTED)
    assert ann.ask("members", key="s")["items"] == []
