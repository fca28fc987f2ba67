"""Hosts become one cluster by the commands of the documentation, and stay one."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, time
from typing import Any

import pytest

from crdtsync import AsyncClient
from crdtsync.errors import NotAllowed, Refused, Timeout
from tests.harness.cluster import Cluster, wait_until, wait_until_equal, wait_until_held
from tests.harness.daemon import CHANGED, HOST, PROGRAM, Daemon
from tests.harness.shell import command

pytestmark = pytest.mark.integration


class Hosts:
    """Daemons that speak TLS. All listen on loopback, so invites are ``--local``."""

    def __init__(self) -> None:
        self.made: list[Daemon] = []

    def start(self, name: str, *, listens: bool = True, **settings: Any) -> Daemon:
        if not listens:
            settings["listen"] = []
        daemon = Daemon(name, insecure_loopback=False, **settings)
        self.made.append(daemon)
        return daemon

    def cluster(self, *names: str, **settings: Any) -> list[Daemon]:
        """The first begins a cluster, the others join it; returns when all see each other."""
        daemons = [self.start(name, **settings) for name in names]
        run(daemons[0], "cluster", "init")
        for daemon in daemons[1:]:
            run(daemon, "cluster", "join", invite(daemons[0]))
        wait_connected(daemons)
        return daemons


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    found = Hosts()
    try:
        yield found
    finally:
        for daemon in found.made:
            daemon.close()


def run(daemon: Daemon, *words: str, status: int = 0, stdin: str = "") -> str:
    """A command line; what it prints."""
    done = command("--socket", str(daemon.socket), *words, given=stdin)
    assert done.status == status, done.err
    return (done.out if status == 0 else done.err).strip()


def invite(daemon: Daemon, *options: str) -> str:
    return run(daemon, "cluster", "invite", "--local", *options)


def wait_connected(daemons: list[Daemon], timeout_s: float = 60.0) -> None:
    for one in daemons:
        for other in daemons:
            if one is not other:
                wait_until(lambda a=one, b=other: is_connected(a, b), timeout_s, f"{one.name} sees {other.name}")  # type: ignore[misc]


def is_connected(one: Daemon, other: Daemon) -> bool:
    peer = one.peer(other.name)
    return peer is not None and peer["state"] == "connected"


def members(daemon: Daemon) -> dict[str, str]:
    lines = run(daemon, "cluster", "members", "--json").splitlines()
    return {member["name"]: member["state"] for member in map(json.loads, lines)}


def member(daemon: Daemon, name: str) -> dict[str, Any]:
    """One of them, as its daemon tells of it; they come in the order of their ids, which are random."""
    (found,) = [each for each in daemon.client().cluster_members()["members"] if each["name"] == name]
    return found


def test_three_hosts_become_one_cluster_by_three_commands(hosts: Hosts) -> None:
    a, b, c = hosts.start("host-a"), hosts.start("host-b"), hosts.start("host-c", listens=False)
    cluster = run(a, "cluster", "init")
    assert run(a, "cluster", "init") == cluster
    assert run(b, "cluster", "join", invite(a)) == f"joined {cluster}, 2 members"
    run(c, "cluster", "join", "-", stdin=invite(b, "--ttl", "10m") + "\n")  # any member can invite
    wait_connected([a, b, c])
    assert set(members(c).values()) == {"self", "connected"}
    a.client().set("plan", "ship")
    token = b.client().set("plan/b", 1, w="all")
    assert c.client().get("plan/b", after=token) == 1
    wait_until_equal([a, b, c])
    for daemon in (a, b, c):
        daemon.kill()
        daemon.start()
    wait_connected([a, b, c])
    assert c.client().get("plan") == "ship"


def test_a_removed_member_is_cut_at_once_and_refused_from_then_on(hosts: Hosts) -> None:
    a, b, c = hosts.cluster("host-a", "host-b", "host-c")
    run(a, "cluster", "remove", "host-c")
    began = monotonic()
    wait_until(lambda: not is_connected(a, c) and not is_connected(b, c), what="host-c is cut off on both")
    assert monotonic() - began < 15, "it is promised within a second; who is only silent is cut after 20"
    assert members(b) == {"host-a": "connected", "host-b": "self", "host-c": "removed"}
    a.client().set("secret", 1, w="all")  # all that are left
    mark = len(b.log_lines())
    c.kill()
    c.start()
    c.client().set("from/c", 1)
    assert "host-c was removed" in c.wait_log(lambda event: "was removed" in str(event.get("message")))["message"]
    with pytest.raises(Refused, match="was removed"):
        c.client().cluster_init()
    with pytest.raises(Refused, match="was removed"):
        c.client().cluster_join(invite(a), archive=True)
    assert c.client().get("secret") is None
    assert not [event for event in b.log_events("peer_up")[mark:] if event["peer"] == "host-c"]
    assert a.client().get("from/c") is None


def test_a_removed_member_is_gone_from_every_screen_of_all_others_for_good(hosts: Hosts) -> None:
    """At once, also where it was away, and after a restart; its name stays where it has written."""
    a, b, c = hosts.cluster("host-a", "host-b", "host-c")
    c.client().set("from/c", 1, w="all")
    gone = c.status()["node"]["id"]
    c.kill()
    wait_until(lambda: not is_connected(a, c) and not is_connected(b, c))
    assert f'node="{gone}"' in a.client().metrics()
    run(a, "cluster", "remove", "host-c")
    wait_until(lambda: members(b).get("host-c") == "removed")
    for daemon in (a, b):
        wait_until(lambda daemon=daemon: len(daemon.status()["peers"]) == 1)  # type: ignore[misc]
    for again in (False, True):
        for daemon in (a, b):
            if again:
                daemon.stop()
                daemon.start()
            shown = [run(daemon, command) for command in ("peers", "status", "doctor", "top", "metrics")]
            assert [text for text in shown if "host-c" in text or gone[:12] in text] == []
            explained = json.loads(run(daemon, "explain", "from/c", "--json"))
            assert [value["not_held_by"] for value in explained["values"]] == [[]]
            assert explained["values"][0]["node"] == "host-c"


def test_a_node_that_is_no_member_is_forgotten_by_a_command(pair: Cluster) -> None:
    """Without a cluster every node that was ever met is listed, until somebody says that it is gone."""
    here, there = pair
    wait_until(lambda: is_connected(here, there))
    assert "is connected" in run(here, "peers", "--forget", there.name, status=4)
    assert "knows no 'nobody'" in run(here, "peers", "--forget", "nobody", status=4)
    gone = there.status()["node"]["id"]
    there.kill()
    wait_until(lambda: not is_connected(here, there))
    with pytest.raises(Timeout):
        here.client().set("key", 1, w="all", timeout=0.2)
    assert run(here, "peers", "--forget", gone[:8]) == f"forgot {there.name} ({gone[:12]})"
    for _ in range(2):
        with pytest.raises(Timeout, match="1 never met"):  # its address is in the settings, so whoever is there counts
            here.client().set("key", 1, w="all", timeout=0.2)
        here.stop()
        here.start()
        assert here.peer(there.name) is None


def test_write_concerns_count_members_whether_they_are_there_or_not(hosts: Hosts) -> None:
    a, b, c = hosts.cluster("host-a", "host-b", "host-c")
    b.kill()
    a.client().set("k", 1, w="majority")
    with pytest.raises(Timeout) as timeout:
        a.client().set("k", 2, w="all", timeout=0.5)
    assert timeout.value.token is not None
    wait_until_held(a.client(), timeout.value.token, "host-a", "host-c")
    run(c, "cluster", "remove", "host-b")
    wait_until(lambda: "host-b" not in members(a) or members(a)["host-b"] == "removed")
    a.client().set("k", 3, w="all")
    b.start()  # it was away, and nobody tells it anything but that it was removed
    wait_until(lambda: "removed" in b.alarms(), what="host-b hears of its removal")
    with pytest.raises(Refused, match="host-b was removed from this cluster by host-c on 20"):
        b.client().cluster_invite(local=True)
    with pytest.raises(Refused, match="host-b was removed"):
        b.client().cluster_join(invite(a))
    with pytest.raises(Refused, match="host-b was removed"):
        b.client().cluster_remove("host-c")
    assert {peer["state"] for peer in b.status()["peers"]} == {"refused"}


def test_a_member_that_was_never_met_counts_too(hosts: Hosts) -> None:
    a, b = hosts.cluster("host-a", "host-b")
    c = hosts.start("host-c", listens=False)
    word = invite(b)
    a.kill()
    run(c, "cluster", "join", word)
    c.client().set("k", 1, w=2)
    with pytest.raises(Timeout):
        c.client().set("k", 2, w="all", timeout=0.5)


def test_who_only_dials_reaches_the_others_through_one_that_listens(hosts: Hosts) -> None:
    hub = hosts.start("hub")
    run(hub, "cluster", "init")
    left, right = hosts.start("left", listens=False), hosts.start("right", listens=False)
    for daemon in (left, right):
        run(daemon, "cluster", "join", invite(hub))
        wait_connected([hub, daemon])
    token = left.client().set("over", "there", w=2)
    assert right.client().get("over", after=token) == "there"
    assert not is_connected(left, right)


def test_a_changed_address_heals_by_itself(hosts: Hosts) -> None:
    a, b = hosts.cluster("host-a", "host-b")
    b.stop()
    moved = Daemon("unused", start=False)  # for a free port
    b.start(listen=[moved.address])
    wait_connected([a, b])
    found = wait_until(lambda: [m for m in a.client().cluster_members()["members"] if moved.address in m["addresses"]])
    assert found[0]["name"] == "host-b"
    b.kill()
    a.kill()
    a.start(peers=[])
    b.start()
    wait_connected([a, b])


def test_both_sides_dial_and_one_connection_stays(hosts: Hosts) -> None:
    a, b = hosts.cluster("host-a", "host-b")
    for _ in range(3):
        marks = {daemon: len(daemon.log_lines()) for daemon in (a, b)}
        for daemon in (a, b):
            daemon.kill()
        for daemon in (a, b):
            daemon.start(wait=False)
        for daemon, mark in marks.items():
            daemon.wait_ready(after=mark)
        wait_connected([a, b])
        a.client().set("k", 1, w=2)
    assert "copied_node" not in a.alarms() + b.alarms()
    directions = {peer["direction"] for daemon in (a, b) for peer in daemon.status()["peers"] if peer["id"]}
    assert directions == {"in", "out"}


def test_a_key_is_changed_without_a_gap(hosts: Hosts) -> None:
    a, b, c = hosts.cluster("host-a", "host-b", "host-c")
    before = (b.data / "node.key").read_bytes()
    c.kill()  # it knows the old key alone, so that one stays in use
    assert "host-c" in run(b, "cluster", "rotate-key")
    b.kill()
    b.start()
    wait_connected([a, b])
    assert (b.data / "node.key").read_bytes() == before
    c.start()
    b.wait_log("key_changed", 30)
    assert (b.data / "node.key").read_bytes() != before
    for daemon in (a, b, c):
        daemon.kill()
        daemon.start()
    wait_connected([a, b, c])
    assert [len(member["pins"]) for member in a.client().cluster_members()["members"]] == [1, 1, 1]
    b.client().set("k", 1, w="all")
    c.kill()  # once more, without waiting for it
    assert "host-c" in run(b, "cluster", "rotate-key")
    second = (b.data / "node.key").read_bytes()
    run(b, "cluster", "rotate-key", "--finish")
    assert (b.data / "node.key").read_bytes() != second
    c.start()  # it knows a key of host-b that is worth nothing, and hears of the new one from host-a
    wait_connected([a, b, c], 30)
    assert re.search(r"certificate valid until 20\d\d-", run(c, "status"))
    c.client().set("k", 2, w="all")

    # Its database is lost: with the changed key it comes back as the node that it was.
    node = b.status()["node"]["id"]
    b.kill()
    for path in b.data.glob("crdtsync.db*"):
        path.unlink()
    b.start()
    run(b, "cluster", "join", invite(a))
    wait_connected([a, b, c])
    assert b.status()["node"]["id"] == node
    b.client().set("k", 2, w="all")


# -- what a node brings along -----------------------------------------------------------------------------------------


def test_a_node_that_holds_data_joins_only_if_told_what_to_do_with_it(hosts: Hosts) -> None:
    a, b = hosts.start("host-a"), hosts.start("host-b")
    run(a, "cluster", "init")
    a.client().set("shared", "a")
    client = b.client()
    client.set("shared", "b")
    client.incr("count", 3)
    word = invite(a)
    assert "--archive" in run(b, "cluster", "join", word, status=4)
    answer = json.loads(run(b, "cluster", "join", word, "--archive", "--json"))
    wait_connected([a, b])
    wait_until_equal([a, b])
    assert b.client().items() == [("shared", "a")] or dict(b.client().items()) == {"shared": "a"}
    assert (Path(answer["archive"]) / "crdtsync.db").exists()


def test_merging_keeps_what_both_held(hosts: Hosts) -> None:
    a, b = hosts.start("host-a"), hosts.start("host-b")
    run(a, "cluster", "init")
    a.client().set("shared", "a")
    a.client().incr("count", 2)
    b.client().set("shared", "b")
    b.client().incr("count", 3)
    b.client().append("log", "from b")
    run(b, "cluster", "join", invite(a), "--merge")
    wait_connected([a, b])
    wait_until_equal([a, b])
    for daemon in (a, b):
        client = daemon.client()
        entry = client.entry("shared")
        assert entry is not None
        assert {entry.value, *(sibling.value for sibling in entry.siblings)} == {"a", "b"}
        assert client.get("count") == 5
        assert client.log("log") == ["from b"]


def test_what_does_not_come_along_is_told_and_a_refusal_leaves_no_copy(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    a, b = hosts.start("host-a"), hosts.start("host-b")
    run(a, "cluster", "init")
    b.client().set("secret", 1)
    run(b, "space", "create", "team")
    run(b, "--space", "team", "set", "plan", "1")
    used = invite(a)
    run(hosts.start("host-c", listens=False), "cluster", "join", used)
    assert "used already" in run(b, "cluster", "join", used, "--merge", status=4)
    assert not list(tmp_path.glob("crdtsync-merge-*"))
    assert b.client().get("secret") == 1
    told = run(b, "cluster", "join", invite(a), "--merge", status=4)
    assert "access rules" in told
    assert "not all came along" in told
    assert [path.name for path in tmp_path.glob("crdtsync-merge-*/*")] == ["team.ndjson"]
    assert str(next(tmp_path.glob("crdtsync-merge-*/*"))) in told
    assert b.client().get("secret") == 1


def test_a_member_does_not_wander_off_to_another_cluster(hosts: Hosts) -> None:
    _, b = hosts.cluster("host-a", "host-b")
    other = hosts.start("other")
    run(other, "cluster", "init")
    assert "host-a" in run(b, "cluster", "join", invite(other), status=4)
    run(b, "cluster", "join", invite(other), "--archive")
    wait_connected([other, b])


def test_a_node_in_no_cluster_is_told_how_to_get_to_the_peer_it_was_given(hosts: Hosts) -> None:
    (a,) = hosts.cluster("host-a")
    alone = hosts.start("alone", listens=False, peers=[a.address])
    wait_until(lambda: any("cluster join" in peer["last_error"] for peer in alone.status()["peers"]))
    assert "ended the connection in the TLS handshake" in run(alone, "peers")


def test_joining_again_changes_nothing(hosts: Hosts) -> None:
    a, b = hosts.cluster("host-a", "host-b")
    b.client().set("k", 1, w=2)
    run(b, "cluster", "join", invite(a))
    assert b.client().get("k") == 1
    assert is_connected(a, b)


def test_a_daemon_joins_at_its_start_and_stays_at_the_next(hosts: Hosts) -> None:
    a = hosts.start("host-a")
    run(a, "cluster", "init")
    word = invite(a)
    a.kill()  # it is not there yet
    b = hosts.start("host-b", join=word)
    assert "cannot be reached" in str(b.wait_log("alarm")["message"])
    b.client().set("own", 1)  # and meanwhile an agent writes
    a.start()
    wait_until(lambda: "holds data already" in str(b.status()["alarms"]), what="host-b says why it has not joined")
    b.kill()
    b.start(join_data="merge")
    b.wait_log("joined", 40)
    wait_connected([a, b])
    assert a.client().get("own", after=b.client().set("since", 1)) == 1
    assert wait_until(lambda: "not_joined" not in b.alarms())
    b.client().set("k", 1, w=2)
    b.kill()
    b.start()
    wait_connected([a, b])
    assert b.client().get("k") == 1


def test_who_came_back_after_its_certificate_had_expired_joins_again_and_changes_its_key(hosts: Hosts) -> None:
    a = hosts.start("host-a")
    run(a, "cluster", "init")
    b = hosts.start(
        "host-b",
        program=f"{CHANGED}\nfrom crdtsyncd.security import node_key\nnode_key.VALID_DAYS = -1\n{PROGRAM}",
    )
    run(b, "cluster", "join", invite(a))
    b.client().append("log", "own")
    b.kill()
    b.program, node, old = PROGRAM, member(a, "host-b"), (b.data / "node.key").read_bytes()
    b.start()
    assert "has expired" in next(alarm["message"] for alarm in b.status()["alarms"])
    assert "kept" in run(b, "cluster", "join", invite(a))
    wait_connected([a, b])
    b.wait_log("key_changed", 30)
    wait_until(lambda: not b.alarms())
    b.client().append("log", "again", w=2)
    assert a.client().log("log") == ["own", "again"]
    assert b.status()["node"]["certificate_expires"] > 1000 * (time() + 365 * 24 * 3600)
    wait_until(lambda: len(member(a, "host-b")["pins"]) == 1)
    renewed = member(a, "host-b")
    assert renewed["id"] == node["id"]
    assert renewed["pins"] != node["pins"]
    assert (b.data / "node.key").read_bytes() != old


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_an_invite_that_nobody_could_use_is_not_given(hosts: Hosts) -> None:
    a = hosts.start("host-a", listens=False)
    assert "cluster init" in run(a, "cluster", "invite", status=4)
    run(a, "cluster", "init")
    assert "does not listen" in run(a, "cluster", "invite", status=4)
    assert "does not listen" in run(a, "cluster", "invite", "--address", "host-a.example:7420", status=4)
    run(a, "cluster", "init", "--listen", "127.0.0.1:0")
    assert "loopback only" in run(a, "cluster", "invite", status=4)
    invite(a)
    run(a, "cluster", "invite", "--address", "host-a.example:7420")
    assert "not HOST:PORT" in run(a, "cluster", "invite", "--address", "nonsense", status=4)
    assert "--local" in run(a, "cluster", "invite", "--address", "localhost:7420", status=4)


def test_where_it_listens_is_kept_over_restarts(hosts: Hosts) -> None:
    a = hosts.start("host-a", listens=False)
    spare = Daemon("unused", start=False)
    run(a, "cluster", "init", "--listen", spare.address)
    a.kill()
    often = "from crdtsyncd.cluster import cluster_runtime\ncluster_runtime.REACH_INTERVAL_S = 1"
    a.program = f"{CHANGED}\n{often}\n{PROGRAM}"
    with socket.create_server((HOST, spare.port)):
        a.start()
        wait_until(lambda: "not_listening" in a.alarms(), what="it says so, and serves")
    wait_until(lambda: "not_listening" not in a.alarms(), what="the port that is free now is listened on")
    b = hosts.start("host-b", listens=False)
    run(b, "cluster", "join", invite(a))
    wait_connected([a, b])


def test_in_plain_text_there_is_no_cluster() -> None:
    with Daemon("plain") as daemon:
        assert "insecure-loopback" in run(daemon, "cluster", "init", status=4)


@pytest.mark.parametrize("way", ["--merge", "--archive"])
def test_what_names_no_cluster_becomes_one(hosts: Hosts, way: str) -> None:
    """Data of 0.1.0, and that of --insecure-loopback since: the same changes, which bear no cluster's id."""
    a = Daemon("host-a")
    hosts.made.append(a)
    a.client().set("plan/goal", "ship")
    a.client().incr("count", 41)
    a.client().text("notes").set("first")
    a.stop()
    a.settings["insecure_loopback"] = False
    a.start()
    said = run(a, "cluster", "init", status=4)
    assert "0.1.0" in said
    assert "--merge" in said
    run(a, "cluster", "init", way, "--json")
    assert members(a) == {"host-a": "self"}
    b = hosts.start("host-b")
    run(b, "cluster", "join", invite(a))
    wait_connected([a, b])
    there = b.client()
    if way == "--archive":
        assert there.keys() == []
    else:
        wait_until(lambda: there.get("count") == 41 and there.get("plan/goal") == "ship")
        assert there.text("notes").read() == "first"
    assert list((a.data / "archive").iterdir())
    assert run(a, "cluster", "init", way) == run(a, "cluster", "init"), "done again, it changes nothing"


def test_a_port_that_is_taken_is_refused_in_words(hosts: Hosts) -> None:
    a, b = hosts.start("host-a"), hosts.start("host-b", listens=False)
    assert "in use" in run(b, "cluster", "init", "--listen", a.address, status=4)


def test_whom_to_remove_must_be_clear(hosts: Hosts) -> None:
    a, _ = hosts.cluster("host-a", "host-b")
    assert "host-b" in run(a, "cluster", "remove", "nobody", status=4)
    assert "another member" in run(a, "cluster", "remove", "host-a", status=4)


async def test_the_asyncio_client_does_all_of_it_and_an_agents_key_is_good_on_every_host(hosts: Hosts) -> None:
    a, b = hosts.start("host-a"), hosts.start("host-b")
    async with AsyncClient(a.socket, agent="one") as one:
        cluster = (await one.cluster_init())["cluster"]
        word = (await one.cluster_invite(ttl=600, uses=1, local=True))["invite"]
        async with AsyncClient(b.socket, agent="other") as other:
            assert (await other.cluster_join(word))["cluster"] == cluster
        async with AsyncClient(b.socket, agent="other") as other:
            await asyncio.to_thread(wait_connected, [a, b])
            assert {member["name"] for member in (await other.cluster_members())["members"]} == {"host-a", "host-b"}
            assert (await other.cluster_rotate_key())["keys"]
            await asyncio.to_thread(b.wait_log, "key_changed", 30)
            await asyncio.to_thread(wait_connected, [a, b])
            key = (await one.agent_create("critic"))["key"]
            granted = await one.access_grant("agent:critic", "read", "plan/**")
            await other.wait(granted["token"])
            async with AsyncClient(b.socket, agent_key=key) as critic:
                assert await critic.get("plan/goal") is None
                with pytest.raises(NotAllowed):
                    await critic.get("other")
                watch = critic.watch("plan/")
                assert (await anext(watch)).key is None
                await one.access_revoke("agent:critic", "plan/**")
                with pytest.raises(NotAllowed, match="may no longer read"):
                    await asyncio.wait_for(anext(watch), 20)
            assert (await one.cluster_remove("host-b"))["members"] == 1
