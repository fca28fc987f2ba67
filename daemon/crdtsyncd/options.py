"""The options of ``crdtsyncd``: what may stand on its command line. A service has none, and starts without this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from crdtsyncd.config.invite_argument import invite_of

from crdtsync.errors import ConfigError

PATH = click.Path(readable=False, path_type=Path)  # who opens it says better what is wrong with it

Given = tuple[Path | None, dict[str, Any], bool]
"""The file with settings, if one is named; what is given for settings; whether they are to be checked alone."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "config_file", type=PATH, metavar="FILE", help="TOML file with settings.")
@click.option("--data-dir", type=PATH, metavar="DIR", help="Where the database lives.")
@click.option("--socket", type=PATH, metavar="PATH", help="Unix socket for agents.")
@click.option("--listen", multiple=True, metavar="HOST:PORT", help="Accept peers here. May be repeated.")
@click.option("--advertise", multiple=True, metavar="HOST:PORT", help="Where peers reach this node. May be repeated.")
@click.option("--peer", "peers", multiple=True, metavar="HOST:PORT", help="Connect to this peer. May be repeated.")
@click.option(
    "--join",
    metavar="INVITE",
    callback=lambda _context, _option, given: given and invite_of(given),
    help="Join a cluster by this invite, or the one in this file (- is stdin), unless this node is a member already.",
)
@click.option("--archive", "join_data", flag_value="archive", help="With --join: put aside what this node holds.")
@click.option("--merge", "join_data", flag_value="merge", help="With --join: bring along what this node holds.")
@click.option("--node-name", metavar="NAME", help="Name of this node, shown to people.")
@click.option("--insecure-loopback", is_flag=True, default=None, help="Allow plain ws:// between loopback addresses.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Least severe events to log."
)
@click.option("--check-config", is_flag=True, help="Say whether the configuration is valid, and exit.")
@click.version_option(package_name="crdtsync", prog_name="crdtsyncd")
def cli(config_file: Path | None, check_config: bool, **options: Any) -> Given:
    """Hold this host's replica of the shared state, and keep it in sync with its peers."""
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value not in (None, ())
    }
    return config_file, given, check_config


def given_options() -> Given | None:
    """What stands on this process's command line; None: it asked for help or the version, and has it.

    :raises ConfigError: nothing that may stand there.
    """
    try:
        found: Given | int = cli.main(standalone_mode=False)
    except click.ClickException as error:
        raise ConfigError(f"{error.format_message()} See crdtsyncd --help.") from None
    except click.Abort:
        raise KeyboardInterrupt from None
    return found if isinstance(found, tuple) else None
