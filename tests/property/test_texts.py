"""Random edits of one text on several nodes that cut off, compact and merge: every word that was acknowledged is in the
text that all of them end with, unless somebody deleted it.
"""

from __future__ import annotations

import re
from itertools import combinations, count
from random import Random

import pytest

from tests.fleet.editor import Editor, texts_of
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.wire import Wire

WORD = re.compile(r"w\d+x")


class Workload:
    """A seeded history of one text."""

    def __init__(self, fleet: Fleet, random: Random, compactors: str) -> None:
        self.fleet = fleet
        self.random = random
        self.compactors = [fleet[name] for name in compactors]
        self.pairs = list(combinations(sorted(fleet.machines), 2))
        self.wires: dict[tuple[str, str], Wire] = {}
        self.words: set[str] = set()
        self._numbers = count()
        self.connect_all()
        Editor(fleet["a"]).append("start ")
        fleet.sync()
        self.editors = [Editor(machine) for machine in fleet.machines.values() for _ in range(2)]
        for editor in self.editors:
            editor.read()

    def connect_all(self) -> None:
        for pair in self.pairs:
            if pair not in self.wires:
                self.wires[pair] = self.fleet.link(*pair)

    def step(self) -> None:
        do = self.random.choices(
            [self._insert, self._delete, self._compact, self._cut_or_link, self._pass], [9, 2, 3, 3, 3]
        )[0]
        do()

    def _editor(self) -> Editor:
        """One that has read just now, or whose text may be old."""
        editor = self.random.choice(self.editors)
        if self.random.random() < 0.5:
            editor.read()
        return editor

    def _insert(self) -> None:
        editor = self._editor()
        words = editor.replica.content.split(" ")
        at = len(" ".join(words[: self.random.randrange(len(words))]))
        word = f"w{next(self._numbers)}x"
        editor.edit(at, at, f" {word}")
        self.words.add(word)

    def _delete(self) -> None:
        editor = self._editor()
        words = [word for word in editor.replica.content.split(" ") if WORD.search(word)]
        if words:
            word = self.random.choice(words)
            at = editor.replica.content.index(word)
            editor.edit(at, at + len(word), "")
            self.words -= set(WORD.findall(word))

    def _compact(self) -> None:
        self.random.choice(self.compactors).agent().do("text_compact", key="t")

    def _cut_or_link(self) -> None:
        pair = self.random.choice(self.pairs)
        wire = self.wires.pop(pair, None)
        if wire is None:
            self.wires[pair] = self.fleet.link(*pair)
        else:
            wire.close()

    def _pass(self) -> None:
        if self.random.random() < 0.5:
            self.fleet.sync()
        else:
            self.fleet.run(1.0)

    def end(self) -> list[str]:
        """Connect all, and have a person settle what is left; what each machine reads then."""
        self.connect_all()
        self.fleet.run(5.0)
        for machine in self.fleet.machines.values():
            if len(texts_of(machine)) > 1:
                machine.agent().do("resolve", key="t", merge=True)
        self.fleet.run(2.0)
        return [_only(texts_of(machine)) for machine in self.fleet.machines.values()]


def _only(values: list[str]) -> str:
    (value,) = values
    return value


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("names, compactors", [("ab", "a"), ("ab", "ab"), ("abc", "abc")])
def test_no_acknowledged_word_is_lost(names: str, compactors: str, seed: int) -> None:
    with fleet_of(*names) as fleet:
        random = fleet.random = Random(seed)
        work = Workload(fleet, random, compactors)
        for _ in range(random.randrange(10, 50)):
            work.step()
        text, *others = work.end()
        assert others == [text] * (len(names) - 1)
        missing = {word for word in work.words if word not in text}
        assert not missing, text
        assert not any(machine.alarms for machine in fleet.machines.values())
        if compactors == "a":
            assert all(text.count(word) == 1 for word in work.words), text
        assert all(_is_counted(machine) for machine in fleet.machines.values())


def _is_counted(machine: Host) -> bool:
    """Whether the status tells the size of what is stored of documents."""
    (size_bytes,) = machine.store._db.execute(
        "SELECT (SELECT IFNULL(SUM(LENGTH(update_v1)), 0) FROM document_updates) "
        "+ (SELECT IFNULL(SUM(LENGTH(state)), 0) FROM document_states)"
    ).fetchone()
    return bool(machine.store.log_stats(1)["document_bytes"] == size_bytes)
