"""Entries of the shared state as texts that a model can read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from crdtsync.client import Entry
from crdtsync.context.compact.compress import compress
from crdtsync.context.shared.entry import is_record, together
from crdtsync.visible import in_line

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One key as it may be shown. ``text`` is its value in full, with all concurrent values where there are several;
    of what somebody put into a shared context it is the compact text.

    ``version`` changes whenever what is shown changes; ``time_s`` counts from 1970; ``confidence`` is 1.0 where the
    author gave none; ``claims`` are values at odds, each with its author.
    """

    key: str
    text: str
    version: str
    agent: str
    time_s: float
    confidence: float
    pinned: bool
    role: str
    claims: tuple[tuple[str, str], ...] = ()

    @property
    def time(self) -> datetime:
        """When it was written, in UTC."""
        return datetime.fromtimestamp(self.time_s, UTC)

    @property
    def conflicts(self) -> int:
        """How many values are at odds with the first."""
        return max(0, len(self.claims) - 1)


def items_of(entries: Iterable[Entry], pinned: Iterable[str] = ()) -> list[Item]:
    """``entries`` as items; the keys ``pinned``, and those with ``pinned`` in their ``meta``, are shown first."""
    wanted = set(pinned)
    return [_item(entry, is_pinned=entry.key in wanted) for entry in entries]


def _item(entry: Entry, *, is_pinned: bool) -> Item:
    meta = entry.meta or {}
    times = [one.time for one in (entry, *entry.siblings) if one.time is not None]
    claims = tuple(_claim(one) for one in (entry, *entry.siblings)) if entry.siblings else ()
    return Item(
        key=entry.key,
        text=together(claims) if claims else said_by(entry),
        version=entry.version or entry.dot or "",
        agent=entry.agent or "",
        time_s=max(times, default=_EPOCH).timestamp(),
        confidence=1.0 if entry.confidence is None else min(1.0, max(0.0, entry.confidence)),
        pinned=is_pinned or bool(meta.get("pinned")),
        role=str(meta.get("role") or ""),
        claims=claims,
    )


def shortened(item: Item, budget: int, model: str, query: str | None = None, source: str | None = None) -> str:
    """The text of ``item`` in about ``budget`` tokens; of values at odds each by itself, so that they stay apart."""
    if not item.claims:
        return compress(item.text, budget=budget, query=query, model=model, source=source).text
    each = budget // len(item.claims)
    return together(
        (head, compress(text, budget=each, query=query, model=model, source=source).text) for head, text in item.claims
    )


def _claim(entry: Entry) -> tuple[str, str]:
    """The holder of one of several concurrent values, and the value."""
    head = f"{entry.agent or 'somebody'} {entry.field or ''}".strip()
    return in_line(head), said_by(entry)


def said_by(entry: Entry) -> str:
    """One value as a text; of what somebody put into a shared context it is the compact text."""
    return str(entry.value["text"]) if is_record(entry.value) else text_of(entry.value)


def text_of(value: object) -> str:
    """A value as a person would write it down: text as it is, lists of texts as a list, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f"[{len(value):,} bytes]"
    if value is None:
        return "null"
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return "\n".join(f"- {one}" for one in value)
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return f"[{len(value):,} bytes]"
    return sorted(value, key=repr) if isinstance(value, set | frozenset) else str(value)
