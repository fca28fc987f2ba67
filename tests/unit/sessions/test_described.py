"""What a record tells of a session besides its lines."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from crdtsync.sessions.agents.places import AGENTS
from crdtsync.sessions.moving.commit import commit_of


@pytest.mark.parametrize(
    "agent, record",
    [
        ("claude-code", {"type": "assistant", "message": {"usage": {
            "input_tokens": 2, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 5,
            "service_tier": "standard"}}}),
        ("codex", {"type": "event_msg", "payload": {"type": "token_count", "info": {
            "total_token_usage": {"total_tokens": 900}, "last_token_usage": {"total_tokens": 117}}}}),
        ("gemini-cli", {"type": "gemini", "id": "1", "tokens": {"input": 110, "output": 7, "total": 117}}),
        ("opencode", {"info": {"role": "assistant", "tokens": {
            "input": 2, "output": 4, "reasoning": 1, "cache": {"read": 100, "write": 10}}}, "parts": []}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_tokens_are_those_of_the_last_answer_that_tells_them(agent: str, record: dict[str, Any]):
    lines = [json.dumps(one).encode() + b"\n" for one in (record, {"type": "assistant"}, {"tokens": 3, "info": None})]
    assert AGENTS[agent].described(lines).tokens == 117


def git(folder: Path, *arguments: str) -> str:
    own = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    done = subprocess.run(["git", *own, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_commit_is_the_one_that_git_names(tmp_path: Path):
    work, below, tree = tmp_path / "api", tmp_path / "api" / "src", tmp_path / "tree"
    below.mkdir(parents=True)
    assert commit_of(str(work)) == ""
    git(work, "init", "-q", "-b", "main")
    assert commit_of(str(work)) == ""
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    one = git(work, "rev-parse", "HEAD")
    assert commit_of(str(below)) == one
    git(work, "pack-refs", "--all")
    assert commit_of(str(work)) == one
    git(work, "worktree", "add", "-q", str(tree), "-b", "other")
    git(tree, "commit", "-q", "--allow-empty", "-m", "two")
    assert commit_of(str(tree)) == git(tree, "rev-parse", "HEAD") != one
    git(work, "checkout", "-q", "--detach")
    assert commit_of(str(work)) == one


def test_nothing_but_a_commit_is_told(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "secret").write_text("hunter2\n")
    for head in ("ref: ../secret\n", "\0\n", "hunter2\n", "ref: \n"):
        (tmp_path / ".git" / "HEAD").write_text(head)
        assert commit_of(str(tmp_path)) == ""
    (tmp_path / ".git" / "HEAD").write_bytes(b"\xff")
    assert commit_of(str(tmp_path)) == commit_of("") == ""
