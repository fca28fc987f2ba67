"""The status object, as documented for ``crdtsync status --json``."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from crdtsync.causality import missing
from crdtsync.core.alarm_catalogue import alarm_of
from crdtsync.core.peers.peer_state import Link, Peer
from crdtsync.core.replica.asleep import keys_of, siblings_of
from crdtsync.core.replica.replica import Replica
from crdtsync.wire.limits import CLUSTER_SPACE, NAME_CHARS_MAX
from crdtsync.wire.peer.gossip import ALARMS_TOLD_MAX, Health, ToldAlarm
from crdtsync.wire.peer.messages import FEATURES

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.diagnostics.counters import Counts
    from crdtsync.core.diagnostics.usage import Stats, Usage
    from crdtsync.core.node_parts import NodeParts
    from crdtsync.core.peers.peer_state import Dial


_NOTHING_STORED = dict.fromkeys(("log_changes", "log_bytes", "history_bytes", "document_bytes"), 0)
"""The figures of a space that has just been made."""


def build_status(
    node: NodeParts, counts: Counts, usages: Callable[[Stats], Iterable[Usage]], reserved: bool = False
) -> dict[str, Any]:
    """Everything that people and tools may want to know of this node, now. The shell adds what only it knows.

    ``usages``: how full everything is; ``reserved``: with the space that holds the cluster's own records.
    """
    stats = node.storage.all_log_stats()
    shown = {name: replica for name, replica in sorted(node.replicas.items()) if reserved or name != CLUSTER_SPACE}
    return {
        "node": {
            "id": node.identity.node,
            "name": node.identity.name,
            "version": node.identity.version,
            "pid": node.identity.pid,
            "uptime_s": round(node.now_s - node.started_s, 3),
            "state": "read-only" if node.read_only else "ready",
            "cluster": node.identity.cluster.hex() if node.fleet.is_initialised else None,
            "certificate_expires": node.fleet.reach.expires_ms or None,
            "vote": node.sync.ballots.voter.state,
        },
        "spaces": [_space(node, replica, stats.get(replica.id, {})) for replica in shown.values()],
        "peers": [_peer(node, peer, shown) for peer in _known(node)] + [_dial(dial) for dial in _unanswered(node)],
        "agents": _agents(node, node.dispatcher.agents),
        "resolvers": node.resolvers.status(),
        "alarms": [
            {
                "code": alarm.code,
                "message": alarm.message,
                "since": alarm.since_ms,
                "remedy": alarm_of(alarm.code).remedy,
            }
            for alarm in node.alarms.raised()
        ],
        "store": node.storage.stats(),
        "counters": {
            **counts.described(),
            "deliveries": node.sync.intake.count,
            "alarms": node.alarms.raised_count,
            "requests": {name: count for name, count in sorted(node.dispatcher.requests.items()) if count},
            "refusals": dict(sorted(node.dispatcher.refusals.items())),
        },
        "usage": [usage.described() for usage in usages(stats)],
    }


def health_of(node: NodeParts) -> Health:
    """How this node is, for others to hear."""
    store: dict[str, Any] = dict(node.storage.stats())
    since: dict[str, int] = {}
    for alarm in node.alarms.raised():
        since[alarm.code] = min(alarm.since_ms, since.get(alarm.code, alarm.since_ms))
    return Health(
        node.identity.node,
        node.now_ms,
        node.identity.version[:NAME_CHARS_MAX] or "?",
        "read-only" if node.read_only else "ready",
        store["bytes"],
        store["free_bytes"],
        tuple(ToldAlarm(code, since_ms) for code, since_ms in sorted(since.items())[:ALARMS_TOLD_MAX]),
    )


def _told(health: Health | None) -> dict[str, Any]:
    """The report of a node on itself; None if it makes none, since it is older or was never heard."""
    if health is None:
        return {"version": None, "health": None}
    return {
        "version": health.version,
        "health": {
            "state": health.state,
            "alarms": [
                {"code": code, "since": since_ms, "remedy": alarm_of(code).remedy} for code, since_ms in health.alarms
            ],
            "bytes": health.data_bytes,
            "free_bytes": health.free_bytes,
            "told": health.told_ms,
        },
    }


def limited_status(node: NodeParts, agent: Agent, whole: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the ``whole`` status for an agent that may not read everything here.

    Figures of a space count keys, so they are of those spaces alone of which it may read all.
    """
    authorizer = node.authorizer
    shown = {
        name: replica
        for name, replica in sorted(node.replicas.items())
        if name != CLUSTER_SPACE and authorizer.sees_all_of(agent, name)
    }
    own = {one.conn for one in node.dispatcher.agents.values() if one.who == agent.who}
    return {
        "limited": True,
        "node": whole["node"],
        "spaces": [space for space in whole["spaces"] if space["name"] in shown],
        "peers": [
            {
                **peer,
                **{lag: _of_spaces(peer[lag], shown) for lag in ("behind", "ahead")},
                "snapshot": None,
                "health": None,
                "last_error": "",  # why a connection was closed may name what was on it
            }
            for peer in whole["peers"]
        ],
        "agents": _agents(node, own),
        "resolvers": [one for one in whole["resolvers"] if one["space"] in shown],
        "alarms": [],
        "store": {},
        "counters": {},
        "usage": [],
    }


def _of_spaces(lag: Mapping[str, int], shown: Mapping[str, Replica]) -> dict[str, int]:
    return {name: count for name, count in lag.items() if name in shown}


def _agents(node: NodeParts, conns: Container[int]) -> list[dict[str, Any]]:
    return [
        {
            "name": agent.name,
            "who": agent.who,
            "uid": agent.uid,
            "pid": agent.pid,
            "since": agent.since_ms,
            "watches": node.dispatcher.watches.count(agent.conn),
        }
        for _, agent in sorted(node.dispatcher.agents.items())
        if agent.name and agent.conn in conns
    ]


def _space(node: NodeParts, replica: Replica, stats: Mapping[str, int]) -> dict[str, Any]:
    asleep, digest = replica.asleep, replica.digest
    checkpoint_ms = replica.checkpoints.newest_ms() if asleep is None else asleep.checkpoint_ms
    recalled_bytes = replica.checkpoints.recalled_bytes() if asleep is None else asleep.recalled_bytes
    stored = {**_NOTHING_STORED, **stats}
    return {
        "name": replica.name,
        "epoch": replica.epoch,
        "keys": keys_of(replica) if asleep is None else asleep.keys,
        "entries": replica.entries.count - replica.entries.expiry.hidden_count if asleep is None else asleep.entries,
        "siblings": siblings_of(replica, node.now_ms) if asleep is None else asleep.siblings,
        "version_vector": {str(writer): seq for writer, seq in sorted(replica.vector.items())},
        "digest": None if digest is None else f"{digest:032x}",  # a request waits for it
        **stored,
        "history_bytes": stored["history_bytes"] + recalled_bytes,
        "log_bytes_max": node.retention.caps.log_bytes_max,
        "history_bytes_max": node.retention.caps.history_bytes_max,
        "pending_changes": len(replica.gate) if asleep is None else 0,
        "checkpoint_age_s": None if checkpoint_ms is None else max(0, node.now_ms - checkpoint_ms) / 1000,
        "checkpoint_failures": node.automatic_checkpoints.failures.get(replica.name, 0),
    }


def _known(node: NodeParts) -> list[Peer]:
    """All nodes that this one has met, and the members that it has only heard of."""
    unmet = {
        each.node: Peer(each.node, each.name, url=f"wss://{each.addresses[0]}" if each.addresses else "")
        for each in node.fleet.others()
        if each.node not in node.sync.peers
    }
    return [peer for _, peer in sorted({**node.sync.peers, **unmet}.items())]


def _unanswered(node: NodeParts) -> list[Dial]:
    """Addresses at which nobody has answered yet, and that are not known to be those of a member."""
    of_members = {address for each in node.fleet.others() for address in each.addresses}
    known = {f"wss://{address}" for address in of_members | node.fleet.left_addresses}
    return [dial for url, dial in sorted(node.sync.dials.items()) if not dial.node and url not in known]


def _peer(node: NodeParts, peer: Peer, replicas: Mapping[str, Replica]) -> dict[str, Any]:
    link = peer.link
    acked = {name: peer.acked.get(name, {}) for name in replicas if node.spaces.may_hold(name, peer.node)}
    dial = _dial_of(node, peer)
    via = "" if link is not None else node.sync.mesh.routes.via(peer.node)
    misled = "" if link is not None else node.false_addresses.misled_by(peer.node, node.fleet.membership)
    away = "down" if misled else _unlinked_state(node, dial)
    state = "connected" if link is not None else "indirect" if via else away
    if via:  # what it has is asked for only while somebody waits for it
        acked = {name: vector for name, vector in acked.items() if node.sync.mesh.knows(name, peer.node)}
    error = misled or (dial.last_error if dial and link is None else "") or peer.last_error
    return {
        "id": peer.node,
        "name": peer.name,
        **_told(node.sync.health.nodes.get(peer.node)),
        "url": peer.url or (link.url if link is not None else "" if dial is None else dial.url),
        "direction": None if link is None else ("out" if link.dialled else "in"),
        "state": state,
        "hops": node.sync.mesh.routes.hops(peer.node),
        "via": node.sync.peers[via].name if via else None,
        "rtt_ms": None if link is None else link.rtt_ms,
        "behind": {name: missing(vector, replicas[name].vector) for name, vector in acked.items()},
        "ahead": {name: missing(replicas[name].vector, vector) for name, vector in acked.items()},
        "last_seen": peer.last_seen_ms,
        "last_error": "" if via and not _should_be_direct(node) else error,
        "clock_skew_ms": peer.clock_skew_ms,
        "snapshot": None if link is None else node.sync.snapshot_progress(link),
        "lacks": [] if link is None else _lacks(link),
    }


def _lacks(link: Link) -> list[str]:
    """The features that a connected node of an older version does not know."""
    return [] if link.hello is None else sorted(set(FEATURES) - set(link.hello.features))


def _should_be_direct(node: NodeParts) -> bool:
    """Whether a peer that is reached over others alone is one too many: each is to be connected to all."""
    return len(node.fleet.membership.members) <= node.fleet.reach.full_mesh_nodes_max


def _dial_of(node: NodeParts, peer: Peer) -> Dial | None:
    """How it goes at the address at which a node was found last; before that, at one that it says is its own."""
    member = node.fleet.membership.members.get(peer.node)
    own = () if member is None or peer.url else (f"wss://{address}" for address in member.addresses)
    tried = (node.sync.dials[url] for url in (peer.url, *own) if url in node.sync.dials)
    return next(tried, None)


def _unlinked_state(node: NodeParts, dial: Dial | None) -> str:
    """The state of a node without a connection, whatever its address answered last."""
    if node.fleet.is_initialised and not node.fleet.is_member:
        return "refused"
    if dial is None:
        return "down"
    return "connecting" if dial.state == "connected" else dial.state


def _dial(dial: Dial) -> dict[str, Any]:
    return {
        "id": None,
        "name": None,
        **_told(None),
        "url": dial.url,
        "direction": "out",
        "state": dial.state,
        "hops": None,
        "via": None,
        "rtt_ms": None,
        "behind": {},
        "ahead": {},
        "last_seen": None,
        "last_error": dial.last_error,
        "clock_skew_ms": None,
        "snapshot": None,
        "lacks": [],
    }
