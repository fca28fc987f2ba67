"""The beginning of ``crdtsyncd``: options, settings, errors as one sentence.

It imports little, so that the settings are read and checked, in another process, while this one imports the rest.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from traceback import format_exception
from typing import Any, NoReturn

import click
from crdtsyncd import terminal
from crdtsyncd.config import exit_status
from crdtsyncd.config.invite_argument import invite_of
from crdtsyncd.config.loader import SettingsReader, read_settings

from crdtsync.errors import CrdtSyncError

HOLD_S = 5.0
"""How long a start that failed waits before it ends, under a service manager: that would try again at once, for ever,
also after a fault that somebody has to mend, for as long as agents wait on the socket.
``RestartSteps=`` of systemd counts the restarts of years, and would keep agents waiting after a single crash."""
PATH = click.Path(readable=False, path_type=Path)  # who opens it says better what is wrong with it


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
def cli(config_file: Path | None, check_config: bool, **options: Any) -> None:
    """Hold this host's replica of the shared state, and keep it in sync with its peers."""
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value not in (None, ())
    }
    reading = SettingsReader(config_file, given)
    if check_config:
        reading.result()
        terminal.line("the configuration is valid")
        return
    gc.disable()  # until it serves: what is imported and loaded from disk stays, and there is none among it
    from crdtsyncd.serve import serve  # meanwhile: it takes as long

    serve(reading.result(), lambda: read_settings(config_file, given))


def main() -> None:
    """Entry point: errors become one sentence and an exit status."""
    try:
        cli.main(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.ClickException as error:
        terminal.sentence(f"crdtsyncd: {error.format_message()} See crdtsyncd --help.")
        _end(exit_status.SETTINGS, error.format_message())
    except CrdtSyncError as error:
        terminal.sentence(f"crdtsyncd: {error.message}")
        _end(exit_status.status_of(error), error.message)
    except Exception as error:  # noqa: BLE001  # a bug: the log tells all, the person gets a sentence
        from crdtsyncd.telemetry import event_log

        event_log.log("bug", level="error", during="run", error="".join(format_exception(error)))
        sentence = f"failed inside, please report it: {type(error).__name__}: {error}"
        terminal.sentence(f"crdtsyncd: {sentence}")
        _end(exit_status.BUG, sentence)


def _end(status: int, why: str) -> NoReturn:
    """Tell the service manager why, wait a little if it may try again, and exit."""
    from crdtsyncd.service import sd_notify

    sd_notify.notify(f"STATUS={' '.join(why.split())}")
    if sd_notify.is_starting():
        time.sleep(HOLD_S)
    sys.exit(status)


if __name__ == "__main__":
    main()
