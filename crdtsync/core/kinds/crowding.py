"""Keeps the siblings of a register, or of a field of a map, within their bound when somebody writes.

Four agents of one host do ``get`` and ``set`` in turns. Each write replaces the winner that its author was shown, and
whatever another one wrote meanwhile stays as a sibling: one more in each round. The seventeenth has no room.

An agent that has only read and written must not be refused for good. So under a read policy that ranks values (``lww``,
``max``, ``min``, ``confidence``, ``first``) the write also removes the values that rank lowest. History keeps them as
*lost*, the reply names them, and an alarm reports it. Under ``all`` and ``manual`` no value ranks below another: there
the daemon refuses the write, and the error says which call helps. A write that replaces a sibling adds none, and is
never refused.

Merging takes nothing along: a space that drops what another one keeps never converges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.causality import Dot
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.read_policies import Policy, newest_entries
from crdtsync.errors import TooManySiblings
from crdtsync.wire import limits

if TYPE_CHECKING:
    from collections.abc import Collection

    from crdtsync.core.kinds.draft import Draft


def crowded_out(
    draft: Draft, key: str, live: list[Entry], removes: Collection[Dot], field: str | None = None
) -> list[Entry]:
    """Those of ``live``, the values of ``key`` or of its ``field``, that a write which replaces ``removes`` takes along
    for want of room.

    :raises TooManySiblings: none may be taken, and the write would make one more.
    """
    if len(live) < limits.KEY_SIBLINGS_MAX:
        return []
    others = [entry for entry in live if entry.dot not in removes]
    if len(others) < limits.KEY_SIBLINGS_MAX:
        return []
    policy = draft.policy(key)
    if policy.is_whole or policy.is_manual:
        if len(others) < len(live):
            return []
        where = repr(key) if field is None else f"the field {limits.shown(field)} of {key!r}"
        raise TooManySiblings(
            f"{where} has {len(others)} values already, the most that it may have, and under the read policy "
            f"{policy.name} none of them ranks lowest: replace them by resolve with a value, or read all of them with "
            "entry, then write"
        )
    return lowest(policy, others, len(others) + 1 - limits.KEY_SIBLINGS_MAX)


def lowest(policy: Policy, values: list[Entry], count: int) -> list[Entry]:
    """The ``count`` values that readers would be shown last."""
    ranked = newest_entries(values) if policy.rank is None else policy.rank(values)
    return ranked[len(ranked) - count :]
