"""What adapters with a blocking client have in common: the client, and calls of it from any event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from crdtsync.adapters.keys import Keys
from crdtsync.adapters.redaction import Rule, redacted
from crdtsync.client import Client, Session
from crdtsync.errors import TooLarge

CHANGE_OPERATIONS = 500

T = TypeVar("T")


class Attached:
    """Something that keeps its data with a daemon.

    ``client`` is a client, a session of one, or the path of a daemon's socket (None: the usual one). Keys begin with
    ``prefix``, by default the name of the framework. What was written is on this host's disk on return; with ``w`` (a
    number, ``"majority"``, ``"all"``) on so many hosts'. ``redact`` is a rule for texts, such as one that takes secrets
    out; each text goes through it before it is written.
    """

    PREFIX: ClassVar[str]

    def __init__(
        self,
        client: Session | str | os.PathLike[str] | None = None,
        *,
        prefix: str | None = None,
        w: int | str | None = None,
        redact: Rule | None = None,
    ) -> None:
        self._owned = None if isinstance(client, Session) else Client(client)
        self._client = client if isinstance(client, Session) else self._owned or Client()
        self._keys = Keys(self.PREFIX if prefix is None else prefix)
        self._w: Any = w
        self._redact = redact

    def _redacted(self, value: Any) -> Any:
        """What is written of a value."""
        return redacted(self._redact, value)

    def close(self) -> None:
        """Close the client that this made for itself; one that was handed in stays open."""
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def settled(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Call a function in a thread. Whoever is cancelled meanwhile is so when the outcome is there, and not before."""
    call = asyncio.ensure_future(asyncio.to_thread(function, *args, **options))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise


def in_changes(write: Callable[[Sequence[T]], None], items: Sequence[T], *, at_most: int = CHANGE_OPERATIONS) -> None:
    """Call a function, which writes what it is given as one change, with all items; if they do not fit, part by part.

    :raises TooLarge: one item alone does not fit.
    """
    for first in range(0, len(items), at_most):
        part = items[first : first + at_most]
        try:
            write(part)
        except TooLarge:
            if len(part) == 1:
                raise
            in_changes(write, part, at_most=(len(part) + 1) // 2)
