"""A summary of the older part of a named view: stored beside its sources, and never taken for them.

It says of which versions of which keys it is made. What has changed since is shown as it is, and the summary says that
it is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from crdtsync.client import Entry
from crdtsync.context.view.items import Item
from crdtsync.context.view.render import counted
from crdtsync.visible import in_line, readable

SUMMARIES = "views.summaries/"
COVERED_MAX = 1_000
"""So many entries one summary is made of; of more, the newest."""
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^`\n]*$\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Summary:
    """``covers``: the version of each key that it is made of. ``by_rule``: sentences were chosen, no model asked."""

    text: str
    covers: Mapping[str, str]
    by_rule: bool

    def plain(self) -> dict[str, Any]:
        """As it is stored."""
        return {"text": self.text, "covers": dict(self.covers), "by_rule": self.by_rule}


def older(items: Iterable[Item], newest: int) -> list[Item]:
    """The items to make a summary of, oldest first: all but the ``newest``, what is pinned, and what is at odds."""
    plain = sorted(
        (item for item in items if not (item.pinned or item.conflicts)), key=lambda one: (one.time_s, one.key)
    )
    return plain[: max(0, len(plain) - newest)][-COVERED_MAX:]


def source(items: Iterable[Item]) -> str:
    """The text that is summarised: plain, since of Markdown a chosen sentence may hold half a fence."""
    return "\n".join(f"{_head(item)}: {_FENCE.sub('', readable(item.text))}" for item in items)


def _head(item: Item) -> str:
    return f"{in_line(item.key)} ({in_line(item.agent)}, {item.time:%Y-%m-%d %H:%M}Z)"


def folded(items: list[Item], stored: Entry | None) -> list[Item]:
    """``items`` with the stored summary in the place of what it covers; as they are, if it is none."""
    fields = stored.value if stored is not None else None
    if (
        stored is None
        or not isinstance(fields, dict)
        or not isinstance(fields.get("covers"), dict)
        or not fields.get("text")
    ):
        return items
    covers = fields["covers"]
    covered = {item.key: item for item in items if not item.pinned and covers.get(item.key) == item.version}
    if not covered:
        return items
    stale = len(covers) - len(covered)
    old = f"; out of date: {stale:,} of its {len(covers):,} sources have changed or gone" if stale else ""
    shown = replace(
        max(covered.values(), key=lambda one: one.time_s), key=stored.key, agent=stored.agent or "", pinned=True,
        role="", text=f"[summary of {counted(len(covered))}{old}]\n{fields['text']}", version=stored.version or "",
    )  # fmt: skip
    return [item for item in items if item.key not in covered] + [shown]
