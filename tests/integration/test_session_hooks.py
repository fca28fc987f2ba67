"""What the hooks of coding agents are told: the command that these run, with their events on stdin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon
from tests.harness.shell import Done, Shell

pytestmark = pytest.mark.integration


class Hooks:
    """The hooks of one session of Codex in the project ``api``."""

    def __init__(self, daemon: Daemon, directory: Path) -> None:
        self._shell = Shell(daemon.socket, directory)
        self._home = directory

    def run(self, event: str, *options: str, session: str = "s1", **more: str) -> Done:
        stdin = json.dumps({"hook_event_name": event, "session_id": session, "cwd": "/srv/api"})
        home = {"HOME": str(self._home), "CODEX_HOME": str(self._home / "codex"), **more}
        return self._shell("session", "hook", "--from", "codex", *options, stdin=stdin, **home)

    def told(self, event: str, *options: str, session: str = "s1") -> str:
        done = self.run(event, *options, session=session)
        assert (done.status, done.err) == (0, "")
        return done.out


def test_a_session_is_told_the_state_once_and_then_what_others_change(daemon: Daemon, tmp_path: Path):
    ann, own, hooks = daemon.client("ann"), daemon.client("codex-mcp-client-api"), Hooks(daemon, tmp_path)
    assert hooks.told("SessionStart") == ""
    ann.set("plan/goal", "ship")
    told = hooks.told("SessionStart")
    assert "you are codex-mcp-client-api" in told
    assert "**plan/goal** (ann, " in told
    assert hooks.told("UserPromptSubmit") == ""

    own.set("plan/step", "mine")
    own.append("findings", "my finding")
    assert hooks.told("UserPromptSubmit") == ""
    ann.append("findings", "the disk is full")
    own.append("findings", "I have more")
    ann.delete("plan/goal")
    told = hooks.told("UserPromptSubmit")
    assert "the disk is full" in told
    assert "Gone: plan/goal." in told
    assert "plan/step" not in told
    assert "the disk is full" in hooks.told("UserPromptSubmit", session="another one")


def test_an_agent_is_shown_the_view_that_has_its_name(daemon: Daemon, tmp_path: Path):
    ann, hooks = daemon.client("ann"), Hooks(daemon, tmp_path)
    ann.set("plan/goal", "ship")
    ann.set("tasks/1", "write the parser")
    Shell(daemon.socket, tmp_path).ok("view", "define", "bob", "--prefix", "tasks/")
    told = hooks.told("SessionStart", "--agent", "bob")
    assert "write the parser" in told
    assert "plan/goal" not in told
    ann.set("plan/goal", "wait")
    ann.set("tasks/2", "test it")
    told = hooks.told("UserPromptSubmit", "--agent", "bob")
    assert "test it" in told
    assert "plan/goal" not in told


def test_sessions_that_are_saved_are_no_news(daemon: Daemon, tmp_path: Path):
    ann, hooks = daemon.client("ann"), Hooks(daemon, tmp_path)
    hooks.told("SessionStart")
    ann.set("sessions/1", {"title": "a talk"})
    ann.append("sessions.lines/1/main", "a line")
    assert hooks.told("UserPromptSubmit") == ""


def test_it_is_silent_without_a_daemon_and_never_stops_a_turn(daemon: Daemon, tmp_path: Path):
    hooks = Hooks(daemon, tmp_path)
    hooks.told("SessionStart")
    saving = hooks.run("Stop")
    assert saving.status == 1  # 2 would stop the turn
    assert "no session s1" in saving.err
    refused = hooks.run("UserPromptSubmit", CRDTSYNC_AGENT_KEY="no key")
    assert (refused.status, refused.out) == (1, "")
    broken = Shell(daemon.socket, tmp_path)("session", "hook", "--from", "codex", stdin="[]")
    assert (broken.status, broken.err) == (1, "crdtsync: stdin holds no event of a hook\n")
    daemon.kill()
    assert [hooks.told(event) for event in ("SessionStart", "UserPromptSubmit", "Stop")] == ["", "", ""]
    daemon.start()
    daemon.client("ann").set("plan/goal", "ship")
    assert "ship" in hooks.told("UserPromptSubmit")
