"""Random edits of one text on several nodes that are cut off and compact it: in the text that all of them end with,
every mark that was acknowledged is there exactly once, unless somebody deleted it, and where its author put it.

Nobody settles anything: a compaction makes no siblings, whatever was edited or compacted elsewhere at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import combinations
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from crdtsync.causality import Dot
from crdtsync.client.text.editor_state import Editing
from crdtsync.core.text.document import STEP_PARTS_MAX, Document
from crdtsync.core.text.document_cache import Documents
from crdtsync.core.text.passing import placed
from crdtsync.core.text.places import Places
from crdtsync.core.text.yjs_library import ROOT
from crdtsync.wire.yjs.encoding import STRING, read_sections
from crdtsync.wire.yjs.rewriting import NewStruct, written_item, written_update
from tests.fleet.agent import Refusal
from tests.fleet.editor import Editor, Typist, texts_of
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.wire import Wire
from tests.ledger import Ledger
from tests.simulator.histories import run_history
from tests.simulator.kinds import TEXTS


class Workload:
    """A seeded history of one text."""

    def __init__(self, fleet: Fleet, random: Random, compactors: str, apart: str = " ") -> None:
        self.fleet = fleet
        self.random = random
        self.compactors = [fleet[name] for name in compactors]
        self.pairs = list(combinations(sorted(fleet.machines), 2))
        self.wires: dict[tuple[str, str], Wire] = {}
        self.ledger = Ledger(random, apart)  # a blank stands between two words, or the end of a line
        self.connect_all()
        Editor(fleet["a"]).append(self.ledger.beginning)
        fleet.sync()
        self.typists = [Typist(machine) for machine in fleet.machines.values()]
        self.editors = [Editor(machine) for machine in fleet.machines.values() for _ in range(2)] + self.typists
        for editor in self.editors:
            editor.read()

    def connect_all(self) -> None:
        for pair in self.pairs:
            if pair not in self.wires:
                self.wires[pair] = self.fleet.link(*pair)

    def step(self) -> None:
        do = self.random.choices(
            [self._insert, self._delete, self._compact, self._cut_or_link, self._pass, self._work], [9, 4, 3, 3, 3, 3]
        )[0]
        do()

    def _editor(self) -> Editor | Typist:
        """One that has read just now, or whose text may be old."""
        editor = self.random.choice(self.editors)
        if self.random.random() < 0.5:
            editor.read()
        return editor

    def _insert(self) -> None:
        editor = self._editor()
        mark, at, inserted = self.ledger.insertion(editor.shown)
        self._edit(editor, at, at, inserted, partial(self.ledger.acknowledged.add, mark))

    def _delete(self) -> None:
        editor = self._editor()
        if chosen := self.ledger.deletion(editor.shown):
            mark, at = chosen
            self._edit(editor, at, at + len(mark), "", partial(self.ledger.deleted.add, mark))

    def _edit(self, editor: Editor | Typist, start: int, end: int, text: str, done: Callable[[], object]) -> None:
        if isinstance(editor, Typist):
            editor.type(start, end, text, done)
            return
        editor.edit(start, end, text)
        done()

    def _work(self) -> None:
        self.random.choice(self.typists).work()

    def _compact(self) -> None:
        self.random.choice(self.compactors).agent().do_slowly("text_compact", key="t")

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
            self.fleet.run(1.0, step_s=0.25)

    def end(self) -> list[str]:
        """Have all sent, and connect all; what each machine reads then."""
        for typist in self.typists:
            while typist.work():
                pass
        self.connect_all()
        self.fleet.run(20.0, step_s=2.0)  # and compare
        return [_only(texts_of(machine)) for machine in self.fleet.machines.values()]


def _only(values: list[str]) -> str:
    (value,) = values
    return value


HISTORIES = [(*who, apart) for who in (("ab", "a"), ("ab", "ab"), ("abc", "abc")) for apart in " \n"]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("names, compactors, apart", HISTORIES)
def test_every_acknowledged_mark_is_there_once(names: str, compactors: str, apart: str, seed: int) -> None:
    play(names, compactors, apart, seed)


@pytest.mark.parametrize("parts_max", [1, STEP_PARTS_MAX])
@pytest.mark.parametrize("names, compactors, apart", HISTORIES)
def test_so_it_is_where_every_change_is_taken_in_by_copies(
    names: str, compactors: str, apart: str, parts_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtsync.core.replica.text_edits.STEP_PARTS_MAX", 0)
    monkeypatch.setattr("crdtsync.core.text.document.STEP_PARTS_MAX", parts_max)  # and each piece by piece
    play(names, compactors, apart, 100)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(len(HISTORIES)))
def test_thousands_of_histories(part: int) -> None:
    """``SOAK_RUNS=10000 ./dev soak tests/property/test_texts.py`` plays so many seeds, from ``SOAK_SEED`` on."""
    first, runs = (int(os.environ.get(name, "0")) for name in ("SOAK_SEED", "SOAK_RUNS"))
    for seed in range(first, first + (runs or 600)):
        if seed % len(HISTORIES) == part:
            play(*HISTORIES[part], seed)


def play(names: str, compactors: str, apart: str, seed: int) -> str:
    """The history of a seed; the text in the end."""
    random = Random(seed)
    client_ids = SimpleNamespace(urandom=Random(seed).randbytes)
    with fleet_of(*names) as fleet, mock.patch("crdtsync.client.text.replica.os", client_ids):
        fleet.random = random
        work = Workload(fleet, random, compactors, apart)
        for _ in range(random.randrange(10, 80)):
            work.step()
        text, *others = work.end()
        assert others == [text] * (len(names) - 1), seed
        work.ledger.check(text)
        assert not any(machine.alarms for machine in fleet.machines.values()), seed
        assert all(_is_counted(machine) for machine in fleet.machines.values()), seed
    return text


# -- planted faults: the histories find them ---------------------------------------------------------------------------


def made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late edit is made in the new document under another id, too."""

    def twice(update: bytes, newer: Document, *args: Any, may_wait: bool, **kwargs: Any) -> bytes:
        once = placed(update, newer, *args, may_wait=may_wait, **kwargs)
        sections, _ = read_sections(update)
        strings = [struct for structs in sections.values() for struct in structs if struct.kind == STRING]
        parts = [
            NewStruct(number, 0, written_item(STRING, None, None, ROOT, update[struct.body : struct.stop]))
            for number, struct in enumerate(strings, min(sections, default=0) + 1)
        ]
        newer.apply(written_update(parts))
        return once

    monkeypatch.setattr("crdtsync.core.replica.text_edits.placed", twice)


def dropped_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old document is gone as soon as no marker names it."""

    def exists(self: Documents, dot: Dot) -> bool:
        return is_held(self, dot) and (self.is_named(dot) or not self.names() or self.is_dirty(dot))

    is_held = Documents.exists
    monkeypatch.setattr(Documents, "exists", exists)


def beside_the_wrong_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late edit beside what is forgotten goes to the other side of it."""
    monkeypatch.setattr(Places, "left", Places.right)


def at_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late edit beside what is forgotten goes to the beginning."""
    monkeypatch.setattr(Places, "left", lambda *_: None)


def moved_with_unsent_typing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor goes on in the new document although something that was typed has not been sent."""
    monkeypatch.setattr(Editing, "is_done", property(lambda self: not self.outbox))


PLANTS = [made_twice, dropped_too_early, beside_the_wrong_neighbour, at_the_beginning, moved_with_unsent_typing]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError, Refusal)):
        play_some()


def play_some() -> None:
    for seed in range(8):
        play("ab", "ab", " ", seed)


def _is_counted(machine: Host) -> bool:
    """Whether the status tells the size of what is stored of documents."""
    (size_bytes,) = machine.store._db.execute(
        "SELECT (SELECT IFNULL(SUM(LENGTH(update_v1)), 0) FROM document_updates) "
        "+ (SELECT IFNULL(SUM(LENGTH(state)), 0) FROM document_states)"
    ).fetchone()
    return bool(machine.store.log_stats(1)["document_bytes"] == size_bytes)


def test_a_mirror_shows_what_a_snapshot_brings_of_a_text_whose_marker_stays() -> None:
    run_history(7, keys=TEXTS)


def test_the_caps_are_kept_a_second_after_a_text_was_compacted_by_itself() -> None:
    run_history(349, keys=TEXTS)


def test_an_edit_of_an_older_document_is_expected_in_the_newest_of_its_text() -> None:
    run_history(5008, keys=TEXTS)
