"""What rules ought to come to: an independent model, by which of the grants and revocations a node knows.

Of a right that is granted and taken away at once, who had seen more of the other's doing counts; of equals, what takes
away wins over what leaves as it is, and grants of different rights both stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from crdtsync.causality import Writer

RIGHTS = ("read", "write", "admin")
Counts = tuple[int, ...]
Rule = tuple[str, str]
NOTHING: Counts = (0, 0, 0)


class Act(NamedTuple):
    """One grant or revocation: the change that it is in, and how often each right was turned on or off by then."""

    writer: int
    seq: int
    rule: Rule
    counts: Counts


class Rights:
    """All that was ever granted and revoked in one space. ``vector`` is always that of the cluster's records."""

    def __init__(self) -> None:
        self._acts: list[Act] = []
        self.rules: dict[Rule, None] = {}

    def counts(self, rule: Rule, vector: Mapping[Writer, int]) -> Counts:
        """What a node that holds ``vector`` makes of a rule."""
        known = [act.counts for act in self._acts if act.rule == rule and act.seq <= vector.get(Writer(act.writer), 0)]
        return tuple(max(column) for column in zip(NOTHING, *known, strict=True))

    def level(self, rule: Rule, vector: Mapping[Writer, int]) -> int:
        """How many of :data:`RIGHTS`, from the first on, a rule grants."""
        level = 0
        for count in self.counts(rule, vector):
            if count % 2 == 0:
                break
            level += 1
        return level

    def acted(self, rule: Rule, level: int, before: Mapping[Writer, int], point: Mapping[Writer, int]) -> None:
        """A rule grants that many rights from now on, as far as a node knew that held ``before``."""
        ((writer, seq),) = point.items()
        held = self.counts(rule, before)
        counts = tuple(count + ((count % 2 == 1) != (at < level)) for at, count in enumerate(held))
        self._acts.append(Act(int(writer), seq, rule, counts))
        self.rules[rule] = None

    def table(self, vector: Mapping[Writer, int]) -> dict[Rule, str]:
        """All rules that grant something, as they are listed."""
        levels = {rule: self.level(rule, vector) for rule in self.rules}
        return {rule: RIGHTS[level - 1] for rule, level in levels.items() if level}


def listed(rules: list[dict[str, Any]]) -> dict[Rule, str]:
    """The same of what a daemon lists."""
    return {(rule["who"], rule["pattern"]): rule["right"] for rule in rules if rule["who"].startswith("agent:")}
