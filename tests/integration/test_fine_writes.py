"""Small things that programs of agents do often, with a real daemon: by Python, by asyncio and on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crdtsync import AsyncClient, Client, InvalidRequest, Timeout, VersionMismatch
from tests.harness import Daemon, wait_until
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration


@pytest.fixture
def other(daemon: Daemon) -> Client:
    """Another agent at the same daemon."""
    return daemon.client("other")


@pytest.fixture
def crdtsync(daemon: Daemon, tmp_path: Path) -> Shell:
    """The command line of one daemon."""
    return Shell(daemon.socket, tmp_path)


def test_listings_from_the_end_as_directories_and_by_meta(client: Client) -> None:
    for key, role in (("a/1", "coder"), ("a/b/2", "critic"), ("a/b/3", "critic"), ("c", "coder")):
        client.set(key, key, meta={"role": role})
    assert client.keys(reverse=True, limit=2) == ["c", "a/b/3"]
    assert client.items("a/", reverse=True, start="a/b/3") == [("a/b/2", "a/b/2"), ("a/1", "a/1")]
    level = client.keys("a/", delimiter="/")
    assert (level, level.prefixes) == (["a/1"], ["a/b/"])
    both = client.items(delimiter="/")
    assert (both, both.prefixes) == ([("c", "c")], ["a/"])
    assert [entry.key for entry in client.entries(where_meta={"role": "critic"}, reverse=True)] == ["a/b/3", "a/b/2"]
    first = client.keys("a/", delimiter="/", limit=1)
    assert (first, first.prefixes) == (["a/1"], [])
    with pytest.raises(InvalidRequest, match="delimiter must not be empty"):
        client.keys(delimiter="")


def test_long_listings_come_in_pages_from_either_end(client: Client) -> None:
    with client.batch() as batch:
        for number in range(999):
            batch.set(f"k/{number:04}", number)
    with client.batch() as batch:
        for number in range(999, 1500):
            batch.set(f"k/{number:04}/x", number)
    assert client.keys("k/") == client.keys("k/", reverse=True)[::-1]
    level = client.keys("k/", delimiter="/", reverse=True)
    assert (len(level), len(level.prefixes), level.prefixes[0]) == (999, 501, "k/1499/")


@pytest.mark.parametrize("wrong", [-1, "5", 1.5, True])
def test_how_many_are_wanted_is_a_number(client: Client, wrong: Any) -> None:
    client.append("log", 1)
    for read in (client.keys, client.items, client.entries, client.conflicts):
        with pytest.raises(InvalidRequest, match="limit must be"):
            read(limit=wrong)
    for of_one in (client.log, client.log_items, client.members, client.fields):
        with pytest.raises(InvalidRequest, match="limit must be"):
            of_one("log", limit=wrong)
    with pytest.raises(InvalidRequest, match="last must be"):
        client.log("log", last=wrong)
    if wrong is not True:
        with pytest.raises(InvalidRequest, match="history is"):
            client.schema_set("log", "lww", history=wrong)
    assert client.log("log", last=0) == client.keys(limit=0) == []


def test_many_keys_count_as_read(client: Client, other: Client) -> None:
    client.set("a", 1)
    client.append("l", "x" * 100_000)
    other.set("c", 3)
    assert client.get_many(["c", "nothing", "l", "a", "a"]) == {"c": 3, "a": 1, "l": ["x" * 100_000]}
    assert client.get_many([]) == {}
    other.set("c", 4)
    assert client.set("c", 5).siblings == 1, "what other wrote since then was not read"
    other.set("nothing", 1)
    assert client.set("nothing", 2).siblings == 1, "and so was what came where nothing was"
    with pytest.raises(InvalidRequest, match="give a list"):
        client.get_many("abc")


def test_a_prefix_is_deleted_whatever_it_holds(client: Client, other: Client) -> None:
    with client.batch() as batch:
        for number in range(700):
            batch.set(f"tmp/{number}", number)
    client.append("tmp/log", 1)
    client.incr("tmp/counter")
    client.text("tmp/text").set("x")
    client.set("tmp", "stays")
    other.set("tmp/0", "another", seen="?")
    assert client.delete_prefix("tmp/") == 703
    assert client.keys() == ["tmp"]
    assert client.delete_prefix("tmp/") == 0
    for wrong in ("", "tmp/**"):
        with pytest.raises(InvalidRequest):
            client.delete_prefix(wrong)
    assert client.keys() == ["tmp"]


def test_a_touch_keeps_a_value_alive(client: Client, other: Client) -> None:
    client.set("here", "me", ttl=0.5)
    assert client.touch("here", 60)
    entry = client.entry("here")
    assert entry is not None
    assert entry.ttl == 60
    assert client.touch("here", None)
    assert client.set("here", "me again").siblings == 0, "who touches what it has read has read it still"
    assert not other.touch("nobody", 1)
    with client.batch() as batch:
        batch.touch("here", 7)
        batch.touch("nobody", 7)
    assert batch.results == [True, False]
    assert client.set("here", 3).siblings == 0


def test_elements_of_logs_are_said_things_of_expire_and_go_one_by_one(client: Client) -> None:
    client.append("l", "a", meta={"round": 1}, confidence=0.5)
    client.append("l", "b", ttl=0.3)
    client.append("l", "c")
    first, _, third = client.log_items("l")
    assert (first.meta, first.confidence, first.ttl, third.meta) == ({"round": 1}, 0.5, None, None)
    wait_until(lambda: client.log("l") == ["a", "c"])
    assert client.remove("l", first.dot)
    assert not client.remove("l", first.dot)
    assert client.log("l") == ["c"]
    with client.batch() as batch:
        batch.remove("l", third.dot)
        batch.append("l", "d", meta={"round": 2})
    assert batch.results[0] is True
    assert [(item.value, item.meta) for item in client.log_items("l")] == [("d", {"round": 2})]


def test_a_field_is_taken_once(client: Client, other: Client) -> None:
    client.merge("board", {"task-1": "me"}, if_field_absent=True)
    with pytest.raises(VersionMismatch, match="task-1") as refused:
        other.merge("board", {"task-1": "other"}, if_field_absent=True)
    assert refused.value.current.value == {"task-1": "me"}
    other.merge("board", {"task-2": "other"}, if_field_absent=True)
    assert client.get("board") == {"task-1": "me", "task-2": "other"}


def test_now_and_joined_tokens_name_what_others_wrote(daemon: Daemon, client: Client, other: Client) -> None:
    one, two = client.set("a", 1), other.set("b", 2)
    assert one.token == one
    assert type(one.token) is str
    both = client.join([one, two.token, None])
    third = daemon.client("third", after=both)
    assert third.get_many(["a", "b"]) == {"a": 1, "b": 2}
    assert client.join([one]) == one
    with pytest.raises(InvalidRequest):
        client.join(["c1.nonsense"])
    with pytest.raises(InvalidRequest, match="one token at least"):
        client.join([])
    now = client.now()
    other.set("later", 1)
    with client.watch(after=now, timeout=60) as watch:
        assert next(watch).key == "later"


def test_a_watch_without_a_snapshot_tells_what_comes(client: Client, other: Client) -> None:
    client.set("p/old", 1)
    with client.watch("p/", snapshot=False, timeout=60) as watch:
        other.set("p/new", 2)
        event = next(watch)
        assert (event.event, event.key) == ("set", "p/new")
        with pytest.raises(Timeout):
            watch.next(timeout=0.2)


async def test_under_asyncio_a_watch_without_a_snapshot_begins_when_it_is_entered(daemon: Daemon) -> None:
    async with AsyncClient(socket=daemon.socket, agent="a") as client:
        await client.set("p/old", 1)
        async with client.watch("p/", snapshot=False, timeout=60) as watch:
            await client.set("p/new", 2)
            event = await anext(watch)
            assert (event.event, event.key) == ("set", "p/new")
        assert await client.get_many(["p/old"]) == {"p/old": 1}


def test_patterns_are_no_prefixes_anywhere(client: Client) -> None:
    asking: list[Callable[[], object]] = [
        lambda: client.keys("plan/**"),
        lambda: client.items("*"),
        lambda: client.entries("plan/*"),
        lambda: client.conflicts("**"),
        lambda: client.delete_prefix("plan/*"),
        lambda: client.watch("plan/**", timeout=60).next(),
        lambda: client.mirror("plan/**").__enter__(),
        lambda: client.history(prefix="plan/**"),
        lambda: client.claims("plan/**"),
        lambda: client.tasks("plan/**"),
        lambda: client.asks("plan/**"),
    ]
    for ask in asking:
        with pytest.raises(InvalidRequest, match=r"^'[a-z/]*\*+' is a pattern"):
            ask()


def test_prefixes_are_no_patterns_anywhere(client: Client) -> None:
    asking: list[Callable[[], object]] = [
        lambda: client.work("plan/", print),
        lambda: client.on("plan/", print, role="critic"),
        lambda: client.resolver("plan/", print).__enter__(),
        lambda: client.purge("plan/"),
        lambda: client.schema_set("plan/", "lww"),
        lambda: client.access_grant("agent:critic", "read", "plan/"),
    ]
    for ask in asking:
        with pytest.raises(InvalidRequest, match=r"here a pattern is meant: give 'plan/\*\*'"):
            ask()


def test_a_value_stands_beside_others_if_its_author_says_so(client: Client, other: Client) -> None:
    """As on a blackboard, where whoever is less sure takes nothing away."""
    client.schema_set("board/**", "confidence")
    client.set("board/cause", "disk", confidence=0.9)
    other.set("board/cause", "moon", confidence=0.1, seen="?")
    entry = client.entry("board/cause")
    assert entry is not None
    assert (entry.value, [one.value for one in entry.siblings]) == ("disk", ["moon"])
    wrongs: tuple[object, ...] = ([], 0, b"v")
    for wrong in wrongs:
        with pytest.raises(InvalidRequest, match="seen must be"):
            other.set("board/cause", "sun", seen=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="seen must be"):
            other.delete("board/cause", seen=wrong)  # type: ignore[arg-type]


def test_all_of_it_on_the_command_line(crdtsync: Shell) -> None:
    crdtsync.ok("set", "a/1", "1", "--ttl", "10m")
    crdtsync.ok("set", "a/b/2", "2")
    crdtsync.ok("append", "l", "1", "--meta", '{"role": "critic"}', "--confidence", "0.5", "--ttl", "1h")
    assert crdtsync.ok("ls", "--reverse").split() == ["l", "a/b/2", "a/1"]
    assert crdtsync.ok("ls", "--delimiter", "/").split() == ["a/", "l"]
    assert crdtsync.ok("ls", "a/", "--delimiter", "/", "--reverse", "-n", "1").split() == ["a/b/"]
    assert crdtsync.ok("ls", "--where-meta", '{"role": "critic"}') == "l"
    assert [json.loads(line) for line in crdtsync.ok("ls", "--delimiter", "/", "--json").splitlines()] == [
        {"prefix": "a/"},
        {"key": "l", "kind": "log", "siblings": 0},
    ]
    crdtsync.ok("touch", "a/1", "--forever")
    assert json.loads(crdtsync.ok("get", "a/1", "--json"))["ttl"] is None
    item = json.loads(crdtsync.ok("log", "l", "--json"))
    assert (item["meta"], item["confidence"], item["ttl"]) == ({"role": "critic"}, 0.5, 3600)
    crdtsync.ok("remove", "l", item["dot"])
    crdtsync.ok("merge", "m", '{"x": 1}', "--if-field-absent")
    assert crdtsync("merge", "m", '{"x": 2}', "--if-field-absent").status == 1
    token = crdtsync.ok("now")
    assert crdtsync.ok("wait", token) == "1"
    assert crdtsync.ok("del", "--prefix", "a/") == "2"
    assert crdtsync.ok("ls").split() == ["m"]
    for wrong in (["ls", "a/**"], ["watch", "**"], ["export", "a/*"], ["conflicts", "a/**"]):
        assert crdtsync(*wrong).status in (2, 4), wrong
    for wrong in (["touch", "m"], ["del"], ["del", "m", "--prefix", "m"], ["ls", "--where-meta", "1"]):
        assert crdtsync(*wrong).status == 2, wrong
