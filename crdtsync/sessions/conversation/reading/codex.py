"""Lines of Codex into a conversation: its response items, in order; a fork goes on from those of its parent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from crdtsync.sessions.agents.codex import is_said, said_text
from crdtsync.sessions.agents.description import as_dict, as_list, as_text, records
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    CONTEXT,
    USER,
    Call,
    Compaction,
    Conversation,
    Image,
    Result,
    Text,
    Thinking,
)

_DATA_URL = re.compile(r"data:([\w/+.-]+);base64,(.*)", re.DOTALL)
_FORKS_MAX = 100


def conversation(lines: Iterable[bytes], parents: Mapping[str, list[bytes]] | None = None) -> Conversation:
    """What the model would be sent if the session were resumed, as it stands there; ``parents`` are the lines of
    sessions by their ids.
    """
    found = Conversation()
    for record in _whole(list(records(lines)), parents or {}):
        payload, time = as_dict(record.get("payload")), as_text(record.get("timestamp"))
        if record.get("type") == "compacted":
            _compact(found, payload, time)
        elif record.get("type") == "response_item":
            _add(found, payload, time)
    return found


def _whole(own: list[dict[str, Any]], parents: Mapping[str, list[bytes]]) -> list[dict[str, Any]]:
    """The records of a session with those that it goes on from."""
    for _ in range(_FORKS_MAX):
        meta = next((as_dict(one.get("payload")) for one in own if one.get("type") == "session_meta"), {})
        base = as_dict(meta.get("history_base"))
        before = parents.get(as_text(base.get("thread_id")))
        if before is None:
            return own
        end = base.get("end_ordinal_exclusive")
        limit = end if isinstance(end, int) else None
        parent = [one for at, one in enumerate(records(before)) if limit is None or _ordinal(one, at) < limit]
        own = [*parent, *(one for one in own if one.get("type") != "session_meta")]
    return own


def _ordinal(record: dict[str, Any], at: int) -> int:
    found = record.get("ordinal")
    return found if isinstance(found, int) else at


def _compact(found: Conversation, payload: dict[str, Any], time: str) -> None:
    """What was before is replaced, for the model."""
    summary = as_text(payload.get("message"))
    found.lose("item before a compaction", "the agent no longer saw it either", len(found.items))
    history = [as_dict(item) for item in as_list(payload.get("replacement_history"))]
    is_in_it = any(summary and summary in said_text(item) for item in history)
    found.items = [Compaction("" if is_in_it else summary, time)]
    for item in history:
        _add(found, item, time)


def _add(found: Conversation, item: dict[str, Any], time: str) -> None:
    kind = as_text(item.get("type"))
    match kind:
        case "message":
            _add_message(found, item, time)
        case "reasoning":
            parts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
            text = "\n".join(filter(None, (as_text(as_dict(part).get("text")) for part in parts)))
            if text:
                found.items.append(Thinking(text, time))
            else:
                found.lose("thinking", "its provider keeps it sealed: no other model can read it")
        case "function_call" | "custom_tool_call" | "local_shell_call":
            found.items.append(Call(_call_id(item), _name(item), _arguments(item), time))
        case "function_call_output" | "custom_tool_call_output":
            text, images = _output(item.get("output"))
            found.items.append(Result(_call_id(item), text, images, time=time))
        case _:
            found.lose(kind or "item without a type", "no other agent has it: it is told as a text")
            shown = {name: value for name, value in item.items() if name != "encrypted_content"}
            found.items.append(Text(ASSISTANT, f"[{kind}] {json.dumps(shown, ensure_ascii=False)}", time))


def _add_message(found: Conversation, item: dict[str, Any], time: str) -> None:
    role = item.get("role")
    if role == "assistant":
        found.items.append(Text(ASSISTANT, said_text(item), time))
    elif role == "user" and (is_said(item) or said_text(item).lstrip().startswith("<turn_aborted")):
        images = tuple(_image(as_dict(one)) for one in as_list(item.get("content")) if "image_url" in as_dict(one))
        found.items.append(Text(USER if is_said(item) else CONTEXT, said_text(item), time, images))
    else:
        what = "instructions of the harness" if role != "user" else "surroundings and project instructions"
        found.lose(what, "the new agent is told of its own surroundings, rules and tools")


def _call_id(item: dict[str, Any]) -> str:
    return as_text(item.get("call_id")) or as_text(item.get("id"))


def _name(item: dict[str, Any]) -> str:
    name, namespace = as_text(item.get("name")) or "shell", as_text(item.get("namespace"))
    return f"{namespace}__{name}" if namespace else name


def _arguments(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type") == "local_shell_call":
        return as_dict(item.get("action"))
    if item.get("type") == "custom_tool_call":
        return {"input": item.get("input")}
    given = item.get("arguments")
    try:
        parsed = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        parsed = None
    return parsed if isinstance(parsed, dict) else {"arguments": given}


def _output(output: object) -> tuple[str, tuple[Image, ...]]:
    if isinstance(output, dict):
        output = output.get("content")
    if isinstance(output, str):
        return output, ()
    parts = [as_dict(part) for part in as_list(output)]
    images = tuple(_image(part) for part in parts if "image_url" in part)
    return "\n".join(as_text(part.get("text")) for part in parts if "text" in part), images


def _image(part: dict[str, Any]) -> Image:
    url = as_text(part.get("image_url"))
    match = _DATA_URL.match(url)
    return Image(match[1], match[2]) if match else Image("image/png", url=url)
