"""LlamaIndex's stores, on one daemon whose socket is in SOCKET; run by tests/integration/test_llama_index.py.

What LlamaIndex's own stores do is asked of those as well.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest
from llama_index.core import Document, StorageContext
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.index_store.keyval_index_store import KVIndexStore
from llama_index.core.storage.kvstore import SimpleKVStore

from crdtsync import Client
from crdtsync.adapters.llama_index import CrdtChatStore, CrdtKVStore, CrdtMemoryStore
from crdtsync.errors import InvalidRequest, InvalidValue, TooLarge
from crdtsync.sessions.redaction.redactor import Redactor

SOCKET = os.environ["SOCKET"]
ARCHIVED, ACTIVE = MessageStatus.ARCHIVED, MessageStatus.ACTIVE


@pytest.fixture
def state() -> Iterator[Client]:
    with Client(SOCKET, agent="tester") as client:
        client.delete_prefix("llama-index/")
        yield client


def said(*texts: str) -> list[ChatMessage]:
    return [ChatMessage(role="user", content=text) for text in texts]


def texts(messages: Any) -> list[Any]:
    return [message.content for message in messages]


# -- values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_values_as_in_the_simple_store(state: Client, is_async: bool) -> None:
    rng, ours, theirs = random.Random(1), CrdtKVStore(state), SimpleKVStore()

    def called(store: Any, name: str, *args: Any) -> Any:
        return asyncio.run(getattr(store, "a" + name)(*args)) if is_async else getattr(store, name)(*args)

    for step in range(150):
        key, collection = rng.choice(["a", "b/c", "é ?", ""]), rng.choice(["data", "x/y"])
        value = {"n": step, "deep": [None, 1.5, {"": True}]}
        does = rng.choice(["put", "put", "get", "delete", "get_all", "put_all"])
        if does == "put":
            args: tuple[Any, ...] = (key, value, collection)
        elif does == "put_all":
            args = ([(key, value), ("z", value)], collection)
        else:
            args = (collection,) if does == "get_all" else (key, collection)
        assert called(ours, does, *args) == called(theirs, does, *args)


def test_more_values_than_a_change_holds(state: Client) -> None:
    store = CrdtKVStore(state)
    pairs: list[Any] = [
        *[(f"large{n}", {"text": "x" * 900_000}) for n in range(6)],
        *[(str(n), {"n": n}) for n in range(1200)],
    ]
    store.put_all(pairs)
    assert store.get_all() == dict(pairs)
    with pytest.raises(TooLarge):
        store.put("k", {"text": "x" * 2_000_000})


@pytest.mark.parametrize(
    "value, why",
    [
        ([1, 2], "the value of 'k/é' is no dict but list"), (None, "'k/é' is no dict but NoneType"),
        ({"s": {1}}, "the value of 'k/é' cannot be stored: Object of type set"),
        ({"s": [object()]}, "'k/é' cannot be stored: Object of type object"),
        ({"n": float("nan")}, "'k/é' cannot be stored: Out of range float"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_dict_of_json_is_refused_by_its_key(state: Client, value: Any, why: str) -> None:
    store = CrdtKVStore(state)
    store.put("k/é", {"n": 1})
    for put in (store.put, lambda key, bad: store.put_all([("other", {}), (key, bad)])):
        with pytest.raises(InvalidValue, match=why):
            put("k/é", value)
    assert store.get_all() == {"k/é": {"n": 1}}


def test_documents_and_indexes_stand_on_it(state: Client) -> None:
    def storage() -> StorageContext:
        values = CrdtKVStore(state)
        return StorageContext.from_defaults(docstore=KVDocumentStore(values), index_store=KVIndexStore(values))

    first, second = storage(), storage()
    first.docstore.add_documents([Document(text=f"page {n}", id_=str(n)) for n in range(300)])
    assert len(second.docstore.docs) == 300
    assert second.docstore.get_document("7").get_content() == "page 7"
    second.docstore.delete_document("7")
    assert first.docstore.get_document("7", raise_error=False) is None
    assert second.docstore.get_document_hash("8") == first.docstore.get_document("8").hash


# -- messages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [CrdtChatStore, SimpleChatStore])
def test_messages_of_the_older_memories(state: Client, made: Callable[..., Any]) -> None:
    store: Any = made(state) if made is CrdtChatStore else made()
    assert store.get_messages("a") == []
    for message in said("1", "2", "3"):
        store.add_message("a", message)
    store.set_messages("b/é", said("4", "5"))
    assert texts(store.get_messages("a")) == ["1", "2", "3"]
    assert sorted(store.get_keys()) == ["a", "b/é"]
    assert store.delete_message("a", 1).content == "2"
    assert store.delete_message("a", 9) is None
    assert store.delete_last_message("a").content == "3"
    asyncio.run(store.aset_messages("a", said("6")))
    asyncio.run(store.async_add_message("a", said("7")[0]))
    assert texts(asyncio.run(store.aget_messages("a"))) == ["6", "7"]
    assert texts(store.delete_messages("a")) == ["6", "7"]
    assert store.delete_messages("none") is None
    assert store.delete_last_message("none") is None
    buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="b/é")
    buffer.put(said("8")[0])
    assert texts(buffer.get()) == ["4", "5", "8"]


@pytest.mark.parametrize("made", [CrdtMemoryStore, SQLAlchemyChatStore])
def test_messages_of_memory(state: Client, made: Callable[..., Any]) -> None:
    async def main() -> None:
        store = made(state) if made is CrdtMemoryStore else made(table_name="m")
        await store.add_message("a", said("1")[0])
        await store.add_messages("a", said("2", "3", "4", "5"))
        await store.add_message("b", said("other")[0])
        assert texts(await store.archive_oldest_messages("a", 2)) == ["1", "2"]
        assert texts(await store.get_messages("a")) == ["3", "4", "5"]
        assert texts(await store.get_messages("a", ARCHIVED)) == ["1", "2"]
        assert texts(await store.get_messages("a", None)) == ["1", "2", "3", "4", "5"]
        assert texts(await store.get_messages("a", limit=1, offset=1)) == ["4"]
        assert [await store.count_messages("a", status) for status in (ACTIVE, ARCHIVED, None)] == [3, 2, 5]
        assert texts(await store.delete_oldest_messages("a", 1)) == ["3"]
        assert await store.delete_oldest_messages("none", 1) == []
        assert texts(await store.get_messages("a", None)) == ["1", "2", "4", "5"]
        await store.delete_messages("a", ARCHIVED)
        assert texts(await store.get_messages("a", None)) == ["4", "5"]
        await store.set_messages("a", said("6", "7"))
        assert texts(await store.get_messages("a", None)) == ["6", "7"]
        assert sorted(await store.get_keys()) == ["a", "b"]
        await store.delete_messages("a")
        assert await store.get_keys() == ["b"]

    asyncio.run(main())


def test_memory_archives_what_is_too_much(state: Client) -> None:
    memory = Memory.from_defaults(
        session_id="17", chat_store=CrdtMemoryStore(state), token_limit=100, token_flush_size=20
    )
    for number in range(20):
        memory.put(ChatMessage(role="user", content=f"question {number} of many words that count"))
        memory.put(ChatMessage(role="assistant", content=f"answer {number}"))
    shown = texts(memory.get())
    assert 2 <= len(shown) < 40
    assert shown[-1] == "answer 19"
    everything = texts(memory.get_all())
    assert len(everything) == 40
    assert everything[-2:] == ["question 19 of many words that count", "answer 19"]


def test_messages_come_back_whole(state: Client) -> None:
    whole = ChatMessage(
        role="assistant", blocks=[TextBlock(text="look"), ImageBlock(image=b"\x89PNG", image_mimetype="image/png")],
        additional_kwargs={"tool_calls": [{"id": "1", "n": [1, 2.5, None]}]},
    )  # fmt: skip
    store = CrdtChatStore(state)
    store.add_message("a", whole)
    assert store.get_messages("a") == [whole]


def test_more_messages_than_a_change_holds(state: Client) -> None:
    store, many = CrdtChatStore(state), [*[str(n) * 900_000 for n in range(6)], *map(str, range(1200))]
    store.set_messages("a", said("before"))
    store.set_messages("a", said(*many))
    assert texts(store.get_messages("a")) == many
    with pytest.raises(TooLarge, match=r"for llama-index/chat/a takes 2,000,\d\d\d bytes; .* pass its URL$"):
        store.add_message("a", said("x" * 2_000_000)[0])
    store.set_messages("a", [])
    assert store.get_messages("a") == []


def test_one_message_that_is_too_large_changes_nothing(state: Client) -> None:
    store = CrdtChatStore(state)
    store.set_messages("a", said("one", "two"))
    with pytest.raises(TooLarge):
        store.set_messages("a", said("small", "x" * 2_000_000))
    assert texts(store.get_messages("a")) == ["one", "two"]
    values = CrdtKVStore(state)
    with pytest.raises(TooLarge):
        values.put_all([("small", {"text": "x"}), ("large", {"text": "x" * 2_000_000})])
    assert values.get_all() == {}


def test_a_read_that_is_cancelled_waits_for_nothing(state: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    is_begun, may_end = Event(), Event()

    def wait(*_: Any) -> None:
        is_begun.set()
        may_end.wait(60)

    async def cancelled() -> None:
        read = asyncio.create_task(store.aget("a"))
        await asyncio.to_thread(is_begun.wait, 60)
        read.cancel()
        await asyncio.wait([read], timeout=20)
        is_over = read.done()
        may_end.set()
        assert is_over

    store = CrdtKVStore(state)
    monkeypatch.setattr(store, "get", wait)
    asyncio.run(cancelled())


def test_a_message_that_two_archive_is_shown_once(state: Client) -> None:
    """As it is when both are cut off from each other."""
    store = CrdtMemoryStore(state)
    asyncio.run(store.add_messages("a", said("1", "2")))
    (item, _) = state.log_items("llama-index/chat/a")
    asyncio.run(store.archive_oldest_messages("a", 1))
    state.append("llama-index/archived/a", {"dot": item.dot, "message": item.value})
    assert texts(asyncio.run(store.get_messages("a", None))) == ["1", "2"]


def test_what_is_no_message_is_left_out(state: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Another program has added it; it stays there, and no place is counted from it."""
    store, older = CrdtMemoryStore(state), CrdtChatStore(state)
    log, archived = "llama-index/chat/a", "llama-index/archived/a"
    older.set_messages("a", said("1", "2"))
    others = ["text", {"n": 1}, {"role": "nobody"}, 7, None]
    for other in others:
        state.append(log, other)
        state.append(archived, other)
    state.append(archived, {"dot": [1], "message": {"role": "nobody"}})
    asyncio.run(store.add_messages("a", said("3", "4", "5")))
    assert (
        texts(asyncio.run(store.get_messages("a", None))) == texts(older.get_messages("a")) == ["1", "2", "3", "4", "5"]
    )
    assert f"an element of {log} cannot be read, and is left out" in caplog.text
    assert texts([older.delete_message("a", 2), older.delete_last_message("a")]) == ["3", "5"]
    assert [older.delete_message("a", place) for place in (3, -4)] == [None, None]
    assert texts(asyncio.run(store.archive_oldest_messages("a", 3))) == ["1", "2", "4"]
    assert state.log(log) == others
    assert texts(asyncio.run(store.get_messages("a", None))) == ["1", "2", "4"]


def test_of_a_value_that_cannot_be_read_the_one_before_counts(state: Client, caplog: pytest.LogCaptureFixture) -> None:
    store = CrdtKVStore(state)
    store.put_all([("a", {"n": 1}), ("b", {"n": 2})])
    for other in ("text", [1], 7):
        state.set("llama-index/data/data/a", other)
        assert store.get("a") == {"n": 1}
    assert "llama-index/data/data/a cannot be read, what it held before counts" in caplog.text
    assert store.get_all() == {"b": {"n": 2}}
    state.set("llama-index/data/data/c", "text")
    with pytest.raises(ValueError, match="held nothing before that can"):
        store.get("c")


SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
MARK = "[redacted:github-token:1]"


def test_a_rule_is_applied_to_all_texts_before_they_are_written(state: Client) -> None:
    redact = Redactor().text
    memory, chat = CrdtMemoryStore(state, redact=redact), CrdtChatStore(state, redact=redact)
    values = CrdtKVStore(state, redact=redact)
    asyncio.run(memory.add_messages("a", said(f"one {SECRET}", "two")))
    asyncio.run(memory.archive_oldest_messages("a", 1))
    asyncio.run(memory.add_messages("a", said(f"old {SECRET}"), ARCHIVED))
    chat.set_messages("b", said(f"three {SECRET}"))
    values.put("k", {"deep": [{"token": SECRET}], "password": "hunter2Xy!9"})
    found = [state.get(key) if "/data/" in key else state.log(key) for key in state.keys("llama-index/")]
    assert len(found) == 4
    assert SECRET not in str(found)
    assert texts(asyncio.run(memory.get_messages("a", None))) == [f"one {MARK}", f"old {MARK}", "two"]
    assert texts(chat.get_messages("b")) == [f"three {MARK}"]
    assert values.get("k") == {"deep": [{"token": MARK}], "password": "[redacted:secret:1]"}


def test_a_rule_that_forgets_to_return_a_text_writes_nothing(state: Client) -> None:
    def forgets(_: str) -> Any:
        return None

    with pytest.raises(InvalidRequest, match="the rule redact returned None for a text"):
        CrdtChatStore(state, redact=forgets).add_message("a", said("one")[0])
    with pytest.raises(InvalidRequest, match="the rule redact returned None for a text"):
        CrdtKVStore(state, redact=forgets).put("k", {"text": "one"})
    assert state.keys("llama-index/") == []
