"""Read policies: which of several concurrent values readers are shown first. Pure, and the same on every node.

A policy orders entries by what they hold: value, hybrid time, dot, confidence. Nodes with the same entries and the same
schemas therefore have the same winner, in whatever order things arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from crdtsync.errors import InvalidEncoding
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Order
from crdtsync.wire.codec import check_value, unpack
from crdtsync.wire.stored_values import confidence_of

if TYPE_CHECKING:
    from crdtsync.core.crdt.entry import Entry

RANKED_BYTES_MAX = 4096
"""Lists and maps of up to so many bytes of msgpack are compared part by part, longer ones as bytes."""

Rank = Callable[["list[Entry]"], "list[Entry]"]
ValueKey = tuple[object, ...]


class Policy(NamedTuple):
    """One read policy."""

    name: str
    rank: Rank | None
    """Entries in the order in which readers are shown them; None: the newest first."""
    is_whole: bool = False
    """A plain read hands over all values, not the first alone."""
    is_manual: bool = False
    """A plain read of several values is refused until somebody has chosen."""
    can_refuse: bool = False
    """A later write that ranks lower may be refused."""


# -- the order of values -------------------------------------------------------------------------------------

_NULL, _BOOL, _NUMBER, _STR, _BYTES, _LIST, _MAP = range(7)
_SCALARS: Mapping[type, int] = {bool: _BOOL, int: _NUMBER, float: _NUMBER, str: _STR, bytes: _BYTES}


def value_key(packed: bytes | None) -> ValueKey | None:
    """A key that compares with that of every other value as the values do; None: it is no value that an agent can
    write.

    null < false < true < numbers < strings < bytes < lists < maps. Integers and floats are compared exactly, as
    numbers; strings by code points; lists part by part, as words in a dictionary are; maps as lists of their items by
    name. Lists and maps of over :data:`RANKED_BYTES_MAX` come after all others of their type and are compared as
    bytes: what a read costs must not follow from what somebody has written.
    """
    if packed is None:
        return None
    if len(packed) > RANKED_BYTES_MAX and (container := _container(packed[0])) is not None:
        return (container, 1, packed)
    try:
        plain = unpack(packed)
        check_value(plain)
    except InvalidEncoding:
        return None
    return _key(plain)


def _container(first: int) -> int | None:
    if 0x90 <= first <= 0x9F or first in (0xDC, 0xDD):
        return _LIST
    return _MAP if 0x80 <= first <= 0x8F or first in (0xDE, 0xDF) else None


def _key(plain: object) -> ValueKey:
    if plain is None:
        return (_NULL,)
    if type(plain) is list:
        return (_LIST, 0, [_key(item) for item in plain])
    if type(plain) is dict:
        return (_MAP, 0, [(name, _key(plain[name])) for name in sorted(plain)])
    return (_SCALARS[type(plain)], plain)


# -- the policies --------------------------------------------------------------------------------------------


def newest_entries(entries: list[Entry]) -> list[Entry]:
    """Highest hybrid time, then highest dot."""
    return sorted(entries, key=_order, reverse=True)


def _oldest(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=_order)


def _order(entry: Entry) -> Order:
    return entry.order


def _confidence(entry: Entry) -> float:
    """Below every confidence that can be given where none is."""
    given = confidence_of(entry.attrs) if entry.attrs else None
    return -1.0 if given is None else given


def _most_confident(entries: list[Entry]) -> list[Entry]:
    return sorted(newest_entries(entries), key=_confidence, reverse=True)  # a sort keeps the order of equal ones


def _greatest(entries: list[Entry]) -> list[Entry]:
    return _by_value(entries, is_reverse=True)


def _least(entries: list[Entry]) -> list[Entry]:
    return _by_value(entries, is_reverse=False)


def _by_value(entries: list[Entry], is_reverse: bool) -> list[Entry]:
    newest = [(value_key(entry.value), entry) for entry in newest_entries(entries)]
    ranked = [(key, entry) for key, entry in newest if key is not None]
    ranked.sort(key=lambda item: item[0], reverse=is_reverse)
    return [entry for _, entry in ranked] + [entry for key, entry in newest if key is None]


LWW = Policy("lww", None)
"""The default: the last writer wins."""

POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        LWW,
        Policy("all", None, is_whole=True),
        Policy("max", _greatest, can_refuse=True),
        Policy("min", _least, can_refuse=True),
        Policy("confidence", _most_confident, can_refuse=True),
        Policy("first", _oldest, can_refuse=True),
        Policy("manual", None, is_manual=True),
    )
}


def newest_wins(_key: str) -> Policy:
    """The policy of every key of a space without schemas."""
    return LWW


def first_of(policy: Policy, entries: list[Entry]) -> Entry:
    """The one that readers are shown of the values of one register or field, in causal order."""
    return entries[-1] if policy.rank is None or len(entries) == 1 else policy.rank(entries)[0]


def ranks_lower(policy: Policy, current: Entry, later: Entry) -> bool:
    """Whether ``later``, written after ``current``, would not be shown before it."""
    return policy.rank is not None and policy.rank([current, later])[0] is current
