"""``wait``: until a write has arrived; ``now``: all that is here."""

from __future__ import annotations

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.params import TEXT, WriteConcernValue
from crdtsyncd.cli.shared_options import concern_option
from crdtsyncd.cli.show import output


@state_command("wait")
@click.argument("token", type=TEXT)
@concern_option
def wait(settings: Settings, token: str, w: WriteConcernValue | None) -> None:
    """Wait until this node, or so many nodes, hold a write.

    Prints how many hold it. Every write prints a token. Handed to another agent, it makes sure that this agent
    reads what that one wrote. When --timeout ends first, the exit status is 5.

    \b
    Example:
      crdtsync wait "$TOKEN" -w majority --timeout 10s
    """
    with connect(settings) as client:
        nodes = client.wait(token, w=w)
    output.result(settings, str(nodes), {"nodes": nodes})


@state_command("now")
def now(settings: Settings) -> None:
    """Print a token of all that this node holds now.

    A watch with --after TOKEN tells what comes from here on, and `get --after TOKEN` on another node waits until
    that node holds as much.

    \b
    Example:
      TOKEN=$(crdtsync now)
    """
    with connect(settings) as client:
        token = client.now()
    output.result(settings, token, {"token": token})
