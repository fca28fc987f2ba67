"""A conversation into a file of Claude Code: a chain of messages, each line one block."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from crdtsync.sessions.agents.agent import CLAUDE_CODE
from crdtsync.sessions.conversation.record import ASSISTANT, Call, Compaction, Conversation, Image, Item, Result, Text
from crdtsync.sessions.conversation.tools import translated
from crdtsync.sessions.conversation.writing.head import COMPACTED, Head

_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")
_VERSION = "2.1.0"


def lines(conversation: Conversation, head: Head) -> Iterator[bytes]:
    """The lines of the file. No model is named, so that the reader's own default goes on."""
    common = {"sessionId": head.id, "cwd": head.cwd, "version": _VERSION, "isSidechain": False, "userType": "external"}
    before: str | None = None
    items: list[Item] = [Text("context", head.note), *conversation.items]
    group = 0
    for number, item in enumerate(items):
        uuid = str(uuid5(NAMESPACE_URL, f"{head.id}/{number}"))
        role, block = _block(item)
        more: dict[str, Any] = {}
        if role == ASSISTANT:
            more["id"] = f"msg_{head.id}_{group}"
            more["type"] = "message"
        else:
            group += 1
        record = {"type": role, "uuid": uuid, "parentUuid": before, "timestamp": item.time or head.time, **common}
        if number == 0:
            record["isMeta"] = True
        record["message"] = {"role": role, **more, "content": block}
        before = uuid
        yield json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _block(item: Item) -> tuple[str, list[dict[str, Any]]]:
    match item:
        case Text(role, text, _, images) if role == ASSISTANT:
            return ASSISTANT, [{"type": "text", "text": text}, *map(_image, images)]
        case Text(_, text, _, images):
            return "user", [{"type": "text", "text": text}, *map(_image, images)]
        case Call(call_id, name, arguments):
            name, arguments = translated(name, arguments, CLAUDE_CODE)
            return ASSISTANT, [{"type": "tool_use", "id": _id(call_id), "name": name, "input": arguments}]
        case Result(call_id, text, images, is_error):
            content = [{"type": "text", "text": text}, *map(_image, images)] if images else text
            result = {"type": "tool_result", "tool_use_id": _id(call_id), "content": content}
            return "user", [{**result, "is_error": True} if is_error else result]
        case Compaction(summary):
            return "user", [{"type": "text", "text": f"{COMPACTED}\n{summary}".rstrip()}]
        case thinking:
            return ASSISTANT, [{"type": "text", "text": f"[thinking] {thinking.text}"}]


def _id(call_id: str) -> str:
    """As Anthropic's API wants ids."""
    return _NOT_IN_IDS.sub("_", call_id) or "_"


def _image(image: Image) -> dict[str, Any]:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}
