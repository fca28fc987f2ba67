"""Fetches from peers the values that this node's disk has spoilt, and gives peers those that they lack.

A value is found to be damaged when somebody reads it (:mod:`crdtsync.core.storage.long_values`), and what the log holds
is used at once. What it does not hold is asked for here: of one peer after the other, at first every two seconds, then
ever more seldom. What comes is compared with the entry's hash and written to its place. When a space has none left, its
alarm ends.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from crdtsync.core.alarm_catalogue import VALUE_DAMAGED
from crdtsync.wire.peer.values import INTACT_BYTES_MAX, SPOILT_ENTRIES_MAX, Intact, Spoilt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crdtsync.causality import Dot
    from crdtsync.core.alarms import Alarms
    from crdtsync.core.peers.outbox import Outbox
    from crdtsync.core.peers.peer_state import Link
    from crdtsync.core.replica.replica import Replica

ASK_INTERVAL_S = 2.0
ASK_INTERVAL_S_MAX = 600.0


class _Asking:
    """In one space: when a peer is asked next, how long after the last one, and how many were asked."""

    def __init__(self, now_s: float) -> None:
        self.due_s = now_s
        self.interval_s = ASK_INTERVAL_S
        self.count = 0


class ValueRepair:
    """Of one node."""

    def __init__(
        self, replicas: Mapping[str, Replica], links: Mapping[int, Link], outbox: Outbox, alarms: Alarms
    ) -> None:
        self._replicas = replicas
        self._links = links
        self._outbox = outbox
        self._alarms = alarms
        self._asking: dict[str, _Asking] = {}

    def deadline_s(self) -> float | None:
        """When :meth:`run` wants to be called."""
        spaces = self._alarms.scopes(VALUE_DAMAGED)
        due = [self._asking[space].due_s if space in self._asking else 0.0 for space in spaces]
        return min(due, default=None)

    def run(self, now_s: float) -> None:
        """Ask a peer for what is damaged, in each space where that is due."""
        spaces = self._alarms.scopes(VALUE_DAMAGED)
        for gone in self._asking.keys() - set(spaces):
            del self._asking[gone]
        for space in spaces:
            replica = self._replicas.get(space)
            asking = self._asking.setdefault(space, _Asking(now_s))
            if now_s < asking.due_s:
                continue
            if replica is None or not replica.values.damaged:
                self._alarms.clear(VALUE_DAMAGED, space)
                continue
            asking.due_s = now_s + asking.interval_s
            links = self._able(space)
            if links and replica.values.wanted:
                self._ask(links[asking.count % len(links)], replica)
                asking.count += 1
            if asking.count >= 2 * len(links):
                asking.interval_s = min(2 * asking.interval_s, ASK_INTERVAL_S_MAX)

    def _able(self, space: str) -> list[Link]:
        return [
            link
            for _, link in sorted(self._links.items())
            if link.hello is not None and space in link.spaces and not link.spaces[space].stopped and link.takes(Spoilt)
        ]

    def _ask(self, link: Link, replica: Replica) -> None:
        wanted = [(entry.key, dot) for dot, (entry, _) in islice(replica.values.wanted.items(), SPOILT_ENTRIES_MAX)]
        self._outbox.send(link, Spoilt(replica.name, replica.epoch, wanted))

    def asked(self, link: Link, replica: Replica, message: Spoilt) -> None:
        """A peer asks: give it what there is, about a MiB."""
        found: list[tuple[str, Dot]] = []
        values: list[bytes] = []
        for key, dot in message.entries:
            value = replica.value_of(key, dot)
            if value is None:
                continue
            found.append((key, dot))
            values.append(value)
            if sum(map(len, values)) >= INTACT_BYTES_MAX:
                break
        if found:
            self._outbox.send(link, Intact(replica.name, replica.epoch, found, values))

    def came(self, replica: Replica, message: Intact, now_s: float) -> None:
        """A peer has answered."""
        for key, dot, value in message.found():
            if replica.values.came(dot, value):
                self._alarms.journal("value_mended", space=replica.name, key=key)
                if asking := self._asking.get(replica.name):
                    asking.due_s, asking.interval_s, asking.count = now_s, ASK_INTERVAL_S, 0
