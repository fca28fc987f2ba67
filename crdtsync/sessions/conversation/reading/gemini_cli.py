"""Lines of Gemini CLI into a conversation: its messages, each as it stood last."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from crdtsync.sessions.agents.description import as_dict, as_list, as_text, records
from crdtsync.sessions.agents.gemini_cli import is_said, said_text
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    USER,
    Call,
    Conversation,
    Image,
    Result,
    Text,
    Thinking,
)


def conversation(lines: Iterable[bytes]) -> Conversation:
    """What the model would be sent if the session were resumed, as it stands there."""
    messages: dict[str, dict[str, Any]] = {}
    for record in records(lines):
        if "$rewindTo" in record:
            ids = list(messages)
            first = next((at for at, name in enumerate(ids) if name == record["$rewindTo"]), 0)
            messages = {name: messages[name] for name in ids[:first]}
        elif as_text(record.get("id")):
            messages[as_text(record["id"])] = record
        elif isinstance(told := as_dict(record.get("$set")).get("messages", record.get("messages")), list):
            messages = {}
            for one in map(as_dict, told):
                name = as_text(one.get("id"))
                messages[name if name not in messages else f"{name}/{len(messages)}"] = one
    reading = _Reading(Conversation())
    for message in messages.values():
        reading.add(message)
    return reading.found


class _Reading:
    """What was read. After a resume, calls and results stand among the parts of messages, some of them twice."""

    def __init__(self, found: Conversation) -> None:
        self.found = found
        self._called: set[str] = set()
        self._answered: set[str] = set()

    def add(self, message: dict[str, Any]) -> None:
        time, kind, text = as_text(message.get("timestamp")), message.get("type"), said_text(message)
        parts = [as_dict(part) for part in as_list(message.get("content"))]
        if kind not in ("user", "gemini"):
            self.found.lose(f"{as_text(kind) or 'notice'} of the harness", "the model never saw it")
            return
        images = tuple(_images(parts))
        if kind == "user" and text and not is_said(message):
            self.found.lose("surroundings and project instructions", "the new agent is told of its own")
        elif kind == "user" and (text or images):
            self.found.items.append(Text(USER, text, time, images))
        for thought in map(as_dict, as_list(message.get("thoughts"))):
            told = ": ".join(filter(None, (as_text(thought.get("subject")), as_text(thought.get("description")))))
            self.found.items.append(Thinking(told, time))
        if kind == "gemini" and text:
            self.found.items.append(Text(ASSISTANT, text, time))
        calls = [as_dict(call) for call in as_list(message.get("toolCalls"))]
        for call in (*calls, *(as_dict(part.get("functionCall")) for part in parts if "functionCall" in part)):
            self._call(call, time)
        for call in calls:
            results = [as_dict(part) for part in as_list(call.get("result"))]
            self._result(as_text(call.get("id")), results, call.get("status") not in (None, "success"), time)
        for part in parts:
            self._result(as_text(as_dict(part.get("functionResponse")).get("id")), [part], False, time)

    def _call(self, call: dict[str, Any], time: str) -> None:
        call_id = as_text(call.get("id"))
        if call_id not in self._called:
            self._called.add(call_id)
            self.found.items.append(Call(call_id, as_text(call.get("name")), as_dict(call.get("args")), time))

    def _result(self, call_id: str, parts: list[dict[str, Any]], is_error: bool, time: str) -> None:
        answers = [_answer(as_dict(part["functionResponse"])) for part in parts if "functionResponse" in part]
        if answers and call_id not in self._answered:
            self._answered.add(call_id)
            self.found.items.append(Result(call_id, "\n".join(answers), tuple(_images(parts)), is_error, time))


def _answer(answer: dict[str, Any]) -> str:
    response = as_dict(answer.get("response"))
    output = response.get("output", response.get("error"))
    return output if isinstance(output, str) else json.dumps(response, ensure_ascii=False)


def _images(content: object) -> Iterable[Image]:
    for part in map(as_dict, as_list(content)):
        data = as_dict(part.get("inlineData"))
        if data:
            yield Image(as_text(data.get("mimeType")) or "image/png", as_text(data.get("data")))
