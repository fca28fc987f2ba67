"""The members and removals that this node has seen, which no record takes back.

The problem. Every member may write every record of ``_cluster``, and one of them may be hostile. Host-a removes host-c.
Host-b, which is in league with host-c, deletes the record ``removed/c``, or writes nonsense in its place: host-c would
be a member again. Or host-b deletes the records ``member/…`` of all others: nobody would know anybody.

The rule. A node keeps, beside ``_cluster`` and for itself alone, every removal and every member that a record has ever
told it of. A removal only grows: what a record says later adds keys and takes none away. A member is as its newest
record says, for as long as there is one, and as its last one said from then on. Where a record that counted is gone,
:class:`~crdtsync.core.cluster.admission.Admission` writes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from crdtsync.core.cluster.membership import MEMBERS_MAX, Member, RemovedMember, all_keys, read_member, read_removed
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.codec import pack, unpack

if TYPE_CHECKING:
    from crdtsync.core.storage.interface import Storage

MEMBER_META = "kept-member/"
REMOVED_META = "kept-removed/"

T = TypeVar("T", Member, RemovedMember)


class KeptMembers:
    """See the module. ``metas`` are those that the commit under way must write, by name."""

    def __init__(self, storage: Storage) -> None:
        self.members = _read(storage, MEMBER_META, read_member)
        self.removed = _read(storage, REMOVED_META, read_removed)
        self.metas: dict[str, bytes | None] = {}

    def see(self, members: Iterable[Member], removed: Iterable[RemovedMember]) -> None:
        """The records of ``_cluster`` say this now."""
        for member in members:
            node = member.node
            is_new = node not in self.members
            if member.keys and self.members.get(node) != member and not (is_new and len(self.members) >= MEMBERS_MAX):
                self.members[node] = member
                self.metas[MEMBER_META + node] = pack(member.plain())
        for gone in removed:
            node, known = gone.node, self.removed.get(gone.node)
            whole = gone if known is None else gone._replace(keys=all_keys(known.keys, gone.keys))
            is_full = known is None and len(self.removed) >= MEMBERS_MAX and node not in self.members
            if whole != known and not is_full:
                self.removed[node] = whole
                self.metas[REMOVED_META + node] = pack(whole.plain())

    def removed_with(self, told: Iterable[RemovedMember]) -> list[RemovedMember]:
        """All removals: those that are kept, and what ``_cluster`` tells of others."""
        return [*self.removed.values(), *(gone for gone in told if gone.node not in self.removed)]

    def undone(self, members: Iterable[Member], removed: Iterable[RemovedMember]) -> list[Member | RemovedMember]:
        """The facts that ``_cluster`` told once and tells no longer: members, removals, or some of a removal's keys."""
        told = {member.node for member in members}
        pins = {gone.node: {pin for pin, _ in gone.keys} for gone in removed}
        lost = [member for node, member in sorted(self.members.items()) if node not in told | self.removed.keys()]
        back = [
            gone
            for node, gone in sorted(self.removed.items())
            if node not in pins or not pins[node].issuperset(pin for pin, _ in gone.keys)
        ]
        return [*lost, *back]


def _read(storage: Storage, prefix: str, read: Callable[[Any], T]) -> dict[str, T]:
    found: dict[str, T] = {}
    for stored in storage.metas(prefix):
        try:
            record = read(unpack(stored))
        except (InvalidEncoding, ValueError, KeyError, TypeError, AttributeError):
            continue
        found[record.node] = record
    return found
