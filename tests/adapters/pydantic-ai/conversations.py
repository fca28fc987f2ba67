"""The store of conversations, on one daemon whose socket is in SOCKET; run by tests/integration/test_pydantic_ai.py.

What Pydantic AI promises of all its stores is asked of its own one as well.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.usage import RunUsage

from crdtsync import Client
from crdtsync.adapters.pydantic_ai import CrdtConversationStore
from crdtsync.errors import TooLarge
from crdtsync.sessions.redaction.redactor import Redactor

pytestmark = pytest.mark.asyncio

SOCKET = os.environ["SOCKET"]


@pytest.fixture
def state() -> Iterator[Client]:
    with Client(SOCKET, agent="tester") as client:
        client.delete_prefix("pydantic-ai/")
        yield client


@pytest.fixture
def ours(state: Client) -> CrdtConversationStore:
    return CrdtConversationStore(state)


@pytest.fixture(params=["ours", "in memory"])
def store(request: pytest.FixtureRequest, ours: CrdtConversationStore) -> ConversationStore:
    return ours if request.param == "ours" else InMemoryConversationStore()


def asked(*texts: Any) -> list[ModelMessage]:
    return [ModelRequest(parts=[UserPromptPart(text)]) for text in texts]


def texts(messages: Sequence[Any]) -> list[Any]:
    return [part.content for message in messages for part in message.parts]


def conversation(name: str, *said: Any) -> Conversation:
    return Conversation(conversation_id=name, messages=asked(*said))


async def loaded(store: ConversationStore, name: str, **options: Any) -> Conversation:
    found = await store.load(name, **options)
    assert found is not None
    return found


async def test_runs_go_on_with_what_was_saved(store: ConversationStore) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(f"answer to {len(messages)}")])

    agent = Agent(FunctionModel(answer))
    assert await store.load("17") is None
    result: Any = None
    for turn in range(3):
        begun = await store.load("17") or Conversation(conversation_id="17")
        result = await agent.run(f"question {turn}", conversation=begun)
        assert len(await store.save(result)) == 2
    again = await loaded(store, "17")
    assert texts(again.messages) == [
        "question 0", "answer to 1", "question 1", "answer to 3", "question 2", "answer to 5",
    ]  # fmt: skip
    assert again.messages == result.all_messages()
    assert again.usage == result.conversation.usage
    assert again.usage.requests == 3
    assert texts((await loaded(store, "17", limit=2)).messages) == ["question 2", "answer to 5"]
    assert (await loaded(store, "17", limit=0)).messages == []
    entries = await store.load_entries("17")
    assert entries is not None
    assert [each.parent_id for each in entries] == [None, *[each.id for each in entries[:-1]]]
    assert await store.read_entry(entries[3].id) == entries[3]
    with pytest.raises(KeyError):
        await store.read_entry("none")


async def test_everything_comes_back(store: ConversationStore) -> None:
    call = ToolCallPart("pay", {"n": 1, "deep": [None, 2.5]}, tool_call_id="c1")
    waiting = DeferredToolRequests(approvals=[call], metadata={"c1": {"why": "dear"}})
    usage = RunUsage(input_tokens=3, details={"cached": 1}, tool_calls=2)
    paper = BinaryContent(b"\0\xff", media_type="application/pdf")
    said: list[ModelMessage] = [*asked(["look", paper]), ModelResponse(parts=[call], model_name="m")]
    whole = Conversation(conversation_id="a/b é?\n", messages=said, deferred_tool_requests=waiting, usage=usage)
    await store.save(whole, scope="ada")
    again = await loaded(store, "a/b é?\n", scope="ada")
    assert again == whole
    assert again.messages[0].parts[0].content[1] == paper


async def test_whoever_comes_second_is_refused(store: ConversationStore) -> None:
    await store.save(conversation("17", "first"))
    with pytest.raises(ConversationConflict):
        await store.save(conversation("17", "again"))
    one, two = await loaded(store, "17"), await loaded(store, "17")
    for each, text in ((one, "one"), (two, "two")):
        each.messages += asked(text)
    await store.save(one)
    with pytest.raises(ConversationConflict):
        await store.save(two)
    one.messages += asked("more")
    await store.save(one)
    assert texts((await loaded(store, "17")).messages) == ["first", "one", "more"]


async def test_a_rewritten_history_leaves_a_branch(store: ConversationStore) -> None:
    await store.save(conversation("17", "a", "b", "c"))
    first = await store.load_entries("17")
    changed = await loaded(store, "17")
    changed.messages[1:] = asked("B")
    assert len(await store.save(changed)) == 1
    (record,) = await store.list_conversations()
    assert first is not None
    assert record.branches == [first[-1].id]
    back = await store.branch("17", from_entry=first[1].id, expected_revision=changed.revision)
    assert texts(back.messages) == ["a", "b"]
    assert texts((await store.branch("17", at=1, expected_revision=back.revision)).messages) == ["a"]
    with pytest.raises(ConversationConflict):
        await store.branch("17", at=1, expected_revision=back.revision)


async def test_forks_share_what_was_before(store: ConversationStore) -> None:
    await store.save(conversation("17", "a", "b", "c"))
    await store.fork("17", new_conversation_id="20")
    await store.delete("20")
    assert texts((await loaded(store, "17")).messages) == ["a", "b", "c"]
    fork = await store.fork("17", at=2, new_conversation_id="18")
    fork.messages += asked("d")
    await store.save(fork)
    further = await store.fork("18", new_conversation_id="19")
    await store.delete("18")
    await store.delete("17")
    assert texts((await loaded(store, "19")).messages) == texts(further.messages) == ["a", "b", "d"]
    assert [await store.load(name) for name in ("17", "18")] == [None, None]
    assert [record.conversation_id for record in await store.list_conversations()] == ["19"]


async def test_scopes_keep_to_themselves(store: ConversationStore) -> None:
    for name, scope in (("1", "ada"), ("2", "bob"), ("3", "ada")):
        await store.save(conversation(name, name), scope=scope)
    assert await store.load("2", scope="ada") is None
    await store.delete("2", scope="ada")
    assert await store.load("2", scope="bob") is not None
    assert [each.conversation_id for each in await store.list_conversations()] == ["3", "2", "1"]
    assert [each.conversation_id for each in await store.list_conversations(scope="ada")] == ["3", "1"]
    assert [each.conversation_id for each in await store.list_conversations(scope="ada", limit=1)] == ["3"]
    with pytest.raises(ConversationConflict):
        await store.save(await loaded(store, "2"), scope="ada")


# -- what is ours ---------------------------------------------------------------------------------------------------


async def test_of_many_that_save_at_once_one_does(ours: CrdtConversationStore) -> None:
    await ours.save(conversation("17", "first"))
    for turn in range(4):
        read = await loaded(ours, "17")
        copies = [copy.deepcopy(read) for _ in range(4)]
        for number, each in enumerate(copies):
            each.messages += asked(f"{turn}.{number}")
        outcomes = await asyncio.gather(*map(ours.save, copies), return_exceptions=True)
        assert [type(each) for each in outcomes if not isinstance(each, list)] == [ConversationConflict] * 3
    assert len((await loaded(ours, "17")).messages) == 5


async def test_deleting_leaves_nothing_but_what_forks_share(ours: CrdtConversationStore, state: Client) -> None:
    await ours.save(conversation("17", *map(str, range(600))))
    await ours.save(conversation("other", "x"))
    await ours.fork("17", at=10, new_conversation_id="18")
    await ours.delete("17")
    assert len(state.keys("pydantic-ai/entry/")) == 11
    await ours.delete("18")
    await ours.delete("18")
    assert len(state.keys("pydantic-ai/entry/")) == 1


async def test_more_than_a_change_holds(ours: CrdtConversationStore, state: Client) -> None:
    large = [str(number) * 900_000 for number in range(6)]
    many = [*large, *map(str, range(1200))]
    await ours.save(conversation("17", *many))
    assert texts((await loaded(ours, "17")).messages) == many
    keys = len(state.keys("pydantic-ai/entry/"))
    with pytest.raises(TooLarge, match=r"for the conversation '18' takes 2,000,\d\d\d bytes; .* pass its URL$"):
        await ours.save(conversation("18", "small", "x" * 2_000_000))
    assert await ours.load("18") is None
    assert len(state.keys("pydantic-ai/entry/")) == keys


async def test_a_history_goes_on_where_its_beginning_was_deleted(ours: CrdtConversationStore, state: Client) -> None:
    """As it is when one host deletes a conversation and another one saves it at the same time."""
    await ours.save(conversation("17", "a", "b"))
    entries = await ours.load_entries("17")
    assert entries is not None
    state.delete(f"pydantic-ai/entry/{entries[0].id}")
    assert texts((await loaded(ours, "17")).messages) == ["b"]


async def test_entries_that_stand_in_a_circle_end(ours: CrdtConversationStore, state: Client) -> None:
    await ours.save(conversation("c", "one", "two"))
    record = await ours.read_record("c")
    assert record is not None
    (first,) = [key for key, entry in state.items("pydantic-ai/entry/") if entry["parent"] is None]
    state.set(first, {**state.get(first), "parent": record.head_id})
    assert texts((await loaded(ours, "c")).messages) == ["one", "two"]
    assert len(await ours.read_history(record.head_id, limit=5)) == 2


async def test_what_is_no_record_or_entry_is_left_out(
    ours: CrdtConversationStore, state: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await ours.save(conversation("17", "a", "b"))
    entries = await ours.load_entries("17")
    assert entries is not None
    state.set("pydantic-ai/record/text", "text")
    state.set("pydantic-ai/record/dict", {"n": 1})
    assert [each.conversation_id for each in await ours.list_conversations()] == ["17"]
    assert "an element of pydantic-ai/record/text cannot be read, and is left out" in caplog.text
    others: list[Any] = ["text", {"n": 1}, {"parent": None, "message": 1, "of": "17"}]
    for other in others:
        state.set(f"pydantic-ai/entry/{entries[0].id}", other)
        assert texts((await loaded(ours, "17")).messages) == ["b"]
    await ours.delete("17")
    assert await ours.load("17") is None


async def test_of_a_record_that_cannot_be_read_the_one_before_counts(
    ours: CrdtConversationStore, state: Client, caplog: pytest.LogCaptureFixture
) -> None:
    key = "pydantic-ai/record/17"
    await ours.save(conversation("17", "a", "b"))
    others: list[Any] = ["text", {"n": 1}, 7]
    for other in others:
        state.set(key, other)
        assert texts((await loaded(ours, "17")).messages) == ["a", "b"]
        assert [each.conversation_id for each in await ours.list_conversations()] == ["17"]
    assert f"{key} cannot be read, what it held before counts" in caplog.text
    read = await loaded(ours, "17")
    read.messages += asked("c")
    await ours.save(read)
    assert texts((await loaded(ours, "17")).messages) == ["a", "b", "c"]
    state.set(key, "text")
    await ours.delete("17")
    assert await ours.load("17") is None
    state.set(key, "text")
    with pytest.raises(UserError, match=f"{key} cannot be read, and held nothing before that can"):
        await ours.load("17")


async def test_a_sibling_that_cannot_be_read_is_no_branch(ours: CrdtConversationStore, state: Client) -> None:
    key = "pydantic-ai/record/17"
    await ours.save(conversation("17", "a"))
    read, before = await loaded(ours, "17"), state.entry(key)
    assert before is not None
    await ours.save(read)
    state.set(key, "text", seen=before.version)
    assert [len(entry.siblings) for entry in state.conflicts(key)] == [1]
    record = await ours.read_record("17")
    assert record is not None
    assert record.branches == []
    assert texts((await loaded(ours, "17")).messages) == ["a"]


SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


async def test_a_rule_is_applied_to_all_texts_before_they_are_written(state: Client) -> None:
    store = CrdtConversationStore(state, redact=Redactor().text)
    call = ToolCallPart("login", {"password": "hunter2Xy!9"}, tool_call_id="1")
    talk = conversation("c", f"it is {SECRET}", "two")
    talk.deferred_tool_requests = DeferredToolRequests(calls=[call])
    await store.save(talk)
    assert len(state.keys("pydantic-ai/")) == 3
    assert not any(word in str(state.items("pydantic-ai/")) for word in (SECRET, "hunter2"))
    found = await store.load("c")
    assert found is not None
    assert texts(found.messages) == ["it is [redacted:github-token:1]", "two"]
    assert found.deferred_tool_requests is not None
    assert found.deferred_tool_requests.calls[0].args == {"password": "[redacted:secret:1]"}
