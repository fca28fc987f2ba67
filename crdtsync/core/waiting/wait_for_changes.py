"""Requests that refer to what this node does not hold yet: they wait for it, as long as it may be expected to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from crdtsync.causality import VersionVector
from crdtsync.core.kinds.arguments import Arguments, timeout_ms
from crdtsync.core.waiting.missing_changes import UNHEARD_WAIT_S, is_unheard
from crdtsync.core.waiting.session_points import not_here
from crdtsync.core.waiting.wait_queue import LATER, Done

if TYPE_CHECKING:
    from crdtsync.core.agents.connection import Agent
    from crdtsync.core.agents.dispatcher import Dispatcher
    from crdtsync.core.replica.replica import Replica


def later(
    dispatcher: Dispatcher,
    agent: Agent,
    request: int,
    args: Arguments,
    replica: Replica,
    vector: VersionVector,
    then: Callable[[], object],
) -> object:
    """Do ``then`` when this node holds ``vector``. Until then nothing is done that a failed commit could undo.

    Who asks for the change of a writer that nobody knows waits for a moment only, for it may be on its way.
    """
    node, name = dispatcher.node, replica.name
    deadline_s = node.now_s + timeout_ms(args) / 1000

    def here() -> Replica:
        return node.replicas.get(name, replica)

    def is_vain() -> bool:
        return is_unheard(here(), vector, dispatcher.spaces.holders([name]), dispatcher.sync)

    def park(end_s: float) -> object:
        dispatcher.park(agent, request, end_s, {name: vector}, lambda: Done(then()), expire).stands = True
        return LATER

    def expire() -> object:
        if (vain := is_vain()) or node.now_s >= deadline_s:
            return not_here(here(), vector, dispatcher.sync.peers.values(), node.identity.name, is_vain=vain)
        return park(deadline_s)

    return park(min(deadline_s, node.now_s + UNHEARD_WAIT_S) if is_vain() else deadline_s)
