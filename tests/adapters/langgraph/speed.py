"""What checkpointers take beside each other, as one JSON object: run by benchmarks/checkpointers.py."""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, TypedDict

from bare_saver import BareSaver
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.redis import RedisSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from redis_server import redis_server

from crdtsync import Client
from crdtsync.adapters.langgraph import CrdtSaver

CHANNELS, CHANNEL_CHARS = 100, 500
LISTED, GRAPH_STEPS, ROUNDS = 100, 150, 5
THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def states(steps: int) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Values of 50 kB of words, and which of them are new: at first all, then one in a hundred."""
    rng = random.Random(5)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(3000)]

    def text() -> str:
        return " ".join(rng.choices(words, k=CHANNEL_CHARS // 4))[:CHANNEL_CHARS]

    names = [f"channel-{number:03}" for number in range(CHANNELS)]
    values = {name: text() for name in names}
    yield values, names
    for step in range(1, steps):
        name = names[step % CHANNELS]
        values = {**values, name: text()}
        yield values, [name]


def put_all(saver: Any, steps: int) -> list[float]:
    """The seconds of each put."""
    config, took = THREAD, []
    versions: dict[str, Any] = {}
    for step, (values, changed) in enumerate(states(steps)):
        new = {name: saver.get_next_version(versions.get(name), None) for name in changed}
        versions = {**versions, **new}
        checkpoint: Any = {
            **empty_checkpoint(), "id": str(uuid6(clock_seq=step)), "channel_values": values,
            "channel_versions": versions,
        }  # fmt: skip
        begun = perf_counter()
        config = saver.put(config, checkpoint, {"source": "loop", "step": step}, new)
        took.append(perf_counter() - begun)
    return took


class Fields(TypedDict):
    big: str
    count: Annotated[int, lambda old, new: old + new]


def step_s(saver: Any, thread: str) -> float:
    """The seconds of a step of a flow that counts, with 50 kB beside it that do not change."""
    graph = StateGraph(Fields)
    graph.add_node("step", lambda fields: {"count": 1})
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda fields: END if fields["count"] >= GRAPH_STEPS else "step")
    run = graph.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": GRAPH_STEPS + 9}
    begun = perf_counter()
    run.invoke({"big": "x" * CHANNELS * CHANNEL_CHARS, "count": 0}, config)
    return (perf_counter() - begun) / GRAPH_STEPS


def median_ms(call: Callable[[], object], times: int) -> float:
    """Of several calls."""
    took = []
    for _ in range(times):
        begun = perf_counter()
        call()
        took.append(perf_counter() - begun)
    return 1000 * statistics.median(took)


def read_and_step(saver: Any, flow: str) -> dict[str, float]:
    """One round of what is read, and of a flow, which has a thread of its own."""
    found = {"latest of all, ms": median_ms(lambda: saver.get_tuple(THREAD), 20)}
    if not isinstance(saver, BareSaver):
        found[f"{LISTED} of them, ms"] = median_ms(lambda: list(saver.list(THREAD, limit=LISTED)), 3)
    found["step of a flow, ms"] = 1000 * step_s(saver, flow)
    return found


def newest(client: Client, kind: str) -> list[Any]:
    """What the last put has stored there."""
    return [stored for _, stored in client.items(f"langgraph/{kind}/t/", limit=1, reverse=True)]


def size(folder: str) -> int:
    """The bytes of all files in a folder."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def main(socket: str, data: str, bare: str, steps: str) -> None:
    """Measure the savers in turns, so that what else the machine does hits all of them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as redis_folder,
        SqliteSaver.from_conn_string(f"{folder}/saver.sqlite") as sqlite,
        redis_server(Path(redis_folder)) as address,
        RedisSaver.from_conn_string(address) as redis,
        Client(socket, agent="benchmark") as client,
    ):
        redis.setup()
        savers: dict[str, Any] = {"in memory": InMemorySaver(), "SQLite": sqlite, "Redis": redis}
        floor = BareSaver(bare)
        savers |= {"bare": floor, "crdtsync": CrdtSaver(client)}
        found: dict[str, dict[str, float]] = {}
        for name, saver in savers.items():
            found[name] = {"put, ms": 1000 * statistics.median(put_all(saver, int(steps)))}
        found["SQLite"]["disk, MB"] = size(folder) / 1e6
        found["Redis"]["disk, MB"] = size(redis_folder) / 1e6
        found["crdtsync"]["disk, MB"] = size(data) / 1e6
        stored = sum(len(data["data"]) for kind in ("checkpoints", "values") for data in newest(client, kind))
        plain = os.urandom(stored)
        plainly: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "bare": (lambda: floor.ask("set", "plain", plain), lambda: floor.ask("get", "plain")),
            "crdtsync": (lambda: client.set("plain", plain), lambda: client.get("plain")),
        }
        for name, (write, _) in plainly.items():
            found[name]["a write of as many bytes, ms"] = median_ms(write, int(steps))
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in savers}
        for number in range(ROUNDS):
            for name, saver in savers.items():
                rounds[name].append(read_and_step(saver, f"flow-{number}"))
        for name, measured in rounds.items():
            found[name] |= {each: statistics.median(one[each] for one in measured) for each in measured[0]}
        for name, (_, get) in plainly.items():
            found[name]["a get of as many bytes, ms"] = median_ms(get, 500)
    print(json.dumps(found))


main(*sys.argv[1:])
