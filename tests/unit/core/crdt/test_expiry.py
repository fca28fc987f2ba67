"""What has a time to live disappears everywhere when it ends, and one node alone deletes it."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.causality import Dot, Hlc, Writer
from crdtsync.core.background import expiry_reaper
from crdtsync.core.background.expiry_reaper import EXPIRY_TAKEOVER_MS
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry
from crdtsync.errors import NoSpace
from crdtsync.wire.change import Change, Op, value_hash
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from tests.fleet.agent import Agent
from tests.fleet.clock import START_MS
from tests.fleet.fleet import CODEC, Fleet
from tests.fleet.host import Host
from tests.fleet.stranger import Stranger
from tests.unit.core.watch.test_change_watch import brief, settle, watch

TAKEOVER_S = EXPIRY_TAKEOVER_MS / 1000


def deletions(machine: Host) -> list[Change]:
    """The changes in a node's log that delete what has expired."""
    rows = machine.store.log(machine.replica.id, 0, 1 << 30, 1 << 20)
    changes = [machine.replica.codec.decode(row.body) for row in rows]
    return [change for change in changes if any((op.attrs or {}).get("expired") for op in change.ops)]


def rows(machine: Host) -> int:
    """How many entries the database holds."""
    return len(list(machine.store.entries(machine.replica.id)))


def count(session: Agent) -> tuple[int, int, int]:
    """Keys, entries and siblings as the status tells them."""
    (space,) = session.ask("status")["spaces"]
    return space["keys"], space["entries"], space["siblings"]


def part(fleet: Fleet, name: str) -> None:
    """Cut a machine off."""
    for wire in [wire for wire in fleet.wires if fleet[name] in wire.ends]:
        wire.close()
    fleet.sync()


def told(watchers: list[Agent]) -> list[list[tuple[Any, ...]]]:
    return [brief(watcher.told()) for watcher in watchers]


# -- in the normal case ----------------------------------------------------------------------------------------------


def test_it_disappears_everywhere_and_its_own_node_alone_deletes_it(trio):
    watchers = [watch(machine) for machine in trio.machines.values()]
    trio["b"].agent("bob").set("k", 1, ttl=1000)
    trio.run(0.5)
    assert told(watchers) == [[("snapshot", None, None), ("set", "k", 1)]] * 3
    trio.run(5)
    assert told(watchers) == [[("expired", "k", None)]] * 3
    for machine in trio.machines.values():
        (deletion,) = deletions(machine)
        assert deletion.writer == trio["b"].replica.writer
        assert deletion.agent == "crdtsyncd"
        assert rows(machine) == 0
        assert len(machine.replica.entries) == 0


def test_it_is_hidden_the_moment_its_time_is_over(trio):
    a = trio["a"].agent("ann")
    a.set("k", 1, ttl=1000)
    trio.pass_time(0.999)
    assert a.get("k") == 1
    trio.pass_time(0.001)
    assert a.get("k") is None


def test_a_node_wakes_up_for_it(node):
    node.agent("ann").set("k", 1, ttl=2500)
    assert node.node.reaper.deadline_s() == pytest.approx(node.fleet.now.mono_s + 2.5)
    watcher = watch(node)
    watcher.told()
    node.fleet.pass_time(2.5)
    node.fleet.sync()
    assert brief(watcher.told()) == [("expired", "k", None)]
    assert node.node.reaper.deadline_s() is None


def test_the_node_as_a_whole_wakes_up_for_it(node):
    node.fleet.run(120, 30)
    node.agent("ann").set("k", 1, ttl=300)
    node.fleet.pass_time(0)
    node.fleet.sync()
    assert node.node.deadline_s() == pytest.approx(node.fleet.now.mono_s + 0.3)


def test_a_far_time_is_looked_at_now_and_then_for_the_clock_may_be_set(node):
    node.agent("ann").set("k", 1, ttl=86_400_000)
    assert node.node.reaper.deadline_s() == node.fleet.now.mono_s + expiry_reaper.EXPIRY_LOOK_S_MAX


def test_an_overwrite_before_is_not_touched(trio):
    a = trio["a"].agent("ann")
    a.set("k", 1, ttl=1000)
    a.set("k", 2)
    a.set("j", 1, ttl=1000)
    a.set("j", 2, ttl=60_000)
    trio.run(10)
    assert (a.get("k"), a.get("j")) == (2, 2)
    assert deletions(trio["a"]) == []


def test_an_overwrite_at_the_time_of_the_deletion_survives(pair):
    a, b = pair["a"].agent("ann"), pair["b"].agent("bob")
    a.set("k", 1, ttl=1000)
    pair.run(0.5)
    part(pair, "b")
    b.get("k")
    b.set("k", 2, seen=b.version("k"))
    pair.run(3)
    assert len(deletions(pair["a"])) == 1
    pair.link("a", "b")
    pair.run(3)
    assert (a.values("k"), b.values("k")) == ([2], [2])


def test_what_has_expired_counts_nowhere(node, monkeypatch):
    monkeypatch.setattr(expiry_reaper, "EXPIRY_INTERVAL_S", 1000.0)
    ann = node.agent("ann")
    ann.set("other", 1, ttl=1000)
    node.fleet.run(1.2)  # the one deletion for now
    ann.set("gone", 1, ttl=1000)
    ann.set("half", 1, ttl=1000)
    ann.set("half", 2, seen="?")
    assert count(ann) == (2, 3, 1)
    node.fleet.run(1.2)
    assert rows(node) == 3
    assert count(ann) == (1, 1, 0)
    assert [row[0] for row in ann.ask("scan")["items"]] == ["half"]
    assert ann.ask("scan", entries=True)["items"][0]["siblings"] == []
    assert ann.ask("get", key="half")["siblings"] == 0
    assert ann.ask("entry", key="gone") is None
    assert ann.delete("gone")["existed"] is False
    ann.set("gone", 3, if_absent=True)
    assert count(ann) == (2, 2, 0)


def test_expired_siblings_leave_room_for_others(node, monkeypatch):
    monkeypatch.setattr(expiry_reaper, "EXPIRY_INTERVAL_S", 1000.0)
    ann = node.agent("ann")
    ann.set("other", 1, ttl=1000)
    node.fleet.run(1.2)
    for n in range(64):
        ann.set("k", n, seen="?", ttl=1000)
    node.fleet.run(1.2)
    assert ann.set("k", "new", seen="?")["siblings"] == 0


def test_many_are_deleted_in_few_changes(node):
    ann = node.agent("ann")
    for first in range(0, 2500, 500):
        ann.do(
            "batch", ops=[["set", {"key": f"k{n}", "value": pack(n), "ttl": 1000}] for n in range(first, first + 500)]
        )
    node.fleet.run(2.5)
    assert [len(change.ops) for change in deletions(node)] == [256] * 9 + [196]
    assert rows(node) == 0


def test_a_trickle_is_deleted_about_once_a_second(node):
    ann = node.agent("ann")
    for n in range(50):
        ann.set(f"k{n}", n, ttl=1000)
        node.fleet.run(0.1)
    node.fleet.run(2)
    assert 5 <= len(deletions(node)) <= 8
    assert rows(node) == 0


def test_nothing_is_deleted_while_there_is_no_room(node):
    from crdtsync.core.interface import DiskSpace

    node.agent("ann").set("k", 1, ttl=1000)
    node.step(DiskSpace("full"))
    node.fleet.run(5)
    assert deletions(node) == []
    node.step(DiskSpace(""))
    node.fleet.sync()
    assert len(deletions(node)) == 1


def test_a_node_that_has_a_new_writer_still_deletes_what_its_old_one_wrote(node):
    node.agent("ann").set("k", 1, ttl=1000)
    old = node.replica.writer
    for mark in (node.directory / "run").iterdir():
        mark.unlink()
    node.restart()
    assert node.replica.writer is None
    node.fleet.run(3)
    (deletion,) = deletions(node)
    assert deletion.writer != old
    assert rows(node) == 0


def test_a_restart_after_its_time_deletes_it_at_once(node):
    node.agent("ann").set("k", 1, ttl=1000)
    node.store.close()
    node.sessions.clear()
    node.fleet.now = node.fleet.now._replace(wall_ms=START_MS + 10_000)
    node.open()
    node.fleet.sync()
    assert rows(node) == 0


def test_a_deletion_that_could_not_be_stored_is_done_later(node):
    node.agent("ann").set("k", 1, ttl=1000)
    watcher = watch(node)
    watcher.told()
    node.fleet.pass_time(1.5)
    node.refuse(NoSpace("full"))
    node.fleet.run(3)
    assert rows(node) == 0
    assert brief(watcher.told())[0][0] == "reset"


# -- when its own node is away ---------------------------------------------------------------------------------------


def test_while_its_node_is_away_nobody_deletes_it_and_after_long_one_other_does(trio):
    watchers = [watch(trio[name]) for name in ("a", "c")]
    trio["b"].agent("bob").set("k", 1, ttl=1000)
    trio.run(0.5)
    part(trio, "b")
    trio.run(0.6 * TAKEOVER_S, 30)
    assert [deletions(trio[name]) for name in ("a", "c")] == [[], []]
    assert trio["a"].agent().get("k") is None
    trio.run(0.6 * TAKEOVER_S, 30)
    lowest = min((trio["a"], trio["c"]), key=lambda machine: machine.node.identity.node)
    for name in ("a", "c"):
        (deletion,) = deletions(trio[name])
        assert deletion.writer == lowest.replica.writer
        assert rows(trio[name]) == 0
    assert told(watchers) == [[("snapshot", None, None), ("set", "k", 1), ("expired", "k", None)]] * 2


def test_when_its_node_comes_back_meanwhile_that_deletes_it(trio):
    trio["b"].agent("bob").set("k", 1, ttl=1000)
    trio.run(0.5)
    part(trio, "b")
    trio["b"].store.close()
    stopped = trio.machines.pop("b")
    trio.run(0.9 * TAKEOVER_S, 30)
    stopped.open()
    trio.machines["b"] = stopped
    trio.link("b", "a")
    trio.link("b", "c")
    trio.sync()
    trio.run(TAKEOVER_S, 30)
    for machine in trio.machines.values():
        (deletion,) = deletions(machine)
        assert trio["a"].replica.origins[deletion.writer][1] == "b"


def test_a_node_that_has_just_started_waits_for_the_others_to_come(trio):
    """All were down for hours: it must not take the others for lost."""
    trio["b"].agent("bob").set("k", 1, ttl=1000)
    trio.run(0.5)
    part(trio, "b")
    part(trio, "a")
    for name in ("a", "c"):
        trio[name].store.close()
    machines = dict(trio.machines)
    trio.machines.clear()
    trio.pass_time(10 * TAKEOVER_S)
    for name in ("a", "c"):
        machines[name].sessions.clear()
        machines[name].open()
    trio.machines.update({name: machines[name] for name in ("a", "c")})
    trio.link("a", "c")
    trio.sync()
    trio.run(0.5 * TAKEOVER_S, 30)
    assert [deletions(trio[name]) for name in ("a", "c")] == [[], []]


def test_a_node_that_another_is_connected_to_is_not_away(trio):
    """b and c do not see each other, and a sees both."""
    a, c = trio["a"], trio["c"]
    for wire in [w for w in trio.wires if {*w.ends} == {trio["b"], c}]:
        wire.close()
    trio["b"].agent("bob").set("k", 1, ttl=1000)
    trio["b"].node.read_only = "full"  # it cannot delete it for now
    trio.run(3 * TAKEOVER_S, 60)
    assert deletions(a) == deletions(c) == []
    assert rows(c) == 1


def test_if_the_lowest_cannot_the_next_one_does(trio):
    lowest, next_one = sorted((trio["a"], trio["c"]), key=lambda machine: machine.node.identity.node)
    trio["b"].agent("bob").set("k", 1, ttl=1000)
    trio.run(0.5)
    part(trio, "b")
    lowest.node.read_only = "full"
    trio.run(1.9 * TAKEOVER_S, 60)
    assert deletions(next_one) == []
    trio.run(0.3 * TAKEOVER_S, 60)
    (deletion,) = deletions(next_one)
    assert deletion.writer == next_one.replica.writer


# -- clocks ----------------------------------------------------------------------------------------------------------


def test_each_host_goes_by_its_own_clock_and_the_owners_decides_about_deletion(pair):
    a, b = pair["a"].agent("ann"), pair["b"].agent("bob")
    pair["b"].ahead_ms = 5_000
    watchers = [watch(pair["a"]), watch(pair["b"])]
    told(watchers)
    a.set("k", 1, ttl=10_000)
    pair.run(6)
    assert (a.get("k"), b.get("k")) == (1, None)
    assert told(watchers) == [[("set", "k", 1)], [("set", "k", 1), ("expired", "k", None)]]
    assert deletions(pair["b"]) == []
    pair.run(6)
    assert (a.get("k"), b.get("k")) == (None, None)
    assert told(watchers) == [[("expired", "k", None)], []]
    assert len(deletions(pair["b"])) == 1


def test_who_is_behind_shows_it_until_it_is_deleted(pair):
    b = pair["b"].agent("bob")
    pair["b"].ahead_ms = -5_000
    watcher = watch(pair["b"])
    watcher.told()
    pair["a"].agent("ann").set("k", 1, ttl=2_000)
    pair.run(1)
    assert b.get("k") == 1
    pair.run(3)
    assert b.get("k") is None
    assert brief(watcher.told()) == [("set", "k", 1), ("expired", "k", None)]


def test_a_clock_that_is_set_back_shows_it_again(pair):
    b = pair["b"].agent("bob")
    watcher = watch(pair["b"])
    watcher.told()
    pair["b"].ahead_ms = 60_000
    pair["a"].agent("ann").set("k", 1, ttl=10_000)
    pair.run(1)
    assert b.get("k") is None
    pair["b"].ahead_ms = 0
    pair.run(0.5)
    assert b.get("k") == 1
    assert count(b) == (1, 1, 0)
    pair.run(12)
    assert b.get("k") is None
    assert [event for event in brief(watcher.told()) if event[1]][-2:] == [("set", "k", 1), ("expired", "k", None)]


# -- what watchers are told ------------------------------------------------------------------------------------------


def test_what_is_left_of_a_key_is_told(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    ann.set("k", 1, ttl=1000)
    bob.set("k", 2, seen="?")
    watcher = watch(node)
    watcher.told()
    node.fleet.run(3)
    (event,) = watcher.told()
    assert (event["event"], event["op"], unpack(event["value"])) == ("set", "expire", 2)
    assert "siblings" not in event


def test_an_expired_event_says_what_it_was(node):
    node.agent("ann").set("k", 1, ttl=1000)
    watcher = watch(node)
    watcher.told()
    node.fleet.run(1.1)
    (event,) = watcher.told()
    assert (event["op"], event["kind"], event["agent"], event["node"]) == ("expire", "register", "ann", node.name)
    assert event["time"] == START_MS + 1000
    assert brief(watch(node, after=event["token"]).told()) in ([], [("expired", "k", None)])


def test_a_watcher_that_was_away_is_told_from_the_log(node):
    ann = node.agent("ann")
    ann.set("k", 1, ttl=1000)
    token = ann.set("j", 1)["token"]
    node.fleet.run(3)
    assert brief(watch(node, after=token).told()) == [("expired", "k", None)]


def test_a_watcher_that_was_away_is_told_of_what_nobody_has_deleted_yet(pair):
    b = pair["b"].agent("bob")
    pair["a"].agent("ann").set("k", 1, ttl=1000)
    pair.run(0.5)
    token = b.set("j", 1)["token"]
    after = b.ask("scan")["token"]
    part(pair, "a")
    pair.run(3)
    assert rows(pair["b"]) == 2
    assert brief(watch(pair["b"], after=after).told()) == [("expired", "k", None)]
    assert brief(watch(pair["b"], after=token).told())[-1] == ("expired", "k", None)
    assert brief(watch(pair["b"]).told()) == [("snapshot", "j", 1), ("snapshot", None, None)]


def test_a_snapshot_leaves_out_what_has_expired_also_while_much_is_being_hidden(node, monkeypatch):
    monkeypatch.setattr(expiry_reaper, "EXPIRY_TURN_ENTRIES_MAX", 1)
    ann = node.agent("ann")
    for n in range(5):
        ann.set(f"k{n}", n, ttl=1000)
    ann.set("k3", "stays")
    watcher = node.agent("watcher")
    node.fleet.pass_time(1.5)
    watcher.ask("watch", prefix="")
    settle(node)
    told = brief(watcher.told())
    assert [event for event in told if event[0] != "expired"] == [("snapshot", "k3", "stays"), ("snapshot", None, None)]


def test_a_slow_watcher_is_told_too(node):
    node.agent("ann").set("k", 1, ttl=1000)
    watcher = watch(node)
    watcher.told()
    watcher.flow(blocked=True)
    node.fleet.run(3)
    watcher.flow(blocked=False)
    settle(node)
    assert [event[:2] for event in brief(watcher.told())] in (
        [("lagged", None), ("expired", "k")],
        [("lagged", None), ("delete", "k")],
    )


def test_what_comes_expired_is_not_told_unless_it_took_the_place_of_something(apart):
    a, b = apart["a"].agent("ann"), apart["b"].agent("bob")
    b.set("k", "old")
    apart.link("a", "b")
    apart.run(1)
    part(apart, "b")
    watcher = watch(apart["a"])
    watcher.told()
    b.set("k", "new", seen=b.version("k"), ttl=1000)
    b.set("j", 1, ttl=1000)
    apart["b"].node.read_only = "full"  # it does not delete them
    apart.run(5)
    apart.link("a", "b")
    apart.run(3)
    assert brief(watcher.told()) == [("expired", "k", None)]
    assert a.get("k") is None


@pytest.mark.parametrize("ttl", [-(2**63), -1, 0, 2**64 - 1, True, "soon", 1.5, None, [1]])
def test_a_strange_time_to_live_from_a_peer_harms_nobody(apart, ttl):
    a = apart["a"]
    attrs = {"ttl": ttl}
    op = Op("k", "field", Kind.MAP, pack(1), value_hash(pack(1)), (), attrs)
    other = Op("l", None, Kind.LOG, pack(1), value_hash(pack(1)), (), attrs)
    change = CODEC.encode(Change(Writer(77), 1, (), bytes(16), Hlc(START_MS << 16), "x", None, (op, other), ("n", "n")))
    watcher = watch(a)
    Stranger(a, node="n").send(change)
    apart.run(3)
    ann = a.agent()
    ann.ask("scan", prefix="")
    ann.append("m", 2)
    assert ("set", "m", 2) in brief(watcher.told())
    assert a.alarms <= {"malformed_write"}
    a.restart()
    assert (
        a.agent().ask("status")["spaces"][0]["entries"]
        == a.replica.entries.count - a.replica.entries.expiry.hidden_count
    )


# -- its size --------------------------------------------------------------------------------------------------------


def entry(seq: int, key: str, ttl: int | None, at_ms: int = 0) -> Entry:
    attrs = None if ttl is None else {"ttl": ttl}
    return Entry(seq, Dot(Writer(1), seq, 0), key, None, 0, at_ms << 16, "", b"\xc0", b"", attrs)


@pytest.mark.parametrize("ttl", [lambda n: 10**9, lambda n: 10**9 - n, lambda n: 10**6 + n * 7919 % 10**6])
def test_what_is_remembered_follows_what_lives(ttl):
    entries = Entries()
    held: dict[str, Entry] = {}
    for n in range(1, 10_000):
        key = f"k{n % 10}"
        if key in held:
            entries.remove(key, (held[key].dot,))
        held[key] = entry(n, key, ttl(n))
        entries.add(held[key])
    assert len(entries.expiry) == 10
    assert len(entries.expiry._waiting._heap) == 10
    assert len(entries._expiring) == 10


def test_nothing_is_left_of_keys_that_are_gone():
    entries = Entries()
    for n in range(1, 10_000):
        entries.add(entry(n, f"k{n}", 10**9))
        entries.remove(f"k{n}", (Dot(Writer(1), n, 0),))
    for n in range(10_000, 11_000):
        entries.add(entry(n, f"k{n}", 1))
    assert len(entries.expire(2)) == 1000
    assert len(entries.keys_all_hidden) == 1000
    for n in range(10_000, 11_000):
        entries.remove(f"k{n}", (Dot(Writer(1), n, 0),))
    left = entries.expiry
    assert (len(left), left.hidden, left.hidden_count, entries.keys_all_hidden, entries._expiring) == (
        0,
        {},
        0,
        set(),
        {},
    )
    assert len(left._waiting._heap) == len(left._waiting._items) == 0


def test_a_long_log_with_one_element_that_expires_is_not_copied_at_each_read():
    """No agent here can write such an element; another's careless node may."""
    entries = Entries()
    for n in range(1, 1000):
        entries.add(entry(n, "log", None))
    entries.add(entry(1000, "log", 500))
    assert entries.live("log", 499) is entries.held("log")
    assert len(entries.live("log", 500)) == 999
    entries.remove("log", (Dot(Writer(1), 1000, 0),))
    assert entries.live("log", 501) is entries.held("log")


def test_a_clock_of_another_host_that_is_ahead_lengthens_no_ttl_without_an_alarm(pair):
    pair["b"].ahead_ms = 14_000
    ann, bob = pair["a"].agent(), pair["b"].agent()
    ann.set("k", 1, ttl=4_000)
    assert not [alarm for alarm in ann.ask("status")["alarms"] if alarm["code"] == "ttl_lengthened"]
    bob.set("other", 1)
    pair.run(1)
    ann.set("k", 2, ttl=4_000)
    (alarm,) = [alarm for alarm in ann.ask("status")["alarms"] if alarm["code"] == "ttl_lengthened"]
    assert "longer than it should" in alarm["message"]
    pair["b"].ahead_ms = 0
    pair.pass_time(30)
    ann.set("k", 3, ttl=4_000)
    assert not [alarm for alarm in ann.ask("status")["alarms"] if alarm["code"] == "ttl_lengthened"]
