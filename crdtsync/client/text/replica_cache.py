"""The texts that a session holds, bounded; of those that fell out it knows that they had been read."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsync.client.text.replica import TextReplica

REPLICAS_MAX = 64
FORGOTTEN_MAX = 100_000


class Replicas:
    """The newest used replicas by key. Thread-safe; a replica itself is not."""

    def __init__(self, replicas_max: int = REPLICAS_MAX, forgotten_max: int = FORGOTTEN_MAX) -> None:
        self._replicas_max = replicas_max
        self._forgotten_max = forgotten_max
        self._replicas: OrderedDict[str, TextReplica] = OrderedDict()
        self._forgotten: set[int] = set()
        self._overflowed = False
        self._lock = Lock()

    def get(self, key: str) -> TextReplica | None:
        """The replica of a text, if it is held."""
        with self._lock:
            replica = self._replicas.get(key)
            if replica is not None:
                self._replicas.move_to_end(key)
            return replica

    def put(self, key: str, replica: TextReplica) -> None:
        """Hold a replica; the one unused for longest may fall out for it."""
        with self._lock:
            self._replicas[key] = replica
            self._replicas.move_to_end(key)
            if len(self._replicas) > self._replicas_max:
                oldest, _ = self._replicas.popitem(last=False)
                self._forget(oldest)

    def is_forgotten(self, key: str) -> bool:
        """Whether the text was, or may have been, read, and is no longer held."""
        with self._lock:
            return key not in self._replicas and (self._overflowed or hash(key) in self._forgotten)

    def restart(self) -> None:
        """In a forked child: locks are free, and every replica writes under a name of its own."""
        self._lock = Lock()
        for replica in self._replicas.values():
            replica.roll_back()

    def _forget(self, key: str) -> None:
        self._forgotten.add(hash(key))
        if len(self._forgotten) > self._forgotten_max:
            self._overflowed = True
            self._forgotten = set()
