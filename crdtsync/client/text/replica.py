"""A session's own replica of one text: the text as it was last read, plus the session's own edits.

pycrdt counts positions in UTF-8 bytes; everybody else here counts code points.

One Yjs update may have 1 MiB, and a text may be longer. So what is inserted in one call may become several updates:
each has a part of the work, and all of them together go out as one batch.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crdtsync.client.text.yjs import Doc, Text
from crdtsync.differences import Edit, changed_lines, edits
from crdtsync.errors import InvalidEncoding, InvalidRequest, InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = "text"
UPDATE_BYTES_MAX = 512 * 1024
"""About so much text, and so many changes, are one update."""
CHANGE_BYTES = 48
"""What one change takes in an update beside its text, at most."""
CHANGES_BYTES_MAX = 3 * 1024 * 1024
"""Many small changes that take more than this, in all, are told as one that replaces everything."""
CHANGES_MAX = 300
"""More changes than this are told line by line: each may be four parts, and the daemon takes 1,300 in one request."""
_JOURNAL_UPDATES_MAX = 256
NO_CHANGE = b"\0\0"
"""The Yjs update with neither insertions nor deletions."""


Step = tuple[int, int, bytes]
"""First and last byte of what goes, and what comes in its place."""


class TextReplica:
    """The Yjs document of a text, and what it is made of, so that a refused edit can be taken out again.

    ``document`` is the daemon's name for it; None: the text does not exist yet.
    """

    def __init__(self, document: str | None, update: bytes | None) -> None:
        self.document = document
        self.is_left_behind = False  # the text went on to another document by this session's own doing
        self.content = ""
        self._journal: list[bytes] = []
        self._build()
        if update is not None:
            self.apply(update)

    def state(self) -> bytes:
        """The Yjs state vector: what the replica holds."""
        return self._doc.get_state()

    def apply(self, update: bytes) -> None:
        """Take in what the daemon sent.

        :raises InvalidEncoding: the Yjs library does not take it; the replica is as it was.
        """
        try:
            self._doc.apply_update(update)
            self.content = str(self._text)
        except BaseException as error:
            self.roll_back()
            if not _is_panic(error):
                raise
            raise InvalidEncoding(f"the daemon sent an update that the Yjs library refuses: {error}") from None
        self.accept(update)

    def edit(self, changes: list[Edit]) -> list[bytes]:
        """Make edits in the replica; the Yjs updates that make them elsewhere, none for what changes nothing.

        Follow with :meth:`accept` for each, or :meth:`roll_back`.
        """
        for start, end, replacement in changes:
            self._check(start, end, replacement)
        self._updates.clear()
        steps: list[tuple[int, int, bytes]] = []
        moved = 0
        for (_, _, text), (first, last) in zip(changes, self._bytes(changes), strict=True):
            replacement_bytes = text.encode()  # in this order a daemon applies them fastest
            steps += _in_parts(first + moved, last + moved, replacement_bytes)
            moved += len(replacement_bytes) - (last - first)
        for group in _groups(steps):
            with self._doc.transaction():  # which makes one update at most
                for first, last, inserted in group:
                    if last > first:
                        del self._text[first:last]
                    if inserted:
                        self._text.insert(first, inserted.decode())
        self.content = _edited(self.content, changes)
        return [*self._updates]

    def replace_all(self, whole: str) -> list[bytes]:
        """Edit the replica so that it holds ``whole``, with few and small changes."""
        _check_text(whole)
        changes = edits(self.content, whole)
        if len(changes) > CHANGES_MAX:
            changes = [
                (start, end, whole[first:last]) for start, end, first, last in changed_lines(self.content, whole)
            ]
        if CHANGE_BYTES * len(changes) + sum(len(text.encode()) for _, _, text in changes) > CHANGES_BYTES_MAX:
            changes = [(0, len(self.content), whole)]
        return self.edit(changes)

    def accept(self, update: bytes) -> None:
        """An update that is in the document for good."""
        self._journal.append(update)
        if len(self._journal) > _JOURNAL_UPDATES_MAX:
            self._journal = [self._doc.get_update()]

    def roll_back(self) -> None:
        """Forget the edits that were not accepted, and in a forked child go on without the parent.

        The new document has a new Yjs client id: used clocks must not come again.
        """
        self._build()

    def _build(self) -> None:
        # The Yjs library would number forked processes alike.
        self._doc: Doc[Text] = Doc(client_id=int.from_bytes(os.urandom(7), "big") >> 3)
        self._text = self._doc.get(ROOT, type=Text)
        for update in self._journal:
            self._doc.apply_update(update)
        self.content = str(self._text)
        updates: list[bytes] = []
        self._updates = updates
        self._subscription = self._doc.observe(lambda event: updates.append(event.update))

    def _bytes(self, changes: list[Edit]) -> list[tuple[int, int]]:
        """Start and end of each change in UTF-8 bytes, which is what pycrdt counts."""
        if self.content.isascii():
            return [(start, end) for start, end, _ in changes]
        spans = []
        position = position_bytes = 0
        for start, end, _ in changes:
            first = position_bytes + len(self.content[position:start].encode())
            position, position_bytes = end, first + len(self.content[start:end].encode())
            spans.append((first, position_bytes))
        return spans

    def _check(self, start: int, end: int, replacement: str) -> None:
        if not 0 <= start <= end <= len(self.content):
            span = f"position {start}" if start == end else f"position {start} to {end}"
            length = len(self.content)
            raise InvalidRequest(f"{span} is outside of the text, which had {length} characters when last read")
        _check_text(replacement)


def _in_parts(first: int, last: int, text: bytes) -> Iterator[Step]:
    """A change, in UTF-8 bytes, with what it inserts cut into pieces between characters."""
    start = 0
    while True:
        end = min(start + UPDATE_BYTES_MAX, len(text))
        while end < len(text) and text[end] & 0xC0 == 0x80:
            end -= 1
        yield first + start, (last if start == 0 else first + start), text[start:end]
        start = end
        if start == len(text):
            return


def _groups(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Steps, in order, as many together as make one update."""
    group: list[Step] = []
    size_bytes = 0
    for step in steps:
        step_bytes = CHANGE_BYTES + len(step[2])
        if group and size_bytes + step_bytes > UPDATE_BYTES_MAX:
            yield group
            group, size_bytes = [], 0
        group.append(step)
        size_bytes += step_bytes
    if group:
        yield group


def _edited(content: str, changes: list[Edit]) -> str:
    parts: list[str] = []
    position = 0
    for start, end, replacement in changes:
        parts += (content[position:start], replacement)
        position = end
    return "".join((*parts, content[position:]))


def _check_text(text: str) -> None:
    """Lone surrogates make pycrdt panic."""
    if not isinstance(text, str):
        raise InvalidValue(f"a text holds str, not {type(text).__name__}", path="$")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValue("the text has a lone surrogate, which UTF-8 cannot hold", path="$") from None


def _is_panic(error: BaseException) -> bool:
    """pyo3's PanicException is a BaseException, and cannot be imported."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
