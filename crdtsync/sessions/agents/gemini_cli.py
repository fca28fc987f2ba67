"""Gemini CLI: ``tmp/PROJECT/chats/session-TIME-ID8.jsonl`` below its directory.

PROJECT is a name that it gives to each directory that it works in; the file ``.project_root`` beside ``chats`` says
which one that is. A message that changes stands there again, under the same id; calls stand in it with their results.
Versions before 0.50 or so kept a session as one JSON document; that is not read.
"""

# ruff: noqa: D102, ARG002  # the methods are those of CodingAgent

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from crdtsync.sessions.agents.agent import GEMINI_CLI, NOTE, OF_ITS_OWN, CodingAgent, Description, Head, said_in
from crdtsync.sessions.agents.fields import Fields, json_bytes, records
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    USER,
    Call,
    Conversation,
    Image,
    Own,
    Result,
    Text,
    Thinking,
)

_PLACE = re.compile(r"session-[\w-]+\.jsonl", re.ASCII)
_DIRECTORY = re.compile(r"\*\*Workspace Directories:\*\*\s+- (\S[^\n]*)")
_HARNESS = re.compile(rf"\s*<(?:session_context|hook_context|state_snapshot|system-reminder)|{re.escape(NOTE)}")


class GeminiCli(CodingAgent):
    """Gemini CLI. It may begin another file under the id that it resumes: the larger one is meant."""

    name, title, folder, variable, below = GEMINI_CLI, "Gemini CLI", ".gemini", "GEMINI_CLI_HOME", ".gemini"
    shell, counted_as = ("run_shell_command", "command"), "gemini"

    def found(self, root: Path, session: str = "*") -> list[Path]:
        best: dict[str, Path] = {}
        for path in root.glob(f"tmp/*/chats/session-*{session[:8].lstrip('*')}.jsonl"):
            name = self.session_of(path)
            if session in ("*", name) and (name not in best or path.stat().st_size > best[name].stat().st_size):
                best[name] = path
        return list(best.values())

    def session_of(self, path: Path) -> str:
        with path.open("rb") as file:
            first = next(records([file.readline(1_000_000)]), Fields())
        return first.text("sessionId") or path.stem

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
            about.cwd = about.cwd or record.text("cwd")
            about.model = record.text("model") or about.model
            about.tokens = record.sub("tokens").added("total") or about.tokens
            for message in record.sub("$set").each("messages"):
                there = _DIRECTORY.search(message.said("content"))
                about.cwd = about.cwd or (there[1] if there else "")
            if record.get("type") == "user" and _is_said(record.said("content")):
                about.said(record.said("content"))
        return about

    def read(self, lines: Iterable[bytes], parents: Mapping[str, list[bytes]] | None = None) -> Conversation:
        messages: dict[str, Fields] = {}
        for record in records(lines):
            told = record.sub("$set") if "messages" in record.sub("$set") else record
            if "$rewindTo" in record:
                ids = list(messages)
                first = next((at for at, name in enumerate(ids) if name == record["$rewindTo"]), 0)
                messages = {name: messages[name] for name in ids[:first]}
            elif record.text("id"):
                messages[record.text("id")] = record
            elif isinstance(told.get("messages"), list):
                messages = {}
                for one in told.each("messages"):
                    name = one.text("id")
                    messages[name if name not in messages else f"{name}/{len(messages)}"] = one
        reading = _Reading()
        for message in messages.values():
            reading.add(message)
        return reading.found

    def write(self, conversation: Conversation, head: Head) -> Iterator[bytes]:
        """A line for each message."""
        messages: list[dict[str, Any]] = []
        calls: dict[str, dict[str, Any]] = {}

        def begin(kind: str, time: str, content: object) -> None:
            message_id = str(uuid5(NAMESPACE_URL, f"{head.id}/{len(messages)}"))
            messages.append({"id": message_id, "timestamp": time, "type": kind, "content": content})

        for item in self._told(conversation, head):
            time = item.time or head.time
            match item:
                case Call(call_id, name, arguments):
                    if messages[-1]["type"] != "gemini" or any("result" in one for one in _calls(messages[-1])):
                        begin("gemini", time, "")
                    call = {"id": call_id, "name": name, "args": arguments, "status": "success", "timestamp": time}
                    calls[call_id] = call
                    messages[-1].setdefault("toolCalls", []).append(call)
                case Result(call_id, text, images, is_error):
                    response = {"id": call_id, "name": calls[call_id]["name"],
                                "response": {"error" if is_error else "output": text}}  # fmt: skip
                    calls[call_id]["result"] = [{"functionResponse": response}, *map(_image, images)]
                    calls[call_id]["status"] = "error" if is_error else "success"
                case Thinking(own=Own(parts)):
                    begin("gemini", time, "")
                    messages[-1]["thoughts"] = list(parts)
                case Text(role, text, _, images, own):
                    is_answer = role == ASSISTANT
                    parts = own.parts if own else ({"text": text}, *map(_image, images))
                    content = text if is_answer and not own else list(parts)
                    begin("gemini" if is_answer else "user", time, content)
        meta = {"sessionId": head.id, "projectHash": "crdtsync", "startTime": head.time, "lastUpdated": head.time}
        for record in ({**meta, "kind": "main", "cwd": head.cwd}, *messages):
            yield json_bytes(record) + b"\n"


class _Reading:
    """A file as it is read. After a resume, calls and results stand among the parts of messages, some of them twice."""

    def __init__(self) -> None:
        self.found = Conversation()
        self._called: set[str] = set()
        self._answered: set[str] = set()

    def add(self, message: Fields) -> None:
        time, kind, text = message.text("timestamp"), message.get("type"), message.said("content")
        if kind not in ("user", "gemini"):
            self.found.lose(f"{message.text('type') or 'notice'} of the harness", "the model never saw it")
            return
        parts, calls = message.each("content"), message.each("toolCalls")
        told = [part for part in parts if not part.keys() & {"functionCall", "functionResponse"}]
        text, images, own = said_in(told, _image_in) if told else (text, (), None)
        if kind == "user" and text and not _is_said(text):
            self.found.lose("surroundings and project instructions", OF_ITS_OWN)
        elif kind == "user" and (text or images):
            self.found.items.append(Text(USER, text, time, images, own))
        for thought in message.each("thoughts"):
            thinking = ": ".join(filter(None, map(thought.text, ("subject", "description"))))
            self.found.items.append(Thinking(thinking, time, Own((thought,))))
        if kind == "gemini" and text:
            self.found.items.append(Text(ASSISTANT, text, time, images, own))
        for call in (*calls, *(part.sub("functionCall") for part in parts if "functionCall" in part)):
            self._call(call, time)
        for call in calls:
            is_error = call.get("status") not in (None, "success")
            self._result(call.text("id"), call.each("result"), is_error, time)
        for part in parts:
            self._result(part.sub("functionResponse").text("id"), [part], False, time)

    def _call(self, call: Fields, time: str) -> None:
        call_id = call.text("id")
        if call_id not in self._called:
            self._called.add(call_id)
            self.found.items.append(Call(call_id, call.text("name"), call.sub("args"), time))

    def _result(self, call_id: str, parts: list[Fields], is_error: bool, time: str) -> None:
        answers = [_answer(part.sub("functionResponse")) for part in parts if "functionResponse" in part]
        if answers and call_id not in self._answered:
            self._answered.add(call_id)
            images = tuple(filter(None, map(_image_in, parts)))
            self.found.items.append(Result(call_id, "\n".join(answers), images, is_error, time))


def _is_said(text: str) -> bool:
    """Whether a person said this, and not the harness."""
    return bool(text) and not _HARNESS.match(text)


def _project(root: Path, cwd: str) -> str:
    markers = {one.parent.name: one.read_text() for one in root.glob("tmp/*/.project_root")}
    for name, of in sorted(markers.items()):
        if of == cwd:
            return name
    own = re.sub(r"[^a-z0-9]+", "-", Path(cwd).name.lower()).strip("-") or "project"
    names = (own if number == 0 else f"{own}-{number}" for number in range(len(markers) + 1))
    return next(name for name in names if name not in markers)


def _answer(answer: Fields) -> str:
    response = answer.sub("response")
    output = response.get("output", response.get("error"))
    return output if isinstance(output, str) else json.dumps(response, ensure_ascii=False)


def _image_in(part: Fields) -> Image | None:
    found = part.sub("inlineData")
    kind = found.text("mimeType")
    return Image(kind, found.text("data")) if kind.startswith("image/") else None


def _calls(message: dict[str, Any]) -> Iterable[dict[str, Any]]:
    calls: Iterable[dict[str, Any]] = message.get("toolCalls", ())
    return calls


def _image(image: Image) -> dict[str, Any]:
    if image.url:
        return {"text": f"[image: {image.url}]"}
    return {"inlineData": {"mimeType": image.media_type, "data": image.data}}
