"""What the simulator has to know of a kind, and of each write to it: one record each.

An ``incr``, for example: how one is drawn, with which arguments it is asked for, what it must have done (its judge),
what its reply has to say, what its session remembers, what becomes of the totals that it takes the place of, and what a
watcher makes of its event. Nothing here asks the core: it is worked out anew, or it could not find the core's faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol, TypeVar

from crdtsync.causality import Dot, Writer
from crdtsync.wire.kinds import Kind
from tests.simulator.cases import Case, Sub, named
from tests.simulator.model import Value, require

T = TypeVar("T")

CONFIDENCES = (None, None, 0.0, 0.5, 0.5, 1.0)
UNKNOWN = object()
"""What can be told by looking at the key alone: events say what changed, not what it made of a text."""


class Chooser(Protocol):
    """Whoever draws what happens."""

    draw: Callable[[], float]

    def chance(self, probability: float) -> bool:
        """Whether something happens."""

    def pick(self, options: tuple[T, ...]) -> T:
        """One of them."""


class End(Enum):
    """What becomes of the values that an operation takes the place of."""

    REPLACED = auto()
    """They live on in what comes after them."""
    CHOSEN = auto()
    """Of several one lives on, and of one that its author had not read nothing."""
    DELETED = auto()
    TRIMMED = auto()
    UNSURE = auto()
    """The oracle does not know what is kept of them."""


class Learns(Enum):
    """What a session remembers of a key after its own write."""

    NOTHING = auto()
    ABSENCE = auto()
    PART = auto()
    """What it had read, with the part that it wrote: if it had read the key."""
    CHOICE = auto()
    """The same, if its write said what it had seen."""
    VALUE = auto()
    """What it wrote."""


Arguments = dict[str, Any]
Reply = Mapping[str, Any]
Says = Callable[..., None]
"""``says(condition)``: the reply is wrong if that does not hold."""


def _nothing(_sub: Sub, _number: Callable[[], int]) -> Arguments:
    return {}


def _anything(_sub: Sub, _reply: Reply, _says: Says) -> None:
    """Its reply says nothing of before and after."""


@dataclass(frozen=True)
class Operation:
    """One write."""

    judge: Callable[[Case], None]
    """What it may remove and must write."""
    arguments: Callable[[Sub, Callable[[], int]], Arguments] = _nothing
    """What it is asked for with, beside its key and its context. New values are made of numbers, drawn as needed."""
    check_reply: Callable[[Sub, Reply, Says], None] = _anything
    """What its reply has to say of before and after."""
    end: End = End.REPLACED
    learns: Learns = Learns.NOTHING
    may_do_nothing: bool = False
    has_context: bool = True
    """Whether it says what its author has seen."""
    is_conditional: bool = False
    """Whether it may be done only if the key is as it was read."""
    ranked: Callable[[Sub], Mapping[str | None, Any]] | None = None
    """The values, by field, that a schema may refuse because they rank too low."""
    told: Callable[[Any, Any], Any] | None = None
    """What a watcher makes of what it held and the value of an event; None: the event shows all."""


def newest(group: list[Value]) -> Any:
    """The value of a kind of which only one is shown."""
    return group[-1].content


@dataclass(frozen=True)
class SimulatedKind:
    """One kind."""

    kind: Kind
    keys: tuple[str, ...]
    draw: Callable[[Chooser, str], Sub]
    """A write to a key, but for deletions."""
    operations: Mapping[str, Operation] = field(default_factory=dict)
    shown: Callable[[list[Value]], Any] = newest
    """What a reader gets for the values that are one; not of a text."""
    empty: Any = None
    """What a watcher holds before it is told anything."""
    is_by_content: bool = False
    """Whether an entry that says the same as another is the same value."""

    @property
    def name(self) -> str:
        """As agents call it."""
        return self.kind.word


def remove(case: Case, wanted: frozenset[Dot], optional: frozenset[Dot] = frozenset()) -> None:
    """A removal may take several operations, a range and some dots, and none if there is nothing to remove."""
    actual: frozenset[Dot] = frozenset()
    held = case.held
    while case.has_op and case.ops[0][1].value_hash is None and not wanted <= actual:
        actual |= named(held, case.take_op()[1].removes)
    case.check_removes(actual, wanted, optional)
    case.sub.existed = bool(actual - case.expired)
    if actual:
        case.done(actual, None)


def existed(sub: Sub, reply: Reply, says: Says) -> None:
    """The reply of a removal."""
    says(reply["existed"] == sub.existed)


def dot_of(text: str) -> Dot:
    """A dot as names of counters spell it."""
    writer, seq, n = text.split(".")
    return Dot(Writer(int(writer)), int(seq), int(n))


def check(sub: Sub, operation: Operation, reply: Reply) -> None:
    """What a write's reply says of before and after is so."""

    def says(condition: object) -> None:
        require(condition, f"the reply to {sub.operation} of {sub.key} says", reply, "where it was", sub)

    operation.check_reply(sub, reply, says)
