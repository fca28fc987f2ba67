"""The causal gate: changes that came before what they depend on wait here, within bounds.

Bob's change 2.1 answers Ann's 1.7, and reaches this host first, since Ann's host is slow. It must not be applied yet: a
reader would see an answer without a question, and 2.1 may remove an entry that is not there. The gate files it under
1.7, and hands it out when 1.7 is applied. Then it may have to wait for something else.

A waiting change is kept as the bytes that it came in, and decoded again when it is handed out: decoded, 32 MiB of small
changes took a gigabyte (measured).
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

from crdtsync.causality import Writer
from crdtsync.wire.change import Change

WRITER_CHANGES_MAX = 1024
"""Changes of one writer that came early."""
WRITER_BYTES_MAX = 8 * 1024 * 1024
"""Early changes of one writer, in memory."""
BYTES_MAX = 16 * 1024 * 1024
"""Early changes of all writers of a space: anybody can make up writers."""
CHANGE_BYTES = 600
"""Memory that a waiting change takes beside its bytes, if its writer has no other one, which takes most (measured:
560).
"""


def blocker(change: Change, vector: Mapping[Writer, int]) -> tuple[Writer, int] | None:
    """The first change that must be applied before ``change``; None if it may be applied now."""
    if vector.get(change.writer, 0) != change.seq - 1:
        return change.writer, change.seq - 1
    for dep in change.deps:
        if vector.get(dep.writer, 0) < dep.seq:
            return dep.writer, dep.seq
    return None


class CausalGate:
    """Early changes, each filed under the one change that it waits for next."""

    __slots__ = ("_bytes", "_held", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[Writer, list[tuple[int, Writer, int, bytes]]] = {}
        self._held: dict[Writer, dict[int, int]] = {}
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        """How much memory what waits here takes, of :data:`BYTES_MAX`."""
        return self._bytes

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits here."""
        return not self._held

    def __len__(self) -> int:
        return sum(len(sizes) for sizes in self._held.values())

    def hold(self, change: Change, waits_for: tuple[Writer, int]) -> bool:
        """Keep ``change`` until what it waits for is applied.

        False: no room for more; it must be asked for again.
        """
        sizes = self._held.get(change.writer, {})
        size_bytes = len(change.body) + CHANGE_BYTES
        if change.seq in sizes:
            return True
        if len(sizes) >= WRITER_CHANGES_MAX or sum(sizes.values()) + size_bytes > WRITER_BYTES_MAX:
            return False
        if self._bytes + size_bytes > BYTES_MAX:
            return False
        self._held[change.writer] = sizes
        self._bytes += size_bytes
        sizes[change.seq] = size_bytes
        writer, seq = waits_for
        heappush(self._waiting.setdefault(writer, []), (seq, change.writer, change.seq, change.body))
        return True

    def clear(self) -> None:
        """Drop all that waits here; it must be asked for again."""
        self._waiting.clear()
        self._held.clear()
        self._bytes = 0

    def release(self, writer: Writer, seq: int) -> list[bytes]:
        """The bodies of the changes that waited for ``seq`` of ``writer``, or an earlier one.

        They may have to wait for something else.
        """
        heap = self._waiting.get(writer)
        released = []
        while heap and heap[0][0] <= seq:
            _, early_writer, early_seq, body = heappop(heap)
            sizes = self._held[early_writer]
            self._bytes -= sizes.pop(early_seq)
            if not sizes:
                del self._held[early_writer]
            released.append(body)
        if heap is not None and not heap:
            del self._waiting[writer]
        return released

    def holds(self, writer: Writer, seq: int) -> bool:
        """Whether a change waits here."""
        return seq in self._held.get(writer, ())

    def held(self, word: bytes = b"") -> list[bytes]:
        """The bodies of all that waits here and has these bytes in it, by writer and number."""
        waiting = [early[1:] for heap in self._waiting.values() for early in heap if word in early[3]]
        return [body for _, _, body in sorted(waiting)]

    def missing(self) -> list[tuple[Writer, int]]:
        """The changes that waiting changes wait for, lowest first per writer."""
        return [(writer, heap[0][0]) for writer, heap in sorted(self._waiting.items())]
