"""``on``."""

from __future__ import annotations

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.commands.together.children import Child, check, until_told
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import CommandFailed
from crdtsyncd.cli.params import DURATION, TEXT
from crdtsyncd.cli.show import output

from crdtsync.client import Event
from crdtsync.client.session.causes import CAUSES_MAX, VARIABLE, causes


@state_command("on")
@click.argument("pattern", metavar="PATTERN", type=TEXT)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("--role", metavar="NAME", type=TEXT, required=True, help="Of all with this role, one is called.")
@click.option("--ttl", metavar="DURATION", type=DURATION, default="15s", show_default=True, help="1s to 7d.")
@click.option("--every-host", is_flag=True, help="Of all with this role on a host, one is called, on each host.")
@click.option("--own", is_flag=True, help="Also for changes by this agent itself (--agent).")
@click.option(
    "--rounds", metavar="N", type=click.IntRange(1, CAUSES_MAX), default=10, show_default=True,
    help="So often it may react to what came of it; then it is a loop.",
)  # fmt: skip
def on(
    settings: Settings,
    pattern: str,
    command: tuple[str, ...],
    role: str,
    ttl: float,
    every_host: bool,
    own: bool,
    rounds: int,
) -> None:
    """Call a command for each change of some keys, until Ctrl-C.

    Of the keys that match PATTERN: * is one part of a key, ** any number of parts. CMD finds the event as JSON on its
    stdin, as crdtsync watch prints it; what CMD prints is printed. Of several processes with one role, on all hosts,
    one is called for each change; if it dies, or its host does, another one goes on. If CMD fails, so does this, and
    the change comes again in the next run: let CMD end with 0 for what it cannot take. A new role begins with what
    changes from then on.

    Two commands may react to each other. What they write by crdtsync set, merge, append, add and incr, or remove by
    del, discard and drop, says so, and after --rounds the next change is left alone; the key reactions.alarms/NAME
    tells which.

    \b
    Example:
      crdtsync on 'findings/**' --role analyst -- ./analyse
    """
    running: list[Child] = []

    def handle(event: Event) -> None:
        child = Child(
            command, {VARIABLE: " ".join(causes())}, f"{output.record(output.event_fields(event))}\n".encode()
        )
        running[:] = [child]
        if reaction.is_stopped:  # told to end before it was the one that runs
            child.end()
        status = child.wait()
        running.clear()
        output.whole(child.output)
        output.flush()
        if status:
            why = f"{event.key}: {command[0]!r} failed with status {status}; this change comes again in the next run"
            raise CommandFailed(why, status=status, code="command_failed")

    def leave_own(event: Event) -> None:
        reaction.on_own = None  # once is enough
        output.warning(
            f"{event.key} and other changes by {event.agent} are left alone, since this is {event.agent}, too: give "
            "one of them another name with --agent, or say --own"
        )

    check(command)
    with connect(settings) as client:
        reaction = client.on(pattern, handle, role=role, ttl=ttl, own=own, rounds=rounds, every_host=every_host)
        reaction.on_own = leave_own

        def end(_: int) -> None:
            reaction.stop()
            for child in running:
                child.end()

        until_told(reaction.run, end)
