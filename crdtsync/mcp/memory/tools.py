"""The nine tools, with the names, arguments and results of the reference memory server (2026.8)."""

from __future__ import annotations

import json
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, TextContent
from typing_extensions import TypedDict

from crdtsync.mcp.answers import plain
from crdtsync.mcp.memory import graph
from crdtsync.mcp.memory.graph import Entity, Graph, Relation
from crdtsync.mcp.session import Callers
from crdtsync.mcp.tools.table import Tool


class Entities(TypedDict):
    """What was created."""

    entities: list[Entity]


class Relations(TypedDict):
    """What was created."""

    relations: list[Relation]


class Observation(TypedDict):
    """What is to be added to an entity."""

    entityName: str
    contents: list[str]


class Deletion(TypedDict):
    """What is to be taken from an entity."""

    entityName: str
    observations: list[str]


class Added(TypedDict):
    """What was added to an entity."""

    entityName: str
    addedObservations: list[str]


class Results(TypedDict):
    """What was added."""

    results: list[Added]


class Success(TypedDict):
    """That it is done."""

    success: bool
    message: str


def tools(sessions: Callers) -> list[Tool]:
    """The tools of this module, for the callers of ``sessions``."""

    async def create_entities(ctx: Context, entities: list[Entity]) -> Annotated[CallToolResult, Entities]:
        """Create multiple new entities in the knowledge graph"""
        made = await graph.create(sessions.of(ctx), entities)
        return _result(made, {"entities": made})

    async def create_relations(ctx: Context, relations: list[Relation]) -> Annotated[CallToolResult, Relations]:
        """Create multiple new relations between entities in the knowledge graph. Relations should be in active voice"""
        made = await graph.relate(sessions.of(ctx), relations)
        return _result(made, {"relations": made})

    async def add_observations(ctx: Context, observations: list[Observation]) -> Annotated[CallToolResult, Results]:
        """Add new observations to existing entities in the knowledge graph"""
        session = sessions.of(ctx)
        results = [
            {
                "entityName": one["entityName"],
                "addedObservations": await graph.observe(session, one["entityName"], one["contents"]),
            }
            for one in observations
        ]
        return _result(results, {"results": results})

    async def delete_entities(ctx: Context, entityNames: list[str]) -> Annotated[CallToolResult, Success]:  # noqa: N803
        """Delete multiple entities and their associated relations from the knowledge graph"""
        await graph.delete(sessions.of(ctx), entityNames)
        return _done("Entities deleted successfully")

    async def delete_observations(ctx: Context, deletions: list[Deletion]) -> Annotated[CallToolResult, Success]:
        """Delete specific observations from entities in the knowledge graph"""
        for one in deletions:
            await graph.forget(sessions.of(ctx), one["entityName"], one["observations"])
        return _done("Observations deleted successfully")

    async def delete_relations(ctx: Context, relations: list[Relation]) -> Annotated[CallToolResult, Success]:
        """Delete multiple relations from the knowledge graph"""
        await graph.unrelate(sessions.of(ctx), relations)
        return _done("Relations deleted successfully")

    async def read_graph(ctx: Context) -> Annotated[CallToolResult, Graph]:
        """Read the entire knowledge graph"""
        found = await graph.whole(sessions.of(ctx))
        return _result(found, found)

    async def search_nodes(ctx: Context, query: str) -> Annotated[CallToolResult, Graph]:
        """Search for nodes in the knowledge graph based on a query"""
        found = graph.matching(await graph.whole(sessions.of(ctx)), query)
        return _result(found, found)

    async def open_nodes(ctx: Context, names: list[str]) -> Annotated[CallToolResult, Graph]:
        """Open specific nodes in the knowledge graph by their names"""
        found = graph.of(await graph.whole(sessions.of(ctx)), set(names))
        return _result(found, found)

    return [
        *(Tool(one, writes=True) for one in (create_entities, create_relations, add_observations)),
        *(
            Tool(one, writes=True, destroys=True, repeatable=True)
            for one in (delete_entities, delete_observations, delete_relations)
        ),
        *(Tool(one) for one in (read_graph, search_nodes, open_nodes)),
    ]


def _result(shown: Any, data: Any) -> CallToolResult:  # one of the shapes above
    text = json.dumps(plain(shown), indent=2, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=plain(data))


def _done(message: str) -> CallToolResult:
    text = TextContent(type="text", text=message)
    return CallToolResult(content=[text], structured_content={"success": True, "message": message})
