"""Whether an edit of a text, or the whole document of another replica, may be taken in: before the library sees it."""

from __future__ import annotations

from crdtsync.core.text.drafted_edits import DELETES_A_PART
from crdtsync.core.text.yjs_library import ROOT, ROOTS
from crdtsync.errors import CrdtSyncError, InvalidValue, TooLarge
from crdtsync.wire.yjs.competition import counted
from crdtsync.wire.yjs.encoding import Steps
from crdtsync.wire.yjs.lib0 import TooManyParts
from crdtsync.wire.yjs.validator import STRUCTS_MAX, InvalidUpdate, Outline, UpdateSummary, validate_slowly

EDIT_STRUCTS_MAX = 2000
"""Parts that one edit may insert."""

EDIT_DELETES_MAX = 10_000
"""Ranges that one edit may delete: an author's daemon takes no more. Each takes the Yjs library 0.4 µs, or 9 where it
cuts a string in two.
"""

EDIT_LOOKED_AT_MAX = 4_000_000
"""Items at which the Yjs library looks for one edit, or for several until they are counted, at 0.1 µs each."""

AUTHOR_LOOKED_AT_MAX = 400_000
"""The same for an edit by an agent of this host; where edits of several hosts come together it may become more."""

STATE_STEPS_MAX = 4_000_000
"""The same, of another host's state of a document, before that is not taken in: at 0.1 µs each."""


def check_state(state: bytes) -> Steps[bool]:
    """Refuse what cannot be a whole document of another replica, in steps: one of 1 MB may take half a second.

    Returns whether it can be loaded in bounded time.

    :raises InvalidValue: malformed, or it refers to what it does not hold.
    """
    summary = yield from judge_state(state, Outline(ROOTS))
    if summary.competition.steps <= STATE_STEPS_MAX:  # which is more than an exact count, mostly
        return True
    return (yield from counted(state, ROOT)).steps <= STATE_STEPS_MAX


def judge_edit(
    update: bytes, outline: Outline, structs_max: int, looked_at_max: int, work_max: int | None = None
) -> Steps[UpdateSummary]:
    """Judge an edit on top of what ``outline`` tells of a document.

    :raises InvalidValue: it would have the Yjs library look at too much.
    :raises TooManyParts: it comes to more than ``work_max`` parts.
    :raises InvalidUpdate: malformed, or it refers to what the document does not hold.
    """
    structs_max = structs_max if work_max is None else min(structs_max, work_max)
    is_edit = structs_max <= EDIT_STRUCTS_MAX
    ranges_max = min(EDIT_DELETES_MAX, DELETES_A_PART * (structs_max + 1) - 1) if is_edit else None
    summary = yield from validate_slowly(
        update, outline, structs_max=min(structs_max, STRUCTS_MAX), ranges_max=ranges_max, work_max=work_max
    )
    if summary.competition.looked_at - outline.competition.looked_at > looked_at_max:
        raise InvalidValue(
            f"this edit claims places between which much stands already, and would keep each host busy: at most "
            f"{looked_at_max:,} items may be looked at for it; read the text again and split the edit",
            path="$",
        )
    return summary


def refused(error: InvalidUpdate) -> CrdtSyncError:
    """What its author is told."""
    message = f"not an acceptable Yjs update: {error}"
    return TooLarge(message) if isinstance(error, TooManyParts) else InvalidValue(message, path="$")


def judge_state(state: bytes, outline: Outline) -> Steps[UpdateSummary]:
    """Judge the whole document of another replica on top of the one that ``outline`` tells of.

    :raises InvalidValue: see :func:`check_state`.
    """
    try:
        return (yield from validate_slowly(state, outline, is_own_state=True))
    except InvalidUpdate as error:
        raise InvalidValue(f"not an acceptable state of a Yjs document: {error}", path="$") from None
