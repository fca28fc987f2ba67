"""What is read as of a point of the past is what was shown then, on every node, or is refused."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.crdt import entries
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.history import recorder
from crdtsync.core.reads import as_of, checkpoint_check
from crdtsync.core.sync import repair
from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Agent, Refusal
from tests.fleet.editor import Editor
from tests.fleet.fleet import fleet_of
from tests.simulator.cuts import patiently, run_cuts

SEEDS = [(0, 15), *(pytest.param(seed, 50, marks=pytest.mark.slow) for seed in range(1, 4))]
"""And how many steps come before the checkpoint; the slow lane plays longer ones."""


@pytest.mark.parametrize("seed, steps", SEEDS)
def test_what_was_shown_is_shown_again_kept_and_restored(seed, steps, monkeypatch):
    monkeypatch.setattr(as_of, "WINDOW_ROWS", 3)
    monkeypatch.setattr(as_of, "SLICE_ROWS", 3)
    monkeypatch.setattr(as_of, "SLICE_ENTRIES", 3)
    monkeypatch.setattr(as_of, "IDS_AT_ONCE_MAX", 2)
    run_cuts(seed, steps)


@pytest.mark.parametrize("seed, steps", SEEDS)
def test_the_same_where_all_that_goes_together_is_much(seed, steps, monkeypatch):
    monkeypatch.setattr(entries, "SMALL_ENTRIES_MAX", 2)
    monkeypatch.setattr(recorder, "REMOVED_AT_ONCE_MAX", 1)
    monkeypatch.setattr(recorder, "FREED_MAX", 1)
    run_cuts(seed, steps)


def bring_all_in(node):
    """Into their tables, the rows of large commits."""
    node.store.settle()
    while node.store.has_backlog:
        node.store.bring_some_in()


def test_the_token_of_a_read_and_one_key_at_a_time(pair):
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    ann.set("k", 1)
    ann.append("log", "x")
    pair.sync()
    token = patiently(bob, "scan")["token"]
    bob.set("k", 2)
    bob.append("log", "y")
    ann.delete("k")
    pair.sync()
    for agent in (ann, bob):
        assert agent.ask("scan")["token"] != token
        assert patiently(agent, "scan", at=token)["token"] == token
        assert unpack(patiently(agent, "get", key="k", at=token)["value"]) == 1
        log = patiently(agent, "log", key="log", at=token)
        assert [unpack(item[0]) for item in log["items"]] == ["x"]
        many = patiently(agent, "get_many", keys=["k", "nothing"], at=token)
        assert [unpack(row[2]) for row in many["items"]] == [1]
    assert bob.values("k") == [2]


def test_a_value_that_somebody_else_had_removed_too_is_not_in_the_cut(pair):
    """Of two removals a node marks the entry with the one that it applies first: that one may be outside."""
    ann, bob = pair["a"].agent("ann"), pair["b"].agent("bob")
    ann.set("k", "old")
    pair.sync()
    version = bob.version("k")
    pair.wires[0].close("cut")
    ann.set("k", "ann's", seen=version)
    token = bob.set("k", "bob's", seen=version)["token"]
    pair.link("a", "b")
    pair.sync()
    assert patiently(ann, "entry", key="k", at=token)["siblings"] == []
    assert unpack(patiently(ann, "get", key="k", at=token)["value"]) == "bob's"


def test_what_a_text_was_is_read_without_the_edits_that_came_later(pair, monkeypatch):
    """To read 18,000 of them held the loop for 80 ms."""
    editor = Editor(pair["a"], "text", "ann")
    token = editor.edit(0, 0, "then")["token"]
    for n in range(30):
        editor.edit(0, 0, str(n))
    pair.sync()
    for name in ("a", "b"):
        node, read = pair[name], list[int]()
        of_disk = node.store.document_updates

        def counted(*args: Any, of_disk: Any = of_disk, read: list[int] = read) -> Any:
            found = of_disk(*args)
            read.append(len(found))
            return found

        monkeypatch.setattr(node.store, "document_updates", counted)
        assert unpack(patiently(node.agent("bob"), "get", key="text", at=token)["value"]) == "then"
        assert sum(read) <= 2


def test_a_text_as_of_each_of_its_edits(pair):
    """Also from before it was compacted."""
    bob = pair["b"].agent("bob")
    editor = Editor(pair["a"], "text", "ann")
    states: list[tuple[str, str]] = []
    for n in range(6):
        token = editor.edit(0, n // 2, f"{n} ")["token"]
        pair.sync()
        states.append((token, editor.read()))
        if n == 3:
            editor.compact()
            pair.sync()
            editor.read()
    bob.delete("text")
    pair.sync()
    for token, state in states:
        for agent in (editor.session, bob):
            assert unpack(patiently(agent, "get", key="text", at=token)["value"]) == state


def test_values_that_ran_out_later_are_shown_and_those_that_had_are_not(node):
    ann = node.agent("ann")
    ann.set("k", "short", ttl=5000)
    first = node.fleet.now.wall_ms
    node.fleet.run(20)
    token = ann.set("other", 1)["token"]
    assert unpack(patiently(ann, "get", key="k", at=first)["value"]) == "short"
    assert patiently(ann, "get", key="k", at=token) is None


def test_pages_of_the_past_are_complete(node, monkeypatch):
    monkeypatch.setattr(as_of, "WINDOW_ROWS", 7)
    monkeypatch.setattr(as_of, "SLICE_ENTRIES", 2)
    ann = node.agent("ann")
    for n in range(50):
        ann.set(f"k{n:02}", n)
    token = patiently(ann, "scan")["token"]
    for n in range(0, 50, 2):
        ann.delete(f"k{n:02}")
    for n in range(50, 80):
        ann.set(f"k{n:02}", n)
    found: list[Any] = []
    start = ""
    while True:
        page = patiently(ann, "scan", values=True, start=start, limit=8, at=token)
        found += page["items"]
        if not page["more"]:
            break
        start = page.get("next") or page["items"][-1][0]
    assert [(key, unpack(value)) for key, _, value, *_ in found] == [(f"k{n:02}", n) for n in range(50)]


def test_what_is_shown_of_the_past_is_not_hashed(node, monkeypatch):
    """Nobody compares it with another node, and it took half of the time of a slice."""
    monkeypatch.setattr(entries, "UNHASHED_ENTRIES_MAX", 10)
    ann = node.agent("ann")
    ann.do("batch", ops=[["append", {"key": "log", "value": pack(n)}] for n in range(100)])
    token = patiently(ann, "scan")["token"]
    ann.delete("log")
    hashed: list[Entry] = []
    digest = vars(Entry)["digest"]

    def counted(entry: Entry) -> Any:
        hashed.append(entry)
        return digest.fget(entry)

    monkeypatch.setattr(Entry, "digest", property(counted))
    assert len(unpack(patiently(ann, "get", key="log", at=token)["value"])) == 100
    assert not hashed


def test_the_past_backwards_begins_at_its_last_key(node, monkeypatch):
    """Also if the values take more than a page."""
    monkeypatch.setattr(as_of, "PAGE_BYTES_MAX", 100)
    monkeypatch.setattr(as_of, "WINDOW_ROWS", 3)
    ann = node.agent("ann")
    token = [ann.set(f"k{number:02}", "x" * 50)["token"] for number in range(20)][-1]
    for number in range(0, 20, 2):
        ann.delete(f"k{number:02}")
    for values in (False, True):
        page = patiently(ann, "scan", at=token, reverse=True, limit=3, values=values)
        assert [item[0] for item in page["items"]] == ["k19", "k18", "k17"]


def test_a_long_log_is_looked_at_and_checked_a_slice_at_a_time(node, monkeypatch):
    """With 40,000 elements in four keys one turn took a third of a second."""
    monkeypatch.setattr(as_of, "SLICE_ENTRIES", 50)
    monkeypatch.setattr(checkpoint_check, "SLICE_ENTRIES", 50)
    ann = node.agent("ann")
    for start in range(0, 400, 100):
        ann.do("batch", ops=[["append", {"key": "log", "value": pack(n)}] for n in range(start, start + 100)])
    ann.do("checkpoint_set", name="c")
    node.turn()
    taken: list[int] = []
    hashed: list[Entry] = []
    take, digest = as_of.Collecting._take, vars(Entry)["digest"]

    def taking(self: as_of.Collecting, entries: list[Entry]) -> None:
        taken.append(len(entries))
        take(self, entries)

    def counted(entry: Entry) -> Any:
        hashed.append(entry)
        return digest.fget(entry)

    monkeypatch.setattr(as_of.Collecting, "_take", taking)
    monkeypatch.setattr(Entry, "digest", property(counted))
    check = checkpoint_check.CheckpointCheck(node.replica, node.node.storage, node.replica.checkpoints.get("c"), None)
    for _ in range(100):
        before = len(hashed)
        if check.advance():
            break
        assert len(hashed) - before <= 50
    assert len(hashed) >= 400
    assert max(taken) <= 50 < 400 <= sum(taken)
    ann.do("trim", key="log", keep=100)
    bring_all_in(node)
    taken.clear()
    assert len(patiently(ann, "log", key="log", at="checkpoint:c", limit=1000)["items"]) == 400
    assert max(taken) <= 400 - 100


def filled(ann, *keys):
    """400 elements in each of these logs, and a checkpoint of them."""
    for key in keys:
        for start in range(0, 400, 100):
            ann.do("batch", ops=[["append", {"key": key, "value": pack(n)}] for n in range(start, start + 100)])
    ann.do("checkpoint_set", name="c")


@pytest.fixture
def collected(monkeypatch):
    """How many entries each look at a key of the past has collected."""
    counts: list[int] = []
    take = as_of.Collecting._take

    def taking(self: as_of.Collecting, entries: list[Entry]) -> None:
        counts.append(len(entries))
        take(self, entries)

    monkeypatch.setattr(as_of.Collecting, "_take", taking)
    return counts


def page(ann, start, **args):
    found = patiently(ann, "log", start=start, limit=40, **{"key": "log", "at": "checkpoint:c", **args})
    return [unpack(item[0]) for item in found["items"]]


def test_a_long_log_of_the_past_is_collected_once_for_all_of_its_pages(node, collected):
    """To read 20,000 elements page by page took twenty times as long as to collect them."""
    ann = node.agent("ann")
    filled(ann, "log")
    ann.do("trim", key="log", keep=100)
    bring_all_in(node)
    assert [n for start in range(0, 400, 40) for n in page(ann, start)] == [*range(400)]
    assert sum(collected) == 400


def test_what_was_collected_is_taken_for_the_same_key_and_point_alone(node, collected):
    ann = node.agent("ann")
    filled(ann, "log", "other")
    token = ann.append("log", "later")["token"]
    assert page(ann, 0) == [*range(40)]
    assert page(ann, 40, key="other") == [*range(40, 80)]
    assert page(ann, 80) == [*range(80, 120)]
    assert page(ann, 380, at=token) == [*range(380, 400), "later"]
    assert page(ann, 380) == [*range(380, 400)]
    ann.do("checkpoint_set", name="c", remove=True)
    ann.do("checkpoint_set", name="c")
    assert page(ann, 380) == [*range(380, 400), "later"]


def test_what_was_collected_is_not_shown_after_a_purge(node):
    ann = node.agent("ann")
    filled(ann, "log")
    assert page(ann, 0) == [*range(40)]
    ann.do("purge", pattern="log")
    bring_all_in(node)
    node.fleet.run(as_of.KEPT_S / 2)
    assert node.node.dispatcher.past_pages.due_s < inf
    with pytest.raises(Refusal, match="too_old"):
        page(ann, 40)


def test_what_was_collected_is_let_go_when_nobody_asks_for_more(node, collected, monkeypatch):
    ann = node.agent("ann")
    filled(ann, "log")
    pages = node.node.dispatcher.past_pages
    page(ann, 0)
    assert pages.due_s < inf
    node.fleet.run(as_of.KEPT_S + 1)
    assert pages.due_s == inf
    assert pages.take() is None
    monkeypatch.setattr(as_of, "KEPT_ENTRIES_MAX", 399)
    page(ann, 0)
    assert pages.take() is None


def test_what_was_found_of_the_past_is_put_in_order_a_slice_a_turn(node, monkeypatch):
    """With 20,000 elements in two keys the last turn of a restore took 140 ms."""
    monkeypatch.setattr(as_of, "SLICE_ADDED", 50)
    ann = node.agent("ann")
    for start in range(0, 400, 100):
        ann.do("batch", ops=[["append", {"key": "log", "value": pack(n)}] for n in range(start, start + 100)])
    ann.do("checkpoint_set", name="c")
    node.turn()
    added: list[Entry] = []

    class Counted(Entries):
        def put(self, entry: Entry) -> None:
            added.append(entry)
            super().put(entry)

    monkeypatch.setattr(as_of, "Entries", Counted)
    for send, name, args in ((ann.send, "log", {"key": "log"}), (ann.write, "restore", {"prefix": "log"})):
        added.clear()
        request = send(name, at="checkpoint:c", **args)
        per_turn = []
        while request not in ann.replies:
            before = len(added)
            node.turn()
            per_turn.append(len(added) - before)
        assert max(per_turn) <= 50 < len(added) == 400


def test_values_that_are_gone_are_read_a_few_a_turn(node, monkeypatch):
    """50 of 1 MiB were read and hashed in one."""
    ann = node.agent("ann")
    for n in range(40):
        ann.set(f"k{n:02}", "x" * 2000 + str(n))
    ann.do("checkpoint_set", name="c")
    for n in range(40):
        ann.set(f"k{n:02}", n)
    node.store.settle()
    reads: list[int] = []
    read = node.store.dead_by_id

    def counted(ids: list[int], bytes_max: int) -> Any:
        reads.append(len(ids))
        return read(ids, bytes_max)

    monkeypatch.setattr(node.store, "dead_by_id", counted)
    request = ann.send("scan", prefix="", values=True, at="checkpoint:c")
    per_turn = []
    while request not in ann.replies:
        before = sum(reads)
        node.turn()
        per_turn.append(sum(reads) - before)
    assert max(per_turn) <= as_of.IDS_AT_ONCE_MAX
    assert len(ann.result(request)["items"]) == sum(reads) == 40


def test_of_keys_without_values_a_turn_looks_at_no_more_than_it_has_time_for(node, monkeypatch):
    """All that had gone of a page's 1,000 keys was read in one turn, and all that lived of keys of 500 parts."""
    monkeypatch.setattr(as_of, "BARE_IDS_AT_ONCE_MAX", 10)
    monkeypatch.setattr(as_of, "SLICE_ENTRIES", 100)
    ann = node.agent("ann")
    ann.do("batch", ops=[["set", {"key": f"k{n:02}", "value": b"\x01"}] for n in range(40)])
    ann.do("batch", ops=[["append", {"key": f"log{n % 10}", "value": b"\x01"}] for n in range(150)])
    ann.do("checkpoint_set", name="c")
    ann.do("batch", ops=[["set", {"key": f"k{n:02}", "value": b"\x02"}] for n in range(40)])
    bring_all_in(node)
    looked_at: list[int] = []
    take = as_of.Collecting._take

    def counted(collecting: as_of.Collecting, entries: list[Entry]) -> None:
        looked_at.append(len(entries))
        take(collecting, entries)

    monkeypatch.setattr(as_of.Collecting, "_take", counted)
    request = ann.send("scan", prefix="", at="checkpoint:c")
    per_turn = []
    while request not in ann.replies:
        looked_at.clear()
        node.turn()
        per_turn.append(sum(looked_at))
    assert max(per_turn) <= 100
    assert sum(per_turn) >= 40 + 150 + 40
    assert len(ann.result(request)["items"]) == 50


@pytest.mark.parametrize("read", [{"operation": "scan", "at": "checkpoint:c"}, {"operation": "history", "prefix": ""}])
def test_what_large_changes_removed_is_found_as_fast_as_what_small_ones_did(node, read):
    """For each value that was gone all was looked at that had gone with it: 6,000 keys took 4.4 s."""

    def steps_to_read(prefix: str, size: int) -> int:
        """Of SQLite, where keys are overwritten by changes of that size."""
        keys = [f"{prefix}/{n:03}" for n in range(200)]
        for value in ("before", "after"):
            for start in range(0, len(keys), size):
                ops = [["set", {"key": key, "value": pack(value)}] for key in keys[start : start + size]]
                ann.do("batch", ops=ops)
            if value == "before":
                ann.do("checkpoint_set", name=prefix)
        bring_all_in(node)
        counted = 0

        def count() -> int:
            nonlocal counted
            counted += 1
            return 0

        node.store._connection.set_progress_handler(count, 50)
        asked = {**read, "prefix": prefix} | ({"at": f"checkpoint:{prefix}"} if "at" in read else {})
        assert len(patiently(ann, limit=1000, **asked)["items"]) >= len(keys)
        node.store._connection.set_progress_handler(None, 1)
        return counted

    ann = node.agent("ann")
    assert steps_to_read("large", 200) < 1.5 * steps_to_read("small", 10)


def test_what_a_large_change_removed_a_moment_ago_is_looked_at_once(node, monkeypatch):
    """While it is in memory too, each window looked at all of it."""
    ann = node.agent("ann")
    for value in ("before", "after"):
        ann.do("batch", ops=[["set", {"key": f"k{n:04}", "value": pack(value)}] for n in range(500)])
        if value == "before":
            ann.do("checkpoint_set", name="c")
    bring_all_in(node)
    taken: list[str] = []
    take = as_of.Collecting._take_recent

    def counted(self: as_of.Collecting, key: str) -> None:
        taken.append(key)
        take(self, key)

    monkeypatch.setattr(as_of.Collecting, "_take_recent", counted)
    assert len(patiently(ann, "scan", prefix="k", at="checkpoint:c", values=True, limit=1000)["items"]) == 500
    assert len(taken) <= 1000


def test_a_page_of_the_past_looks_at_no_more_than_it_shows(node, monkeypatch):
    ann = node.agent("ann")
    token = ann.do("batch", ops=[["set", {"key": f"k{n:04}", "value": pack(n)}] for n in range(1000)])["token"]
    slices = []
    advance = as_of.Collecting.advance

    def counted(self):
        slices.append(self)
        return advance(self)

    monkeypatch.setattr(as_of.Collecting, "advance", counted)
    for limit in (1, 100, 1000):
        slices.clear()
        page = patiently(ann, "scan", values=True, limit=limit, at=token)
        assert (len(page["items"]), page["more"]) == (limit, limit < 1000)
        assert len(slices) == 1 + limit // as_of.WINDOW_ROWS


@pytest.mark.parametrize("has_values", [False, True])
def test_a_page_of_what_is_gone_looks_at_little_more_than_it_shows(node, monkeypatch, has_values):
    """Where each window ended amid what is gone of a key, a page went on to the last one."""
    ann = node.agent("ann")
    for value in ("before", "after"):
        for first in range(0, 3000, 1000):
            keys = [f"k{n:04}" for n in range(first, first + 1000)]
            ann.do("batch", ops=[["set", {"key": key, "value": pack(value)}] for key in keys])
        if value == "before":
            ann.do("checkpoint_set", name="c")
    bring_all_in(node)
    read: list[int] = []
    dead_by_id = node.store.dead_by_id

    def counted(ids: list[int], bytes_max: int) -> Any:
        read.extend(ids)
        return dead_by_id(ids, bytes_max)

    monkeypatch.setattr(node.store, "dead_by_id", counted)
    start, shown = "", 0
    while True:
        page = patiently(ann, "scan", prefix="k", at="checkpoint:c", values=has_values, start=start, limit=500)
        shown += len(page["items"])
        assert len(read) <= shown + 6 * as_of.WINDOW_ROWS * (1 + shown // 500)
        if not page["more"]:
            break
        start = page.get("next") or page["items"][-1][0]
    assert shown == 3000


@pytest.mark.parametrize(
    "how", [{"delimiter": "/"}, {"where_meta": pack({"by": "ann"})}, {"conflicts": True, "values": True}]
)
def test_what_picks_keys_of_the_past_goes_by_pages_too(node, monkeypatch, how):
    """All of a space was one page: of 100,000 keys some tenths of a second in one turn."""
    ann = node.agent("ann")
    for n in range(120):
        by = {"meta": pack({"by": "ann"})} if n % 30 == 0 else {}
        for _ in range(1 + (n % 40 == 0)):
            ann.do("set", key=f"d{n // 50}/{n:03}", value=pack(n), seen="?", **by)
    ann.set("d1", 1)
    ann.do("checkpoint_set", name="c")

    def listed(**at: Any) -> tuple[list[str], list[str]]:
        items: list[str] = []
        prefixes: list[str] = []
        start = ""
        while True:
            page = patiently(ann, "scan", start=start, limit=20, **how, **at)
            items += [item[0] for item in page["items"]]
            prefixes += page.get("prefixes", [])
            if not page["more"]:
                return items, prefixes
            start = page.get("next") or items[-1]

    shown = listed()
    assert any(shown)
    for n in range(0, 120, 3):
        ann.delete(f"d{n // 50}/{n:03}")
    ann.set("d1/new", 1)
    sizes: list[int] = []
    past_replica = as_of.past_replica

    def counted(*args: Any) -> Any:
        past = past_replica(*args)
        sizes.append(past.entries.key_count)
        return past

    monkeypatch.setattr(as_of, "past_replica", counted)
    monkeypatch.setattr(as_of, "WINDOW_ROWS", 5)
    assert listed(at="checkpoint:c") == shown
    assert max(sizes) <= 2 * 21


def test_below_the_floor_of_history_it_is_refused():
    with fleet_of("a", caps=Caps(log_bytes_max=3000, history_bytes_max=3000)) as fleet:
        ann = fleet["a"].agent("ann")
        points: list[tuple[Any, int]] = []
        for n in range(200):
            fleet.pass_time(0.1)
            token = ann.set("k", n)["token"]
            points += [(token, n), (fleet.now.wall_ms, n)]
        fleet.run(10)
        answers = [patiently_or_code(ann, at) for at, _ in points]
        told = [n for answer, (_, n) in zip(answers, points, strict=True) if answer != "too_old"]
        assert answers == ["too_old"] * (len(points) - len(told)) + told
        assert 0 < len(told) < len(points)


def patiently_or_code(session: Agent, at: Any) -> Any:
    try:
        return unpack(patiently(session, "get", key="k", at=at)["value"])
    except Refusal as refusal:
        return refusal.code


def test_one_who_came_by_a_snapshot_knows_nothing_from_before(small):
    with fleet_of("a", caps=Caps(log_bytes_max=2000)) as fleet:
        ann = fleet["a"].agent("ann")
        token = ann.set("k", 1)["token"]
        for n in range(100):
            ann.set("k", n)
        fleet.run(5)
        fleet.add("b")
        fleet.link("a", "b")
        fleet.run(5)
        bob = fleet["b"].agent("bob")
        assert bob.get("k") == 99
        with pytest.raises(Refusal, match="too_old"):
            patiently(bob, "get", key="k", at=token)
        now = bob.set("k", 100)["token"]
        ann_sees = patiently(bob, "get", key="k", at=now)
        assert unpack(ann_sees["value"]) == 100


@pytest.mark.parametrize("at", ["yesterday", -1, None, 1.5, "c1.x", "checkpoint:", "checkpoint:none", 2**47])
def test_what_is_no_point_of_the_past_is_refused(node, at):
    ann = node.agent("ann")
    ann.set("k", 1)
    with pytest.raises(Refusal, match="invalid_request"):
        patiently(ann, "get", key="k", at=at)


def test_what_shows_no_state_takes_no_point(node):
    ann = node.agent("ann")
    with pytest.raises(Refusal, match="invalid_request"):
        patiently(ann, "history", key="k", at=0)


def test_keys_with_a_history_cap_of_their_own_are_refused_alone(node):
    ann = node.agent("ann")
    ann.do("schema_set", pattern="beat/*", policy="lww", history=False)
    ann.set("beat/a", 1)
    ann.set("plan", 1)
    token = patiently(ann, "scan")["token"]
    for n in range(5):
        ann.set("beat/a", n)
        ann.set("plan", n)
    node.fleet.run(5)
    assert unpack(patiently(ann, "get", key="plan", at=token)["value"]) == 1
    assert len(patiently(ann, "scan", prefix="plan", at=token)["items"]) == 1
    for request in ({"operation": "get", "key": "beat/a"}, {"operation": "scan", "prefix": ""}):
        with pytest.raises(Refusal, match="too_old"):
            patiently(ann, at=token, **request)


def test_what_a_comparison_took_away_makes_older_points_too_old(node):
    """By which removal it went is not known here: nobody can say whether that is in a point from before."""
    ann = node.agent("ann")
    token = ann.set("k", 1)["token"]
    ann.set("other", 1)
    repair.remove(node.replica, [("k", node.replica.entries.held("k")[0].dot)], node.now.wall_ms)
    node.turn()
    with pytest.raises(Refusal, match="too_old"):
        patiently(ann, "get", key="k", at=token)
    assert patiently(ann, "get", key="k", at=ann.set("other", 2)["token"]) is None
