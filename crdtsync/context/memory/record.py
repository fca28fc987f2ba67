"""A memory as it is stored under one key, as it is shown, and what is asked of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from crdtsync.client import Entry
from crdtsync.context.given import expect, expect_utf8
from crdtsync.errors import InvalidRequest

SCOPES = ("user_id", "agent_id", "run_id")
TEAM = "team"
"""The ``run_id`` of what is remembered for all agents of a space."""
EVENTS = ("ADD", "UPDATE", "DELETE", "NONE")
_OPTIONAL = ("about", "source", "supersedes", "valid_from", "valid_until")


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of memories: at least one of the three is given, unless everybody's are meant."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def __post_init__(self) -> None:
        expect(str, **self.fields)
        expect_utf8(**self.fields)
        for name, value in self.fields.items():
            if not value:
                raise InvalidRequest(f"{name} is empty: say whose memory this is")

    @property
    def fields(self) -> dict[str, str]:
        """Those that are given."""
        return {name: value for name in SCOPES if (value := getattr(self, name)) is not None}

    def needed(self) -> Scope:
        """This scope; refused if nothing is given."""
        if not self.fields:
            raise InvalidRequest(f"say whose memory this is: give one of {', '.join(SCOPES)}")
        return self

    @property
    def folder(self) -> str:
        """Beneath which keys its memories are; "" if they may be anywhere."""
        return f"user/{quote(self.user_id, safe='')}/" if self.user_id is not None else ""

    def place(self) -> str:
        """Beneath which keys a new memory of it goes."""
        name, value = next(iter(self.fields.items()))
        return f"{name.removesuffix('_id')}/{quote(value, safe='')}/"

    def covers(self, record: Mapping[str, Any]) -> bool:
        """Whether a memory is of this scope."""
        return all(record.get(name) == value for name, value in self.fields.items())


def digest(text: str) -> str:
    """The common digest of two memories that say the same, whatever their spaces and capitals."""
    return hashlib.sha256(" ".join(text.lower().split()).encode()).hexdigest()[:32]


def texts_of(messages: object) -> list[str]:
    """The texts to remember of a text, a message or a conversation, without a model: what was said, message by
    message; what the system was told is left out.
    """
    if isinstance(messages, str):
        return [messages] if messages.strip() else []
    if isinstance(messages, Mapping):
        messages = [messages]
    if not isinstance(messages, Iterable):
        raise InvalidRequest(f"messages are a str, a message or a list of messages, not {type(messages).__name__}")
    found: list[str] = []
    for one in messages:
        if isinstance(one, str):
            found += texts_of(one)
        elif not isinstance(one, Mapping) or "content" not in one:
            raise InvalidRequest(f"a message is a dict with 'role' and 'content', not {one!r:.80}")
        elif one.get("role") != "system":
            found += texts_of(_content(one["content"]))
    return found


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and "text" in part)


def worded(text: object) -> str:
    """``text`` as what a memory is to say; refused if it is no text, or says nothing."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidRequest(f"a memory is a text that says something, not {text!r:.80}")
    expect_utf8(memory=text)
    return text


def is_record(value: object) -> bool:
    """Whether it is a memory: anybody may write other things under these keys."""
    return isinstance(value, dict) and isinstance(value.get("memory"), str) and isinstance(value.get("created_at"), str)


def stored(text: object, scope: Scope, metadata: Mapping[str, Any] | None, fact: Mapping[str, Any]) -> dict[str, Any]:
    """A new memory."""
    now = now_text()
    made: dict[str, Any] = {"memory": worded(text), "created_at": now, "updated_at": None, **scope.fields}
    made |= {name: value for name, value in fact.items() if name in _OPTIONAL and value is not None}
    return made | ({"metadata": dict(metadata)} if metadata else {})


def shown(memory_id: str, entry: Entry, score: float | None = None) -> dict[str, Any]:
    """A memory as callers get it."""
    record = entry.value
    found = {
        "id": memory_id,
        "memory": record["memory"],
        "hash": digest(record["memory"]),
        "metadata": record.get("metadata"),
        "created_at": record["created_at"],
        "updated_at": record.get("updated_at"),
        "agent": entry.agent,
        "confidence": entry.confidence,
    }
    found |= {name: record[name] for name in (*SCOPES, *_OPTIONAL) if record.get(name) is not None}
    if entry.siblings:
        found["at_odds"] = said(entry)[1:]
    return found if score is None else found | {"score": score}


def said(entry: Entry) -> list[str]:
    """The text of a memory, with all that was written at once with it."""
    return [one.value["memory"] for one in (entry, *entry.siblings) if is_record(one.value)]


def holds(record: Mapping[str, Any], at: datetime) -> bool:
    """Whether a fact holds at that moment."""
    since, until = moment(record.get("valid_from")), moment(record.get("valid_until"))
    return (since is None or since <= at) and (until is None or at < until)


def matches(record: Mapping[str, Any], filters: Mapping[str, Any] | None) -> bool:
    """Whether all ``filters`` are what a memory's metadata, or its own fields, say."""
    metadata = record.get("metadata")
    known = {**record, **(metadata if isinstance(metadata, Mapping) else {})}
    return all(known.get(name) == value for name, value in (filters or {}).items())


def moment(text: object) -> datetime | None:
    """The time that is stored; None if there is none, or it is none."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return aware(found)


def aware(time: datetime | None) -> datetime | None:
    """A time that a caller gave, with its zone: UTC where it has none."""
    expect(datetime | None, time=time)
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


def now_text() -> str:
    """The present, as it is stored."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
