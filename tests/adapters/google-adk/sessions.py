"""The session service, on one daemon whose socket is in SOCKET; run by tests/integration/test_google_adk.py.

What ADK promises of all its session services is asked of two of its own as well.
"""

from __future__ import annotations

import asyncio
import copy
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from crdtsync import Client
from crdtsync.adapters.google_adk import CrdtSessionService
from crdtsync.errors import TooLarge
from crdtsync.sessions.redaction.redactor import Redactor

pytestmark = pytest.mark.asyncio

SOCKET = os.environ["SOCKET"]
ADA: dict[str, Any] = {"app_name": "chat", "user_id": "ada"}


@pytest.fixture
def ours() -> Iterator[CrdtSessionService]:
    with Client(SOCKET, agent="tester") as state, CrdtSessionService(state) as service:
        state.delete_prefix("google-adk/")
        yield service


@pytest.fixture(params=["ours", "in memory", "SQLite"])
def service(request: pytest.FixtureRequest, ours: CrdtSessionService, tmp_path: Path) -> BaseSessionService:
    if request.param == "ours":
        return ours
    return InMemorySessionService() if request.param == "in memory" else SqliteSessionService(str(tmp_path / "db"))


def event(text: str = "", at: float | None = None, **delta: Any) -> Event:
    """One of a user, which changes states: ``app_x`` that of the app, and so on."""
    changes = {name.replace("_", ":"): value for name, value in delta.items()}
    said = {} if at is None else {"timestamp": at}
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", invocation_id=text, content=content, actions=EventActions(state_delta=changes), **said)


def texts(session: Any) -> list[str]:
    return [each.content.parts[0].text for each in session.events]


async def test_a_session_is_what_was_made_and_then_gone(service: BaseSessionService) -> None:
    assert await service.get_session(**ADA, session_id="none") is None
    made = await service.create_session(**ADA, state={"mood": "good"})
    assert (made.app_name, made.user_id, made.state, made.events) == ("chat", "ada", {"mood": "good"}, [])
    assert abs(datetime.now(UTC).timestamp() - made.last_update_time) < 3600
    assert await service.get_session(**ADA, session_id=made.id) == made
    await service.delete_session(**ADA, session_id=made.id)
    await service.delete_session(**ADA, session_id=made.id)
    assert await service.get_session(**ADA, session_id=made.id) is None
    assert (await service.list_sessions(**ADA)).sessions == []


async def test_an_id_is_taken_once_for_each_user(service: BaseSessionService) -> None:
    first = await service.create_session(**ADA, session_id=" 17 ")
    assert first.id == "17"
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**ADA, session_id="17")
    await service.append_event(first, event("hello"))
    other = await service.create_session(app_name="chat", user_id="bob", session_id="17")
    assert other.events == []
    assert texts(await service.get_session(**ADA, session_id=" 17")) == ["hello"]
    await service.delete_session(**ADA, session_id="17 ")
    assert await service.get_session(**ADA, session_id="17") is None
    assert (await service.create_session(**ADA, session_id="17")).events == []


async def test_states_have_their_scopes(service: BaseSessionService) -> None:
    session = await service.create_session(**ADA, state={"app:a": 1, "user:u": 1, "s": 1, "temp:t": 1})
    assert session.state == {"app:a": 1, "user:u": 1, "s": 1}
    await service.append_event(session, added := event("x", app_a=2, user_v=2, s=None, temp_t=2))
    assert session.state == {"app:a": 2, "user:u": 1, "user:v": 2, "s": None, "temp:t": 2}
    assert added.actions.state_delta == {"app:a": 2, "user:v": 2, "s": None}
    again = await service.get_session(**ADA, session_id=session.id)
    assert again is not None
    assert again.state == {"app:a": 2, "user:u": 1, "user:v": 2, "s": None}
    assert again.events[0].actions.state_delta == added.actions.state_delta
    assert (await service.create_session(**ADA)).state == {"app:a": 2, "user:u": 1, "user:v": 2}
    assert (await service.create_session(app_name="chat", user_id="bob")).state == {"app:a": 2}
    assert (await service.create_session(app_name="other", user_id="ada")).state == {}
    assert await service.get_user_state(**ADA) == {"u": 1, "v": 2}
    assert await service.get_user_state(app_name="other", user_id="ada") == {}


async def test_sessions_are_listed_by_their_last_event(service: BaseSessionService) -> None:
    made = {name: await service.create_session(**ADA, session_id=name, state={"name": name}) for name in "cab"}
    other = await service.create_session(app_name="chat", user_id="bob", session_id="d", state={"user:u": 1})
    for at, session in enumerate([made["b"], other, made["c"], made["a"]]):
        await service.append_event(session, event("later", at=4e9 + at))
    mine = (await service.list_sessions(**ADA)).sessions
    assert [(session.id, session.state, session.events) for session in mine] == [
        (name, {"name": name}, []) for name in "bca"
    ]
    everybodys = (await service.list_sessions(app_name="chat")).sessions
    assert [(session.user_id, session.id) for session in everybodys] == [
        ("ada", "b"), ("bob", "d"), ("ada", "c"), ("ada", "a"),
    ]  # fmt: skip
    assert everybodys[1].state == {"user:u": 1}
    assert (await service.list_sessions(app_name="none")).sessions == []


async def test_events_come_back_whole(service: BaseSessionService) -> None:
    session = await service.create_session(**ADA)
    whole = Event(
        author="helper",
        invocation_id="1",
        content=types.Content(role="model", parts=[types.Part.from_bytes(data=b"\0\xff", mime_type="image/png")]),
        actions=EventActions(artifact_delta={"file": 0}, transfer_to_agent="other", escalate=True),
        long_running_tool_ids={"tool"},
        turn_complete=True,
        partial=False,
        interrupted=True,
        error_code="code",
        error_message="message",
        custom_metadata={"n": {"deep": [1, 2.5, None]}},
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1),
        grounding_metadata=types.GroundingMetadata(search_entry_point=types.SearchEntryPoint(sdk_blob=b"\1")),
        timestamp=1700000000.123,
    )
    await service.append_event(session, whole)
    await service.append_event(session, Event(author="helper", partial=True))
    assert session.last_update_time == 1700000000.123
    assert await service.get_session(**ADA, session_id=session.id) == session
    assert session.events == [whole]


async def test_a_part_of_the_events(service: BaseSessionService) -> None:
    session = await service.create_session(**ADA)
    for number in range(1, 6):
        await service.append_event(session, event(str(number), at=number))

    async def some(last: int | None = None, after: float | None = None) -> list[str]:
        config = GetSessionConfig(num_recent_events=last, after_timestamp=after)
        return texts(await service.get_session(**ADA, session_id=session.id, config=config))

    assert [await some(), await some(last=0), await some(last=3)] == [list("12345"), [], list("345")]
    assert [await some(after=4.0), await some(after=99.0), await some(3, 4.0)] == [list("45"), [], list("45")]


async def test_what_is_not_there_takes_no_event(service: BaseSessionService) -> None:
    session = await service.create_session(**ADA)
    await service.delete_session(**ADA, session_id=session.id)
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, event("x"))


# -- what is ours ---------------------------------------------------------------------------------------------------


async def test_a_stale_session_is_refused(ours: CrdtSessionService) -> None:
    session = await ours.create_session(**ADA)
    for turn in range(4):
        read = await ours.get_session(**ADA, session_id=session.id)
        both = [copy.deepcopy(read), copy.deepcopy(read)]
        added = [ours.append_event(each, event(f"{turn}", s=turn)) for each in both if each is not None]
        outcomes = await asyncio.gather(*added, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == [StaleSessionError]
    assert texts(await ours.get_session(**ADA, session_id=session.id)) == ["0", "1", "2", "3"]


async def test_agents_that_share_a_session_take_turns(ours: CrdtSessionService) -> None:
    session = await ours.create_session(**ADA)
    await asyncio.gather(*[ours.append_event(session, event(str(number))) for number in range(20)])
    assert await ours.get_session(**ADA, session_id=session.id) == session
    assert sorted(map(int, texts(session))) == list(range(20))


async def test_a_session_that_was_sent_around(ours: CrdtSessionService) -> None:
    session = await ours.create_session(**ADA)
    await ours.append_event(session, event("1"))
    sent = type(session).model_validate_json(session.model_dump_json())
    old = type(session).model_validate_json(session.model_dump_json())
    await ours.append_event(sent, event("2"))
    with pytest.raises(StaleSessionError):
        await ours.append_event(old, event("3"))
    assert texts(await ours.get_session(**ADA, session_id=session.id)) == ["1", "2"]


async def test_any_names_and_values(ours: CrdtSessionService) -> None:
    names: dict[str, Any] = {"app_name": "a/b %2F", "user_id": "é?*\n"}
    state = {"": 1, "a/b\n": {"deep": [1, None]}, "app:": 2, "user:x y": "z", "when": datetime(2030, 1, 1, tzinfo=UTC)}
    session = await ours.create_session(**names, session_id="//", state=state)
    assert session.state == {**state, "when": "2030-01-01T00:00:00Z"}
    await ours.append_event(session, event("x", call=len))
    (listed,) = (await ours.list_sessions(app_name="a/b %2F")).sessions
    assert (listed.user_id, listed.id, listed.state["call"]) == ("é?*\n", "//", str(len))
    with pytest.raises(TooLarge, match=r"for google-adk/events/.* takes 4,000,\d\d\d bytes; .* pass its URL$"):
        await ours.append_event(session, event("x" * 2_000_000))
    await ours.append_event(session, event("y"))
    assert texts(await ours.get_session(**names, session_id="//")) == ["x", "y"]


async def test_a_state_of_many_pages(ours: CrdtSessionService) -> None:
    """Maps over 64 KiB come apart from the others when sessions are listed."""
    state = {str(number): "x" * 1000 for number in range(100)}
    made = [await ours.create_session(**ADA, state=state) for _ in range(3)]
    listed = (await ours.list_sessions(**ADA)).sessions
    assert [session.id for session in listed] == [session.id for session in made]
    assert [session.state for session in listed] == [state] * 3


@pytest.mark.parametrize("seed", range(3))
async def test_it_does_what_that_in_memory_does(ours: CrdtSessionService, seed: int) -> None:
    rng, theirs = random.Random(seed), InMemorySessionService()
    held: dict[str, list[Any]] = {}

    def changes() -> dict[str, Any]:
        return {rng.choice(["", "app:", "user:", "temp:"]) + rng.choice("xyz"): rng.randrange(9) for _ in range(3)}

    for step in range(60):
        name, user = rng.choice("abc"), rng.choice(["ada", "bob"])
        of = {"app_name": "chat", "user_id": user, "session_id": name}
        does, delta = rng.choice(["create", "append", "append", "append", "delete", "read"]), changes()
        both: list[BaseSessionService] = [ours, theirs]
        if does == "create" and user + name not in held:
            held[user + name] = [await each.create_session(**of, state=delta) for each in both]
        elif does == "append" and user + name in held:
            added = event(str(step), at=4e9 + step, **{key.replace(":", "_"): value for key, value in delta.items()})
            for each, session in zip(both, held[user + name], strict=True):
                await each.append_event(session, added.model_copy(deep=True))
        elif does == "delete":
            held.pop(user + name, None)
            for each in both:
                await each.delete_session(**of)
        elif user + name in held:
            held[user + name] = [await each.get_session(**of) for each in both]
        shown = [[shape(session) for session in (await each.list_sessions(app_name="chat")).sessions] for each in both]
        assert sorted(shown[0]) == sorted(shown[1])
        mine, his = [shape(await each.get_session(**of)) for each in both]
        assert mine == his


def shape(session: Any) -> Any:
    """What has to be the same in two services."""
    if session is None:
        return None
    return session.user_id, session.id, sorted(session.state.items()), texts(session)


async def test_what_is_no_session_is_not_listed(ours: CrdtSessionService) -> None:
    made = await ours.create_session(**ADA, session_id="17")
    with Client(SOCKET, agent="another") as another:
        another.set("google-adk/session/chat/ada/18", "no map")
        another.merge("google-adk/session/chat/ada/17/more", {"created": 1})
    assert (await ours.list_sessions(**ADA)).sessions == [made]


async def test_what_is_no_event_is_left_out(ours: CrdtSessionService, caplog: pytest.LogCaptureFixture) -> None:
    session = await ours.create_session(**ADA, session_id="17")
    await ours.append_event(session, event("hello", at=5.0))
    with Client(SOCKET, agent="another") as state:
        for other in ("text", {"n": 1}, 7, None):
            state.append("google-adk/events/chat/ada/17", other)
    for config in (None, GetSessionConfig(after_timestamp=5.0), GetSessionConfig(num_recent_events=1)):
        assert texts(await ours.get_session(**ADA, session_id="17", config=config)) == ["hello"]
    assert "an element of google-adk/events/chat/ada/17 cannot be read, and is left out" in caplog.text
    sent = type(session).model_validate_json(session.model_dump_json())
    await ours.append_event(sent, event("again", at=6.0))
    assert texts(await ours.get_session(**ADA, session_id="17")) == ["hello", "again"]


async def test_what_is_no_session_or_state(ours: CrdtSessionService, caplog: pytest.LogCaptureFixture) -> None:
    made = await ours.create_session(**ADA, session_id="17", state={"x": 1})
    with Client(SOCKET, agent="another") as another:
        another.set("google-adk/session/chat/ada/18", "no map")
        another.set("google-adk/session/chat/ada", "no map")
        another.set("google-adk/user/chat/ada", "no map")
        another.set("google-adk/app/chat", 7)
        another.merge("google-adk/session/chat/ada/17", {"updated": "then"})
    read = await ours.get_session(**ADA, session_id="17")
    assert read is not None
    assert (read.state, read.last_update_time) == (made.state, 0.0)
    assert [each.id for each in (await ours.list_sessions(app_name="chat")).sessions] == ["17"]
    assert "google-adk/session/chat/ada/17 does not say when it was updated" in caplog.text
    assert "google-adk/app/chat holds no state, and is left out" in caplog.text
    with pytest.raises(SessionNotFoundError, match="chat/ada/18 cannot be read"):
        await ours.get_session(**ADA, session_id="18")
    await ours.append_event(read, event("hello", at=5.0))
    assert texts(await ours.get_session(**ADA, session_id="17")) == ["hello"]


SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


async def test_a_rule_is_applied_to_all_texts_before_they_are_written(ours: CrdtSessionService) -> None:
    with CrdtSessionService(SOCKET, redact=Redactor().text) as service:
        begun = {"token": SECRET, "user:password": "hunter2Xy!9", "app:deep": [{"key": SECRET}]}
        session = await service.create_session(**ADA, session_id="s", state=begun)
        content = types.Content(role="user", parts=[types.Part(text=f"it is {SECRET}")])
        event = Event(author="user", content=content, actions=EventActions(state_delta={"said": SECRET}))
        await service.append_event(session, event)
        found = await service.get_session(**ADA, session_id="s")
    assert found is not None
    mark = "[redacted:github-token:1]"
    assert found.events[0].content.parts[0].text == f"it is {mark}"
    assert (found.events[0].id, found.state["said"]) == (event.id, mark)
    assert [found.state[name] for name in begun] == [mark, "[redacted:secret:1]", [{"key": mark}]]
    state = ours._client
    held = [state.log(key) if "/events/" in key else state.get(key) for key in state.keys("google-adk/")]
    assert len(held) == 4
    assert SECRET not in str(held)
