"""Values, attributes and clocks that no agent can have written: they are applied, and readers get what can be read."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from crdtsync.causality import HLC_MAX, TIME_MS_MAX
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import TTL_MS_MAX
from crdtsync.wire.stored_values import is_storable
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.renegade import Renegade, put
from tests.fleet.snapshots import trim

GOOD = pack({"a": [1, None, "x"]})
VALUES = {
    "nothing": b"",
    "cut off": b"\x92\x01",
    "two": b"\x01\x02",
    "no msgpack": b"\xc1",
    "no UTF-8": b"\xa1\xff",
    "an extension": msgpack.packb(msgpack.ExtType(5, b"x")),
    "900 deep": b"\x91" * 900 + b"\xc0",
    "65 deep": b"\x91" * 65 + b"\xc0",
    "NaN": msgpack.packb(float("nan")),
    "NaN in a list": msgpack.packb([1, float("nan")]),
    "a map with a number as key": msgpack.packb({1: 2}),
}
ATTRS: dict[str, dict[str, Any]] = {
    "ttl: a word": {"ttl": "x"},
    "ttl: a list": {"ttl": [1]},
    "ttl: true": {"ttl": True},
    "ttl: negative": {"ttl": -1},
    "ttl: too long": {"ttl": TTL_MS_MAX + 1},
    "confidence: a word": {"confidence": "x"},
    "confidence: 5": {"confidence": 5.0},
    "meta: a number": {"meta": 1},
    "meta: 900 deep": {"meta": VALUES["900 deep"]},
}
KINDS = {Kind.REGISTER: None, Kind.SET: "s", Kind.MAP: "f", Kind.LOG: None}


def told(machine: Host) -> list[dict[str, Any]]:
    """All that an agent can be told of the key ``k``."""
    reader = machine.agent("reader")
    items = [reader.ask("entry", key="k"), *reader.ask("history", key="k")["items"]]
    return [*items, *(sibling for item in items for sibling in item.get("siblings") or ())]


@pytest.mark.parametrize("how", VALUES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_that_is_none_is_unreadable_and_nothing_else_suffers(apart: Fleet, kind: Kind, how: str):
    a, b = apart["a"], apart["b"]
    renegade = Renegade(a)
    renegade.write("default", put("k", VALUES[how], kind=int(kind), sub=KINDS[kind]), put("other", GOOD))
    assert renegade.reason is None  # who passes on such a change is not cut off for it
    assert "renegade sent a value" in {alarm.code: alarm.message for alarm in a.node.alarms.raised()}["malformed_write"]
    assert a.agent().get("other") == {"a": [1, None, "x"]}
    assert all(is_storable(item["value"]) for item in told(a) if item.get("value") is not None)
    wire = apart.link("b", "a")
    apart.run(1)
    wire.close()
    trim(a)
    apart.link("c", "a")  # by a snapshot
    apart.run(2)
    for machine in (b, apart["c"]):
        assert machine.replica.entries.digest == a.replica.entries.digest
        assert [entry.value for entry in machine.replica.entries.held("k")] == [None]


@pytest.mark.parametrize("how", ATTRS)
def test_an_attribute_that_is_none_is_as_if_it_had_not_been_given(node: Host, how: str):
    Renegade(node).write("default", put("k", GOOD, attrs={**ATTRS[how], "new": 1}))
    for item in told(node):
        assert item["ttl"] is item["confidence"] is item["meta"] is None
    assert "malformed_write" in node.alarms
    node.fleet.run(2)
    assert node.agent().get("k") is not None


def test_sound_ones_count_and_unknown_ones_are_kept(node: Host):
    attrs = {"ttl": TTL_MS_MAX, "confidence": 0.5, "meta": pack(1), "new": [1]}
    Renegade(node).write("default", put("k", GOOD, attrs=attrs))
    entry = node.agent().ask("entry", key="k")
    assert (entry["ttl"], entry["confidence"], entry["meta"]) == (TTL_MS_MAX, 0.5, pack(1))
    assert node.replica.entries.held("k")[0].attrs == attrs
    assert node.alarms == set()
    assert node.replica.entries.held("k")[0].expires_ms() == TIME_MS_MAX  # later than any date


@pytest.mark.parametrize("hlc", [HLC_MAX, (TIME_MS_MAX + 1) << 16])
def test_a_clock_beyond_all_dates_is_told_as_the_last_date(node: Host, hlc: int):
    renegade = Renegade(node)
    renegade.write("default", put("k", GOOD, attrs={"ttl": 5}), hlc=hlc)
    renegade.write("default", put("k", GOOD), hlc=hlc)
    assert {item["time"] for item in told(node)} == {TIME_MS_MAX}
    assert node.alarms == set(), "the clock of who sends it is right, and is what that alarm is about"


def test_what_is_unreadable_stays_so_over_a_restart_and_can_be_replaced(node: Host):
    Renegade(node).write("default", put("k", VALUES["900 deep"]))
    node.restart()
    ann = node.agent("ann")
    assert ann.ask("get", key="k")["value"] is None
    ann.set("k", 1)
    assert ann.get("k") == 1
