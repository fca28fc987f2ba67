"""``merge`` and ``drop``: keys of kind map."""

from __future__ import annotations

from typing import Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import absent, refused_value
from crdtsyncd.cli.params import TEXT
from crdtsyncd.cli.shared_options import (
    concern_option,
    condition_option,
    confidence_option,
    if_absent_option,
    if_version_option,
    key_argument,
    value_of,
)
from crdtsyncd.cli.show import output


@state_command("merge")
@key_argument
@click.argument("fields", metavar="JSON", type=TEXT)
@click.option("--seen", metavar="V", type=TEXT, help="Replace exactly what this version covers of these fields.")
@if_version_option
@if_absent_option
@click.option("--if-field-absent", is_flag=True, help="Only if the map has none of these fields.")
@confidence_option
@concern_option
def merge(settings: Settings, key: str, fields: str, seen: str | None, **options: Any) -> None:
    """Write some fields of a map, and print the token.

    JSON is an object; "-" reads it from stdin. Its fields are written, the others stay as they are. Each field is
    replaced whatever it is; with --seen, what was written since then lives on beside it.

    \b
    Example:
      crdtsync merge profile '{"name": "Ada", "born": 1815}'
    """
    content = value_of(fields, as_string=False, instead="quote it")
    if not isinstance(content, dict):
        raise refused_value(f"a map is merged from a JSON object of its fields, not from {_NAMES[type(content)]}")
    with connect(settings) as client:
        given = ... if seen is None else seen
        written = client.merge(key, content, seen=given, **options)
    report = {"token": written, "siblings": written.siblings, "nodes": written.nodes}
    output.result(settings, written, report)
    output.warn_of_lost(written)


_NAMES = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    bytes: "bytes",
    list: "a list",
}


@state_command("drop")
@key_argument
@click.argument("field", type=TEXT)
@condition_option
def drop(settings: Settings, key: str, field: str, **conditions: Any) -> None:
    """Remove a field from a map, and print the token.

    If the map does not have the field, the exit status is 1.

    \b
    Example:
      crdtsync drop profile born
    """
    with connect(settings) as client:
        existed = client.drop(key, field, **conditions)
        if not existed:
            raise absent(f"{key!r} has no field {field!r}")
        output.result(settings, client.last_token or "", {"existed": existed, "token": client.last_token})
