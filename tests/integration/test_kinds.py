"""Counters, sets and maps on a real daemon: by every client, in batches and in watches."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from crdtsync.client import AsyncClient, Batch, Client, Event, Watch
from crdtsync.errors import InvalidRequest, InvalidValue, KindMismatch, Refused, StaleRead, TooLarge, VersionMismatch
from tests.harness import Cluster, Daemon, Mirror, wait_until, wait_until_equal
from tests.harness.values import AWKWARD, typed

pytestmark = pytest.mark.integration


# -- one agent --------------------------------------------------------------------------------------------------------


def test_a_counter_counts(client: Client) -> None:
    assert [client.incr("c"), client.incr("c", 10), client.incr("c", -4), client.incr("c", 0)] == [1, 11, 7, 7]
    assert client.get("c") == 7
    entry = client.entry("c")
    assert entry is not None
    assert (entry.kind, entry.value, entry.agent, entry.siblings) == ("counter", 7, "tester", [])
    assert [client.reset("c"), client.get("c"), client.incr("c", -2)] == [7, 0, -2]
    assert client.incr("large", 2**53) == 2**53
    assert client.incr("large", -(2**53)) == 0


def test_a_reset_may_depend_on_a_version(client: Client) -> None:
    client.incr("c", 3)
    entry = client.entry("c")
    assert entry is not None
    client.incr("c")
    with pytest.raises(VersionMismatch) as refused:
        client.reset("c", if_version=entry.version)
    assert refused.value.current.value == 4
    assert client.reset("c", if_version=refused.value.current.version) == 4
    assert client.get("c") == 0


def test_a_set_holds_each_element_once(client: Client) -> None:
    for value in AWKWARD:
        assert client.add("s", value)
    assert typed(client.members("s")) == typed(AWKWARD)
    assert typed(client.get("s")) == typed(AWKWARD)
    assert not client.add("s", {"": None, "a": {"b": b"\x00"}}), "the order of keys makes no other element"
    for value in AWKWARD[:-1]:
        assert client.discard("s", value)
        assert not client.discard("s", value)
    assert client.members("s") == [AWKWARD[-1]]
    assert client.discard("s", AWKWARD[-1])
    assert client.get("s", "absent") == "absent"
    assert client.members("s") == []


def test_members_tell_who_added_them(daemon: Daemon) -> None:
    one, two = daemon.client("one"), daemon.client("two")
    one.add("s", "x")
    two.add("s", "y")
    two.add("s", "x")  # anew: it moves to the end
    found = one.member_items("s")
    assert [(member.value, member.agent, member.node) for member in found] == [
        ("y", "two", daemon.name),
        ("x", "two", daemon.name),
    ]
    assert found.token is not None


def test_large_sets_and_maps_come_in_pages(client: Client) -> None:
    wanted = [f"element {number:04}" for number in range(2300)]
    for start in range(0, len(wanted), 800):
        with client.batch() as batch:
            for value in wanted[start : start + 800]:
                batch.add("s", value)
            batch.merge("m", dict.fromkeys(wanted[start : start + 100], start))
    assert client.members("s") == wanted
    assert client.get("s") == wanted
    assert client.members("s", limit=1500) == wanted[:1500]
    names = sorted(name for start in range(0, len(wanted), 800) for name in wanted[start : start + 100])
    assert [field.name for field in client.fields("m")] == names == list(client.get("m"))
    assert [field.name for field in client.fields("m", start=names[9], limit=5)] == names[10:15]


def test_sets_and_maps_too_large_for_one_reply_are_read_in_parts(client: Client) -> None:
    for number in range(6):
        client.add("s", str(number) * 900_000)
        client.merge("m", {str(number): str(number) * 900_000})
    assert [member[0] for member in client.members("s")] == list("012345")
    assert [(field.name, field.value[0]) for field in client.fields("m")] == [(n, n) for n in "012345"]
    assert [(entry.key, entry.value) for entry in client.entries()] == [("m", None), ("s", None)]


def test_a_map_is_written_field_by_field(client: Client) -> None:
    fields = {f"field {number}": value for number, value in enumerate(AWKWARD)}
    token = client.merge("m", fields)
    assert token == client.last_token
    assert typed(list(client.get("m").values())) == typed([fields[name] for name in sorted(fields)])
    client.merge("m", {"field 0": "new", "other": 1})
    assert client.get("m") == {**fields, "field 0": "new", "other": 1}
    assert client.drop("m", "field 1")
    assert not client.drop("m", "field 1")
    assert "field 1" not in client.get("m")
    field = client.fields("m", limit=1)[0]
    assert (field.name, field.value, field.agent) == ("field 0", "new", "tester")


def test_what_no_kind_can_hold_is_refused_with_its_path(client: Client) -> None:
    with pytest.raises(InvalidValue) as refused:
        client.merge("m", {"a": 1, "b": [{"c": {1, 2}}]})
    assert refused.value.path == "$.b[0].c"
    with pytest.raises(InvalidValue) as refused:
        client.add("s", [float("nan")])
    assert refused.value.path == "$[0]"
    with pytest.raises(InvalidValue):
        client.incr("c", 1.5)  # type: ignore[arg-type]  # what a caller may do
    for name in ("", "a\n", "x" * 1025):
        with pytest.raises(InvalidRequest):
            client.merge("m", {name: 1})
    with pytest.raises(InvalidRequest):
        client.merge("m", {})
    assert client.keys() == []


def test_each_kind_has_its_own_operations(client: Client) -> None:
    client.set("register", 1)
    client.incr("counter")
    client.add("set", 1)
    client.merge("map", {"a": 1})
    client.append("log", 1)
    writes: dict[str, Callable[[str], Any]] = {
        "register": lambda key: client.set(key, 1),
        "counter": client.incr,
        "set": lambda key: client.add(key, 1),
        "map": lambda key: client.merge(key, {"a": 1}),
        "log": lambda key: client.append(key, 1),
    }
    for kind, write in writes.items():
        for key in writes:
            if key == kind:
                write(key)
            else:
                with pytest.raises(KindMismatch, match=f"'{key}' is a {key}"):
                    write(key)
    for read, kind in ((client.members, "set"), (client.fields, "map"), (client.log, "log")):
        with pytest.raises(KindMismatch, match=f"not a {kind}"):
            read("register")
    assert [(entry.key, entry.kind, entry.value) for entry in client.entries()] == [
        ("counter", "counter", 2),
        ("log", "log", [1, 1]),
        ("map", "map", {"a": 1}),
        ("register", "register", 1),
        ("set", "set", [1]),
    ]
    assert dict(client.items()) == {"counter": 2, "log": [1, 1], "map": {"a": 1}, "register": 1, "set": [1]}


async def test_the_asyncio_client_does_the_same(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="async") as state:
        assert await asyncio.gather(*(state.incr("c", 2) for _ in range(20))) == list(range(2, 42, 2))
        assert await state.reset("c") == 40
        assert await asyncio.gather(*(state.add("s", n % 10) for n in range(20))) == [True] * 10 + [False] * 10
        assert await state.discard("s", 3)
        assert await state.members("s") == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        assert (await state.member_items("s", limit=1))[0].agent == "async"
        token = await state.merge("m", {"a": 1, "b": 2})
        assert await state.drop("m", "a")
        assert await state.get("m", after=token) == {"b": 2}
        assert [field.name for field in await state.fields("m")] == ["b"]
        assert await state.conflicts() == []
        assert (await state.resolve("r", value=1)).resolved == 0
        async with state.batch() as batch:
            batch.incr("c")
            batch.merge("m", {"c": 3})
        assert batch.results[0] == 1
        assert dict(await state.items()) == {"c": 1, "m": {"b": 2, "c": 3}, "r": 1, "s": [0, 1, 2, 4, 5, 6, 7, 8, 9]}


# -- what an author had seen ------------------------------------------------------------------------------------------


def test_a_discard_takes_what_its_author_had_read(daemon: Daemon) -> None:
    one, two, blind = (daemon.client(name) for name in ("one", "two", "blind"))
    one.add("s", "x")
    assert two.members("s") == ["x"]
    one.add("s", "x")  # again, unseen by two
    assert not two.discard("s", "x")
    assert two.members("s") == ["x"]
    assert two.discard("s", "x"), "now it has been read"
    one.add("s", "y")
    assert blind.discard("s", "y"), "who never read goes by what there is"


def test_own_elements_can_be_discarded_after_any_reading(daemon: Daemon) -> None:
    for key, elements in (("absent", 0), ("few", 3), ("many", 100)):
        author, other = daemon.client("author"), daemon.client("other")
        for number in range(elements):
            other.add(key, number)
        assert len(author.members(key)) == elements
        for number in range(600):
            author.add(key, f"mine {number}")
        assert author.discard(key, "mine 0"), key
        assert author.discard(key, "mine 599"), key
        with author.batch() as batch:
            batch.add(key, "in a batch")
            batch.discard(key, "in a batch")
        assert batch.results == [True, True]
        with author.batch() as batch:
            batch.add(key, "in another")
        assert author.discard(key, "in another"), key


def test_what_was_read_before_own_writes_and_long_ago(daemon: Daemon) -> None:
    author, other = daemon.client("author"), daemon.client("other")
    author.merge("m", {"a": 1, "b": 1})
    assert author.get("m") == {"a": 1, "b": 1}
    other.merge("m", {"a": 2})
    author.merge("m", {"b": 3})
    assert author.merge("m", {"a": 4}).siblings == 1, "2 was not read"
    entry = author.entry("m")
    assert entry is not None
    assert (entry.value, [(s.field, s.value) for s in entry.siblings]) == ({"a": 4, "b": 3}, [("a", 2)])
    assert author.merge("m", {"a": 5}).siblings == 0
    assert other.merge("m", {"a": 6}).replaced_fields["a"].value == 5
    author._operations.memory.forget("m")
    with pytest.raises(StaleRead):
        author.drop("m", "b")
    assert author.drop("m", "b", seen=None)


def test_a_delete_covers_own_writes_of_every_kind(daemon: Daemon) -> None:
    author, other = daemon.client("author"), daemon.client("other")
    writes: dict[str, Callable[[Client], Any]] = {
        "c": lambda client: client.incr("c"),
        "s": lambda client: client.add("s", client.status()["node"]["name"]),
        "m": lambda client: client.merge("m", {"a": 1}),
    }
    for key, write in writes.items():
        write(author)
        assert author.get(key) is not None
        for _ in range(300):
            write(author)
        assert author.delete(key)
        assert author.get(key) is None
        write(author)
        author.get(key)
        other.add(key, "unseen") if key == "s" else None
        write(author)
        author.delete(key)
        assert author.get(key) == (["unseen"] if key == "s" else None)


# -- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_of_all_kinds_is_one_change(daemon: Daemon, client: Client) -> None:
    before = daemon.space()["log_changes"]
    with client.batch() as batch:
        batch.incr("c", 5)
        batch.incr("c", -2)
        batch.add("s", "x")
        batch.add("s", "x")
        batch.merge("m", {"a": 1, "b": 2})
        batch.drop("m", "a")
        batch.drop("m", "a")
        batch.set("r", 1)
        batch.append("l", 1)
        batch.reset("c")
        batch.incr("c")
        batch.discard("s", "y")
        batch.resolve("r", value=2)
    assert [r for r in batch.results if not isinstance(r, str)] == [5, 3, True, False, True, False, 1, 3, 1, False]
    assert daemon.space()["log_changes"] == before + 1
    assert dict(client.items()) == {"c": 1, "l": [1], "m": {"b": 2}, "r": 2, "s": ["x"]}


def begun(batch: Batch) -> Batch:
    batch.incr("c")
    batch.add("s", 1)
    return batch


def test_a_refused_batch_does_nothing(client: Client) -> None:
    client.set("r", 1)
    spoiling: list[tuple[Callable[[Batch], object], type[Refused]]] = [
        (lambda batch: batch.incr("r"), KindMismatch),
        (lambda batch: batch.merge("m", {}), InvalidRequest),
        (lambda batch: batch.add("s", "x" * 2**20), TooLarge),
        (lambda batch: batch.merge("m", {str(n): n for n in range(999)}), TooLarge),
    ]
    for spoil, error in spoiling:
        with pytest.raises(error), client.batch() as batch:
            spoil(begun(batch))
        assert client.keys() == ["r"]


# -- watches ----------------------------------------------------------------------------------------------------------


def next_events(watch: Watch, count: int) -> list[Event]:
    return list(islice(watch, count))


def test_a_watch_tells_what_happened(client: Client) -> None:
    client.incr("c", 3)
    client.add("s", "x")
    client.merge("m", {"a": 1})
    with client.watch(timeout=60) as watch:
        state = next_events(watch, 4)
        assert [(e.key, e.kind, e.value) for e in state[:3]] == [
            ("c", "counter", 3),
            ("m", "map", {"a": 1}),
            ("s", "set", ["x"]),
        ]
        client.incr("c", -5)
        client.reset("c")
        client.add("s", {"b": b"\x00"})
        client.discard("s", "x")
        client.merge("m", {"a": 2, "b": None})
        client.drop("m", "a")
        client.delete("c", seen=None)
        came = next_events(watch, 6)
    told = [(event.event, event.key, event.op, event.value) for event in came]
    assert told == [
        ("set", "c", "incr", -2),
        ("set", "c", "reset", 0),
        ("set", "s", "add", {"b": b"\x00"}),
        ("set", "s", "discard", "x"),
        ("set", "m", "merge", {"a": 2, "b": None}),
        ("set", "m", "drop", "a"),
    ]
    again = state[3].token
    with client.watch(after=again, timeout=60) as watch:  # from the log
        past: list[Event] = []
        while not past or past[-1].event != "delete":
            past += next_events(watch, 1)
    assert {(e.key, e.op) for e in past} >= {("s", "add"), ("s", "discard"), ("m", "merge"), ("m", "drop")}


def test_elements_that_a_watch_showed_can_be_discarded(daemon: Daemon) -> None:
    author, worker = daemon.client("author"), daemon.client("worker")
    author.add("todo", "first")
    with worker.watch("todo", timeout=60) as watch:
        assert [event.value for event in next_events(watch, 2)] == [["first"], None]
        for number in range(400):
            author.add("todo", number)
            next_events(watch, 1)
        for task in ("first", 0, 250, 399):
            assert worker.discard("todo", task)
            next_events(watch, 1)
        author.add("todo", "unseen")
        assert not worker.discard("todo", "unseen")
        next_events(watch, 1)
        assert worker.discard("todo", "unseen")
    assert len(worker.members("todo")) == 397


def test_elements_that_a_watch_from_a_reading_on_showed_can_be_discarded(daemon: Daemon) -> None:
    author, worker = daemon.client("author"), daemon.client("worker")
    author.add("todo", "first")
    read = worker.members("todo")
    with worker.watch("todo", after=read.token, timeout=60) as watch:
        for number in range(100):
            author.add("todo", number)
        next_events(watch, 100)
        for task in ("first", 0, 99):
            assert worker.discard("todo", task)


def test_a_copy_that_a_watch_keeps_shows_what_the_daemon_shows(pair: Cluster) -> None:
    """Also over cuts, conflicts and resolutions."""
    rng = random.Random(4)
    clients = [daemon.client(daemon.name) for daemon in pair]

    def shown() -> dict[str, Any]:
        """What the second host holds; a copy may have the elements of a set in another order."""
        return {key: sorted(value) if isinstance(value, list) else value for key, value in clients[1].items("k/")}

    with Mirror(pair[1].client("watcher"), "k/") as mirror:
        for _ in range(4):
            pair.cut(0, 1)
            for n in range(100):
                client, number = rng.choice(clients), rng.randrange(3)
                match rng.randrange(8):
                    case 0 | 1:
                        client.incr(f"k/c{number}", rng.randrange(-5, 6))
                    case 2:
                        client.reset(f"k/c{number}")
                    case 3:
                        client.add(f"k/s{number}", rng.randrange(8))
                    case 4:
                        client.get(f"k/s{number}")
                        client.discard(f"k/s{number}", rng.randrange(8))
                    case 5:
                        fields = {rng.choice("abc"): n, rng.choice("def"): n}
                        client.merge(f"k/m{number}", fields, seen="?" if n % 2 else ...)
                    case 6:
                        client.get(f"k/m{number}")
                        client.drop(f"k/m{number}", rng.choice("abc"))
                    case 7 if conflicts := client.conflicts("k/", limit=1):
                        client.resolve(conflicts[0].key, take=conflicts[0].siblings[-1].dot)
                    case _:
                        client.delete(f"k/{rng.choice('csm')}{number}")
            pair.heal()
            wait_until_equal(pair)
        wanted = shown()
        wait_until(
            lambda: wanted == {k: sorted(v) if isinstance(v, list) else v for k, v in mirror.values.items()},
            what="the copy is right",
        )
    assert {key[2] for key in wanted} == set("csm")
