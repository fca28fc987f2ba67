"""The watches to be told of a key: found by their prefix, without looking at each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from crdtsync.core.access.rules import Grant


class HasPrefix(Protocol):
    """Something that can be found by its prefix, and is told of no other keys than it may read."""

    prefix: str

    @property
    def limit(self) -> Grant | None:
        """The bounds of its reading; None: none."""


Member = TypeVar("Member", bound=HasPrefix)


def is_told(key: str, prefix: str) -> bool:
    """Whether ``key`` concerns who asked for ``prefix``: reserved keys are for those alone who asked for such."""
    return key.startswith(prefix) and (key[0] != "_" or prefix[:1] == "_")


def concerns(member: HasPrefix, key: str) -> bool:
    """Whether a member is to be told of a key."""
    return is_told(key, member.prefix) and (member.limit is None or member.limit.may_read(key))


class Audience(Generic[Member]):
    """A set of members. A look-up costs one step for each length that prefixes have, and one for each member found."""

    def __init__(self) -> None:
        self._members: dict[str, dict[Member, None]] = {}
        self._lengths: Counter[int] = Counter()
        self._ordered: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._members)

    def __iter__(self) -> Iterator[Member]:
        for members in self._members.values():
            yield from members

    def add(self, member: Member) -> None:
        """Add one."""
        if member.prefix not in self._members:
            self._members[member.prefix] = {}
            self._lengths[len(member.prefix)] += 1
            self._ordered = sorted(self._lengths)
        self._members[member.prefix][member] = None

    def discard(self, member: Member) -> None:
        """Remove one."""
        members = self._members.get(member.prefix, {})
        members.pop(member, None)
        if member.prefix in self._members and not members:
            del self._members[member.prefix]
            length = len(member.prefix)
            self._lengths[length] -= 1
            if not self._lengths[length]:
                del self._lengths[length]
                self._ordered = sorted(self._lengths)

    def of(self, key: str) -> Iterator[Member]:
        """Those whose prefix ``key`` begins with; of a reserved key not those that asked for everything."""
        for length in self._ordered:
            if length > len(key):
                return
            if not length and key[0] == "_":
                continue
            members = self._members.get(key[:length])
            if members:
                for member in members:
                    if member.limit is None or member.limit.may_read(key):
                        yield member
