"""``metrics`` and ``log-level``: the daemon's figures, and how much it says."""

from __future__ import annotations

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.show import output


@state_command("metrics")
def metrics(settings: Settings) -> None:
    """Print all figures of this node in Prometheus' text format.

    For a collector that can read files or run commands; with the setting metrics_listen Prometheus asks the daemon
    itself. With --json one object that holds the text.

    \b
    Examples:
      crdtsync metrics
      crdtsync metrics > /var/lib/node_exporter/crdtsync.prom
    """
    with connect(settings) as client:
        text = client.metrics()
    if settings.json:
        output.line(output.record({"text": text}))
    else:
        output.write(text.encode())


@state_command("log-level")
@click.argument("level", metavar="[LEVEL]", required=False, type=click.Choice(["debug", "info", "warning", "error"]))
def log_level(settings: Settings, level: str | None) -> None:
    """Show what the daemon logs, or change it for now.

    It holds until the daemon reads its settings again. LEVEL is the least severe kind of event that is logged: debug,
    info, warning or error. For good it is the setting log_level.

    \b
    Examples:
      crdtsync log-level
      sudo crdtsync log-level debug
    """
    with connect(settings) as client:
        now = client.log_level(level)
    output.result(settings, now, {"level": now})
