"""A session's file as a chain of pieces, and a log of pieces as a tree.

A session goes on in one place, is saved there, is loaded elsewhere, goes on there, and is saved again; sometimes it
goes on in two places at once. Appending lines to one log would mix the two. So each piece names the digest of all that
was before it in its file, as a commit names its parent:

    piece("a\\n") after START → d1;  piece("b\\n") after d1 → d2;  piece("c\\n") after d1 → d3

A log holds such pieces in any mixture. What was written in two places is a fork in the tree, each way from START to an
end is one file to the byte, and saving a file again adds just the pieces that are not there. The file is the way to
the newest end.

A piece is a line with its line end, or a part of a line that is longer than :data:`PIECE_BYTES_MAX`. A torn last line
is a piece without a line end; when the line is complete, that is another piece, and the torn one a dead end.

Lines of a session repeat each other, and packed together they take half the room. So what is saved at once is stored
as runs: an element of the log is the digest before its first piece, and the content of all its pieces. What is saved
often is saved in short runs, which repeat the file's *head*, its first lines, more than themselves. So a run is packed
with the head as zlib's dictionary, and says up to which digest the head goes.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import Any, NamedTuple

from crdtsync.errors import InvalidEncoding

PIECE_BYTES_MAX = 512 * 1024
"""Of a session's lines, in one element of a log."""
PACKED_OVER_BYTES = 512
PACKED, PACKED_WITH_HEAD = 1, 2
"""How a long run is stored: packed by zlib, by itself or with the head as dictionary."""
HEAD_BYTES_MIN = 16 * 1024
"""Of a head; its last piece goes beyond that."""
HEADS_MAX = 16
"""That runs of one log may name: others are passed over."""
START = b""
_DIGEST_BYTES = 12


@dataclass(frozen=True, slots=True)
class Piece:
    """``content`` that follows all that ``after`` stands for; ``digest`` stands for both."""

    after: bytes
    digest: bytes
    content: bytes


class Head(NamedTuple):
    """What a file begins with, up to ``digest``; ``within``: the digests before that."""

    digest: bytes
    content: bytes
    within: frozenset[bytes]


def head_of(pieces: Iterable[Piece]) -> Head | None:
    """The head of the file that begins with ``pieces``; None if that is too short."""
    content, within = b"", []
    for one in pieces:
        content += one.content
        within.append(one.after)
        if len(content) >= HEAD_BYTES_MIN:
            return Head(one.digest, content, frozenset(within))
    return None


def piece(after: bytes, content: bytes) -> Piece:
    """The piece with its digest."""
    return Piece(after, sha256(after + content).digest()[:_DIGEST_BYTES], content)


def chain(lines: Iterable[bytes], after: bytes = START) -> Iterator[Piece]:
    """The pieces of a file, from its lines."""
    for line in lines:
        for start in range(0, len(line), PIECE_BYTES_MAX):
            made = piece(after, line[start : start + PIECE_BYTES_MAX])
            after = made.digest
            yield made


def runs(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """``pieces`` in runs that follow each other, each of at most :data:`PIECE_BYTES_MAX`."""
    run: list[Piece] = []
    size = 0
    for one in pieces:
        if run and (size + len(one.content) > PIECE_BYTES_MAX or one.after != run[-1].digest):
            yield run
            run, size = [], 0
        run.append(one)
        size += len(one.content)
    if run:
        yield run


def plain(run: list[Piece], head: Head | None = None) -> list[Any]:
    """A run as it is stored: a short one as text where it is text, for readers; a long one packed, where that makes it
    shorter, with ``head`` if the file has one and the run follows it.
    """
    after, content = run[0].after, b"".join(one.content for one in run)
    if len(content) > PACKED_OVER_BYTES:
        with_head = head is not None and after not in head.within
        packer = zlib.compressobj(zdict=head.content) if head is not None and with_head else zlib.compressobj()
        packed = packer.compress(content) + packer.flush()
        if len(packed) < len(content):
            return [after, packed, PACKED_WITH_HEAD, head.digest] if head and with_head else [after, packed, PACKED]
    try:
        return [after, content.decode()]
    except UnicodeDecodeError:
        return [after, content]


class Tree:
    """The pieces of one file that a log holds, in the order of the log; what is no piece is passed over."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._pieces: dict[bytes, Piece] = {}
        self._followed: Counter[bytes] = Counter()
        self._heads: dict[bytes, bytes | None] = {}
        self._waiting: list[Any] = []
        self.add(values)

    def add(self, values: Iterable[Any]) -> list[Piece]:
        """Take in more elements of the log; the pieces that are new. A run waits for its head."""
        new: list[Piece] = []
        values = [*self._waiting, *values]
        self._waiting = []
        self._heads = {digest: head for digest, head in self._heads.items() if head is not None}
        for value in values:
            for made in self._pieces_in(value):
                if self._pieces.pop(made.digest, None) is None:
                    self._followed[made.after] += 1
                    new.append(made)
                self._pieces[made.digest] = made  # at the end: the newest place counts
        return new + self.add(()) if new and self._waiting else new

    @property
    def ends(self) -> list[bytes]:
        """The digests that nothing follows, oldest first; without torn lines that were completed later."""
        return [
            digest
            for digest, one in self._pieces.items()
            if digest not in self._followed and (one.content.endswith(b"\n") or self._followed[one.after] == 1)
        ]

    def _pieces_in(self, value: Any) -> Iterator[Piece]:
        match value:
            case [bytes(after), str(text)]:
                content: bytes | None = text.encode("utf-8", "surrogatepass")
            case [bytes(after), bytes(content)]:
                pass
            case [bytes(after), bytes(packed), int(way)] if way == PACKED:
                content = _unpacked(packed, b"")
            case [bytes(after), bytes(packed), int(way), bytes(digest)] if way == PACKED_WITH_HEAD:
                head = self._head(digest)
                if head is None:
                    self._waiting.append(value)
                content = None if head is None else _unpacked(packed, head)
            case _:
                return
        if content:
            yield from chain(BytesIO(content), after)

    def _head(self, digest: bytes) -> bytes | None:
        """What is up to ``digest``; None: that is not here, or is no head."""
        if digest not in self._heads and len(self._heads) < HEADS_MAX:
            parts, size, at = [], 0, digest
            while at in self._pieces and size < HEAD_BYTES_MIN + PIECE_BYTES_MAX:
                parts.append(self._pieces[at].content)
                size += len(parts[-1])
                at = self._pieces[at].after
            self._heads[digest] = b"".join(reversed(parts)) if at == START and parts else None
        return self._heads.get(digest)

    def __contains__(self, digest: bytes) -> bool:
        return digest == START or digest in self._pieces

    def file(self, end: bytes | None = None) -> list[Piece]:
        """The pieces from the start to ``end``, or to the newest end.

        Raises :class:`~crdtsync.errors.InvalidEncoding` if some between are not on this host.
        """
        if end is None:
            end = self.ends[-1] if self.ends else START
        found: list[Piece] = []
        while end != START:
            if end not in self._pieces:
                raise InvalidEncoding("a part of the session is not on this host: wait until it is synced, then retry")
            found.append(self._pieces[end])
            end = found[-1].after
        found.reverse()
        return found

    def new_in(self, pieces: list[Piece]) -> list[Piece]:
        """Those of a file's ``pieces`` that are not here."""
        return [one for one in pieces if one.digest not in self._pieces]


def lines_of(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """The lines of a file, from its pieces."""
    begun: list[bytes] = []
    for one in pieces:
        begun.append(one.content)
        if one.content.endswith(b"\n"):
            yield b"".join(begun)
            begun = []
    if begun:
        yield b"".join(begun)


def _unpacked(packed: bytes, head: bytes) -> bytes | None:
    """None: that was not packed here; nothing that somebody else puts there takes more memory than a run."""
    unpacker = zlib.decompressobj(zdict=head)
    try:
        content = unpacker.decompress(packed, PIECE_BYTES_MAX)
    except zlib.error:
        return None
    return content if unpacker.eof else None
