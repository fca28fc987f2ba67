"""What another program has put in the place of states and records; run by tests/integration/test_crewai.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from crewai.flow.async_feedback.types import PendingFeedbackContext
from crewai.memory.types import MemoryRecord
from pydantic import BaseModel

from crdtsync import Client
from crdtsync.adapters.crewai import CrdtFlowPersistence, CrdtMemoryStorage
from crdtsync.errors import InvalidValue, TooLarge
from crdtsync.sessions.redaction.redactor import Redactor

SOCKET = os.environ["SOCKET"]
OTHERS: list[Any] = ["text", {"n": 1}, 7, {"state": 3, "record": 3, "context": "{"}]


@pytest.fixture
def state() -> Iterator[Client]:
    """The daemon, without what the test before has left."""
    with Client(SOCKET, agent="tester") as client:
        client.delete_prefix("crewai/")
        yield client


def test_the_state_before_it_counts(state: Client, caplog: pytest.LogCaptureFixture) -> None:
    flows = CrdtFlowPersistence(state)
    for step in range(3):
        flows.save_state("17", "step", {"step": step})
    for other in OTHERS:
        state.set("crewai/flows/17", other)
        assert flows.load_state("17") == {"step": 2}
    assert "crewai/flows/17 cannot be read, what it held before counts" in caplog.text
    flows.save_state("17", "step", {"step": 3})
    assert flows.load_state("17") == {"step": 3}


def test_a_flow_that_waits_still_does(state: Client) -> None:
    flows = CrdtFlowPersistence(state)
    context = PendingFeedbackContext(
        flow_id="17", flow_class="Report", method_name="review", method_output="x", message="?",
        requested_at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    flows.save_pending_feedback("17", context, {"step": 1})
    for other in OTHERS:
        state.set("crewai/pending/17", other)
        found = flows.load_pending_feedback("17")
        assert found is not None
        assert (found[0], found[1].method_name) == ({"step": 1}, "review")


def test_the_record_before_it_counts(state: Client) -> None:
    with CrdtMemoryStorage(SOCKET) as storage:
        storage.save([MemoryRecord(id="17", content="the build runs on fridays", embedding=[1.0, 0.0])])
        for other in OTHERS:
            state.set("crewai/memory/17", other)
            found = storage.get_record("17")
            assert found is not None
            assert (found.content, found.embedding) == ("the build runs on fridays", [1.0, 0.0])


def test_of_records_of_which_one_is_too_large_none_is_saved(state: Client) -> None:
    with CrdtMemoryStorage(SOCKET) as storage:
        with pytest.raises(TooLarge, match=r"for crewai/memory/x takes 2,000,\d\d\d bytes; .* pass its URL$"):
            storage.save([MemoryRecord(id=text[:1], content=text) for text in ("small", "x" * 2_000_000)])
        assert storage.count() == 0


def test_a_state_that_is_too_large_is_told_by_its_flow(state: Client) -> None:
    flows = CrdtFlowPersistence(state)
    with pytest.raises(TooLarge, match=r"for the flow '17' takes 2,000,\d\d\d bytes; .* pass its URL$"):
        flows.save_state("17", "step", {"scan": "x" * 2_000_000})
    assert flows.load_state("17") is None


class Scan(BaseModel):
    title: str = "é"
    pages: list[dict[str, bytes]]


def test_bytes_that_are_no_text_are_told_by_their_place(state: Client) -> None:
    flows = CrdtFlowPersistence(state)
    pages = [{"front": "é".encode()}, {"front": b"x", "back": b"\xff\xd8"}]
    for refused in (Scan(pages=pages), {"title": "é", "pages": pages}, {"scan": Scan(pages=pages)}):
        with pytest.raises(InvalidValue, match=r"at \$\.(scan\.)?pages\.1\.back there are bytes that are no UTF-8$"):
            flows.save_state("17", "step", refused)
    assert flows.load_state("17") is None


def test_what_was_deleted_does_not_come_back(state: Client) -> None:
    flows = CrdtFlowPersistence(state)
    flows.save_state("17", "step", {"step": 1})
    state.delete("crewai/flows/17")
    assert flows.load_state("17") is None
    state.set("crewai/flows/17", "text")
    with pytest.raises(ValueError, match="crewai/flows/17 cannot be read, and held nothing before that can"):
        flows.load_state("17")


SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
MARK = "[redacted:github-token:1]"


def test_a_rule_is_applied_to_all_texts_before_they_are_written(state: Client) -> None:
    flows = CrdtFlowPersistence(state, redact=Redactor().text)
    storage = CrdtMemoryStorage(state, redact=Redactor().text)
    held = {"deep": [{"token": SECRET}], "password": "hunter2Xy!9"}
    flows.save_state("1", "step", held)
    context = PendingFeedbackContext(
        flow_id="2", flow_class="Report", method_name="review", method_output=f"is it {SECRET}?", message="?",
        requested_at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    flows.save_pending_feedback("2", context, held)
    storage.save([MemoryRecord(id="3", content=f"it is {SECRET}", embedding=[1.0, 0.0], metadata={"by": SECRET})])
    assert len(state.items("crewai/")) == 4
    assert SECRET not in str(state.items("crewai/"))
    plain = {"deep": [{"token": MARK}], "password": "[redacted:secret:1]"}
    assert flows.load_state("1") == plain
    waits = flows.load_pending_feedback("2")
    assert waits is not None
    assert (waits[0], waits[1].method_output) == (plain, f"is it {MARK}?")
    record = storage.get_record("3")
    assert record is not None
    assert (record.content, record.metadata, record.embedding) == (f"it is {MARK}", {"by": MARK}, [1.0, 0.0])


def test_a_flow_that_was_made_anew_without_its_rule_writes_nothing(state: Client) -> None:
    """CrewAI makes a persistence from what a flow has stored, where a rule has no place."""
    stored = CrdtFlowPersistence(SOCKET, redact=Redactor().text).model_dump(mode="json")
    made = CrdtFlowPersistence.model_validate(stored)
    with pytest.raises(ValueError, match="give the flow redact= again"):
        made.save_state("1", "step", {"token": SECRET})
    assert state.keys("crewai/") == []
