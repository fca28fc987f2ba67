"""Sessions on one daemon whose socket is in SOCKET; run by tests/integration/test_openai_agents.py."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from agents.memory import Session

from crdtsync import Client
from crdtsync.adapters.openai_agents import AdvancedCrdtSession, CrdtSession
from crdtsync.errors import InvalidRequest, TooLarge
from crdtsync.sessions.redaction.redactor import Redactor

SOCKET = os.environ["SOCKET"]


@pytest.fixture
def session() -> Iterator[CrdtSession]:
    with Client(SOCKET, agent="tester") as state, CrdtSession("a/b é", state) as session:
        state.delete_prefix("openai-agents/")
        yield session


def message(text: str) -> Any:
    return {"role": "user", "content": text}


def contents(session: CrdtSession, limit: int | None = None) -> list[Any]:
    items: list[Any] = asyncio.run(session.get_items(limit))
    return [item["content"] for item in items]


def test_it_is_a_session(session: CrdtSession) -> None:
    assert isinstance(session, Session)


def test_more_than_a_change_holds(session: CrdtSession) -> None:
    """More items than an operation each has room for, and more bytes."""
    texts = [str(number) for number in range(1_200)] + [str(number) * 900_000 for number in range(6)]
    asyncio.run(session.add_items([message(text) for text in texts]))
    assert contents(session) == texts
    assert contents(session, 2) == texts[-2:]
    assert contents(session, 0) == []
    told = rf"a value for {session._key} takes 2,000,\d{{3}} bytes; one holds at most 1,048,576: keep .* pass its URL$"
    with pytest.raises(TooLarge, match=told):
        asyncio.run(session.add_items([message("x" * 2_000_000)]))
    assert len(contents(session)) == len(texts)


def test_what_is_no_list_of_items_is_refused(session: CrdtSession) -> None:
    wrong: list[Any] = ["abc", message("x"), [message("x"), "abc"]]
    for items in wrong:
        with pytest.raises(InvalidRequest, match="add_items takes a list of items"):
            asyncio.run(session.add_items(items))
    assert contents(session) == []
    for name, told in ((5, "give a text, such as '5'"), ("x" * 2_000, "give a shorter name")):
        with pytest.raises(InvalidRequest, match=told):
            CrdtSession(name, SOCKET)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [CrdtSession, AdvancedCrdtSession])
def test_what_is_changed_while_it_is_added_is_added_as_it_was(kind: type[CrdtSession]) -> None:
    async def add(session: CrdtSession) -> None:
        may_begin, item = Event(), message("before")
        with ThreadPoolExecutor(1) as pool:
            asyncio.get_running_loop().set_default_executor(pool)
            pool.submit(may_begin.wait, 60)
            adding = asyncio.create_task(session.add_items([item]))
            await asyncio.sleep(0)
            item["content"] = "after"
            may_begin.set()
            await adding

    with Client(SOCKET, agent="tester") as state, kind(f"changed {kind.__name__}", state) as session:
        asyncio.run(add(session))
        assert contents(session) == ["before"]


def test_nobody_pops_what_another_one_has(session: CrdtSession) -> None:
    texts = [str(number) for number in range(40)]
    asyncio.run(session.add_items([message(text) for text in texts]))
    with ThreadPoolExecutor(8) as pool:
        popped: list[Any] = [*pool.map(lambda _: asyncio.run(session.pop_item()), range(45))]
    got = [item["content"] for item in popped if item is not None]
    assert sorted(got, key=int) == texts
    assert contents(session) == []


def test_what_is_no_item_is_left_out(session: CrdtSession, caplog: pytest.LogCaptureFixture) -> None:
    """Another program has added it, and it stays there."""
    others = ["text", {"n": 1}, 7, None]
    with Client(SOCKET, agent="another") as state:
        asyncio.run(session.add_items([message("1"), message("2")]))
        (log,) = state.keys("openai-agents/")
        for other in others:
            state.append(log, other)
        assert contents(session) == ["1", "2"]
        assert contents(session, 1) == ["2"]
        assert f"an element of {log} cannot be read, and is left out" in caplog.text
        popped: list[Any] = [asyncio.run(session.pop_item()) for _ in range(3)]
        assert popped == [message("2"), message("1"), None]
        assert state.log(log) == others


SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.mark.parametrize("kind", [CrdtSession, AdvancedCrdtSession])
def test_a_rule_is_applied_to_all_texts_before_they_are_written(kind: type[CrdtSession]) -> None:
    call = {"type": "function_call", "call_id": "1", "name": "login", "arguments": '{"password": "hunter2Xy!9"}'}
    with Client(SOCKET, agent="tester") as state, kind("redacted", state, redact=Redactor().text) as session:
        asyncio.run(session.add_items([message(f"it is {SECRET}"), call]))
        if isinstance(session, AdvancedCrdtSession):
            asyncio.run(session.add_items([message("and?")]))
            asyncio.run(session.create_branch_from_turn(2))
            assert len(asyncio.run(session.get_items())) == 2
        found = asyncio.run(session.get_items())
        logs = [state.log(each.key) for each in state.entries("openai-agents/redacted") if each.kind == "log"]
    assert found[0] == message("it is [redacted:github-token:1]")
    assert found[1]["arguments"] == '{"password": "[redacted:secret:1]"}'
    assert len(logs) == 1 + (kind is AdvancedCrdtSession)
    assert SECRET not in str(logs)


def test_a_rule_is_applied_to_what_a_branch_takes_over() -> None:
    """From a host that has no rule."""
    with Client(SOCKET, agent="tester") as state:
        with AdvancedCrdtSession("unruled", state) as session:
            asyncio.run(session.add_items([message(f"it is {SECRET}"), message("and?")]))
        with AdvancedCrdtSession("unruled", state, redact=Redactor().text) as session:
            branch = asyncio.run(session.create_branch_from_turn(2))
            assert asyncio.run(session.get_items()) == [message("it is [redacted:github-token:1]")]
        assert SECRET not in str(state.log(f"openai-agents/unruled/branches/{branch}/items"))
