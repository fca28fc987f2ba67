"""What a running daemon says of itself, judged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from crdtsyncd.doctor.finding import Finding, ok, problem, warning
from crdtsyncd.wording import ago, counted, moment, span

SKEW_MS_MAX = 2000
SILENT_S_MAX = 45.0
"""What lacks something confirms it at once, and is asked every 10 seconds whether it is there."""
REMEDIES = {
    "archived_writes": "read them with --space NAME@EPOCH, and write again what is wanted of them",
    "behind_log": "upgrade the peer that the message names, so that it takes a snapshot",
    "clock_ahead": "set the clock of the node that the message names: sudo timedatectl set-ntp true",
    "disk_filling": "free some space on that disk before writes are refused",
    "divergence": "the nodes mend it by themselves; if it lasts, report it with the logs of both",
    "edit_skipped": "see in the log which key and which agent it was: journalctl --unit crdtsyncd | grep edit_skipped",
    "fork": "a disk went back in time: see docs/reference/alarms.md, under fork",
    "journal_given_up": "wait until the peers have given back what they hold, and look for what they did not have",
    "conflict_unresolved": "look at it with crdtsync conflicts, and settle it with crdtsync resolve",
    "copied_node": "stop one of the two daemons that run from copies of one data directory, and remove its copy",
    "certificate_expires": "while connected, crdtsync cluster rotate-key; else crdtsync cluster join INVITE",
    "removed": "if this host is to come back: stop its daemon, move its data directory away, and join it as a new node",
    "near_limit": "see docs/reference/alarms.md, under near_limit, for what to do about each",
    "not_all_merged": "import the files that the message names, and remove them: see docs/reference/alarms.md",
    "not_joined": "do what the reason says; a new invite comes from a member: crdtsync cluster invite",
    "no_metrics": "see who has the port: ss -ltnp; or choose another for metrics_listen, and restart the daemon",
    "not_listening": "see who has the port: ss -ltnp; or listen elsewhere: crdtsync cluster init --listen HOST:PORT",
    "no_space": "free some space on that disk; writes go on by themselves",
    "quarantined": "keep a copy of the data directory and report it with the log: see docs/reference/alarms.md",
    "resolver_failed": "correct the resolver; the log says why: journalctl --unit crdtsyncd | grep resolver_failed",
    "resolvers_disagree": "make the resolvers of that key agree, or let one of them go",
    "same_name": "give one of the two another node_name, and restart its daemon",
    "snapshot_refused": "upgrade the older of the two nodes; if both are of one version, report it with both logs",
}
"""What to do about an alarm; a test sees that none is missing here and in docs/reference/alarms.md."""

_UNKNOWN = "see docs/reference/alarms.md; a newer daemon may know alarms that this command does not"


def examine_status(status: dict[str, Any]) -> Iterator[Finding]:
    """Alarms, peers, clocks."""
    for alarm in status["alarms"]:
        since = f" (since {ago(moment(alarm['since']))})"
        yield problem(alarm["code"], alarm["message"] + since, REMEDIES.get(alarm["code"], _UNKNOWN))
    if not status["alarms"]:
        yield ok("alarms", "none")
    for peer in status["peers"]:
        yield from _peer(peer)
    if not status["peers"]:
        yield ok("peers", "none known")
    waiting = {space["name"]: space["pending_changes"] for space in status["spaces"] if space["pending_changes"]}
    for space, count in waiting.items():
        remedy = "if that does not go down, see which peers are not connected: crdtsync peers"
        yield warning(
            "sync", f"{counted(count, 'change')} of {space} waiting for others that have not come yet", remedy
        )


def _peer(peer: dict[str, Any]) -> Iterator[Finding]:
    name = peer.get("name") or peer.get("url") or "?"
    if peer["state"] == "connected":
        silent_s = time.time() - (peer.get("last_seen") or 1000 * time.time()) / 1000
        lag = sum((peer.get("behind") or {}).values()) + sum((peer.get("ahead") or {}).values())
        said = f"{name} is connected" + (f", {counted(lag, 'change')} apart" if lag else "")
        if lag and silent_s > SILENT_S_MAX:
            yield warning(
                "peers",
                f"{said}, and has said nothing for {span(silent_s)}",
                "see on that node whether its daemon hangs, or its host has no time for it",
            )
        else:
            yield ok("peers", said)
    elif peer["state"] == "indirect":
        yield ok("peers", f"{name} is reached over {peer.get('via') or 'others'}")
    elif peer["state"] == "refused":
        yield problem(
            "peers",
            f"{name} refuses this node: {peer.get('last_error')}",
            "do what the reason says, on that node or here",
        )
    else:
        error = f": {peer['last_error']}" if peer.get("last_error") else ""
        yield warning(
            "peers",
            f"{name} is {peer['state']}, last seen {ago(moment(peer.get('last_seen')))}{error}",
            "start its daemon, or see that its address is right and no firewall is between; it catches up by itself",
        )
    skew_ms = peer.get("clock_skew_ms")
    if skew_ms is not None and abs(skew_ms) > SKEW_MS_MAX:
        way = "ahead of" if skew_ms > 0 else "behind"
        remedy = "set the clock that is wrong, and let it be kept: sudo timedatectl set-ntp true"
        yield warning("clock", f"the clock of {name} is {span(abs(skew_ms) / 1000)} {way} this one", remedy)
