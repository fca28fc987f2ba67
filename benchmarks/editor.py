"""A text editor with a Yjs replica of its own, as the authors of a trace use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pycrdt import Doc, Text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from benchmarks.traces import Past, Patch

ROOT = "text"
NO_CHANGE = b"\0\0"
"""The Yjs update with neither insertions nor deletions."""


class Editor:
    """One replica. ``held`` says which transactions it holds; the caller keeps it true."""

    def __init__(self, client_id: int | None = None) -> None:
        self.held: Past = {}
        self._doc: Doc[Text] = Doc(client_id=client_id)
        self._text = self._doc.get(ROOT, type=Text)
        self._content: str | None = ""
        self._updates: list[bytes] = []
        self._subscription = self._doc.observe(lambda event: self._updates.append(event.update))

    @property
    def content(self) -> str:
        """The text."""
        if self._content is None:
            self._content = str(self._text)
        return self._content

    def merge(self, updates: Iterable[bytes]) -> None:
        """Take in edits of others, parents first."""
        for update in updates:
            self._doc.apply_update(update)
        self._content = None

    def edit(self, patches: Iterable[Patch]) -> bytes:
        """Make the patches, one after the other, as one transaction; the Yjs update that makes them elsewhere.

        Patches count code points, and pycrdt UTF-8 bytes.
        """
        self._updates.clear()
        content = self.content
        with self._doc.transaction():
            for position, deleted, inserted in patches:
                end = position + deleted
                if not 0 <= position <= end <= len(content):
                    raise IndexError(f"code points {position} to {end} of a text that has {len(content)}")
                first = position if content.isascii() else len(content[:position].encode())
                if deleted:
                    last = first + len(content[position:end].encode())
                    del self._text[first:last]
                if inserted:
                    self._text.insert(first, inserted)
                content = content[:position] + inserted + content[end:]
        self._content = content
        return b"".join(self._updates) or NO_CHANGE  # a transaction makes one update at most


class ClientIds:
    """Yjs client ids, random as in every editor, but ascending with the authors' numbers.

    Where two authors insert at one place at the same time, Yjs puts the text of the lower id first. Recorded sessions
    count as free of such places, yet ``friendsforever`` has one, by Yjs's understanding of a place: transaction 22,364
    deletes a full stop and 22,365 types there, while 22,360 types behind that full stop. What its authors saw came
    of their ids being in this order.
    """

    _BITS = 24

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._used: set[int] = set()

    def new(self, agent: int) -> int:
        """An id that no replica had before: a new replica must not use the clocks of an old one again."""
        while True:
            client_id = agent << self._BITS | self._rng.getrandbits(self._BITS)
            if client_id not in self._used:
                self._used.add(client_id)
                return client_id


def rebuilt(updates: Iterable[bytes]) -> str:
    """The text of a new replica that takes in all these edits."""
    editor = Editor()
    editor.merge(updates)
    return editor.content
