"""Calls of a blocking client from any event loop: each waits in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def settled(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Call a function in a thread. A task cancelled meanwhile is so when the outcome is there, and not before."""
    call = asyncio.ensure_future(asyncio.to_thread(function, *args, **options))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise


def writing(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The coroutine that calls a function in a thread, as :func:`settled` does."""

    @wraps(function)
    async def call(*arguments: P.args, **options: P.kwargs) -> T:
        return await settled(function, *arguments, **options)

    return call


def reading(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The coroutine that calls a function in a thread. A task that is cancelled meanwhile waits for nothing."""

    @wraps(function)
    async def call(*arguments: P.args, **options: P.kwargs) -> T:
        return await asyncio.to_thread(function, *arguments, **options)

    return call


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
