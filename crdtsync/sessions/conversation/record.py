"""A conversation between a person and a coding agent, in no agent's format."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from crdtsync.named_tuple import NamedTuple

CUT_OFF = "[no result: the call was interrupted]"
USER, ASSISTANT, CONTEXT = "user", "assistant", "context"
"""The role of a text's author: a person, the model, or the harness to the model, in a person's place."""
_DATA_URL = re.compile(r"data:([\w/+.-]+);base64,(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its bytes in base64, or else a ``url``."""

    media_type: str
    data: str = ""
    url: str = ""

    @classmethod
    def of_url(cls, url: str) -> Self:
        """The image at ``url``, which may hold it."""
        match = _DATA_URL.match(url)
        return cls(match[1], match[2]) if match else cls("image/png", url=url)

    def as_url(self) -> str:
        """The URL, which :meth:`of_url` takes."""
        return self.url or f"data:{self.media_type};base64,{self.data}"


class Own(NamedTuple):
    """Parts as their agent wrote them, where an item tells less: they are given back to that agent alone. ``kinds`` are
    those that no other agent has.
    """

    parts: tuple[Mapping[str, Any], ...]
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Text:
    """Something that was said, with the images in it."""

    role: str
    text: str
    time: str = ""
    images: tuple[Image, ...] = ()
    own: Own | None = None


@dataclass(frozen=True, slots=True)
class Thinking:
    """The thoughts of the model, as far as its provider shows them."""

    text: str
    time: str = ""
    own: Own | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool."""

    id: str
    name: str
    arguments: dict[str, Any]
    time: str = ""
    own: Own | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The answer of a tool; ``id`` is the call's."""

    id: str
    text: str
    images: tuple[Image, ...] = ()
    is_error: bool = False
    time: str = ""
    own: Own | None = None


@dataclass(frozen=True, slots=True)
class Compaction:
    """From here on the model saw only what follows, and a summary of what was before, if there is one."""

    summary: str
    time: str = ""


Item = Text | Thinking | Call | Result | Compaction
Some = TypeVar("Some", bound=Item)


@dataclass(slots=True)
class Conversation:
    """The items in order. ``lost`` counts what is not among them: what it was and why, for people and models."""

    items: list[Item] = field(default_factory=list)
    lost: Counter[tuple[str, str]] = field(default_factory=Counter)

    def lose(self, what: str, reason: str, count: int = 1) -> None:
        """Note that something is not carried."""
        self.lost[what, reason] += count

    def losses(self) -> list[str]:
        """The losses: a line for each reason."""
        found: dict[str, list[str]] = {}
        for (what, reason), count in sorted(self.lost.items()):
            found.setdefault(reason, []).append(f"{count:,} × {what}")
        return [f"{', '.join(whats)}: {reason}" for reason, whats in found.items()]

    def turns(self) -> list[list[Item]]:
        """The items by turn, each of which begins with what a person said; before the first one there may be more."""
        return turns_of(self.items)

    def tool_names(self) -> list[str]:
        """The tools that were called."""
        return sorted({item.name for item in self.items if isinstance(item, Call)})


def turns_of(items: Iterable[Some]) -> list[list[Some]]:
    """The items by turn; see :meth:`Conversation.turns`."""
    found: list[list[Some]] = [[]]
    for item in items:
        if isinstance(item, Text) and item.role == USER:
            found.append([])
        found[-1].append(item)
    return found


def text_of(item: Item) -> str:
    """All text in an item, as a model reads it."""
    match item:
        case Call(_, name, arguments):
            return f"{name} {json.dumps(arguments, ensure_ascii=False)}"
        case Compaction(summary):
            return summary
        case other:
            return other.text


def settled(conversation: Conversation) -> Conversation:
    """The same with every call followed by its result, and every id there once.

    Providers refuse a call without a result, and a result that does not follow its calls. A call that was cut off gets
    a result that says so; a result whose call is not there is told as a text.
    """
    results: dict[str, list[Result]] = {}
    for item in conversation.items:
        if isinstance(item, Result):
            results.setdefault(item.id, []).append(item)
    made = Conversation(lost=conversation.lost)
    ids: Counter[str] = Counter()
    waiting: list[tuple[str, Call]] = []

    def answer() -> Iterator[Result]:
        for new, call in waiting:
            found = results.get(call.id)
            if found:
                yield replace(found.pop(0), id=new)
            else:
                yield Result(new, CUT_OFF, is_error=True, time=call.time)
        waiting.clear()

    for item in conversation.items:
        if isinstance(item, Call):
            ids[item.id] += 1
            new = item.id if item.id and ids[item.id] == 1 else f"{item.id or 'call'}-{ids[item.id]}"
            made.items.append(replace(item, id=new))
            waiting.append((new, item))
        elif isinstance(item, Result):
            made.items += answer()
        else:
            made.items += answer()
            if not isinstance(item, Text) or item.text or item.images:  # providers refuse an empty text
                made.items.append(item)
    made.items += answer()
    _tell_orphans(made, results.values())
    return made


def _tell_orphans(conversation: Conversation, left: Iterable[list[Result]]) -> None:
    for one in (result for group in left for result in group):
        conversation.lose("result without its call", "it is told as a text")
        conversation.items.append(Text(CONTEXT, f"[result of a tool whose call is missing]\n{one.text}", one.time))
