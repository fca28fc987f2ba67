"""Caps of schemas: what is one too many makes the oldest go, in the same change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from crdtsync.core.crdt.entries import Entries
from crdtsync.core.replica.schemas import caps
from crdtsync.wire.codec import pack
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host


def cap(host: Host, pattern: str, kind: str = "register", **caps: Any) -> Agent:
    """An agent of a host that has declared a cap."""
    agent = host.agent("ann")
    agent.do("schema_set", pattern=pattern, policy="lww", kind=kind, **caps)
    return agent


def write(agent: Agent, key: str, value: object = 1) -> None:
    agent.machine.fleet.pass_time(0.01)
    agent.do("set", key=key, value=pack(value))


def append(agent: Agent, value: object) -> int:
    length: int = agent.do("append", key="log", value=pack(value))["length"]
    return length


def keys(host: Host, prefix: str = "c/") -> list[str]:
    there = sorted({entry.key for entry in host.replica.entries.all()})
    return [key.removeprefix(prefix) for key in there if key.startswith(prefix)]


def elements(host: Host) -> list[int]:
    return [entry.value[0] for entry in host.replica.entries.held("log") if entry.value]


def test_one_more_key_makes_the_one_go_that_was_written_longest_ago(node: Host):
    agent = cap(node, "c/*", max_entries=3)
    for key in "abc":
        write(agent, f"c/{key}")
    write(agent, "other")
    write(agent, "c/a", "anew")
    assert keys(node) == ["a", "b", "c"], "an update at capacity makes nothing go"
    before = dict(node.replica.vector)
    write(agent, "c/d")
    assert keys(node) == ["a", "c", "d"]
    assert sum(node.replica.vector.values()) == sum(before.values()) + 1, "in one change"
    agent.do("delete", key="c/c")
    write(agent, "c/e")
    assert keys(node) == ["a", "d", "e"], "what somebody has deleted counts no more"


def test_a_batch_makes_as_many_go_as_it_brings_but_none_of_its_own(node: Host):
    agent = cap(node, "c/*", max_entries=3)
    for key in "abc":
        write(agent, f"c/{key}")
    agent.do("batch", ops=[["set", {"key": f"c/{key}", "value": pack(1)}] for key in "xy"])
    assert keys(node) == ["c", "x", "y"]
    agent.do("batch", ops=[["set", {"key": f"c/{n}", "value": pack(1)}] for n in range(5)])
    assert keys(node) == ["0", "1", "2", "3", "4"]
    write(agent, "c/z")
    assert len(keys(node)) == 3


def test_what_is_too_much_by_itself_is_taken_where_there_is_nothing_else(node: Host):
    agent = cap(node, "c/*", max_entries=3)
    agent.do("batch", ops=[["set", {"key": f"c/{n}", "value": pack(1)}] for n in range(5)])
    assert len(keys(node)) == 5
    cap(node, "d/*", max_bytes=10)
    write(agent, "d/large", bytes(200))
    assert keys(node, "d/") == ["large"]


def test_the_bytes_of_all_keys(node: Host):
    agent = cap(node, "c/*", max_bytes=100)
    for key in "abc":
        write(agent, f"c/{key}", bytes(28))  # 30 as msgpack
    write(agent, "c/a", bytes(28))
    assert keys(node) == ["a", "b", "c"]
    write(agent, "c/a", bytes(58))
    assert keys(node) == ["a", "c"], "it grew"
    write(agent, "c/large", bytes(200))
    assert keys(node) == ["large"], "what stands there alone stays"


def test_a_more_specific_pattern_has_a_cap_of_its_own(node: Host):
    agent = cap(node, "c/**", max_entries=2)
    cap(node, "c/kept/*", max_entries=1000)
    for n in range(4):
        write(agent, f"c/kept/{n}")
        write(agent, f"c/{n}")
    assert keys(node) == ["2", "3", "kept/0", "kept/1", "kept/2", "kept/3"]


def test_a_log_loses_its_first_elements(node: Host):
    agent = cap(node, "log", "log", max_entries=3)
    assert [append(agent, n) for n in range(5)] == [1, 2, 3, 3, 3], "the length is what is left"
    assert elements(node) == [2, 3, 4]
    agent.do("batch", ops=[["append", {"key": "log", "value": pack(n)}] for n in range(10, 15)])
    assert elements(node) == [12, 13, 14], "also those of the same batch"
    cap(node, "log", "log", max_bytes=2)
    append(agent, 15)
    assert elements(node) == [14, 15]
    append(agent, "longer than all of it")
    assert len(node.replica.entries.held("log")) == 1


def test_a_log_whose_elements_end_by_themselves(node: Host):
    agent = cap(node, "log", "log", max_entries=3, ttl=1000)
    for n in range(4):
        append(agent, n)
    assert elements(node) == [1, 2, 3]
    node.fleet.pass_time(2)
    for n in range(4, 6):
        append(agent, n)
    assert [entry.value for entry in node.replica.entries.live("log", node.node.now_ms)] == [b"\x04", b"\x05"]


def test_hosts_that_were_cut_off_come_back_within_it_by_the_next_write(apart: Fleet):
    one, two = apart["a"], apart["b"]
    agent = cap(one, "c/*", max_entries=3)
    apart.link("a", "b")
    apart.sync()
    wires = list(apart.wires)
    for wire in wires:
        wire.close()
    other = two.agent("bob")
    for n in range(3):
        write(agent, f"c/a{n}")
        write(other, f"c/b{n}")
    apart.link("a", "b")
    apart.sync()
    assert len(keys(one)) == len(keys(two)) == 6, "merges take all in"
    for n in range(3):
        write(agent, f"c/z{n}")
    apart.sync()
    assert keys(one) == keys(two) == ["z0", "z1", "z2"]


@contextmanager
def looks(host: Host) -> Iterator[list[str]]:
    """The keys that are looked at meanwhile."""
    looked: list[str] = []
    keys_of = Entries.keys

    def counted(entries: Entries, prefix: str = "", *arguments: Any, **options: Any) -> Iterator[str]:
        for key in keys_of(entries, prefix, *arguments, **options):
            if entries is host.replica.entries:
                looked.append(key)
            yield key

    with mock.patch.object(Entries, "keys", counted):
        yield looked


def test_a_full_pattern_is_not_counted_with_each_new_key(node: Host):
    agent = cap(node, "c/*", max_entries=32)
    with looks(node) as looked:
        for n in range(100):
            write(agent, f"c/{n:03}")
    assert len(looked) <= 3 * 32, "as often as all that were counted have gone"
    assert keys(node) == [f"{n:03}" for n in range(68, 100)]


def test_a_batch_goes_on_where_those_end_that_were_to_go_next(node: Host):
    agent = cap(node, "c/*", max_entries=4)
    for key in "abcdefg":
        write(agent, f"c/{key}")
    agent.do("batch", ops=[["set", {"key": f"c/{key}", "value": pack(1)}] for key in "xyz"])
    assert keys(node) == ["g", "x", "y", "z"]


def test_what_goes_and_comes_meanwhile_is_known_without_counting(node: Host):
    agent = cap(node, "c/*", max_entries=32)
    for n in range(33):
        write(agent, f"c/{n:03}")
    with looks(node) as looked:
        write(agent, "c/001", "anew")
        write(agent, "c/x")
        assert keys(node)[:2] == ["001", "003"], "not what was written anew"
        agent.do("batch", ops=[["delete", {"key": f"c/{n:03}"}] for n in (20, 21, 22)])
        agent.do("batch", ops=[["set", {"key": "c/y", "value": pack(1)}], ["delete", {"key": "c/003"}]])
        for key in ("c/z1", "c/z2", "c/z3"):
            write(agent, key)
        assert keys(node)[:2] == ["001", "004"], "there was room for them"
        assert len(keys(node)) == 32
        write(agent, "c/z4")
        assert keys(node)[:2] == ["001", "005"]
    assert not looked


def test_what_others_write_and_what_snapshots_bring_counts(apart: Fleet):
    one, two = apart["a"], apart["b"]
    agent = cap(one, "c/*", max_entries=32)
    for n in range(33):
        write(agent, f"c/{n:03}")
    two.agent("bob").do("batch", ops=[["set", {"key": f"c/b{n}", "value": pack(1)}] for n in range(5)])
    apart.link("a", "b")
    apart.sync()
    assert len(keys(one)) == 37
    write(agent, "c/x")
    assert len(keys(one)) == 32
    apart.sync()
    other = two.agent("bob")
    for n in range(4):
        other.do("delete", key=f"c/b{n}")
    apart.sync()
    before = keys(one)
    for n in range(4):
        write(agent, f"c/y{n}")
    assert {*before} <= {*keys(one)}
    assert len(keys(one)) == 32


def test_the_bytes_of_values_that_are_written_anew_count_once(node: Host):
    agent = cap(node, "c/*", max_bytes=1000)
    for n in range(34):
        write(agent, f"c/{n:03}", bytes(28))  # 30 as msgpack
    assert len(keys(node)) == 33
    with looks(node) as looked:
        for _ in range(20):
            write(agent, "c/010", bytes(28))
        assert len(keys(node)) == 33
        write(agent, "c/010", bytes(58))
        assert keys(node)[0] == "002", "it grew"
    assert not looked


def test_many_logs_whose_elements_end_are_shortened_with_several_changes(node: Host, monkeypatch: pytest.MonkeyPatch):
    agent, names = cap(node, "l/*", "log", max_entries=3, ttl=10**6), [f"l/{n}" for n in range(4)]
    for name in names:
        for n in range(3):
            agent.do("append", key=name, value=pack(n))
    monkeypatch.setattr(caps, "LOOK_MAX", 5)
    held = node.replica.entries.held
    agent.do("batch", ops=[["append", {"key": name, "value": pack(9)}] for name in names])
    assert [len(held(name)) for name in names] == [3, 3, 4, 4]
    for name in names:
        agent.do("append", key=name, value=pack(10))
    assert [len(held(name)) for name in names] == [3, 3, 3, 3]


def test_of_far_too_many_that_were_there_before_some_go_with_each_write(node: Host, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(caps, "LOOK_MAX", 6)
    agent = node.agent("ann")
    for n in range(9):
        write(agent, f"c/{n}")
    cap(node, "c/*", max_entries=3)
    write(agent, "c/x")
    assert len(keys(node)) < 10
    for n in range(3):
        write(agent, f"c/y{n}")
    assert len(keys(node)) == 3


def test_a_change_to_many_full_patterns_looks_at_a_bounded_number_of_keys(node: Host, monkeypatch: pytest.MonkeyPatch):
    """Each is looked at with one of the next changes: the turn takes no longer the more patterns there are."""
    agent, names = node.agent("ann"), [f"c{n}/" for n in range(5)]
    for name in names:
        cap(node, f"{name}*", max_entries=4)
        for n in range(4):
            write(agent, f"{name}{n}")
    monkeypatch.setattr(caps, "LOOK_MAX", 6)
    with looks(node) as looked:
        agent.do("batch", ops=[["set", {"key": f"{name}new", "value": pack(1)}] for name in names])
    assert len(looked) <= 6
    for name in names:
        write(agent, f"{name}0", "anew")
        assert len(keys(node, name)) == 4


@pytest.mark.parametrize(
    "caps, why",
    [
        ({"max_entries": 0}, "above 0"),
        ({"max_bytes": "1MB"}, "above 0"),
        ({"max_entries": 5_001}, "5,000 keys at most"),
        ({"max_entries": 5, "kind": "counter"}, "log or register"),
        ({"older": "let"}, "refuse or mark"),
    ],
)
def test_what_is_no_cap_is_refused(node: Host, caps: dict[str, Any], why: str):
    with pytest.raises(Refusal, match=why):
        cap(node, "c/*", **caps)


def test_who_knows_an_older_version_may_write_and_it_shows(node: Host):
    agent = cap(node, "plan", json=pack({"type": "string"}), version=2, older="mark")
    agent.do("set", key="plan", value=pack(7), schema_version=1, meta=pack({"by": "x"}))
    entry = agent.ask("entry", key="plan")
    assert (entry["value"], entry["meta"]) == (pack(7), pack({"by": "x", "schema_version": 1}))
    with pytest.raises(Refusal, match="does not take this value"):
        agent.do("set", key="plan", value=pack(7), schema_version=2)
    agent.do("set", key="plan", value=pack("x"), schema_version=2)
    assert agent.ask("entry", key="plan")["meta"] == pack({"schema_version": 2})
