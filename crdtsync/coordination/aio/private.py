"""A place of one agent's own, for asyncio: drafts and scratch that others need not see, until they are published."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from crdtsync.client.aio.client import AsyncSession
from crdtsync.errors import InvalidRequest, NotAllowed, UnknownSpace

if TYPE_CHECKING:
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.results import Entry

MOVED = ("register", "log", "set", "map", "counter", "text")


class AsyncPrivate(AsyncSession):
    """A session in a space of its agent's own; made by ``await state.private()``. It is used as any session."""

    shared: AsyncSession
    """Where :meth:`publish` moves things to: the session that this was made by."""

    async def publish(self, key: str, to: str | None = None, *, w: WriteConcern = None) -> str:
        """Move a key to the shared space, there named ``to`` (as here); the token of what was written there.

        What the key holds is written there as by a session that has read it: a register in the place of what that
        session had read, the elements of a log behind those that are there, the fields of a map among them. Of siblings
        the winner goes. Then the key is deleted here. If this is cut off between the two, publish again: an element of
        a log is there twice then, and a counter has counted twice.

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
            case "log" | "set" | "map" | "counter":
                async with shared.batch(w=w) as batch:
                    for value in _parts(entry):
                        match entry.kind:
                            case "log":
                                batch.append(to, value)
                            case "set":
                                batch.add(to, value)
                            case "counter":
                                batch.incr(to, value)
                            case _:
                                batch.merge(to, value)
            case _:
                raise InvalidRequest(f"{entry.key!r} is a {entry.kind}: publish is for {', '.join(MOVED)}")
        token = shared.last_token
        assert token is not None
        return token


def _parts(entry: Entry) -> Iterable[Any]:
    return list(entry.value) if entry.kind in ("log", "set") else [entry.value]


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
