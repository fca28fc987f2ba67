"""The table of all kinds."""

from __future__ import annotations

from collections.abc import Mapping

from crdtsync.core.kinds import counter, log, maps, register, sets, text
from crdtsync.core.kinds.base import Rules
from crdtsync.wire.change import Kind

KINDS: Mapping[int, Rules] = {
    Kind.REGISTER: register.RULES,
    Kind.COUNTER: counter.RULES,
    Kind.SET: sets.RULES,
    Kind.MAP: maps.RULES,
    Kind.LOG: log.RULES,
    Kind.TEXT: text.RULES,
}

UNKNOWN = register.RULES._replace(writes={}, ranked=None)
"""A kind that only newer versions know: kept, passed on, and shown as its bytes."""


def rules_of(kind: int) -> Rules:
    """The rules of a kind, also of one that is not known here."""
    return KINDS.get(kind, UNKNOWN)
