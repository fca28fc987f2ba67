"""The lines of a batch file: checked, and as one is handed to the client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click
from crdtsyncd.cli.data.kinds import OPERATIONS
from crdtsyncd.cli.params import TTL

if TYPE_CHECKING:
    from crdtsyncd.cli.data.fields import LineField
    from crdtsyncd.cli.data.json_values import Value
    from crdtsyncd.cli.data.ndjson import Line


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One line, checked: the method of a batch to call and what with; ``place`` is where it stands."""

    method: str
    arguments: dict[str, Value]
    place: str = field(default="", compare=False)


def operation_of(line: Line) -> BatchLine:
    """The operation that a line describes; otherwise an error that names the line and says what is wrong with it."""
    name = line.fields.get("op")
    if not isinstance(name, str) or name not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise line.wrong(f'"op" must be one of {known}')
    method, fields = OPERATIONS[name]
    arguments = {field: value for field, value in line.fields.items() if field != "op"}
    unknown = next((field for field in arguments if field not in fields), None)
    if unknown is not None:
        raise line.wrong(f'"{unknown}" is not a field of {name}, which takes {", ".join(fields)}')
    for name, rule in fields.items():
        _check(line, name, rule)
    if "ttl" in arguments:
        arguments["ttl"] = _seconds(line, arguments["ttl"])
    return BatchLine(method, arguments, f"{line.file}:{line.number}")


def _check(line: Line, field: str, rule: LineField) -> None:
    if field not in line.fields:
        if rule.required:
            raise line.wrong(f'"{field}" is missing')
    elif not rule.fits(line.fields[field]):
        raise line.wrong(f'"{field}" must be {rule.wanted}')


def _seconds(line: Line, ttl: Value) -> float:
    try:
        seconds: float = TTL.convert(ttl, None, None)
        return seconds
    except click.BadParameter as error:
        raise line.wrong(f'"ttl": {error.message}') from None
