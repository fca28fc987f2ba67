"""What adapters with a blocking client have in common: the client, and calls of it from any event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

from crdtsync.adapters.keys import Keys
from crdtsync.adapters.redaction import Rule, redacted
from crdtsync.client import Client, Session
from crdtsync.client.values.encoding import encode
from crdtsync.errors import TooLarge

CHANGE_OPERATIONS = 500

P = ParamSpec("P")
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

    def _write_all(self, operation: str, each: Sequence[tuple[Any, ...]], **options: Any) -> list[Any]:
        """Do one operation of a batch with each of these arguments, all or none where they fit into one change.

        What each has come to. If the last argument of one is too large, none is done.
        """
        results: list[Any] = []

        def write(part: Sequence[tuple[Any, ...]]) -> None:
            with self._client.batch(w=self._w) as batch:
                for arguments in part:
                    getattr(batch, operation)(*arguments, **options)
            results.extend(batch.results)

        check_each([arguments[-1] for arguments in each])
        in_changes(write, each)
        return results

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


def in_thread(
    method: Callable[P, T], run: Callable[..., Coroutine[Any, Any, Any]] = settled
) -> Callable[P, Coroutine[Any, Any, T]]:
    """A method for asyncio: it calls the one of the object that has the name of ``method``, as :func:`settled` does.

    One that only reads is run by ``asyncio.to_thread``: whoever is cancelled then waits for nothing.
    """

    @wraps(method)
    async def call(*arguments: P.args, **options: P.kwargs) -> T:
        self, *rest = arguments
        found: T = await run(getattr(self, method.__name__), *rest, **options)
        return found

    return call


def check_each(elements: Sequence[Any]) -> None:
    """Before any of them is written, that none is too large: of what is added in parts some would be there already.

    :raises TooLarge: one alone does not fit.
    """
    for element in elements if len(elements) > 1 else ():
        encode(element)


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
