"""The reads of a session: the version of each key that its next write may supersede.

Only reads set a key's context; after that the session's own write replaces it. A key that was never read is written
blind. The memory is bounded: of keys that fell out of it only an 8-byte hash stays, which tells "read long ago" (the
write makes a sibling) from "never read" (it replaces the winner). Once even the hashes overflow, every unknown key
counts as read long ago: never blind by mistake.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Protocol

from crdtsync.client.protocol.fork import restart_in_children

READ_LONG_AGO = "?"
"""The ``seen`` of a write when its author's reading covers nothing: it was forgotten, or the key was absent."""
NOTHING_STORED = "v1.kwAAkA"
"""A version that covers no entry. Unlike READ_LONG_AGO it is one: what is written next comes on top of it."""

KEYS_MAX = 10_000
HASHES_MAX = 200_000  # about 16 MB


class Elsewhere(Protocol):
    """Reads that are written down elsewhere, until somebody asks for them."""

    def take(self, key: str) -> str | None:
        """The version at which ``key`` was read since the last call; empty: it was absent; None: it was not read."""


class ReadMemory:
    """The reads of one session in one space. Thread-safe.

    ``mirrors``: where its reads from copies in this process are, which are too fast to be noted here one by one.
    """

    def __init__(self, keys_max: int = KEYS_MAX, hashes_max: int = HASHES_MAX) -> None:
        self._keys_max = keys_max
        self._hashes_max = hashes_max
        self._read: OrderedDict[str, str] = OrderedDict()
        self._forgotten: set[int] = set()
        self._overflowed = False
        self._lock = Lock()
        self.mirrors: tuple[Elsewhere, ...] = ()
        restart_in_children(self)

    def seen(self, key: str) -> str | None:
        """The context of a write to ``key``; None: it was never read."""
        for reads in self.mirrors:
            version = reads.take(key)
            if version is not None:
                self.read_elsewhere(key, version)
        found = self._read.get(key)
        if found is not None:
            return found
        if self._overflowed or (self._forgotten and hash(key) in self._forgotten):
            return READ_LONG_AGO
        return None

    def read(self, key: str, version: str | None) -> None:
        """``key`` was read at ``version``; None: it was absent."""
        read = self._read
        with self._lock:
            read[key] = version or READ_LONG_AGO
            read.move_to_end(key)
            if len(read) > self._keys_max:
                oldest = next(iter(read))
                self._remember_hash(oldest)  # first: a reader without the lock must never find neither
                del read[oldest]

    def read_elsewhere(self, key: str, version: str) -> None:
        """``key`` was also read at ``version`` (empty: it was absent), some time since it was last asked for."""
        remembered = self._read.get(key)
        if not version:
            if remembered is None:
                self.read(key, None)
            return
        if remembered is not None and remembered != READ_LONG_AGO:
            from crdtsync.client.values.version_merge import both

            together = both(remembered, version)
            if together is None:
                self.forget(key)
                return
            version = together
        self.read(key, version)

    def wrote(self, key: str, version: str | None, *, as_read: bool = False) -> None:
        """The session's own write left ``key`` at ``version``; None: absent.

        Counts only if the key had been read, or ``as_read``.
        """
        if not as_read and (key not in self._read or self.mirrors) and self.seen(key) is None:
            return
        self.read(key, version)

    def saw(self, key: str, version: str, point: str | None = None) -> None:
        """A part of what ``key`` holds, which ``version`` covers, was handed over beside what had been read of it;
        with ``point`` (a token) also all other parts that there were then.

        If a key was never read, or long ago, a part tells nothing about the rest.
        """
        remembered = self._read.get(key)
        if remembered is None:
            return
        if remembered != READ_LONG_AGO or point is not None:
            from crdtsync.client.values.version_merge import both

            together = both(NOTHING_STORED if remembered == READ_LONG_AGO else remembered, version, point)
            if together is None:
                self.forget(key)
                return
            version = together
        self.read(key, version)

    def is_forgotten(self, key: str) -> bool:
        """Whether ``key`` was, or may have been, read so long ago that the version is no longer known."""
        return self.seen(key) is not None and key not in self._read

    def newest(self, key: str) -> str | None:
        """The version that is remembered of ``key``, to be put back."""
        return self._read.get(key)

    def put_back(self, key: str, version: str | None) -> None:
        """Put back a version that was remembered before."""
        with self._lock:
            if version is None:
                self._read.pop(key, None)
            else:
                self._read[key] = version

    def forget(self, key: str) -> None:
        """The session changed ``key``, and nobody told to which version: from now on it was read long ago, if ever."""
        if key in self._read:
            with self._lock:
                self._remember_hash(key)
                self._read.pop(key, None)

    def after_fork(self) -> None:
        """In a child: another thread of the parent may have held the lock."""
        self._lock = Lock()

    def _remember_hash(self, key: str) -> None:
        if self._overflowed:
            return
        self._forgotten.add(hash(key))  # 64 bits, keyed at random for each process
        if len(self._forgotten) > self._hashes_max:
            self._overflowed = True
            self._forgotten = set()
