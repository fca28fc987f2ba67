"""Reads of many things at once against a real daemon: what they show, and the point from which a watch goes on."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from crdtsync import Client
from crdtsync.client import Event, Listing, Watch
from tests.harness import Daemon
from tests.harness.workers import beside

pytestmark = pytest.mark.integration


def next_events(watch: Watch, count: int) -> list[Event]:
    with watch:
        return list(islice(watch, count))


def test_a_watch_goes_on_where_a_read_ended(daemon: Daemon) -> None:
    """While others write: what the read shows and what the watch brings is everything, once."""
    total = 300
    reader = daemon.client("reader", timeout=60)

    def write(agent: str) -> None:
        client = daemon.client(agent)
        for number in range(total):
            client.append("log", f"{agent}{number}")

    writing = [beside(write, agent) for agent in "ab"]
    while not (read := reader.log_items("log")):
        pass
    watch = reader.watch("log", after=read.token, timeout=60)
    came = next_events(watch, 2 * total - len(read))
    for each in writing:
        each.result()
    seen = [item.value for item in read] + [event.value for event in came]
    assert seen == reader.log("log")
    assert [item.dot for item in read] + [event.dot for event in came] == [i.dot for i in reader.log_items("log")]


def test_every_listing_names_its_point(daemon: Daemon) -> None:
    client = daemon.client()
    client.set("a", 1)
    listings: list[Listing[Any]] = [client.keys(), client.items(), client.entries()]
    listings += [client.log("none"), client.log_items("none")]
    client.set("b", 2)
    for listing in listings:
        assert [event.key for event in next_events(client.watch(after=listing.token, timeout=60), 1)] == ["b"]


def test_a_log_is_read_on_behind_an_element_wherever_that_is(daemon: Daemon) -> None:
    client = daemon.client()
    for number in range(6):
        client.append("log", number)
    page = client.log_items("log", limit=3)
    client.trim("log", 4)
    rest = client.log_items("log", start=page[-1])
    assert [(item.index, item.value) for item in rest] == [(1, 3), (2, 4), (3, 5)]
    client.trim("log", 2)
    assert client.log("log", start=page[-1]) == [4, 5]  # it is gone: from the first


def fill(client: Client) -> None:
    client.set("k/plain", {"a": 1}, confidence=0.5, meta={"why": "test"}, ttl=3600)
    client.append("k/log", 1)
    client.append("k/log", 2)
    client.text("k/text").set("hello")


def make_siblings(daemon: Daemon, key: str) -> None:
    one, two = daemon.client("a"), daemon.client("b")
    one.get(key)
    two.get(key)
    one.set(key, "one")
    two.set(key, "two")


def test_entries_are_those_that_entry_gives_but_for_long_values(daemon: Daemon) -> None:
    client = daemon.client()
    fill(client)
    make_siblings(daemon, "k/siblings")
    client.set("other", 1)
    client.append("k/long-log", "x" * 70_000)
    client.text("k/long-text").set("x" * 70_000)
    listed = {entry.key: entry for entry in client.entries("k/")}
    assert list(listed) == ["k/log", "k/long-log", "k/long-text", "k/plain", "k/siblings", "k/text"]
    for key in ("k/log", "k/plain", "k/siblings", "k/text"):
        assert listed[key] == client.entry(key)
    assert dict(client.items("k/")) == {key: client.get(key) for key in listed}
    for key in ("k/long-log", "k/long-text"):
        whole = client.entry(key)
        assert whole is not None
        assert listed[key].value is None
        assert (listed[key].kind, listed[key].version, listed[key].time) == (whole.kind, whole.version, whole.time)


def test_entries_without_values(daemon: Daemon) -> None:
    client = daemon.client()
    fill(client)
    make_siblings(daemon, "k/siblings")
    listed = client.entries(values=False)
    assert [(entry.key, entry.kind, entry.value, len(entry.siblings)) for entry in listed] == [
        ("k/log", "log", None, 0),
        ("k/plain", "register", None, 0),
        ("k/siblings", "register", None, 1),
        ("k/text", "text", None, 0),
    ]
    assert [sibling.value for sibling in listed[2].siblings] == [None]


def test_what_entries_gave_counts_as_read(daemon: Daemon) -> None:
    make_siblings(daemon, "key")
    client = daemon.client()
    client.entries(values=False)
    assert client.set("key", "blind").siblings == 1
    client.entries()
    assert client.set("key", "informed").siblings == 0


@pytest.mark.parametrize("values", [True, False])
def test_entries_of_many_and_large_keys_come_in_pages(daemon: Daemon, values: bool) -> None:
    client = daemon.client()
    wanted = {f"large/{number}": "x" * 700_000 for number in range(4)}
    wanted |= {f"small/{number:04}": "y" for number in range(1200)}
    for start in (0, 602):
        with client.batch() as batch:
            for key, value in list(wanted.items())[start : start + 602]:
                batch.set(key, value)
    listed = client.entries(values=values)
    assert [entry.key for entry in listed] == sorted(wanted)
    assert [entry.value for entry in listed] == [wanted[entry.key] if values else None for entry in listed]
    assert client.entries(start="large/3", limit=2)[-1].key == "small/0001"


def test_a_key_with_large_siblings_has_a_page_of_its_own(daemon: Daemon) -> None:
    """A page ends before what would make it too large for a reply, not behind it."""
    clients = [daemon.client(f"agent-{number}") for number in range(8)]
    daemon.client().set("a", "x" * 1_000_000)
    for client in clients:
        client.get("b")
    for client in clients:
        client.set("b", "x" * 1_000_000)
    assert [len(entry.siblings) for entry in daemon.client().entries()] == [0, 7]
