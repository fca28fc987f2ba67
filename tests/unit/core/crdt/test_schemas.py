"""Schemas: declared by pattern, in reserved keys, and obeyed by everything that shows a winner."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from crdtsync.core.crdt import schemas
from crdtsync.core.crdt.entry import order_of
from crdtsync.core.crdt.read_policies import LWW
from crdtsync.core.replica.schemas.declare import SCHEMAS_MAX
from crdtsync.errors import InvalidRequest, KindMismatch, QuotaExceeded, RanksLower, Unresolved
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.tokens import encode_dot
from tests.fleet.replicas import Site, sites


def declare(site: Site, pattern: str, policy: str | None, **more: Any) -> dict[str, Any]:
    """Set a schema, or remove it."""
    what: dict[str, Any] = {"remove": True} if policy is None else {"policy": policy}
    return site.do("schema_set", pattern=pattern, **what, **more)


def conflict(policy: str = "", pattern: str = "k") -> Site:
    """A site that holds what three wrote at once: 5, then 9, then 7, with the confidences 0.9, 0.7 and 0.8."""
    one, two, three = sites("one", "two", "three")
    for late, (site, value, confidence) in enumerate(((one, 5, 0.9), (two, 9, 0.7), (three, 7, 0.8))):
        site.now_ms += 10 * late
        site.do("set", value=value, confidence=confidence)
    one.sync(two, three)
    if policy:
        declare(one, pattern, policy)
    return one


# -- what is shown -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, values",
    [
        ("", [7, 9, 5]),
        ("lww", [7, 9, 5]),
        ("max", [9, 7, 5]),
        ("min", [5, 7, 9]),
        ("confidence", [5, 7, 9]),
        ("first", [5, 9, 7]),
        ("manual", [7, 9, 5]),
        ("all", [7, 9, 5]),
    ],
)
def test_the_policy_orders_the_siblings(policy: str, values: list[int]) -> None:
    """The entry tells all of them, the first one first, and which policy it was."""
    site = conflict(policy)
    assert site.values() == values
    assert site.ask("entry")["policy"] == (policy or "lww")
    assert [item["policy"] for item in site.ask("scan", prefix="", entries=True)["items"]] == [policy or "lww"]


@pytest.mark.parametrize("policy, value", [("", 7), ("max", 9), ("min", 5), ("confidence", 5), ("first", 5)])
def test_a_plain_read_is_the_winner_alone(policy: str, value: int) -> None:
    """Its version covers that one in a write: the others stay."""
    site = conflict(policy)
    got = site.ask("get")
    assert (unpack(got["value"]), got["siblings"]) == (value, 2)
    assert unpack(site.ask("scan", prefix="", values=True)["items"][0][2]) == value
    site.do("set", value=100, seen=got["version"], confidence=1)
    assert value not in site.values()
    assert len(site.values()) == 3


def test_all_hands_over_the_list_of_all() -> None:
    """Also of one value, so that a reader need not look what it is; who writes then replaces all."""
    site = conflict("all")
    got = site.ask("get")
    assert unpack(got["value"]) == [7, 9, 5]
    row = site.ask("scan", prefix="", values=True)["items"][0]
    assert unpack(row[2]) == [7, 9, 5]
    assert row[3] == got["version"]
    site.do("set", value=8, seen=got["version"])
    assert site.values() == [8]
    assert site.get() == [8]
    site.do("delete")
    assert site.get() is None


def test_manual_refuses_a_plain_read_until_somebody_has_chosen() -> None:
    """The refusal hands over all values, and says what to do."""
    site = conflict("manual")
    with pytest.raises(Unresolved, match="resolve") as refusal:
        site.ask("get")
    current = refusal.value.current
    assert [unpack(part["value"]) for part in (current, *current["siblings"])] == [7, 9, 5]
    assert site.ask("scan", prefix="", values=True)["items"][0][2] is None
    assert len(site.ask("scan", prefix="", entries=True, values=True, conflicts=True)["items"]) == 1
    site.do("resolve", take=current["siblings"][1]["dot"], seen=current["version"])
    assert site.get() == 5


def test_a_blind_write_replaces_what_is_shown_first() -> None:
    """And says what that was."""
    site = conflict("min")
    written = site.do("set", value=8)
    assert unpack(written["replaced"]["value"]) == 5
    assert site.values() == [7, 8, 9]


def test_a_schema_for_one_key_leaves_the_others_alone() -> None:
    """What matches no pattern is read as without schemas."""
    assert conflict("max", "other").values() == [7, 9, 5]


def test_the_most_specific_pattern_applies() -> None:
    """Whatever was declared last."""
    site = conflict("max", "k")
    declare(site, "**", "first")
    declare(site, "*", "min")
    assert site.values() == [9, 7, 5]
    declare(site, "k", None)
    assert site.values() == [5, 7, 9]
    declare(site, "*", None)
    assert site.values() == [5, 9, 7]
    declare(site, "**", None)
    assert site.values() == [7, 9, 5]


def test_between_kinds_the_newest_entry_decides_and_the_policy_within() -> None:
    """Only operations of the winner's kind are taken."""
    one, two, three = sites("one", "two", "three")
    one.do("set", value=9)
    two.do("set", value=5)
    three.now_ms += 10
    three.do("append", value=1)
    one.sync(two, three)
    declare(one, "k", "min")
    assert one.values() == [[1], *([5, 9] if one.values()[1] == 5 else [9, 5])]
    with pytest.raises(KindMismatch):
        one.do("set", value=0)
    two.sync(one)
    three.sync(one)
    late = Site("late")
    late.now_ms += 20
    late.do("set", value=7)
    late.sync(one)
    assert late.values() == [5, 7, 9, [1]]
    assert late.get() == 5


def test_all_of_a_key_with_two_kinds_is_all_of_the_first_kind() -> None:
    """The version says what was handed over."""
    one, two, three = sites("one", "two", "three")
    one.do("append", value=1)
    two.do("set", value=9)
    three.now_ms += 10
    three.do("set", value=5)
    one.sync(two, three)
    declare(one, "k", "all")
    got = one.ask("get")
    assert unpack(got["value"]) == [5, 9]
    one.do("set", value=0, seen=got["version"])
    assert one.values() == [0, [1]]


@pytest.mark.parametrize("policy", ["max", "min", "first", "all", "confidence", "manual"])
def test_other_kinds_are_as_without_a_schema(policy: str) -> None:
    """Their operations join what was done at once; there is nothing to rank."""
    one, two = sites("one", "two")
    for site in (one, two):
        site.do("append", "log", value=site.name)
        site.do("add", "set", value=site.name)
        site.do("incr", "counter", by=2)
    one.sync(two)
    before = [one.get(key) for key in ("log", "set", "counter")]
    declare(one, "**", policy)
    assert [one.get(key) for key in ("log", "set", "counter")] == before
    assert one.ask("entry", "log")["policy"] == "lww"


# -- maps ----------------------------------------------------------------------------------------------------


def map_conflict(policy: str) -> Site:
    """A map in which two wrote ``f`` at once, and one of them later ``g`` too."""
    one, two = sites("one", "two")
    one.do("merge", fields={"f": 9, "only": "x"}, confidence=0.9)
    two.now_ms += 10
    two.do("merge", fields={"f": 5})
    one.sync(two)
    declare(one, "k", policy)
    return one


@pytest.mark.parametrize(
    "policy, shown, other", [("lww", 5, 9), ("max", 9, 5), ("min", 5, 9), ("confidence", 9, 5), ("first", 9, 5)]
)
def test_each_field_of_a_map_is_ranked_by_itself(policy: str, shown: int, other: int) -> None:
    """The map that is read has the first of each field; the others are siblings of the field."""
    site = map_conflict(policy)
    assert site.values() == [{"f": shown, "only": "x"}, ("f", other)]
    assert site.get() == {"f": shown, "only": "x"}
    assert [(item[0], unpack(item[1])) for item in site.ask("fields")["items"]] == [("f", shown), ("only", "x")]
    told = site.ask("entry")
    newest = max(
        (entry for entry in site.replica.entries.held("k") if unpack(entry.value or b"") != other), key=order_of
    )
    assert told["dot"] == encode_dot(newest.dot), "author and time are of the newest value that is shown"
    written = site.do("merge", fields={"f": 7})
    assert unpack(written["replaced"]["f"]["value"]) == shown


def test_all_of_a_map_is_a_list_for_each_field() -> None:
    """Every field has one, so that a reader need not look."""
    site = map_conflict("all")
    assert site.get() == {"f": [5, 9], "only": ["x"]}
    site.do("merge", fields={"f": 1}, seen=site.ask("get")["version"])
    assert site.get() == {"f": [1], "only": ["x"]}


def test_manual_refuses_a_map_with_a_field_to_choose() -> None:
    """Its pages too."""
    site = map_conflict("manual")
    for operation in ("get", "fields"):
        with pytest.raises(Unresolved):
            site.ask(operation)
    site.do("resolve", take=site.dots()[1])
    assert site.get() == {"f": 9, "only": "x"}
    assert len(site.ask("fields")["items"]) == 2


# -- refusing what ranks lower ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, first, refused, taken",
    [
        ("max", {"value": 5}, {"value": 4}, {"value": 6}),
        ("min", {"value": 5}, {"value": 6}, {"value": 4}),
        (
            "confidence",
            {"value": 1, "confidence": 0.5},
            {"value": 2, "confidence": 0.4},
            {"value": 3, "confidence": 0.5},
        ),
        ("confidence", {"value": 1, "confidence": 0.5}, {"value": 2}, {"value": 3, "confidence": 1}),
    ],
)
@pytest.mark.parametrize("is_informed", [False, True])
def test_a_later_write_that_ranks_lower_is_refused(
    policy: str, first: Any, refused: Any, taken: Any, is_informed: bool
) -> None:
    """Whether or not its author has read the key. The error has what the key holds."""
    site = Site("one")
    declare(site, "k", policy, refuse_lower=True)
    site.do("set", **first)
    seen = {"seen": site.version()} if is_informed else {}
    with pytest.raises(RanksLower, match=policy) as refusal:
        site.do("set", **refused, **seen)
    assert unpack(refusal.value.current["value"]) == first["value"]
    assert site.values() == [first["value"]]
    site.do("set", **taken, **seen)
    assert site.values() == [taken["value"]]


def test_first_refuses_every_later_write() -> None:
    """Until the key is deleted."""
    site = Site("one")
    declare(site, "k", "first", refuse_lower=True)
    site.do("set", value=1)
    with pytest.raises(RanksLower):
        site.do("set", value=1)
    site.do("delete")
    site.do("set", value=2)
    assert site.get() == 2


def test_without_the_option_a_later_write_replaces_what_ranks_higher() -> None:
    """A policy ranks siblings alone."""
    site = Site("one")
    declare(site, "k", "max")
    site.do("set", value=5)
    site.do("set", value=1)
    assert site.values() == [1]


def test_merging_refuses_nothing() -> None:
    """What two wrote at once is there on both, in the order of the policy."""
    one, two = sites("one", "two")
    declare(one, "k", "max", refuse_lower=True)
    two.sync(one)
    one.do("set", value=9)
    two.do("set", value=5)
    two.sync(one)
    assert one.values() == two.values() == [9, 5]


def test_resolving_may_choose_what_ranks_lower() -> None:
    """It is a decision, and not a later write."""
    site = conflict("max")
    declare(site, "k", "max", refuse_lower=True)
    site.do("resolve", take=site.dots()[2])
    assert site.values() == [5]
    site.do("resolve", value=1)
    assert site.values() == [1]


def test_a_field_that_ranks_lower_refuses_the_whole_merge() -> None:
    """The message names it."""
    site = Site("one")
    declare(site, "k", "max", refuse_lower=True)
    site.do("merge", fields={"f": 5, "g": 5})
    with pytest.raises(RanksLower, match="'g'"):
        site.do("merge", fields={"f": 6, "g": 4})
    assert site.get() == {"f": 5, "g": 5}


def test_in_a_batch_a_write_is_compared_with_the_one_before() -> None:
    """All or nothing."""
    site = Site("one")
    declare(site, "k", "max", refuse_lower=True)
    ops = [["set", {"key": "k", "value": pack(value)}] for value in (1, 3, 2)]
    with pytest.raises(RanksLower):
        site.do("batch", ops=ops)
    assert site.get() is None
    site.do("batch", ops=ops[:2])
    assert site.get() == 3


# -- the schemas themselves ------------------------------------------------------------------------------------


def shown(site: Site, **args: Any) -> dict[str, tuple[str, bool]]:
    """The schemas that a request gives."""
    items = site.ask("schemas", **{"key": None, **args})["items"]
    return {item["pattern"]: (item["policy"], item["refuse_lower"]) for item in items}


def test_schemas_can_be_read() -> None:
    """All, that of a pattern, or the one that applies to a key."""
    site = Site("one")
    declare(site, "a/**", "max", refuse_lower=True)
    declare(site, "a/b", "first")
    assert shown(site) == {"a/**": ("max", True), "a/b": ("first", False)}
    assert shown(site, key="a/c") == {"a/**": ("max", True)}
    assert shown(site, key="a/b") == shown(site, pattern="a/b") == {"a/b": ("first", False)}
    assert shown(site, key="b") == shown(site, pattern="a/c") == {}
    item = site.ask("schemas", "a/b")["items"][0]
    assert (item["agent"], item["node"], item["time"], item["siblings"]) == ("one", "one", site.now_ms, 0)


def test_setting_again_replaces_and_removing_forgets() -> None:
    """The reply tells what was declared before. What is the same already writes nothing."""
    site = Site("one")
    assert declare(site, "a", "max", refuse_lower=True)["replaced"] is None
    count = len(site.changes)
    assert unpack(declare(site, "a", "max", refuse_lower=True)["replaced"]) == {"policy": "max", "refuse_lower": True}
    assert len(site.changes) == count
    declare(site, "a", "lww")
    assert shown(site) == {"a": ("lww", False)}
    declare(site, "a", None)
    assert shown(site) == {}
    assert declare(site, "a", None) == {"replaced": None, "existed": False}


def test_fields_of_newer_versions_are_kept() -> None:
    """Also an unknown policy, which is read as the default until it is replaced."""
    site = Site("one")
    site.forge((None, Kind.REGISTER, {"policy": "median", "refuse_lower": True, "cap": 10}), key="_schema/k")
    assert shown(site) == {"k": ("lww", False)}
    declare(site, "k", "max")
    plain = unpack(site.ask("schemas", "k")["items"][0]["schema"])
    assert plain == {"policy": "max", "refuse_lower": False, "cap": 10}


@pytest.mark.parametrize("careless", [b"\xc1", 7, "max", [], {"policy": ["max"]}, {}])
def test_careless_schemas_do_no_harm(careless: object) -> None:
    """They count as none, or as the default."""
    site = conflict()
    site.forge((None, Kind.REGISTER, careless), key="_schema/k")
    site.forge((None, Kind.LOG, {"policy": "max"}), key="_schema/k")
    site.forge((None, Kind.REGISTER, {"policy": "max"}), key="_schema/_k")
    site.forge((None, Kind.REGISTER, {"policy": "max"}), key="_schema/k*")
    assert site.values() == [7, 9, 5]
    declare(site, "k", "max")
    assert site.values() == [9, 7, 5]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"pattern": "a*", "policy": "max"}, "whole parts"),
        ({"pattern": "_a", "policy": "max"}, "reserved"),
        ({"pattern": "x" * 1020, "policy": "max"}, "1,024"),
        ({"pattern": "a"}, "policy must be one of lww, all, max, min, confidence, first, manual"),
        ({"pattern": "a", "policy": "best"}, "not 'best'"),
        ({"pattern": "a", "policy": ["max"]}, "policy must be one of"),
        ({"pattern": "a", "policy": "max", "refuse_lower": 1}, "true or false"),
        ({"pattern": "a", "policy": "all", "refuse_lower": True}, "goes with max, min, confidence, first"),
    ],
)
def test_what_cannot_be_declared_is_refused(arguments: Any, words: str) -> None:
    """The message says what can."""
    with pytest.raises(InvalidRequest, match=words):
        Site("one").do("schema_set", **arguments)


def test_reserved_keys_are_not_written_otherwise() -> None:
    """And shown only to who asks for such."""
    site = Site("one")
    declare(site, "a", "max")
    site.do("set", "b", value=1)
    with pytest.raises(InvalidRequest, match="reserved"):
        site.do("set", "_schema/a", value={"policy": "min"})
    keys = {prefix: [item[0] for item in site.ask("scan", prefix=prefix)["items"]] for prefix in ("", "_", "_schema/a")}
    assert keys == {"": ["b"], "_": ["_schema/a"], "_schema/a": ["_schema/a"]}


def test_conflicts_between_schemas_are_shown_to_who_asks() -> None:
    """Of two that were set at once the newest one applies, on both; setting one again settles it."""
    one, two = sites("one", "two")
    declare(one, "k", "max")
    two.now_ms += 10
    declare(two, "k", "min")
    one.sync(two)
    assert shown(one) == shown(two) == {"k": ("min", False)}
    assert one.ask("schemas", "k")["items"][0]["siblings"] == 1
    assert [len(one.ask("scan", prefix=p, conflicts=True)["items"]) for p in ("", "_")] == [0, 1]
    declare(one, "k", "min")
    assert one.ask("schemas", "k")["items"][0]["siblings"] == 0


@pytest.mark.parametrize("policy", ["max", "min", "confidence", "first", "lww"])
def test_every_order_of_arrival_gives_one_winner(policy: str) -> None:
    """The schema among it: before, between and after what it applies to."""
    site = conflict(policy)
    wanted = site.values()
    for order in permutations(site.changes):
        late = Site("late")
        late.take(order)
        assert late.values() == wanted


def test_so_many_schemas_and_no_more() -> None:
    """What is there can be changed still."""
    site = Site("one")
    ops = [["schema_set", {"pattern": f"p/{n}", "policy": "max"}] for n in range(SCHEMAS_MAX)]
    site.do("batch", ops=ops)
    with pytest.raises(QuotaExceeded):
        declare(site, "one/more", "max")
    declare(site, "p/0", "min")
    assert len(shown(site)) == SCHEMAS_MAX


def test_what_applies_to_a_key_is_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """And found again after every change of a schema."""
    monkeypatch.setattr(schemas, "CACHED_KEYS_MAX", 3)
    site = Site("one")
    declare(site, "a/*", "max")
    known = site.replica.schemas
    for n in range(20):
        assert known.of(f"a/{n}").policy.name == "max"
        assert len(known._found) <= 3
    searched: list[str] = []

    def find(_table: schemas.SchemaTable, key: str) -> schemas.Schema:
        searched.append(key)
        return schemas.DEFAULT

    monkeypatch.setattr(schemas.SchemaTable, "find", find)
    known.of("a/19")
    assert searched == []
    declare(site, "b", "max")
    known.of("a/19")
    assert searched == ["a/19"]


def test_a_space_without_schemas_pays_nothing() -> None:
    """Neither a look-up nor a place in the cache; nor does one in which all were removed."""
    site = conflict()
    declare(site, "x", "max")
    declare(site, "x", None)
    site.values()
    site.do("set", value=1)
    assert site.replica.schemas._found == {}
    assert site.replica.entries.policy_of("k") is LWW
