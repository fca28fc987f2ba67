"""``claim``, ``release`` and ``claims``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.commands.together.children import Child, until_told
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import DURATION
from crdtsyncd.cli.shared_options import key_argument, prefix_argument
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows

if TYPE_CHECKING:
    from crdtsync.coordination import Claim, Lease


@state_command("claim")
@key_argument
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
@click.option("--ttl", metavar="DURATION", type=DURATION, default="60s", show_default=True, help="1s to 7d.")
@click.option("--wait", "is_waiting", is_flag=True, help="Wait until KEY is free, at most for --timeout.")
@click.option("--quorum", is_flag=True, help="By the votes of a majority of the voters; needs CMD.")
def claim(settings: Settings, key: str, command: tuple[str, ...], ttl: float, is_waiting: bool, quorum: bool) -> None:
    """Claim KEY, so that no other agent holds it.

    It prints the fence, a number that grows from claim to claim on all hosts. If somebody else holds KEY, the exit
    status is 1. With CMD the claim is held and renewed while CMD runs, and given back at its end; CMD finds the fence
    in CRDTSYNC_FENCE and the key in CRDTSYNC_CLAIM. If the claim is lost, CMD gets SIGTERM and the exit status is 1,
    else it is CMD's. Without CMD the claim is not renewed: it ends after --ttl, by the hosts' clocks, or with crdtsync
    release. Hosts that are cut off may both hold a key, until they meet: then the higher fence counts. With --quorum
    there is one holder at a time, and none where no majority of the voters (the daemons' setting) can be reached.

    \b
    Examples:
      crdtsync claim reports/q3 -- make report
      FENCE=$(crdtsync claim deploy --ttl 10m --wait)
      crdtsync claim deploy --quorum -- ./deploy
    """
    if quorum and not command:
        raise click.UsageError("--quorum goes with a command, which the claim is renewed for: crdtsync claim … -- CMD")
    with connect(settings) as client:
        wait: bool | float = is_waiting if settings.timeout is None or not is_waiting else settings.timeout
        if not command:
            lease = client.claim(key, ttl=ttl, wait=wait, keep=False).acquire()
            _warn_of_silence(lease)
            output.result(settings, str(lease.fence), {"key": key, "fence": lease.fence})
            return
        status = _under_claim(client.claim(key, ttl=ttl, wait=wait, quorum=quorum), key, command)
    raise click.exceptions.Exit(status)


def _under_claim(lease: Lease, key: str, command: tuple[str, ...]) -> int:
    running: list[Child] = []
    received: list[int] = []

    def lost() -> None:
        for child in running:
            child.end()

    def pass_on(number: int) -> None:
        received.append(number)
        for child in running:
            child.process.send_signal(number)

    def run() -> int:
        child = Child(command, {"CRDTSYNC_CLAIM": key, "CRDTSYNC_FENCE": str(lease.fence)})
        running.append(child)
        for number in received:  # before there was anything to end
            child.process.send_signal(number)
        if not lease.is_held:
            lost()
        return child.wait()

    lease.on_lost = lost
    with lease:
        _warn_of_silence(lease)
        return until_told(run, pass_on)


def _warn_of_silence(lease: Lease) -> None:
    if not lease.is_confirmed:
        output.warning("a host did not answer in time, and was left out: it may have another holder")


@state_command("release")
@key_argument
@click.option("--fence", metavar="N", type=int, help="Only the claim with this fence.")
def release(settings: Settings, key: str, fence: int | None) -> None:
    """Free KEY, whoever holds it.

    Its holder is told at once. The exit status is 1 if nobody holds it, or not with this fence.

    \b
    Example:
      crdtsync release deploy --fence "$FENCE"
    """
    with connect(settings) as client:
        if not client.release(key, fence=fence):
            raise absent(f"{key!r} is not claimed" + ("" if fence is None else f" with the fence {fence}"))
    output.done(settings, {"key": key})


@state_command("claims")
@prefix_argument
def claims(settings: Settings, prefix: str) -> None:
    """Print who has claimed what, of the keys that begin with PREFIX.

    CROSSED are other holders, on hosts that are or were cut off. With --json each claim is an object on a line.

    \b
    Example:
      crdtsync claims task/
    """
    with connect(settings) as client:
        found = client.claims(prefix)
    show_rows(settings, COLUMNS, map(_fields, found), "no claims")


COLUMNS = (
    Column("KEY", folds=True),
    Column("AGENT"),
    Column("NODE"),
    Column("FENCE", is_number=True),
    Column("CROSSED", lambda row: ", ".join(f"{other['agent']} on {other['node']}" for other in row["crossed"])),
)


def _fields(found: Claim) -> dict[str, Any]:
    return {
        "key": found.key,
        "agent": found.agent,
        "node": found.node,
        "fence": found.fence,
        "ttl": found.ttl,
        "crossed": [{"agent": one.agent, "node": one.node, "fence": one.fence} for one in found.crossed],
    }
