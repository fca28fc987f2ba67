"""Requests of agents about spaces: make one, drop one, list them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from crdtsync.core.cluster.space_records import SpaceRecord
from crdtsync.core.cluster.spaces import resolve_nodes
from crdtsync.core.kinds.arguments import Arguments
from crdtsync.errors import InvalidRequest, NotAllowed, UnknownSpace
from crdtsync.wire.limits import CLUSTER_SPACE, archive_of, check_agent_name, check_name, is_name

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.agents.dispatcher import Dispatcher
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.storage.rows import ArchiveRow

Handler = Callable[["Agent", int, Arguments], object]


def space_requests(dispatcher: Dispatcher, begin_private: Callable[[Agent, str, int], None]) -> Mapping[str, Handler]:
    """The handlers by operation. Their writes are on disk when the reply leaves.

    ``begin_private`` writes the rules of a space that is about to be made for an agent alone.
    """
    return {
        "space_create": lambda agent, _request, args: _create(dispatcher, agent, args, begin_private),
        "space_drop": lambda agent, _request, args: _drop(dispatcher, agent, args),
        "space_list": lambda agent, _request, _args: _list(dispatcher, agent),
    }


def find_replica(dispatcher: Dispatcher, space: object, agent: Agent) -> Replica:
    """The space that a request names, or an archive of one.

    :raises UnknownSpace: it is not on this node.
    """
    replica = dispatcher.node.replicas.get(space) if isinstance(space, str) and is_name(space) else None
    if replica is None and isinstance(space, str):
        replica = dispatcher.spaces.archives.open(space)
    if replica is not None:
        replica.idle_looks = 0
        return replica
    record = dispatcher.spaces.record(space) if isinstance(space, str) and is_name(space) else None
    if (
        record is not None
        and record.exists
        and record.nodes is not None
        and dispatcher.authorizer.sees(agent, str(space))
    ):
        raise UnknownSpace(f"the space {space} is not on this node; it is on {dispatcher.fleet.where(record.nodes)}")
    raise dispatcher.authorizer.missing(agent, space)


def writable(replica: Replica) -> Replica:
    """The same, if it is no archive.

    :raises NotAllowed: it is one.
    """
    if archive_of(replica.name) is not None:
        raise NotAllowed(f"{replica.name} is an archive: it can be read, and nothing else")
    return replica


def _author(agent: Agent, args: Arguments) -> str:
    return check_agent_name(args.get("agent", agent.name))


def _create(
    dispatcher: Dispatcher, agent: Agent, args: Arguments, begin_private: Callable[[Agent, str, int], None]
) -> dict[str, Any]:
    name, is_private = check_name(args.get("name"), "a space"), args.get("private", False)
    if type(is_private) is not bool:
        raise InvalidRequest("private must be true or false")
    nodes = args.get("nodes")
    if nodes is not None:
        if type(nodes) is not list or not all(type(node) is str for node in nodes):
            raise InvalidRequest("nodes must be a list of ids or names of nodes, or nil for all")
        nodes = resolve_nodes(nodes, dispatcher.fleet.node_names())
    before = dispatcher.spaces.record(name)
    if before is not None and before.exists:
        _check_taken(dispatcher, agent, name, is_private)
    record, point = dispatcher.spaces.create(
        name,
        nodes,
        _author(agent, args),
        lambda made: begin_private(agent, name, made.epoch) if is_private else None,
    )
    return {
        **_described(dispatcher, name, record),
        "created": point is not None,
        "token": dispatcher.cluster.token(point),
    }


def _check_taken(dispatcher: Dispatcher, agent: Agent, name: str, is_private: bool) -> None:
    """Whether an agent may be told of a space that it wants to make and that is there already.

    :raises NotAllowed: no. That the name is taken is all that it learns: of two spaces one must have another name.
    :raises InvalidRequest: it is to be private, and others may do something there.
    """
    if not dispatcher.authorizer.sees(agent, name):
        raise NotAllowed(f"{agent.who} cannot make a space {name}: the name is taken, choose another one")
    if is_private:
        raise InvalidRequest(f"the space {name} is there already, with the rules it has: see crdtsync access list")


def _drop(dispatcher: Dispatcher, agent: Agent, args: Arguments) -> dict[str, Any]:
    name = args.get("name")
    if type(name) is not str:
        raise InvalidRequest("name must be the name of a space")
    before = dispatcher.spaces.record(name)
    if name != CLUSTER_SPACE and (before is None or not before.exists):
        raise dispatcher.authorizer.missing(agent, name)
    replica = dispatcher.node.replicas.get(name)
    epoch = None if replica is None else replica.epoch
    record, point = dispatcher.spaces.drop(name, _author(agent, args))
    archives = dispatcher.spaces.archives
    archive = None if epoch is None else archives.find(name, epoch)
    return {
        "name": name,
        "epoch": record.epoch,
        "archive": None if archive is None else f"{name}@{archive.epoch}",
        "until": None if archive is None else archives.until_ms(archive),
        "token": dispatcher.cluster.token(point),
    }


def _list(dispatcher: Dispatcher, agent: Agent) -> dict[str, Any]:
    """Those of which the agent may know, and their archives; how much is in one is told to who may read all of it."""
    archives, authorizer = dispatcher.spaces.archives, dispatcher.authorizer
    return {
        "spaces": [
            _described(dispatcher, *listed)
            for listed in dispatcher.spaces.listed()
            if authorizer.sees(agent, listed[0])
        ],
        "archives": [
            {
                "name": f"{row.name}@{row.epoch}",
                **dict.fromkeys(("entries", "bytes", "unseen")),
                **(_figures(row) if authorizer.sees_all_of(agent, f"{row.name}@{row.epoch}") else {}),
                "time": row.time_ms,
                "until": archives.until_ms(row),
            }
            for row in sorted(archives.rows.values(), key=lambda row: (row.name, row.epoch))
            if authorizer.sees(agent, f"{row.name}@{row.epoch}")
        ],
    }


def _figures(row: ArchiveRow) -> dict[str, int]:
    return {"entries": row.entries, "bytes": row.size_bytes, "unseen": row.unseen}


def _described(dispatcher: Dispatcher, name: str, record: SpaceRecord) -> dict[str, Any]:
    names = dispatcher.fleet.node_names()
    nodes = None if record.nodes is None else [{"id": node, "name": names.get(node)} for node in record.nodes]
    return {
        "name": name,
        "epoch": record.epoch,
        "nodes": nodes,
        "here": name in dispatcher.node.replicas,
        "time": record.time_ms or None,
        "agent": record.agent or None,
    }
