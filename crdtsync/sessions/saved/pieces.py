"""A session's file as a chain of pieces, and a log of pieces as a tree.

A session goes on in one place, is saved there, is loaded elsewhere, goes on there, and is saved again; sometimes it
goes on in two places at once. Appending lines to one log would mix the two. So each piece names the digest of all that
was before it in its file, as a commit names its parent:

    piece("a\\n") after START → d1;  piece("b\\n") after d1 → d2;  piece("c\\n") after d1 → d3

A log holds such pieces in any mixture. What was written in two places is a fork in the tree, each way from START to an
end is one file to the byte, and saving a file again adds just the pieces that are not there. The file is the way to
the newest end.

A piece is a line with its line end. A torn last line is a piece without one; when the line is complete, that is another
piece, and the torn one a dead end.

Lines of a session repeat each other. So what is saved at once is stored as one run: an element of the log is the digest
before its first piece, and the content of all its pieces. A long run is packed with what was just before it in its file
as zlib's dictionary: a run of one line then takes a fifth of its bytes, and not two fifths (real sessions of Claude
Code). A line that is longer than :data:`RUN_BYTES_MAX`, such as a picture or the result of a tool, is a blob: its
element is the digest before it, its size, and its own digest, by which the blob is called. Nothing is packed with it,
so what follows can be read without the blob: a tree has it as a piece without content, a *gap*.
"""

from __future__ import annotations

import zlib
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import Any

from crdtsync.errors import InvalidEncoding

RUN_BYTES_MAX = 512 * 1024
"""Bytes of a session's lines, in one element of a log."""
LARGE_BYTES_MAX = 512 * 1024 * 1024
"""Bytes of a line that is longer, and a blob."""
PACKED_OVER_BYTES = 512
BEFORE_BYTES = 16 * 1024
"""Bytes before a run that are its dictionary; at the beginning of a file that is less."""
START = b""
DIGEST_BYTES = 12


@dataclass(frozen=True, slots=True)
class Piece:
    """``content`` that follows all that ``after`` stands for; ``digest`` stands for both."""

    after: bytes
    digest: bytes
    content: bytes


def chain(lines: Iterable[bytes], after: bytes = START) -> Iterator[Piece]:
    """The pieces of a file, from its lines."""
    for line in lines:
        made = Piece(after, sha256(after + line).digest()[:DIGEST_BYTES], line)
        after = made.digest
        yield made


def elements(
    pieces: Iterable[Piece], before: bytes | None = b"", known: Container[bytes] = ()
) -> Iterator[tuple[list[Any], list[Piece]]]:
    """The elements of a log for the ``pieces`` of a file whose digests are not ``known`` to be there, each with the
    pieces in it, at most :data:`RUN_BYTES_MAX`. ``before`` is what :func:`recent` gives for the file before them;
    None: that is not at hand, so that they are packed by themselves.
    """
    run: list[Piece] = []
    size, dictionary = 0, before
    for one in pieces:
        is_known = one.digest in known
        if run and (is_known or size + len(one.content) > RUN_BYTES_MAX):
            yield _element(run, dictionary), run
            run = []
        if not is_known:
            if not run:
                size, dictionary = 0, before
            run.append(one)
            size += len(one.content)
        before = recent(before, one.content)
    if run:
        yield _element(run, dictionary), run


def recent(before: bytes | None, content: bytes) -> bytes | None:
    """The last :data:`BEFORE_BYTES` of a file that ended with ``before`` and goes on with ``content``, but for large
    lines.
    """
    if before is None or len(content) > RUN_BYTES_MAX:
        return before
    return (before[-BEFORE_BYTES:] + content)[-BEFORE_BYTES:]


def _element(run: list[Piece], before: bytes | None) -> list[Any]:
    """A short run as text where it is text, for readers; a long one packed, where that makes it shorter, with the
    digest of its end; of a large line its size and digest.
    """
    after, content = run[0].after, b"".join(one.content for one in run)
    if len(content) > RUN_BYTES_MAX:
        return [after, len(content), run[0].digest]
    if len(content) > PACKED_OVER_BYTES:
        packer = zlib.compressobj(zdict=before) if before else zlib.compressobj()
        packed = packer.compress(content) + packer.flush()
        if len(packed) < len(content):
            return [after, packed, run[-1].digest]
    try:
        return [after, content.decode()]
    except UnicodeDecodeError:
        return [after, content]


def large(content: bytes) -> bytes:
    """The bytes for the blob of a large line."""
    return zlib.compress(content)


def with_large(element: Any, blob: bytes) -> list[Any]:
    """The element of a large line, with the line out of its blob."""
    after, size, _ = element
    return [after, _unpacked(blob, b"", min(size, LARGE_BYTES_MAX))]


def end_of(element: Any) -> bytes | None:
    """The digest of the end of an element of a log; None: it is none."""
    match element:
        case [bytes(), bytes() | int(), bytes(end)]:
            return end
        case [bytes(after), str() | bytes() as content]:
            return next((one.digest for one in reversed(list(_plain_pieces(after, content)))), None)
    return None


class PieceTree:
    """The pieces of one file that a log holds, in the order of the log; what is no piece is passed over.

    ``begun`` is the :attr:`newest` of another tree of that log: this one goes on from there.
    """

    def __init__(self, values: Iterable[Any] = (), begun: Piece | None = None) -> None:
        self._pieces: dict[bytes, Piece] = {} if begun is None else {begun.digest: begun}
        self._followed: Counter[bytes] = Counter()
        self._waiting: dict[bytes, list[Any]] = {}
        self.add(values)

    def add(self, values: Iterable[Any]) -> list[Piece]:
        """Take in more elements of the log; the pieces that are new. A run that is packed waits for those before it."""
        new: list[Piece] = []
        todo = deque(values)
        while todo:
            for made in self._pieces_in(todo.popleft()):
                if self._pieces.pop(made.digest, None) is None:
                    self._followed[made.after] += 1
                    new.append(made)
                self._pieces[made.digest] = made  # at the end: the newest place counts
                todo.extendleft(self._waiting.pop(made.digest, ()))
        return new

    @property
    def waits(self) -> bool:
        """Whether there are elements that what they are packed with is missing for."""
        return bool(self._waiting)

    @property
    def newest(self) -> Piece | None:
        """The piece that was added last, with as much of what is before it as others are packed with; None: there is
        none, or that is not here, or its line has not ended.
        """
        last = next(reversed(self._pieces.values()), None)
        if last is None or not last.content.endswith(b"\n"):
            return None
        before, missing = self._before(last.digest)
        return Piece(START, last.digest, before) if missing is None else None

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
            case [bytes(after), str() | bytes() as content]:
                yield from _plain_pieces(after, content)
            case [bytes(after), int(), bytes(digest)]:
                yield self._pieces.get(digest, Piece(after, digest, b""))
            case [bytes(after), bytes(packed), bytes()]:
                before, missing = self._before(after)
                if missing is None:
                    yield from chain(BytesIO(_unpacked(packed, before)), after)
                else:
                    self._waiting.setdefault(missing, []).append(value)

    def _before(self, digest: bytes) -> tuple[bytes, bytes | None]:
        """The last bytes of the file up to ``digest``, and which piece of them is not here."""
        parts, size = [], 0
        seen: set[bytes] = set()  # gaps that somebody made up may follow each other in a circle
        while digest in self._pieces and digest not in seen and size < BEFORE_BYTES:
            seen.add(digest)
            if len(content := self._pieces[digest].content) <= RUN_BYTES_MAX:
                parts.append(content)
                size += len(content)
            digest = self._pieces[digest].after
        is_whole = size >= BEFORE_BYTES or digest == START
        return b"".join(reversed(parts))[-BEFORE_BYTES:], None if is_whole else digest

    def completes(self, torn: Piece) -> bool:
        """Whether ``torn`` is the beginning of a line that is here."""
        return not torn.content.endswith(b"\n") and any(
            one.after == torn.after and one.content.startswith(torn.content) for one in self._pieces.values()
        )

    def __contains__(self, digest: object) -> bool:
        return digest == START or digest in self._pieces

    def file(self, end: bytes | None = None) -> list[Piece]:
        """The pieces from the start to ``end``, or to the newest end.

        Raises :class:`~crdtsync.errors.InvalidEncoding` if some between are not on this host.
        """
        if end is None:
            end = self.ends[-1] if self.ends else START
        found: list[Piece] = []
        while end != START:
            if end not in self._pieces or not self._pieces[end].content:
                raise InvalidEncoding("a part of the session is not on this host: wait until it is synced, then retry")
            found.append(self._pieces[end])
            end = found[-1].after
        found.reverse()
        return found


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


def _plain_pieces(after: bytes, content: str | bytes) -> Iterator[Piece]:
    return chain(BytesIO(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content), after)


def _unpacked(packed: bytes, before: bytes, bytes_max: int = RUN_BYTES_MAX) -> bytes:
    """Nothing, if that was not packed here; what somebody else puts there takes no more memory than it says."""
    unpacker = zlib.decompressobj(zdict=before)
    try:
        content = unpacker.decompress(packed, bytes_max)
    except zlib.error:
        return b""
    return content if unpacker.eof else b""
