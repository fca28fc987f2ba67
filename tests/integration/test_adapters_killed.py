"""Two hosts write through each adapter at once, and one of their daemons is killed meanwhile."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.harness import Cluster
from tests.harness.cluster import healed
from tests.harness.frameworks import ROOT, environment, python_with, run_with
from tests.harness.shell import Running

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

KINDS = {
    "openai-agents": ["openai_session", "openai_branches"], "google-adk": ["google_adk"], "crewai": ["crewai"],
    "agent-framework": ["agent_framework"], "llama-index": ["llama_index"], "pydantic-ai": ["pydantic_ai"],
    "langgraph": ["langgraph_saver", "langgraph_delta", "langgraph_store"], "autogen": ["autogen"],
}  # fmt: skip
WRITERS = Path(__file__).with_name("adapter_writers.py")
ROUND = 5


@pytest.mark.parametrize("name", KINDS)
def test_all_that_was_acknowledged_is_on_both_hosts_once(name: str, pair: Cluster) -> None:
    """The writers wait for the daemon while it is away, and go on."""
    kinds = ",".join(KINDS[name])
    command = [str(python_with(name)), str(WRITERS), kinds, "write"]
    acknowledged: dict[str, int] = {}

    def write(*which: int) -> None:
        for at in which * ROUND:
            line = writers[at].line()
            assert line, writers[at].interrupt()[1]
            acknowledged[pair[at].name] = int(line)

    writers = [Running([*command, daemon.name], environment(CRDTSYNC_SOCKET=daemon.socket), ROOT) for daemon in pair]
    with writers[0], writers[1]:
        write(0, 1)
        pair[0].kill()
        write(1)
        pair.start()
        write(0, 1)
    healed(pair)
    show = partial(run_with, name, pair[0], WRITERS, kinds)
    sockets = [str(daemon.socket) for daemon in pair]
    told = show("show", *sockets).splitlines()
    wanted = {f"{who} {number}." for who, last in acknowledged.items() for number in range(last + 1)}
    here, there = (json.loads(line) for line in told[-2:])
    assert [*here] == KINDS[name]
    for kind, shown in here.items():
        assert sorted(shown) == sorted(there[kind]), kind
        assert len(shown) == len(set(shown)), f"{kind}: nothing is there twice\n{show('explain', *sockets)}"
        assert wanted - {*shown} == set(), kind
