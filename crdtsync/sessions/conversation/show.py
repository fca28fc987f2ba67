"""A conversation for people: its turns, numbered, with who said what; and what was done to files, as a diff."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.conversation.choose import numbers
from crdtsync.sessions.conversation.edits import diff_of
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    USER,
    Call,
    Compaction,
    Conversation,
    Item,
    Result,
    Text,
    Thinking,
)

_TITLES = {USER: "User", ASSISTANT: "Agent"}
_LOG_CHARS = 100


def shown(conversation: Conversation, turns: str | None = None, excluded: Collection[int] = ()) -> Iterator[str]:
    """The conversation as lines of text; ``turns`` are a number or a range of them, such as ``3`` or ``3-5``."""
    found = conversation.turns()
    wanted = range(len(found)) if turns is None else numbers(turns)
    if turns is not None and not any(found[number] for number in wanted if 0 <= number < len(found)):
        raise InvalidRequest(f"the session has the turns 1 to {len(found) - 1:,}, not {turns}")
    for number, turn in enumerate(found):
        if turn and number in wanted:
            yield f"── turn {number} {'(excluded) ' if number in excluded else ''}" + "─" * 40
            for item in turn:
                yield from lines_of(item)


def logged(conversation: Conversation, excluded: Collection[int] = ()) -> Iterator[str]:
    """Each turn in a line: its number, when it began, how many calls it took, and what was asked for."""
    for number, turn in enumerate(conversation.turns()):
        if turn:
            asked = next((item.text for item in turn if isinstance(item, Text) and item.role == USER), "")
            calls = sum(isinstance(item, Call) for item in turn)
            out = "(excluded) " if number in excluded else ""
            said = " ".join(asked.split())[:_LOG_CHARS]
            yield f"{number}  {turn[0].time or '-'}  {calls} call{'' if calls == 1 else 's'}  {out}{said}"


def edited(conversation: Conversation) -> Iterator[str]:
    """The changes in files, in order, as lines of a diff."""
    for number, turn in enumerate(conversation.turns()):
        for item in turn:
            if isinstance(item, Call) and (diff := diff_of(item)):
                yield f"# turn {number}, {item.name}"
                yield from diff


def lines_of(item: Item) -> Iterator[str]:
    """One item."""
    match item:
        case Text(role, text, _, images):
            yield f"{_TITLES.get(role, 'Harness')}: {text}{_images(len(images))}"
        case Thinking(text) if text:
            yield f"Thinking: {text}"
        case Call(_, name) if diff := diff_of(item):
            yield "\n".join([f"→ {name}", *diff])
        case Call(_, name, arguments):
            yield f"→ {name} {json.dumps(arguments, ensure_ascii=False)}"
        case Result(_, text, images, is_error):
            yield f"← {'(failed) ' if is_error else ''}{text}{_images(len(images))}"
        case Compaction(summary):
            yield f"What was before was made compact: {summary}"


def _images(count: int) -> str:
    return f" [{count} image{'s' if count > 1 else ''}]" if count else ""
