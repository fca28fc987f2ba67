"""What the reference memory server's file holds, brought over into the shared state."""

from __future__ import annotations

import json
from collections.abc import Iterable

from crdtsync.client import AsyncSession
from crdtsync.errors import InvalidRequest
from crdtsync.mcp.memory import graph


async def bring_over(session: AsyncSession, lines: Iterable[str]) -> tuple[int, int]:
    """Create what the lines of the file say: how many entities and relations were new.

    What is there already stays as it is and gets the file's observations, so that it can be repeated after it was
    ended half-way. Raises :class:`~crdtsync.errors.InvalidRequest` at the first line that is not of such a file; what
    came before it is done.
    """
    entities = relations = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            if item["type"] == "entity":
                known = [str(one) for one in item["observations"]]
                entity: graph.Entity = {
                    "name": str(item["name"]), "entityType": str(item["entityType"]), "observations": known
                }  # fmt: skip
                made = await graph.create(session, [entity])
                entities += len(made)
                if not made:
                    await graph.observe(session, entity["name"], known)
            else:
                relation = {name: str(item[name]) for name in ("from", "to", "relationType")}
                relations += len(await graph.relate(session, [relation]))  # type: ignore[list-item]  # as checked
        except (ValueError, KeyError, TypeError) as error:
            message = f"line {number} is not of a memory server's file ({error}); {entities} entities came before it"
            raise InvalidRequest(message) from error
    return entities, relations
