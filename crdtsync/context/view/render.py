"""Chosen items as one block of text: Markdown for reading, XML for models that know it well, JSON for programs.

The words of agents are data. Whatever stands in a value, it cannot end its own block: in Markdown each of its lines is
indented by nothing but kept within a fence that is longer than any in it, in XML it is escaped.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from crdtsync.context.view.items import Item
from crdtsync.visible import in_line, readable

FORMATS = ("markdown", "xml", "json")

_LINE_MAX = 160  # characters of a value that stands in the line of its key
_GROUPS_MAX = 12


@dataclass(frozen=True, slots=True)
class Shown:
    """An item as it is shown: its whole text, or a compact one."""

    item: Item
    text: str
    is_whole: bool


def block(shown: Shown, form: str) -> str:
    """One item with its key, author and time."""
    item, text = shown.item, readable(shown.text)
    time = f"{item.time:%Y-%m-%d %H:%M}Z"
    if form == "json":
        fields: dict[str, object] = {"key": item.key, "agent": item.agent, "time": time, "value": text}
        fields |= {} if shown.is_whole else {"shortened": True}
        return json.dumps(fields | ({"conflict": item.conflicts + 1} if item.conflicts else {}), ensure_ascii=False)
    if form == "xml":
        more = f' conflict="{item.conflicts + 1}"' if item.conflicts else ""
        more += "" if shown.is_whole else ' shortened="true"'
        head = f"key={quoteattr(item.key)} agent={quoteattr(item.agent)} time={quoteattr(time)}{more}"
        return f"<entry {head}>{escape(text)}</entry>"
    more = f", {item.conflicts + 1} values at odds" if item.conflicts else ""
    more += "" if shown.is_whole else ", shortened"
    head = f"**{_inline(item.key)}** ({_inline(item.agent or 'unknown')}, {time}{more})"
    if "\n" not in text and len(text) <= _LINE_MAX:
        return f"{head}: {text}"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{head}\n{fence}\n{text}\n{fence}"


def in_a_line(text: str) -> str:
    """``text`` as part of one line, which it cannot end."""
    return in_line(" ".join(text.split()))


def whole(blocks: Iterable[str], footer: str, form: str) -> str:
    """The view: its items and what it says at the end."""
    parts = [*blocks]
    if form == "json":
        return json.dumps({"entries": [json.loads(part) for part in parts], "note": footer}, ensure_ascii=False)
    if form == "xml":
        return "\n".join(["<state>", *parts, *([f"<note>{escape(footer)}</note>"] if footer else []), "</state>"])
    return "\n".join([*parts, *([footer] if footer else [])])


def places(items: Iterable[Item]) -> Counter[str]:
    """How many of ``items`` are right below each prefix."""
    return Counter([item.key[: item.key.rfind("/") + 1] or item.key for item in items])


def left_out(missing: Counter[str], shortened: int, gone: Sequence[str] = ()) -> str:
    """The keys left out, by prefix, how to get them, and which keys are gone for good; "" if there is none of it."""
    said = []
    if missing:
        named = [f"{_inline(name)} {times:,}" for name, times in sorted(missing.items())]
        more = f" and {len(named) - _GROUPS_MAX:,} more places" if len(named) > _GROUPS_MAX else ""
        said.append(f"Left out: {counted(missing.total())} ({', '.join(named[:_GROUPS_MAX])}{more}).")
    if shortened:
        said.append(f"Shortened: {shortened:,}.")
    if said:
        said.append("For a whole value, read its key; for what there is, list a prefix.")
    if gone:
        more = f" and {len(gone) - _GROUPS_MAX:,} more" if len(gone) > _GROUPS_MAX else ""
        said.insert(0, f"Gone: {', '.join(map(_inline, gone[:_GROUPS_MAX]))}{more}.")
    return " ".join(said)


def counted(entries: int) -> str:
    """So many entries, in words."""
    return f"{entries:,} entr{'y' if entries == 1 else 'ies'}"


def _inline(text: str) -> str:
    return in_line(text).replace("*", "\\*")[:200]
