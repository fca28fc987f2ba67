"""Write concerns: on how many hosts a write is on disk when the call returns, or who has it if that takes too long."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from crdtsync import Client
from crdtsync.errors import InvalidRequest, Timeout
from crdtsync.wire.limits import KEY_SIBLINGS_MAX
from tests.harness import Cluster, Daemon, wait_until, wait_until_held
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

SHORT_S = 0.5


def test_they_count_nodes_that_have_it_on_disk(cluster: Cluster) -> None:
    state = cluster[0].client()
    for w, nodes in ((1, 1), (2, 2), ("majority", 2), (3, 3), ("all", 3)):
        assert state.set("k", str(w), w=w).nodes >= nodes
    cluster[1].kill()
    cluster[2].kill()
    cluster[0].kill()
    cluster.start()
    assert [daemon.client().get("k") for daemon in cluster] == ["all"] * 3


def test_one_that_is_not_met_names_who_has_it_and_who_has_not(cluster: Cluster) -> None:
    state = cluster[0].client()
    state.set("k", 0, w="all")
    cluster.isolate(2)
    for other in (0, 1):
        cluster.wait_parted(other, 2)
    with pytest.raises(Timeout) as late:
        state.append("log", 1, w="all", timeout=SHORT_S)
    assert late.value.token is not None
    wait_until_held(state, late.value.token, "host-a", "host-b")
    with pytest.raises(Timeout, match=r"2 of the 3 nodes wanted.*not known of: host-c \(not connected\)"):
        state.wait(late.value.token, w="all", timeout=SHORT_S)
    assert state.log("log") == [1], "the write itself is done"
    assert cluster[1].client().log("log", after=late.value.token) == [1]
    cluster.heal()
    assert state.wait(late.value.token, w="all") == 3


def test_a_peer_that_dies_meanwhile_and_comes_back(pair: Cluster) -> None:
    """It answers when the peer is back and has it, not before."""
    state = pair[0].client()
    state.set("k", 0, w=2)
    pair[1].kill()
    answers: list[int] = []
    writer = Thread(target=lambda: answers.append(state.set("k", 1, w=2).nodes))
    writer.start()
    wait_until(lambda: pair[0].client().get("k") == 1, what="it is done here")
    assert answers == []
    pair[1].start()
    writer.join(60)
    assert answers == [2]
    pair[0].kill()
    assert pair[1].client().get("k") == 1


def test_a_peer_that_had_it_and_died_still_counts(cluster: Cluster) -> None:
    """It is on that disk: the peer said so."""
    state = cluster[0].client()
    token = state.set("k", 1, w="all")
    cluster[2].kill()
    assert state.wait(token, w="all") == 3
    with pytest.raises(Timeout) as late:
        state.set("k", 2, w="all", timeout=SHORT_S)
    assert late.value.token is not None
    wait_until_held(state, late.value.token, "host-a", "host-b")
    assert state.set("k", 3, w="majority").nodes == 2


def test_more_nodes_than_are_known_are_refused_at_once(pair: Cluster) -> None:
    # Until its own call has got through, an address may turn out to be a third node.
    wait_until(lambda: len(pair[0].status()["peers"]) == 1)
    state = pair[0].client()
    for act in (
        lambda: state.set("k", 1, w=3),
        lambda: state.wait(state.set("j", 1), w=7),
    ):
        with pytest.raises(InvalidRequest, match=r"this node knows of 2 nodes \(host-a, host-b\); nothing was done"):
            act()
    assert state.get("k") is None


def test_a_host_alone_is_all_there_is(daemon: Daemon) -> None:
    state = daemon.client()
    assert state.set("k", 1, w="all").nodes == 1
    assert state.set("k", 2, w="majority").nodes == 1
    with pytest.raises(InvalidRequest, match="this node knows of 1 node "):
        state.set("k", 3, w=2)
    assert state.get("k") == 2
    with pytest.raises(InvalidRequest, match="w must be a number"):
        daemon.client().set("k", 2, w=True)


def test_a_configured_peer_that_was_never_met_is_waited_for(daemon: Daemon, tmp_path: Path) -> None:
    daemon.stop()
    daemon.start(peers=["ws://127.0.0.1:1"])
    with pytest.raises(Timeout) as late:
        daemon.client().set("k", 1, w=2, timeout=SHORT_S)
    assert late.value.held_by == [daemon.name]
    assert late.value.written == daemon.client().now()


def test_the_command_line_says_the_same(pair: Cluster, tmp_path: Path) -> None:
    shell = Shell(pair[0].socket, tmp_path)
    assert json.loads(shell.ok("set", "k", "1", "-w", "2", "--json", "--timeout", "20s"))["nodes"] == 2
    wait_until(lambda: len(pair[0].status()["peers"]) == 1)
    done = shell("set", "k", "2", "-w", "3")
    assert done.status == 4
    assert "knows of 2 nodes" in done.err
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    done = shell("incr", "n", "-w", "all", "--timeout", "500ms", "--json")
    assert done.status == 5
    error = json.loads(done.err)["error"]
    assert (error["code"], error["held_by"]) == ("timeout", ["host-a"])
    assert shell.ok("get", "n") == "1"
    pair.heal()
    assert shell.ok("wait", error["token"], "-w", "all", "--timeout", "20s") == "2"


def test_a_write_that_too_few_confirmed_is_part_of_its_own_session(pair: Cluster) -> None:
    """One author alone in a partition makes no conflict with itself, and is never refused."""
    state = pair[0].client()
    state.set("k", "first", w=2)
    state.merge("map", {"x": 0, "y": 0})
    assert (state.get("k"), state.get("map"), state.get("gone")) == ("first", {"x": 0, "y": 0}, None)
    pair[1].kill()
    for n in range(KEY_SIBLINGS_MAX + 2):
        with pytest.raises(Timeout) as late:
            state.set("k", n, w=2, timeout=0.05)
        assert late.value.token is not None
        with pytest.raises(Timeout):
            state.merge("map", {"x": n}, w=2, timeout=0.05)
        with pytest.raises(Timeout):
            write_both(state, n)
    last = KEY_SIBLINGS_MAX + 1
    for key, value in (("k", last), ("gone", last), ("map", {"x": last, "y": last})):
        entry = state.entry(key)
        assert entry is not None
        assert (entry.value, entry.siblings) == (value, [])
    with pytest.raises(Timeout):
        state.delete("k", w=2, timeout=0.05)
    state.set("k", "new")
    assert [*state.conflicts()] == []


def write_both(state: Client, n: int) -> None:
    with state.batch(w=2, timeout=0.05) as batch:
        batch.set("gone", n)
        batch.merge("map", {"y": n})


def test_what_another_one_wrote_before_the_time_was_over_stays(pair: Cluster) -> None:
    state, other = pair[0].client(), pair[0].client(agent="other")
    state.set("k", "first", w=2)
    assert state.get("k") == "first"
    pair[1].kill()
    with pytest.raises(Timeout):
        state.set("k", "mine", w=2, timeout=0.05)
    other.set("k", "unseen", seen="?")
    state.set("k", "mine, too")
    entry = state.entry("k")
    assert entry is not None
    assert {entry.value, *(one.value for one in entry.siblings)} == {"mine, too", "unseen"}


def test_a_fresh_node_counts_the_peers_of_its_settings_from_its_first_answer_on(
    make_daemon: Callable[..., Daemon],
) -> None:
    """It serves agents before it dials; nobody answers at that address."""
    daemon = make_daemon("lone", start=False, peers=["ws://127.0.0.1:9"])
    daemon.start(wait=False)
    wait_until(daemon.socket.exists)
    state = daemon.client()
    for w in ("all", 2):
        with pytest.raises(Timeout, match="1 of the 2 nodes wanted"):
            state.set("k", str(w), w=w, timeout=0.05)
    daemon.wait_ready()
