"""What agents on two hosts write at once through adapters, for tests/integration/test_adapters_killed.py.

``adapter_writers.py KIND,… write WHO`` writes one thing after the other, each through all of these, and prints its
number when it is acknowledged. ``adapter_writers.py KIND,… show SOCKET…`` prints what each daemon has of them by kind,
a line of JSON for each. ``explain`` in the place of ``show`` prints where each checkpoint of LangGraph comes from.
"""

from __future__ import annotations

import asyncio
import json
import operator
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

Write = Callable[[str, str], Awaitable[None]]
Show = Callable[[], Awaitable[list[str]]]
ADA: Any = {"app_name": "chat", "user_id": "ada"}


def openai_session(socket: str | None) -> tuple[Write, Show]:
    from crdtsync.adapters.openai_agents import CrdtSession

    session = CrdtSession("plain", socket)

    async def write(name: str, text: str) -> None:
        await session.add_items([{"role": "user", "content": text}])

    async def show() -> list[str]:
        items: list[Any] = await session.get_items()
        return [item["content"] for item in items]

    return write, show


def openai_branches(socket: str | None) -> tuple[Write, Show]:
    """Each thing is a message of the branch main, a branch before it, a message there, and what that has used."""
    from agents.usage import Usage

    from crdtsync.adapters.openai_agents import AdvancedCrdtSession

    session = AdvancedCrdtSession("s", socket)

    async def write(name: str, text: str) -> None:
        await session.add_items([{"role": "user", "content": text}])
        (turn,) = await session.find_turns_by_content(text)
        await session.create_branch_from_turn(turn["turn"], name)
        await session.add_items([{"role": "user", "content": f"in {name}"}])
        used: Any = SimpleNamespace(context_wrapper=SimpleNamespace(usage=Usage(requests=1, total_tokens=17)))
        await session.store_run_usage(used)
        assert await session.get_session_usage(name), "a failure is told in the log alone"
        await session.switch_to_branch("main")

    async def show() -> list[str]:
        found = []
        items: list[Any] = await session.get_items()
        for text in (item["content"] for item in items):
            name = text.removesuffix(".").replace(" ", "-")
            branch: list[Any] = await session.get_items(branch_id=name)
            used = await session.get_session_usage(name)
            if branch and branch[-1]["content"] == f"in {name}" and used and used["total_tokens"] == 17:
                found.append(text)
        return found

    return write, show


def google_adk(socket: str | None) -> tuple[Write, Show]:
    """Each thing is an event of one session, a memory, and an artifact."""
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.events import Event
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai.types import Content, Part

    from crdtsync.adapters.google_adk import CrdtArtifactService, CrdtMemoryService, CrdtSessionService

    sessions, memory, files = CrdtSessionService(socket), CrdtMemoryService(socket), CrdtArtifactService(socket)

    async def append(text: str) -> None:
        session = await sessions.get_session(**ADA, session_id="s")
        if session is None:
            try:
                session = await sessions.create_session(**ADA, session_id="s")
            except AlreadyExistsError:
                return await append(text)
        try:
            await sessions.append_event(session, Event(author="user", content=Content(parts=[Part(text=text)])))
        except StaleSessionError:
            await append(text)

    async def write(name: str, text: str) -> None:
        await append(text)
        await memory.add_memory(**ADA, memories=[MemoryEntry(id=name, content=Content(parts=[Part(text=text)]))])
        await files.save_artifact(**ADA, session_id="s", filename=name, artifact=Part(text=text))

    async def show() -> list[str]:
        session = await sessions.get_session(**ADA, session_id="s")
        assert session is not None
        found = []
        held = {entry.value for entry in memory._client.entries("google-adk/memory/")}
        for text in (event.content.parts[0].text for event in session.events):
            name = text.removesuffix(".").replace(" ", "-")
            part = await files.load_artifact(**ADA, session_id="s", filename=name)
            if part is not None and part.text == text and text in held:
                found.append(text)
        return found

    return write, show


def crewai(socket: str | None) -> tuple[Write, Show]:
    """Each thing is the next state of the writer's flow, and a record of the memory."""
    from crewai.memory.types import MemoryRecord

    from crdtsync.adapters.crewai import CrdtFlowPersistence, CrdtMemoryStorage

    flows, memory = CrdtFlowPersistence(socket), CrdtMemoryStorage(socket)

    async def write(name: str, text: str) -> None:
        who, number = name.rsplit("-", 1)
        memory.save([MemoryRecord(id=name, content=text, embedding=[1.0, float(number)])])
        flows.save_state(who, "step", {"number": int(number)})

    async def show() -> list[str]:
        found = []
        for record in memory.list_records(limit=100_000):
            who, number = record.id.rsplit("-", 1)
            if (state := flows.load_state(who)) is not None and state["number"] >= int(number):
                found.append(record.content)
        return found

    return write, show


def agent_framework(socket: str | None) -> tuple[Write, Show]:
    """Each thing is a message of one session, and a checkpoint of one workflow."""
    from agent_framework import Message, WorkflowCheckpoint

    from crdtsync.adapters.agent_framework import CrdtCheckpointStorage, CrdtHistoryProvider

    history, checkpoints = CrdtHistoryProvider(socket), CrdtCheckpointStorage(socket)

    async def write(name: str, text: str) -> None:
        await history.save_messages("s", [Message("user", [text])])
        await checkpoints.save(
            WorkflowCheckpoint(workflow_name="w", graph_signature_hash="x", checkpoint_id=name, state={"text": text})
        )

    async def show() -> list[str]:
        stored = {each.state["text"] for each in await checkpoints.list_checkpoints(workflow_name="w")}
        return [each.text for each in await history.get_messages("s") if each.text in stored]

    return write, show


def llama_index(socket: str | None) -> tuple[Write, Show]:
    """Each thing is a message of one conversation, and a value."""
    from llama_index.core.base.llms.types import ChatMessage

    from crdtsync.adapters.llama_index import CrdtKVStore, CrdtMemoryStore

    memory, values = CrdtMemoryStore(socket), CrdtKVStore(socket)

    async def write(name: str, text: str) -> None:
        await memory.add_message("s", ChatMessage(role="user", content=text))
        await values.aput(name, {"text": text})

    async def show() -> list[str]:
        stored = {value["text"] for value in (await values.aget_all()).values()}
        return [str(each.content) for each in await memory.get_messages("s") if each.content in stored]

    return write, show


def pydantic_ai(socket: str | None) -> tuple[Write, Show]:
    """Each thing is a message of one conversation, in whichever of its branches."""
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.conversation_store import ConversationConflict
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    from crdtsync.adapters.pydantic_ai import CrdtConversationStore

    store = CrdtConversationStore(socket)

    async def write(name: str, text: str) -> None:
        talk = await store.load("s") or Conversation(conversation_id="s")
        talk.messages.append(ModelRequest(parts=[UserPromptPart(text)]))
        try:
            await store.save(talk)
        except ConversationConflict:
            await write(name, text)

    async def show() -> list[str]:
        record = await store.read_record("s")
        assert record is not None
        entries: dict[str, Any] = {}
        for tip in (record.head_id, *record.branches):
            entries |= {entry.id: entry.message for entry in await store.read_history(tip)}
        return [part.content for message in entries.values() for part in message.parts]

    return write, show


def autogen(socket: str | None) -> tuple[Write, Show]:
    """Each thing is what somebody asks the writer's team."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.teams import RoundRobinGroupChat
    from autogen_ext.models.replay import ReplayChatCompletionClient

    from crdtsync import Client

    state = Client(socket)

    async def write(name: str, text: str) -> None:
        key = f"autogen/{name.rsplit('-', 1)[0]}"
        helper = AssistantAgent("helper", ReplayChatCompletionClient(["so be it"]))
        team = RoundRobinGroupChat([helper], max_turns=1)
        if saved := state.get(key):
            await team.load_state(saved)
        await team.run(task=text)
        state.set(key, await team.save_state())

    async def show() -> list[str]:
        found = []
        for _, saved in state.items("autogen/"):
            said = saved["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
            found += [message["content"] for message in said if message["source"] == "user"]
        return found

    return write, show


def langgraph_saver(socket: str | None) -> tuple[Write, Show]:
    return _steps(socket, "plain", operator.add)


def langgraph_delta(socket: str | None) -> tuple[Write, Show]:
    """The same with a channel of which a checkpoint stores what was added alone."""
    from langgraph.channels import DeltaChannel

    return _steps(socket, "delta", DeltaChannel(lambda old, new: [*old, *(step for each in new for step in each)]))


def _steps(socket: str | None, name: str, reducer: object) -> tuple[Write, Show]:
    """Each thing is a step of one thread, whose branches are merged after each."""
    from langgraph.graph import START, StateGraph

    from crdtsync.adapters.langgraph import CrdtSaver

    saver = CrdtSaver(socket)
    steps = {"steps": Annotated[list[str], reducer]}
    builder = StateGraph(TypedDict("Steps", steps))  # type: ignore[operator]  # mypy knows none that is made while it runs
    builder.add_node("work", lambda state: {})
    builder.add_edge(START, "work")
    graph = builder.compile(checkpointer=saver)
    thread: Any = {"configurable": {"thread_id": name}}

    async def write(name: str, text: str) -> None:
        graph.update_state(thread, {"steps": [text]}, as_node="work")
        merge()

    def merge() -> None:
        for branch in saver.branches(thread)[1:]:
            saver.merge_branch(graph, branch)

    async def show() -> list[str]:
        merge()
        return list(graph.get_state(thread).values["steps"])

    return write, show


def langgraph_checkpoints(socket: str) -> list[Any]:
    """All of each thread, newest first: names, versions, what each took in, and what was written after it."""
    from crdtsync.adapters.langgraph import CrdtSaver

    return [
        [each.config, each.parent_config, each.metadata, each.checkpoint["channel_versions"], each.took,
         each.checkpoint["channel_values"], each.pending_writes]
        for each in CrdtSaver(socket).list(None)
    ]  # fmt: skip


def langgraph_store(socket: str | None) -> tuple[Write, Show]:
    from crdtsync.adapters.langgraph import CrdtStore

    store = CrdtStore(socket, index={"dims": 1, "embed": lambda texts: [[1.0] for _ in texts]})

    async def write(name: str, text: str) -> None:
        store.put(("things",), name, {"text": text})

    async def show() -> list[str]:
        return [item.value["text"] for item in store.search((), query="x", limit=100_000) if item.score == 1.0]

    return write, show


async def main(kinds: str, word: str, *rest: str) -> None:
    makers = {kind: globals()[kind] for kind in kinds.split(",")}
    if word == "explain":
        for socket in rest if "langgraph_delta" in makers else ():
            print(socket, *langgraph_checkpoints(socket), sep="\n")
        return
    if word == "show":
        for socket in rest:
            print(json.dumps({kind: await make(socket)[1]() for kind, make in makers.items()}))
        return
    writes = [make(None)[0] for make in makers.values()]
    number = 0
    while True:
        for write in writes:
            await write(f"{rest[0]}-{number}", f"{rest[0]} {number}.")
        print(number, flush=True)
        number += 1


asyncio.run(main(*sys.argv[1:]))
