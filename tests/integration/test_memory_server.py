"""The drop-in for the reference memory server: alike call by call, and nothing that several hosts create is lost."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client

from crdtsync import AsyncClient
from crdtsync.mcp.memory.import_file import bring_over
from tests.harness.cluster import Cluster
from tests.harness.daemon import Daemon
from tests.harness.npm import installed
from tests.harness.shell import PROGRAM, Shell
from tests.harness.warm import stand_in

pytestmark = pytest.mark.integration

REFERENCE = "@modelcontextprotocol/server-memory@2026.8.31"
MAIN = "node_modules/@modelcontextprotocol/server-memory/dist/index.js"


def served(daemon: Daemon, agent: str = "ann") -> McpClient:
    command, *options = stand_in("crdtsync", PROGRAM, "crdtsync.mcp.server")
    options += ["mcp", "serve", "--memory-server", "--socket", str(daemon.socket), "--agent", agent]
    return McpClient(stdio_client(StdioServerParameters(command=command, args=options)))


async def call(client: McpClient, tool: str, arguments: dict[str, Any]) -> Any:
    """The data of an answer, or that it is an error; the text must say the same."""
    done = await client.call_tool(tool, arguments)
    text = "\n".join(part.text for part in done.content if part.type == "text")
    if done.is_error:
        return "error"
    data = done.structured_content
    assert isinstance(data, dict)
    shown = data["message"] if "message" in data else json.loads(text)
    assert shown in (data, *data.values())
    return ordered(data)


def entity(name: str, *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": "person", "observations": list(observations)}


def relation(one: str, other: str) -> dict[str, str]:
    return {"from": one, "to": other, "relationType": "knows"}


async def test_a_graph_is_built_asked_and_taken_down(daemon: Daemon):
    async with served(daemon) as client:
        both = [entity("Ann", "likes tea"), entity("a/b %2F", "odd")]
        assert await call(client, "create_entities", {"entities": both}) == ordered({"entities": both})
        assert await call(client, "create_entities", {"entities": both}) == {"entities": []}
        links = [relation("Ann", "a/b %2F"), relation("Ann", "Zoe")]
        assert await call(client, "create_relations", {"relations": [*links, links[0]]}) == ordered(
            {"relations": links}
        )
        more = {"observations": [{"entityName": "Ann", "contents": ["likes tea", "has a cat"]}]}
        assert await call(client, "add_observations", more) == {
            "results": [{"entityName": "Ann", "addedObservations": ["has a cat"]}]
        }
        nobody = {"observations": [{"entityName": "Nobody", "contents": ["x"]}]}
        assert await call(client, "add_observations", nobody) == "error"
        found = await call(client, "search_nodes", {"query": "CAT"})
        assert found == ordered({"entities": [entity("Ann", "likes tea", "has a cat")], "relations": links})
        assert (await call(client, "open_nodes", {"names": ["Zoe", "a/b %2F"]}))["relations"] == links[:1]
        hidden = relation("a\u200b", "b\x9b31m")
        assert await call(client, "create_relations", {"relations": [hidden]}) == {
            "relations": [relation(r"a\u200b", r"b\x9b31m")]
        }
        await call(client, "delete_relations", {"relations": [hidden]})
        await call(client, "delete_observations", {"deletions": [{"entityName": "Ann", "observations": ["likes tea"]}]})
        await call(client, "delete_entities", {"entityNames": ["a/b %2F"]})
        assert await call(client, "read_graph", {}) == {
            "entities": [entity("Ann", "has a cat")], "relations": links[1:]
        }  # fmt: skip


async def test_twenty_creates_at_once_from_two_hosts_keep_twenty(pair: Cluster):
    async with served(pair[0], "ann") as ann, served(pair[1], "bob") as bob:
        await asyncio.gather(
            *(call((ann, bob)[i % 2], "create_entities", {"entities": [entity(f"e{i}", f"o{i}")]}) for i in range(20)),
            *(call((ann, bob)[i % 2], "create_relations", {"relations": [relation("x", f"e{i}")]}) for i in range(20)),
        )
        pair[0].client("ann").wait(pair[1].client("bob").now())
        graph = await call(ann, "read_graph", {})
        assert {one["name"] for one in graph["entities"]} == {f"e{i}" for i in range(20)}
        assert all(len(one["observations"]) == 1 for one in graph["entities"])
        assert len(graph["relations"]) == 20


async def test_what_a_file_holds_is_brought_over_and_again(daemon: Daemon, tmp_path: Path):
    file = tmp_path / "memory.jsonl"
    lines = [{"type": "entity", **entity("Ann", "likes tea")}, {"type": "relation", **relation("Ann", "Bob")}]
    file.write_text("\n".join(map(json.dumps, lines)))
    run = Shell(daemon.socket, tmp_path)
    new = "1 entities and 1 relations are new"
    assert run("import-from", "memory-server", str(file), "--dry-run").out == f"{new}, if it were done\n"
    assert run("import-from", "memory-server", str(file)).out == f"{new}\n"
    for options in ([], ["--dry-run"]):
        assert run("import-from", "memory-server", str(file), *options).out.startswith("0 entities and 0 relations")
    async with served(daemon) as client:
        assert await call(client, "read_graph", {}) == {
            "entities": [entity("Ann", "likes tea")], "relations": [relation("Ann", "Bob")]
        }  # fmt: skip
    done = run("import-from", "memory-server", str(file), "--agent-key-file", "none")
    assert "cannot read the agent key in none" in done.err
    for line, why in (
        ("{}", "it has no 'type'"),
        ('{"type": "entity"}', "it has no 'name'"),
        ("7", ""),
        ("[" * 100_000, ""),
    ):
        file.write_text(line)
        done = run("import-from", "memory-server", str(file))
        told = f"line 1 is not of a memory server's file: {why}"
        assert (done.status, told in done.err) == (4, True), done
    damaged = ["", '{"type": "entity", "name": "Dan"', '{"type": "entity", "name": "Eve", "entityType": "person"}']
    file.write_text("\n".join([*damaged, json.dumps({"type": "entity", **entity("Cy", "likes tea")})]))
    done = run("import-from", "memory-server", str(file))
    assert done.out == "1 entities and 0 relations are new, 2 lines left out\n"
    assert "line 2 is not of a memory server's file: Expecting ',' delimiter at column 33; it was left out" in done.err
    assert "line 3 is not of a memory server's file: it has no 'observations'; it was left out" in done.err
    assert "memory/entity/Eve" not in daemon.client().keys("memory/")


async def test_a_long_file_is_brought_over_in_few_changes(daemon: Daemon):
    """One that the daemon refuses as too large is divided, and what somebody makes meanwhile stays."""
    lines = [json.dumps({"type": "entity", **entity(f"e{i}", f"is {i}", "x" * 30_000)}) for i in range(300)]
    lines += [json.dumps({"type": "relation", **relation(f"e{i}", "e0")}) for i in range(900)]
    state = daemon.client("bob")

    class Late(AsyncClient):
        def batch(self, *arguments: Any, **options: Any) -> Any:
            if not state.keys("memory/"):
                state.set("memory/entity/e5", {"type": "made by bob"})
            return super().batch(*arguments, **options)

    async with Late(daemon.socket, agent="ann") as session:
        assert await bring_over(session, [*lines, lines[0]]) == (300, 900, 0)
        assert state.status()["counters"]["changes_made"] < 30
        assert await bring_over(session, lines) == (0, 0, 0)
    assert state.get("memory/entity/e5") == {"type": "made by bob"}
    assert sorted(state.members("memory/observations/e5")) == ["is 5", "x" * 30_000]
    assert (len(state.keys("memory/entity/")), len(state.members("memory/relations"))) == (300, 900)


async def test_a_line_that_cannot_be_stored_is_left_out(daemon: Daemon, caplog: pytest.LogCaptureFixture):
    lines = [json.dumps({"type": "entity", **entity(f"e{i}")}) for i in range(600)]
    for place, bad in (
        (1, entity("half", "is whole", "\ud83d")),
        (3, entity("long", "x" * (1 << 20))),
        (550, entity("n" * 1020, "likes tea")),
        (551, entity("two\nlines")),
        (600, {**entity("kind"), "entityType": "\ud83d"}),
    ):
        lines.insert(place, json.dumps({"type": "entity", **bad}))
    lines += [json.dumps({"type": "relation", **relation(*each)}) for each in (("e1", "\udc00"), ("e1", "e2"))]
    state = daemon.client("bob")
    caplog.set_level(logging.WARNING)  # a daemon that a test before this one ran in this process logs errors alone
    async with AsyncClient(daemon.socket, agent="ann") as session:
        assert await bring_over(session, lines, dry_run=True) == (600, 1, 6)
        assert state.keys("memory/") == []
        assert await bring_over(session, lines) == (600, 1, 6)
        assert await bring_over(session, lines) == (0, 0, 6)
        caplog.clear()
        assert await bring_over(session, lines[1:2]) == (0, 0, 1), "it is of a memory server's file all the same"
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("line 1 cannot be stored: ")
    assert told.endswith("lone surrogate, which UTF-8 cannot hold; it was left out")
    assert len(state.keys("memory/")) == 601


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference server; skips if npm cannot bring it."""
    place = tmp_path_factory.mktemp("memory-server")
    return installed("CRDTSYNC_TEST_MEMORY_SERVER", place, [REFERENCE], [MAIN])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_every_call_is_answered_as_the_reference_server_does(
    reference: Path, daemon: Daemon, tmp_path: Path, seed: int
):
    environment = {**os.environ, "MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    other = StdioServerParameters(command="node", args=[str(reference / MAIN)], env=environment)
    async with served(daemon) as ours, McpClient(stdio_client(other)) as theirs:
        assert {tool.name for tool in (await ours.list_tools()).tools} == {
            tool.name for tool in (await theirs.list_tools()).tools
        }
        for tool, arguments in calls(random.Random(seed), 60):
            assert await call(ours, tool, arguments) == await call(theirs, tool, arguments), (tool, arguments)


def ordered(data: Any) -> Any:
    """``data`` in an order of its own: what was created within one millisecond has no other here."""
    if isinstance(data, dict):
        return {name: ordered(value) for name, value in data.items()}
    return sorted(map(ordered, data), key=json.dumps) if isinstance(data, list) else data


def calls(rng: random.Random, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Random calls about few names, so that they meet."""
    names = ["Ann", "Bob", "Zoë", "a/b"]

    def some(*made: Any) -> list[Any]:
        return list(made[: rng.randrange(1, len(made) + 1)])

    def text() -> str:
        return rng.choice(["likes tea", "has a cat", "is away", "Owns a Tea pot"])

    def name() -> str:
        return rng.choice(names)

    kinds: dict[str, Any] = {
        "create_entities": lambda: {"entities": some(entity(name(), text()), entity("Eve"))},
        "create_relations": lambda: {"relations": some(relation(name(), name()))},
        "add_observations": lambda: {"observations": [{"entityName": name(), "contents": [text()]}]},
        "delete_entities": lambda: {"entityNames": [name()]},
        "delete_observations": lambda: {"deletions": [{"entityName": name(), "observations": [text()]}]},
        "delete_relations": lambda: {"relations": [relation(name(), name())]},
        "read_graph": dict,
        "search_nodes": lambda: {"query": rng.choice(["tea", "PERSON", "ann", "nothing"])},
        "open_nodes": lambda: {"names": some(name(), name())},
    }
    return [(tool, kinds[tool]()) for tool in rng.choices(list(kinds), k=count)]
