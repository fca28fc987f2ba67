"""Names and addresses of members, removal as the removed node says it, and what the shell tells of all that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crdtsync.core.access.agent import User
from crdtsync.core.alarm_catalogue import NOT_ALL_MERGED, NOT_JOINED
from crdtsync.core.cluster.admission import JOINING_CONNECTIONS_MAX, MEMBERS, REMOVED, Reach
from crdtsync.core.cluster.membership import Member, RemovedMember, written
from crdtsync.core.cluster.node_alarms import EXPIRY_ALARM_MS, Misled
from crdtsync.core.interface import DialState, HostAlarm
from crdtsync.core.peers.peer_state import Peer
from crdtsync.wire.invites import Invite
from crdtsync.wire.limits import CLUSTER_SPACE
from crdtsync.wire.peer.joining import Admitted, Join, NotAdmitted, decode_join_message, proof_of, secret_key
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import fleet_of
from tests.fleet.host import Host

KEY = (("ab" * 32, b"certificate"),)
SECRET = b"s" * 24


@pytest.fixture
def machine() -> Iterator[Host]:
    with fleet_of("a") as fleet:
        one = fleet["a"]
        one.step(Reach(KEY, ("192.0.2.1:7420",), "", operators=(0,)))
        one.node.cluster.put(MEMBERS, one.node.identity.node, Member(one.node.identity.node, "a", KEY))
        one.turn()
        yield one


def root(machine: Host) -> Agent:
    return machine.agent("root", user=User(0, (0,), is_local=False))


def pin(name: str) -> str:
    return name.encode().hex().ljust(64, "0")


def put_member(machine: Host, name: str, node: str, *addresses: str) -> str:
    key = ((pin(node), node.encode()),)
    machine.node.cluster.put(MEMBERS, node, Member(node, name, key, addresses, time_ms=1))
    machine.turn()
    return node


def messages(machine: Host) -> dict[str, str]:
    return {alarm.code: alarm.message for alarm in machine.node.alarms.raised()}


# -- names -------------------------------------------------------------------------------------------------------------


def ask(
    machine: Host, name: str, key: str, invite: bytes = b"i" * 12, certificate: bytes = b""
) -> Admitted | NotAdmitted:
    """A node asks to join by one and the same invite."""
    node, conn = machine.node, 77
    node.fleet.join_opened(conn)
    certificate = certificate or key.encode()
    plain = Join(invite, certificate, name, ())
    bound = node.fleet.bound(conn, plain)
    proven = Join(invite, certificate, name, (), proof_of(secret_key(SECRET), bound), b"signed")
    node.sync.outbox.sends.clear()
    node.fleet.join_asked(conn, proven, pin(key), is_signed=True)
    answer = decode_join_message(node.sync.outbox.sends[-1][1])
    node.fleet.join_closed(conn)
    machine.turn()
    assert isinstance(answer, Admitted | NotAdmitted)
    return answer


def test_a_taken_name_is_refused_and_costs_no_use_of_the_invite(machine: Host):
    machine.node.fleet.invitations.give(b"i" * 12, secret_key(SECRET), 60_000, 1, machine.node.now_ms)
    answer = ask(machine, "a", "one")
    assert isinstance(answer, NotAdmitted)
    assert answer.code == "name_taken"
    assert "--node-name" in answer.reason
    assert isinstance(ask(machine, "b", "one"), Admitted)
    assert isinstance(ask(machine, "b", "one"), Admitted)  # its answer was lost


def test_idle_strangers_keep_nobody_from_joining(machine: Host):
    machine.node.fleet.invitations.give(b"i" * 12, secret_key(SECRET), 60_000, 1, machine.node.now_ms)
    for conn in range(1000, 1000 + 2 * JOINING_CONNECTIONS_MAX):
        machine.node.fleet.join_opened(conn)
    closed = [conn for conn, reason in machine.node.sync.outbox.closes if "this one is slow" in reason]
    assert closed == [*range(1000, 1000 + JOINING_CONNECTIONS_MAX)]
    assert isinstance(ask(machine, "b", "one"), Admitted)


def test_only_who_has_an_invite_learns_which_names_are_taken(machine: Host):
    answer = ask(machine, "a", "one")
    assert isinstance(answer, NotAdmitted)
    assert answer.code == "invite_unknown"


def test_a_name_that_two_came_to_have_is_an_alarm_until_one_is_gone(machine: Host):
    other = put_member(machine, "a", "0123456789abcdef")
    assert "0123456789ab is called a too" in messages(machine)["same_name"]
    machine.node.cluster.put(REMOVED, other, RemovedMember(other, "a", ((pin(other), b"x"),), 1, "a"))
    machine.turn()
    assert "same_name" not in messages(machine)


# -- addresses ---------------------------------------------------------------------------------------------------------


def last_error(machine: Host, node: str) -> tuple[str, str]:
    peer = next(peer for peer in root(machine).ask("status")["peers"] if peer["id"] == node)
    return peer["state"], peer["last_error"]


def test_the_status_says_who_answers_at_the_address_of_another(machine: Host):
    node = put_member(machine, "b", "b" * 16, "192.0.2.1:7420", "192.0.2.9:7420")
    put_member(machine, "c", "c" * 16)
    machine.step(Misled(node, "192.0.2.9:7420", "c" * 16))
    assert last_error(machine, node) == (
        "down", "at 192.0.2.9:7420, which b says is its address, c answers: correct it there",
    )  # fmt: skip
    machine.step(Misled(node, "192.0.2.1:7420", machine.node.identity.node))
    assert "this node itself answers" in last_error(machine, node)[1]
    machine.node.cluster.put(MEMBERS, node, Member(node, "b", ((pin(node), b"x"),), ("192.0.2.9:7420",), time_ms=2))
    machine.turn()
    assert last_error(machine, node)[1] == ""


# -- joining by the settings -------------------------------------------------------------------------------------------


def test_why_a_node_has_not_joined_is_an_alarm_with_the_latest_reason(machine: Host):
    machine.step(HostAlarm(NOT_JOINED, "nobody answers"))
    assert messages(machine)["not_joined"].endswith("nobody answers")
    machine.step(HostAlarm(NOT_JOINED, "the invite has expired"))
    assert messages(machine)["not_joined"].endswith("the invite has expired")
    machine.step(HostAlarm(NOT_ALL_MERGED, "/data/crdtsync-merge-x"))
    assert "/data/crdtsync-merge-x" in messages(machine)["not_all_merged"]
    machine.step(HostAlarm(NOT_JOINED, ""))
    machine.step(HostAlarm(NOT_ALL_MERGED, ""))
    assert messages(machine) == {}


# -- removal -----------------------------------------------------------------------------------------------------------


def test_a_removed_node_says_so_when_it_is_asked_for_an_invite(machine: Host):
    me = machine.node.identity.node
    machine.node.cluster.put(REMOVED, me, RemovedMember(me, "a", KEY, 1_750_000_000_000, "host-b"))
    machine.turn()
    for request in ("cluster_invite", "cluster_rotate_key"):
        with pytest.raises(Refusal) as refusal:
            root(machine).ask(request)
        said = str(refusal.value)
        assert "a was removed from this cluster by host-b on 2025-06-15T15:06:40Z" in said
        assert "move its data directory away" in said


def test_a_node_that_was_away_believes_a_member_that_says_so(machine: Host):
    node = put_member(machine, "b", "b" * 16, "192.0.2.9:7420")
    machine.step(DialState("wss://192.0.2.9:7420", "removed", "a was removed from this cluster by b"))
    assert last_error(machine, node) == ("refused", "a was removed from this cluster by b")
    assert "by b" in messages(machine)["removed"]
    with pytest.raises(Refusal, match="by b"):
        root(machine).ask("cluster_invite")


@pytest.mark.parametrize("time_ms", [0, 10**18])
def test_a_removal_at_no_time_that_can_be_written_out_is_told_without(time_ms: int):
    assert "by host-b: to come back" in RemovedMember("n", "a", KEY, time_ms, "host-b").reason


# -- the start ---------------------------------------------------------------------------------------------------------


def test_what_needs_the_key_is_answered_once_the_start_is_over():
    with fleet_of("a") as fleet:
        one = fleet["a"]
        one.step(Reach(operators=(0,), is_starting=True))
        agent = root(one)
        join, bad = agent.send("cluster_join", invite="x"), agent.send("cluster_invite", uses="many")
        assert agent.ask("status")["node"]["name"] == "a", "all else is not held up"
        assert not agent.replies.keys() & {join, bad}
        one.step(Reach(KEY, ("192.0.2.1:7420",), "", operators=(0,)))
        one.turn()
        with pytest.raises(Refusal, match="invite"):
            agent.result(join)
        with pytest.raises(Refusal, match="whole numbers"):
            agent.result(bad)


# -- clocks ------------------------------------------------------------------------------------------------------------


def test_a_clock_that_was_never_compared_is_not_said_to_be_right():
    with fleet_of("a", "b", linked=False) as fleet:
        fleet["a"].step(Reach(KEY, (), "", operators=(0,)))
        node = put_member(fleet["a"], "unmet", "u" * 16)
        fleet.link("a", "b")
        fleet.sync()
        skews = {peer["name"]: peer["clock_skew_ms"] for peer in root(fleet["a"]).ask("status")["peers"]}
        assert skews == {"b": 0, "unmet": None}
        assert node


# -- certificates ------------------------------------------------------------------------------------------------------


def test_the_alarm_of_a_certificate_says_when_and_later_that_it_is_over(machine: Host):
    expires_ms = machine.node.now_ms + 10_000
    machine.step(Reach(KEY, (), "", expires_ms=expires_ms, operators=(0,)))
    first = messages(machine)["certificate_expires"]
    assert f"expires on {written(expires_ms)}" in first
    machine.step(Reach(KEY, (), "", expires_ms=machine.node.now_ms, operators=(0,)))
    assert "has expired" in messages(machine)["certificate_expires"]
    machine.step(Reach(KEY, (), "", expires_ms=machine.node.now_ms + 2 * EXPIRY_ALARM_MS, operators=(0,)))
    assert messages(machine) == {}


def test_who_joins_again_by_its_key_is_known_by_its_new_certificate(machine: Host):
    machine.node.fleet.invitations.give(b"i" * 12, secret_key(SECRET), 60_000, 2, machine.node.now_ms)
    ask(machine, "b", "one")
    ask(machine, "b", "one", certificate=b"renewed")
    (other,) = machine.node.fleet.others()
    assert other.keys == ((pin("one"), b"renewed"),)


def test_a_new_key_is_used_before_all_know_it_only_if_time_runs_out(machine: Host):
    fleet = machine.node.fleet
    me = machine.node.identity.node
    peers = machine.node.sync.peers
    for name in "bc":
        peers[name * 16] = Peer(put_member(machine, name, name * 16), name)
    next_key = (("cd" * 32, b"next"),)
    far, soon = (machine.node.now_ms + factor * EXPIRY_ALARM_MS for factor in (2, 0.5))
    for expires_ms, some, every in ((far, False, True), (soon, True, True), (0, False, True)):
        machine.step(Reach(KEY + next_key, (), "", expires_ms=int(expires_ms), operators=(0,)))
        machine.turn()
        replica = machine.node.cluster.replica
        assert replica.writer is not None
        own = {replica.writer: replica.vector[replica.writer]}
        told = []
        for names in ("", "b", "bc"):
            for node, peer in peers.items():
                peer.acked = {CLUSTER_SPACE: own} if node[0] in names else {}
            told.append(fleet.may_use_next_key())
        assert told == [False, some, every], (expires_ms, me)


# -- data of the cluster that one is invited to ------------------------------------------------------------------------


def test_data_is_kept_by_who_has_a_key_of_its_own_and_was_not_removed():
    with fleet_of("a") as fleet:
        machine = fleet["a"]
        node, me = machine.node, machine.node.identity.node

        def keeps(cluster: bytes = node.identity.cluster, key: str = me.ljust(64, "0"), expires_ms: int = 0) -> bool:
            machine.step(Reach(((key, b"x"),), (), "", expires_ms=expires_ms))
            return node.fleet.keeps_data(Invite(cluster, bytes(32), bytes(12), bytes(24), 1, ()))

        put_member(machine, "b", "b" * 16)
        assert keeps()
        assert not keeps(cluster=b"another cluster."), "that is another cluster"
        assert not keeps(key="ef" * 32), "its data is of another node, whose numbers it would use"
        node.cluster.put(MEMBERS, me, Member(me, "a", (("ef" * 32, b"x"),)))
        machine.turn()
        assert keeps(key="ef" * 32), "a key that it has changed to"
        invite = Invite(node.identity.cluster, bytes(32), bytes(12), bytes(24), 1, ())
        assert node.fleet.joined_already(invite)
        keeps(expires_ms=node.now_ms)
        assert node.fleet.joined_already(invite) is None, "its certificate has expired"
        node.cluster.put(REMOVED, me, RemovedMember(me, "a", (("ef" * 32, b"x"),), 1, "b"))
        machine.turn()
        assert not keeps()
