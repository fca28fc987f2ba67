"""What was typed and is not in the editor's Yjs document yet: runs of keystrokes, each as one edit.

Pure, and without Yjs: a keystroke that goes on with the one before costs next to nothing.
"""

from __future__ import annotations

from crdtsync.client.text.piece_table import Pieces, size_bytes
from crdtsync.errors import InvalidRequest, InvalidValue
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.limits import MOVED_BYTES_A_PART, MOVES_A_SCAN, WORK_PARTS_MAX

RUN_CHARS_MAX = 4096
"""Code points of a run within which one may go back and forth."""

GROUP_PARTS_MAX = WORK_PARTS_MAX * 3 // 4
"""Parts of one Yjs update, and of one request, as estimated: each character deleted counts as one here, and in the
daemon as 1.2 at most, of an only one amid a string.
"""

GROUP_CHARS_MAX = 128 * 1024
"""Code points inserted by one Yjs update."""


class ByteEdit(NamedTuple):
    """In the place of the bytes from ``first`` to ``last``, ``text``."""

    first: int
    last: int
    text: str


class Group:
    """Edits that make one Yjs update. ``number``: how many edits had been typed by its end; 0: it ends within one.
    ``is_cut``: what follows is not to be merged with it.
    """

    __slots__ = ("chars", "edits", "is_cut", "number", "parts")

    def __init__(self) -> None:
        self.edits: list[ByteEdit] = []
        self.parts = 0
        self.chars = 0
        self.number = 0
        self.is_cut = False


class Typed:
    """The text as its typist sees it, and the edits that led there. ``number`` counts them, of all times; ``chars`` are
    those typed that are still here. ``reach``: of how many characters the document is made, deleted ones among them;
    wherever an edit is, the daemon may have to look for its place among all of them.
    """

    def __init__(self, text: str = "", number: int = 0, reach: int = 0) -> None:
        self.number = number
        self.chars = 0
        self._view = Pieces(text)
        self._reach = reach
        self._moved = MOVED_BYTES_A_PART - 1  # of what is no whole part yet: counted from above
        self._groups: list[Group] = []
        self._group = Group()
        # The run: the code points from `_start` to `_end` were replaced by `_parts`, which have `_inserted` of them.
        self._start = self._end = self._inserted = 0
        self._parts: list[str] = []

    def __str__(self) -> str:
        self._settle()
        return str(self._view)

    def __len__(self) -> int:
        return self._view.length + self._inserted - (self._end - self._start)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was typed."""
        return not (self._groups or self._group.edits or self._parts or self._end > self._start)

    def edit(self, start: int, end: int, text: str) -> None:
        """Type ``text`` in the place of what is from ``start`` to ``end``.

        :raises InvalidRequest: there is no such place.
        :raises InvalidValue: what is no text.
        """
        self._check(start, end, text)
        if start == end and not text:
            return
        self.number += 1
        self.chars += len(text)
        run_end = self._start + self._inserted
        if start == end == run_end and self._parts:
            self._parts.append(text)
            self._inserted += len(text)
            return
        before, after = max(self._start - start, 0), max(end - run_end, 0)
        is_begun = bool(self._parts) or self._end > self._start
        # What was typed stands between its neighbours of then, by which Yjs orders what several type at one place: to
        # delete these is another edit.
        is_apart = start > run_end or end < self._start or (self._parts and (before or after))
        if not is_begun or is_apart or self._inserted > RUN_CHARS_MAX:
            self._settle()
            self._start, self._end, self._inserted = start, end, len(text)
            self._parts = [text] if text else []
            return
        inserted = "".join(self._parts)
        inserted = inserted[: max(start - self._start, 0)] + text + inserted[max(end - self._start, 0) :]
        self._start, self._end = self._start - before, self._end + after
        self._inserted = len(inserted)
        self._parts = [inserted] if inserted else []

    def cut(self) -> None:
        """What was typed so far stays apart from what follows."""
        self._settle()
        if self._group.edits:
            self._close()
        self._number_last(is_cut=True)

    @property
    def last_number(self) -> int:
        """How many edits had been typed by the end of what was cut last, as far as that left anything; 0: nothing."""
        return self._groups[-1].number if self._groups else 0

    def take(self) -> list[Group]:
        """All that was typed, as edits to make one after the other; it is no longer here."""
        self._settle()
        if self._group.edits:
            self._close()
        self._number_last(is_cut=False)
        groups, self._groups = self._groups, []
        self.chars = 0
        return groups

    def _number_last(self, *, is_cut: bool) -> None:
        if self._groups and not self._groups[-1].is_cut:
            self._groups[-1].number = self.number  # edits that undid each other included
            self._groups[-1].is_cut = is_cut

    # -- runs -----------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """End the run: it becomes one edit, or several where it is long."""
        start, end = self._start, self._end
        text = "".join(self._parts)
        self._start = self._end = self._inserted = 0
        self._parts = []
        whole = MOVES_A_SCAN * MOVED_BYTES_A_PART
        step = max(GROUP_PARTS_MAX * whole // (whole + self._reach), 1)
        while end - start > step:
            self._add(*self._view.splice(start, start + step, ""), "", step)
            end -= step
        for at in range(0, max(len(text), 1), GROUP_CHARS_MAX):
            chunk = text[at : at + GROUP_CHARS_MAX]
            if chunk or end > start:
                self._add(*self._view.splice(start, end, chunk), chunk, end - start)
            start = end = start + len(chunk)

    def _add(self, first: int, last: int, text: str, deleted: int) -> None:
        self._moved += (self._reach if text else 0) + self._reach * max(deleted, 1) // MOVES_A_SCAN
        moved, self._moved = divmod(self._moved, MOVED_BYTES_A_PART)
        parts = deleted + 2 + moved
        self._reach += size_bytes(text)
        group = self._group
        if group.edits and (group.parts + parts > GROUP_PARTS_MAX + 2 or group.chars + len(text) > GROUP_CHARS_MAX):
            self._close()
            group = self._group
        group.edits.append(ByteEdit(first, last, text))
        group.parts += parts
        group.chars += len(text)

    def _close(self) -> None:
        self._groups.append(self._group)
        self._group = Group()

    def _check(self, start: int, end: int, text: str) -> None:
        if type(start) is not int or type(end) is not int:
            raise InvalidRequest(f"a position must be a whole number, not {start if type(start) is not int else end!r}")
        if not 0 <= start <= end <= len(self):
            span = f"position {start}" if start == end else f"position {start} to {end}"
            raise InvalidRequest(f"{span} is outside of the text, which has {len(self)} characters as last read")
        check_text(text)


def check_text(text: str) -> None:
    """Refuse what is no text.

    :raises InvalidValue: another type, or a lone surrogate, at which the Yjs library panics.
    """
    if not isinstance(text, str):
        raise InvalidValue(f"a text holds str, not {type(text).__name__}", path="$")
    try:
        size_bytes(text)
    except UnicodeEncodeError:
        raise InvalidValue("the text has a lone surrogate, which UTF-8 cannot hold", path="$") from None
