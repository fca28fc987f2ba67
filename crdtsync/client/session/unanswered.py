"""Writes of a session that it has had no reply to: just sent, timed out, or cut short. Its later writes follow them.

Ann's program reads ``k`` and sends two writes of it at once. The second cannot name the version that the first will
leave, since no reply has told that. If it named the version that was read, the two would be siblings of each other. So
it also names the number of the first (``follows``). The daemon knows what that write has left, and counts it as seen.

The same holds for a write whose caller gave up waiting: whether it was done or not, its author's next write of the key
takes its place. At another database the number means nothing; there the two are siblings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crdtsync.client.session.request_context import Write

KEY_WRITES_MAX = 8
"""Writes of one key: the newest ones are named."""
KEYS_MAX = 1024
"""Keys of writes that nobody waits for any more."""

Place = tuple[str, int]
"""A key, and which operation of a batch wrote it last; 0 of a write that is sent alone."""
Earlier = Mapping[str, Sequence[tuple["Write[Any]", int]]]


class Unanswered:
    """Those of one session."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[tuple[Write[Any], int], ...]] = {}

    def add(self, write: Write[Any], places: Iterable[Place]) -> Earlier | None:
        """A write is about to be sent. Returns what there is before it of the same keys."""
        found: dict[str, tuple[tuple[Write[Any], int], ...]] = {}
        for key, index in places:
            earlier = self._by_key.pop(key, ())
            if earlier:
                found[key] = earlier
            self._by_key[key] = (*earlier[1 - KEY_WRITES_MAX :], (write, index))
        if len(self._by_key) > KEYS_MAX:
            self._drop_oldest()
        return found or None

    def settle(self, write: Write[Any], places: Iterable[Place]) -> list[str]:
        """Its outcome is known. Returns the keys of which that of a later write was known before."""
        overtaken: list[str] = []
        for key, index in places:
            waiting = self._by_key.get(key, ())
            if (write, index) not in waiting:
                overtaken.append(key)
                continue
            later = waiting[waiting.index((write, index)) + 1 :]
            if later:
                self._by_key[key] = later
            else:
                del self._by_key[key]
        return overtaken

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._by_key))
        if all(write.done for write, _ in self._by_key[oldest]):
            del self._by_key[oldest]


def numbers_of(earlier: Earlier) -> dict[str, list[int]]:
    """As a request names them: by key the number of each write and the index of its operation, the oldest first."""
    return {
        key: [part for write, index in writes if write.number for part in (write.number, index)]
        for key, writes in earlier.items()
    }
