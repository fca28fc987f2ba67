"""Two real coding agents on two hosts share a plan: their own command lines, against a scripted model on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from crdtsync import Client
from crdtsync.sessions import Sessions
from tests.harness.cluster import Cluster
from tests.harness.coding_agents import CLAUDE, CODEX, CODEX_SETTINGS, PACKAGES, QUIET, environment, run
from tests.harness.daemon import Daemon
from tests.harness.model_endpoint import ModelEndpoint
from tests.harness.npm import installed

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the two command lines are; skips the tests if npm cannot bring them."""
    place = tmp_path_factory.mktemp("coding-agents")
    return installed("CRDTSYNC_TEST_CODING_AGENTS", place, PACKAGES, [CODEX, CLAUDE])


def install(daemon: Daemon, client: str, variables: dict[str, str], directory: Path, *options: str) -> None:
    """What a user does: ``crdtsync mcp install``."""
    command = [sys.executable, "-m", "crdtsyncd.cli", "mcp", "install", "--client", client, *options]
    subprocess.run(
        [*command, "--socket", str(daemon.socket)], env=variables, cwd=directory, check=True, capture_output=True
    )


def codex(programs: Path, daemon: Daemon, home: Path, model: ModelEndpoint, prompt: str) -> str:
    """One run of Codex with the server that ``crdtsync mcp install`` has registered."""
    variables = environment(home, CODEX_HOME=str(home / "codex"), FAKE_KEY="x")
    (home / "codex").mkdir(exist_ok=True)
    with model.running() as address:
        settings = home / "codex" / "config.toml"
        settings.write_text(CODEX_SETTINGS.format(address=address))
        install(daemon, "codex", variables, home, "--agent", "codex")
        settings.write_text(settings.read_text() + "required = true\n")  # exec does not wait for servers without it
        return run([str(programs / CODEX), "exec", "--skip-git-repo-check", prompt], variables, home)


def claude(programs: Path, daemon: Daemon, home: Path, model: ModelEndpoint, prompt: str) -> str:
    """One run of Claude Code, likewise."""
    quiet = dict.fromkeys(QUIET, "1")
    (home / "claude").mkdir(parents=True, exist_ok=True)
    with model.running() as address:
        variables = environment(
            home, CLAUDE_CONFIG_DIR=str(home / "claude"), ANTHROPIC_BASE_URL=address, ANTHROPIC_API_KEY="x", **quiet
        )
        install(daemon, "claude-code", variables, home, "--agent", "claude", "--hooks")
        command = [str(programs / CLAUDE), "-p", prompt, "--allowedTools", "mcp__crdtsync"]
        return run(command, variables, home)


def test_one_writes_a_plan_and_the_other_is_told_and_does_its_task(programs: Path, pair: Cluster, tmp_path: Path):
    first = ModelEndpoint(
        [
            ("write", {"key": "plan/api", "value": {"step": 1, "what": "write the parser"}}),
            ("append", {"key": "findings", "value": "the old parser loses comments"}),
            ("put_task", {"key": "tasks/parser", "task": "keep the comments"}),
            "I wrote the plan.",
        ]
    )
    assert "I wrote the plan." in codex(programs, pair[0], tmp_path / "ann", first, "Write your plan to plan/api.")
    assert "wrote plan/api" in first.seen()

    bob = pair[1].client("bob")
    token = pair[0].client("ann").now()
    second = ModelEndpoint(
        [
            ("take_task", {"timeout_s": 60}),
            ("finish_task", {"key": "tasks/parser", "result": "they are kept"}),
            ("read", {"keys": ["plan/api"]}),
            ("write", {"key": "plan/api", "value": {"step": 2, "what": "test the parser"}}),
            "I took over.",
        ]
    )
    bob.wait(token)
    assert "I took over." in claude(programs, pair[1], tmp_path / "bob", second, "Go on with the work.")
    told = json.dumps(second.requests[0])  # by the hook, before it called anything
    assert "the old parser loses comments" in told
    assert "write the parser" in told
    assert "keep the comments" in second.seen()
    assert "tasks/parser is done" in second.seen()
    (task,) = bob.tasks("tasks/")
    assert (task.state, task.result, task.worker.split()[0]) == ("done", "they are kept", "claude")
    assert bob.get("plan/api") == {"step": 2, "what": "test the parser"}
    assert_written_by(bob, "plan/api", ["claude", "codex"])


def assert_written_by(client: Client, key: str, agents: list[str]) -> None:
    entry = client.entry(key)
    assert entry is not None
    assert [entry.agent, *(past.agent for past in client.history(key) if past.value != entry.value)] == agents


class Hooked:
    """A coding agent with our hooks, in a project of its own: each call is one turn, in the session of the last one."""

    def __init__(self, client: str, programs: Path, daemon: Daemon, home: Path, address: str) -> None:
        self._project, self.settings = home / "api", home / "settings"
        for folder in (home, self._project, self.settings):
            folder.mkdir()
        if client == "codex":
            self._variables = environment(home, CODEX_HOME=str(self.settings), FAKE_KEY="x")
            (self.settings / "config.toml").write_text(CODEX_SETTINGS.format(address=address))
            self._command = [str(programs / CODEX), "exec", "--skip-git-repo-check"]
            self._command += ["--dangerously-bypass-hook-trust"]  # in the place of a person who looks at them
            self._again, self.hooks = ["resume", "--last"], self.settings / "hooks.json"
        else:
            keys = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "x"}
            self._variables = environment(
                home, CLAUDE_CONFIG_DIR=str(self.settings), **keys, **dict.fromkeys(QUIET, "1")
            )
            self._command = [str(programs / CLAUDE), "-p"]
            self._again, self.hooks = ["-c"], self.settings / "settings.json"
        install(daemon, client, self._variables, self._project, "--hooks")

    def says(self, prompt: str, *, again: bool = False) -> None:
        run([*self._command, *(self._again if again else []), prompt], self._variables, self._project)


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_hooks_show_the_state_tell_what_is_new_and_save_the_session(
    client: str, programs: Path, daemon: Daemon, tmp_path: Path
):
    ann = daemon.client("ann")
    ann.set("plan/goal", "ship version 2")
    model = ModelEndpoint(["I read it.", "So I see."])
    with model.running() as address:
        agent = Hooked(client, programs, daemon, tmp_path / "home", address)
        agent.says("What is the goal?")
        assert "ship version 2" in model.seen()
        (saved,) = Sessions(ann).ls()
        assert (saved.agent, saved.title, saved.turns) == (client, "What is the goal?", 1)

        hooks = json.loads(agent.hooks.read_text())
        del hooks["hooks"]["SessionStart"]  # a turn of a session that goes on: these command lines begin anew each time
        agent.hooks.write_text(json.dumps(hooks))
        entry = ann.entry(f"sessions/{saved.id}")
        assert entry is not None
        assert entry.agent is not None
        daemon.client(entry.agent).set("plan/own", "a step of my own")
        ann.set("plan/disk", "the disk is full")
        agent.says("And now?", again=True)
        assert "the disk is full" in json.dumps(model.requests[-1])
        assert "a step of my own" not in model.seen()
        (saved,) = Sessions(ann).ls()
        assert saved.turns == 2
        assert "So I see." in str(Sessions(ann).conversation(saved.id))

        daemon.kill()
        agent.says("Is anybody there?", again=True)
        last = json.dumps(model.requests[-1]["messages" if client == "claude-code" else "input"][-1])
        assert not any(word in last for word in ("session hook", "hook error", "your team", "What others"))
        daemon.start()
