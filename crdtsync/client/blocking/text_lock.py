"""The texts of a session, and what keeps two edits of one apart, among threads."""

from __future__ import annotations

from threading import TIMEOUT_MAX, Lock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from crdtsync.client.protocol.fork import restart_in_children

if TYPE_CHECKING:
    from crdtsync.client.operations.keys import Operations
    from crdtsync.client.text.operations import TextOperations


class TextLock:
    """One plan at a time for one text of a session; shared by its handles."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Also in a forked child, where nobody will release it."""
        self._lock = Lock()

    def acquire(self, timeout_s: float) -> bool:
        """Wait for it; False: the time is over."""
        return self._lock.acquire(timeout=min(timeout_s, TIMEOUT_MAX))

    def release(self) -> None:
        """Let the next one go on."""
        self._lock.release()


class Texts:
    """What the handles on the texts of one session share."""

    def __init__(self, operations: Operations) -> None:
        self._context = operations
        self._operations: TextOperations | None = None
        self._locks: WeakValueDictionary[str, TextLock] = WeakValueDictionary()
        self._making = Lock()
        restart_in_children(self)

    @property
    def operations(self) -> TextOperations:
        """The plans of texts; imported when they are first wanted."""
        from crdtsync.client.text.operations import TextOperations

        with self._making:
            if self._operations is None:
                self._operations = TextOperations(self._context)
            return self._operations

    def lock(self, key: str) -> TextLock:
        """That of one text."""
        with self._making:
            return self._locks.setdefault(key, TextLock())

    def after_fork(self) -> None:
        """In a child: locks may be held by threads that do not exist there."""
        self._making = Lock()
        for lock in self._locks.values():
            lock.restart()
        if self._operations is not None:
            self._operations.restart()
