"""A key is explained: what is there, how it came, who removed it, and what may be missing here."""

# Writers are plain numbers here.
# mypy: disable-error-code="arg-type,dict-item,union-attr"

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.causality import Writer
from crdtsync.core.access.agent import User
from crdtsync.core.alarm_catalogue import EDIT_SKIPPED, QUARANTINED
from crdtsync.core.alarms import ALARM_KEYS_MAX
from crdtsync.core.cluster.admission import Reach
from crdtsync.core.diagnostics.remote_lag import FAR_WAIT_S
from crdtsync.core.history import arrival_log
from crdtsync.core.history.arrival_log import Arrivals
from crdtsync.core.interface import DiskSpace
from crdtsync.core.peers.liveness import PROBE_INTERVAL_S
from crdtsync.core.peers.peer_state import Peer
from crdtsync.wire.change import Dep
from crdtsync.wire.peer.changes import Ack, Changes, SpaceAck
from crdtsync.wire.peer.probes import PROBES, Probed
from tests.fleet.agent import Refusal
from tests.fleet.clock import START_MS
from tests.fleet.fleet import Fleet
from tests.fleet.host import Host
from tests.fleet.stranger import Stranger
from tests.unit.core.sync.test_sync import chain, change_of


def explained(machine: Host, key: str = "k", **args: Any) -> dict[str, Any]:
    session = machine.agent("asker")
    request = session.send("explain", key=key, **args)
    machine.turn()
    if request not in session.replies:
        machine.fleet.run(FAR_WAIT_S)  # nodes that are reached over others are asked first
    found: dict[str, Any] = session.result(request)
    return found


def codes(machine: Host, key: str = "k", **args: Any) -> list[str]:
    return [reason["code"] for reason in explained(machine, key, **args)["reasons"]]


def reason(machine: Host, code: str, key: str = "k") -> dict[str, Any]:
    (found,) = [one for one in explained(machine, key)["reasons"] if one["code"] == code]
    return dict(found)


def part(fleet: Fleet, name: str) -> None:
    for wire in [wire for wire in fleet.wires if fleet[name] in wire.ends]:
        wire.close()
    fleet.sync()


# -- what is there ---------------------------------------------------------------------------------------------------


def test_a_value_says_who_wrote_it_over_which_peer_it_came_and_who_has_it(trio):
    ann = trio["a"].agent("ann")
    ann.set("k", 1)
    trio.run(1)
    here, there = explained(trio["a"]), explained(trio["b"])
    assert (here["state"], here["values"][0]["came"], here["reasons"]) == ("present", "made_here", [])
    (value,) = there["values"]
    assert (value["agent"], value["node"], value["over"], value["came"]) == ("ann", "a", "a", "change")
    assert value["received"] == pytest.approx(trio.now.wall_ms, abs=2000)
    assert (value["held_by"], value["not_held_by"]) == (["a", "c"], [])
    assert "ann@a wrote it, and it came over a" in there["summary"]


def test_along_a_chain_the_peer_is_named_that_brought_it(apart):
    apart.link("a", "b")
    apart.link("b", "c")
    apart["a"].agent("ann").set("k", 1)
    apart.run(1)
    (value,) = explained(apart["c"])["values"]
    assert (value["node"], value["over"]) == ("a", "b")
    apart["a"].node.sync.peers[apart["c"].node.identity.node] = Peer(apart["c"].node.identity.node, "c")
    assert explained(apart["a"])["reasons"] == []  # c is reached over b, and nobody has asked it


def test_what_came_in_a_snapshot_says_so(apart, monkeypatch):
    ann = apart["a"].agent("ann")
    for n in range(3):
        ann.set("k", n)
    apart["a"].replica.floor = dict(apart["a"].replica.vector)  # the log reaches back no further
    apart.link("a", "b")
    apart.run(1)
    (value,) = explained(apart["b"])["values"]
    assert (value["came"], value["over"]) == ("snapshot", "a")


def test_after_a_restart_nothing_is_made_up(pair):
    pair["a"].agent().set("k", 1)
    pair.run(1)
    pair["b"].restart()
    (value,) = explained(pair["b"])["values"]
    assert (value["came"], value["over"], value["received"]) == ("earlier", None, None)


def test_a_conflict_names_policy_and_the_schema_that_it_is_from(apart):
    apart["a"].agent().do("schema_set", pattern="k", policy="max")
    apart["a"].agent("ann").set("k", 1)
    apart["b"].agent("bob").set("k", 2)
    apart.link("a", "b")
    apart.run(1)
    found = explained(apart["a"])
    assert (found["state"], found["values_total"]) == ("conflict", 2)
    assert (found["policy"]["name"], found["policy"]["pattern"]) == ("max", "k")
    assert [(value["agent"], value["first"]) for value in found["values"]] == [("bob", True), ("ann", False)]


# -- what is gone ----------------------------------------------------------------------------------------------------


def test_a_deleted_key_says_who_deleted_it_and_what_was_there(pair):
    pair["a"].agent("ann").set("k", 1)
    pair.run(1)
    pair["b"].agent("bob").delete("k")
    pair.run(1)
    found = explained(pair["a"])
    assert (found["state"], found["summary"]) == ("deleted", "bob@b deleted it")
    removed = found["removed"]
    assert (removed["written"]["agent"], removed["by"]["agent"], removed["by"]["over"]) == ("ann", "bob", "b")


def test_an_expired_key_says_so_before_and_after_it_is_removed(pair):
    pair["a"].agent("ann").set("k", 1, ttl=500)
    pair.sync()
    part(pair, "a")
    pair.run(1)
    assert explained(pair["b"])["state"] == "expired"  # hidden: its own node is to remove it
    assert "time to live" in explained(pair["a"])["summary"]
    assert explained(pair["a"])["state"] == "expired"  # removed


def test_a_key_never_written(node):
    found = explained(node)
    assert (found["state"], found["values"], codes(node)) == ("never", [], ["alone"])


# -- what it waits for -----------------------------------------------------------------------------------------------


def test_a_change_that_waits_for_the_one_before_it(pair):
    second = chain(77, 2)[1]
    stranger = Stranger(pair["a"])
    stranger.send(second)
    found = reason(pair["a"], "gap")
    assert found["waits_for"] == {"writer": 77, "seq": 1, "node": "a node not heard of here"}
    assert (found["over"], "1 of" in found["message"]) == ("stranger", True)
    assert codes(pair["a"], "another") == []  # of other keys nothing waits


def test_a_change_that_waits_for_what_its_author_had_seen(pair):
    first = change_of(55, 1, key="other")
    later = change_of(77, 1, deps=(Dep(Writer(55), 1, first.short_hash),))
    stranger = Stranger(pair["a"])
    stranger.send(later)
    assert reason(pair["a"], "dependency")["waits_for"]["writer"] == 55
    assert "no node that this one has met is known to have it" in reason(pair["a"], "dependency")["message"]
    stranger.say(Ack(0, [SpaceAck("default", 0, {55: 1})]))
    assert "stranger has it and is connected" in reason(pair["a"], "dependency")["message"]
    stranger.send(first)
    assert explained(pair["a"])["state"] == "present"


def test_many_that_wait_are_counted(node):
    stranger = Stranger(node)
    stranger.send(*chain(77, 9)[1:])
    found = [one["message"] for one in explained(node)["reasons"] if one["code"] == "gap"]
    assert len(found) == 4
    assert "5 more changes" in found[-1]


def test_a_peer_that_is_cut_off_and_one_that_is_ahead(trio):
    stranger = Stranger(trio["a"])
    stranger.say(Ack(0, [SpaceAck("default", 0, {55: 3})]))
    found = reason(trio["a"], "lag")
    assert (found["changes"], "stranger has 3 changes more" in found["message"]) == (3, True)
    stranger.close("the cable is out")
    gone = reason(trio["a"], "cut")
    assert [node["name"] for node in gone["nodes"]] == ["stranger"]
    assert "the cable is out" in gone["message"]
    assert "not connected" in reason(trio["a"], "lag")["message"]


def test_a_peer_that_falls_silent_is_told_before_it_is_given_up(node):
    stranger = Stranger(node, features=(PROBES,))
    stranger.say(Probed(1, START_MS))
    node.fleet.run(PROBE_INTERVAL_S - 1)
    assert "silent" not in codes(node), "nobody has asked it"
    node.agent().set("k", 1)
    node.fleet.run(1.5)
    assert "silent" not in codes(node), "it may be on its way"
    assert "nothing was heard of stranger for 10 s" in reason(node, "unconfirmed")["message"]
    node.fleet.run(4)
    silent = reason(node, "silent")
    assert "stranger does not answer, and nothing was heard of it for 14 s" in silent["message"]
    assert silent["nodes"] == [{"name": "stranger", "last_seen": node.node.now_ms - 14_500}]
    assert node.wires[stranger.conn] is stranger, "and the connection stands"


def test_a_peer_that_speaks_of_other_things_is_not_silent(node):
    stranger = Stranger(node, features=(PROBES,))
    node.fleet.run(4)
    assert "silent" in codes(node)
    stranger.say(Ack(0, []))
    assert "silent" not in codes(node)


def test_a_node_whose_disk_is_full(pair):
    pair["a"].step(DiskSpace("too little room"))
    assert "too little room" in reason(pair["a"], "no_space")["message"]


def test_after_a_fork_it_says_that_syncing_has_stopped(pair):
    stranger = Stranger(pair["a"])
    stranger.send(change_of(77, 1))
    stranger.say(Changes("default", 0, [change_of(77, 1, value=b"\x02").body]))
    assert {"fork", "stopped"} <= {*codes(pair["a"])}


def test_what_is_set_aside_says_so(pair):
    alarms = pair["a"].node.alarms
    alarms.raise_once(QUARANTINED, "", "2 changes are set aside")
    assert reason(pair["a"], "quarantine")["alarm"] == "quarantined", "of which keys is not known"


def test_what_is_set_aside_of_other_keys_does_not_concern_this_one(pair):
    alarms = pair["a"].node.alarms
    alarms.set(QUARANTINED, "", "a change is set aside", keys=["k", "l"])
    assert [codes(pair["a"], key) for key in ("k", "l", "m")] == [["quarantine"], ["quarantine"], []]
    alarms.raise_once(EDIT_SKIPPED, "default", "skipped an edit of m", keys=["m"])
    alarms.raise_once(EDIT_SKIPPED, "default", "skipped an edit of n", keys=["n"])
    assert [codes(pair["a"], key) for key in ("m", "n", "o")] == [["quarantine"], ["quarantine"], []]
    for number in range(ALARM_KEYS_MAX):
        alarms.raise_once(EDIT_SKIPPED, "default", "and another", keys=[f"x{number}"])
    assert codes(pair["a"], "o") == ["quarantine"], "of too many keys it is not remembered which"


def test_who_has_not_confirmed_the_newest_value(trio):
    part(trio, "c")
    trio["a"].agent().set("k", 1)
    trio.run(1)
    assert explained(trio["a"])["values"][0]["not_held_by"] == ["c"]
    assert "c has not confirmed" in reason(trio["a"], "unconfirmed")["message"]


# -- spaces that are elsewhere ---------------------------------------------------------------------------------------


def test_a_space_that_this_node_does_not_hold(trio):
    trio["a"].agent().ask("space_create", name="team", nodes=["a", "b"])
    trio.run(1)
    found = explained(trio["c"], space="team")
    assert (found["state"], [one["code"] for one in found["reasons"]]) == ("elsewhere", ["space_elsewhere"])
    assert "ask on a, b" in found["reasons"][0]["message"]
    with pytest.raises(Refusal, match="unknown_space: there is no space nowhere"):
        explained(trio["c"], space="nowhere")
    trio["c"].step(Reach(operators=(1000,)))  # who runs the node may know what there is
    found = explained(trio["c"], space="nowhere")
    assert (found["state"], [one["code"] for one in found["reasons"]]) == ("no_space", ["no_space"])


@pytest.mark.parametrize("key", ["", None, "a\n", 5])
def test_what_is_no_key(node, key):
    with pytest.raises(Refusal, match="invalid_request"):
        explained(node, key)


def test_who_may_read_one_key_is_not_told_which_others_an_alarm_names(pair):
    pair["a"].step(Reach(operators=(0,)))
    root = pair["a"].agent("root", user=User(0, (0,), is_local=False))
    key = root.ask("agent_create", name="critic")["key"]
    root.ask("access_grant", who="agent:critic", right="read", pattern="k")
    pair["a"].node.alarms.raise_once(EDIT_SKIPPED, "default", "skipped an edit of the text 'secret'")
    found = pair["a"].agent("critic", key=key).ask("explain", key="k")
    assert [reason["code"] for reason in found["reasons"]] == ["quarantine"]
    assert "secret" not in str(found)
    assert "secret" in str(explained(pair["a"]))
    with pytest.raises(Refusal, match="not_allowed"):
        pair["a"].agent("critic", key=key).ask("explain", key="secret")


# -- arrivals --------------------------------------------------------------------------------------------------------


def test_arrivals_are_kept_as_runs_and_bounded():
    found = Arrivals()
    for seq in range(1, 1001):
        found.note(7, seq, "p" if seq <= 500 else "q", seq)
    assert (found.of(7, 500).node, found.of(7, 501).node, found.of(7, 1001)) == ("p", "q", None)
    for seq in range(2001, 2001 + 2 * arrival_log.RUNS_PER_WRITER_MAX, 2):
        found.note(7, seq, "p", seq)
    assert found.of(7, 500) is None
    found.merged({7: 3000}, {7: 4000, 8: 0}, "s", 9)
    assert found.of(7, 3500).is_snapshot
    assert found.of(8, 1) is None
