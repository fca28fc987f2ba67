"""What a framework can read of what is stored.

Any program may write what an adapter reads, so an element of a log may be no message. It is left out, with a warning,
and stays where it is: otherwise nobody could read the log again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

log = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")


def readable(key: str, stored: Iterable[S], read: Callable[[S], T]) -> Iterator[tuple[S, T]]:
    """What is stored at a key, each with what ``read`` makes of it, but for what it raises an error of."""
    for each in stored:
        try:
            found = read(each)
        except Exception as error:  # noqa: BLE001  # each framework raises others
            log.warning("an element of %s cannot be read, and is left out: %s", key, error)
        else:
            yield each, found
