"""A value as a document that a program or a person works on: JSON, or plain text for strings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import refused_value
from crdtsyncd.cli.shared_options import read_text

_FAULTS = {json_values.NotJson: "is not JSON ({})", json_values.NotStorable: "cannot be stored ({})"}


class Nothing:
    """Stands for the value of a key that is absent; None is a value."""


NOTHING: Final = Nothing()


@dataclass(frozen=True, slots=True)
class ValueForm:
    """How a value looks outside: JSON with an optional indent, or with ``as_string`` the string itself."""

    as_string: bool = False
    indent: int | None = None

    @property
    def suffix(self) -> str:
        """The ending of a file that holds it, by which an editor knows how to show it."""
        return ".txt" if self.as_string else ".json"

    def encode(self, value: json_values.Value) -> bytes:
        """The document for a value; empty for :data:`NOTHING`."""
        if value is NOTHING:
            return b""
        if not self.as_string:
            return f"{json_values.dumps(value, indent=self.indent)}\n".encode()
        if not isinstance(value, str):
            raise refused_value(f"the value is not a string but {type(value).__name__}; do it without --string")
        return value.encode()

    def decode(self, content: bytes, source: str) -> json_values.Value:
        """The value of a document; ``source`` names it when it cannot be one."""
        text = read_text(content, source)
        if self.as_string:
            return text
        try:
            return json_values.loads(text)
        except json_values.NotStorable as error:
            what = _FAULTS[type(error)].format(error) if text.strip() else "is empty, and not JSON"
            raise refused_value(f"{source} {what}; nothing was written") from None
