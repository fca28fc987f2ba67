"""Why this node has of a key what it has, or lacks it: which change, from whom, over which peer, what it waits for.

Everything here is read from what the node knows anyway; only nodes that are reached over others are asked first how far
they are. What somebody has written who has not been heard of since cannot be known, and the answer says so. It is for
people, and short enough for one screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from crdtsync.causality import Dot, VersionVector, Writer, hlc_ms, missing
from crdtsync.core.entries import Entry
from crdtsync.core.far_lag import knowing_far
from crdtsync.core.fates import Fate
from crdtsync.core.gate import blocker
from crdtsync.core.history import rows_of_key
from crdtsync.core.lacking import names
from crdtsync.core.operation_names import operation_of
from crdtsync.core.reads import Reader
from crdtsync.core.replica import Replica
from crdtsync.core.space_requests import find_replica, node_names
from crdtsync.core.storage import PastRow, Storage
from crdtsync.core.values import describe, inline_value, policy_of, siblings
from crdtsync.errors import InvalidRequest, UnknownSpace
from crdtsync.wire.change import Change
from crdtsync.wire.limits import key_fault, shown
from crdtsync.wire.tokens import encode_dot

if TYPE_CHECKING:
    from crdtsync.core.access.guard import Guard
    from crdtsync.core.access.requests import AccessDesk
    from crdtsync.core.agents import Desk
    from crdtsync.core.alarms import Alarms
    from crdtsync.core.attached import Agent
    from crdtsync.core.fleet import Fleet
    from crdtsync.core.identity import Identity
    from crdtsync.core.kinds.rules import Sibling
    from crdtsync.core.peers import Peer
    from crdtsync.core.spaces import Spaces
    from crdtsync.core.sync import Sync

VALUES_SHOWN_MAX = 6
"""Concurrent values that are told one by one."""
HELD_SHOWN_MAX = 3
"""Changes at the causal gate that are told one by one."""
REASONS_MAX = 12

Item = dict[str, Any]


class Host(Protocol):
    """What an explanation needs of its node."""

    replicas: dict[str, Replica]
    spaces: Spaces
    sync: Sync
    fleet: Fleet
    guard: Guard
    access_desk: AccessDesk
    identity: Identity
    alarms: Alarms
    storage: Storage
    read_only: str
    now_ms: int
    now_s: float


class Here(NamedTuple):
    """What is looked at: one key of one space on one node."""

    host: Host
    replica: Replica
    reader: Reader
    key: str


Finder = Callable[[Here], Iterable[Item]]


def explain(host: Host, agent: Agent, space: str, key: object) -> Item:
    """All that this node can say about a key. Reading it does not count as reading the key.

    :raises InvalidRequest: not a key.
    """
    fault = key_fault(key)
    if fault is not None:
        raise InvalidRequest(f"the key {shown(key)} {fault}")
    assert isinstance(key, str)
    answer: Item = {"space": space, "key": key, "node": host.identity.name}
    empty: Item = {"values": [], "values_total": 0, "policy": None, "removed": None}
    try:
        replica = find_replica(host, space, agent)
    except UnknownSpace as error:
        record = host.spaces.record(space)
        is_elsewhere = record is not None and record.exists
        return {
            **answer,
            "state": "elsewhere" if is_elsewhere else "no_space",
            "summary": error.message,
            **empty,
            "reasons": [_reason("space_elsewhere" if is_elsewhere else "no_space", _where_from(host, space))],
        }
    here = Here(
        host,
        replica,
        Reader(replica, host.storage, host.now_ms, replica.node_of, host.guard.limit_of(agent, replica.name)),
        key,
    )
    state, summary, found = _state(here)
    reasons = [reason for find in FINDERS for reason in find(here)]
    return {**answer, "state": state, "summary": summary, **empty, **found, "reasons": reasons[:REASONS_MAX]}


def _reason(code: str, message: str, **fields: object) -> Item:
    return {"code": code, "message": message, **fields}


def _where_from(host: Host, space: str) -> str:
    record = host.spaces.record(space)
    if record is None or not record.exists:
        return "nobody has made it, as far as this node knows, or it was dropped: crdtsync space list shows all"
    known = node_names(host)
    where = sorted(known.get(node) or node[:12] for node in record.nodes or ())
    return f"nothing of it ever comes to this node: ask on {names(where)}"


# -- what there is -------------------------------------------------------------------------------------------


def _state(here: Here) -> tuple[str, str, Item]:
    """A word, a sentence and details about what this node holds of the key."""
    live = here.replica.entries.live(here.key, here.host.now_ms)
    groups = siblings(here.replica.entries, live)
    if groups:
        return _present(here, groups)
    held = here.replica.entries.held(here.key)
    last = next(rows_of_key(here.reader, here.key, None, is_lost=False), None)
    if held:
        entry = held[-1]
        summary = f"its time to live is over; {_whose(here, entry.dot, entry.agent)} wrote it"
        return "expired", summary, {"removed": _removed(here, PastRow(entry, None))}
    if last is None:
        trimmed = here.replica.past.floor
        more = "; history does not reach back for ever, so it may have been deleted long ago" if trimmed else ""
        return "never", f"no write of this key has come to this node{more}", {}
    fate = Fate(last.fate).name.lower() if last.fate is not None else "removed"
    state = fate if fate in ("expired", "deleted", "trimmed") else "deleted"
    if last.removal is None:
        summary = "it was removed on another node; by whom is not known here, for a snapshot brought that"
    else:
        by = _whose(here, last.removal.dot, last.removal.agent)
        summary = {
            "expired": f"its time to live was over, and {here.reader.node_of(last.removal.dot.writer)} removed it",
            "trimmed": f"{by} trimmed all of it",
        }.get(state, f"{by} deleted it")
    return state, summary, {"removed": _removed(here, last)}


def _present(here: Here, groups: list[Sibling]) -> tuple[str, str, Item]:
    policy = policy_of(here.replica.entries, groups)
    schema = here.replica.schemas.of(here.key)
    found: Item = {
        "values": [_value(here, group, is_first=n == 0) for n, group in enumerate(groups[:VALUES_SHOWN_MAX])],
        "values_total": len(groups),
        "policy": {"name": policy.name, "pattern": schema.pattern or None, "why": _why(policy.name, schema.pattern)},
    }
    first = found["values"][0]
    if len(groups) == 1:
        how = _how(first)
        return "present", f"{first['agent']}@{first['node']} wrote it{how}", found
    winner = "none is chosen before somebody resolves it" if policy.is_manual else f"{first['dot']} is shown first"
    summary = f"{len(groups)} values that had not seen each other; by the read policy {policy.name} {winner}"
    return "conflict", summary, found


def _why(name: str, pattern: str) -> str:
    return f"the schema of {pattern} says so" if pattern else "the default" if name == "lww" else ""


def _how(value: Item) -> str:
    if value["over"] is None:
        return "" if value["came"] != "made_here" else ", here"
    return f", and it came over {value['over']}" + (" in a snapshot" if value["came"] == "snapshot" else "")


def _value(here: Here, group: Sibling, *, is_first: bool) -> Item:
    """One of the values: the change that wrote it, how it came, and who else has it."""
    newest: Entry = group[-1]
    item = describe(here.replica, group, here.reader.node_of, inline_value)
    holders, lacking = _holders(here, newest.dot)
    return {
        **item,
        "first": is_first,
        "writer": newest.dot.writer,
        "seq": newest.dot.seq,
        "expires": newest.expires_ms(),
        **_arrival(here, newest.dot),
        "held_by": holders,
        "not_held_by": lacking,
    }


def _arrival(here: Here, dot: Dot) -> Item:
    """How a change came here."""
    origin = here.replica.origins.get(dot.writer)
    if origin is not None and origin[0] == here.host.identity.node:
        return {"came": "made_here", "over": None, "received": None}
    arrival = here.replica.arrivals.of(dot.writer, dot.seq)
    if arrival is None:
        return {"came": "earlier", "over": None, "received": None}
    over = node_names(here.host).get(arrival.node) or arrival.node[:12]
    return {"came": "snapshot" if arrival.is_snapshot else "change", "over": over, "received": arrival.time_ms}


def _holders(here: Here, dot: Dot) -> tuple[list[str], list[str]]:
    """The other nodes that have said that they have a change on disk, and those that have not.

    Of nodes that are reached only over others, and have not told in time, nothing is known: they are in neither.
    """
    vector: VersionVector = {dot.writer: dot.seq}
    _, met = here.host.spaces.holders([here.replica.name]).counted()
    holders = [(peer, peer.holds(here.replica.name, vector)) for peer in met()]
    mesh, now_s = here.host.sync.mesh, here.host.now_s
    ways, name = mesh.reach.ways(), here.replica.name
    far = {node for node, way in ways.items() if way.hops > 1 and not mesh.knows(name, node, now_s)}
    lacking = [peer.name for peer, has in holders if not has and peer.node not in far]
    return sorted(peer.name for peer, has in holders if has), sorted(lacking)


def _removed(here: Here, row: PastRow) -> Item:
    entry, removal = row.entry, row.removal
    item: Item = {
        "written": {"agent": entry.agent, "node": here.reader.node_of(entry.dot.writer), "time": hlc_ms(entry.hlc)},
        "dot": encode_dot(entry.dot),
        "expires": entry.expires_ms(),
        "by": None,
    }
    if removal is not None:
        item["by"] = {
            "op": removal.operation,
            "agent": removal.agent,
            "node": here.reader.node_of(removal.dot.writer),
            "time": hlc_ms(removal.hlc),
            "dot": encode_dot(removal.dot),
            **_arrival(here, removal.dot),
        }
    return item


def _whose(here: Here, dot: Dot, agent: str) -> str:
    return f"{agent}@{here.reader.node_of(dot.writer)}"


# -- what it waits for -----------------------------------------------------------------------------------------


def _at_the_gate(here: Here) -> Iterable[Item]:
    """Changes of this key that are here and may not be shown yet."""
    held = [change for change in here.replica.gate.held() if any(op.key == here.key for op in change.ops)]
    for change in held[:HELD_SHOWN_MAX]:
        yield _waiting(here, change)
    if len(held) > HELD_SHOWN_MAX:
        yield _reason("gap", f"and {len(held) - HELD_SHOWN_MAX:,} more changes of this key wait at the causal gate")


def _waiting(here: Here, change: Change) -> Item:
    waits_for = blocker(change, here.replica.vector)
    if waits_for is None:
        return _barred(here, change)
    writer, seq = waits_for
    is_gap = writer == change.writer
    operation = ", ".join(sorted({operation_of(op) for op in change.ops if op.key == here.key}))
    arrival = _arrival(here, Dot(change.writer, change.seq, 0))
    over = f" came over {arrival['over']} and" if arrival["over"] else ""
    what = "its writer's change before it" if is_gap else "a change that its author had seen"
    whose = _writer_name(here, writer)
    have = _who_has(here, {writer: seq})
    return _reason(
        "gap" if is_gap else "dependency",
        f"change {change.seq} of {_writer_name(here, change.writer, change)} ({operation} by {change.agent}){over} "
        f"waits for {what}, {seq} of {whose}, which is not here: {have}",
        change={"writer": change.writer, "seq": change.seq, "agent": change.agent, "time": hlc_ms(change.hlc)},
        waits_for={"writer": writer, "seq": seq, "node": whose},
        **arrival,
    )


def _barred(here: Here, change: Change) -> Item:
    """It waits for nothing but for itself."""
    operation = ", ".join(sorted({operation_of(op) for op in change.ops if op.key == here.key}))
    return _reason(
        "quarantine",
        f"change {change.seq} of {_writer_name(here, change.writer, change)} ({operation} by {change.agent}) fits into "
        "no table of this node and is kept aside: see troubleshooting under quarantined",
        alarm="quarantined",
        change={"writer": change.writer, "seq": change.seq, "agent": change.agent, "time": hlc_ms(change.hlc)},
    )


def _writer_name(here: Here, writer: Writer, change: Change | None = None) -> str:
    if writer in here.replica.origins:
        return here.replica.node_of(writer)
    if change is not None and change.origin is not None:
        return change.origin[1]
    return "a node not heard of here"


def _who_has(here: Here, vector: VersionVector) -> str:
    """Which nodes are known to have what is lacking, in words."""
    having = [peer for peer in here.host.sync.peers.values() if _has(peer, here.replica.name, vector)]
    connected = sorted(peer.name for peer in having if peer.link is not None)
    if connected:
        return f"{names(connected)} {_has_verb(connected)} it and {_is_verb(connected)} connected"
    gone = sorted(peer.name for peer in having)
    if gone:
        return f"{names(gone)} {_has_verb(gone)} it, and {_is_verb(gone)} not connected"
    return "no node that this one has met is known to have it"


def _has(peer: Peer, space: str, vector: VersionVector) -> bool:
    if peer.holds(space, vector):
        return True
    here = None if peer.link is None else peer.link.spaces.get(space)
    return here is not None and not missing(here.known, vector)


def _has_verb(nodes: list[str]) -> str:
    return "has" if len(nodes) == 1 else "have"


def _is_verb(nodes: list[str]) -> str:
    return "is" if len(nodes) == 1 else "are"


def _no_room(here: Here) -> Iterable[Item]:
    if here.host.read_only:
        yield _reason("no_space", f"changes of other nodes are not taken in now: {here.host.read_only}")


def _alarms(here: Here) -> Iterable[Item]:
    """What is wrong with this space, or with this node as a whole."""
    is_told = any(True for _ in _at_the_gate(here))  # what keeps a change of this very key is known
    of_node = [
        alarm
        for alarm in here.host.alarms.of("")
        if alarm.code in NODE_ALARMS - ({"quarantined"} if is_told else set())
    ]
    for alarm in (*here.host.alarms.of(here.replica.name), *of_node):
        code = alarm.code if alarm.code not in QUARANTINES else "quarantine"
        yield _reason(code, alarm.message, alarm=alarm.code, since=alarm.since_ms)


NODE_ALARMS = frozenset({"removed", "quarantined"})
"""Those about the node as a whole that may be why something is missing."""
QUARANTINES = frozenset({"edit_skipped", "quarantined"})
"""Alarms which say that something is set aside and does not count."""


def _stopped(here: Here) -> Iterable[Item]:
    stopped = [
        peer.name
        for peer in here.host.sync.peers.values()
        if peer.link is not None and (link := peer.link.spaces.get(here.replica.name)) is not None and link.stopped
    ]
    if stopped:
        yield _reason("stopped", f"this space is not synced with {names(sorted(stopped))} any more: see the alarm")


def _snapshot(here: Here) -> Iterable[Item]:
    for peer in here.host.sync.peers.values():
        found = None if peer.link is None else here.host.sync.transfers.progress(peer.link)
        if found is not None and found["direction"] == "in" and found["space"] == here.replica.name:
            of = f" of about {found['parts']}" if found["parts"] else ""
            yield _reason(
                "snapshot",
                f"a snapshot of the space comes from {peer.name} (part {found['part']}{of}); it shows when it is whole",
            )


def _lag(here: Here) -> Iterable[Item]:
    """Changes that others are known to have and this node has not: of which keys they are is not known."""
    vector = here.replica.vector
    name = here.replica.name
    for code, is_linked, what in (
        ("lag", True, "on their way; whether they touch this key shows when they are here"),
        ("lag", False, "but not connected: they come when it is, or through others"),
    ):
        found: list[str] = []
        most = 0
        for peer in here.host.sync.peers.values():
            lacking = missing(vector, peer.acked.get(name, {}))
            if lacking and (peer.link is not None) == is_linked and here.host.spaces.may_hold(name, peer.node):
                found.append(peer.name)
                most = max(most, lacking)
        if found:
            where = names(sorted(found))
            many = f"{most:,} change{'s' if most > 1 else ''}"
            yield _reason(code, f"{where} {_has_verb(found)} {many} more than this node, {what}", changes=most)


def _cut_off(here: Here) -> Iterable[Item]:
    """Nodes that may hold the space and are not connected may have written whatever they like."""
    _, met = here.host.spaces.holders([here.replica.name]).counted()
    live = here.host.sync.live_nodes()
    gone = sorted((peer for peer in met() if peer.node not in live), key=lambda peer: (peer.last_seen_ms, peer.name))
    if gone:
        who = [peer.name for peer in gone]
        # Why a connection was closed may name what was on it: that is for who may read everything here.
        errors = [peer.last_error for peer in reversed(gone) if peer.last_error and here.reader.limit is None]
        error = errors[0] if errors else ""
        yield _reason(
            "cut",
            f"{names(who)} {_is_verb(who)} not connected: what was written there since cannot be known here"
            + (f" ({error})" if error else ""),
            nodes=[{"name": peer.name, "last_seen": peer.last_seen_ms or None} for peer in gone[:20]],
        )
    unheard = [dial for dial in here.host.sync.dials.values() if not dial.node]
    if unheard and not gone:
        urls = names(sorted(dial.url for dial in unheard))
        yield _reason("cut", f"nobody has answered yet at {urls}: what is written there cannot be known here")


def _alone(here: Here) -> Iterable[Item]:
    sync = here.host.sync
    if not sync.peers and not sync.dials and here.host.fleet.counted()[0] <= 1:
        yield _reason("alone", "this node knows of no other: there is nobody that it could lack anything of")


def _unsent(here: Here) -> Iterable[Item]:
    """Which nodes do not have yet what is shown here."""
    live = here.replica.entries.live(here.key, here.host.now_ms)
    if not live:
        return
    _, lacking = _holders(here, live[-1].dot)
    if lacking:
        yield _reason("unconfirmed", f"{names(lacking)} {_has_verb(lacking)} not confirmed to have the newest value")


FINDERS: tuple[Finder, ...] = (
    _at_the_gate, _no_room, _stopped, _alarms, _snapshot, _lag, _cut_off, _alone, _unsent,
)  # fmt: skip
"""In the order in which they are told: what surely concerns the key first."""

HIDDEN = "there is an alarm about this space; who may not read all of the space is not told which keys it names"

Handler = Callable[[Any, int, Mapping[str, Any]], object]


def explain_request(desk: Desk) -> Handler:
    """The handler of ``explain``."""
    host = desk.host

    def answer(agent: Agent, request: int, args: Mapping[str, Any]) -> object:
        space = args.get("space", agent.space)
        if type(space) is not str:
            raise InvalidRequest("space must be the name of a space")
        if not host.guard.sees(agent, space):  # as of everything else, so that nobody learns of spaces by asking
            raise host.guard.missing(agent, space)
        spaces = [space] if space in host.replicas else []
        return knowing_far(desk, agent, request, spaces, lambda: told(agent, space, args))

    def told(agent: Agent, space: str, args: Mapping[str, Any]) -> Item:
        host.guard.check(agent, "explain", args)  # once more: it may have waited
        found = explain(host, agent, space, args.get("key"))
        if not host.guard.sees_all_of(agent, space):
            for reason in found["reasons"]:  # an alarm may name keys that this agent is not to know of
                reason["message"] = HIDDEN if "alarm" in reason else reason["message"]
        return found

    return answer
