"""The request ``vote``: a claim by quorum, its renewal, and its end. It is answered when the votes are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crdtsync.core.waiting.wait_queue import LATER
from crdtsync.errors import InvalidRequest, NoSpace
from crdtsync.wire.limits import KEY_BYTES_MAX, check_agent_name, check_key

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.agents.dispatcher import Dispatcher
    from crdtsync.core.kinds.arguments import Arguments


def vote_request(dispatcher: Dispatcher) -> Callable[[Agent, int, Arguments], object]:
    """The handler of ``vote``."""

    def vote(agent: Agent, request: int, args: Arguments) -> object:
        if dispatcher.node.read_only:
            raise NoSpace(dispatcher.node.read_only)
        space = dispatcher.replica_of(agent, args).name
        key = f"{space}/{check_key(args.get('key'))}"  # one name for voters, who know no spaces
        if len(key.encode()) > KEY_BYTES_MAX:
            raise InvalidRequest(f"the key is too long to be claimed by quorum: with its space {KEY_BYTES_MAX:,} bytes")
        author = check_agent_name(args.get("agent", agent.name))

        def done(result: dict[str, Any]) -> None:
            if dispatcher.agents.get(agent.conn) is agent:
                dispatcher.answer(agent.conn, request, result)

        dispatcher.sync.ballots.begin({**args, "key": key}, author, dispatcher.node.now_s, done)
        return LATER

    return vote
