"""Fetches from peers the values that this node's disk has spoilt, and gives peers those that they lack.

A read finds that a value is damaged (:mod:`crdtsync.core.storage.long_values`). If the log holds the value, the node
uses that at once. If not, it asks for it here: one peer after the other, at first every two seconds, then ever more
seldom. It compares the answer with the entry's hash and writes it to its place. If no peer has the value, it makes room
for those that are still to be asked for, and is forgotten when it is no longer alive. When a space has no damaged value
left, its alarm ends.

A change that the disk has spoilt in the log is asked for in the same way, by a dot that no operation has.

The peer that is asked reads a few values a turn: 64 of 1 MiB, or out of changes of 4 MiB, would hold up everybody. It
keeps one question of each peer about a space, and answers it once; a peer that asks again meanwhile gets no second
answer.
"""

from __future__ import annotations

from itertools import islice
from math import ceil
from typing import TYPE_CHECKING

from crdtsync.core.alarm_catalogue import CHANGE_DAMAGED, VALUE_DAMAGED
from crdtsync.core.replica.snapshots.merge import MergedSnapshot
from crdtsync.wire.peer.values import ANY_KEY, INTACT_BYTES_MAX, SPOILT_ENTRIES_MAX, WHOLE_CHANGE, Intact, Spoilt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crdtsync.causality import Dot
    from crdtsync.core.crdt.entry import Entry
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.peers.outbox import Outbox
    from crdtsync.core.peers.peer_state import Link
    from crdtsync.core.replica.replica import Replica
    from crdtsync.core.sync.snapshot_client import SnapshotClient

ASK_INTERVAL_S = 2.0
ASK_INTERVAL_S_MAX = 600.0
ASKED_CHANGES_MAX = 16
"""Changes that one message asks for: the rest of it is for values."""
SLICE_ENTRIES = 4
"""Values that are read for peers in one turn: each may be 1 MiB, or stand in a change of 4 MiB."""
SLICE_INTERVAL_S = 0.02


class _Asking:
    """In one space: when a peer is asked next, how long after the last one, and how many were asked."""

    def __init__(self, now_s: float) -> None:
        self.due_s = now_s
        self.interval_s = ASK_INTERVAL_S
        self.count = 0


class _Answering:
    """The question of a peer: what has been found of it, and how many of its entries were looked for."""

    def __init__(self, link: Link, replica: Replica, message: Spoilt) -> None:
        self.link = link
        self.replica = replica
        self.message = message
        self.position = 0
        self.found: list[tuple[str, Dot]] = []
        self.values: list[bytes] = []

    def advance(self) -> bool:
        """Look for a few more; True: that was all, or about a MiB."""
        entries = self.message.entries
        for key, dot in entries[self.position : self.position + SLICE_ENTRIES]:
            value = self.replica.spoilt.value_of(key, dot, self.replica.checkpoints.recalled_numbers())
            if value is not None:
                self.found.append((key, dot))
                self.values.append(value)
                if sum(map(len, self.values)) >= INTACT_BYTES_MAX:
                    return True
        self.position += SLICE_ENTRIES
        return self.position >= len(entries)


class ValueRepair:
    """The repair of one node's values."""

    def __init__(self, node: NodeContext, links: Mapping[int, Link], outbox: Outbox, client: SnapshotClient) -> None:
        self._node = node
        self._links = links
        self._outbox = outbox
        self._client = client
        self._asking: dict[str, _Asking] = {}
        self._answering: dict[tuple[int, str], _Answering] = {}
        self._answer_due_s = 0.0

    def deadline_s(self) -> float | None:
        """When :meth:`tick` wants to be called."""
        due = [self._asking[space].due_s if space in self._asking else 0.0 for space in self._spaces()]
        if self._answering:
            due.append(self._answer_due_s)
        return min(due, default=None)

    def _spaces(self) -> set[str]:
        return {*self._node.alarms.scopes(VALUE_DAMAGED), *self._node.alarms.scopes(CHANGE_DAMAGED)}

    def tick(self, now_s: float) -> None:
        """Ask a peer for what is damaged, in each space where that is due, and answer what a peer has asked for."""
        self._answer()
        spaces = self._spaces()
        for gone in self._asking.keys() - spaces:
            del self._asking[gone]
        for space in sorted(spaces):
            asking = self._asking.setdefault(space, _Asking(now_s))
            if now_s >= asking.due_s:
                self._look(space, asking)

    def _look(self, space: str, asking: _Asking) -> None:
        """Ask for what is damaged in a space, or end its alarms."""
        replica = self._node.replicas.get(space)
        changes = {} if replica is None else replica.spoilt_changes
        wanted = {} if replica is None or replica.asleep is not None else replica.values.wanted
        if replica is not None:
            for dot in [dot for dot, row in changes.items() if row.position <= replica.trimmed_position]:
                del changes[dot]
        for alarm, subjects in ((VALUE_DAMAGED, wanted), (CHANGE_DAMAGED, changes)):
            if not subjects:
                self._node.alarms.clear(alarm, space)
        if replica is not None and (wanted or changes):
            asking.due_s = self._node.now_s + asking.interval_s
            self._ask(replica, asking, wanted)

    def _ask(self, replica: Replica, asking: _Asking, wanted: Mapping[Dot, tuple[Entry, bool]]) -> None:
        links, changes = self._able(replica.name), replica.spoilt_changes
        first = [*islice(changes, ASKED_CHANGES_MAX)]
        values_max = SPOILT_ENTRIES_MAX - len(first)
        if not links or (asking.count and asking.count % len(links) == 0):  # all were asked for the first of them
            if wanted:
                replica.values.pass_over(values_max, replica.entries.holds_dot)
            for dot in first:
                changes[dot] = changes.pop(dot)
        if not links or not (wanted or changes):
            return
        asked = [(ANY_KEY, dot) for dot in islice(changes, ASKED_CHANGES_MAX)]
        asked += [(entry.key, dot) for dot, (entry, _) in islice(wanted.items(), values_max)]
        self._outbox.send(links[asking.count % len(links)], Spoilt(replica.name, replica.epoch, asked))
        asking.count += 1
        rounds = max(len(wanted) / values_max, len(changes) / ASKED_CHANGES_MAX)
        if asking.count >= 2 * len(links) * ceil(rounds):
            asking.interval_s = min(2 * asking.interval_s, ASK_INTERVAL_S_MAX)

    def _able(self, space: str) -> list[Link]:
        return [
            link
            for _, link in sorted(self._links.items())
            if link.hello is not None and space in link.spaces and not link.spaces[space].stopped and link.takes(Spoilt)
        ]

    def asked(self, link: Link, replica: Replica, message: Spoilt) -> None:
        """A peer asks: give it what there is, about a MiB, within the next turns."""
        self._answering.setdefault((link.conn, replica.name), _Answering(link, replica, message))

    def _answer(self) -> None:
        """Look a little further for what the first of those who asked wants; then it is the next one's turn."""
        now_s = self._node.now_s
        if not self._answering or now_s < self._answer_due_s:
            return
        self._answer_due_s = now_s + SLICE_INTERVAL_S
        asked = next(iter(self._answering))
        answering = self._answering.pop(asked)
        link, replica = answering.link, answering.replica
        if link.conn not in self._links or self._node.replicas.get(replica.name) is not replica:
            return
        if not answering.advance():
            self._answering[asked] = answering
        elif answering.found:
            self._outbox.send(link, Intact(replica.name, replica.epoch, answering.found, answering.values))

    def came(self, replica: Replica, message: Intact) -> None:
        """A peer has answered."""
        if self._node.read_only:
            return
        keys: list[str] = []
        for key, dot, value in message.found():
            if dot.n == WHOLE_CHANGE:
                has_come = replica.spoilt.came(dot, value, replica.purges.are_gone)
            elif has_come := replica.values.came(dot, value):
                replica.caps.forget()  # it may be longer than what stood for it
                self._node.alarms.journal("value_mended", space=replica.name, key=key)
                if (entry := replica.entries.find(key, dot)) is not None:
                    keys.append(key)
                    replica.note_reserved((entry,))
            if has_come and (asking := self._asking.get(replica.name)):
                asking.due_s, asking.interval_s, asking.count = self._node.now_s, ASK_INTERVAL_S, 0
        if keys:  # who watches them knows them without the value, if they came by a snapshot
            self._client.merges.append((replica.name, MergedSnapshot(set(), [], [], [], kept=True, texts=keys)))
