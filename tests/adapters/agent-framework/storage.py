"""Histories and checkpoints, on one daemon whose socket is in SOCKET: see test_agent_framework.py."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from agent_framework import (
    AgentResponse,
    Content,
    FileCheckpointStorage,
    FileHistoryProvider,
    Message,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowEvent,
    WorkflowMessage,
    WorkflowRunState,
)

from crdtsync import Client
from crdtsync.adapters.agent_framework import CrdtCheckpointStorage, CrdtHistoryProvider
from crdtsync.errors import InvalidRequest, InvalidValue, TooLarge
from crdtsync.sessions.redaction.redactor import Redactor

SOCKET = os.environ["SOCKET"]


@pytest.fixture
def state() -> Iterator[Client]:
    """The daemon, without what the test before has left."""
    with Client(SOCKET, agent="tester") as client:
        client.delete_prefix("agent-framework/")
        yield client


@dataclass
class Finding:
    text: str


def checkpoint(name: str, step: int, **state: object) -> WorkflowCheckpoint:
    time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=step)
    return WorkflowCheckpoint(
        workflow_name=name, graph_signature_hash="hash", timestamp=time.isoformat(), state=dict(state),
        checkpoint_id=f"{name}/{step}", iteration_count=step,
    )  # fmt: skip


def test_checkpoints_are_as_those_in_files(state: Client, tmp_path: Path) -> None:
    """The same calls to both give the same."""

    async def calls(storage: CrdtCheckpointStorage | FileCheckpointStorage) -> list[object]:
        found: list[object] = []
        for step, name in enumerate(["a", "b", "a", "a"]):
            made = checkpoint(
                name, step, text="é" * step, when=datetime(2026, 1, 1, tzinfo=UTC), parts={1, 2}, data=b"\xff"
            )
            made.checkpoint_id = f"{name}{step}"
            found.append(await storage.save(made))
        for name in ("a", "b", "nobody"):
            found.append(sorted(await storage.list_checkpoint_ids(workflow_name=name)))
            latest = await storage.get_latest(workflow_name=name)
            found.append(latest and latest.to_dict())
        found.append((await storage.load("a2")).to_dict())
        found += [await storage.delete("a3"), await storage.delete("a3")]
        latest = await storage.get_latest(workflow_name="a")
        found.append(latest and latest.checkpoint_id)
        for bad in (storage.load("nothing"), storage.save(checkpoint("c", 9, bad=asyncio.Lock()))):
            with pytest.raises(WorkflowCheckpointException):
                await bad
        return found

    assert asyncio.run(calls(CrdtCheckpointStorage(state))) == asyncio.run(calls(FileCheckpointStorage(tmp_path)))


def test_what_cannot_be_stored_is_named_with_its_place(state: Client) -> None:
    storage = CrdtCheckpointStorage(state)
    with pytest.raises(WorkflowCheckpointException, match=r"w/1 cannot be stored: \$\.state\.a\.1\.b is a function: "):
        asyncio.run(storage.save(checkpoint("w", 1, good={1, 2}, a=[1, {None: 1, "b": lambda: 1}])))
    for refused, place in (
        (checkpoint("w", 1, good={1, 2}, a=[1, {"b": "half a \ud83d"}]), "$.state.a.1.b"),
        (checkpoint("w", 1, **{"half a \ud83d": 1}), "$.state"),
    ):
        with pytest.raises(InvalidValue, match=r"w/1 cannot be stored: .* lone surrogate, which UTF-8 cannot") as told:
            asyncio.run(storage.save(refused))
        assert told.value.path == place
    named = checkpoint("half a \ud83d", 1)
    named.checkpoint_id = "w/1"
    with pytest.raises(InvalidValue, match=r"at \$\.workflow_name there is a lone surrogate"):
        asyncio.run(storage.save(named))
    assert asyncio.run(storage.list_checkpoint_ids(workflow_name="w")) == []


def test_a_rule_that_returns_no_text_is_refused_as_such(state: Client) -> None:
    storage = CrdtCheckpointStorage(state, redact=lambda text: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidRequest, match=r"^the rule redact returned None for a text: it must return a text$"):
        asyncio.run(storage.save(checkpoint("w", 1, a="b")))


def test_a_checkpoint_of_many_mebibytes(state: Client) -> None:
    storage = CrdtCheckpointStorage(state)
    asyncio.run(storage.save(checkpoint("w", 1, big="x" * 5_000_000)))
    assert asyncio.run(storage.load("w/1")).state == {"big": "x" * 5_000_000}


@pytest.mark.parametrize("harm", ["replaced by text", "replaced by another blob", "removed"])
def test_a_damaged_checkpoint_is_skipped(harm: str, state: Client, caplog: pytest.LogCaptureFixture) -> None:
    storage = CrdtCheckpointStorage(state)
    for step in (1, 2):
        asyncio.run(storage.save(checkpoint("w", step)))
    key, meta = "agent-framework/checkpoints/w%2F2", {"workflow": "w", "timestamp": "2026-01-01T00:00:02+00:00"}
    if harm == "removed":
        state.delete(key)
    elif harm == "replaced by text":
        state.delete(key)
        state.set(key, "something else", meta=meta)
    else:
        state.put_blob(key, b"something else", meta=meta)
    latest = asyncio.run(storage.get_latest(workflow_name="w"))
    assert latest is not None
    assert latest.checkpoint_id == "w/1"
    assert ("the one before it counts" in caplog.text) is (harm != "removed")
    with pytest.raises(WorkflowCheckpointException):
        asyncio.run(storage.load("w/2"))


def called(module: str, name: str, argument: str) -> dict[str, str]:
    """A pickle that calls something with one text, as an encoded value."""
    words = b"".join(b"X" + len(word).to_bytes(4, "little") + word.encode() for word in (module, name))
    text = b"X" + len(argument).to_bytes(4, "little") + argument.encode()
    pickled = b"\x80\x04" + words + b"\x93" + text + b"\x85R."
    return {"__pickled__": base64.b64encode(pickled).decode(), "__type__": "builtins:str"}


@pytest.mark.parametrize(
    "module, name, argument",
    [
        ("agent_framework._tools", "TypeAdapter", "open({made!r}, 'w')"),
        ("agent_framework", "FileCheckpointStorage", "{made}"),
        ("agent_framework._workflows._checkpoint", "FileCheckpointStorage", "{made}"),
        ("os", "mkdir", "{made}"),
        ("builtins", "type", "{made}"),
    ],
)
def test_what_another_agent_has_written_makes_data_alone(
    module: str, name: str, argument: str, state: Client, tmp_path: Path
) -> None:
    storage = CrdtCheckpointStorage(state)
    asyncio.run(storage.save(checkpoint("w", 1)))
    made = tmp_path / "made"
    written = {**checkpoint("w", 2).to_dict(), "state": {"a": called(module, name, argument.format(made=str(made)))}}
    meta = {"workflow": "w", "timestamp": "2026-01-01T00:00:02+00:00"}
    state.put_blob("agent-framework/checkpoints/w%2F2", json.dumps(written).encode(), meta=meta)
    latest = asyncio.run(storage.get_latest(workflow_name="w"))
    assert latest is not None
    assert (latest.checkpoint_id, made.exists()) == ("w/1", False)


def test_a_checkpoint_without_a_time_is_the_oldest(state: Client) -> None:
    storage = CrdtCheckpointStorage(state)
    for step, time in enumerate((3, "then", "2026-01-01T00:00:00")):
        state.put_blob(f"agent-framework/checkpoints/{step}", b"{}", meta={"workflow": "w", "timestamp": time})
    asyncio.run(storage.save(checkpoint("w", 1)))
    assert asyncio.run(storage.list_checkpoint_ids(workflow_name="w")) == ["w/1"]


def test_messages_and_events_of_the_framework_are_read_back(state: Client) -> None:
    storage = CrdtCheckpointStorage(state, allowed_checkpoint_types=[f"{Finding.__module__}:Finding"])
    said = Message("user", [Content.from_text("hello")])
    values = {
        "said": said, "answer": AgentResponse(messages=[said]), "finding": Finding("x"), "run": WorkflowRunState.IDLE,
        "sent": WorkflowMessage(data=said, source_id="a"),
        "asked": WorkflowEvent.request_info("r", "a", "?", str),
    }  # fmt: skip
    asyncio.run(storage.save(checkpoint("w", 1, **values)))
    found = asyncio.run(storage.load("w/1")).state
    assert found["said"].to_dict() == said.to_dict()
    assert found["answer"].text == "hello"
    assert (found["finding"], found["run"], found["sent"].source_id) == (Finding("x"), WorkflowRunState.IDLE, "a")
    assert found["asked"].request_id == "r"


def test_histories_are_as_those_in_files(state: Client, tmp_path: Path) -> None:
    async def calls(history: CrdtHistoryProvider | FileHistoryProvider) -> list[object]:
        hello, answer = Message("user", ["hello"]), Message("assistant", ["hi"], author_name="helper")
        hidden = Message("user", ["old"], additional_properties={"_excluded": True})
        await history.save_messages("s", [hidden, hello, answer])
        await history.save_messages("s", [])
        await history.save_messages("s", [hidden, hello, answer, Message("user", ["and?"])])  # all that was said
        await history.save_messages("s", [Message("user", ["and?"])])  # said again
        await history.save_messages(None, [answer])
        return [[each.to_dict() for each in await history.get_messages(name)] for name in ("s", None, "nobody")]

    for skip in (False, True):
        state.delete_prefix("agent-framework/")
        ours = asyncio.run(calls(CrdtHistoryProvider(state, skip_excluded=skip)))
        assert ours == asyncio.run(calls(FileHistoryProvider(tmp_path / str(skip), skip_excluded=skip)))


def test_messages_that_many_add_at_once_are_all_kept(state: Client) -> None:
    async def add() -> None:
        histories = [CrdtHistoryProvider(SOCKET) for _ in range(4)]
        await asyncio.gather(
            *(each.save_messages("s", [Message("user", [f"{at} says {n}"])]) for at, each in enumerate(histories)
              for n in range(20))
        )  # fmt: skip
        for each in histories:
            each.close()

    asyncio.run(add())
    assert len(state.log("agent-framework/messages/s")) == 80


def test_of_messages_of_which_one_is_too_large_none_is_saved(state: Client) -> None:
    history = CrdtHistoryProvider(state)
    with pytest.raises(TooLarge, match=r"for agent-framework/messages/s takes 2,000,\d\d\d bytes; .* pass its URL$"):
        asyncio.run(history.save_messages("s", [Message("user", [text]) for text in ("small", "x" * 2_000_000)]))
    assert state.log("agent-framework/messages/s") == []


def test_what_is_no_message_is_left_out(state: Client, caplog: pytest.LogCaptureFixture) -> None:
    history = CrdtHistoryProvider(state)
    for other in ("text", {"n": 1}, 7, None):
        state.append("agent-framework/messages/s", other)
    asyncio.run(history.save_messages("s", [Message("user", ["hello"])]))
    assert [each.text for each in asyncio.run(history.get_messages("s"))] == ["hello"]
    assert "an element of agent-framework/messages/s cannot be read, and is left out" in caplog.text


@pytest.mark.parametrize("written", ["null", "7", "[]", "{}", '{"workflow_name": 1}', "{"])
def test_what_is_no_checkpoint_is_refused_as_the_framework_does(written: str, state: Client) -> None:
    storage = CrdtCheckpointStorage(state)
    asyncio.run(storage.save(checkpoint("w", 1)))
    meta = {"workflow": "w", "timestamp": "2026-01-01T00:00:02+00:00"}
    state.put_blob("agent-framework/checkpoints/w%2F2", written.encode(), meta=meta)
    with pytest.raises(WorkflowCheckpointException):
        asyncio.run(storage.load("w/2"))
    latest = asyncio.run(storage.get_latest(workflow_name="w"))
    assert latest is not None
    assert latest.checkpoint_id == "w/1"


SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
MARK = "[redacted:github-token:1]"


def test_a_rule_is_applied_to_all_texts_of_checkpoints_before_they_are_written(state: Client) -> None:
    """Also in what the framework pickles."""
    storage = CrdtCheckpointStorage(
        state, allowed_checkpoint_types=[f"{Finding.__module__}:Finding"], redact=Redactor().text
    )
    said = Message("user", [Content.from_text(f"it is {SECRET}")], additional_properties={"password": "hunter2Xy!9"})
    values = {
        "plain": [{"token": SECRET}], "said": said, "finding": Finding(SECRET), "parts": (SECRET, {SECRET, "x"}, 3),
        "when": datetime(2026, 1, 1, tzinfo=UTC), "long": Finding(f"{'é' * 70_000} {SECRET}"), "data": b"\xff",
        "run": WorkflowRunState.IDLE, "twice": [Finding("a"), Finding("a")],
    }  # fmt: skip
    asyncio.run(storage.save(checkpoint("w", 1, **values)))
    blob = state.get_blob("agent-framework/checkpoints/w%2F1")
    assert blob is not None
    stored = json.loads(blob.read())["state"]
    pickled = [base64.b64decode(each["__pickled__"]) for each in stored.values() if "__pickled__" in each]
    assert len(pickled) == 6
    assert not any(word.encode() in data for word in (SECRET, "hunter2") for data in pickled)
    found = asyncio.run(storage.load("w/1")).state
    assert found["said"].to_dict()["contents"] == Message("user", [f"it is {MARK}"]).to_dict()["contents"]
    assert found["said"].additional_properties == {"password": "[redacted:secret:1]"}
    assert (found["plain"], found["finding"]) == ([{"token": MARK}], Finding(MARK))
    assert found["parts"] == (MARK, {MARK, "x"}, 3)
    assert found["long"] == Finding(f"{'é' * 70_000} {MARK}")
    assert all(found[name] == values[name] for name in ("when", "data", "run", "twice"))


def test_a_rule_that_changes_nothing_leaves_checkpoints_as_they_are(state: Client) -> None:
    asked: list[str] = []

    def as_it_is(text: str) -> str:
        asked.append(text)
        return text

    storage = CrdtCheckpointStorage(state, allowed_checkpoint_types=[f"{Finding.__module__}:Finding"], redact=as_it_is)
    values = {"finding": Finding("x"), "many": [Finding(str(n)) for n in range(300)], "run": WorkflowRunState.IDLE}
    asyncio.run(storage.save(checkpoint("w", 1, **values)))
    assert asyncio.run(storage.load("w/1")).state == values
    assert "x" in asked
    assert not {"Finding", Finding.__module__} & {*asked}, "names of classes are no texts"


def test_a_rule_is_applied_to_all_texts_of_messages_before_they_are_written(state: Client) -> None:
    history = CrdtHistoryProvider(state, redact=Redactor().text)
    said = [Message("user", [f"it is {SECRET}"]), Message("assistant", ["so be it"])]
    asyncio.run(history.save_messages("s", said))
    asyncio.run(history.save_messages("s", [*said, Message("user", ["and?"])]))  # all that was said
    assert SECRET not in str(state.log("agent-framework/messages/s"))
    found = [each.text for each in asyncio.run(history.get_messages("s"))]
    assert found == [f"it is {MARK}", "so be it", "and?"]
