"""Rows of the types that they are declared to have.

A bit of a page flips on disk, and the time of a change is text from then on. SQLite hands it out as it stands, and the
trouble would come up much later, as if the daemon were wrong: a comparison of text with a number. So what is read is
looked at first, and is called damage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar, get_type_hints

from crdtsync.named_tuple import NamedTuple

_Row = TypeVar("_Row", bound=NamedTuple)


def typed(make: type[_Row], rows: Iterable[tuple[Any, ...]]) -> list[_Row]:
    """``rows`` as ``make``, a named tuple of integers, strings and bytes.

    :raises sqlite3.DatabaseError: one of them holds something else.
    """
    kinds = _kinds(make)
    found = []
    for row in rows:
        if tuple(map(type, row)) != kinds:
            raise sqlite3.DatabaseError(f"a stored {make.__name__.lstrip('_')} is damaged: {row}"[:500])
        found.append(make._make(row))
    return found


def is_of_page(error: sqlite3.Error) -> bool:
    """Whether SQLite says that a page holds what it never wrote."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


@cache
def _kinds(make: type[NamedTuple]) -> tuple[type, ...]:
    return tuple(getattr(hint, "__supertype__", hint) for hint in get_type_hints(make).values())
