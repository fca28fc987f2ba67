"""CrewAI on real daemons: its own tests of flows and memory, and flows that go on where a host has died."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.harness import Cluster, Daemon
from tests.harness.cluster import healed
from tests.harness.frameworks import FRAMEWORKS, own_tests, passes, program_of_the_page, run_with

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

NAME = "crewai"
SUITES = [
    "tests/test_flow_persistence.py", "tests/test_async_human_feedback.py", "tests/test_flow_persistence_factory.py",
    "tests/test_flow_resumability_regression.py", "tests/memory/test_unified_memory.py",
    "tests/memory/test_qdrant_edge_storage.py", "tests/memory/test_dimension_mismatch.py",
    "tests/memory/test_memory_root_scope.py", "tests/memory/test_storage_factory.py",
]  # fmt: skip
NOT_OURS = "exceeding_scan_cap or touch_records or access_time or drains_and_shuts_down or flush or shard"
"""Words in the names of tests of LanceDB's limit, of Qdrant's files, of use after close, of noting who has read."""


def test_crewais_own_tests(daemon: Daemon) -> None:
    """With these adapters where they make SQLite's, LanceDB's or Qdrant's."""
    alone = ["-c", os.devnull, "--rootdir", ".", "-W", "ignore"]
    told = own_tests(NAME, daemon, "in_place", *alone, "-k", f"not ({NOT_OURS})", *SUITES)
    assert re.search(r"\b236 passed, 7 deselected\b", told), told


def test_of_what_cannot_be_read_the_value_before_counts(daemon: Daemon) -> None:
    passes(NAME, "unreadable.py", SOCKET=daemon.socket)


def test_what_a_memory_is_asked_for(daemon: Daemon) -> None:
    passes(NAME, "records.py", SOCKET=daemon.socket)


def test_two_programs_that_go_on_with_one_flow_at_once(daemon: Daemon) -> None:
    passes(NAME, "at_once.py", SOCKET=daemon.socket)


def test_a_flow_that_waits_goes_on_where_its_host_has_died(pair: Cluster, tmp_path: Path) -> None:
    """The program of the how-to page, on two hosts."""
    program = program_of_the_page("CrdtFlowPersistence", tmp_path / "report.py")
    assert "Human feedback pending for flow 'report-17'" in run_with(NAME, pair[0], program)
    pair[1].client().wait(pair[0].client().now(), timeout=60)
    pair[0].kill()
    told = run_with(NAME, pair[1], program, "yes")
    assert told.endswith("the cache is cold after a restart, and a person said yes\n")
    state = pair[1].client()
    assert state.get("crewai/flows/report-17")["method"] == "write"
    assert state.keys("crewai/pending/") == []
    assert {past.fate for past in state.history("crewai/flows/report-17")} == {"live", "replaced"}
    assert run_with(NAME, pair[1], program, "yes").endswith("report-17 asks nobody\n")


def test_a_flow_goes_on_with_a_model_elsewhere_only_where_the_program_says_so(daemon: Daemon, tmp_path: Path) -> None:
    llm = {"model": "openai/gpt-5", "temperature": 0.5, "base_url": "http://elsewhere"}
    context = {"flow_id": "17", "flow_class": "Report", "method_name": "review", "llm": llm}
    daemon.client().set("crewai/pending/17", {"method": "review", "state": {}, "context": json.dumps(context)})
    (tmp_path / "go_on.py").write_text(
        "from crdtsync.adapters.crewai import CrdtFlowPersistence\n"
        "for settings in ({}, {'base_url': 'http://gpu'}, {'base_url': 'http://elsewhere'}):\n"
        "    try:\n"
        "        print(CrdtFlowPersistence(llm_settings=settings).load_pending_feedback('17')[1].llm['base_url'])\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
    )
    told = run_with(NAME, daemon, tmp_path / "go_on.py").splitlines()
    assert told == ["ValueError", "ValueError", "http://elsewhere"]


def test_what_two_hosts_do_that_are_cut_off(parted: Cluster) -> None:
    """The states of one flow are both kept, and what was remembered both know afterwards."""
    program, sockets = FRAMEWORKS / NAME / "apart.py", [str(daemon.socket) for daemon in parted]
    said = ["the build runs on fridays", "the build needs two hours"]

    def told(word: str) -> list[str]:
        lines = run_with(NAME, parted[0], program, word, *sockets).splitlines()
        return [line for line in lines if line.startswith("{")]  # the others are CrewAI's

    assert told("use") == [f"{{'by': {number}}} ['{text}']" for number, text in enumerate(said)]
    states = healed(parted)
    (kept,) = states[0].conflicts("crewai/")
    assert sorted(each.value["state"]["by"] for each in (kept, *kept.siblings)) == [0, 1]
    remembered = {record["record"]["content"]: (key, record) for key, record in states[0].items("crewai/memory/")}
    key, record = remembered[said[1]]  # the older one is recalled second
    states[0].set("crewai/memory/1", {"record": 3})
    states[0].set("crewai/memory/2", {**record, "vector": b"no vector"})
    states[0].set("crewai/memory/3", {**record, "vector": bytes(40)})
    states[0].set(key, {**record, "record": {**record["record"], "created_at": "2026-01-01T00:00:00+02:00"}})
    healed(parted)
    assert told("show") == [f"{kept.value['state']} {said}"] * 2, "what is no record, or of another model, is left out"
