"""What tools answer: a text for the model, in which other agents' words are marked as theirs, and the same as data.

A client hands its model the one or the other: Claude Code only the data, when there is some. So both say all, name the
authors, steer no terminal and stay within the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from mcp_types import CallToolResult, TextContent
from typing_extensions import TypedDict

from crdtsync.client import Entry, Written
from crdtsync.context.tokens import tokenizer
from crdtsync.context.view.items import items_of, shortened, text_of
from crdtsync.context.view.render import Shown, block
from crdtsync.visible import readable

SHORT_CHARS = 1_000
"""Characters of a value in an answer of `history` and `wait_for_change`; `read` gives more."""


class WrittenShown(TypedDict):
    """What a write did."""

    done: str
    token: str
    others: int
    replaced_unread: Any


class Shortened(TypedDict):
    """Entries within a budget."""

    entries: list[dict[str, Any]]
    shortened: list[str]


class Hits(TypedDict):
    """What was found, the best first."""

    hits: list[dict[str, Any]]


class KeyList(TypedDict):
    """A list of keys."""

    keys: list[str]
    more: bool


class Done(TypedDict):
    """That something is done."""

    done: str
    token: str | None


def answer(text: str, data: Any) -> CallToolResult:  # one of the shapes above
    """A result that is shown as ``text`` and can be used as ``data``. No word of it steers a terminal."""
    return CallToolResult(content=[TextContent(type="text", text=readable(text))], structured_content=plain(data))


def shown(entry: Entry, value: Any) -> dict[str, Any]:  # any value of a key
    """``entry`` as data; ``others`` were written at the same time and are at odds with it."""
    return {
        "key": entry.key, "kind": entry.kind, "value": value, "agent": entry.agent, "time": moment(entry.time),
        "version": entry.version, "others": [{"value": one.value, "agent": one.agent} for one in entry.siblings],
    }  # fmt: skip


def within(entries: Iterable[Entry], budget: int, model: str) -> tuple[str, Shortened]:
    """``entries`` in ``budget`` tokens or little more: what does not fit in full is made compact, and said to be."""
    counter, blocks, listed, short_keys = tokenizer(model), list[str](), list[dict[str, Any]](), list[str]()
    entries = list(entries)
    for place, entry in enumerate(entries):
        item = items_of([entry])[0]
        share = max(40, budget // (len(entries) - place))
        whole = block(Shown(item, item.text, is_whole=True), "markdown")
        cost = counter.count(whole)
        if cost <= share:
            blocks.append(whole)
            listed.append(shown(entry, entry.value))
        else:
            short_text = shortened(item, share, model, source=f"read {entry.key!r} with a larger budget_tokens")
            blocks.append(block(Shown(item, short_text, is_whole=False), "markdown"))
            listed.append(shown(replace(entry, siblings=[]), short_text))
            short_keys.append(entry.key)
            cost = counter.count(blocks[-1])
        budget = max(0, budget - cost)
    return "\n".join(blocks), {"entries": listed, "shortened": short_keys}


def written(key: str, done: Written) -> CallToolResult:
    """What a write did, and what it replaced that this client had not read."""
    replaced = done.replaced
    said = [f"wrote {key}."]
    if replaced is not None:
        said.append(
            f"It replaced a value by {replaced.agent or 'somebody'} that you had not read; history {key!r} shows it."
        )
    if done.siblings:
        said.append(f"{done.siblings} more values are at odds with it: settle them with resolve.")
    data: WrittenShown = {
        "done": " ".join(said),
        "token": str(done),
        "others": done.siblings,
        "replaced_unread": None if replaced is None else short(replaced.value),
    }
    return answer(data["done"], data)


def moment(time: datetime | None) -> str | None:
    """``time`` as data."""
    return time.isoformat(timespec="seconds") if time else None


def short(value: Any) -> Any:  # any value of a key
    """``value`` as data if it is small, else how it begins."""
    text = text_of(value)
    return value if len(text) <= SHORT_CHARS else f"{text[:SHORT_CHARS]}… ({len(text):,} characters)"


def plain(value: Any) -> Any:  # any value of a key
    """``value`` as JSON has it: bytes become a note, sets lists, and no text in it steers a terminal."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, bytes):
        return f"[{len(value):,} bytes]"
    if isinstance(value, dict):
        return {readable(str(name)): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    return value
