"""What a member of the cluster can do to the claims of others by its votes: nothing that outlasts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crdtsync.causality import SEQ_MAX
from crdtsync.core.peers import voter as voter_module
from crdtsync.core.peers.voter import DRIFT, PROMISES_NODE_MAX, TTL_MS_MAX, Voter
from crdtsync.core.storage.write_batch import WriteBatch
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.votes import ADMIT, ASK, GIVE, Vote, Voted
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host

OWNER, OTHER = bytes([1]) * 16, bytes([2]) * 16


@pytest.fixture
def voters() -> Iterator[Fleet]:
    """Hosts a, b and c, which are linked, and vote."""
    with fleet_of("a", "b", "c") as fleet:
        fleet.voters = [machine.node.identity.node for machine in fleet.machines.values()]
        for machine in fleet.machines.values():
            machine.store.close()
            machine.open()
        for first, second in ("ab", "ac", "bc"):
            fleet.link(first, second)
        fleet.run(12)
        assert {voter_of(machine).state for machine in fleet.machines.values()} == {"yes"}
        yield fleet


def voter_of(machine: Host) -> Voter:
    return machine.node.sync.ballots.voter


def vote(machine: Host, what: int, sender: str, **fields: Any) -> Voted:
    """Have a member of the cluster vote, and what the voter says."""
    voter = voter_of(machine)
    usual = Vote(1, voter.list_hash, what, "default/deploy", OWNER, 1, 60_000, "ann", b"-")
    return voter.answer(usual.replaced(**fields), sender, machine.fleet.now.mono_s)


def claim(fleet: Fleet, name: str, **args: Any) -> dict[str, Any]:
    """Ask on a host for a claim by quorum, and what comes of it."""
    agent = fleet[name].agent(name)
    request = agent.send("vote", **{"key": "deploy", "owner": OTHER, "ttl": 60_000, **args})
    fleet.run(3)
    found: dict[str, Any] = agent.result(request)
    return found


def test_a_claim_is_got_and_given_back(voters: Fleet):
    first = claim(voters, "a", owner=OWNER)
    assert first["granted"]
    assert claim(voters, "b")["agent"] == "a"
    claim(voters, "a", owner=OWNER, give=True)
    assert claim(voters, "b")["fence"] > first["fence"]


def test_a_host_without_a_vote_claims_although_answers_take_over_a_second(voters: Fleet):
    claim(voters, "b", owner=OWNER)
    claim(voters, "b", owner=OWNER, give=True)
    voters.add("d")
    for name in "abc":
        voters.link("d", name)
    voters.run(1)
    agent = voters["d"].agent("d")
    requests = []
    for _ in range(3):
        requests.append(agent.send("vote", key="deploy", owner=OTHER, ttl=60_000))
        for _ in range(4):
            voters.pass_time(0.8)  # on each way, so that a second count within this claim ends before its answers
            for machine in voters.machines.values():
                machine.turn()
            for wire in voters.wires:
                for end in wire.ends:
                    wire.deliver(end)
        voters.sync()
    assert agent.result(requests[-1])["granted"]


def test_nobody_uses_up_the_ballots(voters: Fleet):
    for machine in voters.machines.values():
        assert not vote(machine, ASK, "member", ballot=SEQ_MAX).granted
        highest = voter_of(machine)._now_ms() * 1000  # as high as one can get
        assert vote(machine, ASK, "member", ballot=highest).granted
        vote(machine, GIVE, "member")
        machine.turn()
    voters.run(1)
    first = claim(voters, "a", owner=OWNER)
    assert first["granted"]
    claim(voters, "a", owner=OWNER, give=True)
    assert claim(voters, "b")["fence"] > first["fence"]


def test_a_voter_that_tells_of_impossible_ballots_keeps_nobody_from_claiming(
    voters: Fleet, monkeypatch: pytest.MonkeyPatch
):
    liar = voter_of(voters["b"])
    answer = liar.answer
    monkeypatch.setattr(liar, "answer", lambda *args: answer(*args).replaced(granted=0, ballot=SEQ_MAX))
    claim(voters, "c", owner=OWNER)
    assert not claim(voters, "a")["granted"]
    claim(voters, "c", owner=OWNER, give=True)
    assert claim(voters, "a")["granted"]


def test_one_member_takes_no_room_from_the_others(voters: Fleet):
    machine = voters["a"]
    for n in range(PROMISES_NODE_MAX):
        assert vote(machine, ASK, "member", key=f"k{n}", ttl_ms=TTL_MS_MAX).granted
    assert "no room" in vote(machine, ASK, "member", key="more").holder
    assert vote(machine, ASK, "another", key="more").granted
    machine.turn()
    voters.pass_time(DRIFT * TTL_MS_MAX / 1000)
    assert vote(machine, ASK, "member", key="yet more").granted
    assert len(voter_of(machine).promises) == PROMISES_NODE_MAX + 1


def test_all_members_together_have_a_bound(voters: Fleet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(voter_module, "PROMISES_MAX", 3)
    machine = voters["a"]
    for name in "xyz":
        assert vote(machine, ASK, name, key=name, ballot=7).granted
    assert not vote(machine, ASK, "more", key="more").granted
    vote(machine, GIVE, "y", key="y")
    assert vote(machine, ASK, "more", key="more").granted
    assert sorted(voter_of(machine).promises) == ["more", "x", "z"]
    assert voter_of(machine).highest("y") == 7, "what is forgotten leaves its ballot"


def test_who_has_read_an_owners_name_can_neither_give_back_nor_vote_for_it(voters: Fleet):
    fence = claim(voters, "a", owner=OWNER)["fence"]
    for machine in voters.machines.values():
        vote(machine, GIVE, "member")
        assert not vote(machine, ASK, "member", ballot=fence + 1).granted
        assert not vote(machine, ASK, "member", ballot=fence).granted
        machine.turn()
    assert claim(voters, "b")["agent"] == "a"
    assert claim(voters, "a", owner=OWNER, fence=fence)["granted"], "the holder renews it still"


def test_whose_a_promise_is_outlives_a_restart(voters: Fleet):
    machine = voters["a"]
    vote(machine, ASK, "member")
    machine.turn()
    machine.restart()
    vote(machine, GIVE, "another")
    assert not vote(machine, ASK, "another", owner=OTHER, ballot=2).granted
    vote(machine, GIVE, "member")
    assert vote(machine, ASK, "another", owner=OTHER, ballot=2).granted


def test_what_is_told_to_one_that_is_admitted_is_above_all_ballots(voters: Fleet):
    machine = voters["a"]
    vote(machine, ASK, "member", ballot=50)
    vote(machine, GIVE, "member")
    vote(machine, ASK, "member", key="other", ballot=20)
    sender = voters["b"].node.identity.node
    assert vote(machine, ADMIT, sender, incarnation=voter_of(voters["b"]).incarnation).ballot == 50


def test_a_voter_that_begins_believes_no_impossible_number(voters: Fleet):
    voter = voter_of(voters["a"])
    voter.is_admitted, before = False, voter.incarnation
    voter._told.clear()
    for lie in (Voted(0, 0, 0, 0, "-", b"\xff" * 24), Voted(0, 1, SEQ_MAX, 0, "-", b"")):
        voter.admitted(voters["b"].node.identity.node, lie)
    assert voter.incarnation == before
    assert voter._told == {}


def test_a_voter_that_was_restored_waits_also_if_it_is_started_anew_meanwhile(voters: Fleet):
    """By its second start the others know it under its new name alone."""
    machine, now = voters["a"], voters.now
    identity = machine.node.identity._replace(incarnation=b"restored" * 2)

    def begun() -> Voter:
        voter = Voter(identity, voters.voters, machine.store, WriteBatch, now.mono_s, lambda: now.wall_ms)
        for other in "bcbcbc":  # who is refused takes a higher number
            asked = voter.asks_to_be_admitted(1)
            assert asked is not None
            voter.admitted(voters[other].node.identity.node, voter_of(voters[other]).answer(asked, voter.node, 0.0))
        voter.settle(now.mono_s)
        return voter

    first, voter = begun(), begun()
    assert [first.state, voter.state] == ["not yet", "not yet"]
    voter.settle(now.mono_s + DRIFT * TTL_MS_MAX / 1000)
    assert voter.state == "yes"


def test_a_holder_renews_what_an_older_version_has_promised(voters: Fleet):
    fence = claim(voters, "a", owner=OWNER)["fence"]
    for machine in voters.machines.values():
        without_node = pack(["default/deploy", fence, OWNER, 60_000, "ann"])
        voter_of(machine)._write("votes/promise/default/deploy", without_node)
        machine.turn()
        voter_of(machine).load(voters.now.mono_s)
    assert claim(voters, "b")["agent"] == "ann"
    assert claim(voters, "a", owner=OWNER, fence=fence)["granted"]
    for machine in voters.machines.values():
        vote(machine, GIVE, "member")
    assert not claim(voters, "b")["granted"], "from then on nobody else is taken for the holder"
