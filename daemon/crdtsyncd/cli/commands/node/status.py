"""``status`` and ``peers``: what this node says about itself and those it syncs with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.params import MEMBER
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows, show_table
from crdtsyncd.wording import ago, byte_size, clock_skew, moment, round_trip, span

# Any: the objects of the daemon's status, see docs/reference/command-line.md; a newer daemon may leave some fields out.
Fields = dict[str, Any]

PEERS_SHOWN_MAX = 12
"""In ``status``; of more only those in trouble are shown there."""
_TIMES = {"agents": "since", "alarms": "since", "peers": "last_seen"}


@state_command("status")
def status(settings: Settings) -> None:
    """Show how this node is: spaces, peers, agents, disk, alarms.

    An agent is shown once, with all its watches. With more than 12 peers, those alone are shown that are not well,
    behind or ahead. CONFLICTS counts keys with siblings, PENDING changes that wait for others. With --json one object;
    its counters count since the daemon started:

    \b
      {"node":   {"id", "name", "version", "uptime_s", "pid", "state", "cluster",
                  "certificate_expires", "vote"},
       "spaces": [{"name", "epoch", "keys", "entries", "siblings", "version_vector", "digest",
                   "document_bytes", "log_changes", "log_bytes", "log_bytes_max", "history_bytes",
                   "history_bytes_max", "pending_changes", "checkpoint_age_s",
                   "checkpoint_failures"}],
       "peers":  [{"id", "name", "url", "direction", "state", "hops", "via", "rtt_ms", "behind",
                   "ahead", "last_seen", "last_error", "clock_skew_ms", "snapshot", "lacks"}],
       "agents": [{"name", "uid", "pid", "since", "watches"}],
       "resolvers": [{"node", "space", "pattern", "agent", "state", "waiting", "asked", "answered",
                      "failed"}],
       "alarms": [{"code", "message", "since", "remedy"}],
       "store":  {"path", "bytes", "commits", "last_commit_ms", "free_bytes", "total_bytes",
                  "wal_bytes", "ballast_bytes", "growth_bytes_per_hour"},
       "counters": {"changes_made", "changes_received", "conflicts", "deliveries", "alarms",
                    "requests": {OPERATION: COUNT}, "refusals": {CODE: COUNT}},
       "usage":  [{"name", "used", "bound", "unit", "kind": "limit|buffer|cap", "scope",
                   "percent"}]}

    \b
    Examples:
      crdtsync status
      crdtsync status --json | jq '.spaces[].siblings'
    """
    fields = _status(settings)
    if settings.json:
        output.line(json_values.dumps(fields))
    else:
        _summarise(fields)


@state_command("peers")
@click.option("--forget", metavar="NODE", type=MEMBER, help="Know this node no longer, which is gone for good.")
def peers(settings: Settings, forget: str | None) -> None:
    """Show the nodes that this one syncs with, and their lag.

    BEHIND counts changes that this node has and the peer has not confirmed yet, AHEAD those that the peer has and this
    node has not. CLOCK is how far the peer's clock is ahead of this node's, empty if it was never measured. A peer that
    is indirect is up and reached over the peer that DIRECTION names; "?" is the lag of one that has not answered
    within a second. With --json one object a line.

    --forget is for a node that is not connected and no member: until then it is shown as down, and without a cluster
    a write with `-w all` waits for it. Members go by `crdtsync cluster remove`, and are forgotten by all hosts.

    \b
    Examples:
      crdtsync peers
      crdtsync peers --forget host-z
    """
    if forget is not None:
        with connect(settings) as client:
            fields = client.forget_peer(forget, timeout=settings.timeout)
        output.result(settings, f"forgot {fields['name']} ({fields['node'][:12]})", fields)
        return
    show_rows(settings, PEER_COLUMNS, _status(settings, far=True)["peers"], "no peers")


def _status(settings: Settings, *, far: bool = False) -> Fields:
    """The daemon's status with its times as RFC 3339; the protocol has ms."""
    with connect(settings) as client:
        fields = client.status(far=far)
    for section, name in _TIMES.items():
        for part in fields[section]:
            part[name] = moment(part.get(name))
    for health in (peer["health"] for peer in fields["peers"] if peer.get("health")):
        health["told"] = moment(health["told"])
        for alarm in health["alarms"]:
            alarm["since"] = moment(alarm["since"])
    fields["node"]["certificate_expires"] = moment(fields["node"].get("certificate_expires"))
    return fields


def _lag_of(peer: Mapping[str, Any], name: str) -> str:
    is_unknown = peer["state"] == "indirect" and not peer.get(name)  # reached over others, and has not told in time
    return "?" if is_unknown else _lag(peer.get(name))


def _lag(lag: dict[str, int] | None) -> str:
    """Changes by space; of the default space alone only the number."""
    counts = {space: count for space, count in (lag or {}).items() if count}
    if not counts:
        return "0"
    if set(counts) == {"default"}:
        return f"{counts['default']:,}"
    return " ".join(f"{space}:{count:,}" for space, count in sorted(counts.items()))


def _count(name: str) -> Column:
    return Column(name.partition("_")[0].upper(), lambda row: f"{row.get(name) or 0:,}", is_number=True)


def _of_cap(space: Mapping[str, Any], name: str) -> str:
    """A size, and the cap that the daemon keeps it in, if it says so."""
    cap = space.get(f"{name}_max")
    return byte_size(space[name]) + (f" of {byte_size(cap)}" if cap is not None else "")


SPACE_COLUMNS = (
    Column("SPACE", lambda space: space["name"]),
    _count("keys"),
    Column("CONFLICTS", lambda space: f"{space['siblings']:,}", is_number=True),
    _count("pending_changes"),
    Column("CHANGES", lambda space: f"{space['log_changes']:,}", is_number=True),
    Column("LOG", lambda space: _of_cap(space, "log_bytes"), is_number=True),
    Column("HISTORY", lambda space: _of_cap(space, "history_bytes"), is_number=True, spare=1),
    Column("DIGEST", lambda space: str(space["digest"] or "")[:12], spare=2),
)


def _state(peer: Mapping[str, Any]) -> str:
    """The state of the connection, and of the node itself if that is not ready."""
    itself = (peer.get("health") or {}).get("state", "ready")
    return peer["state"] if itself == "ready" else f"{peer['state']}, {itself}"


PEER_COLUMNS = (
    Column("PEER", lambda peer: peer.get("name") or str(peer.get("id") or "?")[:12]),
    Column("STATE", _state),
    Column(
        "DIRECTION", lambda peer: peer.get("direction") or (f"over {peer['via']}" if peer.get("via") else ""), spare=4
    ),
    Column("RTT", lambda peer: round_trip(peer.get("rtt_ms")), is_number=True, spare=3),
    Column("BEHIND", lambda peer: _lag_of(peer, "behind"), is_number=True),
    Column("AHEAD", lambda peer: _lag_of(peer, "ahead"), is_number=True),
    Column("LAST SEEN", lambda peer: "" if peer["state"] == "indirect" else ago(peer.get("last_seen")), spare=1),
    Column("CLOCK", lambda peer: clock_skew(peer.get("clock_skew_ms")), spare=5),
    Column("VERSION", lambda peer: peer.get("version") or "", folds=True, spare=2),
    Column("URL", lambda peer: peer.get("url") or "", folds=True, spare=6),
    Column("LAST ERROR", lambda peer: peer.get("last_error") or "", folds=True),
)

AGENT_COLUMNS = (
    Column("AGENT", lambda agent: agent["name"]),
    Column("UID", lambda agent: str(agent["uid"]), is_number=True),
    Column("PID", lambda agent: str(agent["pid"]), is_number=True),
    _count("watches"),
    Column("SINCE", lambda agent: ago(agent.get("since"))),
)

RESOLVER_COLUMNS = (
    Column("RESOLVER", lambda one: one["pattern"], folds=True),
    Column("SPACE", lambda one: "" if one["space"] == "default" else one["space"]),
    Column("AGENT", lambda one: one.get("agent") or "?"),
    Column("STATE", lambda one: one["state"]),
    _count("waiting"),
    _count("answered"),
    _count("failed"),
)


def _attached(agents: list[Fields]) -> list[Fields]:
    """One row for each client: its watches, mirrors and resolvers have connections of their own."""
    found: dict[tuple[object, ...], Fields] = {}
    for agent in agents:
        one = found.setdefault(tuple(agent[name] for name in ("name", "uid", "pid")), {**agent, "watches": 0})
        one["watches"] += agent["watches"]
        one["since"] = min(one["since"], agent["since"])
    return list(found.values())


def _resolving(resolvers: list[Fields], node: str) -> list[Fields]:
    """Those of this node. The resolvers of this node. It only knows that other nodes have some."""
    return [one for one in resolvers if one["node"] == node]


def _summarise(fields: Fields) -> None:
    node, store = fields["node"], fields["store"]
    pid = f", pid {node['pid']}" if "pid" in node else ""
    output.line(f"node    {node['name']} ({str(node['id'])[:12]}), {node['state']}")
    output.line(f"daemon  version {node['version']}{pid}, up {span(node['uptime_s'])}")
    if node.get("cluster"):
        until = f", certificate valid until {str(node['certificate_expires'])[:10]}"
        output.line(f"cluster {node['cluster'][:12]}{until if node.get('certificate_expires') else ''}")
    growth = store.get("growth_bytes_per_hour")
    grown = f" ({'+' if growth >= 0 else '-'}{byte_size(abs(growth))}/h)" if growth is not None else ""
    free = grown + (f", {byte_size(store['free_bytes'])} free" if store.get("free_bytes") is not None else "")
    if fields.get("limited"):
        output.line("store   not shown: this agent may not read all of every space, and sees what it may alone")
    else:
        output.line(f"store   {store['path']}, {byte_size(store['bytes'])}{free}")
    for alarm in fields["alarms"]:
        since = f", since {ago(alarm['since'])}" if alarm.get("since") else ""
        output.line(f"ALARM   {alarm['message']} ({alarm['code']}{since})")
    peers = fields["peers"]
    if len(peers) > PEERS_SHOWN_MAX:
        states = Counter(peer["state"] for peer in peers)
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        output.line(f"peers   {told}; those below are not well, behind or ahead: crdtsync peers shows all")
        peers = [peer for peer in peers if not _is_well(peer)][:PEERS_SHOWN_MAX]
    sections = (
        (SPACE_COLUMNS, fields["spaces"]),
        (PEER_COLUMNS, peers),
        (AGENT_COLUMNS, _attached(fields["agents"])),
        (RESOLVER_COLUMNS, _resolving(fields.get("resolvers", []), node["id"])),
    )
    for columns, rows in sections:
        if rows:
            output.line("")
            show_table(columns, rows)


def _is_well(peer: Fields) -> bool:
    lag = sum((peer.get("behind") or {}).values()) + sum((peer.get("ahead") or {}).values())
    is_reached = peer["state"] == "connected" or (peer["state"] == "indirect" and not peer.get("last_error"))
    return is_reached and not lag and _state(peer) == peer["state"]
