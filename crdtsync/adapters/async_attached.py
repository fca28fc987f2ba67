"""The common part of adapters that keep a client: how it is made and closed, and writes of any size."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from crdtsync.adapters.keys import Keys
from crdtsync.adapters.redaction import Rule, redacted
from crdtsync.client import AsyncClient, AsyncSession
from crdtsync.client.values.encoding import encode
from crdtsync.client.values.packer import packb
from crdtsync.errors import TooLarge

CHANGE_OPERATIONS = 500

T = TypeVar("T")


class AsyncAttached:
    """Something that keeps its data with a daemon.

    ``client`` is a client, a session of one, or the path of a daemon's socket (None: the usual one). Keys begin with
    ``prefix``, by default the name of the framework. A write is on this host's disk on return; with ``w`` (a
    number, ``"majority"``, ``"all"``) on so many hosts'. ``redact`` is a rule for texts, such as one that takes secrets
    out; each text goes through it before it is written.
    """

    PREFIX: ClassVar[str]

    def __init__(
        self,
        client: AsyncSession | str | os.PathLike[str] | None = None,
        *,
        prefix: str | None = None,
        w: int | str | None = None,
        redact: Rule | None = None,
    ) -> None:
        self._owned = None if isinstance(client, AsyncSession) else AsyncClient(client)
        self._client: AsyncSession = client if isinstance(client, AsyncSession) else self._owned or AsyncClient()
        self._keys = Keys(self.PREFIX if prefix is None else prefix)
        self._w: Any = w
        self._redact = redact

    def _redacted(self, value: Any) -> Any:
        """The value as it is written."""
        return redacted(self._redact, value)

    async def _write_all(self, operation: str, each: Sequence[tuple[Any, ...]], **options: Any) -> list[Any]:
        """Do one operation of a batch with each of these arguments, all or none where they fit into one change.

        What each has come to. If the last argument of one is too large, none is done.
        """
        results: list[Any] = []

        async def write(part: Sequence[tuple[Any, ...]]) -> None:
            async with self._client.batch(w=self._w) as batch:
                for arguments in part:
                    getattr(batch, operation)(*arguments, **options)
            results.extend(batch.results)

        check_each((arguments[0], arguments[-1]) for arguments in each)
        await in_changes(write, each)
        return results

    async def close(self) -> None:
        """Close the client that this made for itself; one that was handed in stays open."""
        if self._owned is not None:
            await self._owned.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def check_each(pairs: Iterable[tuple[str, Any]]) -> None:
    """Before any is written, that no value is too large: of what is added in parts some would be there already.

    Each comes after the key, or whatever its user knows it by.

    :raises TooLarge: one alone does not fit.
    """
    for place, value in pairs:
        try:
            encode(value)
        except TooLarge:
            raise TooLarge(
                f"a value for {place} takes {len(packb(value)):,} bytes; one holds at most 1,048,576: "
                "keep what is large, such as a file, elsewhere and pass its URL"
            ) from None


async def in_changes(
    write: Callable[[Sequence[T]], Awaitable[object]], items: Sequence[T], *, at_most: int = CHANGE_OPERATIONS
) -> None:
    """Call a function, which writes what it is given as one change, with all items; if they do not fit, part by part.

    :raises TooLarge: one item alone does not fit.
    """
    for first in range(0, len(items), at_most):
        part = items[first : first + at_most]
        try:
            await write(part)
        except TooLarge:
            if len(part) == 1:
                raise
            await in_changes(write, part, at_most=(len(part) + 1) // 2)
