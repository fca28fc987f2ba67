"""A session's own replica of one text: the text as it was last read, plus the session's own edits.

pycrdt counts positions in UTF-8 bytes; everybody else here counts code points.
"""

from __future__ import annotations

import os

from pycrdt import Doc, Text

from crdtsync.differences import Edit, edits
from crdtsync.errors import InvalidEncoding, InvalidRequest, InvalidValue

ROOT = "text"
_JOURNAL_UPDATES_MAX = 256
NO_CHANGE = b"\0\0"
"""The Yjs update with neither insertions nor deletions."""


class Replica:
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

    def edit(self, changes: list[Edit]) -> bytes:
        """Make edits in the replica; the Yjs update that makes them elsewhere.

        Follow with :meth:`accept` or :meth:`roll_back`.
        """
        for start, end, replacement in changes:
            self._check(start, end, replacement)
        self._updates.clear()
        with self._doc.transaction():
            for (_, _, replacement), (first, last) in zip(
                reversed(changes), reversed(self._bytes(changes)), strict=True
            ):
                if last > first:
                    del self._text[first:last]
                if replacement:
                    self._text.insert(first, replacement)
        self.content = _edited(self.content, changes)
        return b"".join(self._updates) or NO_CHANGE  # one transaction makes at most one update

    def replace_all(self, whole: str) -> bytes:
        """Edit the replica so that it holds ``whole``, with few and small changes."""
        _check_text(whole)
        return self.edit(edits(self.content, whole))

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
