"""The stores beside InMemoryStore, on one daemon whose socket is in SOCKET; for tests/integration/test_langgraph.py."""

from __future__ import annotations

import asyncio
import operator
import os
import random
import time
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from crdtsync import Client
from crdtsync.adapters.langgraph import AsyncCrdtStore, CrdtStore
from crdtsync.errors import InvalidRequest, InvalidValue, TooLarge
from crdtsync.sessions.redaction.redactor import Redactor

SOCKET = os.environ["SOCKET"]
NAMESPACES = [("a",), ("a", "b"), ("a", "b", "c/d"), ("a", "x"), ("b", "b"), ("users", "é 1"), ("users", "2", "b")]
KEYS = ["k", "b", "x/y", "%2F", "@", "*"]
FILTERS: list[dict[str, Any]] = [
    {"n": 1}, {"n": {"$gt": 1}}, {"n": {"$gte": 1, "$lt": 3}}, {"n": {"$lte": 0}}, {"tag": {"$ne": "red"}},
    {"tag": "red", "n": {"$gt": 0}}, {"deep": {"list": [1, {"x": 2}]}}, {"deep": {"n": {"$gt": 1}}}, {"list": [1, 2]},
    {"digits": {"$lt": "2"}}, {"tag": {"$gt": "blue"}}, {"n": {"$gt": "many"}}, {"nobody's": {"$lte": 1}},
]  # fmt: skip


@pytest.fixture
def state() -> Iterator[Client]:
    with Client(SOCKET, agent="tester") as client:
        client.delete_prefix("langgraph/")
        yield client


@pytest.fixture
def store(state: Client) -> CrdtStore:
    return CrdtStore(state)


def value_of(rng: random.Random) -> dict[str, Any]:
    n = rng.randrange(4)
    return {
        "n": n, "digits": str(n), "tag": rng.choice(["red", "blue", "green"]), "list": [1, rng.randrange(3)],
        "deep": {"list": [1, {"x": rng.randrange(3)}], "n": n},
    }  # fmt: skip


def ops_of(rng: random.Random) -> list[Any]:
    """Gets, searches and puts, mixed, as one batch."""
    ops: list[Any] = []
    for _ in range(rng.randrange(1, 8)):
        namespace, key = rng.choice(NAMESPACES), rng.choice(KEYS)
        prefix = namespace[: rng.randrange(len(namespace) + 1)]
        kind = rng.randrange(5)
        if kind == 0:
            ops.append(GetOp(namespace, key))
        elif kind == 1:
            ops.append(SearchOp(prefix, rng.choice([None, *FILTERS]), limit=1000))
        else:
            ops.append(PutOp(namespace, key, None if rng.random() < 0.2 else value_of(rng)))
    return ops


def said(result: Any) -> Any:
    """What a result says, without times and order."""
    if isinstance(result, list):
        return sorted((said(each) for each in result), key=repr)
    return None if result is None else (type(result), result.namespace, result.key, result.value)


def outcome(batch: Any, ops: list[Any]) -> Any:
    """What operations lead to."""
    try:
        return [*map(said, batch(ops))]
    except (TypeError, ValueError) as error:
        return type(error)


def listed(store: BaseStore, rng: random.Random) -> list[Any]:
    """Namespaces, asked for in any way."""
    options: dict[str, Any] = {"limit": rng.choice([2, 100]), "offset": rng.choice([0, 1])}
    if rng.random() < 0.5:
        options["prefix"] = rng.choice([("a",), ("*", "b"), ("users",), ("nobody",)])
    if rng.random() < 0.5:
        options["suffix"] = rng.choice([("b",), ("*", "b"), ("*",)])
    if rng.random() < 0.5:
        options["max_depth"] = rng.choice([1, 2])
    return store.list_namespaces(**options)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_it_does_what_the_one_in_memory_does(seed: int, is_async: bool, state: Client) -> None:
    rng = random.Random(seed)
    memory = InMemoryStore()

    def same(ours: BaseStore, batch: Any) -> None:
        for _ in range(12):
            ops = ops_of(rng)
            assert outcome(batch, ops) == outcome(memory.batch, ops)
            for namespace in [each for each, items in memory._data.items() if not items]:
                del memory._data[namespace]  # there it lists namespaces in which nothing is
            chance = rng.random()
            assert listed(ours, random.Random(chance)) == listed(memory, random.Random(chance))

    if not is_async:
        with CrdtStore(SOCKET) as store:
            same(store, store.batch)
        return

    async def main() -> None:
        async with AsyncCrdtStore(SOCKET) as store:
            await asyncio.to_thread(same, store, store.batch)

    asyncio.run(main())


WORDS = ["cold", "cache", "red", "blue", "restart", "ship", "friday", "cello", "pizza"]


def counts(texts: list[str]) -> list[list[float]]:
    """What a text means, as far as anybody needs to know here: how often it has each letter."""
    return [[float(text.lower().count(letter)) for letter in "abcdefghiklnoprstz"] for text in texts]


async def later(texts: list[str]) -> list[list[float]]:
    return counts(texts)


def by_score(items: list[Any]) -> list[Any]:
    """What a search found, with those of one score in one order."""
    return sorted((-round(item.score, 5), item.namespace, item.key) for item in items if item.score is not None)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_it_finds_by_meaning_what_the_one_in_memory_does(seed: int, is_async: bool, state: Client) -> None:
    rng = random.Random(seed)
    fields = rng.choice([None, ["text"], ["text", "deep.notes[*]"]])
    index: Any = {"dims": 18, "embed": counts, **({} if fields is None else {"fields": fields})}
    memory = InMemoryStore(index=index)
    numbers = iter(range(10_000))  # the one in memory cannot put one text twice at once

    def put() -> PutOp:
        lines = [f"{' '.join(rng.choices(WORDS, k=4))} {next(numbers)}" for _ in range(3)]
        value = {"text": lines[0], "n": rng.randrange(3), "deep": {"notes": lines[1:]}}
        paths = rng.choice([None, None, None, False, ["deep.notes[*]"]])
        namespace, key = rng.choice(NAMESPACES), rng.choice(KEYS)
        memory._vectors[namespace].pop(key, None)  # there, vectors of paths that are gone are found
        return PutOp(namespace, key, value if rng.random() < 0.9 else None, paths)

    def same(ours: BaseStore, batch: Any) -> None:
        for _ in range(10):
            puts = {(op.namespace, op.key): op for op in (put() for _ in range(4))}
            batch([*puts.values()])
            memory.batch([*puts.values()])
            query, where = " ".join(rng.choices(WORDS, k=2)), rng.choice([None, {"n": 1}])
            for prefix, limit in ((("a",), 100), ((), 100), ((), 3)):
                op = SearchOp(prefix, where, limit, 0, query)
                (found,), (wanted,) = batch([op]), memory.batch([op])
                if limit == 100:
                    assert by_score(found) == by_score(wanted)
                    assert sorted(map(said, found), key=repr) == sorted(map(said, wanted), key=repr)
                else:
                    scores = [[item.score for item in each if item.score is not None] for each in (found, wanted)]
                    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
                assert [item.score is None for item in found] == sorted(item.score is None for item in found)

    if not is_async:
        with CrdtStore(SOCKET, index=index) as store:
            same(store, store.batch)
        return

    async def main() -> None:
        async with AsyncCrdtStore(SOCKET, index={**index, "embed": later}) as store:
            await asyncio.to_thread(same, store, store.batch)

    asyncio.run(main())


def test_vectors_that_nobody_can_compare_do_no_harm(state: Client) -> None:
    """Of another model, of a store without an index, or not those of a store at all."""
    store = CrdtStore(state, index={"dims": 18, "embed": counts, "fields": ["text"]})
    CrdtStore(state).put(("m",), "plain", {"text": "pizza"})
    short = CrdtStore(state, index={"dims": 2, "embed": lambda texts: [[1.0, 2.0] for _ in texts]})
    short.put(("m",), "short", {"text": "pizza"})
    for name in ("pizza", "pasta"):
        store.put(("m",), name, {"text": name})
    store.put(("m",), "empty", {"text": "???"})
    whole = state.get("langgraph/store/m/pizza")
    for number, vectors in enumerate(["x", [b"abc"], [3], {"a": b""}]):
        state.set(f"langgraph/store/m/junk{number}", {**whole, "vectors": vectors})
    state.set("langgraph/store/m/odd", {**whole, "vectors": [b"\xff" * 72]})  # 18 times what is no number
    found = [(item.key, item.score and round(item.score, 3)) for item in store.search(("m",), query="PIZZA")]
    assert found[0] == ("pizza", 1.0)
    assert found[1][0] == "pasta"
    assert found[2] == ("empty", 0.0)
    assert sorted(found[3:]) == [("odd", None), ("plain", None), ("short", None)]
    item = CrdtStore(state).get(("m",), "pizza")
    assert item is not None
    assert item.value == {"text": "pizza"}


def test_what_cannot_be_embedded_is_not_put(state: Client) -> None:
    def fails(texts: list[str]) -> list[list[float]]:
        raise OSError("no route to the model")

    store = CrdtStore(state, index={"dims": 2, "embed": fails})
    with pytest.raises(OSError, match="no route"):
        store.put(("m",), "k", {"text": "pizza"})
    assert state.keys("langgraph/") == []


def test_a_rule_is_applied_before_an_item_is_embedded_and_written(state: Client) -> None:
    embedded: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        embedded.extend(texts)
        return counts(texts)

    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    store = CrdtStore(state, index={"dims": 18, "embed": embed}, redact=Redactor().text)
    store.put(("m",), "k", {"text": f"it is {secret}", "deep": [{"password": "hunter2Xy!9", "n": 1}]})
    item = store.get(("m",), "k")
    assert item is not None
    mark = "[redacted:secret:1]"
    assert item.value == {"text": "it is [redacted:github-token:1]", "deep": [{"password": mark, "n": 1}]}
    assert all(secret not in text and "hunter2" not in text for text in [*embedded, str(state.items("langgraph/"))])


def test_bad_requests_are_refused_as_there(store: CrdtStore) -> None:
    for namespace in ((), ("a.b",), ("",), ("langgraph",)):
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "k", {})
    with pytest.raises(InvalidNamespaceError):
        store.batch([GetOp(("a.b",), "k")])
    store.put(("a",), "k", {"n": 1})
    with pytest.raises(ValueError, match=r"operator '\$in'"):
        store.search(("a",), filter={"n": {"$in": [1]}})
    bad: Any = [1]
    with pytest.raises(InvalidValue, match=r"the value of 'k' in \('b',\) is no dict but list"):
        store.put(("b",), "k", bad)
    with pytest.raises(TooLarge, match=r"for langgraph/.*/l takes 2,000,\d\d\d bytes; .* pass its URL$"):
        store.batch([PutOp(("b",), "k", {"text": "x"}), PutOp(("b",), "l", {"text": "x" * 2_000_000})])
    assert store.get(("b",), "k") is None


def test_what_no_setting_can_be_is_told(state: Client) -> None:
    def short(texts: list[str]) -> list[list[float]]:
        return [[1.0, 2.0] for _ in texts]

    store = CrdtStore(state)
    for minutes in (0, -1, "5", 1e12, float("inf"), float("nan")):
        with pytest.raises(InvalidRequest, match="give minutes, more than 0"):
            store.put(("a",), "k", {}, ttl=minutes)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"ttl": {"defaultttl": 1}}, "'defaultttl'.* knows .*'default_ttl'"),
        ({"index": {"dims": 4}}, "give it 'embed'"),
    ]  # fmt: skip
    for settings, told in wrong:
        with pytest.raises(InvalidRequest, match=told):
            CrdtStore(state, **settings)
    meaning = CrdtStore(state, index={"dims": 4, "embed": short})
    for call in (lambda: meaning.put(("a",), "k", {"text": "x"}), lambda: meaning.search(("a",), query="x")):
        with pytest.raises(InvalidRequest, match="dims 4, and its embed makes vectors of 2"):
            call()
    with pytest.raises(InvalidRequest, match="give a shorter name"):
        store.put(("x" * 2_000,), "k", {})
    assert state.keys("langgraph/") == []


def test_the_newest_come_first_page_by_page(store: CrdtStore) -> None:
    for number in range(12):
        store.put(("docs",), str(number), {"n": number})
    store.put(("docs",), "3", {"n": 3, "again": True})
    order = [item.key for item in store.search(("docs",), limit=100)]
    assert order == ["3", "11", "10", "9", "8", "7", "6", "5", "4", "2", "1", "0"]
    pages = [item.key for offset in (0, 5, 10) for item in store.search(("docs",), limit=5, offset=offset)]
    assert pages == order
    item = store.get(("docs",), "3")
    assert item is not None
    assert item.created_at < item.updated_at


def test_search_by_words(store: CrdtStore) -> None:
    store.put(("m",), "food", {"text": "Ada likes pizza with anchovies", "by": "kitchen"})
    store.put(("m",), "music", {"text": "Ada plays the cello", "by": "pizza place"}, index=["text"])
    store.put(("m",), "secret", {"text": "pizza pizza pizza"}, index=False)
    found = store.search(("m",), query="What pizza does she like?")
    assert [item.key for item in found] == ["food", "secret", "music"]
    assert [item.score for item in found] == [1.0, None, None]
    assert [item.key for item in store.search(("m",), query="Ada cello")] == ["music", "food", "secret"]


def test_items_that_no_store_has_written_are_left_out(store: CrdtStore, state: Client) -> None:
    store.put(("m",), "food", {"text": "pizza"})
    whole = state.get("langgraph/store/m/food")
    junk: list[dict[str, Any]] = [{"created": None}, {"created": "now"}, {"updated": 3}, {"index": [3]}, {"value": []}]
    for number, fields in enumerate(junk):
        state.set(f"langgraph/store/m/{number}", {**whole, **fields})
    state.set("langgraph/store/m/naive", {**whole, "updated": "2026-01-01T00:00:00"})
    for query in (None, "pizza"):
        assert [item.key for item in store.search(("m",), query=query)] == ["food", "naive"]
    assert store.get(("m",), "1") is None


def test_many_large_puts_are_more_than_one_change(store: CrdtStore) -> None:
    store.batch([PutOp(("big",), str(number), {"text": "x" * 900_000}) for number in range(6)])
    assert len(store.search(("big",))) == 6


def test_items_expire_unless_they_are_read(state: Client) -> None:
    minute = 60.0
    store = CrdtStore(state, ttl={"default_ttl": 4 / minute, "refresh_on_read": True})
    store.put(("t",), "read", {"n": 1})
    store.put(("t",), "found", {"n": 2})
    store.put(("t",), "left", {"n": 3})
    store.put(("t",), "kept", {"n": 4}, ttl=None)
    updated = store.search(("t",), filter={"n": 1}, refresh_ttl=False)[0].updated_at
    while store.get(("t",), "left", refresh_ttl=False) is not None:
        assert store.get(("t",), "read") is not None
        assert [item.key for item in store.search(("t",), filter={"n": 2})] == ["found"]
        time.sleep(0.2)  # the time that the store's user lets pass
    read = store.get(("t",), "read", refresh_ttl=False)
    assert read is not None
    assert read.updated_at == updated
    assert sorted(item.key for item in store.search(("t",))) == ["found", "kept", "read"]


def test_a_graph_remembers_over_threads(state: Client) -> None:
    class Fields(TypedDict):
        said: Annotated[list[str], operator.add]

    def node(state: Fields, *, store: BaseStore) -> dict[str, Any]:
        old = store.get(("users", "ada"), "visits")
        visits = 1 if old is None else old.value["n"] + 1
        store.put(("users", "ada"), "visits", {"n": visits})
        return {"said": [f"visit {visits}"]}

    builder = StateGraph(Fields)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    assert builder.compile(store=CrdtStore(state)).invoke({"said": []}) == {"said": ["visit 1"]}

    async def main() -> None:
        async with AsyncCrdtStore(SOCKET) as store:
            assert await builder.compile(store=store).ainvoke({"said": []}) == {"said": ["visit 2"]}
            with pytest.raises(InvalidRequest, match="await aget"):
                store.get(("users", "ada"), "visits")
        with CrdtStore(state) as store:
            assert await builder.compile(store=store).ainvoke({"said": []}) == {"said": ["visit 3"]}

    asyncio.run(main())
