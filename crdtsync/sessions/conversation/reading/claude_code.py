"""Lines of Claude Code into a conversation: the way from the last message back over its parents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from crdtsync.sessions.agents.claude_code import is_said
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

_OF_ITS_OWN = "the new agent is told of its own surroundings, rules and tools"


def conversation(lines: Iterable[bytes]) -> Conversation:
    """What the model would be sent if the session were resumed, as it stands there."""
    found = Conversation()
    nodes: dict[str, dict[str, Any]] = {}
    leaf = ""
    for record in records(lines):
        kind, uuid = record.get("type"), as_text(record.get("uuid"))
        if record.get("isSidechain"):
            found.lose("message of a sub-agent", "its result is in the call that started it")
        elif uuid and kind in ("user", "assistant", "system", "attachment"):
            nodes[uuid] = record
            leaf = uuid if kind != "attachment" else leaf or uuid
        elif kind == "last-prompt" and as_text(record.get("leafUuid")) in nodes:
            leaf = as_text(record.get("leafUuid"))
    way = _way(nodes, leaf)
    on_way = {id(record) for record in way}
    aside = sum(id(record) not in on_way and record["type"] in ("user", "assistant") for record in nodes.values())
    if aside:
        found.lose("message on another branch, or before a compaction", "the agent no longer saw it either", aside)
    for record in way:
        _add(found, record)
    return found


def _way(nodes: dict[str, dict[str, Any]], leaf: str) -> list[dict[str, Any]]:
    """The records that the model sees, oldest first."""
    way: list[dict[str, Any]] = []
    seen: set[str] = set()
    preserved: list[dict[str, Any]] = []
    while leaf in nodes and leaf not in seen:
        seen.add(leaf)
        record = nodes[leaf]
        way.append(record)
        leaf = as_text(record.get("parentUuid"))
        if record.get("subtype") == "compact_boundary":
            kept = as_dict(as_dict(record.get("compactMetadata")).get("preservedMessages"))
            preserved = [nodes[uuid] for uuid in map(as_text, as_list(kept.get("uuids"))) if uuid in nodes]
            break
    way.reverse()
    if preserved:
        after = next((at for at, record in enumerate(way) if record.get("isCompactSummary")), 0) + 1
        on_way = {id(record) for record in way}
        way[after:after] = [record for record in preserved if id(record) not in on_way]
    return way


def _add(found: Conversation, record: dict[str, Any]) -> None:
    time = as_text(record.get("timestamp"))
    message = as_dict(record.get("message"))
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else map(as_dict, as_list(content))
    match record["type"]:
        case "attachment":
            kind = as_text(as_dict(record.get("attachment")).get("type")) or "notice"
            found.lose(f"{kind} of the harness", _OF_ITS_OWN)
        case "system" if record.get("subtype") != "compact_boundary":
            found.lose("notice of the harness", _OF_ITS_OWN)
        case "user" if record.get("isCompactSummary"):
            found.items.append(Compaction("\n".join(as_text(block.get("text")) for block in blocks), time))
        case "user":
            _add_said(found, list(blocks), USER if is_said(record) else CONTEXT, time)
        case "assistant" if record.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
            found.lose("error message of the harness", "the model never said it")
        case "assistant":
            for block in blocks:
                _add_block(found, block, time)


def _add_said(found: Conversation, blocks: list[dict[str, Any]], role: str, time: str) -> None:
    for block in blocks:
        if block.get("type") == "tool_result":
            text, images = _content(found, block.get("content"))
            is_error = block.get("is_error") is True
            found.items.append(Result(as_text(block.get("tool_use_id")), text, images, is_error, time))
    text, images = _content(found, [block for block in blocks if block.get("type") != "tool_result"])
    if text or images:
        found.items.append(Text(role, text, time, images))


def _add_block(found: Conversation, block: dict[str, Any], time: str) -> None:
    match block.get("type"):
        case "text":
            found.items.append(Text(ASSISTANT, as_text(block.get("text")), time))
        case "thinking" if as_text(block.get("thinking")):
            found.items.append(Thinking(as_text(block.get("thinking")), time))
        case "thinking" | "redacted_thinking":
            found.lose("thinking", "its provider keeps it sealed: no other model can read it")
        case "tool_use":
            name, arguments = as_text(block.get("name")), as_dict(block.get("input"))
            found.items.append(Call(as_text(block.get("id")), name, arguments, time))
        case kind:
            found.lose(f"{kind}", "no other agent has it: it is told as a text")
            found.items.append(Text(ASSISTANT, f"[{kind}] {json.dumps(block, ensure_ascii=False)}", time))


def _content(found: Conversation, content: object) -> tuple[str, tuple[Image, ...]]:
    if isinstance(content, str):
        return content, ()
    texts, images = [], []
    for block in map(as_dict, as_list(content)):
        source = as_dict(block.get("source"))
        if block.get("type") == "text":
            texts.append(as_text(block.get("text")))
        elif block.get("type") == "image":
            data, url = as_text(source.get("data")), as_text(source.get("url"))
            images.append(Image(as_text(source.get("media_type")) or "image/png", data, url))
        else:
            found.lose(f"{block.get('type')}", "no other agent has it: it is told as a text")
            texts.append(json.dumps(block, ensure_ascii=False))
    return "\n".join(texts), tuple(images)
