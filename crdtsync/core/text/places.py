"""Where the characters of a document stand, those that were deleted among them.

A document that has forgotten its deleted characters (:mod:`crdtsync.core.text.forgetting`) is sent an edit that stands
beside one of them. An older document of the text still has that character, so it tells which characters on its left and
on its right are not forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from crdtsync.core.text.yjs_library import ROOT
from crdtsync.wire.yjs.encoding import STEP_STRUCTS, Id, Steps
from crdtsync.wire.yjs.lib0 import InvalidUpdate
from crdtsync.wire.yjs.order import Run
from crdtsync.wire.yjs.rewriting import WholeText
from crdtsync.wire.yjs.validator import Outline

PLACE_BYTES = 800
RUN_BYTES = 500
"""Memory for a forgotten run of characters, and for one that a document began with."""

_Place = tuple[int, int, Id | None, Id | None]
"""The clocks of forgotten characters, the last one exclusive, and their neighbours."""


class Places:
    """For each character that ``newer`` has forgotten, its neighbours among those that ``newer`` began with.

    They depend on nothing but what the document of ``state`` had when ``newer`` was made from it, which ``cut`` tells:
    for each client the clock that came next. So they are the same on all nodes, whatever has been edited since.
    """

    def __init__(self, places: dict[int, list[_Place]]) -> None:
        self._places = places
        self.memory_bytes = PLACE_BYTES * sum(map(len, places.values()))

    @staticmethod
    def find(state: bytes, newer: Outline, cut: Mapping[int, int]) -> Steps[Places]:
        """Find them out."""
        runs = yield from _known((yield from _read_in_order(state)), newer, cut)
        left: list[Id | None] = []
        before: Id | None = None
        for run, is_gone in runs:
            before = before if is_gone else (run.client, run.end - 1)
            left.append(before)
        yield
        places: dict[int, list[_Place]] = {}
        after: Id | None = None
        for number, ((run, is_gone), before) in enumerate(zip(reversed(runs), reversed(left), strict=True), 1):
            if is_gone:
                places.setdefault(run.client, []).append((run.clock, run.end, before, after))
            else:
                after = run.client, run.clock
            if number % STEP_STRUCTS == 0:
                yield
        for found in places.values():
            found.sort(key=lambda place: place[0])
        return Places(places)

    def __contains__(self, item: Id) -> bool:
        return self._find(item) is not None

    def left(self, item: Id) -> Id | None:
        """The nearest character before a forgotten one that is in here; None: it stood at the beginning."""
        found = self._find(item)
        assert found is not None
        return found[2]

    def right(self, item: Id) -> Id | None:
        """The nearest one after it; None: it stood at the end."""
        found = self._find(item)
        assert found is not None
        return found[3]

    def _find(self, item: Id) -> _Place | None:
        client, clock = item
        found = self._places.get(client, [])
        index = bisect_right(found, clock, key=lambda place: place[0]) - 1
        return found[index] if index >= 0 and clock < found[index][1] else None


class Beginning:
    """The characters that a document began with, as they stand in it."""

    def __init__(self, runs: list[Run]) -> None:
        self._runs = runs
        self.memory_bytes = RUN_BYTES * len(runs)
        self._numbers: dict[int, list[tuple[int, int]]] = {}
        for number, run in enumerate(runs):
            self._numbers.setdefault(run.client, []).append((run.clock, number))
        for numbers in self._numbers.values():
            numbers.sort()

    @staticmethod
    def find(state: bytes, document: Outline, cut: Mapping[int, int]) -> Steps[Beginning]:
        """Those of the document of this state."""
        runs = yield from _known((yield from _read_in_order(state)), document, cut)
        return Beginning([run for run, _ in runs])

    def is_before(self, one: Id, other: Id) -> bool:
        """Whether the one stands before the other.

        :raises InvalidUpdate: the document did not begin with one of them, although its lineage says so.
        """
        return (self._number(one), one[1]) < (self._number(other), other[1])

    def after(self, item: Id | None) -> Id | None:
        """The item right after it, or the first; None: there is none.

        :raises InvalidUpdate: as in :meth:`is_before`.
        """
        number = -1 if item is None else self._number(item)
        if item is not None and item[1] + 1 < self._runs[number].end:
            return item[0], item[1] + 1
        return (self._runs[number + 1].client, self._runs[number + 1].clock) if number + 1 < len(self._runs) else None

    def _number(self, item: Id) -> int:
        client, clock = item
        numbers = self._numbers.get(client, [])
        index = bisect_right(numbers, clock, key=lambda number: number[0]) - 1
        if index < 0 or clock >= self._runs[numbers[index][1]].end:
            raise InvalidUpdate(f"the document did not begin with clock {clock} of client {client}")
        return numbers[index][1]


def _read_in_order(state: bytes) -> Steps[list[tuple[Run, Run]]]:
    return (yield from (yield from WholeText.read(state, ROOT)).in_order())


def _known(runs: list[tuple[Run, Run]], newer: Outline, cut: Mapping[int, int]) -> Steps[list[tuple[Run, bool]]]:
    """Those of a document's characters that the newer one knew at its beginning, and whether it had forgotten them."""
    found: list[tuple[Run, bool]] = []
    for number, (run, _) in enumerate(runs, 1):
        client, at = run.client, run.clock
        last = min(run.end, cut.get(client, 0), newer.get(client, 0))
        while at < last:
            is_gone, until = newer.gone_until(client, at)
            found.append((Run(client, at, min(until, last)), is_gone))
            at = until
        if number % STEP_STRUCTS == 0:
            yield
    return found
