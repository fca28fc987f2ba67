"""What writes were answered, so that one that comes again, since its reply was lost, is not done twice."""

from __future__ import annotations

from typing import Any

from crdtsync.core.agents.connection import without_replaced
from crdtsync.core.storage.interface import OutcomeRow, Storage
from crdtsync.wire.codec import pack, unpack

OUTCOMES_PER_CLIENT_MAX = 1024
OUTCOME_BYTES_MAX = 16 * 1024
"""A larger reply is remembered without the value that the write replaced, which history keeps."""


class Outcomes:
    """The replies of a node's writes: those of the commit under way, and in ``storage`` those before it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._uncommitted: dict[tuple[bytes, int], dict[str, Any]] = {}

    def remember(self, client: bytes, number: int, result: dict[str, Any], stored: bytes, now_ms: int) -> OutcomeRow:
        """Keep a reply, ``stored`` once it is packed; returns what is to be stored of it with the commit."""
        self._uncommitted[client, number] = result
        if len(stored) > OUTCOME_BYTES_MAX:
            stored = pack(without_replaced(result))
        return OutcomeRow(client, number % OUTCOMES_PER_CLIENT_MAX, number, now_ms, stored)

    def earlier(self, client: bytes, number: int) -> dict[str, Any] | None:
        """What this write was answered before; None: it never came, or too long ago."""
        result = self._uncommitted.get((client, number))
        if result is None:
            stored = self._storage.outcome(client, number)
            result = None if stored is None else unpack(stored)
        return result

    def is_committed(self, client: bytes, number: int) -> bool:
        """Whether a write that was answered is on disk."""
        return (client, number) not in self._uncommitted

    def clear(self) -> None:
        """The commit is over: done, or failed and undone."""
        self._uncommitted.clear()
