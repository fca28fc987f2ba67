"""Replies to writes are kept: if a reply was lost and the client repeats the write, it is not done twice."""

from __future__ import annotations

from typing import Any

from crdtsync.core.kinds.arguments import without_replaced
from crdtsync.core.storage.interface import Storage
from crdtsync.core.storage.rows import OutcomeRow
from crdtsync.errors import InvalidRequest
from crdtsync.wire.codec import new_row, pack, unpack
from crdtsync.wire.limits import CHANGE_OPS_MAX
from crdtsync.wire.tokens import Version, decode_version

OUTCOMES_PER_CLIENT_MAX = 1024
"""Writes of a client whose replies are known for a repeat."""
FOLLOWED_MAX = 64
"""Writes of a key that one request may say it follows."""
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
        row: OutcomeRow = new_row(OutcomeRow, (client, number % OUTCOMES_PER_CLIENT_MAX, number, now_ms, stored))
        return row

    def earlier(self, client: bytes, number: int) -> dict[str, Any] | None:
        """The reply that this write got before; None: it never came, or too long ago."""
        result = self._uncommitted.get((client, number))
        if result is None:
            stored = self._storage.outcome(client, number)
            result = None if stored is None else unpack(stored)
        return result

    def versions(self, client: bytes, follows: object) -> dict[str, Version]:
        """The versions that earlier writes of a client left, by key: ``follows`` are the writes that it has had no
        reply to.

        :raises InvalidRequest: it does not name writes.
        """
        if follows is None:
            return {}
        if type(follows) is not dict or len(follows) > CHANGE_OPS_MAX:
            raise InvalidRequest("follows must be a map of keys to numbers of writes")
        found = {key: self._version(client, numbers) for key, numbers in follows.items()}
        return {str(key): version for key, version in found.items() if version is not None}

    def _version(self, client: bytes, numbers: object) -> Version | None:
        """That of the newest of these writes that was done, and told one."""
        if type(numbers) is not list or len(numbers) > 2 * FOLLOWED_MAX or any(type(n) is not int for n in numbers):
            raise InvalidRequest("follows must have a list of numbers for each key")
        for number, index in zip(numbers[-2::-2], numbers[::-2], strict=True):
            result = self.earlier(client, number) if 0 <= number < 2**63 else None
            parts = [result] if result is None or "results" not in result else result["results"]
            version = parts[index].get("version") if 0 <= index < len(parts) and parts[index] is not None else None
            if version is not None:
                return decode_version(version)
        return None

    def is_committed(self, client: bytes, number: int) -> bool:
        """Whether a write that was answered is on disk."""
        return (client, number) not in self._uncommitted

    def clear(self) -> None:
        """The commit is over: done, or failed and undone."""
        self._uncommitted.clear()
