"""A place of one agent's own, for asyncio: drafts and scratch that others need not see, until they are published."""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.client import AsyncSession
from crdtsync.errors import InvalidRequest, NotAllowed, TooLarge, UnknownSpace

if TYPE_CHECKING:
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.results import Entry, LogItem

    _Part = tuple[Any, dict[str, Any]]  # what is written, and what else its author said of it

MOVED = ("register", "log", "set", "map", "counter", "text")


class AsyncPrivate(AsyncSession):
    """A session in a space of its agent's own; made by ``await state.private()``. It is used as any session."""

    shared: AsyncSession
    """Where :meth:`publish` moves things to: the session that this was made by."""

    async def publish(self, key: str, to: str | None = None, *, w: WriteConcern = None) -> str:
        """Move a key to the shared space, there named ``to`` (as here); the token of what was written there.

        What the key holds is written there as by a session that has read it: a register in the place of what that
        session had read, the elements of a log behind those that are there, the fields of a map among them. Of siblings
        the winner goes. What one batch does not take goes in several, and others see the first before the last. Then
        the key is deleted here. If this is cut off amid it, publish again: an element of a log may be there twice then,
        and a counter have counted twice.

        :raises LookupError: there is nothing under ``key``.
        :raises InvalidRequest: it is a blob or a document: write that to the shared space with its own call.
        """
        entry = await self.entry(key)
        if entry is None:
            raise LookupError(f"{key!r} is not there: nothing was published")
        token = await self._move(entry, key if to is None else to, w)
        await self.delete(key)
        return token

    async def _move(self, entry: Entry, to: str, w: WriteConcern) -> str:
        shared = self.shared
        match entry.kind:
            case "register":
                options: dict[str, Any] = {"confidence": entry.confidence, "meta": entry.meta, "ttl": entry.ttl}
                return await shared.set(to, entry.value, **options, w=w)
            case "text":
                await shared.text(to).set(entry.value, w=w)
            case "log":
                items = await self.log_items(entry.key)
                await self._move_parts("append", to, [(item.value, _said_of(item)) for item in items], w)
            case "set":
                await self._move_parts("add", to, [(value, {}) for value in entry.value], w)
            case "map":
                await self._move_parts("merge", to, [({name: value}, {}) for name, value in entry.value.items()], w)
            case "counter":
                await shared.incr(to, entry.value, w=w)
            case _:
                raise InvalidRequest(f"{entry.key!r} is a {entry.kind}: publish is for {', '.join(MOVED)}")
        token = shared.last_token
        assert token is not None
        return token

    async def _move_parts(self, write: str, to: str, parts: list[_Part], w: WriteConcern) -> None:
        """At once, or what a batch does not take in as many as it needs."""
        try:
            async with self.shared.batch(w=w) as batch:
                for value, options in parts:
                    getattr(batch, write)(to, value, **options)
        except TooLarge:
            if len(parts) == 1:
                raise
            for some in (parts[: len(parts) // 2], parts[len(parts) // 2 :]):
                await self._move_parts(write, to, some, w)


def _said_of(item: LogItem) -> dict[str, Any]:
    return {"confidence": item.confidence, "meta": item.meta, "ttl": item.ttl}


async def private(state: AsyncSession, *, everywhere: bool) -> AsyncPrivate:
    """Make the space of this agent if it is not there, and a session in it."""
    status = await state.status()
    place = "" if everywhere else str(status["node"]["id"])
    agent = state.agent
    name = f"private-{blake2b(f'{agent} {place}'.encode(), digest_size=8).hexdigest()}"
    overrides = {**state.overrides, "space": name}
    session = AsyncPrivate(state._connection, state.timeout_s, overrides)  # noqa: SLF001  # as session() does
    session.shared = state
    rules = []
    with suppress(UnknownSpace, NotAllowed):
        rules = (await session.access_list())["rules"]
    if not rules:
        await state.create_space(name, nodes=[place] if place else None, private=True)
        rules = (await session.access_list())["rules"]
    others = sorted({str(rule["who"]) for rule in rules} - {f"agent:{agent}"})
    if len(others) > 1 or (others and not others[0].startswith("uid:")) or len(rules) > 1:
        raise InvalidRequest(f"the space {name} is not private: {', '.join(others)} may do something in it, too")
    return session
