"""``access``: who may read, write and administer which keys; quotas."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.params import TEXT, Word
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_table
from crdtsyncd.wording import ago, moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crdtsync.client.blocking.client import Session

RIGHTS = ("read", "write", "admin")
QUOTAS = ("requests_per_s", "bytes_per_s", "watches", "connections")
DEFAULT = "default"


def _who(word: str) -> str:
    """As the daemon knows it, ``user:NAME`` and ``group:NAME`` being of this host; whether it names somebody is for the
    daemon to say.
    """
    form, _, name = word.partition(":")
    try:
        if form == "user":
            import pwd

            return f"uid:{pwd.getpwnam(name).pw_uid}"
        if form == "group":
            import grp

            return f"gid:{grp.getgrnam(name).gr_gid}"
    except KeyError:
        raise ValueError(f"this host has no {form} {name!r}.") from None
    return word


def _right(word: str) -> str:
    """``read``, ``write`` or ``admin``; of several, by commas, the one that includes the others."""
    words = word.split(",")
    wrong = next((each for each in words if each not in RIGHTS), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is not a right: read, write or admin.")
    return max(words, key=RIGHTS.index)


def _limit(word: str) -> int | str:
    """A whole number from 1 on, or ``default``."""
    if word != DEFAULT and (not word.isascii() or not word.isdecimal() or len(word) > 15 or int(word) < 1):
        raise ValueError(f"{word!r} is not a whole number from 1 on, nor {DEFAULT!r}.")
    return word if word == DEFAULT else int(word)


LIMIT = Word("limit", _limit)
RIGHT = Word("right", _right)
who_argument = click.argument("who", type=Word("who", _who))
pattern_argument = click.argument("pattern", type=TEXT, default="**")


@click.group("access", cls=StateGroup)
def access() -> None:
    """Say who may read, write and administer which keys.

    Rules are of one space, and hold on all hosts.

    WHO is agent:NAME (see `crdtsync agent`), user:NAME or uid:N, group:NAME or gid:N, `socket` (the socket's owner and
    group, on each host, which may do all unless that is taken away), or `anyone` that can open the socket.

    PATTERN has `*` for one part of a key and `**` for any number, none included; `**` is all keys.

    \b
    Example:
      crdtsync access grant agent:critic read 'plan/**'
    """


@access.command("grant")
@who_argument
@click.argument("right", type=RIGHT)
@pattern_argument
def grant(settings: Settings, who: str, right: str, pattern: str) -> None:
    """Let WHO read, write or admin the keys of PATTERN. Each right includes those before it.

    For who has the right to admin these keys, root, and the user that crdtsyncd runs as.

    \b
    Examples:
      crdtsync access grant agent:critic read 'plan/**'
      crdtsync access grant group:research write --space team
    """
    with _asking(settings) as client:
        fields = client.access_grant(who, right, pattern)
    output.result(settings, _sentence(fields), fields)


@access.command("revoke")
@who_argument
@pattern_argument
@click.option("--right", type=RIGHT, default="read", help="Leave the rights below this one.")
def revoke(settings: Settings, who: str, pattern: str, right: str) -> None:
    """Take away the rule for WHO and PATTERN, as `crdtsync access list` shows it.

    What runs and is no longer allowed ends: watches, mirrors and resolvers, here at once.

    \b
    Examples:
      crdtsync access revoke agent:critic 'plan/**'
      crdtsync access revoke socket --space payroll
    """
    with _asking(settings) as client:
        fields = client.access_revoke(who, pattern, right=right)
    output.result(settings, _sentence(fields), fields)


@access.command("list")
@click.option("--all", "everywhere", is_flag=True, help="Of all spaces.")
def list_(settings: Settings, everywhere: bool) -> None:
    """List the rules of the space, and quotas. Who does not administer it sees its own alone.

    With --json one object a line.

    \b
    Examples:
      crdtsync access list
      crdtsync access list --all --json
    """
    with _asking(settings) as client:
        found = client.access_list(everywhere=everywhere)
    rules, quotas = found["rules"], found["quotas"]
    for rule in rules:
        rule["time"] = moment(rule.get("time"))
    if settings.json:
        for row in (*rules, *quotas):
            output.line(json_values.dumps(row))
        return
    if rules:
        show_table(RULE_COLUMNS, rules)
    else:
        output.line("no rules that you may see")
    if quotas:
        output.line("")
        show_table(QUOTA_COLUMNS, quotas)


@access.command("quota")
@who_argument
@click.option("--requests-per-s", type=LIMIT, metavar="N", help="Requests a second.")
@click.option("--bytes-per-s", type=LIMIT, metavar="N", help="Bytes of requests that write, a second.")
@click.option("--watches", type=LIMIT, metavar="N", help="Watches and resolvers.")
@click.option("--connections", type=LIMIT, metavar="N", help="Connections.")
def quota(settings: Settings, who: str, **given: int | str | None) -> None:
    """Give WHO, agent:NAME or user:NAME, other quotas than the daemons' settings say; N may be `default`.

    They hold on each host for itself. For root and the user that crdtsyncd runs as.

    \b
    Example:
      crdtsync access quota agent:critic --requests-per-s 50
    """
    limits = {name: None if limit == DEFAULT else limit for name, limit in given.items() if limit is not None}
    if not limits:
        raise click.UsageError("say which quota, such as --requests-per-s 50")
    with connect(settings) as client:
        fields = client.access_quota(who, **limits)  # type: ignore[arg-type]  # numbers, as LIMIT makes them
    shown = ", ".join(f"{name} {'default' if fields[name] is None else fields[name]}" for name in QUOTAS)
    output.result(settings, f"{who}: {shown}", fields)


@contextlib.contextmanager
def _asking(settings: Settings) -> Iterator[Session]:
    """A session in the space that the settings name, also if there is no such space yet: rules may come first."""
    from crdtsync.client.protocol.address import space_name

    elsewhere = copy.copy(settings)
    elsewhere.space = "default"
    with connect(elsewhere) as client:
        yield client.session(space=space_name(settings.space))


def _sentence(fields: dict[str, Any]) -> str:
    may = f"may {fields['right']}" if fields["right"] else "has no rule for"
    unchanged = "" if fields["changed"] else ", as before"
    return f"{fields['who']} {may} {fields['pattern']} in {fields['space']}{unchanged}"


def _quota(name: str) -> Column:
    return Column(
        name.replace("_per_s", "/s").upper(), lambda row: "" if row[name] is None else f"{row[name]:,}", is_number=True
    )


RULE_COLUMNS = (
    Column("SPACE"),
    Column("WHO"),
    Column("RIGHT"),
    Column("PATTERN", folds=True),
    Column("BY", lambda row: str(row["by"] or "built in")),
    Column("SINCE", lambda row: ago(row["time"]) if row["time"] else ""),
)
QUOTA_COLUMNS = (Column("QUOTA OF", lambda row: str(row["who"])), *map(_quota, QUOTAS))
