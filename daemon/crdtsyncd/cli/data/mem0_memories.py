"""Memories of mem0 as lines of an export.

Example: ``{"results": [{"id": "7f0c", "memory": "likes trains", "user_id": "ada", …}]}`` becomes the register
``memory/user/ada/7f0c``. mem0's id is a part of the key, so what is brought over again is found there.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.data.ndjson import Line, name_of
from crdtsyncd.cli.errors import refused_value
from crdtsyncd.cli.show import output

from crdtsync.context.memory.record import SCOPES, Scope, worded
from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crdtsyncd.cli.data.json_values import Value

NO_TIME = "1970-01-01T00:00:00.000+00:00"
"""The time of a memory that does not say when it was made: it counts as the oldest."""
BESIDE = ("actor_id", "role", "categories")
"""Fields that mem0 has beside the metadata, and that go into it here."""


class Mem0Memories:
    """The memories that a file holds, under ``prefix``; ``left_out`` counts those that cannot be one here.

    :raises CommandFailed: it is not what mem0 returns.
    """

    def __init__(self, file: IO[bytes], prefix: str) -> None:
        self._name = name_of(file)
        self._prefix = prefix.rstrip("/") + "/"
        self.left_out = 0
        try:
            said = json_values.loads(file.read().decode())
        except (UnicodeDecodeError, json_values.NotJson, json_values.NotStorable) as error:
            why = error.fault if isinstance(error, json_values.NotJson) else str(error)
            raise refused_value(f"{self._name} is not JSON that can be stored: {why}") from None
        found = said.get("results") if isinstance(said, dict) else said
        if not isinstance(found, list):
            raise refused_value(f"{self._name} holds no memories: it must be what mem0's get_all() returns, as JSON")
        self._found = found

    def count(self) -> int:
        """How many there are."""
        return len(self._found)

    def lines(self) -> Iterator[Line]:
        """Each memory as a line of an export."""
        for number, memory in enumerate(self._found, 1):
            try:
                fields = self._fields(memory)
            except (InvalidRequest, ValueError) as error:
                self.leave_out(f"memory {number} of {self._name}", str(error))
            else:
                yield Line(f"memory {number} of {self._name}", number, fields)

    def leave_out(self, name: str, why: str) -> None:
        """Say that a memory has no place here, and why."""
        self.left_out += 1
        output.warning(f"{name} was left out: {why}")

    def _fields(self, memory: Any) -> dict[str, Value]:
        if not isinstance(memory, dict) or not isinstance(memory.get("id"), str) or not memory["id"]:
            raise InvalidRequest("it is no object with an id")
        scope = Scope(**{name: memory[name] for name in SCOPES if isinstance(memory.get(name), str)}).needed()
        metadata = memory.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise InvalidRequest("its metadata are no object")
        metadata |= {name: memory[name] for name in BESIDE if memory.get(name)}
        value = {
            "memory": worded(memory.get("memory")),
            "created_at": _time(memory.get("created_at")) or NO_TIME,
            "updated_at": _time(memory.get("updated_at")),
            **scope.fields,
            **({"metadata": metadata} if metadata else {}),
        }
        key = f"{self._prefix}{scope.place()}{quote(memory['id'], safe='')}"
        return {"key": key, "kind": "register", "value": value}


def _time(said: object) -> str | None:
    """A time as a memory here has it; one without a zone counts as UTC.

    :raises ValueError: it is none.
    """
    if not said:
        return None
    found = datetime.fromisoformat(str(said))
    return (found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)).isoformat(timespec="milliseconds")
