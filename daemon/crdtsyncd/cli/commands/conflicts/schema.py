"""``schema``: what is declared for the keys of a pattern."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.commands.conflicts.schema_migration import check, migrate
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import absent, refused_value
from crdtsyncd.cli.params import FILE, HISTORY_CAP, KEY, SIZE, TEXT, TTL
from crdtsyncd.cli.shared_options import concern_option, read_text
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows
from crdtsyncd.wording import ago, byte_size, span

from crdtsync.wire.kinds import TRAITS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from crdtsyncd.cli.params import WriteConcernValue

    from crdtsync.client import Schema

POLICIES = ("lww", "all", "max", "min", "confidence", "first", "manual")


@click.group("schema", cls=StateGroup)
def schema() -> None:
    """Declare how keys are read and what may be written, by pattern."""


@schema.command("set")
@click.argument("pattern", type=TEXT)
@click.option("--policy", type=click.Choice(POLICIES), help="Which of several values readers are shown first.")
@click.option("--refuse-lower", is_flag=True, help="Refuse a later write that ranks lower than what is shown.")
@click.option(
    "--history", type=HISTORY_CAP, metavar="all|none|SIZE|DURATION", help="How much history is kept of all these keys."
)
@click.option("--kind", type=click.Choice([kind.word for kind in TRAITS]), help="The only kind that is written.")
@click.option("--json-schema", metavar="FILE", type=FILE, help="A JSON Schema that values must fit; - is stdin.")
@click.option("--ttl", type=TTL, metavar="DURATION", help="How long a value lives that is written without a ttl.")
@click.option("--sliding", is_flag=True, help="A value with that --ttl lives on when it is read.")
@click.option("--writer", "writers", metavar="AGENT", multiple=True, help="The only agents that may write; repeatable.")
@click.option("--version", type=click.IntRange(min=1), help="The version of the schema; it only rises.")
@click.option("--older", type=click.Choice(("refuse", "mark")), help="What becomes of writers of an older version.")
@click.option("--max-entries", type=click.IntRange(min=1), metavar="N", help="Keys, or elements of each log.")
@click.option("--max-bytes", type=SIZE, metavar="SIZE", help="Of all values, or of each log.")
@click.option("--none", "is_none", is_flag=True, help="Declare nothing any more.")
@concern_option
def set_(
    settings: Settings,
    pattern: str,
    policy: str | None,
    refuse_lower: bool,
    history: bool | int | timedelta | None,
    is_none: bool,
    w: WriteConcernValue | None,
    **rules: Any,
) -> None:
    """Declare what holds for keys, and print the token. It replaces all that was declared for PATTERN.

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

    The other options are rules for writes. A host checks them when one of its agents writes, and refuses what breaks
    them with status 1; what is there already stays. With --older mark, who says to know an older --version may write,
    and meta says which; commands say none, and are taken to know the newest. The JSON Schema is of the value of a
    register, of an element of a log or set, and of each field that is written to a map, as an object of that field.

    --max-entries and --max-bytes go with --kind register or log. With register they are of all keys of the pattern
    together, with log of the elements of each log. A write of one more removes the oldest.

    \b
    Examples:
      crdtsync schema set 'findings/**' --policy confidence
      crdtsync schema set best/price --policy min --refuse-lower
      crdtsync schema set 'beats/**' --history none
      crdtsync schema set 'bids/*' --kind register --json-schema bid.json
      crdtsync schema set 'plan/**' --writer planner --version 2
      crdtsync schema set 'cache/*' --kind register --max-entries 500
      crdtsync schema set 'memory/**' --ttl 30d --sliding
      crdtsync schema set 'findings/**' --none
    """
    if rules["json_schema"] is not None:
        rules["json_schema"] = _object_in(rules["json_schema"])
    rules["writers"] = rules["writers"] or None
    is_ruled = any(rule not in (None, False) for rule in rules.values())
    if is_none == (policy is not None or history is not None or is_ruled):
        raise click.UsageError("give --policy, --history or a rule, or --none.")
    if is_none and refuse_lower:
        raise click.UsageError("--none declares nothing: leave out --refuse-lower.")
    wanted = policy or (None if is_none else "lww")
    with connect(settings) as client:
        rules["older"] = rules["older"] or "refuse"
        before = None if is_none else client.schema(pattern, exact=True)
        token = client.schema_set(
            pattern, wanted, refuse_lower=refuse_lower, history=True if history is None else history, **rules, w=w
        )
    if is_none and not token.existed:
        raise absent(f"nothing is declared for {pattern!r}: there is nothing to remove")
    output.result(settings, token, {"token": token, "nodes": token.nodes})
    gone = [] if before is None else [name for name in _REPLACED if getattr(before, name) and not rules[name]]
    if gone:
        named = ", ".join(
            f"--{name.removesuffix('s') if name == 'writers' else name}".replace("_", "-") for name in gone
        )
        output.warning(f"this replaced all that was declared for {pattern!r}: without {named}, which it had")


_REPLACED = ("kind", "json_schema", "ttl", "sliding", "writers", "version", "max_entries", "max_bytes")


def _object_in(file: IO[bytes]) -> dict[str, Any]:
    from crdtsyncd.cli.data import json_values

    name = str(file.name)
    try:
        content = json_values.loads(read_text(file.read(), name))
    except json_values.NotStorable as error:
        raise refused_value(f"{name} is no JSON Schema: {error}") from None
    if not isinstance(content, dict):
        raise refused_value(f'{name} is no JSON Schema: that is an object, such as {{"type": "string"}}')
    return content


@schema.command("show")
@click.argument("pattern", type=TEXT, required=False)
@click.option("--key", metavar="KEY", type=KEY, help="Only the one that applies to this key.")
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
    show_rows(settings, COLUMNS, map(_fields, found), "no schemas: all keys are read by the policy lww")


def _fields(found: Schema) -> dict[str, Any]:  # Any: as the columns have it
    names = (
        "pattern", "policy", "refuse_lower", "siblings", "agent", "node", "time", "kind", "version", "json_schema",
        "older", "max_entries", "max_bytes", "sliding",
    )  # fmt: skip
    fields = {name: said for name, said in found.fields.items() if name != "json"}
    if found.json_schema is not None:
        fields["json"] = found.json_schema
    more = {"fields": fields, "history": fields.get("history", True), "writers": [*found.writers]}
    return {**{name: getattr(found, name) for name in names}, **more, "ttl": found.ttl and found.ttl.total_seconds()}


def _rules_shown(row: Mapping[str, Any]) -> str:
    said = [
        row["kind"],
        row["json_schema"] and "json schema",
        row["ttl"] and f"{'sliding ' if row['sliding'] else ''}ttl {span(row['ttl'])}",
        row["writers"] and f"by {', '.join(row['writers'])}",
        row["version"] and f"version {row['version']}",
        row["older"] != "refuse" and f"older {row['older']}",
        row["max_entries"] and f"{row['max_entries']:,} entries",
        row["max_bytes"] and byte_size(row["max_bytes"]),
    ]
    return "; ".join(filter(None, said))


def _cap_shown(history: Any) -> str:  # Any: as it is stored
    if isinstance(history, bool):
        return "" if history else "none"
    return byte_size(history["bytes"]) if "bytes" in history else span(history["age_ms"] / 1000)


COLUMNS = (
    Column("PATTERN", folds=True),
    Column("POLICY"),
    Column("LOWER", lambda row: "refused" if row["refuse_lower"] else ""),
    Column("HISTORY", lambda row: _cap_shown(row["history"])),
    Column("RULES", _rules_shown, folds=True),
    Column("AGENT"),
    Column("NODE"),
    Column("SET", lambda row: ago(row["time"])),
)


for _command in (check, migrate):
    schema.add_command(_command)
