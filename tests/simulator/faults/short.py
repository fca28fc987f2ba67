"""Faults in the short ways of plain writes and of turns in which nothing else happens."""

from __future__ import annotations

from crdtsync.core.agenda import Agenda, NodePart
from crdtsync.core.agents import fast_paths
from crdtsync.core.node import Node
from crdtsync.wire.tokens import VERSION_PREFIX, version_text
from tests.simulator.faults.planting import Patches, short_fault
from tests.simulator.kinds import REGISTERS


@short_fault("where its author had seen", keys=REGISTERS)
def plain_writes_take_any_reading_for_the_newest(patch: Patches):
    """The lost update, the short way: a stale reading counts as one of what is there now."""

    def write(dispatcher, agent, request, args):
        replica = dispatcher.node.replicas.get(agent.space)
        held = [] if replica is None else replica.entries.held(args.get("key"))
        if len(held) == 1 and str(args.get("seen", "")).startswith(VERSION_PREFIX):
            args = {**args, "seen": version_text(held[0].hlc, *held[0].dot)}
        return fast_paths.write_plainly(dispatcher, agent, request, args)

    patch.setattr("crdtsync.core.agents.dispatcher.write_plainly", write)


@short_fault("that it was blind", keys=REGISTERS)
def plain_writes_replace_without_a_word(patch: Patches):
    """A blind write, the short way, is stored as one of an author who had read what it replaces."""
    commit = fast_paths._commit

    def write(replica, key, value, gone, is_blind, *more):
        return commit(replica, key, value, gone, False, *more)

    patch.setattr(fast_paths, "_commit", write)


@short_fault("in a short turn")
def short_turns_while_requests_wait(patch: Patches):
    """Who waits for a write, or for other nodes, is forgotten until something else happens."""
    patch.setattr(Node, "_heed_waiting", lambda _node: None)


@short_fault("in a short turn", is_tight=True, keys=REGISTERS)
def short_turns_put_trimming_off(patch: Patches):
    """Log and history grow beyond their caps while plain writes come."""
    at = Agenda.at

    def deaf(agenda, part, due_s):
        if part is not NodePart.RETENTION:
            at(agenda, part, due_s)

    patch.setattr(Agenda, "at", deaf)
