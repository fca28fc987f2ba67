"""The checkpointers, on one daemon whose socket is in SOCKET; run by tests/integration/test_langgraph.py."""

from __future__ import annotations

import asyncio
import json
import operator
import os
import sqlite3
import zlib
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from threading import Barrier, Event
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import numpy as np
import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.report import CapabilityReport
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import RunControl, Runtime
from langgraph.types import Command, interrupt

from crdtsync import Client
from crdtsync.adapters.langgraph import AsyncCrdtSaver, CrdtSaver, DamagedCheckpoint, bring_over
from crdtsync.adapters.langgraph.records import pack
from crdtsync.adapters.langgraph.written import run_of
from crdtsync.errors import InvalidRequest, TooLarge
from crdtsync.sessions.redaction.redactor import Redactor

SOCKET = os.environ["SOCKET"]
TESTS = {
    "put": 17, "put_writes": 10, "get_tuple": 10, "list": 16, "delete_thread": 5, "delete_for_runs": 7,
    "copy_thread": 8, "prune": 8,
}  # fmt: skip
MIB = 1024 * 1024


@pytest.fixture
def state() -> Iterator[Client]:
    """The daemon, without what the test before has left."""
    with Client(SOCKET, agent="tester") as client:
        client.delete_prefix("langgraph/")
        yield client


@pytest.fixture
def saver(state: Client) -> CrdtSaver:
    return CrdtSaver(state)


def conforms(report: CapabilityReport) -> None:
    failed = [failure for result in report.results.values() for failure in result.failures]
    assert failed == []
    assert {name: result.tests_passed for name, result in report.results.items()} == TESTS


def test_the_asyncio_one_conforms(state: Client) -> None:
    @checkpointer_test(name="AsyncCrdtSaver")
    async def made() -> AsyncGenerator[AsyncCrdtSaver, None]:
        async with AsyncCrdtSaver(SOCKET) as saver:
            await saver._client.delete_prefix("langgraph/")
            yield saver

    conforms(asyncio.run(validate(made)))


def test_the_blocking_one_conforms(state: Client) -> None:
    @checkpointer_test(name="CrdtSaver")
    async def made() -> AsyncGenerator[CrdtSaver, None]:
        with CrdtSaver(SOCKET) as saver:
            saver._client.delete_prefix("langgraph/")
            yield saver

    conforms(asyncio.run(validate(made)))


def thread(name: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": name, "checkpoint_ns": "", **more}}


def put(saver: CrdtSaver, config: Any, values: dict[str, Any], step: int = 0) -> Any:
    versions: Any = {name: saver.get_next_version(None, None) for name in values}
    checkpoint: Any = {
        **empty_checkpoint(), "id": str(uuid6(clock_seq=step)), "channel_values": values, "channel_versions": versions
    }  # fmt: skip
    return saver.put(config, checkpoint, {"source": "loop", "step": step}, versions)


def found(saver: CrdtSaver, config: Any) -> Any:
    """The newest checkpoint of a thread, which there is."""
    newest = saver.get_tuple(config)
    assert newest is not None
    return newest


def test_no_two_branches_and_processes_have_one_version(saver: CrdtSaver) -> None:
    versions = [saver.get_next_version(None, None) for _ in range(1000)]
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, saver.get_next_version(None, None).encode())
        os._exit(0)
    os.waitpid(child, 0)
    of_child = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert len({*versions, of_child, saver.get_next_version(None, None)}) == 1002
    assert saver.get_next_version(versions[0], None) > max(versions)


def test_values_of_many_mebibytes(saver: CrdtSaver, state: Client) -> None:
    """Longer than a key can hold, and together longer than a change can be."""
    values = {"one": os.urandom(3 * MIB), "two": "é" * (2 * MIB), "small": 1}
    first = put(saver, thread("t"), values)
    saver.put_writes(first, [("one", os.urandom(2 * MIB)), ("two", "x")], "task")
    written = found(saver, thread("t"))
    assert written.checkpoint["channel_values"] == values
    assert [(channel, len(value)) for _, channel, value in written.pending_writes] == [("one", 2 * MIB), ("two", 1)]
    saver.copy_thread("t", "other")
    saver.prune(["t"], strategy="delete")
    assert state.keys("langgraph/checkpoints/") == state.keys("langgraph/checkpoints/other/")
    assert found(saver, thread("other")).checkpoint["channel_values"] == values
    second = put(saver, thread("other"), {"small": 2}, step=1)
    saver.prune(["other"])
    assert found(saver, thread("other")).config == second
    assert state.keys("langgraph/parts/") == [], "nobody needs the long values any more"


def test_the_newest_checkpoint_and_its_writes_are_one_question(
    saver: CrdtSaver, state: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = state._connection.ask

    def counted(pending: Any, *arguments: Any, **options: Any) -> None:
        asked.append(pending.operation)
        ask(pending, *arguments, **options)

    config = put(saver, put(saver, thread("t"), {"a": 1}), {"a": 2}, step=1)
    saver.put_writes(config, [("a", 3)], "task")
    monkeypatch.setattr(state._connection, "ask", counted)
    for wanted in (thread("t"), config):
        assert found(saver, wanted).pending_writes == [("task", "a", 3)]
    assert asked == ["scan", "scan"]


def test_each_checkpoint_has_its_own_writes_however_pages_end(saver: CrdtSaver) -> None:
    """Also where an id begins with another one, and what sorts between them."""
    ids = ["1", "1-a", "1a", "10", *(str(uuid6(clock_seq=step)) for step in range(90))]
    for name in ids:
        config = thread("t", checkpoint_id=name)
        saver.put(thread("t"), {**empty_checkpoint(), "id": name}, {}, {})
        for task in ("one", "two"):
            saver.put_writes(config, [("a", name), ("b", task)], task)
    wanted = [(name, [("one", "a", name), ("one", "b", "one"), ("two", "a", name), ("two", "b", "two")])
              for name in sorted(ids, reverse=True)]  # fmt: skip
    for which, limit in ((thread("t"), None), ({"configurable": {"thread_id": "t"}}, None), (thread("t"), 70)):
        shown = [(each.checkpoint["id"], each.pending_writes) for each in saver.list(which, limit=limit)]
        assert shown == wanted[:limit]
    for at in range(len(wanted)):
        after = saver.list(thread("t"), before=thread("t", checkpoint_id=wanted[at][0]), limit=3)
        assert [(each.checkpoint["id"], each.pending_writes) for each in after] == wanted[at + 1 : at + 4]
    for name, writes in wanted[-5:]:
        assert found(saver, thread("t", checkpoint_id=name)).pending_writes == writes
    saver._remove("t", "", {"1"})
    assert [each.checkpoint["id"] for each in saver.list(thread("t"))] == [name for name, _ in wanted if name != "1"]


@pytest.mark.parametrize("namespaces", [[""], ["", "inner"]])
def test_a_limit_bounds_what_is_read(
    saver: CrdtSaver, state: Client, monkeypatch: pytest.MonkeyPatch, namespaces: list[str]
) -> None:
    places = [thread("t", checkpoint_ns=namespaces[step % len(namespaces)]) for step in range(30)]
    stored = [put(saver, place, {"a": step}, step=step) for step, place in enumerate(places)]
    read = []
    decode = saver.serde.loads_typed

    def counted(typed: tuple[str, bytes]) -> Any:
        read.append(typed)
        return decode(typed)

    monkeypatch.setattr(saver.serde, "loads_typed", counted)
    assert [each.config for each in saver.list({"configurable": {"thread_id": "t"}}, limit=1)] == stored[-1:]
    assert len(read) <= 4, "checkpoints and values"


def test_a_copy_that_ends_half_way_has_no_checkpoint_without_its_writes(
    saver: CrdtSaver, state: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = put(saver, thread("t"), {"a": 1})
    for number in range(2):
        saver.put_writes(config, [("a", number)] * 200, f"task {number}")
    write, pages = saver._write, iter(range(2))

    def written(writes: Any) -> None:
        next(pages)
        write(writes)

    with monkeypatch.context() as patch:
        patch.setattr(saver, "_write", written)
        with pytest.raises(StopIteration):
            saver.copy_thread("t", "other")
    assert saver.get_tuple(thread("other")) is None
    saver.copy_thread("t", "other")
    assert found(saver, thread("other")).pending_writes == found(saver, thread("t")).pending_writes
    assert len(state.keys("langgraph/checkpoints/other/")) == 401


def test_what_an_earlier_version_has_kept(saver: CrdtSaver, state: Client) -> None:
    """With what tasks have written in keys apart, of a graph that waits for a person after two steps."""
    for line in (Path(__file__).parent / "kept_before.ndjson").read_text().splitlines():
        kept = json.loads(line, object_hook=lambda each: b64decode(each["$bytes"]) if "$bytes" in each else each)
        state.set(kept["key"], kept["value"])
    wanted = [["__interrupt__"], ["said", "branch:to:second"], ["said", "branch:to:first"]]
    assert [[channel for _, channel, _ in each.pending_writes or []] for each in saver.list(thread("t"))] == wanted
    newest, second, _ = saver.list(None)
    assert found(saver, second.config) == second
    assert found(saver, thread("t")) == newest
    (waiting,), (task, *_) = newest.pending_writes or [()], second.pending_writes or [()]
    saver.put_writes(newest.config, [("__interrupt__", "another")], waiting[0])
    saver.put_writes(second.config, [("said", "never")], task[0])
    assert found(saver, thread("t")).pending_writes == [(waiting[0], "__interrupt__", "another")], "which is replaced"
    assert found(CrdtSaver(state), second.config).pending_writes == second.pending_writes, "what was first stays"
    saver.prune(["t"])
    assert len(state.keys("langgraph/writes/")) == 1
    saver.copy_thread("t", "other")
    saver.delete_thread("t")
    assert found(saver, thread("other")).pending_writes == [(waiting[0], "__interrupt__", "another")]
    assert state.keys("langgraph/", delimiter="/").prefixes == ["langgraph/checkpoints/", "langgraph/values/",
                                                                "langgraph/writes/"]  # fmt: skip


def test_names_with_any_characters(saver: CrdtSaver) -> None:
    config = thread("a/b %2F é?*", checkpoint_ns="outer:1|inner/2")
    stored = put(saver, config, {"branch:to:node": 1, "x/y": 2})
    assert found(saver, config).checkpoint["channel_values"] == {"branch:to:node": 1, "x/y": 2}
    assert [each.config for each in saver.list(None)] == [stored]


@pytest.mark.parametrize("harm", ["missing", "changed", "replaced"])
def test_a_damaged_checkpoint_is_skipped(
    harm: str, saver: CrdtSaver, state: Client, caplog: pytest.LogCaptureFixture
) -> None:
    first = put(saver, thread("t"), {"a": 1})
    second = put(saver, first, {"a": 2}, step=1)
    whole = {key for key, _ in state.items("langgraph/values/")}
    assert len(whole) == 2
    (key,) = [
        key for key, head in state.items("langgraph/values/") if saver.serde.loads_typed(("msgpack", head["data"])) == 2
    ]
    if harm == "missing":
        state.delete(key)
    elif harm == "changed":
        state.set(key, {**state.get(key), "data": saver.serde.dumps_typed(3)[1]})
    else:
        state.set(key, "something else")
    assert found(saver, thread("t")).config == second, "whoever has written it has it"
    other = CrdtSaver(state)
    assert found(other, thread("t")).config == first
    assert [each.config for each in other.list(thread("t"))] == [first]
    assert caplog.text.count("not whole") == 1, "told once, however often it is met"
    with pytest.raises(DamagedCheckpoint):
        other.get_tuple(second)
    saver.prune(["t"])
    assert found(other, thread("t")).config == first, "pruning keeps the newest one that is whole"


SWAPS: dict[str, Any] = {
    "an older value": (("values", "a", 1), ("values", "a", 0)),
    "an older value in parts": (("values", "long", 1), ("values", "long", 0)),
    "the value of another channel": (("values", "a", 1), ("values", "b", 1)),
    "an older checkpoint": (("checkpoints", 1), ("checkpoints", 0)),
    "another write": (("checkpoints", 1, "task", 1), ("checkpoints", 1, "task", 0)),
    "the write of another task": (("checkpoints", 1, "task", 0), ("checkpoints", 1, "other", 0)),
    "a write to another channel": (("checkpoints", 1, "task", 0), {"channel": "b"}),
}


@pytest.mark.parametrize("swap", SWAPS)
def test_a_record_in_the_place_of_another_is_noticed(swap: str, saver: CrdtSaver, state: Client) -> None:
    def key(kind: str, *names: Any) -> str:
        if kind == "checkpoints":
            name = configs[names[0] + 1]["configurable"]["checkpoint_id"]
            return "/".join(["langgraph", kind, "t", "@", name, *map(str, names[1:])])
        return state.keys(f"langgraph/{kind}/t/@/{names[0]}/")[names[1]]

    configs = [thread("t")]
    for step in range(2):
        values = {"a": f"a{step}", "b": f"b{step}", "long": os.urandom(2 * MIB)}
        configs.append(put(saver, configs[-1], values, step))
    for task in ("task", "other"):
        saver.put_writes(configs[-1], [("a", f"{task} a"), ("b", f"{task} b")], task)
    assert found(CrdtSaver(state), thread("t")).config == configs[2]
    place, other = SWAPS[swap]
    harmed = key(*place)
    state.set(harmed, {**state.get(harmed), **other} if isinstance(other, dict) else state.get(key(*other)))
    assert found(CrdtSaver(state), thread("t")).config == configs[1]
    with pytest.raises(DamagedCheckpoint):
        CrdtSaver(state).get_tuple(configs[2])


@pytest.mark.parametrize("gone", ["0", "1", "2", "-3", "-4"])
def test_a_part_of_what_a_task_has_written_is_missed(gone: str, saver: CrdtSaver, state: Client) -> None:
    first = put(saver, thread("t"), {"a": 1})
    second = put(saver, first, {"a": 2}, step=1)
    saver.put_writes(second, [("__interrupt__", "?")], "task")
    saver.put_writes(second, [("__interrupt__", "again"), ("__resume__", ["yes"])], "task")
    saver.put_writes(second, [("a", 3), ("b", 4), ("c", 5)], "task")
    for count in (1, 2):  # as LangGraph does with those that are of no task
        saver.put_writes(second, [("a", 3), ("b", 4)][:count], "none")
    for task in ("other", "failed"):
        saver.put_writes(second, [("a", 6)], task)
    saver.put_writes(second, [("__error__", "x"), ("b", 7), ("__error__", "y")], "failed")
    written = found(CrdtSaver(state), thread("t"))
    assert (written.config, len(written.pending_writes)) == (second, 11)
    saver.copy_thread("t", "copy")
    assert found(CrdtSaver(state), thread("copy")).pending_writes == written.pending_writes
    place = f"langgraph/checkpoints/t/@/{second['configurable']['checkpoint_id']}"
    state.delete(f"{place}/other/0")
    assert found(CrdtSaver(state), thread("t")).config == second, "whose task runs again"
    state.delete(f"{place}/task/{gone}")
    assert found(CrdtSaver(state), thread("t")).config == first
    with pytest.raises(DamagedCheckpoint, match=f"lacks some of the {2 if '-' in gone else 3} writes of task task"):
        CrdtSaver(state).get_tuple(second)


def head_of(data: bytes, **fields: Any) -> dict[str, Any]:
    """What a saver would have written for these bytes."""
    return {"type": "msgpack", "digest": blake2b(data, digest_size=16).digest(), "data": data, **fields}


def test_what_another_agent_has_written_calls_nothing(saver: CrdtSaver, state: Client, tmp_path: Path) -> None:
    put(saver, thread("t"), {"a": 1})
    (key,) = state.keys("langgraph/values/")
    made = str(tmp_path / "made")
    state.set(key, head_of(ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "mkdir", made))))))
    assert found(CrdtSaver(state), thread("t")).checkpoint["channel_values"] == {"a": made}
    assert not Path(made).exists()


@dataclass
class Finding:
    text: str


def test_classes_of_ones_own_are_read_back_where_they_are_allowed(saver: CrdtSaver, state: Client) -> None:
    put(saver, thread("t"), {"a": Finding("x")})
    assert found(saver, thread("t")).checkpoint["channel_values"] == {"a": {"text": "x"}}
    allowing = CrdtSaver(state, serde=JsonPlusSerializer(allowed_msgpack_modules=[Finding]))
    assert found(allowing, thread("t")).checkpoint["channel_values"] == {"a": Finding("x")}
    annotated = saver.with_allowlist({(Finding.__module__, "Finding")})  # as LangGraph does with a state's annotations
    assert found(annotated, thread("t")).checkpoint["channel_values"] == {"a": Finding("x")}


DEFLATED = zlib.compress(bytes(65 * MIB))
JUNK: dict[str, Any] = {
    "a bomb": head_of(DEFLATED, zlib=True),
    "not deflated": head_of(b"x", zlib=True),
    "cut short": head_of(DEFLATED[:5000], zlib=True),
    "parts without end": {"type": "msgpack", "digest": b"x" * 16, "parts": 10**15},
    "parts that are no number": {"type": "msgpack", "digest": b"x" * 16, "parts": "all"},
    "no digest": {"type": "msgpack", "parts": 3},
    "no type": {**head_of(b"x"), "type": None},
    "a list": [1, 2],
}


@pytest.mark.parametrize("junk", JUNK)
def test_what_is_no_record_is_skipped(junk: str, saver: CrdtSaver, state: Client) -> None:
    first = put(saver, thread("t"), {"a": 1})
    put(saver, first, {"a": 2}, step=1)
    newest = state.keys("langgraph/checkpoints/", reverse=True, limit=1)[0]
    values = [key for key, head in state.items("langgraph/values/") if head["data"] == ormsgpack.packb(2)]
    for key in [f"{newest}/task/0", *values, newest]:
        state.set(key, {"path": "", "channel": "a", **JUNK[junk]} if isinstance(JUNK[junk], dict) else JUNK[junk])
        saver = CrdtSaver(state)
        assert found(saver, thread("t")).config == first
        assert [each.config for each in saver.list(None)] == [first]


@pytest.mark.parametrize("took", [7, [7], [["task", "lines", "msgpack", 10**12]], [["task"]]])
def test_what_no_checkpoint_can_have_taken_in(took: Any, saver: CrdtSaver, state: Client) -> None:
    older = put(saver, thread("t"), {"text": "x"})
    newer = put(saver, older, {"text": "y"}, step=1)
    (key,) = state.keys("langgraph/checkpoints/", limit=1, reverse=True)
    checkpoint = {**empty_checkpoint(), "id": newer["configurable"]["checkpoint_id"]}
    kind, data = saver.serde.dumps_typed({"checkpoint": checkpoint, "metadata": {}, "channels": [], "took": took})
    for write in pack(key, key.removeprefix("langgraph/checkpoints/t/"), "langgraph/parts/t/@/", data, type=kind):
        state.set(write.key, write.value)
    assert found(saver, thread("t")).config == older
    with pytest.raises(DamagedCheckpoint, match="says nothing of a checkpoint"):
        saver.get_tuple(newer)


def test_keys_that_no_saver_has_made_are_left_out(saver: CrdtSaver, state: Client) -> None:
    first = put(saver, thread("t"), {"a": 1})
    shape = ormsgpack.packb({"checkpoint": 7, "metadata": {}, "channels": ["a"]})
    for names in ("x", "x/y", "t/@/z/z", "t/@/z"):
        state.set(f"langgraph/checkpoints/{names}", head_of(shape), meta={"run_id": "r"})
    state.set(f"langgraph/checkpoints/t/@/{'f' * 36}/x", head_of(shape))
    assert found(saver, thread("t")).config == first
    assert [each.config for each in saver.list(None)] == [first]
    saver.prune(None)
    saver.delete_for_runs(["r"])
    assert found(saver, thread("t")).config == first


def test_a_name_that_is_no_text_is_refused(saver: CrdtSaver) -> None:
    with pytest.raises(InvalidRequest, match="has a lone surrogate, which UTF-8 cannot hold"):
        put(saver, thread("half a \ud83d"), {"a": 1})


def test_a_thread_id_that_is_too_long_is_called_so(saver: CrdtSaver) -> None:
    for refused in (lambda config: put(saver, config, {"a": 1}), saver.get_tuple, lambda config: [*saver.list(config)]):
        with pytest.raises(InvalidRequest, match=r"10,000 bytes .* give a shorter thread id"):
            refused(thread("x" * 10_000))


def test_a_value_that_is_too_long_is_refused(saver: CrdtSaver, state: Client) -> None:
    with pytest.raises(TooLarge, match="67,108,864"):
        put(saver, thread("t"), {"a": bytes(65 * MIB)})
    assert saver.get_tuple(thread("t")) is None


def test_only_what_has_changed_is_stored(saver: CrdtSaver, state: Client) -> None:
    class Fields(TypedDict):
        big: str
        count: Annotated[int, operator.add]

    graph = StateGraph(Fields)
    graph.add_node("step", lambda state: {"count": 1})
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: END if state["count"] >= 20 else "step")
    run = graph.compile(checkpointer=saver)
    run.invoke({"big": "x" * 100_000, "count": 0}, {**thread("t"), "recursion_limit": 100})
    assert run.get_state(thread("t")).values == {"big": "x" * 100_000, "count": 20}
    stored = [key for key in state.keys("langgraph/values/") if "/big/" in key]
    assert len(stored) == 1


def test_what_was_written_or_read_is_read_once(
    saver: CrdtSaver, state: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    get_many = state.get_many

    def counted(keys: Any, **options: Any) -> Any:
        asked.extend(keys)
        return get_many(keys, **options)

    monkeypatch.setattr(state, "get_many", counted)
    values = {"text": "x", "list": [1], "large": os.urandom(5 * MIB), "nothing": None}
    put(saver, thread("t"), values)
    first = found(saver, thread("t")).checkpoint["channel_values"]
    assert first == values
    assert {key.split("/")[1] for key in asked} <= {"parts", "values"}
    assert not [key for key in asked if "/large/" not in key and "/parts/" not in key], "but for what is very long"
    first["list"].append(2)
    other = CrdtSaver(state)
    for _ in range(2):
        assert found(other, thread("t")).checkpoint["channel_values"] == values, "nobody's changes are seen"
    assert [sum(f"/{name}/" in key for key in asked) for name in ("text", "list", "nothing", "large")] == [1, 1, 1, 3]


def test_what_a_caller_does_to_a_checkpoint_no_other_one_sees(saver: CrdtSaver, state: Client) -> None:
    values = {"text": "x", "number": 7, "nothing": None}
    put(saver, thread("t"), values)
    for reader in (saver, CrdtSaver(state)):
        for _ in range(4):
            read = found(reader, thread("t")).checkpoint
            assert read["channel_values"] == values
            read["channel_values"]["text"] = "y"
            read["channel_versions"].clear()
    put(saver, thread("t"), {"text": "z"})
    assert found(saver, thread("t")).checkpoint["channel_values"] == {"text": "z"}


def test_a_listing_gives_each_checkpoint_its_own_channels(saver: CrdtSaver, state: Client) -> None:
    told: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"b": "y"}, {"b": "z", "c": ["changing"], "d": None}, {"d": 1}]
    config = thread("t")
    for step, values in enumerate(told):
        config = put(saver, config, values, step)
    for reader in (saver, CrdtSaver(state)):
        for _ in range(2):
            assert [each.checkpoint["channel_values"] for each in reader.list(thread("t"))] == told[::-1]


def test_delta_channels_survive_pruning(saver: CrdtSaver) -> None:
    class Fields(TypedDict):
        lines: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(x for each in new for x in each)])]

    graph = StateGraph(Fields)
    graph.add_node("step", lambda state: {"lines": [str(len(state["lines"]))]})
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: END if len(state["lines"]) >= 12 else "step")
    run = graph.compile(checkpointer=saver)
    run.invoke({"lines": ["begin"]}, thread("t"))
    lines = ["begin", *map(str, range(1, 12))]
    assert run.get_state(thread("t")).values["lines"] == lines
    saver.copy_thread("t", "other")
    saver.prune(["t"])
    for name in ("t", "other"):
        assert run.get_state(thread(name)).values["lines"] == lines


def test_delta_channels_of_two_that_update_one_checkpoint_at_once(state: Client) -> None:
    """LangGraph gives both updates one task id: what the second one has written is stored nowhere else."""

    class Fields(TypedDict):
        lines: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(x for each in new for x in each)])]

    class Late(CrdtSaver):
        def put_writes(self, *arguments: Any) -> None:
            if not is_over:  # somebody else is quicker
                is_over.append(True)
                ends.append(quick.update_state(thread("t"), {"lines": ["quick"]}, as_node="step"))
            super().put_writes(*arguments)

    def graph(saver: CrdtSaver) -> Any:
        builder = StateGraph(Fields)
        builder.add_node("step", lambda state: {})
        builder.add_edge(START, "step")
        return builder.compile(checkpointer=saver)

    is_over, ends = [True], []
    quick, late = graph(CrdtSaver(state)), graph(Late(state))
    late.update_state(thread("t"), {"lines": ["begun"]}, as_node="step")
    is_over.clear()
    ends.append(late.update_state(thread("t"), {"lines": ["late"]}, as_node="step"))
    ends.append(late.update_state(ends[1], {"lines": ["later"]}, as_node="step"))
    for reader in (graph(CrdtSaver(state)), late, quick):
        shown = [reader.get_state(end).values["lines"] for end in ends]
        assert shown == [["begun", "quick"], ["begun", "late"], ["begun", "late", "later"]]


@pytest.mark.parametrize("lines", [[], ["late"]], ids=["nothing", "a line"])
def test_an_update_takes_in_nothing_that_somebody_else_writes_meanwhile(lines: list[str], state: Client) -> None:
    """As a merge of two branches that hold the same writes nothing, nor does an update with None."""

    class Fields(TypedDict):
        lines: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(x for each in new for x in each)])]

    class Late(CrdtSaver):
        def get_tuple(self, config: Any) -> Any:
            if not config["configurable"].get("checkpoint_id"):  # LangGraph looks whether there is a newer one
                quick.put_writes(begun, [("lines", ["quick"])], str(uuid4()))
            return super().get_tuple(config)

        def put(self, config: Any, *arguments: Any) -> Any:
            quick.put_writes(begun, [("lines", ["quicker"])], str(uuid4()))
            return super().put(config, *arguments)

    def graph(saver: CrdtSaver) -> Any:
        builder = StateGraph(Fields)
        builder.add_node("step", lambda state: {})
        builder.add_edge(START, "step")
        return builder.compile(checkpointer=saver)

    quick = CrdtSaver(state)
    begun = graph(quick).update_state(thread("t"), {"lines": ["begun"]}, as_node="step")
    late = graph(Late(state))
    end = late.update_state(begun, {"lines": lines} if lines else None, as_node="step")
    for reader in (graph(quick), late):
        assert reader.get_state(end).values["lines"] == ["begun", *lines]


@pytest.mark.parametrize("how", ["invoke", "update_state"])
def test_delta_channels_of_two_that_one_saver_serves_at_once(state: Client, how: str) -> None:
    """Both go on from one checkpoint, and have written, and read what is there, before either makes the next one."""

    class Fields(TypedDict):
        lines: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(x for each in new for x in each)])]

    class Together(CrdtSaver):
        def put(self, config: Any, *arguments: Any) -> Any:
            if config["configurable"].get("checkpoint_id") == begun["configurable"]["checkpoint_id"]:
                both.wait()
                self.get_tuple(begun)
            return super().put(config, *arguments)

    def step(_: Fields) -> list[Command[Any]]:
        both.wait()
        return [Command(update={"lines": [name]}) for name in names.pop()]

    def go_on() -> list[str]:
        if how == "invoke":
            return list(run.invoke(None, thread("t"))["lines"])
        end = run.update_state(thread("t"), {"lines": names.pop()}, as_node="step")
        return list(run.get_state(end).values["lines"])

    def graph(saver: CrdtSaver) -> Any:
        builder = StateGraph(Fields)
        builder.add_node("step", step)
        builder.add_edge(START, "step")
        return builder.compile(checkpointer=saver, interrupt_before=["step"])

    both, begun, names = Barrier(2, timeout=60), thread("t", checkpoint_id=""), [["one"], ["two", "and more"]]
    saver = Together(state)
    run = graph(saver)
    run.invoke({"lines": ["begun"]}, thread("t"))
    begun = run.get_state(thread("t")).config
    with ThreadPoolExecutor() as pool:
        told = sorted(each.result() for each in [pool.submit(go_on) for _ in range(2)])
    assert told == [["begun", "one"], ["begun", "two", "and more"]]
    for reader in (run, graph(CrdtSaver(state))):
        assert sorted(reader.get_state(end).values["lines"] for end in saver.branches(thread("t"))) == told


def test_delta_channels_of_an_update_whose_configuration_is_copied(state: Client) -> None:
    """As a saver around another one may do: so the checkpoint cannot tell which writes are its own."""

    class Fields(TypedDict):
        lines: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(x for each in new for x in each)])]

    class Copies(CrdtSaver):
        def put(self, config: Any, *arguments: Any) -> Any:
            return super().put({"configurable": {**config["configurable"]}}, *arguments)

    builder = StateGraph(Fields)
    builder.add_node("step", lambda state: {})
    builder.add_edge(START, "step")
    run = builder.compile(checkpointer=Copies(state))
    for line in ("begun", "more"):
        run.update_state(thread("t"), {"lines": [line]}, as_node="step")
    assert run.get_state(thread("t")).values["lines"] == ["begun", "more"]


def test_no_update_is_held_for_one_before_it(saver: CrdtSaver) -> None:
    """Whose configuration is gone, so that the next one may be made in the same place."""
    before = thread("t", checkpoint_id="1")
    saver.put_writes(before, [("lines", 1)], "task")
    del before
    later = [thread("t", checkpoint_id="1") for _ in range(100)]
    assert all(saver._layout.written.of(("t", "", "1"), run_of(each), {"lines"}) is None for each in later)


def test_no_run_is_held_for_one_before_it() -> None:
    """Whose runtime is gone, so that the next one may be made in the same place."""
    runs = {run_of({"configurable": {"__pregel_runtime": Runtime(control=RunControl())}}) for _ in range(100)}
    assert len(runs) == 100


@pytest.mark.parametrize("word", ["get_tuple", "get_delta_channel_history"])
def test_a_read_that_is_cancelled_waits_for_nothing(word: str, saver: CrdtSaver, monkeypatch: Any) -> None:
    is_begun, may_end = Event(), Event()

    def wait(*_: Any, **__: Any) -> None:
        is_begun.set()
        may_end.wait(60)

    async def cancelled() -> None:
        options = {} if word == "get_tuple" else {"channels": ["lines"]}
        read = asyncio.create_task(getattr(saver, f"a{word}")(config=thread("t"), **options))
        await asyncio.to_thread(is_begun.wait, 60)
        read.cancel()
        await asyncio.wait([read], timeout=5)
        is_over = read.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await read
        assert is_over

    monkeypatch.setattr(saver, word, wait)
    asyncio.run(cancelled())


def test_pruning_by_age_never_takes_the_newest_whole_one(saver: CrdtSaver, state: Client) -> None:
    for name in ("one", "two"):
        config = thread(name)
        for step in range(3):
            config = put(saver, config, {"a": step, "b": name}, step=step)
    (newest,) = state.keys("langgraph/checkpoints/two/", reverse=True, limit=1)
    state.set(newest, "tampered with")

    class Duration(timedelta):
        """As other libraries have one."""

    saver.prune(None, older_than=Duration(hours=1))
    assert len(list(saver.list(None))) == 5, "none is so old"
    saver.prune(["nobody", "one"], older_than=timedelta(0))
    assert [each.checkpoint["channel_values"] for each in saver.list(thread("one"))] == [{"a": 2, "b": "one"}]
    saver.prune(None, older_than=timedelta(0))
    left = [found(saver, thread(name)).checkpoint["channel_values"] for name in ("one", "two")]
    assert left == [{"a": 2, "b": "one"}, {"a": 1, "b": "two"}]
    assert len(state.keys("langgraph/checkpoints/")) == 3, "what cannot be read may be whole to somebody else"
    put(saver, thread("two"), {"a": 3}, step=3)
    saver.prune(None)
    assert len(state.keys("langgraph/checkpoints/")) == 2
    assert len(state.keys("langgraph/values/")) == 3
    with pytest.raises(ValueError, match="older_than"):
        saver.prune(["one"], strategy="delete", older_than=timedelta(0))
    for age in (30, timedelta(days=-30)):
        with pytest.raises(ValueError, match="give a timedelta"):
            saver.prune(None, older_than=age)  # type: ignore[arg-type]


def test_pruning_removes_what_tasks_have_written_after_a_checkpoint_that_is_gone(
    saver: CrdtSaver, state: Client
) -> None:
    first = put(saver, thread("t"), {"a": 1})
    saver.put_writes(first, [("a", 2)], "task")
    put(saver, first, {"a": 2}, step=1)
    state.delete(state.keys("langgraph/checkpoints/t/", limit=1)[0])
    saver.prune(["t"], older_than=timedelta(hours=1))
    assert len(state.keys("langgraph/checkpoints/")) == 2, "none is so old"
    saver.prune(["t"])
    assert len(state.keys("langgraph/checkpoints/")) == 1


def test_delta_channels_survive_pruning_by_age(saver: CrdtSaver) -> None:
    class Fields(TypedDict):
        lines: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(x for each in new for x in each)])]

    graph = StateGraph(Fields)
    graph.add_node("step", lambda state: {"lines": [str(len(state["lines"]))]})
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: END if len(state["lines"]) >= 6 else "step")
    run = graph.compile(checkpointer=saver)
    run.invoke({"lines": ["begin"]}, thread("t"))
    saver.prune(None, older_than=timedelta(0))
    assert run.get_state(thread("t")).values["lines"] == ["begin", *map(str, range(1, 6))]


def test_time_travel_and_forks(saver: CrdtSaver) -> None:
    class Fields(TypedDict):
        path: Annotated[list[str], operator.add]

    graph = StateGraph(Fields)
    graph.add_node("a", lambda state: {"path": ["a"]})
    graph.add_node("b", lambda state: {"path": ["b"]})
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    run = graph.compile(checkpointer=saver)
    run.invoke({"path": []}, thread("t"))
    history = [*run.get_state_history(thread("t"))]
    assert [each.values.get("path") for each in history] == [["a", "b"], ["a"], [], []]
    forked = run.update_state(history[1].config, {"path": ["edited"]})
    assert run.invoke(None, forked)["path"] == ["a", "edited", "b"]
    assert run.get_state(history[0].config).values["path"] == ["a", "b"]


def greater(one: int, other: int) -> int:
    return max(one, other)


class Board(TypedDict):
    findings: Annotated[list[str], operator.add]
    messages: Annotated[list[Any], add_messages]
    tokens: Annotated[int, operator.add]
    most: Annotated[int, greater]
    seen: Annotated[set[str], operator.or_]
    by: Annotated[dict[str, int], operator.or_]
    odd: Annotated[float, operator.sub]
    goal: str
    owner: str


BEGUN: dict[str, Any] = {
    "findings": ["begun"], "messages": [HumanMessage("hello", id="0")], "tokens": 5, "most": 3, "seen": {"a"},
    "by": {"ann": 1}, "odd": 2.0, "goal": "ship", "owner": "ann",
}  # fmt: skip


def board(saver: Any) -> Any:
    graph = StateGraph(Board)
    graph.add_node("work", lambda state: {})
    graph.add_edge(START, "work")
    return graph.compile(checkpointer=saver)


def test_a_merged_branch_adds_what_it_has_and_the_other_has_not(saver: CrdtSaver) -> None:
    run = board(saver)
    common = run.update_state(thread("t"), BEGUN, as_node="work")
    branch = run.update_state(common, {
        "findings": ["one", "begun"], "messages": [HumanMessage("from one", id="1"), HumanMessage("hello!", id="0")],
        "tokens": 2, "most": 9, "seen": {"one"}, "by": {"one": 1}, "goal": "ship one", "owner": "one",
    })  # fmt: skip
    newest = run.update_state(common, {
        "findings": ["two"], "messages": [HumanMessage("from two", id="2")], "tokens": 10, "most": 4, "seen": {"two"},
        "by": {"ann": 2}, "owner": "two",
    })  # fmt: skip
    assert [each["configurable"]["checkpoint_id"] for each in saver.branches(thread("t"))] == [
        each["configurable"]["checkpoint_id"] for each in (newest, branch)
    ]
    merged = saver.merge_branch(run, branch)
    values = run.get_state(thread("t")).values
    assert values == {
        "findings": ["begun", "two", "one", "begun"],
        "messages": [HumanMessage(text, id=name) for text, name in
                     (("hello!", "0"), ("from two", "2"), ("from one", "1"))],
        "tokens": 17, "most": 9, "seen": {"a", "one", "two"}, "by": {"ann": 2, "one": 1}, "odd": -2.0,
        "goal": "ship one", "owner": "two",
    }  # fmt: skip
    assert saver.branches(thread("t")) == [merged]
    assert saver.merge_branch(run, branch) == merged, "it is merged once"
    later = run.update_state(branch, {"findings": ["later"], "tokens": 1})
    assert saver.merge_branch(run, later)["configurable"] == later["configurable"], "it is the newest itself"
    saver.merge_branch(run, merged)
    both = run.get_state(thread("t")).values
    assert (sorted(both["findings"]), both["tokens"]) == (sorted([*values["findings"], "later"]), 18)


def test_what_two_merges_have_both_taken_in_is_added_once(saver: CrdtSaver) -> None:
    """One host has merged a and b, and the other one a, b and c: neither a nor b alone is all that both have."""
    run = board(saver)
    common = run.update_state(thread("t"), BEGUN, as_node="work")
    a, b, c = ({"findings": [name], "tokens": number} for name, number in (("a", 10), ("b", 100), ("c", 1000)))
    heads = [run.update_state(common, each) for each in (a, b, c)]

    def taken_in(target: Any, head: Any, update: Any) -> Any:
        merged = {"merged_checkpoint_id": head["configurable"]["checkpoint_id"]}
        return run.update_state({**target, "metadata": merged}, update)

    taken_in(heads[1], heads[0], a)
    taken_in(taken_in(heads[2], heads[0], a), heads[1], b)
    for branch in saver.branches(thread("t"))[1:]:
        saver.merge_branch(run, branch)
    values = run.get_state(thread("t")).values
    assert (sorted(values["findings"]), values["tokens"]) == (["a", "b", "begun", "c"], 1115)
    assert len(saver.branches(thread("t"))) == 1


def test_a_branch_goes_on_from_a_merge_of_a_host_whose_clock_is_ahead(saver: CrdtSaver) -> None:
    run = board(saver)
    common = run.update_state(thread("t"), BEGUN, as_node="work")
    branch = run.update_state(common, {"findings": ["one"]})
    run.update_state(common, {"findings": ["two"]})
    merged = saver.merge_branch(run, branch)
    before = found(saver, merged).checkpoint
    late = {**before, "id": common["configurable"]["checkpoint_id"][:-1] + "!"}  # before all but the first
    later = saver.put(merged, late, {"source": "loop"}, {})
    assert [each["configurable"] for each in saver.branches(thread("t"))] == [later["configurable"]]
    saver.put(later, {**late, "id": later["configurable"]["checkpoint_id"]}, {"source": "loop"}, {})
    assert saver.branches(thread("t")) == [merged], "nobody goes on from itself, but an agent may write that"


def test_a_merge_that_would_be_a_guess_is_refused(saver: CrdtSaver) -> None:
    run = board(saver)
    common = run.update_state(thread("t"), BEGUN, as_node="work")
    branch = run.update_state(common, {"odd": 3.0})
    run.update_state(common, {"findings": ["two"]})
    with pytest.raises(ValueError, match="has added to odd"):
        saver.merge_branch(run, branch)
    assert len(saver.branches(thread("t"))) == 2
    saver.merge_branch(run, branch, {"odd": 3.0})
    assert run.get_state(thread("t")).values["odd"] == -5.0
    saver.delete_thread("t")
    first = run.update_state(thread("t"), BEGUN, as_node="work")
    branch = run.update_state(first, {"findings": ["one"]})
    run.update_state(first, {"findings": ["two"]})
    saver._remove("t", "", {first["configurable"]["checkpoint_id"]})
    with pytest.raises(ValueError, match="pruned"):
        saver.merge_branch(run, branch)


def test_the_asyncio_saver_merges_branches_too(state: Client) -> None:
    async def run() -> Any:
        async with AsyncCrdtSaver(SOCKET) as saver:
            graph = board(saver)
            common = await graph.aupdate_state(thread("t"), {"findings": ["begun"]}, as_node="work")
            for name in ("one", "two"):
                await graph.aupdate_state(common, {"findings": [name]})
            branch = (await saver.abranches(thread("t")))[1]
            await saver.amerge_branch(graph, branch)
            return (await graph.aget_state(thread("t"))).values["findings"]

    assert asyncio.run(run()) == ["begun", "two", "one"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_thread_as_it_was_then(is_async: bool, saver: CrdtSaver, state: Client) -> None:
    """Also one that was pruned or removed since."""
    run = board(saver)
    for name in ("one", "two", "three"):
        run.update_state(thread("t"), {"findings": [name]}, as_node="work")
        state.checkpoint(f"after-{name}-{int(is_async)}", prefix="langgraph/")
    then = state.now()
    saver.prune(["t"])
    saver.put_writes(run.get_state(thread("t")).config, [("findings", ["four"])], "task")
    pruned = state.now()
    saver.delete_thread("t")
    assert saver.get_tuple(thread("t")) is None
    wanted = [["one", "two", "three"], ["one", "two"], ["one"]]

    async def histories() -> list[list[list[str]]]:
        async with AsyncCrdtSaver(SOCKET) as other:
            pasts = [board(other.at(point)) for point in (f"checkpoint:after-two-{int(is_async)}", then, pruned)]
            return [[each.values["findings"] async for each in past.aget_state_history(thread("t"))] for past in pasts]

    if is_async:
        found_ = asyncio.run(histories())
    else:
        pasts = [board(CrdtSaver(state).at(point)) for point in (f"checkpoint:after-two-{int(is_async)}", then, pruned)]
        found_ = [[each.values["findings"] for each in past.get_state_history(thread("t"))] for past in pasts]
    assert found_ == [wanted[1:], wanted, wanted[:1]]
    past = saver.at(then)
    assert board(past).get_state(found(past, thread("t")).parent_config).values["findings"] == ["one", "two"]
    with pytest.raises(InvalidRequest):
        board(past).update_state(thread("t"), {"findings": ["late"]}, as_node="work")


SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_rule_is_applied_to_all_texts_before_they_are_written(is_async: bool, state: Client) -> None:
    class Fields(TypedDict):
        messages: Annotated[list[Any], add_messages]
        deep: dict[str, Any]
        own: Finding
        bytes: Any

    def ask(fields: Fields) -> dict[str, Any]:
        answer = interrupt({"shall": f"we use {SECRET}?"})
        return {"messages": [AIMessage(f"{answer}: {SECRET}", tool_calls=[])]}

    graph = StateGraph(Fields)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    begin: Any = {
        "messages": [HumanMessage(f"it is {SECRET}", id="1")], "deep": {"a": [1, {"token": SECRET}]},
        "own": Finding(SECRET), "bytes": np.arange(3),
    }  # fmt: skip
    config = {**thread("t"), "metadata": {"note": SECRET}}
    redact = Redactor().text
    serde = JsonPlusSerializer(allowed_msgpack_modules=[Finding])

    async def run() -> Any:
        async with AsyncCrdtSaver(SOCKET, serde=serde, redact=redact) as saver:
            run = graph.compile(checkpointer=saver)
            await run.ainvoke(begin, config)
            asked = (await run.aget_state(thread("t"))).tasks[0].interrupts[0].value
            return asked, await run.ainvoke(Command(resume=f"yes {SECRET}"), config)

    if is_async:
        asked, told = asyncio.run(run())
    else:
        run_ = graph.compile(checkpointer=CrdtSaver(state, serde=serde, redact=redact))
        run_.invoke(begin, config)
        asked = run_.get_state(thread("t")).tasks[0].interrupts[0].value
        told = run_.invoke(Command(resume=f"yes {SECRET}"), config)
    stored = dict(state.items("langgraph/"))
    texts = [zlib.decompress(each["data"]) if each.get("zlib") else each["data"] for each in stored.values()]
    assert len(texts) > 10
    assert [key for key, text in zip(stored, texts, strict=True) if SECRET.encode() in text] == []
    mark = "[redacted:github-token:1]"
    assert asked == {"shall": f"we use {mark}?"}
    assert told["messages"][0] == HumanMessage(f"it is {mark}", id="1")
    assert (told["deep"], told["own"]) == ({"a": [1, {"token": mark}]}, Finding(mark))
    assert told["bytes"].tolist() == [0, 1, 2]


def test_a_rule_is_applied_to_bytes_that_are_a_text(saver: CrdtSaver, state: Client) -> None:
    binary = b"\xff" + SECRET.encode()
    values = {"alone": SECRET.encode(), "array": bytearray(SECRET.encode()), "in": [f"it is {SECRET}".encode(), binary]}
    put(CrdtSaver(state, redact=Redactor().text), thread("t"), values)
    mark = b"[redacted:github-token:1]"
    told = {"alone": mark, "array": bytearray(mark), "in": [b"it is " + mark, binary]}
    assert found(saver, thread("t")).checkpoint["channel_values"] == told


def test_a_rule_changes_nothing_but_texts(saver: CrdtSaver, state: Client) -> None:
    values = {
        "times": [datetime(2026, 1, 1, tzinfo=UTC), timedelta(1)], "set": {1, 2}, "numbers": {1: 2.5, None: True},
        "bytes": b"\xff", "nothing": None, "uuid": uuid4(), "message": HumanMessage("x", id="1"), "text": "x",
    }  # fmt: skip
    asked: list[str] = []

    def as_it_is(text: str) -> str:
        asked.append(text)
        return text

    put(CrdtSaver(state, redact=as_it_is), thread("t"), values)
    assert found(saver, thread("t")).checkpoint["channel_values"] == values
    assert "text" not in asked, "the names of channels stay"
    assert "langchain_core.messages.human" not in asked


def test_what_a_rule_cannot_look_into_is_not_written(state: Client) -> None:
    saver = CrdtSaver(state, serde=JsonPlusSerializer(pickle_fallback=True), redact=str.lower)
    with pytest.raises(ValueError, match="a rule cannot look into what is encoded as 'pickle'"):
        put(saver, thread("t"), {"odd": operator.itemgetter(1)})
    assert state.keys("langgraph/") == []


def test_checkpoints_of_another_checkpointer_are_brought_over(saver: CrdtSaver, state: Client) -> None:
    class Fields(TypedDict):
        path: Annotated[list[str], operator.add]
        big: str

    def ask(fields: Fields) -> dict[str, list[str]]:
        return {"path": [interrupt("go on?")]}

    graph = StateGraph(Fields)
    graph.add_node("a", lambda fields: {"path": ["a"]})
    graph.add_node("ask", ask)
    graph.add_edge(START, "a")
    graph.add_edge("a", "ask")
    with SqliteSaver.from_conn_string(":memory:") as source:
        for name in ("one", "two"):
            graph.compile(checkpointer=source).invoke({"path": [], "big": "x" * 10_000}, thread(name))
        wanted = [each._replace(pending_writes=sorted(each.pending_writes or [])) for each in source.list(None)]
        assert [*bring_over(source, state, dry_run=True)] == [True] * len(wanted)
        assert state.keys("langgraph/") == []
        half = bring_over(source, state)
        assert [next(half) for _ in range(3)] == [True] * 3
        half.close()  # the source is locked while it is listed
        assert Counter(bring_over(source, state)) == {False: 3, True: len(wanted) - 3}
        assert not any(bring_over(source, state))
    found = [each._replace(pending_writes=sorted(each.pending_writes or [])) for each in saver.list(None)]
    assert found == wanted
    assert len([key for key in state.keys("langgraph/values/one/") if "/big/" in key]) == 1
    run = graph.compile(checkpointer=saver)
    assert run.invoke(Command(resume="yes"), thread("one"))["path"] == ["a", "yes"]


def test_what_is_no_checkpoint_is_not_brought_over(
    saver: CrdtSaver, state: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with SqliteSaver.from_conn_string(":memory:") as source:
        names = ["whole", "empty", "of nothing", "unknown", "said by nobody", "x" * 2_000, "last"]
        configs = [put(source, thread(name), {"a": name}) for name in names]
        nothing = source.serde.dumps_typed({"a": 1})[1]
        for name, column, harm in (
            ("empty", "checkpoint", None), ("of nothing", "checkpoint", nothing), ("unknown", "type", "other"),
            ("said by nobody", "metadata", b"{"),
        ):  # fmt: skip
            source.conn.execute(f"UPDATE checkpoints SET {column} = ? WHERE thread_id = ?", (harm, name))
        brought = [*bring_over(source, state, configs=configs)]
    assert brought == [True, None, None, None, None, None, True]
    assert caplog.text.count("was left out") == 5
    for why in ("it cannot be decoded: Unknown", "it has no 'channel_versions'", "it cannot be read: Expecting"):
        assert f"was left out: {why}" in caplog.text
    assert "Error(" not in caplog.text
    assert max(map(len, caplog.messages)) < 400
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} == {"whole", "last"}


def test_a_list_goes_on_after_what_cannot_be_read(
    saver: CrdtSaver, state: Client, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["whole", "cut off", "bad value", "bad write", "last"]
    memory = InMemorySaver()
    with SqliteSaver.from_conn_string(":memory:") as source:
        for each in (source, memory):
            for name in names:
                each.put_writes(put(each, thread(name), {"a": name}), [("a", 1)], "task")
        source.conn.execute("UPDATE checkpoints SET checkpoint = X'82' WHERE thread_id = 'cut off'")
        source.conn.execute("UPDATE writes SET value = X'82' WHERE thread_id = 'bad write'")
        assert Counter(bring_over(source, state, dry_run=True)) == {None: 2, True: 3}
    checkpoints = memory.storage["cut off"][""]
    for name, (_, *rest) in checkpoints.items():
        checkpoints[name] = ("msgpack", b"\x82"), *rest
    for key in [key for key in memory.blobs if key[0] == "bad value"]:
        memory.blobs[key] = "msgpack", b"\x82"
    for key in [key for key in memory.writes if key[0] == "bad write"]:
        memory.writes[key] = {at: (*each[:2], ("msgpack", b"\x82"), each[3]) for at, each in memory.writes[key].items()}
    assert Counter(bring_over(memory, state)) == {None: 3, True: 2}
    assert caplog.text.count("was left out") == 5
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} == {"whole", "last"}


def test_a_saver_finds_all_that_its_serializer_can(saver: CrdtSaver, state: Client) -> None:
    class Reviving(JsonPlusSerializer):  # type: ignore[misc]  # not here where types are checked
        def revived(self, found: Any) -> Any:
            return found | {"a": "revived"}

    class Source(InMemorySaver):  # type: ignore[misc]
        def list(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            for found in super().list(*args, **kwargs):
                values = self.serde.revived(found.checkpoint["channel_values"])
                yield found._replace(checkpoint=found.checkpoint | {"channel_values": values})

    source = Source(serde=Reviving())
    put(source, thread("one"), {"a": "stored"})
    assert [*bring_over(source, state)] == [True]
    assert [each.checkpoint["channel_values"] for each in saver.list(None)] == [{"a": "revived"}]


def test_a_source_that_fails_is_no_bad_checkpoint(state: Client) -> None:
    with SqliteSaver.from_conn_string(":memory:") as source:
        configs = [put(source, thread(name), {"a": name}) for name in ("removed", "kept")]
        source.delete_thread("removed")
        assert [*bring_over(source, state, configs=configs, dry_run=True)] == [None, True]
        source.conn.set_progress_handler(lambda: 1, 1)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            next(bring_over(source, state, configs=configs))
        source.conn.set_progress_handler(None, 0)


def test_a_rule_is_applied_to_what_is_brought_over(saver: CrdtSaver, state: Client) -> None:
    with SqliteSaver.from_conn_string(":memory:") as source:
        put(source, thread("t"), {"own": Finding(f"it is {SECRET}"), "password": "hunter2Xy!9"})
        assert [*bring_over(source, state, redact=Redactor().text)] == [True]
    allowing = CrdtSaver(state, serde=JsonPlusSerializer(allowed_msgpack_modules=[Finding]))
    assert found(allowing, thread("t")).checkpoint["channel_values"] == {
        "own": Finding("it is [redacted:github-token:1]"), "password": "[redacted:secret:1]"
    }  # fmt: skip


def test_what_is_brought_over_calls_nothing_and_keeps_classes(saver: CrdtSaver, state: Client, tmp_path: Path) -> None:
    made = str(tmp_path / "made")
    with SqliteSaver.from_conn_string(":memory:") as source:
        put(source, thread("t"), {"own": Finding("x"), "evil": 1})
        plain = source.serde.dumps_typed({"own": Finding("x"), "evil": 1})[1]
        evil = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "mkdir", made))))
        (stored,) = source.conn.execute("SELECT checkpoint FROM checkpoints").fetchone()
        assert stored.count(plain) == 1
        changed = stored.replace(plain, plain[:-1] + evil)
        source.conn.execute("UPDATE checkpoints SET checkpoint = ?", (changed,))
        assert [*bring_over(source, state)] == [True]
    assert not Path(made).exists()
    allowing = CrdtSaver(state, serde=JsonPlusSerializer(allowed_msgpack_modules=[Finding]))
    assert found(allowing, thread("t")).checkpoint["channel_values"] == {"own": Finding("x"), "evil": made}
