"""``cluster``: one cluster of several hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.commands.cluster.fleet import status
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.params import MEMBER, duration
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows
from crdtsyncd.config.invite_argument import invite_of
from crdtsyncd.wording import ago, moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsync.client import Client

TTL_MAX_S = 30 * 24 * 3600

listen_option = click.option(
    "--listen",
    multiple=True,
    metavar="HOST:PORT",
    help="Accept peers here from now on, such as 0.0.0.0:7420. May be repeated.",
)


@click.group("cluster", cls=StateGroup)
def cluster() -> None:
    """Make hosts one cluster: init, invite, join, status, remove.

    \b
    On the first host:   crdtsync cluster init --listen 0.0.0.0:7420
                         crdtsync cluster invite
    On the other host:   crdtsync cluster join INVITE
    """


merge_option = click.option("--merge", is_flag=True, help="Bring along what this node holds.")
archive_option = click.option("--archive", is_flag=True, help="Put aside what this node holds, and begin anew.")


@cluster.command("init")
@listen_option
@merge_option
@archive_option
def init(settings: Settings, listen: tuple[str, ...], merge: bool, archive: bool) -> None:
    """Begin a cluster with this node as its only member, and print the cluster's id.

    Done again, it changes nothing but where the node listens. What a node holds that ran with --insecure-loopback, or
    by crdtsync 0.1.0, names no cluster: --merge writes it anew, --archive puts it aside. Either way it stays in the
    folder archive of the data directory.

    \b
    Example:
      crdtsync cluster init --listen 0.0.0.0:7420
    """

    def begin(client: Client, is_archived: bool) -> dict[str, Any]:
        return client.cluster_init(listen=listen, archive=is_archived, timeout=settings.timeout)

    fields = _enter(settings, begin, merge=merge, archive=archive)
    output.result(settings, str(fields["cluster"]), fields)
    if not settings.json and not fields["addresses"]:
        output.warning("this node listens for no peers; crdtsync cluster init --listen 0.0.0.0:7420 changes that")


@cluster.command("invite")
@click.option(
    "--ttl", type=duration(TTL_MAX_S, "30d"), default="24h", show_default=True, help="How long it can be used."
)
@click.option("--uses", type=click.IntRange(1, 1000), default=1, show_default=True, help="By how many nodes.")
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="HOST:PORT",
    help="Name this address of this node in it. May be repeated.",
)
@click.option("--local", is_flag=True, help="Also if only daemons of this machine could use it.")
def invite(settings: Settings, ttl: float, uses: int, addresses: tuple[str, ...], local: bool) -> None:
    """Print an invite: one word that lets one more node in.

    Whoever has it can join, so pass it on as you would a password. An address must be HOST:PORT, and one that leads
    every host to itself (loopback, 0.0.0.0) is refused without --local.

    \b
    Examples:
      crdtsync cluster invite
      crdtsync cluster invite --ttl 10m | ssh host-b crdtsync cluster join -
    """
    with connect(settings) as client:
        fields = client.cluster_invite(ttl=ttl, uses=uses, addresses=addresses, local=local, timeout=settings.timeout)
    shown = {**fields, "expires": moment(fields["expires_ms"])}
    shown.pop("expires_ms")
    output.result(settings, str(fields["invite"]), shown)


@cluster.command("join")
@click.argument("invite")
@listen_option
@merge_option
@archive_option
def join(settings: Settings, invite: str, listen: tuple[str, ...], merge: bool, archive: bool) -> None:
    """Make this node a member of a cluster.

    INVITE is what `crdtsync cluster invite` printed, or better a file with it, or - for stdin: all users of this host
    see the words of a command while it runs. A node that holds data already
    joins with --merge or --archive only; either way that data stays in the folder archive of its data directory.
    Access rules, quotas and agents' keys do not come along; spaces that the cluster lacks are left as files to import.
    Data of that very cluster, as of a restored backup, is kept as it is, unless --archive is given.

    \b
    Examples:
      crdtsync cluster join invite.txt
      crdtsync cluster join - < invite.txt
    """
    word = invite_of(invite)

    def ask(client: Client, is_archived: bool) -> dict[str, Any]:
        return client.cluster_join(word, listen=listen, archive=is_archived, **_timeout(settings))

    fields = _enter(settings, ask, merge=merge, archive=archive)
    done = "is a member of" if fields.get("already") else "joined"
    kept = "; what this node holds is of that cluster, and was kept" if fields.get("kept") else ""
    output.result(settings, f"{done} {fields['cluster']}, {fields['members']} members{kept}", fields)


@cluster.command("members")
def members(settings: Settings) -> None:
    """Show the members of the cluster, and those that were removed. With --json one object a line.

    \b
    Example:
      crdtsync cluster members
    """
    with connect(settings) as client:
        found = client.cluster_members(timeout=settings.timeout)["members"]
    for member in found:
        member["joined"], member["last_seen"] = moment(member.get("joined")), moment(member.get("last_seen"))
    show_rows(
        settings, COLUMNS, found, "no cluster: crdtsync cluster init begins one, crdtsync cluster join enters one"
    )


@cluster.command("remove")
@click.argument("node", type=MEMBER)
def remove(settings: Settings, node: str) -> None:
    """Remove a member for good: NODE is its name, or the beginning of its id.

    Its connections are cut, and it is refused from then on. What it has written stays. To come back it must join with a
    new key.

    \b
    Example:
      crdtsync cluster remove host-c
    """
    with connect(settings) as client:
        fields = client.cluster_remove(node, timeout=settings.timeout)
    output.result(settings, f"removed {fields['name']}, {fields['members']} members left", fields)


@cluster.command("rotate-key")
@click.option("--finish", is_flag=True, help="Use the new key now, also if some members do not know it yet.")
def rotate_key(settings: Settings, finish: bool) -> None:
    """Give this node a new key, without a gap.

    The old key is used until every member knows the new one, which they learn as they connect. A node that cannot be
    reached holds that up: --finish does not wait, and such a node must then hear of the new key from another member.

    \b
    Example:
      crdtsync cluster rotate-key
    """
    with connect(settings) as client:
        fields = client.cluster_rotate_key(finish=finish, timeout=settings.timeout)
    output.result(settings, _key_state(fields["waits_for"], finish=finish), fields)


def _key_state(waits_for: Sequence[str], *, finish: bool) -> str:
    """The state of the change of a key: members that do not know it yet are waited for, or are not."""
    waits = ", ".join(waits_for)
    if finish:
        late = f"; these members refuse this node until they hear of it from another member: {waits}"
        return "the new key is in use, and the old one is worth nothing" + (late if waits else "")
    return f"the new key is used once these members know it: {waits}" if waits else "all members know the new key"


def _timeout(settings: Settings) -> dict[str, Any]:
    return {} if settings.timeout is None else {"timeout": settings.timeout}


def _enter(
    settings: Settings, ask: Callable[[Client, bool], dict[str, Any]], *, merge: bool, archive: bool
) -> dict[str, Any]:
    """Make this node a member, with what it holds, without, or if it holds nothing."""
    if merge and archive:
        raise click.UsageError("--merge and --archive exclude each other")
    if merge:
        from crdtsyncd.cli.data.join_and_merge import enter_and_merge

        return enter_and_merge(settings, ask)
    with connect(settings) as client:
        return ask(client, archive)


COLUMNS = (
    Column("MEMBER", lambda member: str(member["name"])),
    Column("ID", lambda member: str(member["id"])[:12]),
    Column("STATE"),
    Column(
        "LAST SEEN", lambda member: "" if member["state"] in ("self", "connected") else ago(member.get("last_seen"))
    ),
    Column("BY", lambda member: str(member.get("by") or "")),
    Column("ADDRESSES", lambda member: " ".join(member["addresses"]), folds=True),
)


cluster.add_command(status)
