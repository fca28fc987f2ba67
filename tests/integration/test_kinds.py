"""Counters, sets, maps and conflicts on real daemons: by every client, in batches and watches, on hosts that were cut
off from each other, and through the command line.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from crdtsync.client import AsyncClient, Batch, Client, Event, Watch
from crdtsync.errors import InvalidRequest, InvalidValue, KindMismatch, Refused, StaleRead, TooLarge, VersionMismatch
from tests.harness import Cluster, Daemon, Mirror, wait_until, wait_until_equal
from tests.harness.shell import Running, Shell

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

AWKWARD: list[Any] = [
    None,
    True,
    1,
    1.0,
    -(2**63),
    2**64 - 1,
    "",
    "ä😀\x00",
    b"",
    b"\x00\xff" * 200,
    [],
    [1, [b"x"]],
    {},
    {"a": {"b": b"\x00"}, "": None},
]
"""Values that have to come back exactly."""


def typed(values: list[Any]) -> list[tuple[str, Any]]:
    """With their types: 1, 1.0 and True are equal to Python."""
    return [(type(value).__name__, value) for value in values]


@pytest.fixture
def client(daemon: Daemon) -> Client:
    """An agent on one daemon."""
    return daemon.client("tester")


@pytest.fixture
def parted(pair: Cluster) -> Cluster:
    """Two daemons that are cut off from each other."""
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    return pair


def healed(pair: Cluster) -> list[Client]:
    """Clients of both once they hold the same."""
    pair.heal()
    wait_until_equal(pair)
    return [daemon.client("reader") for daemon in pair]


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


@pytest.mark.parametrize(
    "spoil, error",
    [
        (lambda batch: batch.incr("r"), KindMismatch),
        (lambda batch: batch.merge("m", {}), InvalidRequest),
        (lambda batch: batch.add("s", "x" * 2**20), TooLarge),
        (lambda batch: batch.merge("m", {str(n): n for n in range(999)}), TooLarge),
    ],
)
def test_a_refused_batch_does_nothing(client: Client, spoil: Callable[[Batch], None], error: type[Refused]) -> None:
    client.set("r", 1)

    def write() -> None:
        with client.batch() as batch:
            batch.incr("c")
            batch.add("s", 1)
            spoil(batch)

    with pytest.raises(error):
        write()
    assert client.keys() == ["r"]


# -- watches ----------------------------------------------------------------------------------------------------------


def next_events(watch: Watch, count: int) -> list[Event]:
    return list(islice(watch, count))


def test_a_watch_tells_what_happened(client: Client) -> None:
    client.incr("c", 3)
    client.add("s", "x")
    client.merge("m", {"a": 1})
    with client.watch(timeout=20) as watch:
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
    with client.watch(after=again, timeout=20) as watch:  # from the log
        past: list[Event] = []
        while not past or past[-1].event != "delete":
            past += next_events(watch, 1)
    assert {(e.key, e.op) for e in past} >= {("s", "add"), ("s", "discard"), ("m", "merge"), ("m", "drop")}


def test_elements_that_a_watch_showed_can_be_discarded(daemon: Daemon) -> None:
    author, worker = daemon.client("author"), daemon.client("worker")
    author.add("todo", "first")
    with worker.watch("todo", timeout=20) as watch:
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
    with worker.watch("todo", after=read.token, timeout=20) as watch:
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


# -- two hosts --------------------------------------------------------------------------------------------------------


def test_what_one_host_writes_the_other_shows(pair: Cluster) -> None:
    here, there = pair[0].client("here"), pair[1].client("there")
    here.incr("c", 2)
    here.add("s", b"\x00")
    token = here.merge("m", {"a": 1})
    assert [there.get(key, after=token) for key in "csm"] == [2, [b"\x00"], {"a": 1}]
    assert there.incr("c", 3) == 5
    there.discard("s", b"\x00")
    there.drop("m", "a")
    assert [here.get(key, after=there.last_token) for key in "csm"] == [5, None, None]


def test_what_two_cut_off_hosts_write_is_all_there_after_they_heal(parted: Cluster) -> None:
    """N writes of each kind on each of 2 cut-off hosts, then heal: all N×2 in the same order on both."""
    count = 300

    def write(number: int) -> None:
        client = parted[number].client(f"agent-{number}")
        for n in range(count):
            client.append("log", [number, n])
            client.incr("counter", 2 if number else -1)
            client.add("set", [number, n])
            client.add("set", ["both", n])
            client.merge("map", {f"{number}/{n}": n})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(2)))
    one, two = healed(parted)
    for key, length in (("log", 2 * count), ("set", 3 * count), ("map", 2 * count)):
        assert len(one.get(key)) == length, key
        assert list(one.get(key)) == list(two.get(key)), key
    assert one.get("map") == two.get("map") == {f"{number}/{n}": n for number in range(2) for n in range(count)}
    assert [n for who, n in one.log("log") if who == 0] == list(range(count)), "each host's own order is kept"
    assert one.get("counter") == two.get("counter") == count
    assert one.conflicts() == [], "none of this is a conflict"


def test_two_resets_at_once_take_off_what_both_saw_once(pair: Cluster) -> None:
    here, there = pair[0].client(), pair[1].client()
    here.incr("c", 10)
    wait_until_equal(pair)
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    assert here.incr("c", 5) == 15
    assert there.incr("c", 7) == 17
    assert here.reset("c") == 15
    assert there.reset("c") == 17
    assert there.incr("c", 1) == 1
    assert [client.get("c") for client in healed(pair)] == [1, 1]


def test_adding_wins_over_discarding(pair: Cluster) -> None:
    here, there = pair[0].client(), pair[1].client()
    for value in "abc":
        here.add("s", value)
    wait_until_equal(pair)
    assert there.members("s") == ["a", "b", "c"]
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    here.add("s", "a")
    here.discard("s", "b")
    there.discard("s", "a")
    there.discard("s", "b")
    there.discard("s", "c")
    assert [client.members("s") for client in healed(pair)] == [["a"], ["a"]]


def test_a_field_that_two_hosts_write_has_siblings_and_the_others_have_not(parted: Cluster) -> None:
    here, there = parted[0].client("here"), parted[1].client("there")
    here.merge("m", {"mine": 1, "both": "here"})
    there.merge("m", {"yours": 2, "both": "there"})
    for client in healed(parted):
        (entry,) = client.conflicts()
        assert entry == client.entry("m")
        assert (entry.value["mine"], entry.value["yours"]) == (1, 2)
        (sibling,) = entry.siblings
        assert sibling.field == "both"
        assert {entry.value["both"], sibling.value} == {"here", "there"}
        assert {sibling.agent, sibling.value} == {sibling.agent}, "here wrote here, there there"


def test_a_conflict_is_settled_by_taking_writing_or_merging(parted: Cluster) -> None:
    for number, daemon in enumerate(parted):
        client = daemon.client(f"agent-{number}")
        client.set("taken", number)
        client.set("written", number)
        client.merge("field", {"f": number, f"own {number}": number})
        client.incr("kinds", 3) if number else client.add("kinds", "x")
        client.text("text").set(f"text of {number}. ")
    one, two = healed(parted)
    found = {entry.key: entry for entry in one.conflicts()}
    assert sorted(found) == ["field", "kinds", "taken", "text", "written"]
    assert [entry.key for entry in one.conflicts("t")] == ["taken", "text"]
    assert {found["text"].value, found["text"].siblings[0].value} == {"text of 0. ", "text of 1. "}

    loser = found["taken"].siblings[0]
    assert one.resolve("taken", take=loser.dot).resolved == 1
    assert one.resolve("written", value="new").resolved == 2
    lost = found["field"].siblings[0]
    one.resolve("field", take=lost.dot)
    as_set = next(e for e in (found["kinds"], *found["kinds"].siblings) if e.kind == "set")
    one.resolve("kinds", take=as_set.dot)
    wait_until_equal(parted)
    for client in (one, two):
        assert client.get("taken") == loser.value
        assert client.get("written") == "new"
        assert client.get("field") == {"f": lost.value, "own 0": 0, "own 1": 1}
        assert client.get("kinds") == ["x"]
        assert [entry.key for entry in client.conflicts()] == ["text"]
    assert one.resolve("taken", take=one.entry("taken").dot).resolved == 0  # type: ignore[union-attr]
    with pytest.raises(VersionMismatch):
        one.resolve("taken", take=loser.dot)


def test_a_resolution_spares_what_its_author_had_not_read(daemon: Daemon) -> None:
    one, two, three = (daemon.client(name) for name in ("one", "two", "three"))
    for client in (one, two, three):
        client.get("k")
    one.set("k", 1)
    two.set("k", 2)
    one.conflicts()
    three.set("k", 3)
    assert one.resolve("k", value="settled").resolved == 2
    entry = one.entry("k")
    assert entry is not None
    assert {entry.value, *(sibling.value for sibling in entry.siblings)} == {"settled", 3}


def test_opposite_resolutions_lose_neither_value(parted: Cluster) -> None:
    parted[0].client().set("k", "a")
    parted[1].client().set("k", "b")
    healed(parted)
    parted.cut(0, 1)
    parted.wait_parted(0, 1)
    for daemon, wanted in zip(parted, "ab", strict=True):
        client = daemon.client()
        entry = client.entry("k")
        assert entry is not None
        client.resolve("k", take=next(e.dot for e in (entry, *entry.siblings) if e.value == wanted))
    for client in healed(parted):
        entry = client.entry("k")
        assert entry is not None
        assert {entry.value, *(sibling.value for sibling in entry.siblings)} == {"a", "b"}


def test_concurrent_texts_are_merged_and_compacted(parted: Cluster, tmp_path: Path) -> None:
    here, there = parted[0].client("here"), parted[1].client("there")
    here.text("notes").set("first line")
    there.text("notes").set("second line")
    one, two = healed(parted)
    assert Shell(parted[0].socket, tmp_path).json("resolve", "notes", "--merge", "--json")[0]["resolved"] == 1
    wait_until_equal(parted)
    merged = one.get("notes")
    assert "first" in merged
    assert "second" in merged
    assert [client.conflicts() for client in (one, two)] == [[], []]

    notes = here.text("notes")
    notes.read()
    for n in range(300):
        notes.insert(n, "x")
    wait_until_equal(parted)
    written = notes.compact()
    assert written.bytes_after < written.bytes_before
    notes.insert(300, "!")
    assert there.text("notes").read(after=here.last_token) == "x" * 300 + "!" + merged
    with pytest.raises(InvalidRequest):
        here.text("none").compact()


async def test_the_asyncio_client_compacts_a_text(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket) as state:
        notes = state.text("notes")
        for n in range(50):
            await notes.insert(0, str(n % 10))
        written = await notes.compact()
        assert written.bytes_after < written.bytes_before
        assert await notes.read() == "9876543210" * 5


def test_counting_survives_kills(pair: Cluster) -> None:
    """Every increment that was answered counts once, on both hosts."""
    clients = [daemon.client(daemon.name, timeout=60) for daemon in pair]
    for turn in range(6):
        for client in clients:
            for _ in range(20):
                client.incr("c")
        pair[turn % 2].kill()
        pair[turn % 2].start()
    wait_until_equal(pair)
    assert [client.get("c") for client in clients] == [240, 240]


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def crdtsync(daemon: Daemon, tmp_path: Path) -> Shell:
    """The command line of one daemon."""
    return Shell(daemon.socket, tmp_path)


def lines(running: Running, count: int) -> list[Any]:
    return [running.event() for _ in range(count)]


def test_the_commands_of_counters_sets_and_maps(crdtsync: Shell) -> None:
    assert [crdtsync.ok("incr", "c"), crdtsync.ok("incr", "c", "-3"), crdtsync.ok("incr", "c", "--", "-1")] == [
        "1",
        "-2",
        "-3",
    ]
    (done,) = crdtsync.json("incr", "c", "5", "--json", "--agent", "critic")
    assert done == {"value": 2, "token": done["token"]}
    (version,) = [entry["version"] for entry in crdtsync.json("get", "c", "--json")]
    assert crdtsync("reset", "c", "--if-version", "v1.kwAAkA").status == 1
    assert crdtsync.ok("reset", "c", "--if-version", version) == "2"
    assert crdtsync.ok("get", "c") == "0"

    token = crdtsync.ok("add", "s", "-", stdin='{"$bytes": "AP8="}')
    assert crdtsync.ok("wait", token) == "1"
    crdtsync.ok("add", "s", "-5")
    assert crdtsync.json("add", "s", "--string", "-5", "--json")[0]["added"] is True
    assert crdtsync.ok("members", "s") == '{"$bytes": "AP8="}\n-5\n"-5"'
    assert crdtsync.ok("members", "s", "-n", "1") == '{"$bytes": "AP8="}'
    assert set(crdtsync.json("members", "s", "--json")[0]) == {"value", "agent", "node", "time"}
    assert crdtsync.json("discard", "s", "-5", "--json")[0]["existed"] is True

    crdtsync.ok("merge", "m", '{"a": {"$bytes": "AA=="}, "b": 1}')
    (done,) = [json.loads(crdtsync.ok("merge", "m", "-", "--json", stdin='{"$$bytes": 2}'))]
    assert set(done) == {"token", "siblings", "nodes"}
    assert crdtsync.ok("get", "m") == '{"$bytes": 2, "a": {"$bytes": "AA=="}, "b": 1}'
    crdtsync.ok("drop", "m", "b")
    assert [(line["key"], line["kind"]) for line in crdtsync.json("ls", "--json")] == [
        ("c", "counter"),
        ("m", "map"),
        ("s", "set"),
    ]


def test_what_the_commands_refuse(crdtsync: Shell) -> None:
    crdtsync.ok("set", "r", "1")
    crdtsync.ok("add", "s", "1")
    expected: dict[int, list[tuple[str, ...]]] = {
        1: [("members", "none"), ("discard", "s", "2"), ("drop", "none", "a"), ("discard", "none", "1")],
        2: [("incr", "c", "1.5"), ("merge", "m", "{"), ("resolve", "r"), ("resolve", "r", "--value", "1", "--merge")],
        4: [
            ("incr", "r"),
            ("incr", "c", str(2**53 + 1)),
            ("merge", "m", "[1]"),
            ("merge", "m", '{"": 1}'),
            ("members", "r"),
            ("resolve", "r", "--take", "x"),
            ("resolve", "s", "--merge"),
        ],
    }
    for status, commands in expected.items():
        for command in commands:
            done = crdtsync(*command)
            assert (command, done.status, done.out) == (command, status, ""), done.err
            assert done.err.count("\n") == 1
    error = json.loads(crdtsync("discard", "s", "2", "--json").err)["error"]
    assert error == {"code": "absent", "message": "2 is not in 's'"}


def test_a_watch_prints_the_events_of_every_kind(crdtsync: Shell) -> None:
    with crdtsync.start("watch") as watch:
        watch.event()
        crdtsync.ok("incr", "c", "4")
        crdtsync.ok("add", "s", '{"$bytes": "AP8="}')
        crdtsync.ok("discard", "s", '{"$bytes": "AP8="}')
        crdtsync.ok("batch", "-", stdin='{"op":"merge","key":"m","fields":{"a":1,"b":2}}\n{"op":"incr","key":"c"}')
        single = [(e["event"], e["key"], e["kind"], e["op"], e["value"]) for e in lines(watch, 3)]
        assert single[:2] == [
            ("set", "c", "counter", "incr", 4),
            ("set", "s", "set", "add", {"$bytes": "AP8="}),
        ]
        assert single[2][:2] == ("delete", "s")
        batch = watch.event()
        assert [(e["key"], e["op"], e["value"]) for e in batch["events"]] == [
            ("m", "merge", {"a": 1, "b": 2}),
            ("c", "incr", 5),
        ]


def test_conflicts_are_shown_and_settled_from_the_shell(parted: Cluster, tmp_path: Path) -> None:
    for number, daemon in enumerate(parted):
        client = daemon.client(f"agent-{number}")
        client.merge("m", {"f": f"value {number}", "own": 1} if number else {"f": f"value {number}"})
        client.set("r", number)
    healed(parted)
    crdtsync = Shell(parted[0].socket, tmp_path)
    table = crdtsync.ok("conflicts").splitlines()
    assert table[0].split() == ["KEY", "DOT", "AGENT", "NODE", "TIME", "SEEN", "VALUE"]
    assert [row.split()[0] for row in table[1:]] == ["m", "m", "r", "r"]
    found = {entry["key"]: entry for entry in crdtsync.json("conflicts", "--json")}
    (sibling,) = found["m"]["siblings"]
    assert sibling["field"] == "f"
    assert json.dumps({"f": sibling["value"]}) in table[2]
    done = crdtsync("get", "m", "--siblings")
    assert done.out.splitlines()[1] == json.dumps({"f": sibling["value"]})
    (settled,) = crdtsync.json("resolve", "m", "--take", sibling["dot"], "--json")
    assert settled["resolved"] == 1
    assert crdtsync.json("get", "m")[0]["f"] == sibling["value"]
    crdtsync.ok("resolve", "r", "--value", "-7")
    assert crdtsync.ok("get", "r", "--siblings") == "-7"
    assert crdtsync.ok("conflicts") == "no conflicts"
    assert crdtsync.ok("conflicts", "--json") == ""


def fill(client: Client, other: Client) -> None:
    client.incr("k/counter", 12)
    client.incr("k/counter", -15)
    client.incr("k/zero", 0)
    for value in AWKWARD:
        client.add("k/set", value)
    client.merge("k/map", {f"field {number}": value for number, value in enumerate(AWKWARD)})
    client.get("k/conflict")
    other.get("k/conflict")
    for author, value in ((client, "a"), (other, "b")):
        author.merge("k/conflict", {"f": value, author.status()["node"]["name"]: 1}, seen="?")


def exported(shell: Shell) -> list[dict[str, Any]]:
    """What an import restores of an export."""

    def bare(fields: dict[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in fields.items() if name not in ("agent", "node", "time")}
        return kept | ({"siblings": [bare(each) for each in kept["siblings"]]} if "siblings" in kept else {})

    return [bare(record) for record in shell.json("export")]


def test_an_export_of_every_kind_is_restored_elsewhere(
    crdtsync: Shell, daemon: Daemon, make_daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    fill(daemon.client("a"), daemon.client("b"))
    (tmp_path / "there").mkdir()
    there = Shell(make_daemon().socket, tmp_path / "there")
    content = crdtsync.ok("export")
    assert [json.loads(line)["kind"] for line in content.splitlines()] == ["map", "counter", "map", "set", "counter"]
    assert there.ok("import", "-", stdin=content) == "5 created"
    assert exported(there) == exported(crdtsync)
    for policy in ("skip", "set"):
        assert there.ok("import", "-", "--on-conflict", policy, stdin=content) == "5 unchanged"


CONFLICTING = """\
{"key": "counter", "kind": "counter", "value": 5}
{"key": "map", "kind": "map", "value": {"a": "new", "b": 1}}
{"key": "other", "kind": "set", "value": ["new"]}
{"key": "set", "kind": "set", "value": ["new", "both"]}
"""


@pytest.mark.parametrize(
    "policy, summary, values",
    [
        ("skip", "4 skipped", ["7", '{"a": "old", "c": 2}', "1", '["old", "both"]']),
        ("set", "4 replaced", ["5", '{"a": "new", "b": 1}', '["new"]', '["both", "new"]']),
        (
            "sibling",
            "3 added, 1 skipped",
            ["12", '{"a": "new", "b": 1, "c": 2}\n{"a": "old"}', "1", '["old", "both", "new"]'],
        ),
    ],
)
def test_import_over_what_exists(crdtsync: Shell, daemon: Daemon, policy: str, summary: str, values: list[str]) -> None:
    client = daemon.client()
    client.incr("counter", 7)
    client.merge("map", {"a": "old", "c": 2})
    client.set("other", 1)
    client.add("set", "old")
    client.add("set", "both")
    assert crdtsync.ok("import", "-", "--on-conflict", policy, stdin=CONFLICTING) == summary
    shown = [crdtsync("get", key, "--siblings").out.rstrip("\n") for key in ("counter", "map", "other", "set")]
    assert shown == values
    if policy == "set":
        assert crdtsync.ok("import", "-", "--on-conflict", policy, stdin=CONFLICTING) == "4 unchanged"


def test_what_no_import_can_write_is_said(parted: Cluster, tmp_path: Path) -> None:
    parted[0].client().incr("k")
    parted[1].client().add("k", 1)
    healed(parted)
    done = Shell(parted[0].socket, tmp_path)("export")
    assert done.status == 0
    assert "a sibling of k was left out: it is a" in done.err
    assert done.out.count("\n") == 1


def test_a_set_and_a_map_too_large_for_one_reply_are_exported_and_imported(crdtsync: Shell, daemon: Daemon) -> None:
    client = daemon.client()
    for number in range(6):
        client.add("s", str(number) * 900_000)
        client.merge("m", {str(number): str(number) * 900_000})
    (crdtsync.directory / "all").write_text(crdtsync.ok("export"))
    assert crdtsync.ok("import", "all", "--on-conflict", "set") == "2 unchanged"
    client.discard("s", "3" * 900_000)
    client.drop("m", "3")
    assert crdtsync.ok("import", "all", "--on-conflict", "set") == "2 replaced"
    assert len(client.members("s")) == len(client.fields("m")) == 6
