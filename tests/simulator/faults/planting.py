"""Planting faults into the code under test, one at a time, and looking who finds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from time import process_time
from typing import Any, NamedTuple
from unittest import mock

from crdtsync.core.agents.dispatcher import Dispatcher
from crdtsync.core.watch.change_watch import ChangeWatches
from tests.simulator.clusters.player import plan_cluster
from tests.simulator.cuts import run_cuts
from tests.simulator.forks import run_forks
from tests.simulator.histories import run_history
from tests.simulator.merges import run_merges
from tests.simulator.model import Broken

SEEDS_MAX = 250
CLUSTER_STEPS = 80


class Patches:
    """What is changed in the code under test until the end of a ``with``."""

    def __init__(self) -> None:
        self._undo = ExitStack()

    def setattr(self, target: object, name: object, value: object = None) -> None:
        """Set an attribute of an object, or of what a dotted path names."""
        if isinstance(target, str):
            value = name
            target, name = _found(target)
        self._undo.enter_context(mock.patch.object(target, str(name), value))

    def setitem(self, target: Any, name: object, value: object) -> None:
        """Set an item of a dict."""
        self._undo.enter_context(mock.patch.dict(target, {name: value}))

    def close(self) -> None:
        """Undo all."""
        self._undo.close()


def _found(path: str) -> tuple[object, str]:
    where, _, name = path.rpartition(".")
    try:
        return import_module(where), name
    except ModuleNotFoundError:
        module, _, owner = where.rpartition(".")
        return getattr(import_module(module), owner), name


Plant = Callable[[Patches], None]


class Fault(NamedTuple):
    """A fault: how it is planted, what is said when it is found, and which histories are to find it."""

    name: str
    breaks: str
    says: str
    plant: Plant
    how: dict[str, Any]
    play: Callable[..., object] = run_history
    is_short: bool = False
    """Planted into the short ways of plain writes and turns, which are switched off for the others: those break what
    the short ways do by themselves."""


class Caught(NamedTuple):
    """Which history found a fault, and what it said."""

    seed: int
    tried: int
    said: str
    cpu_s: float


FAULTS: list[Fault] = []


def fault(says: str, breaks: str = "", **how: Any) -> Callable[[Plant], Plant]:
    """Register a fault with what is said when it is caught, and how the histories are to be that catch it.

    Most need none but the plainest trouble.
    """

    def register(plant: Plant) -> Plant:
        told = breaks or (plant.__doc__ or plant.__name__.replace("_", " ")).splitlines()[0].rstrip(".")
        FAULTS.append(Fault(plant.__name__, told, says, plant, {"is_troubled": False, **how}))
        return plant

    return register


def short_fault(says: str, breaks: str = "", **how: Any) -> Callable[[Plant], Plant]:
    """The same for one in the short ways."""

    def register(plant: Plant) -> Plant:
        fault(says, breaks, **how)(plant)
        FAULTS[-1] = FAULTS[-1]._replace(is_short=True)
        return plant

    return register


def cluster_fault(says: str, breaks: str = "") -> Callable[[Plant], Plant]:
    """The same for one that the histories of clusters are to find."""

    def register(plant: Plant) -> Plant:
        fault(says, breaks)(plant)
        FAULTS[-1] = FAULTS[-1]._replace(how={}, play=_play_cluster)
        return plant

    return register


def cut_fault(says: str, breaks: str = "") -> Callable[[Plant], Plant]:
    """The same for one that the histories whose past is read are to find."""

    def register(plant: Plant) -> Plant:
        fault(says, breaks)(plant)
        FAULTS[-1] = FAULTS[-1]._replace(how={}, play=run_cuts)
        return plant

    return register


def fork_fault(says: str, breaks: str = "") -> Callable[[Plant], Plant]:
    """The same for one that the histories with forks are to find."""

    def register(plant: Plant) -> Plant:
        fault(says, breaks)(plant)
        FAULTS[-1] = FAULTS[-1]._replace(how={}, play=run_forks)
        return plant

    return register


def merge_fault(says: str, breaks: str = "", **how: Any) -> Callable[[Plant], Plant]:
    """The same for one that the histories of merged forks are to find."""

    def register(plant: Plant) -> Plant:
        fault(says, breaks)(plant)
        FAULTS[-1] = FAULTS[-1]._replace(how=how, play=run_merges)
        return plant

    return register


def _play_cluster(seed: int) -> None:
    plan_cluster(seed, CLUSTER_STEPS).play()


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """The code under test has that fault."""
    patches = Patches()
    for has_short_ways in (Dispatcher, ChangeWatches):
        patches.setattr(has_short_ways, "IS_SHORT", fault.is_short)
    try:
        fault.plant(patches)
        yield
    finally:
        patches.close()


def catch(fault: Fault, seeds: Iterable[int]) -> Caught | None:
    """Play histories until one says what it should."""
    started = process_time()
    with planted(fault):
        for tried, seed in enumerate(seeds, 1):
            try:
                fault.play(seed, **fault.how)
            except Broken as broken:
                said = str(broken)
                if fault.says in said:
                    return Caught(seed, tried, said, process_time() - started)
            except Exception:  # noqa: BLE001  # a crash of the code under test is not what is looked for here
                continue
    return None


def judge_of(said: str) -> str:
    """Which check it was that spoke."""
    return next((judge for pattern, judge in _JUDGES if re.search(pattern, said)), "oracle: what a change may do")


_JUDGES = (
    (r"after a merge", "what was written in a space and in its fork"),
    (r"after a fork", "what both branches of a fork wrote"),
    (r"in a short turn", "bounds"),
    (r"removal|removed|lets in|differ in the end", "membership"),
    (r"leaks to", "who may hold a space"),
    (r"lists the rules|with level|where it held", "rights"),
    (r"^a mirror|^a watcher|a mirror at|a watcher at", "watchers and mirrors"),
    (r"session", "session guarantees"),
    (r"as of a|the checkpoint|a restore", "reads of the past against what was shown"),
    (r"causal past|after number|shows change", "causal order"),
    (r"do not come to rest", "convergence"),
    (r"has another|still holds|has other entries", "convergence"),
    (r"raises the alarms", "alarms: digests, forks, snapshots"),
    (r"acknowledged", "durability of what was acknowledged"),
    (r"on disk|uncommitted|has a log|counts|has a head|floor|keeps the documents|lacks the documents", "the disk"),
    (r"was read with|shows|is '|ought to be", "reads against the model"),
    (r"tells", "history against the model"),
    (r"keeps|sends a message|under way", "bounds"),
    (r"holds|has live entries", "state against the model"),
)
