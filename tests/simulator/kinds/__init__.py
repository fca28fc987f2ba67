"""The kinds of values, as the simulator knows them: one module a kind, and the table of all.

Which values of a key are one is worked out in :mod:`tests.simulator.model`, by plain sets.
"""

from __future__ import annotations

from typing import Any

from crdtsync.wire.kinds import Kind
from tests.simulator.kinds import counter, log, maps, register, sets, text
from tests.simulator.kinds.any_kind import OF_ANY_KIND
from tests.simulator.kinds.base import Operation, SimulatedKind
from tests.simulator.model import Value

ALL: dict[str, SimulatedKind] = {
    kind.name: kind for kind in (register.REGISTER, log.LOG, text.TEXT, counter.COUNTER, sets.SET, maps.MAP)
}
"""By name, in the order of their keys."""
OPERATIONS: dict[str, Operation] = OF_ANY_KIND | {
    name: operation for kind in ALL.values() for name, operation in kind.operations.items()
}
KIND_OF: dict[str, SimulatedKind] = {name: kind for kind in ALL.values() for name in kind.operations}
"""Which kind a write makes."""


def kind_of(group: list[Value]) -> SimulatedKind:
    """Which kind some values are of that are one."""
    return ALL[Kind(group[-1].kind).word]


def shown(group: list[Value]) -> Any:
    """What a reader gets for one of the groups of values. Not for a text."""
    return kind_of(group).shown(group)


MIXED = "mixed"
KEYS: tuple[str, ...] = (*(key for kind in ALL.values() for key in kind.keys), MIXED)
REGISTERS, LOGS, TEXTS = register.KEYS, log.KEYS, text.KEYS
COUNTERS, SETS, MAPS = counter.KEYS, sets.KEYS, maps.KEYS
