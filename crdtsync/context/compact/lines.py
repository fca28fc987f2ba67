"""The last resort: the beginning, the end, what the query asks for and what speaks of errors, with marks that say what
is missing between.
"""

from __future__ import annotations

from itertools import groupby

from crdtsync.context.compact.result import CompactDraft
from crdtsync.context.compact.words import content_words, is_error, is_telling, words
from crdtsync.context.tokens import Tokenizer

_LINE_MAX = 400  # characters; longer lines are cut into pieces of this length, so that one line is not all or nothing
_TRIES_MAX = 40


def fit(text: str, budget: int, tokenizer: Tokenizer, query: str | None = None) -> CompactDraft:
    """``text``, or the pieces of it that matter most, in at most ``budget`` tokens; "" if not even the mark fits."""
    if tokenizer.count(text) <= budget:
        return CompactDraft(text)
    pieces = [
        line[i : i + _LINE_MAX] for line in text.splitlines(keepends=True) for i in range(0, len(line), _LINE_MAX)
    ]
    order = _order(pieces, content_words(query or ""))[:budget]  # no more can be kept
    counted = tokenizer.counts([pieces[i] for i in order])
    costs = {
        i: count + 1 for i, count in zip(order, counted, strict=True)
    }  # tokens may split otherwise where they meet
    room = budget
    for _ in range(_TRIES_MAX):
        kept, spent = set[int](), 0
        for i in order:
            if spent + costs[i] <= room:
                kept.add(i)
                spent += costs[i]
        if not kept:
            break
        cut = _joined(pieces, kept)
        if (tokens := tokenizer.count(cut)) <= budget:
            gone = sum(len(piece) for i, piece in enumerate(pieces) if i not in kept)
            return CompactDraft(cut, ["pieces chosen"], [f"{gone:,} characters in places that are marked"])
        room = min(room - 1, room - (tokens - budget))
    return CompactDraft(tokenizer.truncate(text, budget), ["beginning"], ["all but the beginning"])


def _order(pieces: list[str], asked: set[str]) -> list[int]:
    """The pieces as they are taken: what the query asks for, then errors, then the others, by turns from both ends."""
    scores = [3 * len(asked & words(piece)) + is_telling(piece) if asked else 0 for piece in pieces]
    best = [i for i in sorted(range(len(pieces)), key=lambda i: (-scores[i], i)) if scores[i] >= 3]
    last = len(pieces) - 1  # two from the beginning for one from the end:
    ends = sorted(range(len(pieces)), key=lambda i: min(i // 2 * 3 + i % 2, (last - i) * 3 + 2))
    return list(dict.fromkeys([*ends[:2], *best, *(i for i in ends if is_error(pieces[i])), *ends]))


def _joined(pieces: list[str], kept: set[int]) -> str:
    out = [""]
    for is_kept, run in groupby(range(len(pieces)), key=kept.__contains__):
        text = "".join(pieces[i] for i in run)
        start = "" if is_kept or out[-1].endswith("\n") else "\n"
        out.append(text if is_kept else f"{start}[… {len(text):,} characters]\n")
    return "".join(out).strip("\n")
