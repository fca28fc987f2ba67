"""Gemini CLI's files: ``tmp/PROJECT/chats/session-TIME-ID8.jsonl`` below its directory.

PROJECT is a name that it gives to each directory that it works in; the file ``.project_root`` beside ``chats`` says
which one that is. A message that changes stands there again, under the same id. Versions before 0.50 or so kept a
session as one JSON document; that is not read.
"""

# ruff: noqa: D102, ARG002  # the methods are those of Agent

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from crdtsync.sessions.agents.agent import GEMINI_CLI, Agent
from crdtsync.sessions.agents.description import Description, added, as_dict, as_list, as_text, records

_PLACE = re.compile(r"session-[\w-]+\.jsonl", re.ASCII)
_DIRECTORY = re.compile(r"\*\*Workspace Directories:\*\*\s+- (\S[^\n]*)")
_HARNESS = re.compile(r"\s*<(?:session_context|hook_context|state_snapshot|system-reminder)|\[Note of crdtsync to ")


class GeminiCli(Agent):
    """Gemini CLI. It may begin another file under the id that it resumes: the larger one is meant."""

    name, title, folder, variable, below = GEMINI_CLI, "Gemini CLI", ".gemini", "GEMINI_CLI_HOME", ".gemini"

    def found(self, root: Path, session: str = "*") -> list[Path]:
        best: dict[str, Path] = {}
        for path in root.glob(f"tmp/*/chats/session-*{session[:8].lstrip('*')}.jsonl"):
            name = self.session_of(path)
            if session in ("*", name) and (name not in best or path.stat().st_size > best[name].stat().st_size):
                best[name] = path
        return list(best.values())

    def session_of(self, path: Path) -> str:
        with path.open("rb") as file:
            first = next(records([file.readline(1_000_000)]), {})
        return as_text(first.get("sessionId")) or path.stem

    def place(self, root: Path, session: str, cwd: str, before: str = "", time: str = "") -> str:
        name = Path(before).name
        if not (_PLACE.fullmatch(name) and name.endswith(f"-{session[:8]}.jsonl")):
            name = f"session-{(time or '2000-01-01T00:00')[:16].replace(':', '-')}-{session[:8]}.jsonl"
        return f"tmp/{_project(root, cwd)}/chats/{name}"

    def prepare(self, root: Path, cwd: str) -> None:
        marker = root / "tmp" / _project(root, cwd) / ".project_root"
        marker.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not marker.exists():
            marker.write_text(cwd)

    def resume_command(self, session: str, main: Path) -> str:
        return f"gemini --resume {session}"

    def described(self, lines: Iterable[bytes], before: Description | None = None) -> Description:
        about = before or Description()
        for record in records(lines):
            about.cwd = about.cwd or as_text(record.get("cwd"))
            about.model = as_text(record.get("model")) or about.model
            about.tokens = added(as_dict(record.get("tokens")), "total") or about.tokens
            messages = as_list(as_dict(record.get("$set")).get("messages"))
            for message in map(as_dict, messages):
                there = _DIRECTORY.search(said_text(message))
                about.cwd = about.cwd or (there[1] if there else "")
            if is_said(record):
                about.said(said_text(record))
        return about


def _project(root: Path, cwd: str) -> str:
    markers = {one.parent.name: one.read_text() for one in root.glob("tmp/*/.project_root")}
    for name, of in sorted(markers.items()):
        if of == cwd:
            return name
    own = re.sub(r"[^a-z0-9]+", "-", Path(cwd).name.lower()).strip("-") or "project"
    names = (own if number == 0 else f"{own}-{number}" for number in range(len(markers) + 1))
    return next(name for name in names if name not in markers)


def is_said(message: dict[str, object]) -> bool:
    """Whether a person said this, and not the harness."""
    return message.get("type") == "user" and bool(said_text(message)) and not _HARNESS.match(said_text(message))


def said_text(message: dict[str, object]) -> str:
    """The text of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(as_text(as_dict(part).get("text")) for part in as_list(content) if "text" in as_dict(part))
