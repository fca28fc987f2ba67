"""Prose: the sentences that say the most stay, in their order.

A sentence counts more if it has words of the query, words that are frequent in the text but not in the language
(Luhn, "The Automatic Creation of Literature Abstracts", 1958), numbers, names, paths, an error or a negation, and if
it begins its paragraph. Where little stays, those with numbers, paths, errors or negations go last; of others
that are there again, one stays.
"""

from __future__ import annotations

import re
from collections import Counter

from crdtsync.context.compact.result import CompactDraft
from crdtsync.context.compact.words import content_words, is_solid, is_telling

# A run of full stops is taken at once (++): tried from each of its ends, a megabyte of them would take hours.
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?。！？]++(?:(?=\s|$|[^\x00-\x7f])|[^.!?。！？\n]*)|\n|$)+")
_KEEP = (1.0, 0.6, 0.4, 0.25, 0.12)  # share of a text's characters, by level
_SHORT = 240  # characters of a paragraph that stays whole below level 3


def compact_prose(text: str, level: int, query: str | None) -> CompactDraft:
    """``text`` at ``level``, paragraph by paragraph."""
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    kept = [chosen(paragraph, level, query) for paragraph in paragraphs]
    cut = sum(len(one) > len(other) for one, other in zip(paragraphs, kept, strict=True))
    said = [f"sentences of {cut:,} paragraphs"] if cut else []
    return CompactDraft("\n\n".join(part for part in kept if part), ["sentences chosen"] if cut else [], said)


def chosen(paragraph: str, level: int, query: str | None) -> str:
    """The sentences of ``paragraph`` that stay at ``level``; a short one stays whole, and so does one sentence."""
    if level == 0 or (len(paragraph) <= _SHORT and level < 3):
        return paragraph
    found = sentences(paragraph)
    if len(found) < 2:
        return paragraph
    first = {sentence.strip(): i for i, sentence in reversed([*enumerate(found)])}
    counted = Counter(word for sentence in first for word in content_words(sentence))
    asked = content_words(query or "")
    says = [is_solid(sentence) or is_telling(sentence) for sentence in found]
    ranks = [
        (level >= 3 and not (says[i] or asked & content_words(one)), -_score(one, i, counted, asked), i)
        for i, one in enumerate(found)
        if says[i] or first[one.strip()] == i
    ]
    room, kept = len(paragraph) * _KEEP[level], set[int]()
    for *_, i in sorted(ranks):
        if (level < 3 and says[i]) or not kept or room >= len(found[i]):
            kept.add(i)
            room -= len(found[i])
    return " ".join(found[i].strip() for i in sorted(kept)).strip()


def sentences(text: str) -> list[str]:
    """The sentences of ``text``, and lines that are none."""
    return [found[0] for found in _SENTENCE.finditer(text)]


def _score(sentence: str, place: int, counted: Counter[str], asked: set[str]) -> float:
    found = content_words(sentence)
    if not found:
        return 0.0
    weight = sum(counted[word] for word in found if counted[word] > 1) / len(found)
    return weight + 3 * len(found & asked) + 2 * is_telling(sentence) + is_solid(sentence) + (place == 0)
