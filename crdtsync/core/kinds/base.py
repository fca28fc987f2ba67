"""The rules that make up a kind: how its entries form values, how a value is read and told, which operations write it.

The rest of the core knows of kinds by :class:`Rules` alone. A new kind is a module beside this one with its ``RULES``,
a line in :mod:`crdtsync.core.kinds.registry`, and a number and a row in :mod:`crdtsync.wire.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.read_policies import Rank
from crdtsync.core.kinds.arguments import Arguments, Result
from crdtsync.core.kinds.operations import DELETE, SET, Fields, Operation
from crdtsync.errors import TooLarge
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Change, Op
from crdtsync.wire.limits import CHANGE_BYTES_MAX

if TYPE_CHECKING:
    from crdtsync.core.kinds.draft import Draft
    from crdtsync.core.space import SpaceState

INLINE_ENTRIES_MAX = 1000
"""Parts of a log, set or map that a scan shows in the key's row."""
INLINE_BYTES_MAX = 64 * 1024
"""The part of a log, set, map or text that a scan shows in the key's row; larger ones are read one by one."""

ELEMENTS_MAX = 20_000
"""Elements of a log or set, or fields of a map, that are read as a whole: 1.3 to 2.4 µs each."""
NULL = b"\xc0"

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
    """The write that makes one entry anew, under a new dot."""

    sub: str | None
    value: bytes
    attrs: dict[str, Any] | None


class Ranked(NamedTuple):
    """How a read policy decides on the values of a kind."""

    split: Callable[[list[Entry], Rank], list[Sibling]]
    """As :attr:`Rules.split`, with the value that the policy puts first at the beginning."""
    read_all: Callable[[list[Sibling]], bytes]
    """All values as one msgpack value, for a policy that hands over all."""


class Paged(NamedTuple):
    """How a long value is read in parts."""

    request: str
    """The name of the request."""
    parts: Callable[[Sibling], Sibling]
    """Those of a value's entries that hold its parts, in order."""
    is_by_name: bool = False
    """Whether a page begins after a name, the ``sub`` of an entry, and not at an index."""


class Touched(NamedTuple):
    """The entries of a key that a commit added and that are still there, and those that it removed, in any order."""

    added: dict[Dot, Entry]
    removed: list[Entry]

    def subs(self) -> dict[str | None, None]:
        """The elements or fields that these entries are parts of."""
        return dict.fromkeys(entry.sub for entry in (*self.removed, *self.added.values()))

    def is_most_of(self, held: Sequence[Entry]) -> bool:
        """Whether they are so many that all that is held now is as short to tell."""
        return 2 * (len(self.added) + len(self.removed)) > len(held)


Part = dict[str, Any]
"""The effect of a commit on a key that has many parts, as fields of an event: see
:mod:`crdtsync.core.watch.partial_updates`.
"""


def copied(group: Sibling) -> list[Copied]:
    """Every entry as it is. Purged values cannot be written anew."""
    return [Copied(entry.sub, entry.value, entry.attrs) for entry in group if entry.value is not None]


def stored_value(entry: Entry) -> bytes | None:
    """The value of an entry, as a line of history shows it."""
    return entry.value


def no_more_fields(_entry: Entry) -> Fields:
    """Nothing but what every line of history tells."""
    return {}


def never_conflicting(_entries: Entries, _entry: Entry) -> bool:
    """A kind that several authors build together."""
    return False


class Rules(NamedTuple):
    """One kind. The rules of one kind. The defaults are those of most kinds."""

    # -- values and requests
    split: Callable[[list[Entry]], list[Sibling]] | None
    """A key's entries of this kind as values, each in causal order; None: all of them are one value."""
    read: Callable[[SpaceState, Sibling], bytes | None]
    """The value as msgpack, None if it was purged; raises TooLarge if it does not fit into one reply."""
    is_inline: Callable[[SpaceState, Sibling], bool]
    """Whether a scan shows the value in the key's row."""
    writes: Mapping[str, Write]
    """Its operations, by the name of the request."""
    copy: Callable[[Sibling], list[Copied]] = copied
    """The writes that make a value anew, when a conflict is resolved in its favour."""
    merge: Callable[[Draft, str, list[Sibling]], None] | None = None
    """Joins at least two siblings of a key, all of this kind, the winner first: adds to the draft what makes one value
    of them and supersedes exactly their entries. None: they cannot be joined.
    """
    ranked: Ranked | None = None
    """None: read policies do not apply, the newest value comes first."""
    paged: Paged | None = None
    """None: its values are read as a whole."""

    # -- what an operation of a change is called and tells
    written: Operation = SET
    """The operation that writes an entry."""
    written_to: Mapping[str, Operation] = {}
    """The operations that write an entry of a ``sub`` that means something by itself."""
    removed: Operation = DELETE
    """The operation that removes the entries of one ``sub``."""
    partial: Callable[[Entries, str, Touched], Part | None] | None = None
    """The effect of a commit on a key of this kind alone that has many entries, told as the parts alone. None: the
    whole has to be told.
    """

    # -- history and conflicts
    is_accumulating: bool = False
    """Whether a new entry holds what the one before it held."""
    is_by_sub: bool = False
    """Whether an equal value is the same one only if it has the same ``sub``."""
    kept: Callable[[Change, Op, Sequence[Entry]], Collection[Dot]] | None = None
    """Which entries that an operation removes live on in what the change writes to its key. None: those whose kind,
    ``sub`` (see :attr:`is_by_sub`) and value it writes, and all if the kind is accumulating.
    """
    history_value: Callable[[Entry], bytes | None] = stored_value
    """The value that a line of history shows for an entry; None: it is no value of its own."""
    history_fields: Callable[[Entry], Fields] = no_more_fields
    """The fields of a line of history beside those that every line has."""
    is_conflicting: Callable[[Entries, Entry], bool] = never_conflicting
    """Whether an entry that has just come stands beside another value that its author had not seen."""


def check_readable(sizes_bytes: Sequence[int], name: str, instead: str) -> None:
    """Refuse to read a value as a whole whose parts do not fit into one reply; ``instead`` reads it in parts."""
    size_bytes = sum(sizes_bytes)
    if size_bytes > CHANGE_BYTES_MAX or len(sizes_bytes) > ELEMENTS_MAX:
        raise TooLarge(
            f"the {name} has {len(sizes_bytes):,} elements and {size_bytes:,} bytes, and at most {ELEMENTS_MAX:,} and "
            f"{CHANGE_BYTES_MAX:,} are read as a whole: read it in parts, with {instead}"
        )


def always(_space: SpaceState, _group: Sibling) -> bool:
    """A kind whose values a scan shows."""
    return True


def when_short(_space: SpaceState, group: Sibling) -> bool:
    """A kind whose values a scan shows if that costs no more than a register of moderate size."""
    return len(group) <= INLINE_ENTRIES_MAX and sum(entry.size_bytes for entry in group) <= INLINE_BYTES_MAX


def intact(value: bytes | None) -> bytes:
    """A part of a value that is put together: null if it was purged."""
    return NULL if value is None else value


def packed_array(items: Sequence[bytes]) -> bytes:
    """A msgpack array of items that are packed already."""
    count = len(items)
    if count < 16:
        return bytes([0x90 | count]) + b"".join(items)
    return b"\xdd" + count.to_bytes(4, "big") + b"".join(items)


def packed_map(items: Sequence[bytes]) -> bytes:
    """A msgpack map of items that are packed already, each a key with its value."""
    count = len(items)
    head = bytes([0x80 | count]) if count < 16 else b"\xdf" + count.to_bytes(4, "big")
    return head + b"".join(items)
