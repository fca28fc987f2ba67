"""``checkpoint``: points of a space's past with a name."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.commands.time.restore import diff, restore
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import FILE, CommandFailed, absent
from crdtsyncd.cli.params import CHECKPOINT, KEY, NAME, TEXT, TTL
from crdtsyncd.cli.shared_options import concern_option
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.progress import Progress
from crdtsyncd.cli.show.tables import Column, show_rows
from crdtsyncd.wording import ago, byte_size, counted, rfc3339, span

from crdtsync.errors import InvalidRequest

if TYPE_CHECKING:
    from crdtsyncd.cli.params import WriteConcernValue

    from crdtsync.client import Client


@click.group("checkpoint", cls=StateGroup)
def checkpoint() -> None:
    """Name points of the past, and go back to them."""


@checkpoint.command("create")
@click.argument("name", type=TEXT)
@click.option(
    "--prefix", "prefixes", metavar="P", type=KEY, multiple=True, help="Restore these keys, if not told more."
)
@click.option("--note", metavar="TEXT", type=TEXT, default="", help="Why it is made.")
@click.option("--keep", metavar="DURATION", type=TTL, help="Delete it after this time, such as 7d.")
@concern_option
def create(
    settings: Settings,
    name: str,
    prefixes: tuple[str, ...],
    note: str,
    keep: float | None,
    w: WriteConcernValue | None,
) -> None:
    """Name what this node holds now, and print the token.

    It is one small write, however large the space is. Every node keeps what the checkpoint holds, also what is
    overwritten or deleted later, until it is deleted. Read it with --at checkpoint:NAME.

    \b
    Examples:
      crdtsync checkpoint create before-refactor --note 'critic is let loose'
      crdtsync checkpoint create nightly --prefix plan/ --keep 7d
    """
    with connect(settings) as client:
        token = client.checkpoint(name, prefix=prefixes or None, note=note, keep=keep, w=w)
    output.result(settings, token, {"token": token, "nodes": token.nodes})


@checkpoint.command("list")
def list_(settings: Settings) -> None:
    """List the checkpoints, the oldest first.

    Of one that this node does not hold as a whole, HERE is "no": ask on another node. The last line says how much the
    past of the space takes on this node. With --json each is an object on a line; "held_bytes" and "bytes_max" are
    those of the whole space.

    \b
    Example:
      crdtsync checkpoint list
    """
    with connect(settings) as client:
        found = client.checkpoints()
    sizes = {"held_bytes": found.held_bytes, "bytes_max": found.bytes_max}
    show_rows(settings, COLUMNS, [asdict(each) | sizes for each in found], "no checkpoints")
    if found and not settings.json:
        bound = "" if found.bytes_max is None else f" of {byte_size(found.bytes_max)}"
        output.line(f"the past of the space takes {byte_size(found.held_bytes)}{bound} on this node")


@checkpoint.command("show")
@click.argument("name", type=CHECKPOINT)
def show(settings: Settings, name: str) -> None:
    """Show all that is known of a checkpoint.

    \b
    Example:
      crdtsync checkpoint show before-refactor
    """
    with connect(settings) as client:
        found = [each for each in client.checkpoints() if each.name == name]
        if not found:
            raise _missing(client, name)
    for each in found:
        fields = asdict(each)
        if settings.json:
            output.line(output.record(fields))
            continue
        for field in ("name", "note", "prefixes", "keys", "agent", "node", "time", "ttl", "whole", "cut", "versions"):
            if shown := _shown(fields[field]):
                output.line(f"{field}: {shown}")


@checkpoint.command("delete")
@click.argument("name", type=CHECKPOINT)
@concern_option
def delete(settings: Settings, name: str, w: WriteConcernValue | None) -> None:
    """Delete a checkpoint, and print the token.

    Nodes need not keep what it holds any longer. If a fork was made of it, that cannot be merged any more: merge it
    first.

    \b
    Example:
      crdtsync checkpoint delete before-refactor
    """
    with connect(settings) as client:
        if not client.delete_checkpoint(name, w=w):
            raise _missing(client, name)
        output.result(settings, client.last_token or "", {"token": client.last_token})


def _missing(client: Client, name: str) -> InvalidRequest:
    """As the daemon says it of those that are to be read."""
    return InvalidRequest(f"there is no checkpoint {name} in space {client.space}: see crdtsync checkpoint list")


def _shown(field: Any) -> str:  # Any: as the fields have it
    if isinstance(field, datetime):
        return rfc3339(field)
    if isinstance(field, bool):
        return "yes" if field else "no"
    if isinstance(field, dict):
        return ", ".join(f"{pattern} {version}" for pattern, version in field.items())
    return ", ".join(field) if isinstance(field, list) else "" if field is None else str(field)


COLUMNS = (
    Column("NAME", folds=True),
    Column("KEYS", is_number=True),
    Column("AGENT"),
    Column("NODE"),
    Column("MADE", lambda row: ago(row["time"])),
    Column("HERE", lambda row: "whole" if row["whole"] else "no"),
    Column("NOTE", folds=True),
)


@checkpoint.command("verify")
@click.argument("name", type=CHECKPOINT)
def verify(settings: Settings, name: str) -> None:
    """Read all that a checkpoint holds on this node, and name what is damaged.

    Each value is compared with its hash. What the disk has spoilt is fetched from another node ("+"). If that cannot be
    done ("!"), the exit status is 74, and it says which older checkpoint is whole here.

    \b
    Example:
      crdtsync checkpoint verify before-refactor
    """
    with connect(settings) as client, Progress("keys read") as progress:
        found = client.verify_checkpoint(name, progress=progress.advance)
    if settings.json:
        output.line(output.record(asdict(found)))
    else:
        for key, why in sorted(found.damaged.items()):
            output.line(f"! {key}: {why}")
        for key in sorted(found.mended):
            output.line(f"+ {key}: fetched from another node")
        if not found.damaged:
            output.line(f"whole: {counted(found.keys, 'key')}")
    if found.damaged:
        older = f"the checkpoint {found.older} before it is whole" if found.older else "none before it is whole"
        raise CommandFailed(
            f"damaged here of {name}: {counted(len(found.damaged), 'key')}; {older}", status=FILE, code="damaged"
        )


@checkpoint.command("fork")
@click.argument("name", type=CHECKPOINT, required=False)
@click.option("--now", is_flag=True, help="What is there now: as without NAME.")
@click.option("--space", "sandbox", metavar="SANDBOX", type=NAME, required=True, help="The space to make.")
@click.option("--prefix", "prefixes", metavar="P", type=KEY, multiple=True, help="Only these keys.")
def fork(settings: Settings, name: str | None, now: bool, sandbox: str, prefixes: tuple[str, ...]) -> None:
    """Make a space with what a checkpoint holds, or what is there now, to try something in.

    Every key is copied into the new space SANDBOX; choose a name that no other host uses. Work there with --space
    SANDBOX; "space merge SANDBOX" brings back what has changed since. Where the token that is printed has arrived, the
    fork is whole. To copy from another space than the one you work in, name that before the command.

    \b
    Examples:
      crdtsync checkpoint fork --space trial
      crdtsync checkpoint fork before-refactor --space trial --prefix plan/
      crdtsync --space research checkpoint fork --space research-trial
    """
    if now and name is not None:
        raise click.UsageError("say either which checkpoint, or --now")
    with connect(settings) as client:
        token = client.fork(sandbox, at=None if name is None else f"checkpoint:{name}", prefix=prefixes or "")
    output.result(settings, token, {"token": token, "space": sandbox})


@checkpoint.command("policy")
@click.argument("name", type=TEXT, required=False)
@click.option("--every", metavar="DURATION", type=TTL, help="Make one so often while something changes.")
@click.option("--prefix", "prefixes", metavar="P", type=KEY, multiple=True, help="Only for changes of these keys.")
@click.option("--keep", metavar="N", type=click.IntRange(3, 50), default=24, show_default=True, help="Keep the newest.")
@click.option("--age", metavar="DURATION", type=TTL, help="Keep those younger than this too, 50 at most.")
@click.option("--remove", is_flag=True, help="Make no more.")
@concern_option
def policy(
    settings: Settings,
    name: str | None,
    every: float | None,
    prefixes: tuple[str, ...],
    keep: int,
    age: float | None,
    remove: bool,
    w: WriteConcernValue | None,
) -> None:
    """Have checkpoints made by themselves, or list by which policies they are.

    One node of the fleet makes each, reads it back, and deletes old ones. While nothing changes none is made. If one is
    overdue, the alarm checkpoint_overdue says why.

    \b
    Examples:
      crdtsync checkpoint policy hourly --every 1h --keep 24
      crdtsync checkpoint policy plan --every 10m --prefix plan/ --age 2d
      crdtsync checkpoint policy
      crdtsync checkpoint policy hourly --remove
    """
    with connect(settings) as client:
        if name is None:
            show_rows(settings, POLICY_COLUMNS, map(asdict, client.checkpoint_policies()), "no policies")
        elif remove:
            if not client.delete_checkpoint_policy(name, w=w):
                raise absent(f"there is no policy {name!r}")
            output.result(settings, client.last_token or "", {"token": client.last_token})
        elif every is None:
            raise click.UsageError("say how often, with --every, or --remove")
        else:
            token = client.checkpoint_policy(name, every=every, prefix=prefixes or None, keep=keep, age=age, w=w)
            output.result(settings, token, {"token": token, "nodes": token.nodes})


POLICY_COLUMNS = (
    Column("NAME", folds=True),
    Column("EVERY", lambda row: span(row["every"])),
    Column("PREFIXES", lambda row: ", ".join(row["prefixes"]), folds=True),
    Column("KEEP", is_number=True),
    Column("AGE", lambda row: "" if row["age"] is None else span(row["age"])),
    Column("THERE", lambda row: str(row["count"]), is_number=True),
    Column("LAST", lambda row: ago(row["last"])),
)


for _command in (diff, restore):
    checkpoint.add_command(_command)
