"""Because of what a write is made: the roles of the reactions that led to it, in its ``meta``.

Example: the analyst reacts to findings by writing a plan, the researcher to plans by writing findings. Each handler's
writes say by which reactions they came about (``caused_by``), so that the two notice that they go on for ever.

A command finds the same in its environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

CAUSED_BY = "caused_by"
VARIABLE = "CRDTSYNC_CAUSED_BY"
CAUSES_MAX = 64
"""Reactions that a write names: the last ones."""

_causes: ContextVar[tuple[str, ...] | None] = ContextVar("crdtsync_causes", default=None)


def causes() -> tuple[str, ...]:
    """The roles of the reactions that led to what this context writes, the first one first."""
    own = _causes.get()
    if own is None:
        return tuple(os.environ.get(VARIABLE, "").split())[-CAUSES_MAX:]
    return own


@contextmanager
def caused_by(roles: tuple[str, ...]) -> Iterator[None]:
    """Writes in this block have these causes."""
    token = _causes.set(roles[-CAUSES_MAX:])
    try:
        yield
    finally:
        _causes.reset(token)


def with_causes(meta: dict[str, Any] | None) -> dict[str, Any] | None:
    """The ``meta`` of a write, with its causes."""
    roles = causes()
    return {**(meta or {}), CAUSED_BY: [*roles]} if roles else meta


def causes_of(meta: object) -> tuple[str, ...]:
    """Those that somebody has written."""
    roles = meta.get(CAUSED_BY) if isinstance(meta, Mapping) else None
    return tuple(role for role in roles if isinstance(role, str)) if isinstance(roles, list) else ()
