"""Counters, sets, maps, texts and conflicts on two hosts that were cut off from each other, and are not any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from crdtsync.client import AsyncClient
from crdtsync.errors import InvalidRequest, VersionMismatch
from tests.harness import Cluster, Daemon, wait_until_equal
from tests.harness.cluster import healed
from tests.harness.shell import Shell
from tests.harness.workers import in_threads

pytestmark = pytest.mark.integration


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
    count = 150

    def write(number: int) -> None:
        client = parted[number].client(f"agent-{number}")
        for n in range(count):
            client.append("log", [number, n])
            client.incr("counter", 2 if number else -1)
            client.add("set", [number, n])
            client.add("set", ["both", n])
            client.merge("map", {f"{number}/{n}": n})

    in_threads(write, range(2))
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
        notes.insert(n, "xy")
        notes.delete(n + 1, 1)
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
            await notes.insert(0, f"{n % 10}-")
            await notes.delete(1, 1)
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
