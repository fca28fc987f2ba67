"""From the entries of a key to what a reader sees: one winner, its siblings, a version.

A key with the entries 2.1.0 (Bob's) and 3.1.0 (Carol's) of kind register has two values. The kind's ``split`` makes
groups of entries, one group a value; the key's read policy puts one of them first, the winner; :func:`version_of` names
what a reader knows who was handed some of them.

A key may hold entries of several kinds, if two hosts wrote it first at once. Then the kind of the newest entry comes
first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crdtsync.causality import Writer, hlc_ms
from crdtsync.core.crdt.entries import Entries
from crdtsync.core.crdt.entry import Entry, reach_of
from crdtsync.core.crdt.read_policies import LWW, Policy
from crdtsync.core.kinds.base import FieldSibling, Sibling
from crdtsync.core.kinds.registry import rules_of
from crdtsync.core.kinds.seen import describe_seen, seen_of
from crdtsync.errors import DamagedValue, TooLarge
from crdtsync.wire.change import Order
from crdtsync.wire.kinds import kind_name
from crdtsync.wire.limits import NAMED_DOTS_MAX
from crdtsync.wire.stored_values import attributes_of
from crdtsync.wire.tokens import VERSION_DOTS_MAX, Version, encode_dot, encode_version

if TYPE_CHECKING:
    from crdtsync.core.space import SpaceState


ReadValue = Callable[["SpaceState", Sibling], bytes | None]


def siblings(entries: Entries, live: list[Entry], policy: Policy | None = None) -> list[Sibling]:
    """The concurrent values among the live entries of a key, the winner first.

    By the key's read policy, or another one; by default highest hybrid time, then highest writer.
    """
    if len(live) < 2:
        return [live] if live else []
    key = live[0].key
    if key in entries.keys_of_mixed_kinds:
        return grouped(live, policy or entries.policy_of(key))
    if rules_of(live[0].kind).split is None:
        return [live]
    return _in_order(live, policy or entries.policy_of(key))


def grouped(live: list[Entry], policy: Policy = LWW) -> list[Sibling]:
    """The same, of entries that may be of several kinds.

    Among kinds the newest entry decides, whatever the policy: it orders the values of that kind, which come first.
    """
    kinds: dict[int, list[Entry]] = {}
    for entry in live:
        kinds.setdefault(entry.kind, []).append(entry)
    leading = kinds.pop(live[-1].kind)
    others = newest_first([group for one_kind in kinds.values() for group in _in_order(one_kind, LWW)])
    if policy.rank is None or rules_of(leading[0].kind).ranked is None:
        return newest_first([*_in_order(leading, LWW), *others])
    return [*_in_order(leading, policy), *others]


def _in_order(one_kind: list[Entry], policy: Policy) -> list[Sibling]:
    rules = rules_of(one_kind[0].kind)
    if policy.rank is not None and rules.ranked is not None:
        return rules.ranked.split(one_kind, policy.rank)
    return [one_kind] if rules.split is None else newest_first(rules.split(one_kind))


def policy_of(entries: Entries, groups: list[Sibling]) -> Policy:
    """The policy that decides among these values of a key; the default for kinds that have nothing to decide."""
    newest = groups[0][-1]
    return LWW if rules_of(newest.kind).ranked is None else entries.policy_of(newest.key)


def newest_first(groups: list[Sibling]) -> list[Sibling]:
    """In the order in which readers are shown them."""
    return sorted(groups, key=_newest, reverse=True) if len(groups) > 1 else groups


def _newest(group: Sibling) -> Order:
    return group[-1].order


def is_conflict(entries: Entries, live: list[Entry]) -> bool:
    """Whether there is more than one value."""
    if len(live) < 2:
        return False
    if live[0].key in entries.keys_of_mixed_kinds:
        return len(grouped(live)) > 1
    split = rules_of(live[0].kind).split
    return split is not None and len(split(live)) > 1


def concerned(space: SpaceState, schema_key: str, prefix: str, now_ms: int) -> list[str]:
    """The keys with several values of which another one may come first after a change of that schema."""
    entries = space.entries
    found = space.schemas.concerned(schema_key, prefix)
    return [key for key in found if is_conflict(entries, entries.live(key, now_ms))]


def version_of(shown: list[Entry], others: list[Entry] = []) -> Version:  # noqa: B006  # never changed
    """The version that a reader knows who was handed ``shown`` while ``others`` were alive too.

    A vector covers whatever the same writers wrote before, so it stands only for a reader who was handed all of that
    but ``others``.
    """
    unseen = tuple(entry.dot for entry in others[:VERSION_DOTS_MAX])
    if len(shown) > NAMED_DOTS_MAX:
        vector, hlc = reach_of(shown)
        if len(unseen) == len(others):
            return Version((), unseen, vector, hlc)
    else:
        hlc = max((entry.hlc for entry in shown), default=0)
    return Version(tuple(entry.dot for entry in shown[-VERSION_DOTS_MAX:]), unseen, None, hlc)


def packed_value(space: SpaceState, group: Sibling) -> bytes | None:
    """The value of one sibling as msgpack; None if it was purged.

    :raises TooLarge: it does not fit into one reply.
    :raises DamagedValue: the disk has spoilt it.
    """
    value = rules_of(group[-1].kind).read(space, group)
    space.values.check(group)
    return value


def readable_value(space: SpaceState, group: Sibling) -> bytes | None:
    """The same; None also for what does not fit into one reply, or is damaged."""
    try:
        return packed_value(space, group)
    except (TooLarge, DamagedValue):
        return None


def inline_value(space: SpaceState, group: Sibling) -> bytes | None:
    """The value of one sibling where many are listed: None for what may be long, or is damaged."""
    rules = rules_of(group[-1].kind)
    return rules.read(space, group) if rules.is_inline(space, group) else None


def describe(
    space: SpaceState,
    group: Sibling,
    node_of: Callable[[Writer], str],
    read: ReadValue = packed_value,
) -> dict[str, Any]:
    """One sibling as agents see it."""
    newest = group[-1]
    said = attributes_of(newest.attrs)
    described = {
        "kind": kind_name(newest.kind),
        "value": read(space, group),
        "dot": encode_dot(newest.dot),
        "agent": newest.agent,
        "node": node_of(newest.writer),
        "time": hlc_ms(newest.hlc),
        "confidence": said.confidence,
        "meta": said.meta,
        "ttl": said.ttl,
    }
    if isinstance(group, FieldSibling):
        described["field"] = newest.sub
    return described


def with_seen(space: SpaceState, groups: list[Sibling], described: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Siblings as agents see them, each with what its author had seen; a value without siblings as it is."""
    if len(groups) < 2:
        return described
    zipped = zip(described, groups, strict=True)
    return [one | describe_seen(space, seen_of(space, group[-1])) for one, group in zipped]


def describe_key(
    space: SpaceState,
    key: str,
    live: list[Entry],
    node_of: Callable[[Writer], str],
    read: ReadValue = packed_value,
) -> dict[str, Any] | None:
    """The entry of a key, as agents see it; None: the key is absent.

    An *entry* is ``{"key", "kind", "value", "version", "dot", "agent", "node", "time", "confidence", "meta", "ttl",
    "policy", "siblings"}``. ``value`` is the winner, and ``version`` covers all values of the key. ``siblings`` lists
    the others in the same form, without ``key``, ``version``, ``policy`` and ``siblings``, in the order of the policy.
    A losing value of a map's field is a sibling with that ``field``. If there are siblings, all of them say what their
    author had seen (``seen``, and ``blind`` or ``seen_all``), as in [history](#history).
    """
    groups = siblings(space.entries, live)
    if not groups:
        return None
    winner, *others = with_seen(space, groups, [describe(space, group, node_of, read) for group in groups])
    about = {"version": encode_version(version_of(live)), "policy": policy_of(space.entries, groups).name}
    return {"key": key, **winner, **about, "siblings": others}


class ConflictingKeys:
    """The keys of a space that have several values, told without a look at all keys that have several entries.

    To look at 50,000 keys with two values each took 190 ms whenever somebody asked.

    Example: of 100,000 maps each field is an entry, and one map has a field with two values. A request for the keys in
    conflict looks at that map alone: each map was judged once, after its entries had changed.
    """

    __slots__ = ("_entries", "_found", "_in_order")

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._found: set[str] = set()
        self._in_order: list[str] | None = []  # the same; None: they have changed since

    def judge(self, count_max: int) -> bool:
        """Look at so many of the keys whose entries have changed; whether there are more."""
        entries, unjudged = self._entries, self._entries.unjudged
        for _ in range(min(count_max, len(unjudged))):
            key = unjudged.pop()
            if is_conflict(entries, entries.held(key)) != (key in self._found):
                self._found ^= {key}
                self._in_order = None
        return bool(unjudged)

    def at(self, now_ms: int) -> list[str]:
        """Those that readers see several values of at that time, in order."""
        entries = self._entries
        self.judge(len(entries.unjudged))
        if self._in_order is None:
            self._in_order = sorted(self._found)
        return [
            key
            for key in self._in_order
            if not entries.is_expiring(key) or is_conflict(entries, entries.live(key, now_ms))
        ]
