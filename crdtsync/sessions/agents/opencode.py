"""OpenCode: rows of ``opencode.db`` in its directory, each session here a file ``exports/ID.json``.

It has no files of its own, but imports and exports JSON. So a session is written as a file as its ``export`` does, in
lines that only grow: one for each message with its parts, and its record as the end of the file. That is what it
imports, too.
"""

# ruff: noqa: D102, ARG002  # the methods are those of CodingAgent

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crdtsync.sessions.agents.agent import (
    NOTE,
    OPENCODE,
    CodingAgent,
    Description,
    Head,
    compacted,
    said_in,
    told_as_text,
)
from crdtsync.sessions.agents.fields import Fields, json_bytes, records, texts
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    USER,
    Call,
    Compaction,
    Conversation,
    Image,
    Own,
    Result,
    Text,
    Thinking,
)

_SESSION = "SELECT * FROM session WHERE id = ?"
_SESSIONS = "SELECT id, time_updated FROM session WHERE ? IN ('*', id)"
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT message_id, id, data FROM part WHERE session_id = ? ORDER BY id"
_MODEL = 'SELECT data FROM message WHERE data LIKE \'%"role":"user"%\' ORDER BY time_created DESC LIMIT 1'
_NAMES = {"project_id": "projectID", "parent_id": "parentID", "directory": "directory", "title": "title",
          "slug": "slug", "version": "version", "path": "path", "agent": "agent"}  # fmt: skip
_KEPT_BY_ITSELF = ("step-start", "step-finish", "snapshot", "patch", "agent", "retry")
_VERSION = "1.0.0"


class OpenCode(CodingAgent):
    """OpenCode. Importing adds the messages that its database lacks, and leaves the others as they are."""

    name, title, folder, variable = OPENCODE, "OpenCode", ".local/share/opencode", "XDG_DATA_HOME"
    shell, counted_as = ("bash", "command"), "claude"
    below, is_export = "opencode", True
    ids = re.compile(r"ses_[A-Za-z0-9]{1,60}")

    def found(self, root: Path, session: str = "*") -> list[Path]:
        if (root / "opencode.db").exists():
            with _database(root) as rows:
                for name, updated_ms in rows.execute(_SESSIONS, (session,)).fetchall():
                    if self.ids.fullmatch(name):
                        _export(rows, root / self.place(root, name, ""), name, updated_ms)
        return [path for path in root.glob(f"exports/{session}.json") if self.ids.fullmatch(path.stem)]

    def session_of(self, path: Path) -> str:
        return path.stem

    def model(self, root: Path) -> str:
        with suppress(OSError, ValueError, sqlite3.Error, TypeError):
            with _database(root) as rows:
                (used,) = rows.execute(_MODEL).fetchone()
            model = Fields(json.loads(used, object_hook=Fields)).sub("model")
            return f"{model['providerID']}/{model['modelID']}"
        with suppress(OSError):
            folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
            return next(records([(folder / "opencode" / "opencode.json").read_bytes()]), Fields()).text("model")
        return ""

    def side_files(self, path: Path) -> dict[str, Path]:
        self.found(path.parent.parent, path.stem)  # so that who follows the file sees what is new
        return {}

    def place(self, root: Path, session: str, cwd: str, before: str = "", time: str = "") -> str:
        return f"exports/{session}.json"

    def resume_command(self, session: str, main: Path) -> str:
        return f"opencode import {shlex.quote(str(main))} && opencode --session {session}"

    def described(self, lines: Iterable[bytes], before: Description | None = None) -> Description:
        about = before or Description()
        lines = list(lines)
        for message in _messages_in(lines):
            info = message.sub("info")
            about.cwd = about.cwd or info.sub("path").text("cwd")
            about.model = info.text("modelID") or about.model
            used = info.sub("tokens")
            cached = used.sub("cache").added("read", "write")
            about.tokens = used.added("input", "output", "reasoning") + cached or about.tokens
            if _is_said(message):
                about.said(_said(message))
        for end in (line for line in lines if line.startswith(b'],"info":')):
            info = next(records([end[9:-1]]), Fields())
            about.cwd = info.text("directory") or about.cwd
            about.title, about.version = info.text("title") or about.title, info.text("version")
        return about

    def new_id(self, uuid: str) -> str:
        return f"ses_{uuid.replace('-', '')[:26]}"

    def read(self, lines: Iterable[bytes], parents: Mapping[str, list[bytes]] | None = None) -> Conversation:
        found = Conversation()
        for message in _messages_in(lines):
            info, parts = message.sub("info"), message.each("parts")
            role = USER if info.get("role") == "user" else ASSISTANT
            time = _moment(info.sub("time").get("created"))
            if info.get("summary") is True and role == ASSISTANT:  # what is left of all that was before
                compacted(found, [Compaction(texts(parts), time)])
                continue
            if role == USER and not _is_said(message):
                found.lose("note of an earlier hand-over", "a new one takes its place")
                continue
            text, images, own = said_in([part for part in parts if part.get("type") in ("text", "file")], _image_in)
            if role == USER and (text or images or own):
                found.items.append(Text(USER, text, time, images, own))
            for part in parts:
                _add(found, part, role, time)
        return found

    def write(self, conversation: Conversation, head: Head) -> Iterator[bytes]:
        """The messages, and answers with the calls in them."""
        made = _Messages(head)
        calls: dict[str, dict[str, Any]] = {}
        for item in self._told(conversation, head):
            match item:
                case Call(call_id, name, arguments):
                    time = {"start": made.time_ms, "end": made.time_ms}
                    state = {"status": "completed", "input": arguments, "title": name, "metadata": {}, "time": time}
                    calls[call_id] = made.part(ASSISTANT, type="tool", tool=name, callID=call_id, state=state)["state"]
                case Result(call_id, text, images, is_error):
                    calls[call_id].update({"status": "error", "error": text} if is_error else {"output": text})
                    if images and not is_error:
                        calls[call_id]["attachments"] = [made.file(image) for image in images]
                case Thinking(own=Own(parts)):
                    made.part(ASSISTANT, **parts[0])
                case Text(role, text, _, images, own):
                    made.say(role, own.parts if own else [{"type": "text", "text": text}], images if not own else ())
        info = {"id": head.id, "slug": "crdtsync", "projectID": "global", "directory": head.cwd, "version": _VERSION,
                "title": head.title, "time": {"created": made.time_ms, "updated": made.time_ms}}  # fmt: skip
        yield from _document(made.messages, info)


@contextmanager
def _database(root: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{(root / 'opencode.db').as_uri()}?mode=ro", uri=True, timeout=10)) as rows:
        rows.row_factory = sqlite3.Row
        yield rows


def _export(rows: sqlite3.Connection, path: Path, session: str, updated_ms: int) -> None:
    if path.exists() and path.stat().st_mtime_ns >= updated_ms * 1_000_000:
        return
    row = dict(rows.execute(_SESSION, (session,)).fetchone())
    info: dict[str, Any] = {"id": session, **{name: row[column] for column, name in _NAMES.items() if row.get(column)}}
    info["time"] = {"created": row["time_created"], "updated": updated_ms}
    parts: dict[str, list[dict[str, Any]]] = {}
    for message, name, data in rows.execute(_PARTS, (session,)):
        part = {**json.loads(data), "id": name, "sessionID": session, "messageID": message}
        parts.setdefault(message, []).append(part)
    messages = [{"info": {**json.loads(data), "id": name, "sessionID": session}, "parts": parts.get(name, [])}
                for name, data in rows.execute(_MESSAGES, (session,))]  # fmt: skip
    path.parent.mkdir(exist_ok=True, mode=0o700)
    partial = path.with_suffix(".partial")
    partial.write_bytes(b"".join(_document(messages, info)))
    partial.chmod(0o600)
    os.utime(partial, ns=(updated_ms * 1_000_000, updated_ms * 1_000_000))
    partial.replace(path)


def _document(messages: Iterable[dict[str, Any]], info: dict[str, Any]) -> Iterator[bytes]:
    """The lines of a file that OpenCode imports: the same whenever they are made."""
    yield b'{"messages":[\n'
    for number, message in enumerate(messages):
        yield b"," * (number > 0) + json_bytes(message, sort_keys=True) + b"\n"
    yield b'],"info":' + json_bytes(info, sort_keys=True) + b"}"


def _messages_in(lines: Iterable[bytes]) -> Iterator[Fields]:
    """The messages that stand in lines of such a file."""
    return (one for one in records(line.lstrip(b",") for line in lines) if "parts" in one)


def _is_said(message: Fields) -> bool:
    """Whether a person said this, and not the harness."""
    return message.sub("info").get("role") == "user" and not _said(message).startswith(NOTE)


def _said(message: Fields) -> str:
    return texts(part for part in message.each("parts") if part.get("type") == "text")


def _add(found: Conversation, part: Fields, role: str, time: str) -> None:
    match part.get("type"):
        case "text" if role == ASSISTANT:
            found.items.append(Text(ASSISTANT, part.text("text"), time))
        case "reasoning":
            found.items.append(Thinking(part.text("text"), time, Own((part,))))
        case "tool":
            state, call_id = part.sub("state"), part.text("callID")
            found.items.append(Call(call_id, part.text("tool"), state.sub("input"), time))
            if state.get("status") in ("completed", "error"):
                output = state.text("output" if "output" in state else "error")
                images = tuple(filter(None, map(_image_in, state.each("attachments"))))
                found.items.append(Result(call_id, output, images, state["status"] == "error", time))
        case "file" if role == ASSISTANT:
            found.lose("file in an answer", "the text beside it names it")
        case "text" | "file":
            pass
        case kind if kind in _KEPT_BY_ITSELF:
            found.lose(f"{kind} of the harness", "the new agent keeps its own")
        case _:
            found.items.append(told_as_text(part, time))


def _moment(ms: object) -> str:
    with suppress(OverflowError, ValueError, OSError):
        if isinstance(ms, int):
            return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return ""


def _image_in(part: Fields) -> Image | None:
    return Image.of_url(part.text("url")) if part.text("mime").startswith("image/") else None


class _Messages:
    """The messages that are being made; ids sort as the messages do, before any that OpenCode makes."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._own = hashlib.sha256(head.id.encode()).hexdigest()[:14]
        self._count = 0
        provider, _, model = (head.model or "unknown/unknown").partition("/")
        self._model = {"providerID": provider, "modelID": model}
        self.time_ms = round(datetime.fromisoformat(head.time).timestamp() * 1000)
        self.messages: list[dict[str, Any]] = []

    def say(self, role: str, parts: Iterable[Mapping[str, Any]], images: tuple[Image, ...]) -> None:
        """Say something; each time by a person it is a message of its own, and so is an answer that follows results."""
        if role != ASSISTANT:
            self._begin("user")
        elif any(part.get("type") == "tool" for part in self.messages[-1]["parts"]):
            self._begin(ASSISTANT)
        for part in parts:
            self.part(role, **part)
        self.messages[-1]["parts"] += map(self.file, images)

    def part(self, role: str, **part: Any) -> dict[str, Any]:
        """A part of the message that is at its end, or of a new answer."""
        if role == ASSISTANT and self.messages[-1]["info"]["role"] == "user":
            self._begin(ASSISTANT)
        self.messages[-1]["parts"].append(self._with_ids(part))
        made: dict[str, Any] = self.messages[-1]["parts"][-1]
        return made

    def file(self, image: Image) -> dict[str, Any]:
        """An image, as a part of that message."""
        return self._with_ids({"type": "file", "mime": image.media_type, "url": image.as_url()})

    def _with_ids(self, part: dict[str, Any]) -> dict[str, Any]:
        message = self.messages[-1]["info"]["id"]
        return {**part, "id": self._id("prt"), "sessionID": self._head.id, "messageID": message}

    def _begin(self, role: str) -> None:
        asked = next((one["info"]["id"] for one in reversed(self.messages) if one["info"]["role"] == "user"), "")
        info: dict[str, Any] = {"id": self._id("msg"), "sessionID": self._head.id, "role": role, "agent": "build"}
        time = {"created": self.time_ms + self._count}
        if role == "user":
            info |= {"time": time, "model": self._model}
        else:
            tokens = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
            info |= {**self._model, "parentID": asked, "mode": "build", "cost": 0, "tokens": tokens, "finish": "stop"}
            info |= {"time": {**time, "completed": time["created"]}, "path": {"cwd": self._head.cwd, "root": "/"}}
        self.messages.append({"info": info, "parts": []})

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count:012x}{self._own}"
