"""How far nodes are that are reached only over others: asked when somebody wants to know, and waited for, for a moment.

Acknowledgements go to peers alone, and to ask costs every node a message for each change while the question stands (see
:mod:`~crdtsync.core.peers.ack_queries`). So it is asked for what a person looks at, not for what a collector fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from crdtsync.causality import VersionVector
from crdtsync.core.reads.checkpoint_check import Summing
from crdtsync.core.waiting.wait_queue import LATER, WaitResult
from crdtsync.errors import CrdtSyncError
from crdtsync.wire.limits import CLUSTER_SPACE

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.kinds.arguments import Arguments
    from crdtsync.core.node_parts import NodeParts

FAR_WAIT_S = 1.0
"""How long far nodes are waited for: an answer takes some 50 ms for each connection on its way."""


def status_request(
    node: NodeParts, status: Callable[[Agent, bool], object]
) -> Callable[[Agent, int, Arguments], object]:
    """The handler of ``status``; with ``far`` it knows the lag of far nodes. ``status``: what it answers to an agent,
    with the reserved space or not.
    """

    def answer(agent: Agent, request: int, args: Arguments) -> object:
        for replica in node.replicas.values():
            if replica.asleep is None and not replica.entries.is_summed:  # it tells the digest
                summing = Summing(replica, partial(answer, agent, request, args))
                return node.dispatcher.read_long(agent, request, summing)
        now = partial(status, agent, args.get("reserved") is True)
        if args.get("far") is not True:
            return now()
        shown = [name for name in node.replicas if name != CLUSTER_SPACE and node.authorizer.sees_all_of(agent, name)]
        return knowing_far(node, agent, request, shown, now)

    return answer


def knowing_far(
    node: NodeParts, agent: Agent, request: int, spaces: Iterable[str], answer: Callable[[], object]
) -> object:
    """The result of ``answer``, once far nodes have said how far they are in these spaces, or have not in time."""
    mesh = node.sync.mesh
    far = [other for other, route in mesh.routes.by_node().items() if route.hops > 1]
    wanted: dict[str, VersionVector] = {name: dict(node.replicas[name].vector) for name in spaces if far}
    asked = mesh.ask_whole(wanted)
    missing = {(name, other) for name in asked for other in far if node.spaces.may_hold(name, other)}

    def check() -> object | None:
        missing.difference_update([one for one in missing if mesh.knows(*one)])
        return None if missing else WaitResult(answer())

    def expire() -> object:
        try:
            return WaitResult(answer())
        except CrdtSyncError as error:
            return error

    if check() is not None:
        return answer()
    node.dispatcher.park(agent, request, node.now_s + FAR_WAIT_S, {}, check, expire).stands = True
    return LATER
