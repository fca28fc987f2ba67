"""Which items a view shows, and in how many tokens each.

The problem. There is room for 2,000 tokens; forty findings take 9,000. Taking the newest until the room is used up
shows three long ones; the one that the query asks for may be the fourth.

The rule. Items are taken by their score: pinned ones first, then by newness, relevance to the query, role and
confidence, each between 0 and 1. The ``full_newest`` newest are shown in full where they take no more than
half of what is left (small ones: all of it); others are made compact. Newness is the rank by time, not an
age: so the choice depends on the state alone.

That is the strategy ``best``; the others take the newest first. With ``tiers`` compact means much
shorter, so that a view shows the newest in full, many more in a few words, and a summary of the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import nlargest, nsmallest
from typing import NamedTuple

from crdtsync.context.compact.words import content_words
from crdtsync.context.tokens import Tokenizer
from crdtsync.context.tokens import tokenizer as tokenizer_for
from crdtsync.context.view.definition import Definition
from crdtsync.context.view.items import Item, shortened
from crdtsync.context.view.render import Shown, block, left_out, whole

_NEW, _RELEVANT, _ROLE, _SURE = 1.0, 2.0, 1.0, 0.5  # what each part of a score weighs
_COMPACT_MAX = 300  # tokens of a compact item
_BRIEF_MAX = 80  # tokens of one in the middle tier
_SMALL = 100  # tokens of an item that may have all the room that is left; a larger one may have half of it
_WORTH = 24  # tokens: with less room an item is left out
_TAKEN_MAX = 2_000  # items that are looked at; a window holds no more


class Part(NamedTuple):
    """What one key takes of a view, with its head, in tokens; ``is_whole``: not shortened."""

    key: str
    tokens: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class View:
    """A block of text for a model's window.

    ``tokens`` never exceeds the budget; ``shown``, ``left_out`` and ``gone`` are keys. ``token`` names the state that
    was read: hand it to ``since`` for what is new after it, or gone. ``parts`` are what is shown, in the text's order;
    their tokens, counted one by one, add up to about ``tokens``. ``source_tokens`` is what the sources would take in
    full (of more than 2,000, the best of them).
    """

    text: str
    tokens: int
    shown: tuple[str, ...]
    left_out: tuple[str, ...]
    token: str | None
    gone: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    source_tokens: int = 0


class Known:
    """What was found out about items, for the next time: their tokens, and how much they are about the query.

    It belongs to one query, role, form and model. An item is known by its identity; another one takes its place when
    the entry changes.
    """

    def __init__(self) -> None:
        self._costs: dict[Item, tuple[int, int]] = {}
        self._relevant: dict[Item, float] = {}

    def costs(self, items: list[Item], form: str, tokenizer: Tokenizer) -> dict[Item, tuple[int, int]]:
        """The tokens of each item in full, and of its head alone."""
        new = [item for item in items if item not in self._costs]
        texts = [block(Shown(item, item.text, is_whole=True), form) for item in new]
        counted = tokenizer.counts([*texts, *(block(Shown(item, "", is_whole=False), form) for item in new)])
        pairs = zip(counted[: len(new)], counted[len(new) :], strict=True)
        found = {item: (whole + 1, head + 1) for item, (whole, head) in zip(new, pairs, strict=True)}
        self._costs = {item: self._costs[item] if item in self._costs else found[item] for item in items}
        return self._costs

    def relevant(self, items: list[Item], wish: Definition) -> dict[Item, float]:
        """What query and role add to the score of each item."""
        asked, role = content_words(wish.query or ""), content_words(wish.role or "")
        if asked or role:
            old = self._relevant
            self._relevant = {item: old[item] if item in old else _relevance(item, asked, role) for item in items}
        return self._relevant


def choose(
    items: Iterable[Item],
    wish: Definition,
    token: str | None = None,
    known: Known | None = None,
    gone: tuple[str, ...] = (),
) -> View:
    """The view of ``items`` that ``wish`` asks for, which says that the keys ``gone`` are no longer there."""
    known, tokenizer = known or Known(), tokenizer_for(wish.model)
    items = sorted(items, key=lambda item: item.key)
    is_best = wish.strategy == "best"
    scores = _scores(items, known.relevant(items, wish)) if is_best else {item: _by_time(item)[0] for item in items}
    compact_max = _BRIEF_MAX if wish.strategy == "tiers" else _COMPACT_MAX
    order = nsmallest(_TAKEN_MAX, items, key=lambda item: (not item.pinned, -scores[item], item.key))
    newest = {item.key for item in nlargest(wish.full_newest, items, key=_by_time)}
    room = wish.budget_tokens - tokenizer.count(whole([], left_out(items, len(items), gone), wish.form)) - 8
    costs = known.costs(order, wish.form, tokenizer)
    taken: list[Shown] = []
    spent: dict[Item, int] = {}
    for item in order:
        if room < _WORTH:
            break
        cost, head = costs[item]
        may = room if item.pinned or cost <= _SMALL else room // 2
        if cost <= may and (item.pinned or item.key in newest or cost <= compact_max):
            taken.append(Shown(item, item.text, is_whole=True))
            spent[item] = cost
            room -= cost
            continue
        most = (may if item.key in newest else min(may, compact_max)) - head - 8
        text = shortened(item, most, wish.model, wish.query) if most >= _WORTH else ""
        if text:
            taken.append(Shown(item, text, is_whole=False))
            spent[item] = tokenizer.count(block(taken[-1], wish.form)) + 1
            room -= spent[item]
    view = _fitted(items, taken, wish, token, gone)
    parts = (Part(one.item.key, spent[one.item], one.is_whole) for one in _placed(taken))
    return replace(view, parts=tuple(parts), source_tokens=sum(costs[item][0] for item in order))


def _fitted(items: list[Item], taken: list[Shown], wish: Definition, token: str | None, gone: tuple[str, ...]) -> View:
    """The view of what was taken; the last ones are given up while it is too long, since tokens do not just add up."""
    tokenizer = tokenizer_for(wish.model)
    while True:
        shown = {one.item.key for one in taken}
        missing = [item for item in items if item.key not in shown]
        footer = left_out(missing, sum(not one.is_whole for one in taken), gone)
        text = whole((block(one, wish.form) for one in _placed(taken)), footer, wish.form)
        tokens = tokenizer.count(text)
        if tokens <= wish.budget_tokens or not taken:
            break
        del taken[-max(1, len(taken) // 20) :]
    if tokens > wish.budget_tokens:  # not even the last line fits: half of it says nothing
        text, tokens = "", tokenizer.count("")
    return View(text, tokens, tuple(sorted(shown)), tuple(item.key for item in missing), token, gone)


def _placed(taken: list[Shown]) -> list[Shown]:
    """Pinned items first, then by time, oldest first: what has not changed stays where it was."""
    return sorted(taken, key=lambda one: (not one.item.pinned, *_by_time(one.item)))


def _scores(items: list[Item], relevant: dict[Item, float]) -> dict[Item, float]:
    times = sorted({item.time for item in items})
    newness = {time: rank / max(1, len(times) - 1) for rank, time in enumerate(times)}
    return {
        item: _NEW * newness[item.time] + relevant.get(item, 0.0) + _SURE * min(1.0, max(0.0, item.confidence))
        for item in items
    }


def _relevance(item: Item, asked: set[str], role: set[str]) -> float:
    score = _RELEVANT * len(asked & content_words(f"{item.key} {item.text}")) / len(asked) if asked else 0.0
    return score + (_ROLE * len(role & content_words(f"{item.key} {item.role}")) / len(role) if role else 0.0)


def _by_time(item: Item) -> tuple[float, str]:
    return (item.time.timestamp(), item.key)
