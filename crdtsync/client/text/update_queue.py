"""What an editor has to send: one request at a time, and all that waits meanwhile merged into the next.

Pure: it neither knows the socket nor the Yjs library, which ``merge`` stands for.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from crdtsync.client.text.typed_buffer import GROUP_CHARS_MAX, GROUP_PARTS_MAX
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.limits import EDIT_PARTS

if TYPE_CHECKING:
    from collections.abc import Callable

UPDATES_MAX = 32
"""Updates that are to stay apart, in one request."""

REQUEST_BYTES_MAX = 1024 * 1024
"""Of the updates of one request; an only one may be longer."""


class Segment(NamedTuple):
    """An update that is not acknowledged.

    ``number``: how many edits had been typed by its end; 0: it ends within one.
    """

    update: bytes
    number: int
    parts: int
    chars: int
    is_cut: bool


class UpdateQueue:
    """The updates that are not acknowledged, oldest first."""

    def __init__(self, merge: Callable[[bytes, bytes], bytes]) -> None:
        self.acknowledged = 0
        """How many edits are."""
        self.changes = 0
        """How many requests were."""
        self.chars = 0
        self._merge = merge
        self._segments: deque[Segment] = deque()
        self._sent = 0  # so many of them are under way

    def __bool__(self) -> bool:
        return bool(self._segments)

    @property
    def updates(self) -> list[bytes]:
        """All of them."""
        return [segment.update for segment in self._segments]

    def add(self, segment: Segment) -> None:
        """One more.

        It is merged with the one before, unless that is under way, to stay apart, or would grow too large.
        """
        segments = self._segments
        self.chars += segment.chars
        last = segments[-1] if len(segments) > self._sent else None
        if (
            last is None
            or last.is_cut
            or last.parts + segment.parts > GROUP_PARTS_MAX
            or last.chars + segment.chars > GROUP_CHARS_MAX
        ):
            segments.append(segment)
            return
        update = self._merge(last.update, segment.update)
        number = max(last.number, segment.number)
        parts, chars = last.parts + segment.parts, last.chars + segment.chars
        segments[-1] = Segment(update, number, parts, chars, segment.is_cut)

    @property
    def last_number(self) -> int:
        """How many edits had been typed by the end of what is here; 0: nothing is."""
        return max((segment.number for segment in self._segments), default=0)

    def cut(self) -> None:
        """What comes next stays apart."""
        if len(self._segments) > self._sent:
            self._segments[-1] = self._segments[-1]._replace(is_cut=True)

    def request(self, updates_max: int = UPDATES_MAX) -> list[Segment]:
        """What to send now; it is under way until :meth:`succeeded` or :meth:`failed`."""
        size_bytes = parts = 0
        found: list[Segment] = []
        for segment in self._segments:
            size_bytes += len(segment.update)
            parts += segment.parts + (EDIT_PARTS if found else 0)
            is_over = size_bytes > REQUEST_BYTES_MAX or parts > GROUP_PARTS_MAX or len(found) >= updates_max
            if found and is_over:
                break
            found.append(segment)
        self._sent = len(found)
        return found

    def succeeded(self) -> None:
        """What was under way is acknowledged."""
        for _ in range(self._sent):
            segment = self._segments.popleft()
            self.chars -= segment.chars
            self.acknowledged = max(self.acknowledged, segment.number)
        self.changes += 1
        self._sent = 0

    def failed(self) -> None:
        """It is to be sent again."""
        self._sent = 0

    def clear(self) -> None:
        """None of it is to be sent."""
        self._segments.clear()
        self._sent = self.chars = 0
