"""Entities, their observations and relations, as keys of the shared state.

``memory/entity/NAME`` is a register with the entity's type, ``memory/observations/NAME`` the set of what is known of
it, ``memory/relations`` the set of all relations. A name with a slash has it as ``%2F`` in its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from typing_extensions import TypedDict

from crdtsync.client import AsyncSession, Member
from crdtsync.errors import InvalidRequest, VersionMismatch

ENTITY, OBSERVATIONS, RELATIONS = "memory/entity/", "memory/observations/", "memory/relations"


class Entity(TypedDict):
    """Something that is known about."""

    name: str
    entityType: str
    observations: list[str]


Relation = TypedDict("Relation", {"from": str, "to": str, "relationType": str})


class Graph(TypedDict):
    """Everything, or what a question found."""

    entities: list[Entity]
    relations: list[Relation]


async def create(session: AsyncSession, entities: Iterable[Entity]) -> list[Entity]:
    """Create those of ``entities`` that there are not yet, and give them back. Each is there whole or not at all."""
    created = []
    for entity in entities:
        try:
            async with session.batch() as batch:
                batch.set(key_of(ENTITY, entity["name"]), {"type": entity["entityType"]}, if_absent=True)
                for observation in dict.fromkeys(entity["observations"]):
                    batch.add(key_of(OBSERVATIONS, entity["name"]), observation)
        except VersionMismatch:
            continue
        created.append(entity)
    return created


async def observe(session: AsyncSession, name: str, contents: Sequence[str]) -> list[str]:
    """Add to what is known of an entity; gives back what was not known before."""
    if await session.get(key_of(ENTITY, name)) is None:
        raise InvalidRequest(f"Entity with name {name} not found")
    return [one for one in dict.fromkeys(contents) if await session.add(key_of(OBSERVATIONS, name), one)]


async def forget(session: AsyncSession, name: str, contents: Iterable[str]) -> None:
    """Take away from what is known of an entity."""
    for one in contents:
        await session.discard(key_of(OBSERVATIONS, name), one)


async def delete(session: AsyncSession, names: Sequence[str]) -> None:
    """Delete entities with all that is known of them, and the relations that they are part of."""
    for name in names:
        async with session.batch() as batch:
            batch.delete(key_of(ENTITY, name))
            batch.delete(key_of(OBSERVATIONS, name))
    gone = set(names)
    await unrelate(session, [one for one in await relations(session) if one["from"] in gone or one["to"] in gone])


async def relate(session: AsyncSession, wanted: Iterable[Relation]) -> list[Relation]:
    """Add relations; gives back those that were not there before."""
    return [one for one in wanted if await session.add(RELATIONS, plain(one))]


async def unrelate(session: AsyncSession, unwanted: Iterable[Relation]) -> None:
    """Take relations away."""
    for one in unwanted:
        await session.discard(RELATIONS, plain(one))


async def relations(session: AsyncSession) -> list[Relation]:
    """All relations, oldest first; what else somebody has put there is passed over."""
    return [member.value for member in _by_time(await session.member_items(RELATIONS)) if _is_relation(member.value)]


async def whole(session: AsyncSession) -> Graph:
    """Everything, oldest first; what came within one millisecond has no order."""
    entries = sorted(await session.entries(ENTITY), key=lambda entry: entry.time.timestamp() if entry.time else 0.0)
    found: list[Entity] = []
    for entry in entries:
        name = _name(entry.key)
        known = _by_time(await session.member_items(key_of(OBSERVATIONS, name)))
        kind = str(entry.value.get("type", "")) if isinstance(entry.value, dict) else ""
        found.append({"name": name, "entityType": kind, "observations": [str(member.value) for member in known]})
    return {"entities": found, "relations": await relations(session)}


def matching(graph: Graph, query: str) -> Graph:
    """The entities that have ``query`` in their name, type or observations, and the relations of these."""
    asked = query.lower()
    return of(
        graph,
        {
            one["name"]
            for one in graph["entities"]
            if any(asked in text.lower() for text in (one["name"], one["entityType"], *one["observations"]))
        },
    )


def of(graph: Graph, names: set[str]) -> Graph:
    """The entities ``names``, and the relations that at least one of them is part of."""
    entities = [one for one in graph["entities"] if one["name"] in names]
    there = {one["name"] for one in entities}
    return {
        "entities": entities,
        "relations": [one for one in graph["relations"] if one["from"] in there or one["to"] in there],
    }


def _is_relation(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("from", "to", "relationType"))


def plain(relation: Relation) -> dict[str, str]:
    """A relation as it is stored, whatever else was said of it."""
    return {"from": relation["from"], "to": relation["to"], "relationType": relation["relationType"]}


def _by_time(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda member: member.time.timestamp() if member.time else 0.0)


def key_of(prefix: str, name: str) -> str:
    """The key of an entity, or of what is known of it."""
    return prefix + name.replace("%", "%25").replace("/", "%2F")


def _name(key: str) -> str:
    return key.removeprefix(ENTITY).replace("%2F", "/").replace("%25", "%")
