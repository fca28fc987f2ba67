"""Reasons why a key may lack something on this node: what waits, who is ahead, cut off or silent, and what was not
sent.

[Troubleshoot](../how-to/troubleshoot.md#something-is-missing) says what the codes of reasons mean. These need more, or
have fields beside ``message``:

- ``gap``, ``dependency``: a change of this key is here and waits: for an earlier one of its writer, or for one that its
  author had seen. ``change``, ``waits_for`` (``writer, seq, node``), ``came``, ``over``, ``received``.
- ``lag``: ``changes``.
- ``cut``, ``silent``: ``nodes``.
- ``quarantine``: ``alarm``.
- ``snapshot``: the state of a peer is on its way.
- ``alone``: this node knows of no other.
- ``unconfirmed``: nodes have not confirmed the newest value.
- ``space_elsewhere``: this node does not hold the space.

Any other code is that of an [alarm](alarms.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from crdtsync.causality import Dot, VersionVector, Writer, hlc_ms, missing
from crdtsync.core.cluster.node_names import NAMES_MAX, names
from crdtsync.core.crdt.causal_gate import blocker
from crdtsync.core.diagnostics.explain_subject import Item, Subject, arrival, holders, reason
from crdtsync.core.kinds.registry import operation_of
from crdtsync.wire.change import Change

if TYPE_CHECKING:
    from crdtsync.core.peers.peer_state import Peer

SILENT_S = 2.0
"""A peer that does not answer for so long may be cut off, or frozen."""
HELD_SHOWN_MAX = 3
"""Changes at the causal gate that are told one by one."""
Finder = Callable[[Subject], Iterable[Item]]


def _at_the_gate(here: Subject) -> Iterable[Item]:
    """Changes of this key that are here and may not be shown yet."""
    early = map(here.replica.codec.decode, here.replica.gate.held(here.key.encode()))
    held = [change for change in early if any(op.key == here.key for op in change.ops)]
    for change in held[:HELD_SHOWN_MAX]:
        yield _waiting(here, change)
    if len(held) > HELD_SHOWN_MAX:
        yield reason("gap", f"and {len(held) - HELD_SHOWN_MAX:,} more changes of this key wait at the causal gate")


def _waiting(here: Subject, change: Change) -> Item:
    waits_for = blocker(change, here.replica.vector)
    if waits_for is None:
        return _barred(here, change)
    writer, seq = waits_for
    is_gap = writer == change.writer
    operation = ", ".join(sorted({operation_of(op).name for op in change.ops if op.key == here.key}))
    came = arrival(here, Dot(change.writer, change.seq, 0))
    over = f" came over {came['over']} and" if came["over"] else ""
    what = "its writer's change before it" if is_gap else "a change that its author had seen"
    whose = _writer_name(here, writer)
    have = _who_has(here, {writer: seq})
    return reason(
        "gap" if is_gap else "dependency",
        f"change {change.seq} of {_writer_name(here, change.writer, change)} ({operation} by {change.agent}){over} "
        f"waits for {what}, {seq} of {whose}, which is not here: {have}",
        change={"writer": change.writer, "seq": change.seq, "agent": change.agent, "time": hlc_ms(change.hlc)},
        waits_for={"writer": writer, "seq": seq, "node": whose},
        **came,
    )


def _barred(here: Subject, change: Change) -> Item:
    """It waits for nothing but for itself."""
    operation = ", ".join(sorted({operation_of(op).name for op in change.ops if op.key == here.key}))
    return reason(
        "quarantine",
        f"change {change.seq} of {_writer_name(here, change.writer, change)} ({operation} by {change.agent}) fits into "
        "no table of this node and is kept aside: docs/reference/alarms.md says more, under quarantined",
        alarm="quarantined",
        change={"writer": change.writer, "seq": change.seq, "agent": change.agent, "time": hlc_ms(change.hlc)},
    )


def _writer_name(here: Subject, writer: Writer, change: Change | None = None) -> str:
    if writer in here.replica.origins:
        return here.replica.node_of(writer)
    if change is not None and change.origin is not None:
        return change.origin[1]
    return "a node not heard of here"


def _who_has(here: Subject, vector: VersionVector) -> str:
    """Which nodes are known to have what is lacking, in words."""
    having = [peer for peer in here.node.sync.peers.values() if _has(peer, here.replica.name, vector)]
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


def _no_room(here: Subject) -> Iterable[Item]:
    if here.node.read_only:
        yield reason("no_space", f"changes of other nodes are not taken in now: {here.node.read_only}")


def _alarms(here: Subject) -> Iterable[Item]:
    """The faults of this space, or of this node as a whole."""
    is_told = any(True for _ in _at_the_gate(here))  # what keeps a change of this very key is known
    of_node = [
        alarm
        for alarm in here.node.alarms.of("")
        if alarm.code in NODE_ALARMS - ({"quarantined"} if is_told else set())
    ]
    found = [*here.node.alarms.of(here.replica.name), *of_node]
    for alarm in [alarm for alarm in found if alarm.concerns(here.key)]:
        code = alarm.code if alarm.code not in QUARANTINES else "quarantine"
        yield reason(code, alarm.message, alarm=alarm.code, since=alarm.since_ms)


NODE_ALARMS = frozenset({"removed", "quarantined"})
"""Those about the node as a whole that may be why something is missing."""
QUARANTINES = frozenset({"edit_skipped", "quarantined"})
"""Alarms which say that something is set aside and does not count."""


def _stopped(here: Subject) -> Iterable[Item]:
    stopped = [
        peer.name
        for peer in here.node.sync.peers.values()
        if peer.link is not None and (link := peer.link.spaces.get(here.replica.name)) is not None and link.stopped
    ]
    if stopped:
        yield reason("stopped", f"this space is not synced with {names(sorted(stopped))} any more: see the alarm")


def _snapshot(here: Subject) -> Iterable[Item]:
    for peer in here.node.sync.peers.values():
        found = None if peer.link is None else here.node.sync.snapshot_progress(peer.link)
        if found is not None and found["direction"] == "in" and found["space"] == here.replica.name:
            of = f" of about {found['parts']}" if found["parts"] else ""
            yield reason(
                "snapshot",
                f"a snapshot of the space comes from {peer.name} (part {found['part']}{of}); it shows when it is whole",
            )


def _lag(here: Subject) -> Iterable[Item]:
    """Changes that others are known to have and this node has not: of which keys they are is not known."""
    vector = here.replica.vector
    name = here.replica.name
    for code, is_linked, what in (
        ("lag", True, "on their way; whether they touch this key shows when they are here"),
        ("lag", False, "but not connected: they come when it is, or through others"),
    ):
        found: list[str] = []
        most = 0
        for peer in here.node.sync.peers.values():
            lacking = missing(vector, peer.acked.get(name, {}))
            if lacking and (peer.link is not None) == is_linked and here.node.spaces.may_hold(name, peer.node):
                found.append(peer.name)
                most = max(most, lacking)
        if found:
            where = names(sorted(found))
            many = f"{most:,} change{'s' if most > 1 else ''}"
            yield reason(code, f"{where} {_has_verb(found)} {many} more than this node, {what}", changes=most)


def _cut_off(here: Subject) -> Iterable[Item]:
    """Nodes that may hold the space and are not connected may have written whatever they like."""
    _, met = here.node.spaces.holders([here.replica.name]).counted()
    live = here.node.sync.live_nodes()
    gone = sorted((peer for peer in met() if peer.node not in live), key=lambda peer: (peer.last_seen_ms, peer.name))
    if gone:
        who = [peer.name for peer in gone]
        # Why a connection was closed may name what was on it: that is for who may read everything here.
        errors = [peer.last_error for peer in reversed(gone) if peer.last_error and here.reader.limit is None]
        error = errors[0] if errors else ""
        yield reason(
            "cut",
            f"{names(who)} {_is_verb(who)} not connected: what was written there since cannot be known here"
            + (f" ({error})" if error else ""),
            nodes=[{"name": peer.name, "last_seen": peer.last_seen_ms or None} for peer in gone[:20]],
        )
    unheard = [dial for dial in here.node.sync.dials.values() if not dial.node]
    if unheard and not gone:
        urls = names(sorted(dial.url for dial in unheard))
        yield reason("cut", f"nobody has answered yet at {urls}: what is written there cannot be known here")


def _silent(here: Subject) -> Iterable[Item]:
    """Peers that stand as connected and do not answer: it takes a while until a connection is given up."""
    now_s = here.node.now_s
    found = [
        (peer, silent_s)
        for peer in here.node.sync.peers.values()
        if peer.link is not None
        and peer.link.probe_sent_s is not None
        and now_s - peer.link.probe_sent_s >= SILENT_S
        and (silent_s := _silent_s(here, peer)) >= SILENT_S
        and here.node.spaces.may_hold(here.replica.name, peer.node)
    ]
    if found:
        who = names(sorted(peer.name for peer, _ in found))
        is_one = len(found) == 1
        yield reason(
            "silent",
            f"{who} {'does' if is_one else 'do'} not answer, and nothing was heard of {'it' if is_one else 'them'} for "
            f"{min(silent_s for _, silent_s in found):.0f} s: what was written there since cannot be known here",
            nodes=[{"name": peer.name, "last_seen": peer.last_seen_ms or None} for peer, _ in found[:NAMES_MAX]],
        )


def _silent_s(here: Subject, peer: Peer) -> float:
    """For how long nothing has come from a peer that is connected."""
    return max(0.0, (here.node.now_ms - peer.last_seen_ms) / 1000)


def _alone(here: Subject) -> Iterable[Item]:
    sync = here.node.sync
    if not sync.peers and not sync.dials and here.node.fleet.counted()[0] <= 1:
        yield reason("alone", "this node knows of no other: there is nobody that it could lack anything of")


def _unsent(here: Subject) -> Iterable[Item]:
    """Which nodes do not have yet what is shown here."""
    live = here.replica.entries.live(here.key, here.node.now_ms)
    if not live:
        return
    _, lacking = holders(here, live[-1].dot)
    if lacking:
        peers = [peer for peer in here.node.sync.peers.values() if peer.name in lacking and peer.link is not None]
        silent = {peer.name: silent_s for peer in peers if (silent_s := _silent_s(here, peer)) >= SILENT_S}
        since = f"; nothing was heard of {names(sorted(silent))} for {min(silent.values()):.0f} s" if silent else ""
        yield reason(
            "unconfirmed", f"{names(lacking)} {_has_verb(lacking)} not confirmed to have the newest value{since}"
        )


FINDERS: tuple[Finder, ...] = (
    _at_the_gate, _no_room, _stopped, _alarms, _snapshot, _lag, _cut_off, _silent, _alone, _unsent,
)  # fmt: skip
"""In the order in which they are told: what surely concerns the key first."""
