"""Claude Code's files: ``projects/SLUG/ID.jsonl`` below its directory, and a folder ``ID`` beside that.

SLUG is the directory that the agent works in, with dashes; it resumes only what lies under the SLUG of the directory
where it is started.
"""

# ruff: noqa: D102, ARG002  # the methods are those of Agent

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from crdtsync.sessions.agents.agent import CLAUDE_CODE, Agent
from crdtsync.sessions.agents.description import Description, added, as_dict, as_list, as_text, records, titled

_SLUG_CHARS_MAX = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def slug(cwd: str) -> str:
    """The name of the folder for sessions in ``cwd``, a path without symbolic links."""
    units = cwd.encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    dashed = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    if len(dashed) <= _SLUG_CHARS_MAX:
        return dashed
    hashed = 0
    for code in codes:
        hashed = (hashed * 31 + code) & 0xFFFFFFFF
    hashed = abs(hashed - (1 << 32) if hashed >= 1 << 31 else hashed)
    word = ""
    while hashed:
        hashed, digit = divmod(hashed, 36)
        word = _DIGITS[digit] + word
    return f"{dashed[:_SLUG_CHARS_MAX]}-{word or '0'}"


_NOT_SAID = re.compile(r"\s*<(?:command-|local-command|bash-|system-reminder|task-notification)|Caveat: ")


_USAGE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class ClaudeCode(Agent):
    """Claude Code."""

    name, title, folder, variable = CLAUDE_CODE, "Claude Code", ".claude", "CLAUDE_CONFIG_DIR"

    def found(self, root: Path, session: str = "*") -> list[Path]:
        paths = root.glob(f"projects/*/{session}.jsonl")
        return [path for path in paths if self.ids.fullmatch(path.stem) and path.is_file()]

    def session_of(self, path: Path) -> str:
        return path.stem

    def side_files(self, path: Path) -> dict[str, Path]:
        folder = path.with_suffix("")
        return {str(one.relative_to(folder)): one for one in sorted(folder.rglob("*")) if one.is_file()}

    def place(self, root: Path, session: str, cwd: str, before: str = "", time: str = "") -> str:
        return f"projects/{slug(cwd)}/{session}.jsonl"

    def side_place(self, main: Path, name: str) -> Path:
        return main.with_suffix("") / name

    def resume_command(self, session: str, main: Path) -> str:
        return f"claude --resume {session}"

    def described(self, lines: Iterable[bytes], before: Description | None = None) -> Description:
        about = before or Description()
        title = ""
        for record in records(lines):
            about.cwd = about.cwd or as_text(record.get("cwd"))
            about.version = as_text(record.get("version")) or about.version
            if record.get("type") == "custom-title":
                title = titled(as_text(record.get("customTitle"))) or title
            message = as_dict(record.get("message"))
            if record.get("type") == "assistant" and as_text(message.get("model")) != "<synthetic>":
                about.model = as_text(message.get("model")) or about.model
                about.tokens = added(as_dict(message.get("usage")), *_USAGE) or about.tokens
            if is_said(record):
                about.said(said_text(message.get("content")))
        about.title = title or about.title
        return about


def is_said(record: dict[str, object]) -> bool:
    """Whether a person said this, and no tool, hook or sub-agent."""
    if record.get("type") != "user" or record.get("isSidechain") or record.get("isMeta"):
        return False
    content = as_dict(record.get("message")).get("content")
    if record.get("isCompactSummary") or any(as_dict(one).get("type") == "tool_result" for one in as_list(content)):
        return False
    return bool(said_text(content)) and not _NOT_SAID.match(said_text(content))


def said_text(content: object) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    return "\n".join(
        as_text(as_dict(one).get("text")) for one in as_list(content) if as_dict(one).get("type") == "text"
    )
