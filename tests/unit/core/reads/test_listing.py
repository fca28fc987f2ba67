"""Listings: from either end, as directories, by what was said of the values; and many keys by name."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.causality import Writer
from crdtsync.core.reads import listing, pages
from crdtsync.core.waiting.session_points import vector_in
from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Agent, Refusal
from tests.simulator.cuts import patiently

TREE = ("a", "plan/goal", "plan/steps/1", "plan/steps/2", "plan/zeal", "plans", "plan/steps/2/x")


@pytest.fixture
def ann(node) -> Agent:
    agent = node.agent("ann")
    for key in TREE:
        agent.set(key, key)
    return agent


def listed(ann: Agent, **args: Any) -> tuple[list[str], list[str]]:
    """All keys and prefixes, by pages, each begun where the one before it says."""
    keys: list[str] = []
    prefixes: list[str] = []
    start = ""
    while True:
        page = ann.ask("scan", start=start, **args)
        keys += [item[0] for item in page["items"]]
        prefixes += page.get("prefixes", [])
        if not page["more"]:
            return keys, prefixes
        start = page.get("next") or page["items"][-1][0]


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
@pytest.mark.parametrize("prefix", ["", "plan", "plan/", "plan/steps/", "plan/steps/2", "x"])
def test_backwards_is_the_same_from_the_end(ann, prefix, limit):
    keys = sorted(key for key in TREE if key.startswith(prefix))
    assert listed(ann, prefix=prefix, limit=limit)[0] == keys
    assert listed(ann, prefix=prefix, limit=limit, reverse=True)[0] == keys[::-1]


@pytest.mark.parametrize("prefix", ["", "a", "a\U0010ffff", "\U0010ffff", "\ud7ff", "a\ud7ff"])
def test_backwards_ends_where_keys_no_longer_begin_so(node, prefix):
    ann = node.agent("ann")
    ends = "", "1", "\ud7ff", "\ue000", "\U0010ffff", "\U0010ffff\U0010ffff", "\U0010ffff1"
    keys = sorted({*ends, *(f"{first}{end}" for first in ("a", "b", "\ud7ff", "\ue000") for end in ends)} - {""})
    for key in keys:
        ann.set(key, 1)
    found = listed(ann, prefix=prefix, limit=5, reverse=True)[0]
    assert found == [key for key in reversed(keys) if key.startswith(prefix)]
    assert found


def test_a_token_names_nothing_that_was_taken_back(node):
    """The position may be the same again, and what stands there another change."""
    ann = node.agent("ann")
    ann.set("k", 1)
    node.replica.vector[Writer(99)] = 1  # of a branch that is taken back
    named = ann.ask("scan")["token"]
    node.replica.read_anew(next(row for row in node.store.spaces() if row.name == node.replica.name))
    assert Writer(99) in vector_in(node.replica, named)
    assert Writer(99) not in vector_in(node.replica, ann.ask("scan")["token"])


def test_backwards_begins_before_start(ann):
    def found(start):
        return [item[0] for item in ann.ask("scan", prefix="plan/", reverse=True, start=start)["items"]]

    assert found("plan/steps/2") == ["plan/steps/1", "plan/goal"]
    assert found("plan/steps/15") == ["plan/steps/1", "plan/goal"]
    assert found("plan/goal") == found("a") == []
    assert found("zzz")[0] == "plan/zeal"


@pytest.mark.parametrize("limit", [1, 2, 1000])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "prefix, keys, prefixes",
    [
        ("", ["a", "plans"], ["plan/"]),
        ("plan", ["plans"], ["plan/"]),
        ("plan/", ["plan/goal", "plan/zeal"], ["plan/steps/"]),
        ("plan/steps/", ["plan/steps/1", "plan/steps/2"], ["plan/steps/2/"]),
        ("x", [], []),
    ],
)
def test_a_delimiter_shows_one_level(ann, prefix, keys, prefixes, reverse, limit):
    step = -1 if reverse else 1
    assert listed(ann, prefix=prefix, delimiter="/", reverse=reverse, limit=limit) == (keys[::step], prefixes[::step])


def test_a_key_that_is_a_common_prefix_itself_stands_below_it(node):
    ann = node.agent()
    for key in ("d/", "d/1", "d/\U0010ffff", "d/\U0010ffffx"):
        ann.set(key, 1)
    for reverse in (False, True):
        assert listed(ann, delimiter="/", reverse=reverse) == ([], ["d/"])


def test_a_directory_of_many_keys_costs_one_step_of_each(node, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_KEYS_TRIED_MAX", 10)
    ann = node.agent()
    for n in range(100):
        ann.set(f"{n % 4}/{n:03}", n)
    page = ann.ask("scan", delimiter="/")
    assert (page["prefixes"], page["more"]) == (["0/", "1/", "2/", "3/"], False)


def test_only_keys_whose_meta_has_all_of_these_fields(node):
    ann = node.agent()
    ann.set("1", 1, meta=pack({"role": "critic", "round": 1}))
    ann.set("2", 1, meta=pack({"role": "critic", "round": 2}))
    ann.set("3", 1, meta=pack({"role": "coder", "round": True}))
    ann.set("4", 1, meta=pack("critic"))
    ann.set("5", 1)
    ann.append("6", "x", meta=pack({"role": "critic", "tags": {"b": 1, "a": 2}}))

    def found(**meta):
        return listed(ann, where_meta=pack(meta))[0]

    assert found(role="critic") == ["1", "2", "6"]
    assert found(role="critic", round=1) == ["1"], "true is not 1"
    assert found(tags={"a": 2, "b": 1}) == ["6"]
    assert found(role=None) == []
    assert listed(ann, where_meta=pack({"role": "critic"}), reverse=True, limit=1)[0] == ["6", "2", "1"]
    for wrong in (pack([]), pack({}), b"\xc1", "role"):
        with pytest.raises(Refusal):
            ann.ask("scan", where_meta=wrong)


def test_a_page_tries_no_more_keys_than_a_turn_has_time_for(node, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_KEYS_TRIED_MAX", 10)
    ann = node.agent()
    for n in range(25):
        ann.set(f"k{n:02}", n, **({"meta": pack({"is": "it"})} if n == 24 else {}))
    page = ann.ask("scan", where_meta=pack({"is": "it"}))
    assert (page["items"], page["more"], page["next"]) == ([], True, "k09")
    assert listed(ann, where_meta=pack({"is": "it"}))[0] == ["k24"]


@pytest.mark.parametrize("at", [{}, {"at": "checkpoint:c"}])
def test_a_page_tells_all_of_no_more_values_than_a_turn_has_time_for(node, monkeypatch, at):
    """1,000 entries took 45 to 130 ms to describe, and keys of many values as many times as long."""
    monkeypatch.setattr(pages, "PAGE_WORK_MAX", 10 * listing.ENTRY_WORK)
    ann, bob = node.agent("ann"), node.agent("bob")
    for n in range(20):
        ann.set(f"k{n:02}", n)
        if n < 4:
            bob.do("set", key=f"k{n:02}", value=b"\x07", seen="?")  # beside ann's
    ann.do("checkpoint_set", name="c")
    sizes, start, keys = [], "", []
    while True:
        page = patiently(ann, "scan", prefix="k", entries=True, start=start, **at)
        keys += [item["key"] for item in page["items"]]
        sizes.append(sum(1 + len(item["siblings"]) for item in page["items"]))
        if not page["more"]:
            break
        start = keys[-1]
    assert keys == [f"k{n:02}" for n in range(20)]
    assert sum(sizes) == 24
    assert len(sizes) >= 3
    assert max(sizes) <= 11
    assert len(patiently(ann, "scan", prefix="k", **at)["items"]) == 20


def test_a_page_unpacks_no_more_of_what_was_said_about_values_than_a_turn_has_time_for(node, monkeypatch):
    ann = node.agent()
    said = pack({"is": "it", "more": [{"in": {}}] * 100})
    monkeypatch.setattr(pages, "PAGE_META_BYTES_MAX", 2 * len(said))
    for n in range(8):
        ann.set(f"k{n}", n, meta=said)
    page = ann.ask("scan", where_meta=pack({"is": "not"}))
    assert (page["items"], page["more"], page["next"]) == ([], True, "k2")
    assert listed(ann, where_meta=pack({"is": "it"}))[0] == [f"k{n}" for n in range(8)]
    assert listed(ann, where_meta=pack({"is": "it"}), reverse=True)[0] == [f"k{n}" for n in range(8)][::-1]


def test_conflicts_can_be_listed_from_the_end_but_not_by_directories(node):
    ann = node.agent()
    for key in ("p/1", "p/2", "q"):
        ann.set(key, 1)
        ann.set(key, 2, seen="?")
    assert listed(ann, conflicts=True, reverse=True, limit=1)[0] == ["q", "p/2", "p/1"]
    assert listed(ann, conflicts=True, reverse=True, prefix="p/")[0] == ["p/2", "p/1"]
    with pytest.raises(Refusal, match="leave out delimiter"):
        ann.ask("scan", conflicts=True, delimiter="/")


@pytest.mark.parametrize("prefix", ["plan/**", "*", "plan/*/x", "**"])
@pytest.mark.parametrize("operation", ["scan", "watch", "history"])
def test_a_pattern_where_a_prefix_is_meant_is_refused_alike(node, operation, prefix):
    with pytest.raises(Refusal, match="is a pattern, and here the beginning of keys is meant"):
        node.agent().ask(operation, prefix=prefix)


def test_a_star_within_a_part_is_itself(node):
    ann = node.agent()
    ann.set("sh/*.py", 1)
    assert listed(ann, prefix="sh/*.")[0] == ["sh/*.py"]


# -- many keys by name -------------------------------------------------------------------------------------------


def test_many_keys_are_of_one_moment_and_absent_ones_are_left_out(ann):
    page = ann.ask("get_many", keys=["plan/goal", "nothing", "a"])
    assert [(key, kind, unpack(value)) for key, kind, value, _, _ in page["items"]] == [
        ("plan/goal", "register", "plan/goal"),
        ("a", "register", "a"),
    ]
    assert page["done"] == 3
    assert page["items"][1][3] == ann.version("a")
    assert page["token"].startswith("c1.")


def test_many_keys_end_early_where_their_values_are_long(ann, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_BYTES_MAX", 200)
    for n in range(5):
        ann.set(f"k{n}", "x" * 60)
    asked = ["nothing", *(f"k{n}" for n in range(5)), "nothing"]
    found: list[str] = []
    while asked:
        page = ann.ask("get_many", keys=asked)
        assert page["done"] > 0
        found += [row[0] for row in page["items"]]
        asked = asked[page["done"] :]
    assert found == [f"k{n}" for n in range(5)]


@pytest.mark.parametrize("keys", [[], ["k"] * 1001, "k", ["k", ""], ["k", 7], None])
def test_what_is_no_list_of_keys_is_refused(node, keys):
    with pytest.raises(Refusal) as refusal:
        node.agent().ask("get_many", keys=keys)
    assert refusal.value.code == "invalid_request"


def test_a_row_says_of_a_key_what_a_get_of_it_says(node):
    ann = node.agent()
    ann.do("schema_set", key="_schema/all", pattern="all", policy="all")
    for key in ("plain", "two", "all"):
        ann.set(key, 1)
    ann.set("told", 1, meta=pack({"by": "hand"}), ttl=60_000)
    ann.set("two", 2, seen="?")
    ann.do("incr", key="counter")
    ann.append("log", "x")
    rows = ann.ask("get_many", keys=["plain", "told", "two", "all", "counter", "log"])["items"]
    assert len(rows) == 6
    for key, kind, value, version, siblings in rows:
        said = ann.ask("get", key=key)
        assert said == {"value": value, "kind": kind, "version": version, "siblings": siblings}, key
