"""Members of the cluster, and which nodes may connect: decided from records alone.

``member/<node id>`` is written by the member that let the node in, and from then on by the node itself. If two were
written at once, the one that was written later by its own clock says name and addresses, and both say keys.

``removed/<node id>`` is final. It beats every record of the member, concurrent or later, and every other record that
has one of the removed keys.

Records are read as another member wrote them: a part that is malformed counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from crdtsync.causality import TIME_MS_MAX
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.invites import check_addresses
from crdtsync.wire.limits import is_name
from crdtsync.wire.peer.joining import CERTIFICATE_BYTES_MAX

KEYS_MAX = 4
"""The keys of a member: one in use, one to come, and what concurrent rotations may leave."""
MEMBERS_MAX = 10_000
"""The members of a cluster."""
PIN_CHARS = 64

Key = tuple[str, bytes]
Record = Mapping[str, Any]


class Member(NamedTuple):
    """One node of the cluster. ``keys`` are pins with their certificates, ``time_ms`` when this was written."""

    node: str
    name: str
    keys: tuple[Key, ...]
    addresses: tuple[str, ...] = ()
    joined_ms: int = 0
    by: str = ""
    time_ms: int = 0

    def plain(self) -> dict[str, Any]:
        """As ``_cluster`` keeps it."""
        return {
            "node": self.node,
            "name": self.name,
            "keys": [list(key) for key in self.keys],
            "addresses": list(self.addresses),
            "joined_ms": self.joined_ms,
            "by": self.by,
            "time_ms": self.time_ms,
        }

    def has(self, pin: str) -> bool:
        """Whether this is one of its keys."""
        return any(pin == key[0] for key in self.keys)


class RemovedMember(NamedTuple):
    """A node that was a member, and never will be again with one of its keys."""

    node: str
    name: str
    keys: tuple[Key, ...]
    time_ms: int = 0
    by: str = ""

    def plain(self) -> dict[str, Any]:
        """As ``_cluster`` keeps it."""
        return {
            "node": self.node,
            "name": self.name,
            "keys": [list(key) for key in self.keys],
            "time_ms": self.time_ms,
            "by": self.by,
        }

    @property
    def reason(self) -> str:
        """The reason that the removed node is given."""
        by, date = f" by {self.by}" if self.by else "", written(self.time_ms)
        when = f" on {date}" if date else ""
        return f"{self.name} was removed from this cluster{by}{when}: to come back it must join anew, with a new key"


def read_member(plain: Record) -> Member:
    """:raises ValueError, KeyError: it names no node."""
    return Member(
        _node(plain),
        _name(plain),
        _keys(plain),
        _addresses(plain),
        _time(plain, "joined_ms"),
        _text(plain, "by"),
        _time(plain, "time_ms"),
    )


def merge_members(one: Member, other: Member) -> Member:
    """The record that results from two of a member that were written at once."""
    older, newer = sorted((one, other), key=lambda member: (member.time_ms, member.name, member.addresses, member.by))
    return newer._replace(keys=all_keys(newer.keys, older.keys))


def read_removed(plain: Record) -> RemovedMember:
    """:raises ValueError, KeyError: it names no node."""
    return RemovedMember(_node(plain), _name(plain), _keys(plain), _time(plain, "time_ms"), _text(plain, "by"))


def merge_removed(one: RemovedMember, other: RemovedMember) -> RemovedMember:
    """The record that results from two removals of one node."""
    first, later = sorted((one, other), key=lambda removed: (removed.time_ms, removed.by, removed.name))
    return first._replace(keys=all_keys(first.keys, later.keys))


class Membership(NamedTuple):
    """The members and the removed, by node id; what is removed is no member."""

    members: Mapping[str, Member] = MappingProxyType({})
    removed: Mapping[str, RemovedMember] = MappingProxyType({})

    def node_of(self, pin: str) -> str:
        """The member that has this key; empty if none has."""
        return next((node for node, member in self.members.items() if member.has(pin)), "")

    def namesake(self, node: str, name: str) -> str:
        """Another member of this name; empty if there is none."""
        return next((each.node for each in self.members.values() if each.name == name and each.node != node), "")

    def is_removed(self, pin: str) -> bool:
        """Whether this is a key of a node that was removed."""
        return any(pin == key[0] for gone in self.removed.values() for key in gone.keys)

    def refusal_of(self, pin: str) -> str:
        """Why the owner of this key may not connect; empty if it may."""
        for gone in self.removed.values():
            if any(pin == key[0] for key in gone.keys):
                return gone.reason
        return "" if self.node_of(pin) else "its key is of no member of this cluster"


def written(time_ms: int) -> str:
    """A time, given in ms since 1970, as RFC 3339; empty for one that cannot be written so."""
    if not 0 < time_ms <= TIME_MS_MAX:
        return ""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


NOBODY = Membership()


def membership_of(
    members: Iterable[Member], removed: Iterable[RemovedMember], told: Iterable[Member] = ()
) -> Membership:
    """The membership that follows from records. ``told`` are members that this node was told of when it joined, or has
    known since.

    They count while ``_cluster`` has no records of them, and before others if there are too many.
    """
    told = [*told]
    known = {member.node for member in told}
    gone = {each.node: each for each in removed}
    gone_pins = {pin for each in gone.values() for pin, _ in each.keys}
    found = {member.node: member for member in told} | {member.node: member for member in members}
    remaining = [
        member
        for _, member in sorted(found.items(), key=lambda item: (item[0] not in known, item[0]))
        if member.keys and member.node not in gone and not any(pin in gone_pins for pin, _ in member.keys)
    ]
    return Membership({member.node: member for member in remaining[:MEMBERS_MAX]}, dict(sorted(gone.items())))


def known_as(members: Mapping[str, Record], pin: str) -> str:
    """Under which id a cluster's records have the owner of a key; empty: under none.

    A node that has changed its key keeps the id of its first one, also when its database is lost and it joins anew.
    """
    return next((node for node, plain in sorted(members.items()) if any(pin == key[0] for key in _keys(plain))), "")


def all_keys(*lists: Sequence[Key]) -> tuple[Key, ...]:
    """The keys of several records of one node, the first ones first."""
    found: dict[str, bytes] = {}
    for keys in lists:
        for pin, certificate in keys:
            found.setdefault(pin, certificate)
    return tuple(list(found.items())[:KEYS_MAX])


def _keys(plain: Record) -> tuple[Key, ...]:
    keys, found = plain.get("keys"), []
    for key in keys if isinstance(keys, list) else ():
        match key:
            case [str(pin), bytes(certificate)] if len(pin) == PIN_CHARS:
                if 0 < len(certificate) <= CERTIFICATE_BYTES_MAX:
                    found.append((pin, certificate))
    return all_keys(found)


def _addresses(plain: Record) -> tuple[str, ...]:
    try:
        return check_addresses(plain.get("addresses"))
    except ValueError:
        return ()


def _node(plain: Record) -> str:
    node = plain["node"]
    if not is_name(node):
        raise ValueError("node")
    return str(node)


def _name(plain: Record) -> str:
    name = plain.get("name")
    return str(name) if is_name(name) else "unnamed"


def _time(plain: Record, name: str) -> int:
    time_ms = plain.get(name)
    return time_ms if type(time_ms) is int and time_ms >= 0 else 0


def _text(plain: Record, name: str) -> str:
    text = plain.get(name)
    return text[:128] if isinstance(text, str) else ""
