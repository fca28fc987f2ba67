"""Claude Code: ``projects/SLUG/ID.jsonl`` below its directory, and a folder ``ID`` beside that.

SLUG is the directory that the agent works in, with dashes; it resumes only what lies under the SLUG of the directory
where it is started. Messages are a tree, and the conversation is the way from the last one back over its parents.
"""

# ruff: noqa: D102, ARG002  # the methods are those of CodingAgent

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from crdtsync.sessions.agents.agent import (
    CLAUDE_CODE,
    NO_LONGER_SEEN,
    OF_ITS_OWN,
    CodingAgent,
    Description,
    Head,
    said_in,
    titled,
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
)

_SLUG_CHARS_MAX = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NOT_SAID = re.compile(r"\s*<(?:command-|local-command|bash-|system-reminder|task-notification)|Caveat: ")
_USAGE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")
_VERSION = "2.1.0"


class ClaudeCode(CodingAgent):
    """Claude Code."""

    name, title, folder, variable = CLAUDE_CODE, "Claude Code", ".claude", "CLAUDE_CONFIG_DIR"
    shell, counted_as = ("Bash", "command"), "claude"

    def found(self, root: Path, session: str = "*") -> list[Path]:
        paths = root.glob(f"projects/*/{session}.jsonl")
        return [path for path in paths if self.ids.fullmatch(path.stem) and path.is_file()]

    def session_of(self, path: Path) -> str:
        return path.stem

    def side_files(self, path: Path) -> dict[str, Path]:
        folder = path.with_suffix("")
        return {str(one.relative_to(folder)): one for one in sorted(folder.rglob("*")) if one.is_file()}

    def place(self, root: Path, session: str, cwd: str, before: str = "", time: str = "") -> str:
        return f"projects/{slug(cwd)}/{session}.jsonl"

    def side_place(self, main: Path, name: str) -> Path:
        return main.with_suffix("") / name

    def resume_command(self, session: str, main: Path) -> str:
        return f"claude --resume {session}"

    def described(self, lines: Iterable[bytes], before: Description | None = None) -> Description:
        about = before or Description()
        title = ""
        for record in records(lines):
            about.cwd = about.cwd or record.text("cwd")
            about.version = record.text("version") or about.version
            if record.get("type") == "custom-title":
                title = titled(record.text("customTitle")) or title
            message = record.sub("message")
            if record.get("type") == "assistant" and message.text("model") != "<synthetic>":
                about.model = message.text("model") or about.model
                about.tokens = message.sub("usage").added(*_USAGE) or about.tokens
            if _is_said(record):
                about.said(message.said("content"))
        about.title = title or about.title
        return about

    def read(self, lines: Iterable[bytes], parents: Mapping[str, list[bytes]] | None = None) -> Conversation:
        found = Conversation()
        nodes: dict[str, Fields] = {}
        leaf = ""
        for record in records(lines):
            kind, uuid = record.get("type"), record.text("uuid")
            if record.get("unread"):
                found.lose(*UNREAD)
            if record.get("isSidechain"):
                found.lose("message of a sub-agent", "its result is in the call that started it")
            elif uuid:
                nodes[uuid] = record  # of any kind: a message may come after one that says nothing, such as "progress"
                leaf = uuid if kind in ("user", "assistant", "system") else leaf or uuid
            elif kind == "last-prompt" and record.text("leafUuid") in nodes:
                leaf = record.text("leafUuid")
        way = _with_parallel_calls(_way(nodes, leaf), nodes)
        on_way = {id(record) for record in way}
        aside = sum(id(one) not in on_way and one.get("type") in ("user", "assistant") for one in nodes.values())
        if aside:
            found.lose("message on another branch, or before a compaction", NO_LONGER_SEEN, aside)
        models = (record.sub("message").text("model") for record in reversed(way) if record.get("type") == "assistant")
        model = next((one for one in models if one != "<synthetic>"), "")
        for record in way:
            _add(found, record, model)
        return found

    def write(self, conversation: Conversation, head: Head) -> Iterator[bytes]:
        """A chain of messages, each of one block. If no model is named, the reader's own default goes on; what a model
        has sealed goes to that alone.
        """
        common = {"sessionId": head.id, "cwd": head.cwd, "version": _VERSION, "isSidechain": False,
                  "userType": "external"}  # fmt: skip
        before: str | None = None
        group = 0
        for number, item in enumerate(self._told(conversation, head)):
            uuid = str(uuid5(NAMESPACE_URL, f"{head.id}/{number}"))
            role, block = _block(item)
            group += role != ASSISTANT
            message = {"id": f"msg_{head.id}_{group}", "type": "message"} if role == ASSISTANT else {}
            if message and head.model:
                message["model"] = head.model
            record = {"type": role, "uuid": uuid, "parentUuid": before, "timestamp": item.time or head.time, **common}
            if number == 0:
                record["isMeta"] = True
            before = uuid
            yield json_bytes({**record, "message": {"role": role, **message, "content": block}}) + b"\n"


def slug(cwd: str) -> str:
    """The name of the folder for sessions in ``cwd``, a path without symbolic links."""
    units = cwd.encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    dashed = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    if len(dashed) <= _SLUG_CHARS_MAX:
        return dashed
    hashed = 0
    for code in codes:
        hashed = (hashed * 31 + code) & 0xFFFFFFFF
    hashed = abs(hashed - (1 << 32) if hashed >= 1 << 31 else hashed)
    word = ""
    while hashed:
        hashed, digit = divmod(hashed, 36)
        word = _DIGITS[digit] + word
    return f"{dashed[:_SLUG_CHARS_MAX]}-{word or '0'}"


def _is_said(record: Fields) -> bool:
    """Whether a person said this, and no tool, hook or sub-agent."""
    if record.get("type") != "user" or any(map(record.get, ("isSidechain", "isMeta", "isCompactSummary"))):
        return False
    message = record.sub("message")
    text = message.said("content")
    is_result = any(part.get("type") == "tool_result" for part in message.each("content"))
    return bool(text) and not is_result and not _NOT_SAID.match(text)


def _way(nodes: Mapping[str, Fields], leaf: str) -> list[Fields]:
    """The records that the model sees, oldest first."""
    way: list[Fields] = []
    seen: set[str] = set()
    preserved: list[Fields] = []
    while leaf in nodes and leaf not in seen:
        seen.add(leaf)
        record = nodes[leaf]
        way.append(record)
        leaf = record.text("parentUuid")
        if record.get("subtype") == "compact_boundary":
            kept = record.sub("compactMetadata").sub("preservedMessages").strings("uuids")
            preserved = [nodes[uuid] for uuid in kept if uuid in nodes]
            break
    way.reverse()
    if preserved:
        after = next((at for at, record in enumerate(way) if record.get("isCompactSummary")), 0) + 1
        on_way = {id(record) for record in way}
        way[after:after] = [record for record in preserved if id(record) not in on_way]
    return way


def _with_parallel_calls(way: list[Fields], nodes: Mapping[str, Fields]) -> list[Fields]:
    """The way, and what lies beside it: of calls that the model made at once the chain goes through one alone."""
    answers = {call: record for record in nodes.values() for call in _ids(record, "tool_result", "tool_use_id")}
    taken = {id(record) for record in way}
    beside: dict[str, list[Fields]] = {}
    for record in nodes.values():
        if id(record) not in taken and _ids(record, "tool_use", "id"):
            beside.setdefault(record.sub("message").text("id"), []).append(record)
    whole: list[Fields] = []
    for record in way:
        whole.append(record)
        message = record.sub("message").text("id")
        for one in [record, *(beside.pop(message, []) if message else [])]:
            for new in (one, *(answers[call] for call in _ids(one, "tool_use", "id") if call in answers)):
                if id(new) not in taken:
                    taken.add(id(new))
                    whole.append(new)
    return whole


def _ids(record: Fields, kind: str, name: str) -> list[str]:
    return [part.text(name) for part in record.sub("message").each("content") if part.get("type") == kind]


def _add(found: Conversation, record: Fields, model: str) -> None:
    time, message = record.text("timestamp"), record.sub("message")
    text = message.text("content")
    blocks = [Fields(type="text", text=text)] if text else message.each("content")
    match record.get("type"):
        case "attachment":
            found.lose(f"{record.sub('attachment').text('type') or 'notice'} of the harness", OF_ITS_OWN)
        case "system" if record.get("subtype") != "compact_boundary":
            found.lose("notice of the harness", OF_ITS_OWN)
        case "user" if record.get("isCompactSummary"):
            found.items.append(Compaction(texts(blocks), time))
        case "user":
            _add_said(found, blocks, USER if _is_said(record) else CONTEXT, time)
        case "assistant" if record.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
            found.lose("error message of the harness", "the model never said it")
        case "assistant":
            for block in blocks:
                _add_block(found, block, time, can_unseal=message.text("model") == model)


def _add_said(found: Conversation, blocks: list[Fields], role: str, time: str) -> None:
    for block in blocks:
        if block.get("type") == "tool_result":
            text, images, own = said_in(block.each("content"), _image_in)
            text, is_error = text or block.text("content"), block.get("is_error") is True
            found.items.append(Result(block.text("tool_use_id"), text, images, is_error, time, own))
    text, images, own = said_in([block for block in blocks if block.get("type") != "tool_result"], _image_in)
    if text or images:
        found.items.append(Text(role, text, time, images, own))


def _add_block(found: Conversation, block: Fields, time: str, *, can_unseal: bool) -> None:
    match block.get("type"):
        case "text":
            found.items.append(Text(ASSISTANT, block.text("text"), time))
        case "thinking" | "redacted_thinking":
            is_sealed = bool(block.text("signature") or block.text("data"))
            own = Own((block,)) if is_sealed and can_unseal else None
            found.items.append(Thinking(block.text("thinking"), time, own))
        case "tool_use":
            found.items.append(Call(block.text("id"), block.text("name"), block.sub("input"), time))
        case _:
            found.items.append(told_as_text(block, time))


def _image_in(block: Fields) -> Image | None:
    source = block.sub("source")
    if block.get("type") != "image":
        return None
    return Image(source.text("media_type") or "image/png", source.text("data"), source.text("url"))


def _block(item: Text | Thinking | Call | Result) -> tuple[str, list[Any]]:
    own = list(item.own.parts) if item.own else []
    match item:
        case Text(role, text, _, images):
            blocks = own or [{"type": "text", "text": text}, *map(_image, images)]
            return ASSISTANT if role == ASSISTANT else "user", blocks
        case Thinking():
            return ASSISTANT, own
        case Call(call_id, name, arguments):
            return ASSISTANT, [{"type": "tool_use", "id": _id(call_id), "name": name, "input": arguments}]
        case Result(call_id, text, images, is_error):
            content = own or ([{"type": "text", "text": text}, *map(_image, images)] if images else text)
            result = {"type": "tool_result", "tool_use_id": _id(call_id), "content": content}
            return "user", [{**result, "is_error": True} if is_error else result]


def _id(call_id: str) -> str:
    """As Anthropic's API wants ids."""
    return _NOT_IN_IDS.sub("_", call_id) or "_"


def _image(image: Image) -> dict[str, Any]:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}
