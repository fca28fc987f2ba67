"""Codex's files: ``sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`` below its directory.

What else lies there, SQLite and indexes, is made anew from these files.
"""

# ruff: noqa: D102, ARG002  # the methods are those of Agent

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from crdtsync.sessions.agents.agent import CODEX, Agent
from crdtsync.sessions.agents.description import Description, added, as_dict, as_list, as_text, records

_ID = re.compile(r"rollout-.*?-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z")
_PLACE = re.compile(r"sessions/(?:[\w-]+/){0,4}rollout-[\w-]+\.jsonl", re.ASCII)


class Codex(Agent):
    """Codex."""

    name, title, folder, variable = CODEX, "Codex", ".codex", "CODEX_HOME"

    def found(self, root: Path, session: str = "*") -> list[Path]:
        paths = root.glob(f"sessions/**/*{session.lstrip('*')}.jsonl")
        return [path for path in paths if path.is_file() and _ID.match(path.stem)]

    def session_of(self, path: Path) -> str:
        match = _ID.match(path.stem)
        return match[1] if match else path.stem

    def place(self, root: Path, session: str, cwd: str, before: str = "", time: str = "") -> str:
        if _PLACE.fullmatch(before) and before.endswith(f"-{session}.jsonl"):
            return before
        time = time or "2000-01-01T00:00:00"
        return f"sessions/{time[:10].replace('-', '/')}/rollout-{time[:19].replace(':', '-')}-{session}.jsonl"

    def resume_command(self, session: str, main: Path) -> str:
        return f"codex resume {session}"

    def described(self, lines: Iterable[bytes], before: Description | None = None) -> Description:
        about = before or Description()
        for record in records(lines):
            payload = as_dict(record.get("payload"))
            match record.get("type"):
                case "session_meta":
                    about.cwd = about.cwd or as_text(payload.get("cwd"))
                    about.version = as_text(payload.get("cli_version")) or about.version
                    parent = as_text(as_dict(payload.get("history_base")).get("thread_id"))
                    if parent and parent not in about.needs:
                        about.needs.append(parent)
                case "turn_context":
                    about.model = as_text(payload.get("model")) or about.model
                case "event_msg" if payload.get("type") == "token_count":
                    last = as_dict(as_dict(payload.get("info")).get("last_token_usage"))
                    about.tokens = added(last, "total_tokens") or about.tokens
                case "response_item" if is_said(payload):
                    about.said(said_text(payload))
        return about


def is_said(item: dict[str, object]) -> bool:
    """Whether a person said this, and not the harness: it marks what is its own, or puts it into a tag."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    passed = as_dict(item.get("internal_chat_message_metadata_passthrough") or item.get("metadata"))
    kinds = as_list(passed.get("content_item_kinds"))
    if kinds:
        return any(as_text(kind).startswith("user.") for kind in kinds)
    return not re.match(r"\s*<(?:environment_context|user_instructions|turn_aborted|INSTRUCTIONS|skill|permissions)|"
                        r"\[Note of crdtsync to |"
                        r"# AGENTS\.md instructions", said_text(item))  # fmt: skip


def said_text(item: dict[str, object]) -> str:
    """The text of a message."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(as_text(as_dict(one).get("text")) for one in as_list(content) if "text" in as_dict(one))
