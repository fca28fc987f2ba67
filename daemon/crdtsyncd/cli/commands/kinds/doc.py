"""``doc``: the nested maps and lists of a document, printed and edited by path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import TEXT, WriteConcernValue
from crdtsyncd.cli.shared_options import at_option, concern_option, key_argument, value_of
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from crdtsync.client.values.points import Point


@state_command("doc")
@key_argument
@click.option("--get", "get", metavar="PATH", type=TEXT, help="Print only what stands there.")
@click.option("--set", "set_", metavar="PATH JSON", type=(TEXT, TEXT), help="Put a value there.")
@click.option("--insert", metavar="PATH JSON", type=(TEXT, TEXT), help="Put a value into a list, before that place.")
@click.option("--delete", metavar="PATH", type=TEXT, help="Take out what stands there.")
@click.option("--sibling", metavar="DOT", type=TEXT, help="Of a sibling: crdtsync conflicts shows its dot.")
@at_option
@concern_option
def doc(
    settings: Settings,
    key: str,
    get: str | None,
    set_: tuple[str, str] | None,
    insert: tuple[str, str] | None,
    delete: str | None,
    sibling: str | None,
    at: Point | None,
    w: WriteConcernValue | None,
) -> None:
    """Print a document's map as JSON, or edit it and print the token.

    PATH is names and indexes with "/" between them; "-" is the end of a list. Edits of several authors at once are
    merged, place by place.

    \b
    Examples:
      crdtsync doc board --set columns '[{"title": "todo"}]'
      crdtsync doc board --insert columns/- '{"title": "done"}'
      crdtsync doc board --get columns/0/title
      crdtsync doc board --at 10m
    """
    if sum(given is not None for given in (get, set_, insert, delete)) > 1:
        raise click.UsageError("--get, --set, --insert and --delete exclude each other: one at a time.")
    if (sibling is not None or at is not None) and (set_ or insert or delete is not None):
        raise click.UsageError("--sibling and --at only read: leave out --set, --insert and --delete.")
    with connect(settings) as client:
        document = client.doc(key)
        missing = object()
        if set_ is not None:
            token = document.set(set_[0], value_of(set_[1], as_string=False, instead="quote it"), w=w)
        elif insert is not None:
            token = document.insert(insert[0], value_of(insert[1], as_string=False, instead="quote it"), w=w)
        elif delete is not None:
            if document.get(delete, missing) is missing:
                raise absent(f"{key!r} has nothing at {delete!r}")
            token = document.delete(delete, w=w)
        else:
            found = document.get(get or "", missing, sibling=sibling, at=at)
            if found is missing or (not get and client.entry(key, at=at) is None):
                nothing = "does not exist" if at is None else "did not exist then"
                raise absent(f"{key!r} {nothing if not get else f'has nothing at {get!r}'}")
            output.line(json_values.dumps(found))
            return
    output.result(settings, token, {"token": token})
