"""In which order the characters of a document stand, deleted ones too, found out in steps.

The Yjs library knows, and shows the text alone. So this does what it does when it loads the whole document. The
algorithm is that of Nicolaescu et al., "Near Real-Time Peer-to-Peer Shared Editing on Extensible Data Types" (2016), as
Yjs and yrs have it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.yjs.encoding import DELETED, GC, STEP_STRUCTS, STRING, Id, Steps, Struct, causally

STEP_LOOKED_AT: Final = 10_000
"""So many items are looked at in a step, for those that compete for one place."""


class Run(NamedTuple):
    """Characters of one client with clocks one after the other."""

    client: int
    clock: int
    end: int


class _Piece:
    """An item, or a part of one that others stand beside."""

    __slots__ = ("after", "before", "client", "clock", "end", "is_plain", "origin", "right", "whole")

    def __init__(self, whole: Run, is_plain: bool, clock: int, end: int, origin: Id | None, right: Id | None) -> None:
        self.client = whole.client
        self.clock = clock
        self.end = end
        self.whole = whole
        self.is_plain = is_plain  # characters, there or deleted
        self.origin = origin
        self.right = right
        self.before: _Piece | None = None
        self.after: _Piece | None = None


def in_order(sections: Mapping[int, list[Struct]], root: str) -> Steps[list[tuple[Run, Run]]]:
    """The characters in this root of the document of these structs, and the struct that each run of them is of."""
    order = _Order(root)
    for number, (client, struct) in enumerate(causally(sections, {}), 1):
        order.add(client, struct)
        if number % STEP_STRUCTS == 0 or order.looked_at > STEP_LOOKED_AT:
            order.looked_at = 0
            yield
    found: list[tuple[Run, Run]] = []
    piece = order.first
    while piece is not None:
        if piece.is_plain:
            found.append((Run(piece.client, piece.clock, piece.end), piece.whole))
            if len(found) % STEP_STRUCTS == 0:
                yield
        piece = piece.after
    return found


class _Order:
    """The items of one root as they stand."""

    def __init__(self, root: str) -> None:
        self.first: _Piece | None = None
        self.looked_at = 0
        self._root = root
        self._held: dict[int, tuple[list[int], list[_Piece | None]]] = {}  # None: not in the root

    def add(self, client: int, struct: Struct) -> None:
        """One more, after all that it refers to."""
        left = self._cut(struct.origin, 1) if struct.origin else None
        right = self._cut(struct.right, 0) if struct.right else None
        is_first = struct.origin is None and struct.right is None
        is_here = struct.parent == self._root and not struct.keyed if is_first else bool(left or right)
        starts, pieces = self._held.setdefault(client, ([], []))
        starts.append(struct.clock)
        if struct.kind == GC or not is_here:
            pieces.append(None)
            return
        whole = Run(client, struct.clock, struct.end)
        is_plain = struct.kind in (STRING, DELETED)
        piece = _Piece(whole, is_plain, struct.clock, struct.end, struct.origin, struct.right)
        pieces.append(piece)
        self._put(piece, self._left_of(piece, left, right))

    def _left_of(self, piece: _Piece, left: _Piece | None, right: _Piece | None) -> _Piece | None:
        """Which it goes after, where others may have been put between its neighbours."""
        other = left.after if left else self.first
        before: set[_Piece] = set()
        conflicting: set[_Piece] = set()
        while other is not None and other is not right:
            self.looked_at += 1
            before.add(other)
            conflicting.add(other)
            if other.origin == piece.origin:
                if other.client < piece.client:
                    left = other
                    conflicting.clear()
                elif other.right == piece.right:
                    break
            else:
                holder = self._holder(other.origin) if other.origin else None
                if holder is None or holder not in before:
                    break
                if holder not in conflicting:
                    left = other
                    conflicting.clear()
            other = other.after
        return left

    def _put(self, piece: _Piece, left: _Piece | None) -> None:
        right = left.after if left else self.first
        piece.before, piece.after = left, right
        if left is None:
            self.first = piece
        else:
            left.after = piece
        if right is not None:
            right.before = piece

    def _holder(self, item: Id) -> _Piece | None:
        starts, pieces = self._held[item[0]]
        return pieces[bisect_right(starts, item[1]) - 1]

    def _cut(self, item: Id, after: int) -> _Piece | None:
        """The piece that ends with this clock (``after`` 1) or begins with it (0)."""
        starts, pieces = self._held[item[0]]
        index = bisect_right(starts, item[1]) - 1
        piece = pieces[index]
        at = item[1] + after
        if piece is None or at == (piece.end if after else piece.clock):
            return piece
        rest = _Piece(piece.whole, piece.is_plain, at, piece.end, (piece.client, at - 1), piece.right)
        piece.end = at
        starts.insert(index + 1, at)
        pieces.insert(index + 1, rest)
        self._put(rest, piece)
        return piece if after else rest
