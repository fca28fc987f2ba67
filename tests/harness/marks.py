"""One text that agents of several daemons edit, and a count of what must be in it.

Every insertion is a mark that occurs nowhere else. In the end each mark whose insertion was acknowledged is in the text
once, unless its deletion was acknowledged, too: then it is not there. Of what was asked and not answered nothing is
known but that it is there at most once.
"""

from __future__ import annotations

import re
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from crdtsync.errors import CrdtSyncError
from tests.harness.cluster import Cluster, wait_until, wait_until_equal

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client.blocking.editor import Editor
    from crdtsync.client.blocking.text import Text

KEY = "text"
_MARK = re.compile(r"m\d+\.\d+x")


class Plan(NamedTuple):
    """What happens: ``apart`` stands between marks, ``compactors`` are the daemons whose agents compact, ``away`` is
    one that is cut off all the time, ``faults`` are drawn from ``cut``, ``kill`` and ``stall``.
    """

    apart: str = " "
    compactors: tuple[int, ...] = (0,)
    away: int | None = None
    faults: tuple[str, ...] = ("cut",)
    is_typed: bool = False
    steps: int = 150


class Marks:
    """One run of a plan on a cluster."""

    def __init__(self, cluster: Cluster, plan: Plan, seed: int) -> None:
        self.cluster = cluster
        self.plan = plan
        self.random = Random(seed)
        self.inserted: set[str] = set()
        self.deleted: set[str] = set()
        self.unknown: set[str] = set()  # whether it was deleted
        self._count = 0
        self._clients = [daemon.client(f"agent-{index}") for index, daemon in enumerate(cluster)]
        self._clients[0].text(KEY).set(f"begin{plan.apart}end")
        wait_until_equal(cluster)
        for client in self._clients:
            client.text(KEY).read()

    def play(self) -> str:
        """All of it; the text as every daemon shows it in the end.

        :raises AssertionError: a mark is lost, doubled or brought back.
        """
        if self.plan.away is not None:
            self.cluster.isolate(self.plan.away)
        for _ in range(self.plan.steps):
            step = self.random.choices([self._insert, self._delete, self._compact, self._fault], [12, 4, 3, 1])[0]
            step()
        self.cluster.heal()
        self.cluster.wait_connected(timeout_s=60)
        wait_until_equal(self.cluster, timeout_s=60)
        return wait_until(self._agreed, 60, "all daemons show one text, with every mark once") or ""

    def _agreed(self) -> str | None:
        texts = {daemon.client("judge").text(KEY).read() for daemon in self.cluster}
        if len(texts) > 1:
            return None
        (text,) = texts
        found = _MARK.findall(text)
        certain = self.inserted - self.deleted - self.unknown
        wrong = {
            "lost": certain - {*found},
            "twice": {mark for mark in found if found.count(mark) > 1},
            "brought back": self.deleted & {*found},
        }
        assert not any(wrong.values()), wrong
        for daemon in self.cluster:
            entry = daemon.client("judge").entry(KEY)
            assert entry is not None
            assert not entry.siblings, [sibling.value for sibling in entry.siblings]
        return text

    def _somebody(self) -> int:
        index = self.random.randrange(len(self._clients))
        if self.random.random() < 0.5:
            with suppress(CrdtSyncError):
                self._clients[index].text(KEY).read(timeout=5)
        return index

    def _insert(self) -> None:
        index = self._somebody()
        mark = f"m{index}.{self._count}x"
        self._count += 1
        apart = self.plan.apart

        def change(text: Text | Editor, content: str) -> None:
            places = [match.start() for match in re.finditer(re.escape(apart), content)]
            text.insert(self.random.choice(places or [0]), apart + mark)

        if self._is_done(index, change):
            self.inserted.add(mark)

    def _delete(self) -> None:
        index = self._somebody()
        found: list[str] = []

        def change(text: Text | Editor, content: str) -> None:
            marks = _MARK.findall(content)
            if marks:
                found.append(self.random.choice(marks))
                self.unknown.add(found[0])
                text.delete(content.index(found[0]), len(found[0]))

        if self._is_done(index, change):
            self.deleted.update(found)

    def _is_done(self, index: int, change: Callable[[Text | Editor, str], None]) -> bool:
        """Whether the daemon says that it is on disk; if not, nobody knows."""
        client = self._clients[index]
        try:
            if self.plan.is_typed:
                with client.editor(KEY) as editor:
                    change(editor, editor.read(timeout=5))
                    editor.flush(timeout=5)
            else:
                text = client.text(KEY)
                change(text, text.read(timeout=5))
        except CrdtSyncError:
            return False
        return True

    def _compact(self) -> None:
        if self.plan.compactors:
            with suppress(CrdtSyncError):
                self._clients[self.random.choice(self.plan.compactors)].text(KEY).compact(timeout=5)

    def _fault(self) -> None:
        if not self.plan.faults:
            return
        kind = self.random.choice(self.plan.faults)
        one, other = self.random.sample(range(len(self.cluster)), 2)
        if kind == "cut" and self.random.random() < 0.5:
            self.cluster.cut(one, other)
        elif kind == "cut" and self.plan.away not in (one, other):
            self.cluster.heal(one, other)
        elif kind == "kill":
            self.cluster[one].kill()
            self.cluster[one].start()
        elif kind == "stall":
            self.cluster[one].freeze()
            with suppress(CrdtSyncError):
                self._clients[other].text(KEY).read(timeout=5)
            self.cluster[one].thaw()
