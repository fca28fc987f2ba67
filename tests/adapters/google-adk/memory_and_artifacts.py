"""The other two services, on one daemon whose socket is in SOCKET; run by tests/integration/test_google_adk.py.

What ADK promises of all its services is asked of its own ones in memory as well.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events import Event
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from crdtsync import Client
from crdtsync.adapters.google_adk import CrdtArtifactService, CrdtMemoryService
from crdtsync.errors import TooLarge
from crdtsync.sessions.redaction.redactor import Redactor

pytestmark = pytest.mark.asyncio

ADA: dict[str, Any] = {"app_name": "chat", "user_id": "ada"}


@pytest.fixture
def state() -> Iterator[Client]:
    with Client(os.environ["SOCKET"], agent="tester") as client:
        client.delete_prefix("google-adk/")
        yield client


# -- memory -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["ours", "in memory"])
def memory(request: pytest.FixtureRequest, state: Client) -> BaseMemoryService:
    return CrdtMemoryService(state) if request.param == "ours" else InMemoryMemoryService()


def event(name: str, *texts: str) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text) for text in texts]) if texts else None
    return Event(id=name, author="user", timestamp=1.7e9, content=content)


async def found(memory: BaseMemoryService, query: str, **scope: str) -> list[str]:
    return sorted(str(each.id) for each in (await memory.search_memory(**{**ADA, "query": query, **scope})).memories)


async def test_what_was_said_is_found_by_its_words(memory: BaseMemoryService) -> None:
    said = [event("1", "Ada likes pizza"), event("2", "and the cello"), event("3"), event("4", "naps,", "and PIZZA!")]
    await memory.add_session_to_memory(Session(id="17", **ADA, events=said))
    await memory.add_session_to_memory(Session(id="17", **ADA, events=said))
    await memory.add_events_to_memory(**ADA, events=[event("5", "私はPythonを使う")], session_id="18")
    assert await found(memory, "Which pizza?") == ["1", "4"]
    assert await found(memory, "cello pizza") == ["1", "2", "4"]
    assert await found(memory, "Python") == ["5"]
    assert await found(memory, "author user timestamp text") == []
    assert await found(memory, "pizza", user_id="bob") == await found(memory, "pizza", app_name="other") == []
    (entry,) = (await memory.search_memory(**ADA, query="cello")).memories
    assert (entry.content, entry.author, (entry.timestamp or "")[:8]) == (said[1].content, "user", "2023-11-")


async def test_what_is_forgotten_does_not_come_back(memory: BaseMemoryService) -> None:
    session = Session(id="17", **ADA, events=[event("1", "pizza"), event("2", "more pizza")])
    await memory.add_session_to_memory(session)
    await memory.delete_memory(**ADA, memory_id="1")
    await memory.delete_memory(**ADA, memory_id="none")
    await memory.delete_memory(**ADA)
    await memory.add_session_to_memory(session)
    assert await found(memory, "pizza") == ["2"]


async def test_at_most_ten_are_found(memory: BaseMemoryService) -> None:
    await memory.add_events_to_memory(**ADA, events=[event(str(n), f"pizza {n}") for n in range(600)])
    assert len(await found(memory, "pizza")) == 10
    best = (await memory.search_memory(**ADA, query="pizza 577")).memories[0]
    assert best.id == "577"


async def test_what_is_said_directly_is_remembered(state: Client) -> None:
    memory = CrdtMemoryService(state)
    content = types.Content(parts=[types.Part(text="x"), types.Part.from_bytes(data=b"\0", mime_type="image/png")])
    said = [
        MemoryEntry(content=content, custom_metadata={"n": 1}),
        MemoryEntry(id="mine", content=content, author="me"),
    ]
    await memory.add_memory(**ADA, memories=said)
    entries = (await memory.search_memory(**ADA, query="x")).memories
    assert sorted(str(each.author) for each in entries) == ["None", "me"]
    assert [each.content for each in entries] == [content, content]
    assert sorted(len(each.custom_metadata) for each in entries) == [0, 1]
    large = types.Content(parts=[types.Part(text="x " * 1_000_000)])
    with pytest.raises(TooLarge, match=r"for google-adk/memory/.* takes 2,000,\d\d\d bytes; .* pass its URL$"):
        await memory.add_memory(**ADA, memories=[MemoryEntry(id="small", content=content), MemoryEntry(content=large)])
    assert len((await memory.search_memory(**ADA, query="x")).memories) == 2


# -- artifacts --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["ours", "in memory"])
def artifacts(request: pytest.FixtureRequest, state: Client) -> BaseArtifactService:
    return CrdtArtifactService(state) if request.param == "ours" else InMemoryArtifactService()


def of(file: str, session: str | None = "17") -> dict[str, Any]:
    return {**ADA, "session_id": session, "filename": file}


def data(text: bytes) -> types.Part:
    return types.Part.from_bytes(data=text, mime_type="application/pdf")


async def test_versions_are_saved_loaded_and_deleted(artifacts: BaseArtifactService) -> None:
    assert await artifacts.load_artifact(**of("f")) is None
    assert await artifacts.list_versions(**of("f")) == []
    parts = [
        data(b"a" * 3_000_000),
        data(b""),
        types.Part(text="é\n"),
        types.Part.from_uri(file_uri="gs://x", mime_type="a/b"),
    ]
    saved = [await artifacts.save_artifact(**of("f"), artifact=part) for part in parts]
    assert saved == await artifacts.list_versions(**of("f")) == [0, 1, 2, 3]
    assert [await artifacts.load_artifact(**of("f"), version=number) for number in range(5)] == [*parts, None]
    assert await artifacts.load_artifact(**of("f")) == parts[-1]
    assert await artifacts.load_artifact(**of("f", "other")) is None
    await artifacts.delete_artifact(**of("f"))
    await artifacts.delete_artifact(**of("f"))
    assert [await artifacts.load_artifact(**of("f")), await artifacts.list_versions(**of("f"))] == [None, []]
    assert await artifacts.save_artifact(**of("f"), artifact={"inlineData": {"data": "YQ==", "mimeType": "t/t"}}) == 0
    assert await artifacts.load_artifact(**of("f")) == types.Part.from_bytes(data=b"a", mime_type="t/t")


async def test_files_belong_to_a_session_or_to_a_user(artifacts: BaseArtifactService) -> None:
    for file, session in (("b/c.txt", "17"), ("a é?", "17"), ("user:f/g", "17"), ("other", "18")):
        await artifacts.save_artifact(**of(file, session), artifact=data(file.encode()))
    await artifacts.save_artifact(app_name="chat", user_id="bob", session_id="17", filename="x", artifact=data(b""))
    assert await artifacts.list_artifact_keys(**ADA, session_id="17") == ["a é?", "b/c.txt", "user:f/g"]
    assert await artifacts.list_artifact_keys(**ADA, session_id="18") == ["other", "user:f/g"]
    assert await artifacts.list_artifact_keys(**ADA) == ["user:f/g"]
    assert await artifacts.load_artifact(**of("user:f/g", "18")) == data(b"user:f/g")
    assert await artifacts.load_artifact(**of("user:f/g", None)) == data(b"user:f/g")


async def test_what_is_known_of_versions(artifacts: BaseArtifactService) -> None:
    await artifacts.save_artifact(**of("f"), artifact=data(b"1"), custom_metadata={"n": {"deep": [1]}})
    await artifacts.save_artifact(**of("f"), artifact=types.Part(text="2"))
    first, second = await artifacts.list_artifact_versions(**of("f"))
    assert (first.version, first.mime_type, first.custom_metadata) == (0, "application/pdf", {"n": {"deep": [1]}})
    assert (second.version, second.mime_type, second.custom_metadata) == (1, "text/plain", {})
    assert 0 < first.create_time <= second.create_time
    assert await artifacts.get_artifact_version(**of("f")) == second
    assert await artifacts.get_artifact_version(**of("f"), version=0) == first
    assert await artifacts.get_artifact_version(**of("f"), version=2) is None
    assert await artifacts.get_artifact_version(**of("none")) is None


async def test_references_are_followed_within_their_scope(artifacts: BaseArtifactService) -> None:
    def link(path: str) -> types.Part:
        return types.Part.from_uri(file_uri=f"artifact://apps/chat/users/{path}", mime_type="a/b")

    await artifacts.save_artifact(**of("f"), artifact=data(b"0"))
    await artifacts.save_artifact(**of("f"), artifact=data(b"1"))
    await artifacts.save_artifact(**of("g"), artifact=link("ada/sessions/17/artifacts/f/versions/0"))
    await artifacts.save_artifact(**of("h"), artifact=link("ada/sessions/17/artifacts/g/versions/0"))
    await artifacts.save_artifact(**of("turn"), artifact=link("ada/sessions/17/artifacts/turn/versions/0"))
    assert await artifacts.load_artifact(**of("h")) == data(b"0")
    with pytest.raises(InputValidationError):
        await artifacts.load_artifact(**of("turn"))
    for bad in (link("bob/sessions/17/artifacts/f/versions/0"), link("ada/sessions/18/artifacts/f/versions/0"),
                link("ada"), types.Part()):  # fmt: skip
        with pytest.raises(InputValidationError):
            await artifacts.save_artifact(**of("bad"), artifact=bad)
    with pytest.raises(InputValidationError):
        await artifacts.save_artifact(**{**of("f"), "user_id": "../bob"}, artifact=data(b""))


async def test_what_a_rewound_session_no_longer_has(artifacts: BaseArtifactService) -> None:
    await artifacts.save_artifact(**of("f"), artifact=data(b"1"))
    await artifacts.save_artifact(
        **of("f"), artifact=types.Part.from_bytes(data=b"", mime_type="application/octet-stream")
    )
    assert await artifacts.load_artifact(**of("f")) is None
    assert await artifacts.load_artifact(**of("f"), version=0) == data(b"1")


async def test_an_artifact_of_a_session_is_found_by_its_id_with_and_without_space_around_it(state: Client) -> None:
    """As the session is. ADK 2.13 leaves the space there, its later versions do not."""
    artifacts = CrdtArtifactService(state)
    uri = "artifact://apps/chat/users/ada/sessions/17/artifacts/f/versions/0"
    await artifacts.save_artifact(**of("f", "17\n"), artifact=data(b"1"))
    await artifacts.save_artifact(**of("reference", " 17"), artifact=types.Part.from_uri(file_uri=uri, mime_type="a/b"))
    for session in ("17", "17\n", " 17 "):
        assert await artifacts.list_artifact_keys(**ADA, session_id=session) == ["f", "reference"]
        for file in ("f", "reference"):
            assert await artifacts.load_artifact(**of(file, session)) == data(b"1")
    await artifacts.delete_artifact(**of("f"))
    assert await artifacts.list_versions(**of("f", "17\n")) == []


async def test_many_that_save_at_once_get_versions_of_their_own(state: Client) -> None:
    artifacts = CrdtArtifactService(state)
    saved = [artifacts.save_artifact(**of("f"), artifact=data(str(n).encode())) for n in range(12)]
    assert sorted(await asyncio.gather(*saved)) == [*range(12)]
    loaded = [await artifacts.load_artifact(**of("f"), version=number) for number in range(12)]
    assert sorted(int(each.inline_data.data) for each in loaded if each is not None) == [*range(12)]
    assert await artifacts.save_artifact(**of("no session", None), artifact=data(b"")) == 0
    assert await artifacts.list_artifact_keys(**ADA) == ["user:no session"]


async def test_what_is_no_version_of_an_artifact_is_left_out(state: Client) -> None:
    service = CrdtArtifactService(state)
    place = {**ADA, "session_id": "17", "filename": "report"}
    await service.save_artifact(**place, artifact=types.Part(text="first"))
    for name in ("zzz", "1", "0000000001/more"):
        state.set(f"google-adk/artifact/chat/ada/17/report/{name}", "something else")
    assert await service.list_versions(**place) == [0]
    assert [each.version for each in await service.list_artifact_versions(**place)] == [0]
    assert await service.save_artifact(**place, artifact=types.Part(text="second")) == 1
    newest = await service.load_artifact(**place)
    assert newest is not None
    assert newest.text == "second"


async def test_of_an_artifact_that_cannot_be_read_the_version_before_counts(
    state: Client, caplog: pytest.LogCaptureFixture
) -> None:
    service = CrdtArtifactService(state)
    await service.save_artifact(**of("f"), artifact=types.Part(text="first"))
    place = "google-adk/artifact/chat/ada/17/f/"
    state.set(f"{place}0000000001", "no blob")
    state.put_blob(f"{place}0000000002", b"x", meta={"part": 7})
    state.put_blob(f"{place}0000000003", b"\xff", meta={"part": {}})
    assert await service.load_artifact(**of("f")) == types.Part(text="first")
    assert f"the artifact before it counts: {place}0000000003 cannot be read" in caplog.text
    for version in (1, 2, 3):
        with pytest.raises(InputValidationError, match="cannot be read"):
            await service.load_artifact(**of("f"), version=version)
    assert [each.version for each in await service.list_artifact_versions(**of("f"))] == [0, 1, 3]


async def test_what_is_no_memory_is_not_found(state: Client, caplog: pytest.LogCaptureFixture) -> None:
    memory = CrdtMemoryService(state)
    await memory.add_memory(**ADA, memories=[MemoryEntry(id="m", content=types.Content(parts=[types.Part(text="x")]))])
    state.set("google-adk/memory/chat/ada/other", "x")
    state.set("google-adk/memory/chat/ada/another", "x", meta={"content": 7})
    found = (await memory.search_memory(**ADA, query="x")).memories
    assert [each.id for each in found] == ["m"]
    assert "an element of google-adk/memory/chat/ada/another cannot be read, and is left out" in caplog.text


# -- both -------------------------------------------------------------------------------------------------------

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


async def test_a_rule_is_applied_to_all_texts_before_they_are_written(state: Client) -> None:
    redact = Redactor().text
    memory, artifacts = CrdtMemoryService(state, redact=redact), CrdtArtifactService(state, redact=redact)
    said = types.Content(parts=[types.Part(text=f"it is {SECRET}")])
    known = MemoryEntry(id="m", content=said, author="ada", custom_metadata={"password": "hunter2Xy!9"})
    await memory.add_memory(app_name="chat", user_id="ada", memories=[known])
    file: dict[str, Any] = {**ADA, "session_id": "17", "filename": "a.txt"}
    await artifacts.save_artifact(**file, artifact=types.Part(text=f"or {SECRET}"), custom_metadata={"by": SECRET})
    entries = state.entries("google-adk/")
    assert len(entries) == 2
    assert all(SECRET not in str((entry.value, entry.meta)) for entry in entries)
    mark = "[redacted:github-token:1]"
    (found,) = (await memory.search_memory(app_name="chat", user_id="ada", query="it")).memories
    assert found.content.parts[0].text == f"it is {mark}"
    assert found.custom_metadata == {"password": "[redacted:secret:1]"}
    part = await artifacts.load_artifact(**file)
    assert part is not None
    assert part.text == f"or {mark}"
