"""Checks of a running daemon, by its status."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from crdtsyncd.doctor.finding import Finding, ok, problem, warning
from crdtsyncd.wording import ago, counted, moment, span

from crdtsync.core.alarm_catalogue import alarm_of

SKEW_MS_MAX = 2000
SILENT_S_MAX = 45.0
"""A peer that lacks something confirms it at once, and is asked every 10 seconds whether it is there."""

_FEATURES = {
    "cards": "presence",
    "deflate": "compressed snapshots",
    "digests": "comparing what both hold",
    "forks": "healing forks",
    "health": "telling others of its alarms",
    "mesh": "passing changes on",
    "resolvers": "resolvers of other hosts",
    "samples": "finding out what differs",
    "values": "spoilt values of others; it keeps nothing for checkpoints and lists the parts of blobs as keys",
    "votes": "quorum claims",
}
"""Features of peers, by the word that they use for each."""


def examine_status(status: dict[str, Any]) -> Iterator[Finding]:
    """Alarms, peers, clocks."""
    for alarm in status["alarms"]:
        since = f" (since {ago(moment(alarm['since']))})"
        yield problem(alarm["code"], alarm["message"] + since, alarm_of(alarm["code"]).remedy)
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
    elif peer["state"] == "indirect" and peer.get("last_error"):
        yield warning(
            "peers",
            f"{name} is reached over {peer.get('via') or 'others'} alone: {peer['last_error']}",
            "see what is between the two hosts; until then its changes take a detour",
        )
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
    state = (peer.get("health") or {}).get("state", "ready")
    if state == "read-only":
        yield warning(
            "peers",
            f"{name} is read-only: its disk is full, and it takes no changes",
            "free some space on its disk; it goes on by itself",
        )
    elif state != "ready":
        yield warning("peers", f"{name} says that it is {state!r}, which is unknown here", "ask who operates it")
    if peer.get("lacks"):
        unknown = ", ".join(_FEATURES.get(feature, feature) for feature in peer["lacks"])
        yield warning("peers", f"{name} runs an older version, which does not know: {unknown}", "upgrade it")
    skew_ms = peer.get("clock_skew_ms")
    if skew_ms is not None and abs(skew_ms) > SKEW_MS_MAX:
        way = "ahead of" if skew_ms > 0 else "behind"
        remedy = "set the clock that is wrong, and let it be kept: sudo timedatectl set-ntp true"
        yield warning("clock", f"the clock of {name} is {span(abs(skew_ms) / 1000)} {way} this one", remedy)
