"""What carries the edits of a text from one space into another: as Yjs updates, under the ids that they have.

A fork begins with the base's document, item by item. So what was typed in the fork stands beside items that the base
knows, and what was deleted there names items of the base. The base takes that in like an edit by somebody who was
away: however often it is made, and on whichever hosts, it is there once.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from crdtsync.client.text.replica import ROOT, TextReplica
from crdtsync.client.text.yjs import Doc, merge_updates
from crdtsync.errors import InvalidRequest, TooLarge
from crdtsync.wire.limits import VALUE_BYTES_MAX
from crdtsync.wire.yjs.encoding import CLOCK_MAX, GC, at_once, read_deletes, read_sections
from crdtsync.wire.yjs.rewriting import WholeText, deletion, in_pieces
from crdtsync.wire.yjs.state_vector import encode_state_vector

if TYPE_CHECKING:
    from crdtsync.client.values.results import TextUpdate

Ranges = dict[int, list[tuple[int, int]]]
"""By client, clocks: the first, and the one after the last."""

PARTS_MAX = (1000, 100, 10, 1)
"""Of one update, which inserts so many parts or deletes so many: fewer if the daemon finds that to be too much work."""
EDIT_BYTES_MAX = VALUE_BYTES_MAX - 1024
"""Of one update: the daemon takes a value's bytes, with its document's name."""


def is_one(was: TextUpdate | None, whole: TextUpdate, held: TextUpdate | None) -> bool:
    """Whether ``held``, in one space, and ``whole``, in another, which ``was`` this earlier, came from one document.

    A compaction keeps ids, but not where what it forgets has stood. If there was one in the space of ``whole``, no two
    hosts need say the same of that.
    """
    if held is None:
        return True
    clocks = _clocks(held.update)
    if was is None:
        return not clocks.keys().isdisjoint(_clocks(whole.update))
    earlier = _clocks(was.update)
    return was.document == whole.document and all(clocks.get(client, 0) >= end for client, end in earlier.items())


def lacking(whole: TextUpdate, held: TextUpdate | None, parts_max: int) -> list[bytes]:
    """The updates that, one after the other, bring ``held`` what it lacks of ``whole``.

    :raises TooLarge: there is one in them that is too long for any edit.
    """
    clocks = {} if held is None else _clocks(held.update)
    doc: Doc[Any] = Doc()
    doc.apply_update(whole.update)
    update = doc.get_update(encode_state_vector(clocks))
    sections, at = read_sections(update, CLOCK_MAX)
    deletes = _without(_deleted(update, at), {} if held is None else _gone(held.update))
    update = update[:at] + deletion(deletes)[1:]
    updates = [update]
    if sum(map(len, sections.values())) > parts_max or len(deletes) > parts_max or len(update) > EDIT_BYTES_MAX:
        groups = at_once(in_pieces(update, clocks, parts_max, parts_max))
        updates = [merge_updates(*group) if len(group) > 1 else group[0] for group in groups]
        if any(len(each) > EDIT_BYTES_MAX for each in updates):
            raise TooLarge(f"over {EDIT_BYTES_MAX:,} bytes of this text are in one piece")
    elif held is not None and not sections and not deletes:
        return []
    return updates


def plain(text: TextUpdate) -> str:
    """What it reads.

    :raises InvalidRequest: its document holds more than that.
    """
    if not at_once(WholeText.read(text.update, ROOT)).is_only_text():
        raise InvalidRequest("it holds more than text, and was made anew since then, or is too long")
    return TextReplica(None, text.update).content


def _clocks(update: bytes) -> dict[int, int]:
    """By client, the clock that comes next."""
    return {client: structs[-1].end for client, structs in read_sections(update, CLOCK_MAX)[0].items()}


def _gone(update: bytes) -> Ranges:
    """What is deleted in a whole document, or forgotten."""
    sections, at = read_sections(update, CLOCK_MAX)
    gone: Ranges = {}
    for client, clock, end in _deleted(update, at):
        gone.setdefault(client, []).append((clock, end))
    for client, structs in sections.items():
        gone.setdefault(client, []).extend((each.clock, each.end) for each in structs if each.kind == GC)
    return {client: sorted(ranges) for client, ranges in gone.items()}


def _deleted(update: bytes, at: int) -> list[tuple[int, int, int]]:
    deletes, _ = at_once(read_deletes(update, at, lambda *_: None))
    return [(client, *each) for client, ranges in deletes.items() for each in ranges]


def _without(deletes: list[tuple[int, int, int]], gone: Ranges) -> list[tuple[int, int, int]]:
    """The ranges without those that are gone, which are in order."""
    left: list[tuple[int, int, int]] = []
    for client, first, stop in deletes:
        clock, ranges = first, gone.get(client, [])
        for start, end in ranges[max(0, bisect_left(ranges, (first, 0)) - 1) :]:
            if start >= stop:
                break
            if start > clock:
                left.append((client, clock, start))
            clock = max(clock, end)
        if clock < stop:
            left.append((client, clock, stop))
    return left
