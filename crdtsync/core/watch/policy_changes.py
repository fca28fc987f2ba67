"""The values that readers now see otherwise because schemas have changed, and nothing else.

Watches tell what plain reads give: they are woken where another value comes first, or a list or a refusal comes in
place of a value. Copies show whole entries: they are told also where siblings change places.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from crdtsync.core.kinds.values import is_conflict, siblings

if TYPE_CHECKING:
    from crdtsync.causality import Dot
    from crdtsync.core.crdt.read_policies import Policy
    from crdtsync.core.crdt.schemas import SchemaTable
    from crdtsync.core.replica.replica import Replica


class Reread:
    """One change of the schemas of a space; ``before``: what they were."""

    def __init__(self, replica: Replica, before: SchemaTable, now_ms: int) -> None:
        self._replica = replica
        self._before = before
        self._now = replica.schemas.table
        self._now_ms = now_ms

    def _policies(self, key: str) -> tuple[Policy, Policy]:
        return self._before.find(key).policy, self._now.find(key).policy

    def _order(self, key: str, policy: Policy) -> list[tuple[Dot, ...]]:
        entries = self._replica.entries
        groups = siblings(entries, entries.live(key, self._now_ms), policy)
        return [tuple(entry.dot for entry in group) for group in groups]

    def _in_conflict(self, changed: Iterable[str]) -> set[str]:
        """The keys with several values whose policy has changed."""
        entries, schemas = self._replica.entries, self._replica.schemas
        found = {key for schema_key in changed for key in schemas.concerned(schema_key)}
        return {
            key
            for key in found
            if len({*self._policies(key)}) == 2 and is_conflict(entries, entries.live(key, self._now_ms))
        }

    def read_otherwise(self, changed: Iterable[str]) -> set[str]:
        """The keys in conflict of which a plain read gives another value, another form, or a refusal."""
        found = set()
        for key in self._in_conflict(changed):
            before, now = self._policies(key)
            is_other_form = (before.is_whole, before.is_manual) != (now.is_whole, now.is_manual)
            if is_other_form or self._order(key, before)[0] != self._order(key, now)[0]:
                found.add(key)
        return found

    def shown_otherwise(self, changed: Iterable[str]) -> set[str]:
        """The keys whose entry shows anything else: the policy, the order of the siblings, or a list of one value."""
        changed = list(changed)
        found = self._in_conflict(changed)
        if self._before.hands_over_all or self._now.hands_over_all:
            for schema_key in changed:
                for key in self._replica.schemas.matching(schema_key):
                    before, now = self._policies(key)
                    if before.is_whole != now.is_whole:
                        found.add(key)
        return found
