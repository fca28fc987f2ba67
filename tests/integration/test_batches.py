"""Batches: several writes of any kind are one change, all or none, seen whole by readers and watchers on every host."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest
from pycrdt import Doc, Text

from crdtsync import Client
from crdtsync.client import Batch
from crdtsync.errors import CrdtSyncError, InvalidRequest, KindMismatch, Refused, VersionMismatch
from tests.harness import Cluster, Daemon, wait_until_equal

pytestmark = pytest.mark.integration

ROUNDS = 60
LONG_S = 60.0


def write_all(state: Client, n: int) -> None:
    """``n`` in every key, whatever its kind."""
    with state.batch() as batch:
        batch.set("b/register", n)
        batch.set("b/other", n)
        batch.merge("b/map", fields(n))
        batch.incr("b/counter", 1)
        batch.append("b/log", n)
        batch.add("b/set", n)


def read_all(state: Client) -> tuple[Any, ...]:
    """What one listing shows, which is one moment."""
    found = dict(state.items("b/"))
    if not found:
        return (0,)
    fields = found["b/map"]
    return (
        found["b/register"], found["b/other"], fields["f"], fields["g"], found["b/counter"], len(found["b/set"]),
        len(found["b/log"]),
    )  # fmt: skip


def test_no_reader_on_any_host_ever_sees_half_of_one(cluster: Cluster) -> None:
    """While they arrive, while links break, and after."""
    done = Flag()
    failures: list[object] = []

    def look(daemon: Daemon) -> None:
        state, last = daemon.client("reader"), 0
        while not done.is_set():
            seen = read_all(state)
            if len(set(seen)) != 1 or seen[0] < last:
                failures.append((daemon.name, last, seen))
                return
            last = seen[0]

    readers = [Thread(target=look, args=(daemon,)) for daemon in cluster]
    for reader in readers:
        reader.start()
    try:
        writer = cluster[0].client("writer")
        for n in range(1, ROUNDS + 1):
            write_all(writer, n)
            if n == ROUNDS // 3:
                cluster.isolate(0)
            if n == 2 * ROUNDS // 3:
                cluster.heal()
        wait_until_equal(cluster)
    finally:
        done.set()
        for reader in readers:
            reader.join(LONG_S)
    assert failures == []
    assert [set(read_all(daemon.client())) for daemon in cluster] == [{ROUNDS}] * 3
    assert [len(daemon.client().log("b/log")) for daemon in cluster] == [ROUNDS] * 3


def test_every_watcher_on_every_host_is_told_it_whole(pair: Cluster) -> None:
    watches = [(daemon, daemon.client(f"watcher-{daemon.name}").watch("b/")) for daemon in pair]
    for _, watch in watches:
        assert watch.next(LONG_S).event == "snapshot"  # type: ignore[union-attr]
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for n in range(1, 6):
        write_all(pair[0].client("writer"), n)
    pair.heal()
    for daemon, watch in watches:
        for n in range(1, 6):
            event = watch.next(LONG_S)
            assert event is not None
            assert event.event == "batch", (daemon.name, event)
            assert {part.key for part in event.events} == {f"b/{kind}" for kind in KINDS}
            told = {part.key: part.value for part in event.events}
            assert [told[f"b/{kind}"] for kind in ("register", "other", "map", "log", "set")] == [n, n, fields(n), n, n]
        watch.close()


def fields(n: int) -> dict[str, int]:
    return {"f": n, "g": n}


KINDS = ("register", "other", "map", "counter", "log", "set")


def test_a_watcher_of_one_of_its_keys_is_told_its_part_as_of_a_batch(daemon: Daemon) -> None:
    with daemon.client().watch("b/register") as watch:
        assert watch.next(LONG_S).event == "snapshot"  # type: ignore[union-attr]
        write_all(daemon.client("writer"), 1)
        event = watch.next(LONG_S)
    assert event is not None
    assert (event.event, [part.key for part in event.events]) == ("batch", ["b/register"])


SPOILERS: dict[str, tuple[type[CrdtSyncError], Any]] = {
    "a condition": (VersionMismatch, lambda batch: batch.set("there", 1, if_absent=True)),
    "a version": (VersionMismatch, lambda batch: batch.set("there", 1, if_version="v1.kwAAkA")),
    "another kind": (KindMismatch, lambda batch: batch.append("there", 1)),
    "an edit": (KindMismatch, lambda batch: batch.apply_text("there", b"\0\0")),
    "a key": (InvalidRequest, lambda batch: batch.set("_reserved", 1)),
    "a field": (InvalidRequest, lambda batch: batch.merge("m", {"": 1})),
    "a dot": (VersionMismatch, lambda batch: batch.resolve("there", take="1.2.3")),
    "no text": (InvalidRequest, lambda batch: batch.resolve("absent", take="nonsense")),
}


def fill(batch: Batch, spoil: Callable[[Batch], object], place: int) -> None:
    for n in range(7):
        if n == place:
            spoil(batch)
        batch.append("l", n) if n % 2 else batch.set(f"k/{n}", n)


def test_one_refused_operation_refuses_all_and_says_which(daemon: Daemon) -> None:
    state = daemon.client()
    state.set("there", "first")
    before = daemon.space()["log_changes"]
    for (why, (error, spoil)), place in product(SPOILERS.items(), (0, 3, 6)):
        with pytest.raises(error) as refused, state.batch() as batch:
            fill(batch, spoil, place)
        assert isinstance(refused.value, Refused)
        assert (why, refused.value.index) == (why, place)
        assert f"operation {place} of the batch" in str(refused.value)
        assert (why, state.keys()) == (why, ["there"])
    assert daemon.space()["log_changes"] == before


def test_later_operations_see_what_earlier_ones_did(daemon: Daemon) -> None:
    state = daemon.client()
    with state.batch() as batch:
        batch.set("k", 1, if_absent=True)
        batch.incr("c", 2)
        batch.incr("c", 3)
        batch.append("l", "a")
        batch.append("l", "b")
        batch.trim("l", 1)
        batch.delete("k")
        batch.append("k", "a log now", if_absent=True)
    assert batch.results[1:6] == [2, 5, 1, 2, 1]
    assert dict(state.items()) == {"c": 5, "k": ["a log now"], "l": ["b"]}


def test_edits_of_texts_are_part_of_a_batch(daemon: Daemon) -> None:
    state = daemon.client()
    editor: Doc[Text] = Doc()
    notes = editor.get("text", type=Text)
    notes += "first"
    with state.batch() as batch:
        batch.set("k", 1)
        batch.apply_text("t", editor.get_update(), if_absent=True)
    document = batch.results[1].document
    with state.batch() as batch:
        batch.set("k", 2)
        for word in (", second", ", third"):
            seen = editor.get_state()
            notes += word
            batch.apply_text("t", editor.get_update(seen), document=document)
    assert batch.results[1].document == document
    assert dict(state.items()) == {"k": 2, "t": "first, second, third"}
    with pytest.raises(VersionMismatch), state.batch() as batch:
        batch.apply_text("t", editor.get_update(), if_absent=True)


def test_two_batches_of_cut_off_hosts_are_both_kept(pair: Cluster) -> None:
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for daemon in pair:
        write_all(daemon.client(daemon.name), 7)
    pair.heal()
    wait_until_equal(pair)
    for daemon in pair:
        state = daemon.client()
        assert (state.get("b/counter"), state.log("b/log"), state.members("b/set")) == (2, [7, 7], [7])
        entry = state.entry("b/register")
        assert entry is not None
        assert {one.agent for one in (entry, *entry.siblings)} == {"host-a", "host-b"}


def test_a_batch_that_was_never_finished_does_nothing(daemon: Daemon) -> None:
    state = daemon.client()

    def fail(batch: Batch) -> None:
        batch.set("k", 1)
        raise RuntimeError

    with pytest.raises(RuntimeError), state.batch() as batch:
        fail(batch)
    assert state.keys() == []
