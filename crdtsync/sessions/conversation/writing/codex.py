"""A conversation into a rollout file of Codex, in the form that its resume, its list and its picker take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from crdtsync.sessions.agents.agent import CODEX
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    USER,
    Call,
    Compaction,
    Conversation,
    Image,
    Item,
    Result,
    Text,
)
from crdtsync.sessions.conversation.tools import translated
from crdtsync.sessions.conversation.writing.head import COMPACTED, Head

WINDOW_TOKENS = 258_400


def lines(conversation: Conversation, head: Head) -> Iterator[bytes]:
    """The lines of the file: a legacy one, which needs no ordinals, without a provider, which would have to be the
    reader's own.
    """
    meta = {"id": head.id, "timestamp": head.time, "cwd": head.cwd, "originator": "crdtsync", "cli_version": "0.0.0"}
    yield _line(head.time, "session_meta", {**meta, "source": "cli"})
    yield _item(head.time, _message("user", "input_text", head.note, ()))
    for number, turn in enumerate(conversation.turns()):
        turn_id = str(uuid5(NAMESPACE_URL, f"{head.id}/{number}"))
        yield from _turn(turn, turn_id, head.time)


def _turn(turn: list[Item], turn_id: str, time: str) -> Iterator[bytes]:
    if not turn:
        return
    started = {"type": "task_started", "turn_id": turn_id, "model_context_window": WINDOW_TOKENS}
    yield _event(time, started)
    last = ""
    for item in turn:
        at = item.time or time
        if isinstance(item, Text) and item.role == USER:
            yield _event(at, {"type": "user_message", "message": item.text})
        elif isinstance(item, Text) and item.role == ASSISTANT:
            last = item.text
            yield _event(at, {"type": "agent_message", "message": item.text})
        yield _item(at, _plain(item))
    yield _event(time, {"type": "task_complete", "turn_id": turn_id, "last_agent_message": last or None})


def _plain(item: Item) -> dict[str, Any]:
    match item:
        case Text(role, text, _, images) if role == ASSISTANT:
            return _message("assistant", "output_text", text, images)
        case Text(_, text, _, images):
            return _message("user", "input_text", text, images)
        case Call(call_id, name, arguments):
            return _call(call_id, *translated(name, arguments, CODEX))
        case Result(call_id, text, images):
            output: Any = [{"type": "input_text", "text": text}, *map(_image, images)] if images else text
            return {"type": "function_call_output", "call_id": call_id, "output": output}
        case Compaction(summary):
            return _message("user", "input_text", f"{COMPACTED}\n{summary}".rstrip(), ())
        case thinking:
            return _message("assistant", "output_text", f"[thinking] {thinking.text}", ())


def _call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"type": "function_call", "name": name, "arguments": json.dumps(arguments), "call_id": call_id}
    server, sign, tool = name.removeprefix("mcp__").partition("__")
    if name.startswith("mcp__") and sign:
        return {**call, "namespace": f"mcp__{server}", "name": tool}
    return call


def _message(role: str, kind: str, text: str, images: tuple[Image, ...]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}, *map(_image, images)]}


def _image(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": image.url or f"data:{image.media_type};base64,{image.data}"}


def _item(time: str, payload: dict[str, Any]) -> bytes:
    return _line(time, "response_item", payload)


def _event(time: str, payload: dict[str, Any]) -> bytes:
    return _line(time, "event_msg", payload)


def _line(time: str, kind: str, payload: dict[str, Any]) -> bytes:
    return json.dumps({"timestamp": time, "type": kind, "payload": payload}, ensure_ascii=False).encode(
        "utf-8", "replace"
    ) + b"\n"  # fmt: skip
