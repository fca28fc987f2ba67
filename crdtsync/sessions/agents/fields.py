"""Objects in lines of JSON that somebody else writes: any field may be missing, or be of another type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Self


class Fields(dict[str, Any]):
    """An object. What is not as it should be counts as empty: ``fields.sub("message").text("model")``."""

    def text(self, name: str) -> str:
        """The text in the field."""
        found = self.get(name)
        return found if isinstance(found, str) else ""

    def sub(self, name: str) -> Self:
        """The object in the field."""
        found = self.get(name)
        return found if isinstance(found, type(self)) else type(self)()

    def each(self, name: str) -> list[Self]:
        """The objects in the list in the field."""
        found = self.get(name)
        return [one for one in found if isinstance(one, type(self))] if isinstance(found, list) else []

    def strings(self, name: str) -> list[str]:
        """The texts in the list in the field."""
        found = self.get(name)
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []

    def said(self, name: str) -> str:
        """The text in the field, or the texts of the parts that it lists."""
        return self.text(name) or texts(self.each(name))

    def added(self, *names: str) -> int:
        """The sum of these counts."""
        return sum(count for count in map(self.get, names) if isinstance(count, int))


_CHAINED = re.compile(rb'"(uuid|parentUuid)": ?"([\w-]{1,100})"')
UNREAD = "line that cannot be read", "it is no JSON, or nested too deep"
_DECODER = json.JSONDecoder(object_hook=Fields)


def texts(parts: Iterable[Fields]) -> str:
    """The texts of parts of a message."""
    return "\n".join(filter(None, (part.text("text") for part in parts)))


def records(lines: Iterable[bytes]) -> Iterator[Fields]:
    """The objects in JSON lines. Bytes that are no UTF-8 become U+FFFD, as in the agents. Of a line that cannot be read
    otherwise there is its place in the chain, if it says one, and the field ``unread``.
    """
    for line in lines:
        try:
            found = _DECODER.decode(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            if not line.strip():
                continue
            found = Fields(unread=True)
            found |= {name.decode(): value.decode("utf-8", "replace") for name, value in _CHAINED.findall(line)}
        if isinstance(found, Fields):
            yield found


def json_bytes(value: object, *, sort_keys: bool = False) -> bytes:
    """``value`` as JSON."""
    return json.dumps(value, ensure_ascii=False, sort_keys=sort_keys).encode("utf-8", "replace")
