"""Rules, as they are looked up: what an agent may do with a key of a space, found once and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from crdtsync.core.access.records import ACCESS, BUILT_IN, AccessRecord, rule_of
from crdtsync.core.access.rights import Right
from crdtsync.core.cluster import Cluster
from crdtsync.errors import InvalidRequest
from crdtsync.wire.limits import is_name
from crdtsync.wire.patterns import ANY_PARTS, Pattern, check_pattern

SOCKET, ANYONE = "socket", "anyone"
"""The socket's owner and group, on each host; and whoever can open the socket."""
EVERYTHING = ANY_PARTS
GRANT_KEYS_MAX = 2_000
"""Keys of a space of which it is remembered what an agent may do with them."""


class Rule(NamedTuple):
    """One rule that grants something: ``right`` on the keys of ``pattern``."""

    who: str
    pattern: Pattern
    right: Right


class Grant:
    """What some agent may do in one space. Never changed once made: other rules make another one.

    ``whole``: its right on all keys, reserved ones too; ``most``: its highest right on any.
    """

    __slots__ = ("_levels", "most", "rules", "whole")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = sorted(rules, key=lambda rule: (rule.who, rule.pattern.text))
        self.whole = max((rule.right for rule in self.rules if rule.pattern.text == EVERYTHING), default=Right.NONE)
        self.most = max((rule.right for rule in self.rules), default=Right.NONE)
        self._levels: dict[str, Right] = {}

    def on(self, key: str) -> Right:
        """Its right on a key."""
        level = self._levels.get(key)
        if level is None:
            found = (rule.right for rule in self.rules if rule.pattern.matches(key))
            level = max(found, default=Right.NONE)
            level = max(level, self.whole)
            if len(self._levels) >= GRANT_KEYS_MAX:
                self._levels.clear()
            self._levels[key] = level
        return level

    def on_all(self, pattern: Pattern) -> Right:
        """Its right on all keys of a pattern, by one rule."""
        found = (rule.right for rule in self.rules if rule.pattern.covers(pattern))
        return max(self.whole, max(found, default=Right.NONE))

    def on_some(self, prefix: str) -> Right:
        """Its highest right on keys that begin with ``prefix``."""
        found = (rule.right for rule in self.rules if rule.pattern.meets(prefix))
        return max(self.whole, max(found, default=Right.NONE))

    def may_read(self, key: str) -> bool:
        """Whether it may read a key."""
        return self.on(key) >= Right.READ

    def readable_prefixes(self, prefix: str) -> list[str]:
        """Where to look for keys that may be read: prefixes without overlap, in order, all within ``prefix``."""
        if self.whole >= Right.READ:
            return [prefix]
        patterns = [rule.pattern for rule in self.rules if rule.right >= Right.READ and rule.pattern.meets(prefix)]
        found: list[str] = []
        for start in sorted({max(prefix, one.text if one.is_exact else one.prefix, key=len) for one in patterns}):
            if not found or not start.startswith(found[-1]):
                found.append(start)
        return found

    def reads_all_of(self, other: Grant) -> bool:
        """Whether what ``other`` may read, this one may."""
        if self.whole >= Right.READ:
            return True
        return other.whole < Right.READ and all(
            self.on_all(rule.pattern) >= Right.READ for rule in other.rules if rule.right >= Right.READ
        )


class Rulebook:
    """All rules of the cluster, by space and by whom they are for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rules: dict[str, dict[str, dict[str, Rule]]] = {}
        self._closed: set[str] = set()

    def __len__(self) -> int:
        return sum(len(rules) for of_space in self._rules.values() for rules in of_space.values())

    def reload(self) -> None:
        """Read all of them."""
        self._rules.clear()
        self._closed.clear()
        self.changed(self._cluster.names(ACCESS))

    def changed(self, names: Iterable[str]) -> set[str]:
        """Read these records again. Returns their spaces."""
        spaces = set()
        for name in names:
            found = rule_of(name)
            if found is None:
                continue
            space, who, text = found
            spaces.add(space)
            self._put(space, who, text, self.record(space, who, text))
        return spaces

    def _put(self, space: str, who: str, text: str, record: AccessRecord | None) -> None:
        if (who, text) == (SOCKET, EVERYTHING):
            is_closed = record is not None and record.right < Right.ADMIN
            (self._closed.add if is_closed else self._closed.discard)(space)
        of_who = self._rules.setdefault(space, {}).setdefault(who, {})
        of_who.pop(text, None)
        try:
            if record is not None and record.right > Right.NONE:
                of_who[text] = Rule(who, check_pattern(text), record.right)
        except InvalidRequest:
            return  # of a newer version, which has other patterns: it grants nothing here

    def record(self, space: str, who: str, text: str) -> AccessRecord | None:
        """The record of a rule; the built-in one where nobody has written another."""
        record = self._cluster.get(ACCESS, f"{space}/{who}/{text}")
        if record is None and (who, text) == (SOCKET, EVERYTHING) and is_name(space):
            return BUILT_IN
        return record

    @property
    def is_open(self) -> bool:
        """Whether the socket's owner and group may do all in every space."""
        return not self._closed

    def grant(self, space: str, identities: Iterable[str]) -> Grant:
        """What somebody with these identities may do in a space."""
        return Grant(rule for who in identities for rule in self.of(space, who))

    def of(self, space: str, who: str) -> Iterator[Rule]:
        """The rules of a space for one identity."""
        if who == SOCKET and space not in self._closed and is_name(space):
            yield Rule(who, check_pattern(EVERYTHING), Right.ADMIN)
        of_who: Mapping[str, Rule] = self._rules.get(space, {}).get(who, {})
        for text, rule in of_who.items():
            if (who, text) != (SOCKET, EVERYTHING) or space in self._closed:
                yield rule

    def all_of(self, space: str) -> Iterator[Rule]:
        """All rules of a space, in order."""
        whos = {*self._rules.get(space, {}), SOCKET}
        for who in sorted(whos):
            yield from sorted(self.of(space, who), key=lambda rule: rule.pattern.text)

    def spaces(self) -> list[str]:
        """Those that have rules."""
        return sorted(self._rules)
