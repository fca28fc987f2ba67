"""A long text that is edited in many places: kept in pieces, with the place of each in code points and UTF-8 bytes.

People count code points, Yjs counts bytes. Where both are known for the beginning of a piece, an edit looks at one
piece of the text, and at as many lengths as there are pieces between it and the edit before.
"""

from __future__ import annotations

PIECE_CHARS_MAX = 4096
"""Code points of a piece; a longer one is cut up when it is edited."""


class Pieces:
    """A text that can be changed. ``length`` is in code points."""

    __slots__ = ("_at", "_bytes", "_bytes_before", "_chars_before", "_texts", "length")  # fmt: skip

    def __init__(self, text: str = "") -> None:
        self._texts = [text]
        self._bytes = [size_bytes(text)]
        self.length = len(text)
        self._begin()

    def __str__(self) -> str:
        if len(self._texts) > 1:
            self._texts, self._bytes = ["".join(self._texts)], [sum(self._bytes)]
            self._begin()
        return self._texts[0]

    def splice(self, start: int, end: int, text: str) -> tuple[int, int]:
        """Put ``text`` in the place of the code points from ``start`` to ``end``; where these were, in bytes."""
        self._seek(start)
        first = last = self._at
        piece = self._texts[first]
        offset = start - self._chars_before
        first_byte = self._bytes_before + (offset if self._bytes[first] == len(piece) else size_bytes(piece[:offset]))
        rest = end - self._chars_before
        last_byte_before = self._bytes_before
        while rest > len(self._texts[last]):
            rest -= len(self._texts[last])
            last_byte_before += self._bytes[last]
            last += 1
        tail = self._texts[last]
        last_byte = last_byte_before + (rest if self._bytes[last] == len(tail) else size_bytes(tail[:rest]))
        self._put(first, last, f"{piece[:offset]}{text}{tail[rest:]}")
        self.length += len(text) - (end - start)
        return first_byte, last_byte

    def _put(self, first: int, last: int, text: str) -> None:
        if len(text) <= PIECE_CHARS_MAX:
            self._texts[first : last + 1] = [text]
            self._bytes[first : last + 1] = [size_bytes(text)]
            return
        step = PIECE_CHARS_MAX // 2
        parts = [text[at : at + step] for at in range(0, len(text), step)]
        self._texts[first : last + 1] = parts
        self._bytes[first : last + 1] = map(size_bytes, parts)

    def _begin(self) -> None:
        self._at = self._chars_before = self._bytes_before = 0

    def _seek(self, position: int) -> None:
        """Go to a piece in which, or at whose end, the position is."""
        texts, sizes = self._texts, self._bytes
        while position < self._chars_before:
            self._at -= 1
            self._chars_before -= len(texts[self._at])
            self._bytes_before -= sizes[self._at]
        while position > self._chars_before + len(texts[self._at]):
            self._chars_before += len(texts[self._at])
            self._bytes_before += sizes[self._at]
            self._at += 1


def size_bytes(text: str) -> int:
    """Of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())
