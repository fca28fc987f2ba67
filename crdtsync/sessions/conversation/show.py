"""A conversation for people: its turns, numbered, with who said what."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from crdtsync.sessions.conversation.choose import numbers
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


def shown(conversation: Conversation, turns: str | None = None, excluded: Collection[int] = ()) -> Iterator[str]:
    """The conversation as lines of text; ``turns`` are a number or a range of them, such as ``3`` or ``3-5``."""
    wanted = None if turns is None else numbers(turns)
    for number, turn in enumerate(conversation.turns()):
        if turn and (wanted is None or number in wanted):
            yield f"── turn {number} {'(excluded) ' if number in excluded else ''}" + "─" * 40
            for item in turn:
                yield from lines_of(item)


def lines_of(item: Item) -> Iterator[str]:
    """One item."""
    match item:
        case Text(role, text, _, images):
            yield f"{_TITLES.get(role, 'Harness')}: {text}{_images(len(images))}"
        case Thinking(text):
            yield f"Thinking: {text}"
        case Call(_, name, arguments):
            yield f"→ {name} {json.dumps(arguments, ensure_ascii=False)}"
        case Result(_, text, images, is_error):
            yield f"← {'(failed) ' if is_error else ''}{text}{_images(len(images))}"
        case Compaction(summary):
            yield f"What was before was made compact: {summary}"


def _images(count: int) -> str:
    return f" [{count} image{'s' if count > 1 else ''}]" if count else ""
