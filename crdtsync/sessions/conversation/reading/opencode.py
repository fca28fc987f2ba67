"""A file of OpenCode into a conversation: its messages, with their parts in order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from crdtsync.sessions.agents.description import as_dict, as_list, as_text
from crdtsync.sessions.agents.opencode import is_said, messages_in
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    USER,
    Call,
    Compaction,
    Conversation,
    Image,
    Result,
    Text,
    Thinking,
)

_OF_ITS_OWN = ("step-start", "step-finish", "snapshot", "patch", "agent", "retry")


def conversation(lines: Iterable[bytes]) -> Conversation:
    """What the model would be sent if the session were resumed, as it stands there."""
    found = Conversation()
    for message in messages_in(lines):
        info = as_dict(message.get("info"))
        role = USER if info.get("role") == "user" else ASSISTANT
        created = as_dict(info.get("time")).get("created")
        time = _moment(created) if isinstance(created, int) else ""
        parts = [as_dict(part) for part in as_list(message.get("parts"))]
        if info.get("summary") is True and role == ASSISTANT:  # what is left of all that was before
            found.lose("item before a compaction", "the agent no longer saw it either", len(found.items))
            found.items = [Compaction("\n".join(as_text(part.get("text")) for part in parts), time)]
            continue
        if role == USER and not is_said(message):
            found.lose("note of an earlier hand-over", "a new one takes its place")
            continue
        images = tuple(_image(part) for part in parts if part.get("type") == "file" and _is_image(part))
        texts = [as_text(part.get("text")) for part in parts if part.get("type") == "text"]
        if role == USER and (texts or images):
            found.items.append(Text(USER, "\n".join(texts), time, images))
        for part in parts:
            _add(found, part, role, time)
    return found


def _add(found: Conversation, part: dict[str, Any], role: str, time: str) -> None:
    state = as_dict(part.get("state"))
    match part.get("type"):
        case "text" if role == ASSISTANT:
            found.items.append(Text(ASSISTANT, as_text(part.get("text")), time))
        case "reasoning" if as_text(part.get("text")):
            found.items.append(Thinking(as_text(part.get("text")), time))
        case "tool":
            call_id = as_text(part.get("callID"))
            found.items.append(Call(call_id, as_text(part.get("tool")), as_dict(state.get("input")), time))
            output = state.get("output", state.get("error"))
            if state.get("status") in ("completed", "error"):
                images = tuple(_image(one) for one in map(as_dict, as_list(state.get("attachments"))) if _is_image(one))
                found.items.append(Result(call_id, as_text(output), images, state["status"] == "error", time))
        case "text" | "file" | "reasoning":
            if part.get("type") == "file" and not _is_image(part):
                found.lose("file in a message", "the text beside it names it")
        case kind if kind in _OF_ITS_OWN:
            found.lose(f"{kind} of the harness", "the new agent keeps its own")
        case kind:
            found.lose(f"{kind}", "no other agent has it: it is told as a text")
            found.items.append(Text(ASSISTANT, f"[{kind}] {json.dumps(part, ensure_ascii=False)}", time))


def _moment(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return ""


def _is_image(part: dict[str, Any]) -> bool:
    return as_text(part.get("mime")).startswith("image/")


def _image(part: dict[str, Any]) -> Image:
    url = as_text(part.get("url"))
    head, sign, data = url.partition(";base64,")
    return Image(as_text(part.get("mime")), data) if sign and head.startswith("data:") else Image("", url=url)
