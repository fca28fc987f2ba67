"""Rules, as they are looked up: what an agent may do with a key of a space, found once and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crdtsync.core.access.records import ACCESS, BUILT_IN, AccessRecord, rule_of
from crdtsync.core.access.requirements import Right
from crdtsync.core.cluster.records import Cluster
from crdtsync.core.cluster.space_records import DEFAULT_SPACE, SPACES, making_of
from crdtsync.errors import InvalidRequest
from crdtsync.named_tuple import NamedTuple
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
    """The rights of some agent in one space. Never changed once made: other rules make another one.

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


NO_GRANT = Grant(())
"""The rights of anybody in a space that does not exist: none."""


class Rulebook:
    """All rules of the cluster, by space and by whom they are for; and which making of each space they must be of.

    A rule of another making of its space counts for nothing, nor does one of a space that nobody has made.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._records: dict[str, dict[str, dict[str, tuple[AccessRecord, Rule]]]] = {}
        self._makings: dict[str, int] = {}
        self._closed: set[str] = set()

    def __len__(self) -> int:
        return sum(len(rules) for of_space in self._records.values() for rules in of_space.values())

    def reload(self) -> None:
        """Read all of them."""
        self._records.clear()
        self._makings.clear()
        self._closed.clear()
        self.spaces_changed((DEFAULT_SPACE, *self._cluster.names(SPACES)))
        self.changed(self._cluster.names(ACCESS))

    # -- following the cluster's records -------------------------------------------------------------------------

    def spaces_changed(self, names: Iterable[str]) -> bool:
        """Read the records of these spaces again. Whether one was made anew, so that other rules count in it."""
        is_remade = False
        for name in names:
            before, making = self._makings.pop(name, None), None
            if is_name(name):
                making = making_of(name, self._cluster.get(SPACES, name))
            if making is not None:
                self._makings[name] = making
            if making != before:
                is_remade |= before is not None
        return is_remade

    def changed(self, names: Iterable[str]) -> set[str]:
        """Read these records again. Returns their spaces."""
        spaces = set()
        for name in names:
            found = rule_of(name)
            if found is None:
                continue
            space, who, text = found
            spaces.add(space)
            self._put(space, who, text, self._cluster.get(ACCESS, name))
        for space in spaces:
            self._look_if_closed(space)
        return spaces

    def _put(self, space: str, who: str, text: str, record: AccessRecord | None) -> None:
        of_who = self._records.setdefault(space, {}).setdefault(who, {})
        of_who.pop(text, None)
        try:
            if record is not None:
                of_who[text] = record, Rule(who, check_pattern(text), record.right)
        except InvalidRequest:
            return  # of a newer version, which has other patterns: it grants nothing here

    def _look_if_closed(self, space: str) -> None:
        """Whether somebody has said something of the socket's rule in a space, as far as that may still matter.

        Look whether a space is closed. Rules of another space than ``default`` may be of an earlier making, whose
        archive is still there.
        """
        found = self._records.get(space, {}).get(SOCKET, {}).get(EVERYTHING)
        is_closed = found is not None and (space != DEFAULT_SPACE or found[0].right < Right.ADMIN)
        (self._closed.add if is_closed else self._closed.discard)(space)

    # -- looking up ----------------------------------------------------------------------------------------------

    def making(self, space: str) -> int | None:
        """Which making of a space there is, or was last; None: none."""
        return self._makings.get(space)

    def record(self, space: str, who: str, text: str) -> AccessRecord | None:
        """The record that counts of a rule in a space; the built-in record if nobody has written another. None: there
        is none. None: nothing.
        """
        making = self._makings.get(space)
        return None if making is None else self._record_of(space, making, who, text)

    def _record_of(self, space: str, making: int, who: str, text: str) -> AccessRecord | None:
        found = self._records.get(space, {}).get(who, {}).get(text)
        if found is not None and found[0].epoch == making:
            return found[0]
        is_later = found is not None and found[0].epoch > making  # then what was said of this making is not known
        is_built_in = (who, text) == (SOCKET, EVERYTHING) and not is_later
        return BUILT_IN._replace(epoch=making) if is_built_in else None

    @property
    def is_open(self) -> bool:
        """Whether the socket's owner and group may do all in every space, and in the archives."""
        return not self._closed

    def grant(self, space: str, identities: Iterable[str], epoch: int | None = None) -> Grant:
        """The rights of somebody with these identities in a space, or in the archive of one of its epochs."""
        making = self._makings.get(space)
        if making is not None and epoch is not None and space != DEFAULT_SPACE:
            making = epoch
        return NO_GRANT if making is None else Grant(r for who in identities for r in self._of(space, making, who))

    def _of(self, space: str, making: int, who: str) -> Iterator[Rule]:
        """The rules of a making of a space for one identity."""
        if who == SOCKET:
            built_in = self._record_of(space, making, SOCKET, EVERYTHING)
            if built_in is not None and built_in.right > Right.NONE:
                yield Rule(who, check_pattern(EVERYTHING), built_in.right)
        for text, (record, rule) in self._records.get(space, {}).get(who, {}).items():
            if record.epoch == making and rule.right > Right.NONE and (who, text) != (SOCKET, EVERYTHING):
                yield rule

    def all_of(self, space: str) -> Iterator[Rule]:
        """All rules that count in a space, in order."""
        making = self._makings.get(space)
        if making is None:
            return
        for who in sorted({*self._records.get(space, {}), SOCKET}):
            yield from sorted(self._of(space, making, who), key=lambda rule: rule.pattern.text)

    def spaces(self) -> list[str]:
        """Those that have rules, or could have."""
        return sorted(self._makings)
