"""``space``: named sets of keys that replicate each for itself."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.params import HELD_SPACE, KEY, NAME, TEXT, WriteConcernValue
from crdtsyncd.cli.shared_options import concern_option
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.progress import GO_ON, Progress
from crdtsyncd.cli.show.tables import Column, show_rows
from crdtsyncd.wording import ago, byte_size, rfc3339

from crdtsync.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crdtsync.client import Client

Fields = dict[str, Any]  # Any: an object as it is printed


@click.group("space", cls=StateGroup)
def space() -> None:
    """Make, list and drop spaces, each replicated for itself.

    A space is a named set of keys: the unit of replication, access and retention.

    To work in one: --space NAME, or CRDTSYNC_SPACE.
    """


@space.command("create")
@click.argument("name", type=NAME)
@click.option(
    "--nodes",
    multiple=True,
    metavar="ID|NAME,…",
    type=TEXT,
    help="Only these nodes hold it, and no byte of it gets to others. May be repeated.",
)
@click.option("--private", is_flag=True, help="It begins with rights for you alone, not for the socket's group.")
@concern_option
def create(settings: Settings, name: str, nodes: Sequence[str], private: bool, w: WriteConcernValue | None) -> None:
    """Make a space on every node, or on some. If it is there already, on the same nodes, nothing happens.

    Prints a token: who waits for it on another node finds the space there. Nodes that are away make the space when
    they come back. Nodes of a space exchange it among each other, not through others: each of them must be able to
    connect to another one.

    \b
    Examples:
      crdtsync space create research
      crdtsync space create payroll --private --nodes host-a,host-b -w all
    """
    wanted = [word.strip() for words in nodes for word in words.split(",")] if nodes else None
    with connect(settings) as client:
        made = client.create_space(name, nodes=wanted, private=private)
        if w is not None and made.token is not None:
            client.wait(made.token, w=w)
    output.result(settings, str(made.token), asdict(made))


@space.command("list")
@click.option("--archives", is_flag=True, help="What this node keeps of spaces that were dropped.")
def list_(settings: Settings, archives: bool) -> None:
    """List the spaces of the cluster, also those that this node may not hold.

    \b
    Examples:
      crdtsync space list
      crdtsync space list --archives
    """
    with connect(settings) as client:
        found: Sequence[Any] = client.archives() if archives else client.spaces()
    show_rows(settings, ARCHIVE_COLUMNS if archives else SPACE_COLUMNS, map(_listed, found), "no archives")


@space.command("drop")
@click.argument("name", type=HELD_SPACE)
@concern_option
def drop(settings: Settings, name: str, w: WriteConcernValue | None) -> None:
    """Drop a space on all nodes, with what others write in it at the same time. The space `default` begins anew, empty.

    Each node keeps what it held in an archive for seven days: read it with --space NAME@EPOCH, bring it back with
    export and import. A node that was away follows when it is back. If it holds changes that the node which dropped
    the space had not seen, the alarm archived_writes says how many, and in which archive they are. The checkpoint that
    a fork was made of stays where it is.

    \b
    Examples:
      crdtsync space drop research
      crdtsync --space research@1 export | crdtsync --space research import -
    """
    with connect(settings) as client:
        left = _left_by(client, name)
        dropped = client.drop_space(name)
        if w is not None:
            client.wait(dropped.token, w=w)
    text = dropped.token
    if dropped.archive is not None and not settings.json:
        until = rfc3339(dropped.until) if dropped.until is not None else "?"
        output.warning(f"what this node held of it is in the archive {dropped.archive} until {until}")
    if left:
        output.warning(left)
    output.result(settings, text, asdict(dropped))


def _left_by(client: Client, name: str) -> str:
    """What to say of the checkpoint that a fork to be dropped was made of; nothing, if it was not made for that."""
    from crdtsync.client.operations.forks import FORKED, said_by

    with suppress(Refused, LookupError, TypeError, ValueError):  # it is no fork, or not for this agent to see
        (made,) = [each for each in client.session(space=name).checkpoints() if each.name == FORKED]
        base, point = said_by(made)
        if point == f"{FORKED}-{name}" and point in [each.name for each in client.session(space=base).checkpoints()]:
            return (
                f"the checkpoint {point}, made when {name} was forked, still holds back the past of the space {base}: "
                f"to delete it, crdtsync --space {base} checkpoint delete {point}"
            )
    return ""


@space.command("merge")
@click.argument("name", metavar="SANDBOX", type=HELD_SPACE)
@click.option("--into", metavar="SPACE", type=HELD_SPACE, help="That it was made of, if you work in another one.")
@click.option("--prefix", metavar="P", type=KEY, default="", help="Only keys that begin so.")
@click.option("--dry-run", is_flag=True, help="Write nothing: say what would be done.")
def merge(settings: Settings, name: str, into: str | None, prefix: str, dry_run: bool) -> None:
    """Bring into this space what has changed in a fork of it.

    Each key is written as by one who had seen this space at the fork: what has changed here since then stays beside it,
    as a sibling. "+" is a key that was written, "-" one that was deleted, "!" one that was left alone, with why. Run it
    again, and it brings what is new.

    \b
    Examples:
      crdtsync space merge trial --dry-run
      crdtsync space merge trial --prefix plan/
      crdtsync space merge research-trial --into research
    """
    target, again = replace(settings, space=into or settings.space), "" if dry_run else GO_ON
    with connect(target) as client, Progress("keys merged", again=again) as progress:
        merged = client.merge_space(name, prefix=prefix, dry_run=dry_run, progress=progress.advance)
    marked = {"-": merged.removed, "+": merged.written}
    nothing = f"there is nothing to merge: nothing has changed in {name} that is not here"
    output.keys(settings, marked, merged.left, asdict(merged), nothing)


def _listed(found: Any) -> Fields:
    return {name: value for name, value in asdict(found).items() if name not in ("created", "token")}


def _nodes(row: Any) -> str:  # Any: as Column
    return "all" if row["nodes"] is None else " ".join(name or node[:12] for node, name in row["nodes"].items())


SPACE_COLUMNS = (
    Column("SPACE", lambda row: row["name"]),
    Column("EPOCH", is_number=True),
    Column("HERE", lambda row: "yes" if row["here"] else "no"),
    Column("NODES", _nodes, folds=True),
    Column("MADE BY", lambda row: row["agent"] or ""),
    Column("SINCE", lambda row: ago(row["time"]) if row["time"] else ""),
)


def _figure(count: int | None) -> str:
    """Nothing where the agent may not know it."""
    return "" if count is None else f"{count:,}"


ARCHIVE_COLUMNS = (
    Column("ARCHIVE", lambda row: row["name"]),
    Column("ENTRIES", lambda row: _figure(row["entries"]), is_number=True),
    Column("SIZE", lambda row: "" if row["size_bytes"] is None else byte_size(row["size_bytes"]), is_number=True),
    Column("UNSEEN", lambda row: _figure(row["unseen"]), is_number=True),
    Column("DROPPED", lambda row: ago(row["time"])),
    Column("UNTIL", lambda row: rfc3339(row["until"])),
)
