"""A turn runs what is due: a plain write makes nothing due but news, and time makes due what said so."""

from __future__ import annotations

from functools import partial
from unittest import mock

from crdtsync.core.agenda import FOLLOWERS, PARTS, Agenda, NodePart
from crdtsync.core.background.trimming import CHECK_INTERVAL_S
from crdtsync.core.interface import Now
from crdtsync.wire.codec import pack
from crdtsync.wire.tokens import encode_token
from tests.fleet.agent import Agent
from tests.fleet.host import Host


def calm(node: Host) -> Agent:
    """An agent whose plain writes are short turns from now on; nobody asks the node again when something is due."""
    ann = node.agent("ann")
    ann.set("k", 1)
    node.node.deadline_s()
    ann.set("k", 2)
    assert not node.node.agenda.ran
    return ann


def test_who_waits_for_a_write_is_answered_in_its_turn(node: Host) -> None:
    ann = calm(node)
    replica = node.replica
    assert replica.writer is not None
    token = encode_token([("default", 0, {replica.writer: replica.vector[replica.writer] + 1})])
    bob = node.agent("bob")
    request = bob.send("get", key="k", after=token, timeout=60_000)
    node.turn()
    node.node.deadline_s()
    assert request not in bob.replies
    ann.set("k", 3)
    assert bob.result(request)["value"] == pack(3)
    node.node.deadline_s()
    ann.set("k", 4)
    assert not node.node.agenda.ran


def test_what_is_too_old_goes_although_nobody_asks_when_it_is_due(node: Host) -> None:
    """Planning is put off while there are only short turns: what these bring nearer must not be missed for it."""
    ann = calm(node)
    with mock.patch.object(node.node.retention, "run", wraps=node.node.retention.run) as run:
        ann.set("k", 3)
        assert not run.called
        node.fleet.now = Now(node.now.wall_ms + 1000, node.now.mono_s + CHECK_INTERVAL_S)
        ann.set("k", 4)
        assert run.call_count == 1
        assert node.node.agenda.ran == [NodePart.RETENTION]


def test_what_has_said_when_it_is_due_runs_then_and_nothing_else_does(node: Host) -> None:
    ann = calm(node)
    node.node.spaces.archives.due_s = due_s = node.now.mono_s + 0.5
    node.node.agenda.now(NodePart.ARCHIVES)  # as with what it has been asked for
    node.node.deadline_s()
    ann.set("k", 3)
    assert not node.node.agenda.ran
    node.fleet.now = Now(node.now.wall_ms + 500, due_s)
    ann.set("k", 4)
    assert node.node.agenda.ran == [NodePart.ARCHIVES]
    assert node.node.spaces.archives.due_s > due_s


def test_what_writes_makes_due_what_follows_from_it(node: Host) -> None:
    """A value expires while plain writes come: its deletion is a change of which anything may follow."""
    ann = node.agent("ann")
    ann.write("set", key="short", value=pack(1), ttl=100)
    node.turn()
    ann.set("k", 1)
    node.node.deadline_s()
    node.fleet.now = Now(node.now.wall_ms + 100, node.now.mono_s + 0.1)
    ann.set("k", 2)
    assert node.node.agenda.ran == [*PARTS[NodePart.EXPIRY :]]
    assert not node.replica.entries.held("short")


def test_a_part_that_ran_is_due_until_it_says_otherwise() -> None:
    due_s: dict[NodePart, float | None] = dict.fromkeys(PARTS)
    agenda = Agenda()
    agenda.deadlines = {part: partial(due_s.get, part) for part in PARTS}
    assert agenda.soonest_s == 0.0
    due_s[NodePart.TEXTS] = 7.0
    assert agenda.next_s() == 7.0
    assert not agenda.takes(NodePart.TEXTS, 6.9)
    assert agenda.takes(NodePart.TEXTS, 7.0)
    assert agenda.takes(NodePart.TEXTS, 7.0)
    due_s[NodePart.TEXTS] = 9.0
    assert agenda.next_s() == 9.0
    due_s |= dict.fromkeys(PARTS, 8.0)
    assert agenda.next_s() == 8.0
    assert [part for part in PARTS if agenda.takes(part, 8.0)] == [*FOLLOWERS], "nobody else has been asked"


def test_what_is_due_sooner_than_it_said_tells_so() -> None:
    agenda = Agenda()
    agenda.deadlines = {NodePart.RETENTION: lambda: 5.0}
    assert agenda.next_s() == 5.0
    agenda.at(NodePart.RETENTION, 6.0)
    assert agenda.soonest_s == 5.0
    agenda.at(NodePart.RETENTION, 4.0)
    assert agenda.soonest_s == 4.0
    assert agenda.takes(NodePart.RETENTION, 4.0)
