"""Which keys are written most, learnt from a watch while somebody looks: the daemon counts nothing for it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from crdtsync.client import Client, Event

KEYS_MAX = 10_000
"""Beyond so many different keys, those written least are forgotten."""


class HotKeys:
    """Counts writes by key in a thread of its own, until closed."""

    def __init__(self, client: Client) -> None:
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()
        self._watch = client.watch("", after=client.entries("", limit=1, values=False).token)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self) -> dict[str, int]:
        """The counts since the last call."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return counts

    def close(self) -> None:
        """End the watch."""
        self._watch.close()
        self._thread.join()

    def _run(self) -> None:
        with suppress(CrdtSyncError, OSError):
            for event in self._watch:
                with self._lock:
                    count(self._counts, [event])


def count(counts: dict[str, int], events: Iterable[Event]) -> None:
    """Add what these events wrote."""
    for event in events:
        if event.event == "batch":
            count(counts, event.events)
        elif event.key is not None:
            counts[event.key] = counts.get(event.key, 0) + 1
    if len(counts) > KEYS_MAX:
        kept = sorted(counts.items(), key=lambda item: item[1], reverse=True)[: KEYS_MAX // 2]
        counts.clear()
        counts.update(kept)
