"""Names of operations for agents, events and history, and what an event of each tells: one record an operation.

An agent asks for ``discard``. The change then holds an :class:`~crdtsync.wire.change.Op` without a value, whose kind is
set. A later event, line of history or explanation has that ``Op`` alone. It needs the word ``discard`` again, and a way
to the element that is gone. Both stand in the record :data:`~.sets.DISCARD`, and
:func:`crdtsync.core.kinds.registry.operation_of` finds the record of an ``Op``.

The records here belong to no kind, or to every one; each kind's own stand in its module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from crdtsync.core.crdt.expiry import EXPIRE
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import Change, Op

RESOLVED_ATTR = "resolved"
"""The attribute of the first operation of a resolution: what follows tells readers a whole value, not news of it."""
TRIMMED_ATTR = "trimmed"
"""The attribute of a trim that names elements one by one. Others are known by their bound."""

Fields = Mapping[str, Any]
"""Fields of an event or of a line of history, as agents get them."""


class Tells(Enum):
    """The part of the key's value that the event of an operation tells."""

    WHOLE = auto()
    """All of it, whatever the key held before: ``set``."""
    GONE = auto()
    """Nothing is left of it: ``delete``, ``expire``. If something is left, the event shows that."""
    PART = auto()
    """A part of it that is new: ``add``, ``merge``, ``text``."""
    ELEMENT = auto()
    """The same of an element that is told in any case, even after an event that shows it already: ``append``."""
    PART_GONE = auto()
    """Which part of it is gone: ``discard``, ``drop``."""
    FEWER = auto()
    """That parts of it are gone, and not which: ``trim``."""
    RESULT = auto()
    """The value that has come out: ``incr``, ``reset``."""
    REWRITE = auto()
    """The value that has come out: ``resolve``, ``compact``. All operations but the first look like any others."""


_REWRITE = Tells.REWRITE  # a member of an Enum takes longer to look up than all that is done with it here
_WRITES_ENTRY = (Tells.WHOLE, Tells.PART, Tells.ELEMENT, Tells.RESULT)
"""The ways in which operations of a rewrite may tell a value, but for the first, if they write an entry."""


def last_value(ops: Sequence[Op]) -> bytes | None:
    """The written value, as it is."""
    return ops[-1].value


def no_value(_ops: Sequence[Op]) -> None:
    """For operations whose value follows from all of the key's entries alone."""


class Operation(NamedTuple):
    """One operation, as it is told. There is one record of each: they are compared by ``is``."""

    name: str
    """In events and in history; a request may be called otherwise."""
    tells: Tells
    value: Callable[[Sequence[Op]], bytes | None] = last_value
    """The value in its event, as msgpack, for the operations of a change that it stands for."""
    beside: Callable[[Change, int, Sequence[Op]], Fields] | None = None
    """Further fields of its event: from a change, the number of the first operation, and the operations."""
    is_joined: bool = False
    """Whether adjacent ones of one key in one change are one event: an agent asked for them as one."""
    event: str = "set"
    """The name of its event."""
    is_edit: bool = False
    """Whether those of one author that follow each other are one line of history."""

    def goes_on_with(self, other: Operation) -> bool:
        """Whether ``other``, just after this one in a change and on the same key, is told with it."""
        if self.tells is _REWRITE:
            return other.tells in _WRITES_ENTRY or other is self or other is DELETE
        return self.is_joined and other is self


SET = Operation("set", Tells.WHOLE)
DELETE = Operation("delete", Tells.GONE, is_joined=True, event="delete")
EXPIRED = Operation(EXPIRE, Tells.GONE, is_joined=True, event="expired")
TRIM = Operation("trim", Tells.FEWER, is_joined=True)
RESOLVE = Operation("resolve", Tells.REWRITE, no_value)
