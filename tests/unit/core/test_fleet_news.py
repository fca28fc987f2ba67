"""Names and addresses of members, removal as the removed node says it, and what the shell tells of all that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crdtsync.core.attached import User
from crdtsync.core.fleet import JOINING_CONNECTIONS_MAX, MEMBERS, REMOVED, Reach
from crdtsync.core.fleet_news import EXPIRY_ALARM_MS, Misled, NotJoined, NotMerged
from crdtsync.core.inputs import DialState
from crdtsync.core.membership import Member, Removed, written
from crdtsync.wire.joining import Admitted, Join, NotAdmitted, decode_join_message, proof_of, secret_key
from tests.unit.core.fleet import Machine, Refusal, Session, fleet_of

KEY = (("ab" * 32, b"certificate"),)
SECRET = b"s" * 24


@pytest.fixture
def machine() -> Iterator[Machine]:
    with fleet_of("a") as fleet:
        one = fleet["a"]
        one.step(Reach(KEY, ("192.0.2.1:7420",), "", operators=(0,)))
        one.node.cluster.put(MEMBERS, one.node.identity.node, Member(one.node.identity.node, "a", KEY))
        one.turn()
        yield one


def root(machine: Machine) -> Session:
    return machine.agent("root", user=User(0, (0,), is_local=False))


def pin(name: str) -> str:
    return name.encode().hex().ljust(64, "0")


def put_member(machine: Machine, name: str, node: str, *addresses: str) -> str:
    key = ((pin(node), node.encode()),)
    machine.node.cluster.put(MEMBERS, node, Member(node, name, key, addresses, time_ms=1))
    machine.turn()
    return node


def messages(machine: Machine) -> dict[str, str]:
    return {alarm.code: alarm.message for alarm in machine.node.alarms.raised()}


# -- names -------------------------------------------------------------------------------------------------------------


def ask(machine: Machine, name: str, key: str, invite: bytes = b"i" * 12) -> Admitted | NotAdmitted:
    """A node asks to join by one and the same invite."""
    node, conn = machine.node, 77
    node.fleet.join_opened(conn)
    plain = Join(invite, key.encode(), name, ())
    bound = node.fleet.bound(conn, plain)
    proven = Join(invite, key.encode(), name, (), proof_of(secret_key(SECRET), bound), b"signed")
    node.sync.outbox.sends.clear()
    node.fleet.join_asked(conn, proven, pin(key), is_signed=True)
    answer = decode_join_message(node.sync.outbox.sends[-1][1])
    node.fleet.join_closed(conn)
    machine.turn()
    assert isinstance(answer, Admitted | NotAdmitted)
    return answer


def test_a_taken_name_is_refused_and_costs_no_use_of_the_invite(machine: Machine):
    machine.node.fleet.invitations.give(b"i" * 12, secret_key(SECRET), 60_000, 1, machine.node.now_ms)
    answer = ask(machine, "a", "one")
    assert isinstance(answer, NotAdmitted)
    assert answer.code == "name_taken"
    assert "--node-name" in answer.reason
    assert isinstance(ask(machine, "b", "one"), Admitted)
    assert isinstance(ask(machine, "b", "one"), Admitted)  # its answer was lost


def test_idle_strangers_keep_nobody_from_joining(machine: Machine):
    machine.node.fleet.invitations.give(b"i" * 12, secret_key(SECRET), 60_000, 1, machine.node.now_ms)
    for conn in range(1000, 1000 + 2 * JOINING_CONNECTIONS_MAX):
        machine.node.fleet.join_opened(conn)
    closed = [conn for conn, reason in machine.node.sync.outbox.closes if "this one is slow" in reason]
    assert closed == [*range(1000, 1000 + JOINING_CONNECTIONS_MAX)]
    assert isinstance(ask(machine, "b", "one"), Admitted)


def test_only_who_has_an_invite_learns_which_names_are_taken(machine: Machine):
    answer = ask(machine, "a", "one")
    assert isinstance(answer, NotAdmitted)
    assert answer.code == "invite_unknown"


def test_a_name_that_two_came_to_have_is_an_alarm_until_one_is_gone(machine: Machine):
    other = put_member(machine, "a", "0123456789abcdef")
    assert "0123456789ab is called a too" in messages(machine)["same_name"]
    machine.node.cluster.put(REMOVED, other, Removed(other, "a", ((pin(other), b"x"),), 1, "a"))
    machine.turn()
    assert "same_name" not in messages(machine)


# -- addresses ---------------------------------------------------------------------------------------------------------


def last_error(machine: Machine, node: str) -> tuple[str, str]:
    peer = next(peer for peer in root(machine).ask("status")["peers"] if peer["id"] == node)
    return peer["state"], peer["last_error"]


def test_the_status_says_who_answers_at_the_address_of_another(machine: Machine):
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


def test_why_a_node_has_not_joined_is_an_alarm_with_the_latest_reason(machine: Machine):
    machine.step(NotJoined("nobody answers"))
    assert messages(machine)["not_joined"].endswith("nobody answers")
    machine.step(NotJoined("the invite has expired"))
    assert messages(machine)["not_joined"].endswith("the invite has expired")
    machine.step(NotMerged("/data/crdtsync-merge-x"))
    assert "/data/crdtsync-merge-x" in messages(machine)["not_all_merged"]
    machine.step(NotJoined(""))
    machine.step(NotMerged(""))
    assert messages(machine) == {}


# -- removal -----------------------------------------------------------------------------------------------------------


def test_a_removed_node_says_so_when_it_is_asked_for_an_invite(machine: Machine):
    me = machine.node.identity.node
    machine.node.cluster.put(REMOVED, me, Removed(me, "a", KEY, 1_750_000_000_000, "host-b"))
    machine.turn()
    for request in ("cluster_invite", "cluster_rotate_key"):
        with pytest.raises(Refusal) as refusal:
            root(machine).ask(request)
        said = str(refusal.value)
        assert "a was removed from this cluster by host-b on 2025-06-15T15:06:40Z" in said
        assert "move its data directory away" in said


def test_a_node_that_was_away_believes_a_member_that_says_so(machine: Machine):
    node = put_member(machine, "b", "b" * 16, "192.0.2.9:7420")
    machine.step(DialState("wss://192.0.2.9:7420", "removed", "a was removed from this cluster by b"))
    assert last_error(machine, node) == ("refused", "a was removed from this cluster by b")
    assert "by b" in messages(machine)["removed"]
    with pytest.raises(Refusal, match="by b"):
        root(machine).ask("cluster_invite")


@pytest.mark.parametrize("time_ms", [0, 10**18])
def test_a_removal_at_no_time_that_can_be_written_out_is_told_without(time_ms: int):
    assert "by host-b: to come back" in Removed("n", "a", KEY, time_ms, "host-b").reason


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


def test_the_alarm_of_a_certificate_says_when_and_later_that_it_is_over(machine: Machine):
    expires_ms = machine.node.now_ms + 10_000
    machine.step(Reach(KEY, (), "", expires_ms=expires_ms, operators=(0,)))
    first = messages(machine)["certificate_expires"]
    assert f"expires on {written(expires_ms)}" in first
    machine.step(Reach(KEY, (), "", expires_ms=machine.node.now_ms, operators=(0,)))
    assert "has expired" in messages(machine)["certificate_expires"]
    machine.step(Reach(KEY, (), "", expires_ms=machine.node.now_ms + 2 * EXPIRY_ALARM_MS, operators=(0,)))
    assert messages(machine) == {}
