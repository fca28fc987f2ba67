"""The stored values that a framework can read.

Any program may write what an adapter reads, so an element of a log may be no message. It is left out, with a warning,
and stays where it is: otherwise nobody could read the log again. If somebody asks for one value, such as the state
of a flow, the one before it counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from crdtsync.client import Entry, Session

log = logging.getLogger(__name__)

PAST_VALUES = 20  # at most so many are tried

S = TypeVar("S")
T = TypeVar("T")


def readable(key: str, stored: Iterable[S], read: Callable[[S], T]) -> Iterator[tuple[S, T]]:
    """The stored values, each with what ``read`` makes of it, but for what it raises an error of."""
    for each in stored:
        try:
            found = read(each)
        except Exception as error:  # noqa: BLE001  # each framework raises others
            log.warning("an element of %s cannot be read, and is left out: %s", key, error)
        else:
            yield each, found


def newest_readable(
    state: Session, entry: Entry, read: Callable[[Any], T], unreadable: Callable[[str], Exception] = ValueError
) -> T:
    """The value of an entry as ``read`` makes it, or, with a warning, of the newest one before that it can read.

    :raises Exception: the one that ``unreadable`` makes: there is no such value.
    """
    why: Exception | None = None
    for value in chain([entry.value], _before(state, entry.key)):
        try:
            found = read(value)
        except Exception as error:  # noqa: BLE001  # each framework raises others
            why = why or error
        else:
            if why is not None:
                log.warning("%s cannot be read, what it held before counts: %s", entry.key, why)
            return found
    raise unreadable(f"{entry.key} cannot be read, and held nothing before that can: {why}") from why


def _before(state: Session, key: str) -> Iterator[Any]:
    """The values that a key has held, newest first, back to where it was deleted."""
    for past in state.history(key, last=PAST_VALUES):
        if past.fate not in ("live", "replaced", "lost"):
            return
        yield state.get(key, at=past.token) if past.is_cut else past.value
