"""What makes up a kind: how its entries form values, how a value is read, which operations write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from crdtsync.core.crdt.entries import Entry
from crdtsync.core.crdt.read_policies import Rank
from crdtsync.core.kinds.arguments import Arguments, Result
from crdtsync.errors import InvalidEncoding, TooLarge
from crdtsync.wire.codec import unpack
from crdtsync.wire.limits import CHANGE_BYTES_MAX

if TYPE_CHECKING:
    from crdtsync.core.replica.change_draft import Draft
    from crdtsync.core.replica.replica import Replica

INLINE_ENTRIES_MAX = 1000
INLINE_BYTES_MAX = 64 * 1024
"""What a scan shows of a log, set, map or text in the key's row; larger ones are read one by one."""

_NULL = b"\xc0"

Sibling = list[Entry]
"""The entries that make up one value, in causal order: one for a register, all elements of a log, all markers of one
text document.
"""

Write = Callable[["Draft", Arguments], Result]
"""A write operation: adds to the draft and returns the reply. Raises before it adds anything."""


class FieldSibling(list[Entry]):
    """One value of a map's field that lost against another: a sibling of that field, not of the whole map."""

    __slots__ = ()


class Copied(NamedTuple):
    """What writes one entry anew, under a new dot."""

    sub: str | None
    value: bytes
    attrs: dict[str, Any] | None


def copied(group: Sibling) -> list[Copied]:
    """Every entry as it is. Purged values cannot be written anew."""
    return [Copied(entry.sub, entry.value, entry.attrs) for entry in group if entry.value is not None]


class Ranked(NamedTuple):
    """How a read policy decides on the values of a kind."""

    split: Callable[[list[Entry], Rank], list[Sibling]]
    """As :attr:`Rules.split`, with the value that the policy puts first at the beginning."""
    read_all: Callable[[list[Sibling]], bytes]
    """All values as one msgpack value, for a policy that hands over all."""


class Rules(NamedTuple):
    """One kind."""

    split: Callable[[list[Entry]], list[Sibling]] | None
    """A key's entries of this kind as values, each in causal order; None: all of them are one value."""
    read: Callable[[Replica, Sibling], bytes | None]
    """The value as msgpack, None if it was purged; raises TooLarge if it does not fit into one reply."""
    is_inline: Callable[[Replica, Sibling], bool]
    """Whether a scan shows the value in the key's row."""
    writes: Mapping[str, Write]
    """Its operations, by the name of the request."""
    copy: Callable[[Sibling], list[Copied]] = copied
    """What writes a value anew, when a conflict is resolved in its favour."""
    merge: Callable[[Draft, str, list[Sibling]], None] | None = None
    """Joins at least two siblings of a key, all of this kind, the winner first: adds to the draft what makes one value
    of them and supersedes exactly their entries. None: they cannot be joined.
    """
    ranked: Ranked | None = None
    """None: read policies do not apply, the newest value comes first."""


def check_readable(items: Sequence[bytes], name: str, instead: str) -> None:
    """Refuse to read a value as a whole whose parts do not fit into one reply; ``instead`` reads it in parts."""
    size_bytes = sum(map(len, items))
    if size_bytes > CHANGE_BYTES_MAX:
        raise TooLarge(
            f"the {name} has {len(items):,} elements and {size_bytes:,} bytes: read it in parts, with {instead}"
        )


def always(_replica: Replica, _group: Sibling) -> bool:
    """A kind whose values a scan shows."""
    return True


def when_short(_replica: Replica, group: Sibling) -> bool:
    """A kind whose values a scan shows if that costs no more than a register of moderate size."""
    return len(group) <= INLINE_ENTRIES_MAX and sum(len(entry.value or b"") for entry in group) <= INLINE_BYTES_MAX


def intact(value: bytes | None) -> bytes:
    """A part of a value that is put together: null if it was purged, or its author wrote what is no msgpack."""
    if value is None:
        return _NULL
    try:
        unpack(value)
    except InvalidEncoding:
        return _NULL
    return value


def packed_array(items: list[bytes]) -> bytes:
    """A msgpack array of items that are packed already."""
    count = len(items)
    if count < 16:
        return bytes([0x90 | count]) + b"".join(items)
    return b"\xdd" + count.to_bytes(4, "big") + b"".join(items)
