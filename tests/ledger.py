"""What must be in a text that many edit at once: each mark once or not at all, and where its author put it.

A mark is a word that occurs nowhere else. A text begins as some posts, which nobody deletes, and marks come between
them: ``p0x m1x m2x p1x …``. In the end each mark whose insertion was acknowledged is there once, unless its deletion
was, too: then it is not there. Of what was asked and not answered nothing is known but that it is there once at most.
Whatever else was edited, deleted and compacted, a mark stands between the two posts between which its author put it.
"""

from __future__ import annotations

import re
from itertools import count
from random import Random

POSTS = 6
_WORD = re.compile(r"[pm]\d+x")


class Ledger:
    """All that was asked of one text, and what was acknowledged. ``apart`` stands between two words."""

    def __init__(self, random: Random, apart: str = " ") -> None:
        self.random = random
        self.apart = apart
        self.beginning = apart.join(f"p{number}x" for number in range(POSTS))
        self.acknowledged: set[str] = set()  # marks that were inserted
        self.deleted: set[str] = set()  # and acknowledged, too
        self._condemned: set[str] = set()  # somebody asked for their deletion
        self._posts_before: dict[str, int] = {f"p{number}x": number for number in range(POSTS)}
        self._numbers = count()

    def insertion(self, content: str) -> tuple[str, int, str]:
        """A new mark; where its author, who sees ``content``, inserts it, and together with what.

        That is often behind a mark that somebody deletes elsewhere.
        """
        places = [match.start() for match in re.finditer(re.escape(self.apart), content)]
        behind_condemned = [match.end() for match in _WORD.finditer(content) if match[0] in self._condemned]
        at = self.random.choice(behind_condemned if behind_condemned and self.random.random() < 0.5 else places)
        mark = f"m{next(self._numbers)}x"
        self._posts_before[mark] = content.count("p", 0, at)
        return mark, at, self.apart + mark

    def deletion(self, content: str) -> tuple[str, int] | None:
        """A mark that its author, who sees ``content``, deletes, and where it stands; None: there is none."""
        marks = [(match[0], match.start()) for match in _WORD.finditer(content) if match[0][0] == "m"]
        if not marks:
            return None
        mark, at = self.random.choice(marks)
        self._condemned.add(mark)
        return mark, at

    def check(self, text: str) -> None:
        """This is the text in the end.

        :raises AssertionError: a mark is lost, doubled, brought back, within another or elsewhere.
        """
        found = _WORD.findall(text)
        posts_before = {word: sum(each[0] == "p" for each in found[:at]) for at, word in enumerate(found)}
        wrong = {
            "lost": {*self.posts, *self.acknowledged} - self._condemned - {*found},
            "twice": {word for word in found if found.count(word) > 1},
            "brought back": self.deleted & {*found},
            "no word": {each for each in text.split(self.apart) if each and not _WORD.fullmatch(each)},
            "elsewhere": {word for word, posts in posts_before.items() if posts != self._posts_before.get(word)},
        }
        assert not any(wrong.values()), (wrong, text)

    @property
    def posts(self) -> list[str]:
        """The words that it begins with."""
        return self.beginning.split(self.apart)
