"""NDJSON files: one JSON object a line, and for whatever is wrong with one the name of the file and the line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import CommandFailed, refused_value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO


@dataclass(frozen=True, slots=True)
class Line:
    """One object with its place."""

    file: str
    number: int
    fields: dict[str, json_values.Value]

    def wrong(self, what: str) -> CommandFailed:
        """The error that this line is."""
        return refused_value(f"{self.file}:{self.number}: {what}")


def lines(file: IO[bytes], name: str) -> Iterator[Line]:
    """The objects of a file called ``name``, one after the other; blank lines do not count as any."""
    for number, content in enumerate(file, 1):
        if not content.strip():
            continue
        empty = Line(name, number, {})
        try:
            fields = json_values.loads(content.decode().rstrip("\r\n"))  # else the column is one of the line after it
        except UnicodeDecodeError:
            raise empty.wrong("it is not UTF-8") from None
        except json_values.NotJson as error:
            raise empty.wrong(f"it is not JSON ({error.fault} at column {error.column})") from None
        except json_values.NotStorable as error:
            raise empty.wrong(f"it cannot be stored: {error}") from None
        if not isinstance(fields, dict):
            raise empty.wrong("it is not a JSON object")
        yield Line(name, number, fields)


def name_of(file: IO[bytes]) -> str:
    """The name of a file in a message."""
    name = getattr(file, "name", None)
    return "stdin" if name in (None, 0, "<stdin>") else str(name)
