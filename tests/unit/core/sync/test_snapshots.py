"""Snapshots between nodes: whoever cannot be served from the log takes one, and ends where every change would have led.

A log is trimmed by hand here, as retention does it when a log has grown over its cap.
"""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,operator,var-annotated"

from __future__ import annotations

from types import SimpleNamespace

import pytest

from crdtsync.core.interface import DiskSpace, Room
from crdtsync.core.replica.snapshots import snapshot, staging
from crdtsync.core.sync import snapshot_client, snapshot_server
from crdtsync.core.sync.snapshot_receipt import Receipt
from crdtsync.core.watch import change_watch
from crdtsync.errors import CrdtSyncError, NoSpace
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.messages import decode_message
from crdtsync.wire.peer.transfer import Offer, Part
from tests.fleet.fleet import fleet_of
from tests.fleet.snapshots import agree, begun, events, fill, trim
from tests.fleet.stranger import Stranger

# -- who takes one -----------------------------------------------------------------------------------------------------


def test_a_new_node_takes_a_snapshot_where_the_log_is_gone(apart, small):
    fill(apart["a"], 95)
    trim(apart["a"])
    apart.link("b", "a")
    apart.sync()
    agree(apart, "a", "b")
    assert apart["b"].store.log_stats(1)["log_changes"] == 0
    assert [taken["entries"] for taken in events(apart["b"], "snapshot_taken")] == [95]
    apart["b"].restart()
    agree(apart, "a", "b")


def test_a_space_that_sleeps_is_read_while_its_snapshot_is_made(apart):
    a, b = apart["a"], apart["b"]
    wire = apart.link("b", "a")
    fill(a, 5)
    apart.sync()
    wire.close()
    b.restart()
    fill(a, 5, prefix="new")
    trim(a)
    wire = apart.link("b", "a")
    asked = b.node.sync.snapshot_client.receipts
    for _ in range(100):
        a.turn()
        wire.deliver(a, 1)
        wire.deliver(b, 1)
        if "default" in asked:
            break
        b.turn()
    assert b.replica.asleep is not None
    b.turn()
    assert b.replica.asleep is not None, "first the giver is asked"
    b.turn()
    assert b.replica.asleep is None
    assert asked["default"].taking is None
    apart.sync()
    agree(apart, "a", "b")


def test_where_several_are_taken_none_wakes_before_its_first_part_comes(apart):
    a, b = apart["a"], apart["b"]
    maker = a.agent("maker")
    for name in ("s1", "s2"):
        maker.ask("space_create", name=name)
        a.turn()
    wire = apart.link("b", "a")
    apart.sync()
    wire.close()
    b.restart()
    client = b.node.sync.snapshot_client
    for name in ("s1", "s2"):
        client.receipts[name] = Receipt(b.node.replicas[name], "a", SimpleNamespace(), 0.0, 0.0)
    for _ in range(3):
        client.go_on()
    assert all(b.node.replicas[name].asleep is not None for name in ("s1", "s2"))
    assert client.check_due_s() is None
    del client.receipts["s2"]
    for _ in range(2):
        assert client.check_due_s() == 0.0
        client.go_on()
    assert b.node.replicas["s1"].asleep is None
    assert client.check_due_s() is None


def test_what_follows_the_snapshot_comes_from_the_log_and_goes_back(apart):
    fill(apart["a"], 20)
    trim(apart["a"])
    apart.link("b", "a")
    apart.sync()
    apart["b"].agent().set("mine", 1)
    apart["a"].agent().set("k/00001", "new")
    apart.run(2)
    agree(apart, "a", "b")
    assert len(events(apart["b"], "snapshot_taken")) == 1
    (row,) = [row for row in apart["b"].store.log(1, 0, 10**6, 9) if row.writer == apart["b"].replica.writer]
    change = apart["b"].replica.codec.decode(row.body)
    assert [(dep.writer, dep.seq) for dep in change.deps] == [(apart["a"].replica.writer, 20)]


def test_a_node_that_was_long_away_keeps_what_it_wrote_offline(apart):
    a, b = apart["a"], apart["b"]
    wire = apart.link("a", "b")
    fill(a, 10)
    apart.run(2)
    wire.close()
    ann, bob = a.agent(), b.agent()
    ann.ask("get", key="k/00001")
    bob.ask("get", key="k/00002")
    ann.delete("k/00001")
    ann.set("k/00003", "changed at a")
    ann.append("log", "from a")
    bob.delete("k/00002")
    bob.set("k/00003", "changed at b", seen=bob.version("k/00003"))
    bob.append("log", "from b")
    trim(a)
    apart.link("a", "b")
    apart.run(2)
    agree(apart, "a", "b")
    assert bob.get("k/00001") is None
    assert bob.get("k/00002") is None
    assert set(bob.values("k/00003")) == {"changed at a", "changed at b"}
    assert sorted(bob.get("log")) == ["from a", "from b"]
    assert b.store.log_stats(1)["history_bytes"] > 0


def test_both_forgot_their_logs_while_they_were_apart(apart):
    fill(apart["a"], 10, "a")
    fill(apart["b"], 10, "b")
    trim(apart["a"])
    trim(apart["b"])
    apart.link("a", "b")
    apart.run(3)
    agree(apart, "a", "b")
    assert len(apart["a"].replica.entries) == 20


def test_one_who_lacks_far_more_changes_than_there_is_state_takes_one_though_the_log_is_whole(apart, monkeypatch):
    monkeypatch.setattr(snapshot_server, "MISSING_CHANGES_MIN", 50)
    for _ in range(6):
        fill(apart["a"], 10)
    apart.link("b", "a")
    apart.sync()
    agree(apart, "a", "b")
    assert len(events(apart["b"], "snapshot_taken")) == 1
    assert apart["a"].replica.floor == {}


def test_one_who_comes_again_soon_gets_no_snapshot_of_long_ago(apart, monkeypatch):
    monkeypatch.setattr(snapshot_server, "MISSING_CHANGES_MIN", 50)
    for _ in range(2):
        for _ in range(6):
            fill(apart["a"], 10)
        wire = apart.link("b", "a")
        apart.sync()
        agree(apart, "a", "b")
        wire.close()
    assert [taken["came"] for taken in events(apart["b"], "snapshot_taken")] == [10, 10]
    assert apart["b"].store.log_stats(1)["log_changes"] == 0


def test_where_no_more_may_be_open_one_of_long_ago_is_better_than_none(apart, monkeypatch):
    monkeypatch.setattr(snapshot_server, "MISSING_CHANGES_MIN", 5)
    monkeypatch.setattr(snapshot_server, "SNAPSHOTS_OPEN_MAX", 1)
    a = apart["a"]
    server = a.node.sync.snapshot_server
    fill(a, 10)
    first = server._fresh(a.replica, may_share=True)
    fill(a, 10)
    served = SimpleNamespace(serving=SimpleNamespace(snapshot=first.snapshot.id))
    monkeypatch.setattr(server, "_space_links", lambda: [served])
    assert server._fresh(a.replica, may_share=True) is first
    assert server._fresh(a.replica, may_share=False) is None


def test_one_who_lacks_little_is_served_from_the_log(apart):
    fill(apart["a"], 30)
    apart.link("b", "a")
    apart.sync()
    agree(apart, "a", "b")
    assert events(apart["b"], "snapshot_taken") == []


def test_along_a_chain_each_takes_one_from_the_one_before(apart):
    apart.link("b", "c")
    apart.sync()
    fill(apart["a"], 30)
    trim(apart["a"])
    apart.link("a", "b")
    apart.run(4)
    agree(apart)
    apart["c"].agent().set("k/00001", "at the end of the chain")
    apart["a"].agent().set("k/00002", "at its beginning")
    apart.run(2)
    agree(apart)


def test_a_connected_peer_that_falls_below_a_rising_floor_is_offered_one():
    """c gets nothing of what a wrote, since b leaves that to a; then b forgets it."""
    with fleet_of("a", "b", "c", linked=True) as trio:
        dead = next(wire for wire in trio.wires if {end.name for end in wire.ends} == {"a", "c"})
        trio.wires.remove(dead)
        trio["a"].agent().set("k", 1)
        trio.sync()
        assert trio["c"].agent().get("k") is None
        trim(trio["b"])
        trio.run(5)
        assert trio["c"].agent().get("k") == 1
        assert len(events(trio["c"], "snapshot_taken")) == 1


def test_an_older_version_that_takes_none_is_told_by_an_alarm(apart):
    fill(apart["a"], 3)
    trim(apart["a"])
    old = Stranger(apart["a"], node="old")
    assert apart["a"].alarms == {"behind_log"}
    assert old.heard(Offer) == []


# -- while others write ------------------------------------------------------------------------------------------------


def test_writes_on_all_sides_during_the_transfer(apart, small):
    a, b, c = apart["a"], apart["b"], apart["c"]
    apart.link("a", "c")
    fill(a, 100)
    apart.run(1)
    trim(a)
    apart.link("b", "a")
    apart.link("b", "c")
    agents = [machine.agent() for machine in (a, b, c)]
    for n in range(40):
        for agent in agents:
            agent.ask("get", key="shared")
            agent.set("shared", f"{agent.machine.name}{n}")
        agents[0].delete(f"k/{n:05}")
        agents[2].set(f"k/{n + 50:05}", "new")
        for wire in list(apart.wires):
            for end in wire.ends:
                wire.deliver(end, 1)
                end.turn()
    assert events(b, "snapshot_taken") != []
    apart.run(3)
    agree(apart)
    assert b.agent().get("k/00000") is None
    assert b.agent().get("k/00050") == "new"


def test_watchers_are_told_what_a_snapshot_changed(apart):
    a, b = apart["a"], apart["b"]
    wire = apart.link("a", "b")
    fill(a, 3)
    apart.run(2)
    wire.close()
    watcher, other = b.agent(), b.agent()
    watcher.ask("watch", prefix="k/")
    other.ask("watch", prefix="other/")
    b.turn()
    watcher.told(), other.told()
    a.agent().delete("k/00001")
    a.agent().set("k/00002", 2)
    trim(a)
    apart.link("a", "b")
    apart.run(2)
    told = watcher.told()
    assert [(event["event"], event["key"]) for event in told] == [
        ("lagged", None),
        ("delete", "k/00001"),
        ("set", "k/00002"),
    ]
    assert other.told() == []
    resumed = b.agent()
    resumed.ask("watch", prefix="k/", after=told[-1]["token"])
    a.agent().set("k/00003", 3)
    apart.run(2)
    assert [event["key"] for event in resumed.told()] == ["k/00003"]


def test_a_watch_goes_live_though_a_snapshot_is_the_last_that_happened(apart):
    """A merged snapshot has a place in the log and no row there: who waited for one would wait for ever."""
    a, b = apart["a"], apart["b"]
    b.agent().set("mine", 1)
    fill(a, 5)
    token = a.agent().set("last", 1)["token"]
    token = a.agent().ask("scan")["token"]  # all that a holds, and nothing of b's
    trim(a)
    wire = apart.link("b", "a")
    while not events(b, "snapshot_taken"):
        for end in wire.ends:
            wire.deliver(end)
            end.turn()
    watcher = b.agent("watcher")
    watcher.ask("watch", prefix="", after=token)
    for _ in range(5):
        b.turn()
    assert not b.node.dispatcher.watches.has_more()
    assert [event["key"] for event in watcher.told()] == ["mine"]
    b.agent().set("mine", 2)
    assert [event["key"] for event in watcher.told()] == ["mine"]


def test_watchers_of_very_much_start_over(apart, monkeypatch):
    monkeypatch.setattr(change_watch, "RETOLD_KEYS_MAX", 5)
    a, b = apart["a"], apart["b"]
    watcher = b.agent()
    watcher.ask("watch", prefix="")
    b.turn()
    watcher.told()
    fill(a, 20)
    trim(a)
    apart.link("a", "b")
    apart.run(2)
    told = watcher.told()
    assert told[0]["event"] == "reset"
    assert [event["key"] for event in told if event["key"]] == [f"k/{n:05}" for n in range(20)]


def test_one_who_waits_for_a_token_is_answered_by_a_snapshot(apart):
    a, b = apart["a"], apart["b"]
    fill(a, 3)
    token = a.agent().set("k", 1)["token"]
    trim(a)
    waiter = b.agent()
    request = waiter.send("wait", token=token, timeout=60_000)
    b.turn()
    apart.link("a", "b")
    apart.run(1)
    waiter.result(request)


def test_a_write_that_waits_for_another_node_is_answered_by_its_snapshot(apart, small):
    """b has on disk what the snapshot brought, and says so to all."""
    a, b, c = apart["a"], apart["b"], apart["c"]
    fill(a, 30)
    apart.link("a", "c")
    apart.run(1)
    trim(a)
    a.expect_peer("b")
    writer = a.agent()
    request = writer.write("set", key="k", value=pack(1), w=3, timeout=60_000)
    a.turn()
    apart.link("b", "a")
    apart.run(1)
    writer.result(request)
    assert b.agent().get("k") == 1
    assert c.agent().get("k") == 1


def test_the_status_shows_what_is_under_way(apart, small):
    begun(apart, parts=4)

    def shown(machine):
        (peer,) = machine.node.status()["peers"]
        return peer["snapshot"]

    assert shown(apart["b"]) == {"direction": "in", "space": "default", "part": 4, "parts": 12}
    given = shown(apart["a"])
    assert (given["direction"], given["parts"]) == ("out", 12)
    apart.run(1)
    assert shown(apart["a"]) is shown(apart["b"]) is None


# -- cut off and resumed -----------------------------------------------------------------------------------------------


def count_parts(fleet):
    parts = []
    for wire in fleet.wires:
        original = wire.put

        def counting(sender, data, original=original):
            message = decode_message(data)
            if isinstance(message, Part):
                parts.append(message.part)
            original(sender, data)

        wire.put = counting
    return parts


def test_a_cut_connection_goes_on_at_the_next_part(apart, small):
    wire, _ = begun(apart)
    wire.close()
    apart.pass_time(3)
    apart["a"].agent().set("k/00001", "meanwhile")
    apart.link("a", "b")
    parts = count_parts(apart)
    apart.sync()
    agree(apart, "a", "b")
    assert parts[0] >= 4
    (resumed,) = events(apart["a"], "snapshot_resumed")
    assert resumed["part"] == parts[0]
    assert len(events(apart["a"], "snapshot_started")) == 1


def test_a_snapshot_and_what_follows_it_in_one_commit(apart, small):
    wire, _ = begun(apart)
    a, b = apart["a"], apart["b"]
    while events(b, "snapshot_taken") == [] and not wire.waiting[wire.ends.index(b)]:
        wire.deliver(a)
        a.turn()
    a.agent().set("after", 1)
    for _ in range(30):  # parts and changes wait for b
        wire.deliver(a)
        a.turn()
    for _ in range(30):
        wire.deliver(b)  # with all that has come by then in one commit
        b.turn()
        wire.deliver(a)
        a.turn()
    agree(apart, "a", "b")
    b.restart()
    agree(apart, "a", "b")


def test_a_restarted_taker_goes_on_at_the_next_part(apart, small):
    begun(apart)
    apart["b"].restart()
    apart.link("b", "a")
    parts = count_parts(apart)
    apart.run(1)
    agree(apart, "a", "b")
    assert parts[0] == 4
    assert list(apart["b"].store.snapshot_parts(1)) == []


def test_a_damaged_part_on_disk_means_to_start_anew(apart, small):
    begun(apart)
    apart["b"].store._db.execute("UPDATE snapshot_parts SET data = zeroblob(50) WHERE part = 2")
    apart["b"].restart()
    apart.link("b", "a")
    parts = count_parts(apart)
    apart.run(1)
    agree(apart, "a", "b")
    assert parts[0] == 0


def test_a_restarted_giver_starts_anew(apart, small):
    begun(apart)
    apart["a"].restart()
    apart["a"].agent().set("k/00001", "since")
    apart.link("b", "a")
    parts = count_parts(apart)
    apart.run(1)
    agree(apart, "a", "b")
    assert parts[0] == 0


def test_a_giver_that_is_asked_too_late_starts_anew(apart, small):
    wire, _ = begun(apart)
    wire.close()
    apart.pass_time(snapshot_server.SNAPSHOT_KEEP_S + 1)
    apart["a"].turn()
    assert apart["a"].replica.pins == set()
    apart.link("b", "a")
    apart.run(1)
    agree(apart, "a", "b")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_parts_of_a_giver_that_never_comes_back_do_not_stay(apart, small, is_restarted):
    wire, _ = begun(apart)
    wire.close()
    b = apart["b"]
    b.turn()
    if is_restarted:
        b.restart()
    apart.run(snapshot_client.ORPHAN_S - 1)
    assert len(list(b.store.snapshot_parts(1))) == 4
    apart.run(2)
    assert list(b.store.snapshot_parts(1)) == list(b.store.staged_rows(1)) == []
    apart.link("b", "a")
    apart.run(2)
    agree(apart, "a", "b")


def test_another_peer_is_asked_when_the_first_stays_away(apart, small):
    wire, _ = begun(apart, third=True)
    wire.close()
    fill(apart["c"], 3, "c")
    trim(apart["c"])
    apart.link("b", "c")
    apart.run(2)
    assert len(apart["b"].replica.entries) == 0
    apart.run(snapshot_client.RESUME_WAIT_S)
    agree(apart, "b", "c")


def test_after_a_restart_too_the_first_peer_is_waited_for(apart, small):
    begun(apart, third=True)
    apart["b"].restart()
    trim(apart["c"])
    apart.link("b", "c")
    apart.run(2)
    assert len(apart["b"].replica.entries) == 0
    apart.link("b", "a")
    apart.run(2)
    agree(apart)
    assert [fields["part"] for fields in events(apart["a"], "snapshot_resumed")] == [4]


def test_another_peer_is_asked_when_the_first_says_no_more(apart, small):
    wire, _ = begun(apart, third=True)
    apart.wires.remove(wire)  # nothing comes through any more, and nobody notices, not even by probing
    for link in [link for name in "ab" for link in apart[name].node.sync.links.values()]:
        link.is_given_up = True
    trim(apart["c"])
    apart.link("b", "c")
    apart.run(2)
    assert len(apart["b"].replica.entries) == 0
    apart.run(snapshot_client.PROGRESS_TIMEOUT_S + 2, 0.5)
    assert apart["b"].replica.vector == apart["c"].replica.vector
    assert [refused["reason"] for refused in events(apart["b"], "snapshot_refused")] == ["no part came within 30 s"]


def test_two_offer_and_one_is_taken(apart, small):
    apart.link("a", "c")
    fill(apart["a"], 50)
    apart.run(1)
    trim(apart["a"])
    trim(apart["c"])
    apart.link("b", "a")
    apart.link("b", "c")
    apart.run(3)
    agree(apart)
    assert len(events(apart["b"], "snapshot_taken")) == 1
    apart["a"].agent().set("k", "a")
    apart["c"].agent().set("j", "c")
    apart.run(2)
    agree(apart)


def test_a_failed_commit_drops_what_it_would_have_shown(apart, small):
    a, b = apart["a"], apart["b"]
    fill(a, 35)
    trim(a)
    apart.link("b", "a")
    for _ in range(4):
        for wire in list(apart.wires):
            for end in wire.ends:
                wire.deliver(end)
                end.turn()
    a.agent().write("set", key="lost", value=pack(1))
    for wire in list(apart.wires):
        wire.deliver(a)
        wire.deliver(b)
    a.refuse(NoSpace("full"))
    b.refuse(NoSpace("full"))
    apart.sync()
    apart.link("b", "a")
    apart.run(1)
    agree(apart, "a", "b")
    assert b.agent().get("lost") is None


@pytest.mark.parametrize("error, alarms", [
    (NoSpace("full"), set()), (CrdtSyncError("no table takes it"), {"snapshot_refused"}),
])  # fmt: skip
def test_one_that_cannot_be_stored_is_not_asked_for_again_and_again(apart, small, error, alarms):
    """It was merged in memory, and the commit failed: that may be tried again at once for lack of space alone."""
    a, b = apart["a"], apart["b"]
    fill(a, 35)
    trim(a)
    apart.link("b", "a")
    taker = b.node.sync.snapshot_client
    while not taker._merging:
        for wire in list(apart.wires):
            wire.deliver(a, 1)
            a.turn()
            wire.deliver(b, 1)
            if not taker._merging:
                b.turn()
    b.refuse(error)
    assert b.alarms == alarms
    apart.sync()
    apart.link("b", "a")
    apart.run(1)
    assert (len(b.replica.entries) == len(a.replica.entries)) is not bool(alarms)
    apart.run(snapshot_client.REFUSED_S)
    apart.link("b", "a")
    apart.run(1)
    agree(apart, "a", "b")
    assert b.alarms == set()


def test_a_small_snapshot_is_written_once(apart, monkeypatch):
    """In one commit, which has nothing in it but what a journal takes: no part of it was on disk before."""
    monkeypatch.setattr(snapshot, "PART_ENTRIES_MAX", 10)
    a, b = apart["a"], apart["b"]
    fill(a, 95)
    trim(a)
    commits = []
    commit = b.store.commit

    def noted(batch):
        commits.append(batch)
        commit(batch)

    monkeypatch.setattr(b.store, "commit", noted)
    apart.link("b", "a")
    apart.run(1)
    agree(apart, "a", "b")
    (whole,) = [batch for batch in commits if batch.entries or batch.snapshot_parts]
    assert len(whole.entries) == 95
    assert not (whole.snapshot_parts)
    assert not (whole.snapshot_drops)
    assert not (whole.adoptions)
    assert not (whole.staged_drops)


def test_parts_go_to_disk_from_a_bound_on(apart, small, monkeypatch):
    """Those before it with them, in order; then a restart goes on with the next one."""
    b = apart["b"]
    wire, _ = begun(apart, parts=4)
    monkeypatch.setattr(staging, "HELD_BYTES_MAX", 10**6)
    b.turn()
    assert [row.part for row in b.store.snapshot_parts(1)] == [0, 1, 2, 3], "a bound of 0: at once"
    wire.close()
    b.restart()
    taker = b.node.sync.snapshot_client
    assert taker.receipts["default"].taking.parts == 4
    apart.link("b", "a")
    apart.run(1)
    agree(apart, "a", "b")
    (resumed,) = events(apart["a"], "snapshot_resumed")
    assert resumed["part"] == 4


@pytest.mark.parametrize("free_bytes,is_taken", [(40_000, False), (200_000, True)])
def test_a_snapshot_takes_no_more_memory_than_is_left_free(apart, small, free_bytes, is_taken):
    b = apart["b"]
    fill(apart["a"], 95)
    trim(apart["a"])
    b.step(Room(free_bytes))
    apart.link("b", "a")
    apart.run(2)
    assert (len(b.replica.entries) == 95) is is_taken
    assert ("snapshot_refused" in b.alarms) is not is_taken
    b.step(Room(10**9))
    apart.run(snapshot_client.REFUSED_S + 2)
    agree(apart, "a", "b")


def test_what_was_staged_is_dropped_where_there_is_no_memory_to_read_it_back(apart, small):
    begun(apart)
    taker = apart["b"].node.sync.snapshot_client
    taker.room_bytes = 1000
    taker.reload(0.0)
    assert taker.receipts == {}
    apart["b"].turn()
    assert list(apart["b"].store.snapshot_parts(1)) == list(apart["b"].store.staged_rows(1)) == []


def test_what_is_in_memory_alone_is_gone_on_with_after_a_cut_and_comes_anew_after_a_restart(apart, small, monkeypatch):
    monkeypatch.setattr(staging, "HELD_BYTES_MAX", 10**6)
    b = apart["b"]
    wire, _ = begun(apart, parts=4)
    assert list(b.store.snapshot_parts(1)) == []
    wire.close()
    wire = apart.link("b", "a")
    while not events(apart["a"], "snapshot_resumed"):
        for end in wire.ends:
            wire.deliver(end, 1)
            end.turn()
    assert events(apart["a"], "snapshot_resumed")[0]["part"] == 4
    b.restart()
    assert b.replica.vector == {}, "nothing of it shows"
    apart.link("b", "a")
    apart.run(1)
    agree(apart, "a", "b")


def test_a_small_one_that_cannot_be_stored_is_refused_for_a_while(apart):
    """None of its parts was on disk, so it is the vector that tells that it has not come."""
    a, b = apart["a"], apart["b"]
    fill(a, 5)
    trim(a)
    wire = apart.link("b", "a")
    taker = b.node.sync.snapshot_client
    while not taker._merging:
        for end in wire.ends:
            wire.deliver(end, 1)
            if not taker._merging:
                end.turn()
    b.refuse(CrdtSyncError("no table takes it"))
    assert b.alarms == {"snapshot_refused"}
    apart.link("b", "a")
    apart.run(snapshot_client.REFUSED_S + 1)
    agree(apart, "a", "b")
    b.refuse(CrdtSyncError("something else"))
    assert b.alarms == set(), "what was merged before has come to the disk"


@pytest.mark.parametrize("when", ["before", "during"])
def test_no_room_on_disk(apart, small, when):
    b = apart["b"]
    if when == "before":
        b.step(DiskSpace("full"))
        fill(apart["a"], 95)
        trim(apart["a"])
        apart.link("b", "a")
    else:
        begun(apart)
        b.step(DiskSpace("full"))
    apart.run(2)
    assert len(b.replica.entries) == 0
    b.step(DiskSpace(""))
    apart.run(2)
    agree(apart, "a", "b")
