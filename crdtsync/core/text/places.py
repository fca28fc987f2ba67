"""Where the characters of a document stand, those that were deleted among them.

A document that has forgotten its deleted characters (:mod:`crdtsync.core.text.forgetting`) is sent an edit that stands
beside one of them. An older document of the text still has that character, so it tells which characters on its left and
on its right are not forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from crdtsync.core.text.yjs_library import ROOT
from crdtsync.wire.yjs.encoding import Id, Steps, at_once
from crdtsync.wire.yjs.order import Run
from crdtsync.wire.yjs.rewriting import WholeText
from crdtsync.wire.yjs.validator import Outline


class Places:
    """For each character that ``newer`` has forgotten, its neighbours among those that ``newer`` began with.

    They depend on nothing but what the document of ``state`` had when ``newer`` was made from it, which ``cut`` tells:
    for each client the clock that came next. So they are the same on all nodes, whatever has been edited since.
    """

    def __init__(self, state: bytes, newer: Outline, cut: Mapping[int, int]) -> None:
        left: list[Id | None] = []
        runs: list[tuple[Run, bool]] = []
        before: Id | None = None
        for run, is_gone in _known(at_once(_read_in_order(state)), newer, cut):
            before = before if is_gone else (run.client, run.end - 1)
            runs.append((run, is_gone))
            left.append(before)
        right: list[Id | None] = []
        after: Id | None = None
        for run, is_gone in reversed(runs):
            after = after if is_gone else (run.client, run.clock)
            right.append(after)
        places: dict[int, list[tuple[int, int, Id | None, Id | None]]] = {}
        for (run, is_gone), before, after in zip(runs, left, reversed(right), strict=True):
            if is_gone:
                places.setdefault(run.client, []).append((run.clock, run.end, before, after))
        self._places = {client: sorted(found, key=lambda place: place[0]) for client, found in places.items()}

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

    def _find(self, item: Id) -> tuple[int, int, Id | None, Id | None] | None:
        client, clock = item
        found = self._places.get(client, [])
        index = bisect_right(found, clock, key=lambda place: place[0]) - 1
        return found[index] if index >= 0 and clock < found[index][1] else None


def _read_in_order(state: bytes) -> Steps[list[tuple[Run, Run]]]:
    return (yield from (yield from WholeText.read(state, ROOT)).in_order())


def _known(runs: list[tuple[Run, Run]], newer: Outline, cut: Mapping[int, int]) -> Iterator[tuple[Run, bool]]:
    """Those of a document's characters that the newer one knew at its beginning, and whether it had forgotten them."""
    for run, _ in runs:
        client, at = run.client, run.clock
        last = min(run.end, cut.get(client, 0), newer.get(client, 0))
        while at < last:
            is_gone, until = newer.gone_until(client, at)
            yield Run(client, at, min(until, last)), is_gone
            at = until
