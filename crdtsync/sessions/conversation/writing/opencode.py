"""A conversation into a file that OpenCode imports: what was said, and answers with the calls in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from crdtsync.sessions.agents.agent import OPENCODE
from crdtsync.sessions.agents.opencode import document
from crdtsync.sessions.conversation.record import ASSISTANT, Call, Compaction, Conversation, Image, Result, Text
from crdtsync.sessions.conversation.tools import translated
from crdtsync.sessions.conversation.writing.head import COMPACTED, Head

_VERSION = "1.0.0"


def lines(conversation: Conversation, head: Head) -> Iterator[bytes]:
    """The lines of the file."""
    made = _Messages(head)
    made.say("user", head.note, ())
    calls: dict[str, dict[str, Any]] = {}
    for item in conversation.items:
        match item:
            case Call(call_id, name, arguments):
                name, arguments = translated(name, arguments, OPENCODE)
                time = {"start": made.time_ms, "end": made.time_ms}
                state = {"status": "completed", "input": arguments, "title": name, "metadata": {}, "time": time}
                calls[call_id] = made.part(ASSISTANT, type="tool", tool=name, callID=call_id, state=state)["state"]
            case Result(call_id, text, images, is_error):
                calls[call_id].update({"status": "error", "error": text} if is_error else {"output": text})
                if images and not is_error:
                    calls[call_id]["attachments"] = [made.file(image) for image in images]
            case Text(role, text, _, images):
                made.say(role, text, images)
            case Compaction(summary):
                made.say("user", f"{COMPACTED}\n{summary}".rstrip(), ())
            case thinking:
                made.say(ASSISTANT, f"[thinking] {thinking.text}", ())
    info = {"id": head.id, "slug": "crdtsync", "projectID": "global", "directory": head.cwd, "version": _VERSION,
            "title": head.title, "time": {"created": made.time_ms, "updated": made.time_ms}}  # fmt: skip
    yield from document(made.messages, info)


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

    def say(self, role: str, text: str, images: tuple[Image, ...]) -> None:
        """A text; each one of a person is a message of its own, and so is an answer that follows results."""
        if role != ASSISTANT:
            self._begin("user")
        elif any(part["type"] == "tool" for part in self.messages[-1]["parts"]):
            self._begin(ASSISTANT)
        self.part(role, type="text", text=text)
        for image in images:
            self.messages[-1]["parts"].append(self.file(image, self.messages[-1]["info"]["id"]))

    def part(self, role: str, **part: Any) -> dict[str, Any]:
        """A part of the message that is at its end, or of a new answer."""
        if role == ASSISTANT and self.messages[-1]["info"]["role"] == "user":
            self._begin(ASSISTANT)
        info = self.messages[-1]["info"]
        made = {**part, "id": self._id("prt"), "sessionID": self._head.id, "messageID": info["id"]}
        self.messages[-1]["parts"].append(made)
        return made

    def file(self, image: Image, message: str = "") -> dict[str, Any]:
        """An image as a part."""
        url = image.url or f"data:{image.media_type};base64,{image.data}"
        ids = {
            "id": self._id("prt"),
            "sessionID": self._head.id,
            "messageID": message or self.messages[-1]["info"]["id"],
        }
        return {**ids, "type": "file", "mime": image.media_type or "image/png", "url": url}

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
