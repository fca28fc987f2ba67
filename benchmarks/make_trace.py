"""Make up a concurrent editing trace in many scripts: emoji, joined sequences, combining marks, CJK, right-to-left.

What the text must be in the end, and what each author saw at each edit, is known without any CRDT: the text is a list
of lines, and within a round each line belongs to one author, so that a text as of any past is each line as its owner
had left it by then. Between rounds everybody sees everything, and the lines are dealt anew.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import click

from benchmarks import traces

AUTHORS = 3
TRANSACTIONS = 1500
LINES = 12
_ROUND_TRANSACTIONS = 60
_REST = (0.25, 0.65)
"""The part of the session in which the last author rests."""

_SNIPPETS = (
    "quick ", "fox", "a", " ", ". ", "\t", "\r\n", "0123456789",
    # Composed, decomposed, and letters with stacks of marks.
    "é", "e\u0301", "n\u0303o", "Z\u0351\u036b\u0343a\u0323\u0308l\u0310g\u0320o\u034e", "ß", "ŉ", "İ", "ﬃ",
    # CJK, one of it astral and one with a variation selector; Hangul as letters.
    "漢字", "日本語のテキスト", "한국어", "\u1112\u1161\u11ab", "ㄅㄆㄇ", "𠮷野家", "葛\U000e0100城市",
    # Right to left, with marks, direction marks and isolates; scripts that join letters.
    "שלום", "עִבְרִית", "مرحبا بالعالم", "\u0644\u0627", "\u200fabc\u200e", "\u2067x\u2069",
    "हिन्दी", "क\u094d\u200dष", "ไทย", "ကျေးဇူး",
    # Emoji: plain, with a skin tone, with a variation selector, flags, joined sequences.
    "😀", "🎉🎉", "👍🏽", "❤\ufe0f", "🇩🇪🇯🇵",
    "👩\u200d👩\u200d👧\u200d👦", "🏳\ufe0f\u200d🌈", "🧑🏿\u200d🚀", "👁\ufe0f\u200d🗨\ufe0f",
    # Other astral characters; characters that cannot be seen.
    "𝒳", "𝔘𝔫𝔦", "𐍈", "𓀀𓁐", "𝄞", "\U0010fffd", "\u200b", "\u200d", "\u00ad", "\ufeff", "\u2028", "\ufffd",
)  # fmt: skip


@dataclass(slots=True)
class _Line:
    """A line of the text and each state that its owner left it in since the round began: ``(owner's edits, text)``."""

    owner: int
    states: list[tuple[int, str]]

    def seen_after(self, edits: int) -> str:
        """The line for somebody who has seen so many of its owner's edits."""
        return next(text for count, text in reversed(self.states) if count <= edits)


@dataclass(slots=True)
class _Session:
    rng: Random
    lines: list[_Line] = field(default_factory=list)
    transactions: list[dict[str, Any]] = field(default_factory=list)
    pasts: list[dict[int, int]] = field(default_factory=list)
    """Of each transaction: how many of each author's its author's text holds with it."""
    made: dict[int, list[int]] = field(default_factory=dict)
    """Each author's transactions."""
    seen: dict[int, dict[int, int]] = field(default_factory=dict)

    def begin(self) -> None:
        """The first author writes all lines."""
        texts = [self._phrase() for _ in range(LINES)]
        self.lines = [_Line(0, [(1, text)]) for text in texts]
        self.seen[0] = {}
        self._add(0, [[0, 0, "".join(f"{text}\n" for text in texts)]])

    def round(self, authors: list[int], count: int) -> None:
        """So many edits by these authors, on lines dealt anew."""
        everything = {author: len(made) for author, made in self.made.items()}
        for line in self.lines:
            line.states = [(0, line.states[-1][1])]
        for number, line in enumerate(self.rng.sample(self.lines, len(self.lines))):
            line.owner = authors[number % len(authors)]
        for author in authors:
            self.seen[author] = dict(everything)
        author = self.rng.choice(authors)
        for _ in range(count):
            if self.rng.random() < 0.2:  # people type in bursts
                author = self.rng.choice(authors)
            if self.rng.random() < 0.15:
                self._merge(author, self.rng.choice(authors))
            self._edit(author)

    def text(self) -> str:
        """The text with everything merged."""
        return "".join(f"{line.states[-1][1]}\n" for line in self.lines)

    def _merge(self, author: int, other: int) -> None:
        if self.made.get(other):
            for each, count in self.pasts[self.made[other][-1]].items():
                self.seen[author][each] = max(self.seen[author].get(each, 0), count)

    def _edit(self, author: int) -> None:
        line = self.rng.choice([line for line in self.lines if line.owner == author])
        start = 0
        for other in self.lines:
            if other is line:
                break
            start += len(other.seen_after(self.seen[author].get(other.owner, 0))) + 1
        text = line.states[-1][1]
        patches: list[list[Any]] = []
        for _ in range(2 if self.rng.random() < 0.1 else 1):
            position, deleted, inserted = self._patch(text)
            patches.append([start + position, deleted, inserted])
            text = text[:position] + inserted + text[position + deleted :]
        self._add(author, patches)
        line.states.append((len(self.made[author]), text))

    def _patch(self, text: str) -> tuple[int, int, str]:
        position = self.rng.randrange(len(text) + 1)
        deleted = min(self.rng.randint(1, 6), len(text) - position) if self.rng.random() < 0.35 else 0
        inserted = "" if deleted and self.rng.random() < 0.7 else self._phrase()
        return position, deleted, inserted

    def _phrase(self) -> str:
        return "".join(self.rng.choices(_SNIPPETS, k=self.rng.randint(1, 3)))

    def _add(self, author: int, patches: list[list[Any]]) -> None:
        past = self.seen[author]
        heads = [self.made[each][count - 1] for each, count in past.items() if count]
        parents = [head for head in heads if not any(self._includes(other, head) for other in heads if other != head)]
        self.made.setdefault(author, []).append(len(self.transactions))
        past[author] = len(self.made[author])
        self.pasts.append(dict(past))
        self.transactions.append({"parents": sorted(parents), "agent": author, "patches": patches})

    def _includes(self, transaction: int, other: int) -> bool:
        author = self.transactions[other]["agent"]
        return self.pasts[transaction].get(author, 0) >= self.pasts[other][author]


def make(seed: int = 0, transactions: int = TRANSACTIONS) -> traces.Trace:
    """The trace of this seed: always the same."""
    session = _Session(Random(seed))
    session.begin()
    while (done := len(session.transactions)) < transactions:
        rests = _REST[0] <= done / transactions < _REST[1]
        authors = list(range(AUTHORS - 1 if rests else AUTHORS))
        session.round(authors, min(_ROUND_TRANSACTIONS, transactions - done))
    plain = {"kind": "concurrent", "endContent": session.text(), "numAgents": AUTHORS, "txns": session.transactions}
    return traces.parse(f"made-up-{seed}", plain)


@click.command(help=__doc__)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--seed", type=int, default=0, help="Another seed, another trace.")
@click.option("--transactions", type=click.IntRange(1), default=TRANSACTIONS, show_default=True, metavar="N")
def main(file: Path, seed: int, transactions: int) -> None:
    """Entry point; see the module."""
    trace = make(seed, transactions)
    data = json.dumps(traces.to_json(trace), ensure_ascii=False).encode()
    file.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)
    click.echo(f"{file}: {len(trace.transactions):,} transactions, {trace.merges():,} merges")
