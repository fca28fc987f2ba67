"""What the reference memory server's file holds, brought over into the shared state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from crdtsync.client import AsyncSession
from crdtsync.errors import InvalidRequest
from crdtsync.mcp.memory import graph


async def bring_over(session: AsyncSession, lines: Iterable[str], *, dry_run: bool = False) -> tuple[int, int]:
    """Create what the lines of the file say: how many entities and relations were new.

    What is there already stays as it is and gets the file's observations, so that it can be repeated after it was
    ended half-way. With ``dry_run`` nothing is written. Raises :class:`~crdtsync.errors.InvalidRequest` at the first
    line that is not of such a file; what came before it is done.
    """
    if dry_run:
        here = await graph.whole(session)
        items = [*_items(lines)]
        names = {one["name"] for one in items if "name" in one} - {one["name"] for one in here["entities"]}
        said = {tuple(sorted(one.items())) for one in items if "name" not in one}
        return len(names), len(said - {tuple(sorted(one.items())) for one in here["relations"]})
    entities = relations = 0
    for item in _items(lines):
        if "name" not in item:
            relations += len(await graph.relate(session, [item]))
        elif await graph.create(session, [item]):
            entities += 1
        else:
            await graph.observe(session, item["name"], item["observations"])
    return entities, relations


def _items(lines: Iterable[str]) -> Iterator[Any]:
    """What each line says: an entity, or a relation, which has no name."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            if item["type"] == "entity":
                known = [str(one) for one in item["observations"]]
                yield {"name": str(item["name"]), "entityType": str(item["entityType"]), "observations": known}
            else:
                yield {name: str(item[name]) for name in ("from", "to", "relationType")}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            message = f"line {number} is not of a memory server's file ({error}); what came before it is done"
            raise InvalidRequest(message) from error
