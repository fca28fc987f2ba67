"""Some turns of a conversation, whole: a call never loses its result."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.conversation.record import Call, Compaction, Conversation, Result, Thinking

TURNS_MAX = 10_000
_PATH = re.compile(r"(?:^|[\s'\"=:])(/?(?:[\w.@+-]+/)*(?:[\w@+-][\w.@+-]*)?\.[A-Za-z]\w{0,7})(?=$|[\s'\",:;)])")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_SEARCHED_CHARS_MAX = 4000


def numbers(turns: str) -> range:
    """The numbers that ``turns`` names: ``3``, or ``3-5``; at most :data:`TURNS_MAX`."""
    first, sign, last = turns.partition("-")
    try:
        found = range(int(first), int(last if sign else first) + 1)
    except ValueError:
        raise InvalidRequest(f"{turns!r} names no turns: write 3, or 3-5") from None
    if len(found) > TURNS_MAX:
        raise InvalidRequest(f"{turns!r} are {len(found):,} turns: name at most {TURNS_MAX:,} at once")
    return found


def named(turns: Iterable[int]) -> str:
    """Turns as people write them: ``3, 5-7``."""
    runs: list[list[int]] = []
    for number in sorted(set(turns)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def kept(conversation: Conversation, excluded: Collection[int], at: int | None = None) -> Conversation:
    """The conversation up to the end of turn ``at``, without the ``excluded`` turns.

    The summary of what was before a compaction stays, also out of an excluded turn: it tells of other turns.
    """
    turns = conversation.turns()
    if at is not None and not 1 <= at < len(turns):
        raise InvalidRequest(f"there is no turn {at}: the session has {len(turns) - 1:,}")
    made = Conversation(lost=conversation.lost)
    for number, turn in enumerate(turns if at is None else turns[: at + 1]):
        if number not in excluded:
            made.items += turn
            continue
        made.items += [item for item in turn if isinstance(item, Compaction)]
        made.lose(f"turn {number}", "it is excluded")
    if at is not None and at < len(turns) - 1:
        made.lose(f"turn after turn {at}", "the branch begins before it", len(turns) - 1 - at)
    return made


def paths_in(values: Iterable[object]) -> Iterator[str]:
    """The files that arguments of a call name."""
    for value in values:
        if isinstance(value, str):
            yield from _PATCHED.findall(value) or _PATH.findall(value[:_SEARCHED_CHARS_MAX])
        elif isinstance(value, list):
            yield from paths_in(value)


def only_files(conversation: Conversation) -> Conversation:
    """The calls that name files, with their results: what was read and written, without the talk."""
    made = Conversation(lost=conversation.lost)
    ids = {item.id for item in conversation.items
           if isinstance(item, Call) and any(paths_in(item.arguments.values()))}  # fmt: skip
    for item in conversation.items:
        if isinstance(item, Call | Result) and item.id in ids:
            made.items.append(item)
        elif not isinstance(item, Result):
            made.lose("call that names no file" if isinstance(item, Call) else "text", "only files were asked for")
    return made


def without_thinking(conversation: Conversation) -> Conversation:
    """The same without what the model thought."""
    made = Conversation(lost=conversation.lost)
    for item in conversation.items:
        if isinstance(item, Thinking):
            made.lose("thinking", "it was asked to be left out")
        else:
            made.items.append(item)
    return made
