"""Snapshots that are taken: whom to ask, taking in part by part, resuming, giving up, and merging at the end.

A node takes one of a space at a time, from one peer, and keeps each part on disk as it comes, so that a cut connection
or a restart costs one part. When all have come it is checked in slices, one a turn, for texts in it may take seconds to
look through. At the end it is merged at once (:func:`crdtsync.core.replica.snapshots.merge.merge_snapshot`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from crdtsync.causality import Dot, VersionVector, covers, merge
from crdtsync.core.alarm_catalogue import (
    SNAPSHOT_CONTRADICTED,
    SNAPSHOT_DOUBTED,
    SNAPSHOT_REFUSED,
    TAKEN_AWAY,
    TEXT_CONTESTED,
)
from crdtsync.core.peers.peer_state import Link, SpaceLink
from crdtsync.core.replica.replica import Replica
from crdtsync.core.replica.snapshots.merge import MergedSnapshot, merge_snapshot
from crdtsync.core.replica.snapshots.snapshot import Taking
from crdtsync.core.storage.rows import SnapshotPartRow
from crdtsync.core.sync.repair import Repaired, remove, repair
from crdtsync.core.sync.snapshot_check import DOUBTED_S, Checks, Contradicted, SnapshotCheck
from crdtsync.core.sync.snapshot_receipt import Receipt, check_whole
from crdtsync.errors import CrdtSyncError, ForkDetected, InvalidEncoding, PeerError, TooLarge
from crdtsync.wire.change import SHORT_HASH_BYTES
from crdtsync.wire.codec import pack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.changes import Want
from crdtsync.wire.peer.comparing import REMOVED_ENTRIES_MAX, Removed, Sampled
from crdtsync.wire.peer.snapshot import part_hash
from crdtsync.wire.peer.transfer import Offer, Part, Take
from crdtsync.wire.yjs.encoding import Steps

if TYPE_CHECKING:
    from crdtsync.core.node_context import NodeContext

PROGRESS_TIMEOUT_S = 30.0
"""How long a taker waits for the next part before it asks another peer."""
RESUME_WAIT_S = 15.0
"""How long a taker whose connection broke waits for the same peer before it starts anew with another."""
ORPHAN_S = 120.0
"""How long parts are kept of a snapshot whose giver is away: twice as long as it keeps one that nobody takes."""
REFUSED_S = 60.0
"""How long a peer whose snapshot was of no use is not asked again."""
ASKED_AGAIN_MAX = 2
"""How often a corrupt part is asked for again, and a snapshot begun anew, before another peer is asked."""
STRAY_BYTES_MAX = 16 * 1024 * 1024
"""Parts out of place, which were on their way when something was asked for again."""

Send = Callable[[Link, Message], None]


class SnapshotClient:
    """All snapshots that a node takes. ``merges`` collects what was merged, by space, for the node to tell."""

    def __init__(self, node: NodeContext, links: dict[int, Link], send: Send, room_bytes: int | None = None) -> None:
        self._node = node
        self._checks = Checks(node)
        self._links = links
        self._send = send
        self._refused_until_s: dict[tuple[str, str], float] = {}
        self.receipts: dict[str, Receipt] = {}
        self._merging: dict[str, tuple[str, VersionVector]] = {}  # of each space: whose was merged last, and its cut
        self._offered: set[str] = set()
        self.room_bytes = room_bytes
        """How much memory is free, and room on the disk; None: not known."""
        self.merges: list[tuple[str, MergedSnapshot]] = []
        self._restore()

    def reload(self, refusal: str = "") -> None:
        """The replicas have been read anew from disk: go on from what is there. ``refusal``: why the disk did not take
        the commit; a snapshot that was merged in it would not be taken the next time either.
        """
        self.merges.clear()
        self._restore()
        for space, (node, cut) in self._merging.items() if refusal else ():
            replica = self._node.replicas.get(space)
            if replica is not None and not covers(replica.vector, cut):  # it has not come to the disk
                self._note_refused(space, node, refusal)
        self._merging.clear()

    def forget(self, replica: Replica) -> None:
        """The space is no longer here, nor what was being taken of it."""
        self.receipts.pop(replica.name, None)
        self.merges = [(name, merged) for name, merged in self.merges if name != replica.name]
        self._refused_until_s = {key: due for key, due in self._refused_until_s.items() if key[0] != replica.name}

    def _restore(self) -> None:
        """Go on with what was being taken when this process, or the one before it, stopped."""
        now_s = self._node.now_s
        self.receipts.clear()
        for name, replica in sorted(self._node.replicas.items()):
            taking = None if replica.asleep is not None else self._staged(replica)
            if taking is not None:
                self.receipts[name] = Receipt(replica, taking.node, None, now_s, now_s + RESUME_WAIT_S, taking, now_s)

    def _staged(self, replica: Replica) -> Taking | None:
        taking: Taking | None = None
        try:
            for row in replica.staging.parts():
                short_hash, data = row.data[:SHORT_HASH_BYTES], row.data[SHORT_HASH_BYTES:]
                if part_hash(row.snapshot, row.part, data) != short_hash:
                    raise InvalidEncoding("a part of a snapshot that is stored here is damaged")
                if taking is None:
                    taking = Taking.begun(row.snapshot, data)
                else:
                    taking.add(data)
                self._check_room(taking)
                if row.part + 1 != taking.parts or row.snapshot != taking.id:
                    raise InvalidEncoding("a part of a snapshot is missing among those stored here")
        except (InvalidEncoding, TooLarge) as error:
            self._node.log("snapshot_refused", level="warning", space=replica.name, reason=error.message)
            replica.staging.drop()
            return None
        if taking is not None:
            for dot, number in replica.staging.rows().items():
                if dot in taking.entries:
                    taking.entries[dot].row = number
                    replica.values.let_go(taking.entries[dot])
        return taking

    def hear_offer(self, link: Link, here: SpaceLink, replica: Replica, _offer: Offer) -> None:
        """A peer has a snapshot for this node."""
        here.has_offer = True
        self._offered.add(replica.name)
        receipt = self.receipts.get(replica.name)
        if receipt is not None and receipt.has_all:
            return
        if receipt is not None and receipt.link is link and not self._node.read_only:
            self._ask(replica.name, receipt, is_late=True)
            return
        self._choose(replica.name)

    def want_document(self, link: Link, here: SpaceLink, replica: Replica, document: Dot) -> bool | None:
        """An edit came for a document that is not held here: take a snapshot from the peer that brought it.

        True: it is on its way. False: this node is busy with another; ask for the edit again. None: it cannot be had.
        """
        if link.hello is None or not link.takes(Take):
            return None
        if self._is_refused(replica.name, link.peer_node):
            return None
        here.has_offer = True
        self._offered.add(replica.name)
        self._choose(replica.name)
        receipt = self.receipts.get(replica.name)
        if receipt is None or receipt.link is not link:
            return False
        receipt.documents.add(document)
        return True

    def want_repair(self, link: Link, replica: Replica) -> bool:
        """The peer at ``link`` has another state: take its snapshot to compare. False: there is something else to take
        first. It is not kept on disk meanwhile: a restart forgets it.
        """
        now_s = self._node.now_s
        if self._node.read_only or replica.name in self.receipts:
            return False
        self.receipts[replica.name] = receipt = Receipt(replica, link.peer_node, link, now_s, now_s, is_repair=True)
        self._ask(replica.name, receipt)
        return True

    def _choose_all(self) -> None:
        for name in sorted(self._offered | self.receipts.keys()):
            self._choose(name)
        self._offered = {
            name
            for name in self._offered
            if any(name in link.spaces and link.spaces[name].has_offer for link in self._links.values())
        }

    def _choose(self, space: str) -> None:
        """Ask a peer for a snapshot, if there is one to ask and none is being taken."""
        now_s = self._node.now_s
        receipt = self.receipts.get(space)
        if self._node.read_only or (receipt is not None and (receipt.link is not None or receipt.has_all)):
            return
        offers = self._offers(space)
        if not offers:
            return
        link = offers[0]
        if receipt is not None:
            again = [candidate for candidate in offers if candidate.peer_node == receipt.node]
            if again:
                receipt.link = again[0]
                self._ask(space, receipt)
                return
            if now_s < receipt.deadline_s:
                return
            self._give_up(space, receipt)
        replica = self._node.replicas[space]
        receipt = self.receipts[space] = Receipt(replica, link.peer_node, link, now_s, now_s)
        self._ask(space, receipt)

    def _offers(self, space: str) -> list[Link]:
        """The connections over which a snapshot may be had, in order of node."""
        found = [
            link
            for link in self._links.values()
            if link.hello is not None
            and space in link.spaces
            and link.spaces[space].has_offer
            and not link.spaces[space].stopped
            and not self._is_refused(space, link.peer_node)
        ]
        return sorted(found, key=lambda link: link.peer_node)

    def _is_refused(self, space: str, node: str) -> bool:
        return self._refused_until_s.get((space, node), 0.0) > self._node.now_s

    def _ask(self, space: str, receipt: Receipt, is_late: bool = False) -> None:
        """Ask for the next part, and so for all that follow."""
        assert receipt.link is not None
        taking = receipt.taking
        if not is_late:
            receipt.deadline_s = self._node.now_s + PROGRESS_TIMEOUT_S
        receipt.stray_bytes = 0
        here = receipt.link.spaces[space]
        here.was_asked = True
        taken, parts = (taking.id, taking.parts) if taking is not None else (b"", 0)
        self._send(receipt.link, Take(space, receipt.replica.epoch, taken, parts))

    def part(self, link: Link, here: SpaceLink, replica: Replica, message: Part) -> None:
        """A part has come. If it was the last one, the whole is checked (:meth:`go_on`).

        :raises PeerError: it was not asked for.
        """
        if not here.was_asked:
            raise PeerError("a part of a snapshot that was not asked for")
        receipt = self.receipts.get(replica.name)
        if receipt is None or receipt.link is not link or receipt.has_all:
            return  # it was on its way when this node turned to another peer
        begins = message.part == 0 and (receipt.taking is None or receipt.taking.id != message.snapshot)
        taking = Taking(message.snapshot, receipt.node) if begins else receipt.taking
        if taking is None or message.snapshot != taking.id or message.part != taking.parts:
            receipt.stray_bytes += len(message.data)
            if receipt.stray_bytes > STRAY_BYTES_MAX:
                raise PeerError("parts of a snapshot that were not asked for")
            return
        if part_hash(message.snapshot, message.part, message.data) != message.short_hash:
            self._corrupt(replica.name, receipt, message.part)
            return
        if begins:
            self._begin(receipt, taking)
        try:
            taking.add(message.data)
            self._check_room(taking)
            if not message.is_last:
                self._stage(receipt, message)
                return
        except CrdtSyncError as error:
            self._refuse(replica.name, receipt, error)
            return
        receipt.finishing = check_whole(replica, taking, is_repair=receipt.is_repair)
        self._finish(receipt, receipt.finishing)

    def go_on(self) -> None:
        """Check a slice of a snapshot of which all parts have come, or wake its space while the first is made."""
        if self._node.read_only:
            return
        for _, receipt in sorted(self.receipts.items()):
            if receipt.finishing is not None:
                self._finish(receipt, receipt.finishing)
                return
            if self._wakes(receipt):
                if receipt.was_asked_for:
                    receipt.replica.wake()
                receipt.was_asked_for = True

    def _wakes(self, receipt: Receipt) -> bool:
        """Whether its space is to wake before a part comes. One does: of thousands that are asked for four are served
        at once, and what is being received keeps a space awake.
        """
        return len(self.receipts) == 1 and receipt.link is not None and receipt.replica.asleep is not None

    def _finish(self, receipt: Receipt, finishing: Steps[None]) -> None:
        """After the last slice, others are asked about the whole, and :meth:`conclude` comes next."""
        replica, taking, link = receipt.replica, receipt.taking, receipt.link
        assert taking is not None
        assert link is not None
        try:
            for _ in finishing:
                return
            receipt.finishing = None
            self._tell_refused(replica, taking)
            if receipt.is_repair:
                self._repaired(link, receipt, repair(replica, taking))
                return
            receipt.check, questions = self._checks.begin(replica, taking, self._links.values())
        except CrdtSyncError as error:
            self._refuse(replica.name, receipt, error)
            return
        for other, question in questions:
            self._send(other, question)

    def _tell_refused(self, replica: Replica, taking: Taking) -> None:
        """Name the texts that are not taken in."""
        if not taking.refused:
            return
        for document in taking.refused:
            replica.texts.refuse_document(document)
        names = {pack(list(document)) for document in taking.refused}
        keys = {entry.key for entry in taking.entries.values() if entry.kind == Kind.TEXT and entry.value in names}
        self._node.alarms.raise_once(
            TEXT_CONTESTED,
            replica.name,
            f"space {replica.name}: this host has not taken in what {self._name_of(taking.node)} has of the texts "
            f"{', '.join(map(repr, sorted(keys)[:3]))}: so much competes for the same places in them that loading them "
            "would take long",
            sorted(keys),
        )

    def sampled(self, link: Link, replica: Replica, message: Sampled) -> None:
        """A node says what it knows of a snapshot that has come whole."""
        receipt = self.receipts.get(replica.name)
        taking, check = (receipt.taking, receipt.check) if receipt is not None else (None, None)
        if taking is not None and check is not None and taking.id == message.snapshot:
            check.heard(link, message)
            if check.doubted_by and not check.denied:
                self._node.alarms.raise_once(
                    SNAPSHOT_DOUBTED,
                    replica.name,
                    f"space {replica.name}: the state that {self._name_of(taking.node)} sent takes away much of what "
                    f"this node and {check.doubted_by} have, by changes that {check.doubted_by} does not know: it is "
                    f"merged in {DOUBTED_S / 60:.0f} minutes",
                )

    def checked(self) -> list[str]:
        """The spaces of which a snapshot is whole, and nothing is waited for any more."""
        now_s = self._node.now_s
        if self._node.read_only:
            return []
        return [
            name for name, receipt in sorted(self.receipts.items()) if receipt.check and receipt.check.is_over(now_s)
        ]

    def check_due_s(self) -> float | None:
        """When :meth:`go_on` has something to do or :meth:`checked` to tell, at the latest."""
        receipts = () if self._node.read_only else self.receipts.values()
        if any(receipt.finishing is not None or self._wakes(receipt) for receipt in receipts):
            return 0.0
        return min((receipt.check.due_s() for receipt in receipts if receipt.check), default=None)

    def conclude(self, space: str) -> MergedSnapshot | None:
        """Merge a snapshot that was :meth:`checked`, or refuse it. Returns what the merge did.

        :raises ForkDetected: the snapshot contradicts what is held here; nothing was merged.
        """
        receipt = self.receipts[space]
        replica, taking, check = receipt.replica, receipt.taking, receipt.check
        assert taking is not None
        assert check is not None
        try:
            if check.denied:
                raise Contradicted(check.denied)
            self._merging[space] = receipt.node, taking.vector
            merged = merge_snapshot(replica, taking, self._node.now_ms)
        except ForkDetected:
            self._give_up(space, receipt)
            raise
        except CrdtSyncError as error:
            self._refuse(space, receipt, error)
            return None
        self._merged(receipt, merged)
        self._tell_taken_away(receipt, check, merged)
        return merged

    def _tell_taken_away(self, receipt: Receipt, check: SnapshotCheck, merged: MergedSnapshot) -> None:
        space, gone = receipt.replica.name, len(merged.gone)
        self._checks.merged(space, receipt.node, gone)
        self._node.alarms.clear(SNAPSHOT_DOUBTED, space)
        if not (check.is_much and gone) or (check.is_confirmed and not check.doubted_by):
            return
        receipt.replica.past.taken_away.add(merged.position, self._node.now_ms)
        keys = {entry.key for entry in merged.gone}
        self._node.alarms.set(
            TAKEN_AWAY,
            space,
            f"space {space}: the state that {self._name_of(receipt.node)} sent took away {gone:,} values that this "
            f"node had, of {len(keys):,} keys, and no other node confirmed it: if that was not meant, "
            f"crdtsync bring-back --space {space} writes them anew",
        )

    def _name_of(self, node: str) -> str:
        hellos = [link.hello for link in self._links.values() if link.hello is not None]
        return next((hello.name for hello in hellos if hello.node == node), node)

    def _check_room(self, taking: Taking) -> None:
        """A snapshot may take as much memory as is left free: 2 MB on the wire took 1.5 GB, for it was compressed."""
        if self.room_bytes is not None and taking.memory_bytes > self.room_bytes:
            raise TooLarge(
                f"it takes {taking.memory_bytes:,} bytes of memory, and {self.room_bytes:,} are free here: give this "
                "host more memory or disk, or end what takes it"
            )

    def _begin(self, receipt: Receipt, taking: Taking) -> None:
        self._merging.pop(receipt.replica.name, None)
        if receipt.taking is not None:
            receipt.asked_again += 1  # the peer no longer has what we were taking
            receipt.replica.staging.drop()
        receipt.taking = taking
        receipt.started_s = self._node.now_s

    def _stage(self, receipt: Receipt, message: Part) -> None:
        replica = receipt.replica
        assert receipt.taking is not None
        if message.part == 0:
            self._node.log(
                "snapshot_started",
                space=replica.name,
                peer=receipt.link and receipt.link.peer_name,
                entries=receipt.taking.header and receipt.taking.header.entries,
            )
        receipt.deadline_s = self._node.now_s + PROGRESS_TIMEOUT_S
        if receipt.is_repair:
            for entry in receipt.taking.arrived:
                if replica.entries.holds_dot(entry.key, entry.dot):
                    entry.value = None  # it is here already: it would be in memory until all has come
            return
        row = SnapshotPartRow(replica.id, message.part, message.snapshot, message.short_hash + message.data)
        replica.staging.stage(row, receipt.taking.arrived)

    def _repaired(self, link: Link, receipt: Receipt, done: Repaired) -> None:
        """The peer has now what it has in common with this node. It is told what it must remove."""
        replica = receipt.replica
        self._give_up(replica.name, receipt)
        link.ack_due_s = self._node.now_s
        self._send(link, Want(replica.name, replica.epoch, replica.frontier))  # as if nothing had been taken
        for start in range(0, len(done.removed), REMOVED_ENTRIES_MAX):
            entries = done.removed[start : start + REMOVED_ENTRIES_MAX]
            self._send(link, Removed(replica.name, replica.epoch, entries))
        self.merges.append((replica.name, done.merged))
        self._node.log(
            "repaired",
            level="warning",
            space=replica.name,
            peer=link.peer_name,
            came=len(done.merged.come),
            texts=len(done.merged.texts),
            removed_there=len(done.removed),
        )

    def removed(self, link: Link, replica: Replica, message: Removed) -> None:
        """A peer that repairs itself knows that these entries were removed: believed of few."""
        if not self._checks.may_remove(replica, link, message):
            self._node.log("removal_refused", level="warning", space=replica.name, peer=link.peer_name)
            return
        merged = remove(replica, message.entries, self._node.now_ms)
        if merged.gone:
            self.merges.append((replica.name, merged))
            self._node.log("repaired", level="warning", space=replica.name, gone=len(merged.gone))

    def _merged(self, receipt: Receipt, merged: MergedSnapshot) -> None:
        now_s = self._node.now_s
        replica, taking = receipt.replica, receipt.taking
        assert taking is not None
        del self.receipts[replica.name]
        replica.staging.drop()
        for document in receipt.documents:
            if not replica.documents.exists(document):
                replica.texts.skip_document(document)
        for other in self._links.values():
            if replica.name in other.spaces:
                there = other.spaces[replica.name]
                there.has_offer = False
                there.ack_writers |= merged.advanced
                other.ack_due_s = now_s
        if receipt.link is not None and replica.name in receipt.link.spaces:
            merge(receipt.link.spaces[replica.name].known, taking.vector)
        self._node.alarms.clear(SNAPSHOT_CONTRADICTED, replica.name)
        self._node.alarms.clear(SNAPSHOT_REFUSED, replica.name)
        self.merges.append((replica.name, merged))
        self._node.log(
            "snapshot_taken",
            space=replica.name,
            peer=self._name_of(receipt.node),
            entries=len(taking.entries),
            bytes=taking.size_bytes,
            seconds=round(now_s - receipt.started_s, 3),
            came=len(merged.come),
            gone=len(merged.gone),
        )

    def _corrupt(self, space: str, receipt: Receipt, part: int) -> None:
        receipt.asked_again += 1
        peer = receipt.link and receipt.link.peer_name
        self._node.log("snapshot_part_corrupt", level="warning", space=space, peer=peer, part=part)
        if receipt.asked_again > ASKED_AGAIN_MAX:
            self._refuse(space, receipt, InvalidEncoding(f"part {part} came corrupt {receipt.asked_again} times"))
        else:
            self._ask(space, receipt)

    def _refuse(self, space: str, receipt: Receipt, error: CrdtSyncError) -> None:
        """The snapshot is of no use: drop it, and ask another peer, or this one after a while."""
        link = receipt.link
        is_contradicted = isinstance(error, Contradicted)
        self._note_refused(space, receipt.node, error.message, is_contradicted=is_contradicted)
        if link is not None:
            self._send(link, Want(space, receipt.replica.epoch, receipt.replica.frontier))
        self._choose(space)

    def _note_refused(self, space: str, node: str, reason: str, *, is_contradicted: bool = False) -> None:
        now_s = self._node.now_s
        name, alarm = self._name_of(node), SNAPSHOT_CONTRADICTED if is_contradicted else SNAPSHOT_REFUSED
        self._node.log("snapshot_refused", level="warning", space=space, peer=name, reason=reason)
        self._node.alarms.raise_once(alarm, space, f"space {space}: could not take the snapshot of {name}: {reason}")
        self._refused_until_s = {key: due_s for key, due_s in self._refused_until_s.items() if due_s > now_s}
        self._refused_until_s[space, node] = now_s + REFUSED_S
        if space in self.receipts:
            self._give_up(space, self.receipts[space])

    def _give_up(self, space: str, receipt: Receipt) -> None:
        del self.receipts[space]
        receipt.replica.staging.drop()

    def closed(self, link: Link) -> None:
        """A connection is gone; what was coming over it may go on over the next one."""
        now_s = self._node.now_s
        for name, receipt in list(self.receipts.items()):
            if receipt.link is link:
                receipt.link = None
                if receipt.finishing is not None:
                    self._give_up(name, receipt)
                    self._choose(name)
                    continue
                if receipt.check is not None and receipt.check.doubted_by:
                    self._give_up(name, receipt)  # it was removed, perhaps
                    self._node.alarms.clear(SNAPSHOT_DOUBTED, name)
                if receipt.check is not None:
                    continue
                receipt.away_s = now_s
                receipt.deadline_s = now_s + RESUME_WAIT_S
                if receipt.taking is None or receipt.is_repair:
                    del self.receipts[name]
                self._choose(name)

    def has_room_again(self) -> None:
        """While there was no room nothing was taken; now it goes on where it stopped."""
        for name, receipt in self.receipts.items():
            if receipt.link is not None and not receipt.has_all:
                self._ask(name, receipt)
        self._choose_all()

    def take_merges(self) -> list[tuple[str, MergedSnapshot]]:
        """The merges since the last call."""
        merges, self.merges = self.merges, []
        return merges

    def progress(self, space: str, link: Link) -> tuple[int, int | None] | None:
        """Number of the next part that comes over a connection, and of parts, about; None: no snapshot does."""
        receipt = self.receipts.get(space)
        if receipt is None or receipt.link is not link:
            return None
        taking = receipt.taking
        return (taking.parts, taking.parts_expected) if taking is not None else (0, None)

    def tick(self, now_s: float) -> None:
        """Ask another peer where one says no more; forget what came from one that is away for good."""
        for name, receipt in list(self.receipts.items()) if not self._node.read_only else ():
            if receipt.has_all:
                continue
            if receipt.link is None and now_s >= receipt.away_s + ORPHAN_S:
                self._node.log("snapshot_forgotten", space=name, peer=receipt.node)
                self._give_up(name, receipt)
            elif receipt.link is not None and now_s >= receipt.deadline_s:
                why = InvalidEncoding(f"no part came within {PROGRESS_TIMEOUT_S:.0f} s")
                self._refuse(name, receipt, why)
        self._choose_all()

    def deadline_s(self) -> float | None:
        """When :meth:`tick` wants to be called."""
        if self._node.read_only:
            return None
        due: list[float] = []
        for name in self._offered | self.receipts.keys():
            receipt = self.receipts.get(name)
            offering = [link for link in self._links.values() if name in link.spaces and link.spaces[name].has_offer]
            if receipt is not None and receipt.has_all:
                continue
            if receipt is not None and (receipt.link is not None or offering):
                due.append(receipt.deadline_s)
            elif receipt is not None:
                due.append(receipt.away_s + ORPHAN_S)
            elif offering:
                due += [self._refused_until_s.get((name, link.peer_node), 0.0) for link in offering]
        return min(due, default=None)
