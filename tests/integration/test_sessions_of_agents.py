"""Real coding agents: one works, another on another host under another user goes on, and the first one again.

What counts is what the next model is asked: its first request holds the whole conversation, in order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster
from tests.harness.coding_agents import (
    CLAUDE,
    CODEX,
    GEMINI,
    MORE_PACKAGES,
    OLD_CLAUDE,
    OLD_CODEX,
    OLD_PACKAGES,
    OPENCODE,
    PACKAGES,
    run_claude,
    run_codex,
    run_gemini,
    run_opencode,
)
from tests.harness.model_endpoint import ModelEndpoint, OwnTool
from tests.harness.npm import installed
from tests.harness.shell import Shell

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the two command lines are; skips the tests if npm cannot bring them."""
    place = tmp_path_factory.mktemp("coding-agents")
    return installed("CRDTSYNC_TEST_CODING_AGENTS", place, PACKAGES, [CODEX, CLAUDE])


@pytest.fixture(scope="module")
def more_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of Gemini CLI and OpenCode."""
    place = tmp_path_factory.mktemp("more-coding-agents")
    return installed("CRDTSYNC_TEST_MORE_CODING_AGENTS", place, MORE_PACKAGES, [GEMINI, OPENCODE])


@pytest.fixture(scope="module")
def old_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first two as they were in the autumn of 2025."""
    place = tmp_path_factory.mktemp("old-coding-agents")
    return installed("CRDTSYNC_TEST_OLD_CODING_AGENTS", place, OLD_PACKAGES, [OLD_CODEX, OLD_CLAUDE])


class Person:
    """A user on a host, with a home, a directory and the command line of crdtsync."""

    def __init__(self, place: Path, name: str, socket: Path) -> None:
        self.home = place / name
        self.work = self.home / f"api-of-{name}"
        self.work.mkdir(parents=True)
        (self.work / "a.txt").write_text("alpha\n")
        self.crdtsync = Shell(socket, self.home)
        for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            self.crdtsync.environment.pop(variable, None)
        self.crdtsync.environment["HOME"] = str(self.home)

    def json(self, *arguments: str) -> Any:
        (found,) = self.crdtsync.json("session", *arguments, "--json")
        return found


@pytest.fixture
def people(pair: Cluster, tmp_path: Path) -> tuple[Person, Person]:
    return Person(tmp_path, "ann", pair[0].socket), Person(tmp_path, "bob", pair[1].socket)


def sync(pair: Cluster, source: int, target: int) -> None:
    pair[target].client("sync").wait(pair[source].client("sync").now())


def assert_in_order(request: dict[str, Any], words: list[str]) -> None:
    """The words stand in the conversation that a model is sent, one after the other."""
    said = request.get("contents") or request.get("input") or request["messages"]
    told = json.dumps([one for one in said if one.get("role") != "system"], ensure_ascii=False)
    at = 0
    for word in words:
        found = told.find(word, at)
        assert found >= 0, f"{word!r} is missing after {told[max(0, at - 200) : at]!r}"
        at = found + len(word)


def calls(request: dict[str, Any]) -> list[str]:
    """The ids of calls and of results, in order."""
    items = request.get("input") or [block for one in request["messages"] for block in one["content"]]
    names = ("call_id", "tool_use_id")
    return [item[name] for item in items if isinstance(item, dict) for name in names if name in item] or [
        item["id"] for item in items if isinstance(item, dict) and item.get("type") == "tool_use"
    ]


SAID = ["what is in a.txt?", "cat a.txt", "alpha", "It says alpha.", "and now?", "echo two-$((40+2))", "two-42", "Two."]


def test_claude_code_to_codex_and_back(programs: Path, pair: Cluster, people: tuple[Person, Person]) -> None:
    ann, bob = people
    script = ModelEndpoint([OwnTool("Bash", {"command": "cat a.txt", "description": "read"}), "It says alpha."])
    run_claude(programs, ann.home, ann.work, script, SAID[0])
    script = ModelEndpoint([OwnTool("Bash", {"command": SAID[5], "description": "count"}), "Two."])
    run_claude(programs, ann.home, ann.work, script, SAID[4], "-c")
    saved = ann.json("save", "--latest")
    sync(pair, 0, 1)

    done = bob.json("handover", saved["id"], "--to", "codex", "--in", str(bob.work))
    assert (done["state"], done["turns"]) == ("new", 2)
    assert done["command"] == f"cd {bob.work} && codex resume {done['id']}"
    assert bob.json("handover", saved["id"], "--to", "codex", "--in", str(bob.work))["state"] == "same"
    script = ModelEndpoint([OwnTool("exec_command", {"cmd": "echo three-$((1+2))"}), "Three."])
    run_codex(programs, bob.home, bob.work, script, "resume", done["id"], "go on to three")
    first = script.requests[0]
    assert_in_order(first, ["begun with Claude Code", *SAID, "go on to three"])
    assert str(bob.work) in json.dumps(first["input"])
    assert [item["name"] for item in first["input"] if item["type"] == "function_call"] == ["exec_command"] * 2
    assert "three-3" in script.seen()

    back = bob.json("save", "--latest", "--from", "codex")
    assert back["id"] == done["id"]
    sync(pair, 1, 0)
    done = ann.json("handover", back["id"], "--to", "claude-code", "--in", str(ann.work))
    script = ModelEndpoint(["Four."])
    run_claude(programs, ann.home, ann.work, script, "go on to four", "--resume", done["id"])
    asked = next(request for request in script.requests if request.get("tools"))
    assert_in_order(asked, ["begun with Codex", *SAID, "go on to three", "three-3", "Three.", "go on to four"])
    blocks = [block for one in asked["messages"] if isinstance(one["content"], list) for block in one["content"]]
    assert [block["name"] for block in blocks if block["type"] == "tool_use"] == ["Bash"] * 3
    given = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == given


def test_both_resume_on_another_host_under_another_user(
    programs: Path, pair: Cluster, people: tuple[Person, Person]
) -> None:
    ann, bob = people
    for program, tool, argument in ((run_claude, "Bash", "command"), (run_codex, "exec_command", "cmd")):
        is_claude = program is run_claude
        script = ModelEndpoint([OwnTool(tool, {argument: "cat a.txt", "description": "x"}), "It says alpha."])
        program(programs, ann.home, ann.work, script, "what is in a.txt?")
        saved = ann.json("save", "--latest", "--from", "claude-code" if is_claude else "codex")
        sync(pair, 0, 1)
        bob.json("load", saved["id"][:13], "--in", str(bob.work))
        script = ModelEndpoint(["Done."])
        resume = ("go on", "--resume", saved["id"]) if is_claude else ("resume", saved["id"], "go on")
        program(programs, bob.home, bob.work, script, *resume)
        asked = next(request for request in script.requests if request.get("tools"))
        assert_in_order(asked, ["what is in a.txt?", "cat a.txt", "alpha", "It says alpha.", "go on"])
        assert bob.json("save", saved["id"])["turns"] == 2
        sync(pair, 1, 0)
        loaded = ann.json("load", saved["id"], "--in", str(ann.work))
        assert "grown" in loaded["files"].values()
        branched = ann.json("branch", saved["id"], "--at", "1", "--in", str(ann.work))
        script = ModelEndpoint(["Done."])
        resume = ("another way", "--resume", branched["id"]) if is_claude else ("resume", branched["id"], "another way")
        program(programs, ann.home, ann.work, script, *resume)
        asked = next(request for request in script.requests if request.get("tools"))
        assert_in_order(asked, ["what is in a.txt?", "cat a.txt", "alpha", "It says alpha.", "another way"])
        assert "go on" not in json.dumps(asked.get("input") or asked["messages"]).replace("goes on", "")


def test_sessions_of_old_versions_come_back_to_the_byte_and_go_on_with_new_ones(
    old_programs: Path, programs: Path, pair: Cluster, people: tuple[Person, Person]
) -> None:
    ann, bob = people
    script = ModelEndpoint([OwnTool("Bash", {"command": "cat a.txt", "description": "x"}), "It says alpha."])
    run_claude(old_programs, ann.home, ann.work, script, SAID[0], program=OLD_CLAUDE)
    script = ModelEndpoint([OwnTool("shell", {"command": ["bash", "-lc", "cat a.txt"]}), "It says alpha."])
    run_codex(old_programs, ann.home, ann.work, script, SAID[0], program=OLD_CODEX)
    for agent, other in (("claude-code", "codex"), ("codex", "claude-code")):
        saved = ann.json("save", "--latest", "--from", agent)
        (path,) = ann.home.glob(f"**/*{saved['id']}.jsonl")
        before = path.read_bytes()
        path.unlink()
        assert ann.json("load", saved["id"])["files"][str(path)] == "new"
        assert path.read_bytes() == before
        sync(pair, 0, 1)
        done = bob.json("handover", saved["id"], "--to", other, "--in", str(bob.work))
        renewed = bob.json("branch", saved["id"], "--in", str(bob.work))  # Codex reads no sessions so old itself
        for program, session in ((other, done["id"]), (agent, renewed["id"])):
            script = ModelEndpoint(["Done."])
            if program == "codex":
                run_codex(programs, bob.home, bob.work, script, "resume", session, "go on")
            else:
                run_claude(programs, bob.home, bob.work, script, "go on", "--resume", session)
            assert_in_order(asked(script), [SAID[0], "cat a.txt", "alpha", "It says alpha.", "go on"])


def asked(script: ModelEndpoint) -> dict[str, Any]:
    """What the model was asked first, side questions aside."""
    return next(request for request in script.requests if request.get("tools"))


@pytest.mark.parametrize("agent", ["gemini-cli", "opencode"])
def test_other_agents_take_over_and_give_back_and_resume_elsewhere(
    agent: str, programs: Path, more_programs: Path, pair: Cluster, people: tuple[Person, Person]
) -> None:
    ann, bob = people
    shell = "bash" if agent == "opencode" else "run_shell_command"

    def go_on(person: Person, script: ModelEndpoint, prompt: str, loaded: dict[str, Any] | None = None) -> None:
        options: tuple[str, ...] = ()
        if agent == "gemini-cli":
            options = ("--resume", loaded["id"]) if loaded else ()
            run_gemini(more_programs, person.home, person.work, script, *options, "-p", prompt)
            return
        if loaded:
            path = loaded.get("path") or next(iter(loaded["files"]))
            run_opencode(more_programs, person.home, person.work, script, "import", path)
            options = ("--session", loaded["id"])
        run_opencode(more_programs, person.home, person.work, script, "run", *options, prompt)

    if agent == "opencode":  # it has been used before, so that it has a model
        run_opencode(more_programs, bob.home, bob.work, ModelEndpoint([]), "session", "list")
    first, second = SAID[:4], ["and now?", "wc -l a.txt", "1 a.txt", "Two."]
    script = ModelEndpoint([OwnTool("Bash", {"command": "cat a.txt", "description": "x"}), "It says alpha."])
    run_claude(programs, ann.home, ann.work, script, SAID[0])
    saved = ann.json("save", "--latest", "--from", "claude-code")
    sync(pair, 0, 1)
    done = bob.json("handover", saved["id"], "--to", agent, "--in", str(bob.work))
    script = ModelEndpoint([OwnTool(shell, {"command": second[1], "description": "x"}), "Two."])
    go_on(bob, script, second[0], done)
    assert_in_order(asked(script), ["begun with Claude Code", *first, second[0]])

    back = bob.json("save", done["id"])
    assert (back["agent"], back["turns"], back["title"]) == (agent, 2, SAID[0])
    sync(pair, 1, 0)
    done = ann.json("handover", back["id"], "--to", "codex", "--in", str(ann.work))
    script = ModelEndpoint(["Three."])
    run_codex(programs, ann.home, ann.work, script, "resume", done["id"], "go on to three")
    assert_in_order(asked(script), [*first, *second, "go on to three"])

    loaded = ann.json("load", back["id"], "--in", str(ann.work))
    assert list(loaded["files"].values()) == ["new"]
    script = ModelEndpoint(["Four."])
    go_on(ann, script, "go on to four", loaded)
    assert_in_order(asked(script), [*first, *second, "go on to four"])
    ann.json("save", back["id"])
    sync(pair, 0, 1)
    loaded = bob.json("load", back["id"], "--in", str(bob.work))
    assert list(loaded["files"].values()) == ["grown"]
    script = ModelEndpoint(["Five."])
    go_on(bob, script, "go on to five", loaded)
    assert_in_order(asked(script), [*first, *second, "go on to four", "Four.", "go on to five"])
