"""Codex: ``sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`` below its directory.

SQLite and indexes, which also lie there, are made anew from these files. The conversation is the response items in
order; a fork goes on from those of its parent. In 2025 a line was an item by itself.
"""

# ruff: noqa: D102, ARG002  # the methods are those of CodingAgent

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from crdtsync.sessions.agents.agent import (
    CODEX,
    NOTE,
    OF_ITS_OWN,
    SEALED,
    CodingAgent,
    Description,
    Head,
    compacted,
    said_in,
    told_as_text,
)
from crdtsync.sessions.agents.fields import UNREAD, Fields, json_bytes, records, texts
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    CONTEXT,
    USER,
    Call,
    Compaction,
    Conversation,
    Image,
    Own,
    Result,
    Text,
    Thinking,
    turns_of,
)

WINDOW_TOKENS = 258_400
_FORKS_MAX = 100
_ID = re.compile(r"rollout-.*?-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z")
_PLACE = re.compile(r"sessions/(?:[\w-]+/){0,4}rollout-[\w-]+\.jsonl", re.ASCII)
_DIRECTORY = re.compile(r"<environment_context>\s+(?:<cwd>|Current working directory: )([^<\n]+)")
_HARNESS = re.compile(rf"\s*<(?:environment_context|user_instructions|turn_aborted|INSTRUCTIONS|skill|permissions)|"
                      rf"{re.escape(NOTE)}|# AGENTS\.md instructions")  # fmt: skip


class Codex(CodingAgent):
    """Codex."""

    name, title, folder, variable = CODEX, "Codex", ".codex", "CODEX_HOME"
    shell, counted_as = ("exec_command", "cmd"), "gpt-5"

    def found(self, root: Path, session: str = "*") -> list[Path]:
        paths = root.glob(f"sessions/**/*{session.lstrip('*')}.jsonl")
        return [path for path in paths if path.is_file() and _ID.match(path.stem)]

    def session_of(self, path: Path) -> str:
        match = _ID.match(path.stem)
        return match[1] if match else path.stem

    def place(self, root: Path, session: str, cwd: str, before: str = "", time: str = "") -> str:
        if _PLACE.fullmatch(before) and before.endswith(f"-{session}.jsonl"):
            return before
        time = time or "2000-01-01T00:00:00"
        return f"sessions/{time[:10].replace('-', '/')}/rollout-{time[:19].replace(':', '-')}-{session}.jsonl"

    def resume_command(self, session: str, main: Path) -> str:
        return f"codex resume {session}"

    def described(self, lines: Iterable[bytes], before: Description | None = None) -> Description:
        about = before or Description()
        for record in _records(lines):
            payload = record.sub("payload")
            match record.get("type"):
                case "session_meta":
                    about.cwd = about.cwd or payload.text("cwd")
                    about.version = payload.text("cli_version") or about.version
                    parent = payload.sub("history_base").text("thread_id")
                    if parent and parent not in about.needs:
                        about.needs.append(parent)
                case "turn_context":
                    about.model = payload.text("model") or about.model
                case "event_msg" if payload.get("type") == "token_count":
                    last = payload.sub("info").sub("last_token_usage")
                    about.tokens = last.added("total_tokens") or about.tokens
                case "response_item" if _is_said(payload):
                    about.said(payload.said("content"))
                case "response_item" if not about.cwd and (there := _DIRECTORY.search(payload.said("content"))):
                    about.cwd = there[1]
        return about

    def read(self, lines: Iterable[bytes], parents: Mapping[str, list[bytes]] | None = None) -> Conversation:
        found = Conversation()
        for record in _whole(list(_records(lines)), parents or {}):
            payload, time = record.sub("payload"), record.text("timestamp")
            if record.get("type") == "compacted":
                _compact(found, payload, time)
            elif record.get("type") == "response_item":
                _add(found, payload, time)
            elif record.get("unread"):
                found.lose(*UNREAD)
        return found

    def write(self, conversation: Conversation, head: Head) -> Iterator[bytes]:
        """A legacy file, which needs no ordinals, without a provider, which would have to be the reader's own; with the
        events of turns, which its list and its picker look for.
        """
        meta = {
            "id": head.id,
            "timestamp": head.time,
            "cwd": head.cwd,
            "originator": "crdtsync",
            "cli_version": "0.0.0",
        }
        yield _line(head.time, "session_meta", **meta, source="cli")
        note, *items = self._told(conversation, head)
        yield _item(head.time, note)
        own_calls: set[str] = set()
        for number, turn in enumerate(turns_of(items)):
            if not turn:
                continue
            turn_id = str(uuid5(NAMESPACE_URL, f"{head.id}/{number}"))
            yield _event(head.time, "task_started", turn_id=turn_id, model_context_window=WINDOW_TOKENS)
            last = None
            for item in turn:
                time = item.time or head.time
                if isinstance(item, Text) and item.role == USER:
                    yield _event(time, "user_message", message=item.text)
                elif isinstance(item, Text) and item.role == ASSISTANT and not item.own:
                    last = item.text
                    yield _event(time, "agent_message", message=item.text)
                if isinstance(item, Call) and item.own:
                    own_calls.add(item.id)
                is_bare = isinstance(item, Result) and not item.own and item.id in own_calls  # it was cut off
                yield _line(time, "response_item", **{**_plain(item), **(_OWN_OUTPUT if is_bare else {})})
            yield _event(head.time, "task_complete", turn_id=turn_id, last_agent_message=last)


_OWN_OUTPUT = {"type": "custom_tool_call_output"}


def _records(lines: Iterable[bytes]) -> Iterator[Fields]:
    for record in records(lines):
        is_item = "payload" not in record and "type" in record
        yield Fields(type="response_item", payload=record) if is_item else record


def _is_said(item: Fields) -> bool:
    """Whether a person said this, and not the harness: it marks what is its own, or puts it into a tag."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    passed = item.sub("internal_chat_message_metadata_passthrough") or item.sub("metadata")
    kinds = passed.strings("content_item_kinds")
    if kinds:
        return any(kind.startswith("user.") for kind in kinds)
    return not _HARNESS.match(item.said("content"))


def _whole(own: list[Fields], parents: Mapping[str, list[bytes]]) -> list[Fields]:
    """The records of a session with those that it goes on from."""
    for _ in range(_FORKS_MAX):
        meta = next((one.sub("payload") for one in own if one.get("type") == "session_meta"), Fields())
        base = meta.sub("history_base")
        before = parents.get(base.text("thread_id"))
        if before is None:
            return own
        end = base.get("end_ordinal_exclusive")
        limit = end if isinstance(end, int) else None
        parent = [one for at, one in enumerate(_records(before)) if limit is None or _ordinal(one, at) < limit]
        own = [*parent, *(one for one in own if one.get("type") != "session_meta")]
    return own


def _ordinal(record: Fields, at: int) -> int:
    found = record.get("ordinal")
    return found if isinstance(found, int) else at


def _compact(found: Conversation, payload: Fields, time: str) -> None:
    """Items before it are replaced, for the model: by a history, or by a summary after what a person said. A sealed one
    tells another model nothing, which then needs what was before.
    """
    summary, history = payload.text("message"), payload.each("replacement_history")
    if not summary and any(item.get("type") == "compaction" for item in history):
        found.lose("summary of a compaction", f"{SEALED}, so all that was before it is carried")
        return
    is_in_it = any(summary and summary in item.said("content") for item in history)
    asked = [] if history else [one for one in found.items if isinstance(one, Text) and one.role == USER]
    compacted(found, [*asked, Compaction("" if is_in_it else summary, time)])
    for item in history:
        _add(found, item, time)


def _add(found: Conversation, item: Fields, time: str) -> None:
    match item.text("type"):
        case "message":
            _add_message(found, item, time)
        case "reasoning":
            text = texts([*item.each("summary"), *item.each("content")])
            found.items.append(Thinking(text, time, Own((item,)) if item.text("encrypted_content") else None))
        case "function_call" | "custom_tool_call" | "local_shell_call":
            namespace, name = item.text("namespace"), item.text("name") or "shell"
            name = f"{namespace}__{name}" if namespace else name
            own = Own((item,)) if item.get("type") == "custom_tool_call" else None
            found.items.append(Call(_call_id(item), name, _arguments(item), time, own))
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output")
            answer = output if isinstance(output, Fields) else Fields(content=output)
            text, images, own = said_in(answer.each("content"), _image_in)
            if own or item.get("type") == "custom_tool_call_output":
                own = Own((item,), own.kinds if own else ())
            found.items.append(Result(_call_id(item), text or answer.text("content"), images, time=time, own=own))
        case "compaction":
            found.lose("summary of a compaction", SEALED)
        case "ghost_snapshot":
            found.lose("snapshot of the directory", OF_ITS_OWN)
        case _:
            found.items.append(told_as_text(item, time))


def _add_message(found: Conversation, item: Fields, time: str) -> None:
    role = item.get("role")
    text, images, own = said_in(item.each("content"), _image_in)
    text, own = text or item.text("content"), Own((item,), own.kinds) if own else None
    if role == "assistant":
        found.items.append(Text(ASSISTANT, text, time, images, own))
    elif role == "user" and (_is_said(item) or text.lstrip().startswith("<turn_aborted")):
        found.items.append(Text(USER if _is_said(item) else CONTEXT, text, time, images, own))
    else:
        what = "instructions of the harness" if role != "user" else "surroundings and project instructions"
        found.lose(what, OF_ITS_OWN)


def _call_id(item: Fields) -> str:
    return item.text("call_id") or item.text("id")


def _arguments(item: Fields) -> dict[str, Any]:
    if item.get("type") == "local_shell_call":
        return item.sub("action")
    if item.get("type") == "custom_tool_call":
        return {"input": item.get("input")}
    given = item.get("arguments")
    try:
        parsed = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        parsed = None
    return parsed if isinstance(parsed, dict) else {"arguments": given}


def _image_in(part: Fields) -> Image | None:
    return Image.of_url(part.text("image_url")) if "image_url" in part else None


def _plain(item: Text | Thinking | Call | Result) -> Mapping[str, Any]:
    shown = item.images if isinstance(item, Text | Result) else ()
    images = [{"type": "input_image", "image_url": one.as_url()} for one in shown]
    if item.own:
        return {**item.own.parts[0], "call_id": item.id} if isinstance(item, Call | Result) else item.own.parts[0]
    assert not isinstance(item, Thinking)  # it was told as a text
    match item:
        case Text(role, text):
            role, kind = ("assistant", "output_text") if role == ASSISTANT else ("user", "input_text")
            return {"type": "message", "role": role, "content": [{"type": kind, "text": text}, *images]}
        case Call(call_id, name, arguments):
            call = {"type": "function_call", "name": name, "arguments": json.dumps(arguments), "call_id": call_id}
            server, sign, tool = name.removeprefix("mcp__").partition("__")
            if name.startswith("mcp__") and sign:
                call |= {"namespace": f"mcp__{server}", "name": tool}
            return call
        case Result(call_id, text):
            output = [{"type": "input_text", "text": text}, *images] if images else text
            return {"type": "function_call_output", "call_id": call_id, "output": output}


def _item(time: str, item: Text | Thinking | Call | Result) -> bytes:
    return _line(time, "response_item", **_plain(item))


def _event(time: str, event: str, **fields: object) -> bytes:
    return _line(time, "event_msg", type=event, **fields)


def _line(time: str, kind: str, /, **payload: object) -> bytes:
    return json_bytes({"timestamp": time, "type": kind, "payload": payload}) + b"\n"
