"""What the reference memory server's file holds, brought over into the shared state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from crdtsync.client import AsyncSession
from crdtsync.errors import InvalidRequest, TooLarge, VersionMismatch
from crdtsync.mcp.memory import graph
from crdtsync.mcp.memory.graph import ENTITY, OBSERVATIONS, RELATIONS, key_of

CHANGE_OPERATIONS = 500

Part = tuple[str, object]
"""A key, and what stands there: nothing for an entity, an observation, or the fields of a relation."""


async def bring_over(session: AsyncSession, lines: Iterable[str], *, dry_run: bool = False) -> tuple[int, int]:
    """Create what the lines of the file say: how many entities and relations were new.

    What is there already stays as it is and gets the file's observations, so that it can be repeated after it was
    ended half-way; until then an entity may lack some of its observations. With ``dry_run`` nothing is written. Raises
    :class:`~crdtsync.errors.InvalidRequest` at the first line that is not of such a file, before anything is written.
    """
    new: dict[Part, Any] = {}
    for part, value in _parts(lines):
        new.setdefault(part, value)
    for part in await _here(session):
        new.pop(part, None)
    if not dry_run:
        writes = [(key, value) for (key, _), value in new.items()]
        for first in range(0, len(writes), CHANGE_OPERATIONS):
            await _write(session, writes[first : first + CHANGE_OPERATIONS])
    keys = [key for key, _ in new]
    return sum(key.startswith(ENTITY) for key in keys), keys.count(RELATIONS)


def _parts(lines: Iterable[str]) -> Iterator[tuple[Part, Any]]:
    """What each line says: an entity with its observations, or a relation."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            if item["type"] == "entity":
                name = str(item["name"])
                yield (key_of(ENTITY, name), None), {"type": str(item["entityType"])}
                for observation in map(str, item["observations"]):
                    yield (key_of(OBSERVATIONS, name), observation), observation
            else:
                relation = {name: str(item[name]) for name in ("from", "to", "relationType")}
                yield (RELATIONS, (*relation.values(),)), relation
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else error
            message = (
                f"line {number} is not of a memory server's file, nothing was written: {why}; "
                "give the file that its MEMORY_FILE_PATH names"
            )
            raise InvalidRequest(message) from error


async def _here(session: AsyncSession) -> list[Part]:
    found: list[Part] = [(key, None) for key in await session.keys(ENTITY)]
    for key, known in await session.items(OBSERVATIONS):
        found += [(key, each) for each in known if isinstance(each, str)] if isinstance(known, list) else []
    return found + [(RELATIONS, (*graph.plain(each).values(),)) for each in await graph.relations(session)]


async def _write(session: AsyncSession, writes: Sequence[tuple[str, Any]]) -> None:
    """One change; what does not fit into one, in several. An entity that somebody has made meanwhile stays."""
    try:
        async with session.batch() as batch:
            for key, value in writes:
                if key.startswith(ENTITY):
                    batch.set(key, value, if_absent=True)
                else:
                    batch.add(key, value)
    except VersionMismatch:
        there = await session.get_many([key for key, _ in writes if key.startswith(ENTITY)])
        await _write(session, [write for write in writes if write[0] not in there])
    except TooLarge:
        if len(writes) == 1:
            raise
        await _write(session, writes[: len(writes) // 2])
        await _write(session, writes[len(writes) // 2 :])
