"""The status object, as documented for ``crdtsync status --json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crdtsync.causality import missing
from crdtsync.core.replica import Replica
from crdtsync.core.values import is_conflict
from crdtsync.wire.limits import CLUSTER_SPACE

if TYPE_CHECKING:
    from crdtsync.core.node import Node
    from crdtsync.core.peers import Dial, Peer


RESERVED_PREFIX = "_"
"""With this begin the keys that are not listed to users."""


def build_status(node: Node, reserved: bool = False) -> dict[str, Any]:
    """Everything that people and tools may want to know of this node, now. The shell adds what only it knows.

    ``reserved``: with the space that holds the cluster's own records.
    """
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
        },
        "spaces": [_space(node, replica) for replica in shown.values()],
        "peers": [_peer(node, peer, shown) for _, peer in sorted(node.sync.peers.items())]
        + [_dial(dial) for _, dial in sorted(node.sync.dials.items()) if not dial.node],
        "agents": [
            {
                "name": agent.name,
                "uid": agent.uid,
                "pid": agent.pid,
                "since": agent.since_ms,
                "watches": node.desk.watches.count(agent.conn),
            }
            for _, agent in sorted(node.desk.agents.items())
            if agent.name
        ],
        "resolvers": node.resolvers.status(),
        "alarms": [
            {"code": alarm.code, "message": alarm.message, "since": alarm.since_ms} for alarm in node.alarms.raised()
        ],
        "store": node.storage.stats(),
        "counters": {
            **node.counts.described(),
            "alarms": node.alarms.raised_count,
            "requests": {name: count for name, count in sorted(node.desk.requests.items()) if count},
            "refusals": dict(sorted(node.desk.refusals.items())),
        },
        "usage": [usage.described() for usage in node.usages()],
    }


def _space(node: Node, replica: Replica) -> dict[str, Any]:
    entries = replica.entries
    conflicting = sum(1 for key in entries.plural if is_conflict(entries, entries.live(key, node.now_ms)))
    return {
        "name": replica.name,
        "epoch": replica.epoch,
        "keys": len(entries) - len(entries.absent) - sum(1 for _ in entries.keys(RESERVED_PREFIX)),
        "entries": entries.count - entries.expiry.hidden_count,
        "siblings": conflicting,
        "version_vector": {str(writer): seq for writer, seq in sorted(replica.vector.items())},
        "digest": f"{entries.digest:032x}",
        **node.storage.log_stats(replica.id),
        "log_bytes_max": node.retention.caps.log_bytes_max,
        "history_bytes_max": node.retention.caps.history_bytes_max,
        "pending_changes": len(replica.gate),
        "checkpoint_age_s": None,
    }


def _peer(node: Node, peer: Peer, replicas: Mapping[str, Replica]) -> dict[str, Any]:
    link = peer.link
    acked = {name: peer.acked.get(name, {}) for name in replicas if node.spaces.may_hold(name, peer.node)}
    dial = node.sync.dials.get(peer.url)
    state = "connected" if link is not None else _unlinked_state(dial)
    return {
        "id": peer.node,
        "name": peer.name,
        "url": peer.url or (link.url if link is not None else ""),
        "direction": None if link is None else ("out" if link.dialled else "in"),
        "state": state,
        "rtt_ms": None if link is None else link.rtt_ms,
        "behind": {name: missing(vector, replicas[name].vector) for name, vector in acked.items()},
        "ahead": {name: missing(replicas[name].vector, vector) for name, vector in acked.items()},
        "last_seen": peer.last_seen_ms,
        "last_error": peer.last_error or (dial.last_error if dial is not None and link is None else ""),
        "clock_skew_ms": peer.clock_skew_ms,
        "snapshot": None if link is None else node.sync.transfers.progress(link),
    }


def _unlinked_state(dial: Dial | None) -> str:
    """What a node without a connection is called, whatever its address answered last."""
    if dial is None:
        return "down"
    return "connecting" if dial.state == "connected" else dial.state


def _dial(dial: Dial) -> dict[str, Any]:
    return {
        "id": None,
        "name": None,
        "url": dial.url,
        "direction": "out",
        "state": dial.state,
        "rtt_ms": None,
        "behind": {},
        "ahead": {},
        "last_seen": None,
        "last_error": dial.last_error,
        "clock_skew_ms": None,
        "snapshot": None,
    }
