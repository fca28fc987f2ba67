"""Short turns leave nothing undone that a plain write brings about: else a turn is a long one."""

from __future__ import annotations

from unittest import mock

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
    assert node.node.was_short
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
    assert node.node.was_short


def test_what_is_too_old_goes_although_nobody_asks_when_it_is_due(node: Host) -> None:
    """Planning is put off while there are only short turns: what these bring nearer must not be missed for it."""
    ann = calm(node)
    with mock.patch.object(node.node.retention, "run", wraps=node.node.retention.run) as run:
        ann.set("k", 3)
        assert not run.called
        node.fleet.now = Now(node.now.wall_ms + 1000, node.now.mono_s + CHECK_INTERVAL_S)
        ann.set("k", 4)
        assert run.call_count == 1
