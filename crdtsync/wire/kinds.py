"""Every kind of key, a row each: what daemons and clients have to agree on of it.

Example: of a set, a watch hands over one element with each ``add``, so who is told of it has read that element and not
the whole set (``parts``). A client that took it for the whole set would replace elements that its agent never saw.

How the values of a kind come out of its entries, and how they are written, is in :mod:`crdtsync.core.kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from crdtsync.named_tuple import NamedTuple


class Kind(IntEnum):
    """The kind of value that a key holds. Unknown kinds from newer versions stay plain integers."""

    REGISTER = 0
    COUNTER = 1
    SET = 2
    MAP = 3
    LOG = 4
    TEXT = 5
    DOC = 6
    BLOB = 7

    @property
    def word(self) -> str:
        """As agents call it."""
        return self.name.lower()


class Traits(NamedTuple):
    """A row. A default is as most kinds have it."""

    holds_values: bool = False
    """Whether its entries hold values as agents gave them."""

    # -- what a schema may say of its values
    has_json: bool = False
    """Whether a JSON Schema can be for them."""
    has_meta: bool = False
    """Whether a write can say something of its value."""
    has_ttl: bool = False
    """Whether they may have a time to live."""
    has_sliding: bool = False
    """Whether they may live on when they are read. To keep each element of a log so would take too long."""
    has_cap: bool = False
    """Whether there may be a cap."""

    # -- what a client makes of it
    parts: tuple[str, ...] = ()
    """The operations whose events tell one part of the value, and have a version that covers that part alone."""
    is_read_by_events: bool = True
    """Whether who is told of each change holds the value by that, and so has read it."""
    read_in_parts: str | None = None
    """The client's method that reads a long value in parts."""


TRAITS: Mapping[Kind, Traits] = {
    Kind.REGISTER: Traits(True, has_json=True, has_meta=True, has_ttl=True, has_sliding=True, has_cap=True),
    Kind.COUNTER: Traits(parts=("incr", "reset")),
    Kind.SET: Traits(True, has_json=True, parts=("add",), read_in_parts="members"),
    Kind.MAP: Traits(True, has_json=True, has_meta=True, parts=("merge",), read_in_parts="fields"),
    Kind.LOG: Traits(
        True,
        has_json=True,
        has_meta=True,
        has_ttl=True,
        has_cap=True,
        is_read_by_events=False,
        read_in_parts="log",
    ),
    Kind.TEXT: Traits(is_read_by_events=False),
    Kind.BLOB: Traits(True, has_meta=True, has_ttl=True, has_sliding=True),
}

UNKNOWN = Traits(is_read_by_events=False)
"""A kind that only newer versions know: shown like any other. If a watch tells of it, that counts as not read."""

VALUE_KINDS = frozenset(kind for kind, traits in TRAITS.items() if traits.holds_values)
JSON_KINDS = frozenset(kind for kind, traits in TRAITS.items() if traits.has_json)
META_KINDS = frozenset(kind for kind, traits in TRAITS.items() if traits.has_meta)
TTL_KINDS = frozenset(kind for kind, traits in TRAITS.items() if traits.has_ttl)
SLIDING_KINDS = frozenset(kind for kind, traits in TRAITS.items() if traits.has_sliding)
CAP_KINDS = frozenset(kind for kind, traits in TRAITS.items() if traits.has_cap)

PARTS = frozenset(operation for traits in TRAITS.values() for operation in traits.parts)
"""All operations that tell a part."""

_WORDS = {kind.value: kind.word for kind in Kind}
_BY_WORD = {kind.word: traits for kind, traits in TRAITS.items()}


def kind_name(kind: int) -> str:
    """The name of a kind, also of one that only newer versions know."""
    return _WORDS.get(kind, f"kind-{kind}")


def traits_of(word: str | None) -> Traits:
    """The row of a kind, given as agents call it."""
    return _BY_WORD.get(word or "", UNKNOWN)
