"""A conversation into a file of Gemini CLI: a line for each message, whose calls stand in it with their results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from crdtsync.sessions.agents.agent import GEMINI_CLI
from crdtsync.sessions.conversation.record import ASSISTANT, Call, Compaction, Conversation, Image, Result, Text
from crdtsync.sessions.conversation.tools import translated
from crdtsync.sessions.conversation.writing.head import COMPACTED, Head


def lines(conversation: Conversation, head: Head) -> Iterator[bytes]:
    """The lines of the file."""
    meta = {"sessionId": head.id, "projectHash": "crdtsync", "startTime": head.time, "lastUpdated": head.time}
    messages = [_message(head, 0, "user", head.time, head.note)]
    calls: dict[str, dict[str, Any]] = {}
    for item in conversation.items:
        time, number = item.time or head.time, len(messages)
        match item:
            case Call(call_id, name, arguments):
                name, arguments = translated(name, arguments, GEMINI_CLI)
                calls[call_id] = {
                    "id": call_id,
                    "name": name,
                    "args": arguments,
                    "status": "success",
                    "timestamp": time,
                }
                if messages[-1]["type"] != "gemini" or _is_answered(messages[-1]):
                    messages.append(_message(head, number, "gemini", time, ""))
                messages[-1].setdefault("toolCalls", []).append(calls[call_id])
            case Result(call_id, text, images, is_error):
                response = {"id": call_id, "name": calls[call_id]["name"],
                            "response": {"error" if is_error else "output": text}}  # fmt: skip
                calls[call_id]["result"] = [{"functionResponse": response}, *map(_image, images)]
                calls[call_id]["status"] = "error" if is_error else "success"
            case Text(role, text, _, images):
                messages.append(_message(head, number, "gemini" if role == ASSISTANT else "user", time, text, images))
            case Compaction(summary):
                messages.append(_message(head, number, "user", time, f"{COMPACTED}\n{summary}".rstrip()))
            case thinking:
                messages.append(_message(head, number, "gemini", time, f"[thinking] {thinking.text}"))
    for record in ({**meta, "kind": "main", "cwd": head.cwd}, *messages):
        yield json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _message(
    head: Head, number: int, kind: str, time: str, text: str, images: tuple[Image, ...] = ()
) -> dict[str, Any]:
    message = {"id": str(uuid5(NAMESPACE_URL, f"{head.id}/{number}")), "timestamp": time, "type": kind}
    return {**message, "content": [{"text": text}, *map(_image, images)] if kind == "user" else text}


def _is_answered(message: dict[str, Any]) -> bool:
    return any("result" in call for call in message.get("toolCalls", ()))


def _image(image: Image) -> dict[str, Any]:
    if image.url:
        return {"text": f"[image: {image.url}]"}
    return {"inlineData": {"mimeType": image.media_type, "data": image.data}}
