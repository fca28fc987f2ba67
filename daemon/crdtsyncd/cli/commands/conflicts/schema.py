"""``schema``: what is declared for the keys of a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup, pass_settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import HISTORY_CAP, KEY, TEXT
from crdtsyncd.cli.shared_options import concern_option
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from datetime import timedelta

    from crdtsyncd.cli.params import WriteConcernValue

    from crdtsync.client import Schema

POLICIES = ("lww", "all", "max", "min", "confidence", "first", "manual")


@click.group("schema", cls=StateGroup, no_args_is_help=False)
def schema() -> None:
    """Declare how keys are read and what history keeps, by pattern."""


@state_command("set")
@click.argument("pattern", type=TEXT)
@click.option("--policy", type=click.Choice(POLICIES), help="Which of several values readers are shown first.")
@click.option("--refuse-lower", is_flag=True, help="Refuse a later write that ranks lower than what is shown.")
@click.option(
    "--history", type=HISTORY_CAP, metavar="all|none|SIZE|DURATION", help="How much history is kept of all these keys."
)
@click.option("--none", "is_none", is_flag=True, help="Declare nothing any more.")
@concern_option
@pass_settings
def set_(
    settings: Settings,
    pattern: str,
    policy: str | None,
    refuse_lower: bool,
    history: bool | int | timedelta | None,
    is_none: bool,
    w: WriteConcernValue | None,
) -> None:
    """Declare the read policy of keys, and print the token.

    PATTERN is a key, or has * for one part and ** for any number of parts; for a key that several match, the most
    specific one applies. Values that are there already are read by it too. What comes first:

    \b
    lww: the newest, as without a schema
    all: get prints the list of all
    max: the highest value
    min: the lowest value
    confidence: the highest confidence
    first: the oldest
    manual: nothing; get fails with status 6 until somebody resolves

    --refuse-lower goes with max, min, confidence and first. --history says how much history each node keeps of these
    keys together, so that they push nobody else's out: none, a size such as 64MB, or what ended within a time such as
    7d; without --policy, that is lww. If there is nothing that --none could remove, the exit status is 1.

    \b
    Examples:
      crdtsync schema set 'findings/**' --policy confidence
      crdtsync schema set best/price --policy min --refuse-lower
      crdtsync schema set 'beats/**' --history none
      crdtsync schema set 'findings/**' --none
    """
    if is_none == (policy is not None or history is not None):
        raise click.UsageError("give either --policy, --history or both, or --none.")
    if is_none and refuse_lower:
        raise click.UsageError("--none declares nothing: leave out --refuse-lower.")
    wanted = policy or (None if is_none else "lww")
    with connect(settings) as client:
        token = client.schema_set(
            pattern, wanted, refuse_lower=refuse_lower, history=True if history is None else history, w=w
        )
    if is_none and not token.existed:
        raise absent(f"nothing is declared for {pattern!r}: there is nothing to remove")
    output.result(settings, token, {"token": token, "nodes": token.nodes})


@state_command("show")
@click.argument("pattern", type=TEXT, required=False)
@click.option("--key", metavar="KEY", type=KEY, help="Only the one that applies to this key.")
@pass_settings
def show(settings: Settings, pattern: str | None, key: str | None) -> None:
    """Show what is declared: for all patterns, for PATTERN, or for the one that applies to a key.

    With --json each is an object on a line; "fields" is all that is stored of it. If there is none for PATTERN or KEY,
    the exit status is 1.

    \b
    Examples:
      crdtsync schema show
      crdtsync schema show --key findings/paris
    """
    if pattern is not None and key is not None:
        raise click.UsageError("give PATTERN or --key, not both.")
    wanted = pattern if key is None else key
    with connect(settings) as client:
        if wanted is None:
            found = list(client.schemas())
        else:
            one = client.schema(wanted, exact=key is None)
            found = [] if one is None else [one]
    if wanted is not None and not found:
        what = "nothing applies to" if pattern is None else "nothing is declared for"
        raise absent(f"{what} {wanted!r}: its values are read by the policy lww")
    rows = [_fields(each) for each in found]
    if settings.json:
        for row in rows:
            output.line(output.record(row))
    else:
        _print(rows)


def _fields(found: Schema) -> dict[str, Any]:  # Any: as the columns have it
    names = ("pattern", "policy", "refuse_lower", "fields", "siblings", "agent", "node", "time")
    return {**{name: getattr(found, name) for name in names}, "history": found.fields.get("history", True)}


def _cap_shown(history: Any) -> str:  # Any: as it is stored
    from crdtsyncd.wording import byte_size, span

    if isinstance(history, bool):
        return "" if history else "none"
    return byte_size(history["bytes"]) if "bytes" in history else span(history["age_ms"] / 1000)


def _print(rows: list[dict[str, Any]]) -> None:
    from crdtsyncd.cli.show.tables import Column, show_table
    from crdtsyncd.wording import ago, rfc3339

    columns = (
        Column("PATTERN", lambda row: row["pattern"], folds=True),
        Column("POLICY", lambda row: row["policy"]),
        Column("LOWER", lambda row: "refused" if row["refuse_lower"] else ""),
        Column("HISTORY", lambda row: _cap_shown(row["history"])),
        Column("AGENT", lambda row: row["agent"] or ""),
        Column("NODE", lambda row: row["node"] or ""),
        Column("SET", lambda row: ago(rfc3339(row["time"]) if row["time"] else None)),
    )
    if rows:
        show_table(columns, rows)
    else:
        output.line("no schemas: all keys are read by the policy lww")


for command in (set_, show):
    schema.add_command(command)
