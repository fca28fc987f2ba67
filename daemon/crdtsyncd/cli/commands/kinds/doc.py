"""``doc``: the nested maps and lists of a document, printed and edited by path."""

from __future__ import annotations

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import TEXT, WriteConcernValue
from crdtsyncd.cli.shared_options import concern_option, key_argument, value_of
from crdtsyncd.cli.show import output


@state_command("doc")
@key_argument
@click.option("--get", "get", metavar="PATH", type=TEXT, help="Print only what stands there.")
@click.option("--set", "set_", metavar="PATH JSON", type=(TEXT, TEXT), help="Put a value there.")
@click.option("--insert", metavar="PATH JSON", type=(TEXT, TEXT), help="Put a value into a list, before that place.")
@click.option("--delete", metavar="PATH", type=TEXT, help="Take out what stands there.")
@concern_option
def doc(
    settings: Settings,
    key: str,
    get: str | None,
    set_: tuple[str, str] | None,
    insert: tuple[str, str] | None,
    delete: str | None,
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
    """
    if sum(given is not None for given in (get, set_, insert, delete)) > 1:
        raise click.UsageError("--get, --set, --insert and --delete exclude each other: one at a time.")
    with connect(settings) as client:
        document = client.doc(key)
        if set_ is not None:
            token = document.set(set_[0], value_of(set_[1], as_string=False, instead="quote it"), w=w)
        elif insert is not None:
            token = document.insert(insert[0], value_of(insert[1], as_string=False, instead="quote it"), w=w)
        elif delete is not None:
            token = document.delete(delete, w=w)
        else:
            missing = object()
            found = document.get(get or "", missing)
            if found is missing or (not get and client.entry(key) is None):
                raise absent(f"{key!r} does not exist" if not get else f"{key!r} has nothing at {get!r}")
            output.line(json_values.dumps(found))
            return
    output.result(settings, token, {"token": token})
