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

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from crdtsync.context.compact.words import content_words
from crdtsync.context.tokens import Tokenizer
from crdtsync.context.tokens import tokenizer as tokenizer_for
from crdtsync.context.view.definition import Definition
from crdtsync.context.view.items import Item, shortened
from crdtsync.context.view.render import Shown, block, left_out, places, whole
from crdtsync.named_tuple import NamedTuple

_NEW, _RELEVANT, _ROLE, _SURE = 1.0, 2.0, 1.0, 0.5  # what each part of a score weighs
_COMPACT_MAX = 300  # tokens of a compact item
_BRIEF_MAX = 80  # tokens of one in the middle tier
_SMALL = 100  # tokens of an item that may have all the room that is left; a larger one may have half of it
_WORTH = 24  # tokens: with less room an item is left out
_TAKEN_MAX = 2_000  # items that are looked at; a window holds no more


class ViewPart(NamedTuple):
    """One key's share of a view, with its head, in tokens; ``is_whole``: not shortened."""

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
    parts: tuple[ViewPart, ...] = ()
    source_tokens: int = 0


class Known:
    """Findings about items, for the next time: their tokens, and how much they are about the query.

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
        """The score that query and role add to each item."""
        asked, role = content_words(wish.query or ""), content_words(wish.role or "")
        if asked or role:
            new = {item: _relevance(item, asked, role) for item in items if item not in self._relevant}
            old = {} if len(self._relevant) > 2 * len(items) else self._relevant
            self._relevant = old | new
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
    items = sorted(items, key=attrgetter("key"))
    by_time = sorted(items, key=attrgetter("time_s"))
    compact_max = _BRIEF_MAX if wish.strategy == "tiers" else _COMPACT_MAX
    order = _order(items, by_time, wish, known)[:_TAKEN_MAX]
    newest = {item.key for item in by_time[max(0, len(items) - wish.full_newest) :]}
    there = places(items)
    room = wish.budget_tokens - tokenizer.count(whole([], left_out(there, len(items), gone), wish.form)) - 8
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
    text, tokens = _fitted(there, taken, wish, gone)
    shown = {one.item.key for one in taken}
    return View(
        text,
        tokens,
        tuple(sorted(shown)),
        tuple([item.key for item in items if item.key not in shown]),
        token,
        gone,
        tuple(ViewPart(one.item.key, spent[one.item], one.is_whole) for one in _placed(taken)),
        sum([costs[item][0] for item in order]),
    )


def _fitted(there: Counter[str], taken: list[Shown], wish: Definition, gone: tuple[str, ...]) -> tuple[str, int]:
    """The text of what was taken, and its tokens; while it is too long, the last ones are given up, since tokens do not
    just add up.
    """
    tokenizer = tokenizer_for(wish.model)
    while True:
        missing = there - places(one.item for one in taken)
        footer = left_out(missing, sum(not one.is_whole for one in taken), gone)
        text = whole((block(one, wish.form) for one in _placed(taken)), footer, wish.form)
        tokens = tokenizer.count(text)
        if tokens <= wish.budget_tokens or not taken:
            break
        del taken[-max(1, len(taken) // 20) :]
    if tokens > wish.budget_tokens:  # not even the last line fits: half of it says nothing
        text, tokens = "", tokenizer.count("")
    return text, tokens


def _placed(taken: list[Shown]) -> list[Shown]:
    """Pinned items first, then by time, oldest first: what has not changed stays where it was."""
    return sorted(taken, key=lambda one: (not one.item.pinned, one.item.time_s, one.item.key))


def _order(items: list[Item], by_time: list[Item], wish: Definition, known: Known) -> list[Item]:
    """``items`` as they are taken: pinned ones first, then by their score or time, then by key."""
    if wish.strategy == "best":
        times = dict.fromkeys([item.time_s for item in by_time])
        newness = {time_s: rank / max(1, len(times) - 1) for rank, time_s in enumerate(times)}
        added = known.relevant(items, wish)
        scores = [_NEW * newness[item.time_s] + added.get(item, 0.0) + _SURE * item.confidence for item in items]
        order = [items[at] for at in sorted(range(len(items)), key=scores.__getitem__, reverse=True)]
    else:
        order = sorted(items, key=attrgetter("time_s"), reverse=True)
    return sorted(order, key=attrgetter("pinned"), reverse=True)


def _relevance(item: Item, asked: set[str], role: set[str]) -> float:
    score = _RELEVANT * len(asked & content_words(f"{item.key} {item.text}")) / len(asked) if asked else 0.0
    return score + (_ROLE * len(role & content_words(f"{item.key} {item.role}")) / len(role) if role else 0.0)
