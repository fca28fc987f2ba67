"""What tasks have written lately after the checkpoints of this process, and which run or update did."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig

KEPT_BYTES = 16 * 1024 * 1024
KEPT_OVERHEAD = 300  # of one value, in memory
FORGOTTEN_MAX = 10_000

Taken = tuple[str, str, str, bytes]
"""A write of a task: its id, the channel, and the value as it was encoded."""
Order = tuple[str, str, int]
"""The place of a write among others, as LangGraph applies them: the task's path and id, and the number of the write."""


class Update:
    """An update of a state, which has no runtime: known by its configuration, which this keeps, so that no later one is
    made at the same place in memory.
    """

    def __init__(self, configurable: Mapping[str, Any]) -> None:
        self._configurable = configurable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Update) and other._configurable is self._configurable

    def __hash__(self) -> int:
        return id(self._configurable)


Run = tuple[object, int] | Update
ByRun = dict[Run | None, dict[Order, Taken]]
"""The writes of runs of this process, and (None) what was read."""


def run_of(config: RunnableConfig) -> Run:
    """A name that no other run, or update of a state, of this process has while this one goes on."""
    configurable = config["configurable"]
    if "__pregel_runtime" not in configurable:
        return Update(configurable)
    runtime = configurable["__pregel_runtime"]
    # Each run has a control of its own, which is small: as long as that is kept, no later run has the same.
    return getattr(runtime, "control", None), id(runtime)


class Written:
    """The writes of tasks after the checkpoints that this process has gone on from lately.

    Two runs that go on from one checkpoint give their tasks the same names there, so of what both have written only
    one is found. Most channels do not mind: a checkpoint names their values. A delta channel is rebuilt from what was
    written, so a checkpoint also says itself what it took in.
    """

    def __init__(self) -> None:
        self._after: OrderedDict[tuple[str, ...], ByRun] = OrderedDict()
        self._forgotten: OrderedDict[tuple[str, ...], None] = OrderedDict()  # else they would seem to begin anew
        self._bytes = 0
        self._lock = Lock()

    def begin(self, *checkpoint: str) -> None:
        """A checkpoint was made or read: what is added to it is all that there is."""
        with self._lock:
            self._known(checkpoint)

    def add(self, checkpoint: tuple[str, ...], run: Run | None, order: Order, write: Taken) -> None:
        """Something was written by a run of this process, or (None) read: of that, what was read first stays."""
        with self._lock:
            known = self._known(checkpoint)
            if known is None:
                return
            of_run = known.setdefault(run, {})
            if run is not None or order not in of_run:
                self._bytes += _size(write) - (_size(of_run[order]) if order in of_run else 0)
                of_run[order] = write

    def _known(self, checkpoint: tuple[str, ...]) -> ByRun | None:
        if checkpoint in self._forgotten:
            return None
        if checkpoint not in self._after:
            self._after[checkpoint] = {}
            self._bytes += KEPT_OVERHEAD
        self._after.move_to_end(checkpoint)
        while self._bytes > KEPT_BYTES and len(self._after) > 1:
            oldest, gone = self._after.popitem(last=False)
            self._bytes -= sum((_size(write) for each in gone.values() for write in each.values()), KEPT_OVERHEAD)
            self._forgotten[oldest] = None
            if len(self._forgotten) > FORGOTTEN_MAX:
                self._forgotten.popitem(last=False)
        return self._after[checkpoint]

    def of(self, checkpoint: tuple[str, ...], run: Run, channels: set[str]) -> list[Taken] | None:
        """All that a run wrote to these channels, and found there of other tasks, in LangGraph's order.

        An update takes in nothing that it found there, nor anything at all if it wrote nothing.
        None: that is no longer known, or not whose it is, as of an update whose configuration somebody has copied.
        """
        with self._lock:
            known = self._after.get(checkpoint)
            if known is None:
                return None
            took = known.get(run, {})
            if not isinstance(run, Update):
                tasks = {task for _, task, index in took if index >= 0}
                read = {order: write for order, write in known.get(None, {}).items() if order[1] not in tasks}
                took = {**read, **took}
            elif not took and any(isinstance(each, Update) for each in known):
                return None
            return [took[order] for order in sorted(took) if took[order][1] in channels]


def _size(write: Taken) -> int:
    return len(write[3]) + KEPT_OVERHEAD
