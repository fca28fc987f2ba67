"""What the reference memory server's file holds, brought over into the shared state."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from crdtsync.client import AsyncSession
from crdtsync.client.values.encoding import encode
from crdtsync.client.values.patterns import check_key
from crdtsync.errors import InvalidRequest, Refused, TooLarge, VersionMismatch
from crdtsync.mcp.memory import graph
from crdtsync.mcp.memory.graph import ENTITY, OBSERVATIONS, RELATIONS, key_of

log = logging.getLogger(__name__)

CHANGE_OPERATIONS = 500

Part = tuple[str, object]
"""A key, and what stands there: nothing for an entity, an observation, or the fields of a relation."""


async def bring_over(session: AsyncSession, lines: Iterable[str], *, dry_run: bool = False) -> tuple[int, int, int]:
    """Create what the lines of the file say: how many entities and relations were new, and how many lines left out.

    What is there already stays as it is and gets the file's observations, so that it can be repeated after it was
    ended half-way; until then an entity may lack some of its observations. A line that says nothing, or what cannot be
    stored, is left out, with a warning in the log. With ``dry_run`` nothing is written.

    :raises InvalidRequest: no line is of such a file.
    """
    new: dict[Part, Any] = {}
    faults: list[str] = []
    is_one = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            said = _parts(line)
            is_one = True
            for (key, _), value in said:
                check_key(key)
                encode(value)
        except Refused as error:
            faults.append(f"line {number} cannot be stored: {error.message}")
            continue
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            faults.append(f"line {number} is not of a memory server's file: {_why(error)}")
            continue
        for part, value in said:
            new.setdefault(part, value)
    if faults and not is_one:
        raise InvalidRequest(f"{faults[0]}; nor is any other: give the file that its MEMORY_FILE_PATH names")
    for fault in faults:
        log.warning("%s; it was left out", fault)
    for part in await _here(session):
        new.pop(part, None)
    if not dry_run:
        writes = [(key, value) for (key, _), value in new.items()]
        for first in range(0, len(writes), CHANGE_OPERATIONS):
            await _write(session, writes[first : first + CHANGE_OPERATIONS])
    keys = [key for key, _ in new]
    return sum(key.startswith(ENTITY) for key in keys), keys.count(RELATIONS), len(faults)


def _parts(line: str) -> list[tuple[Part, Any]]:
    """What a line says: an entity with its observations, or a relation."""
    item = json.loads(line)
    if item["type"] == "entity":
        name = str(item["name"])
        observations = [*map(str, item["observations"])]
        made: list[tuple[Part, Any]] = [((key_of(ENTITY, name), None), {"type": str(item["entityType"])})]
        return made + [((key_of(OBSERVATIONS, name), each), each) for each in observations]
    relation = {name: str(item[name]) for name in ("from", "to", "relationType")}
    return [((RELATIONS, (*relation.values(),)), relation)]


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno:,}"
    return f"it has no {error}" if isinstance(error, KeyError) else "it is no entity, and no relation"


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
