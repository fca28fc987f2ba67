"""What agents did, what they were answered, and when: the record that is judged afterwards."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal

Outcome = Literal["done", "refused", "unknown"]
"""A write that was acknowledged; one that was refused, so that nothing came of it; one of which nobody knows."""


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of an agent. ``session`` counts the connections under which it has one memory of its reads.

    ``value`` is what it wrote, ``result`` what it read; ``saw``, of a write, what its author had read.
    """

    agent: str
    session: int
    host: str
    name: str
    key: str
    value: Any
    result: Any
    saw: tuple[Any, ...]
    outcome: Outcome
    began_s: float
    ended_s: float
    why: str = ""


@dataclass
class History:
    """All operations, in the order in which they ended."""

    ops: list[Op] = field(default_factory=list)
    faults: list[tuple[float, str]] = field(default_factory=list)
    started_s: float = field(default_factory=monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now_s(self) -> float:
        """Seconds since it began."""
        return monotonic() - self.started_s

    def add(self, op: Op) -> None:
        """Record an operation that has ended."""
        with self._lock:
            self.ops.append(op)

    def fault(self, what: str) -> None:
        """Record what was done to the hosts."""
        self.faults.append((self.now_s(), what))

    def of(self, name: str) -> list[Op]:
        """The operations of one name."""
        return [op for op in self.ops if op.name == name]

    def written(self, host: str) -> list[Op]:
        """The acknowledged writes of agents on one host."""
        with self._lock:
            return [op for op in self.ops if op.host == host and op.outcome == "done" and op.value is not None]

    def done(self, name: str) -> list[Op]:
        """Those of them that were acknowledged."""
        return [op for op in self.of(name) if op.outcome == "done"]


@dataclass(frozen=True, slots=True)
class Final:
    """What one host held when all was over."""

    host: str
    digest: tuple[Any, ...]
    log: list[str]
    counter: int
    members: list[str]
    fields: dict[str, Any]
    text: str
    own: dict[str, int]
    siblings: dict[str, list[str]]
    alarms: list[str]
