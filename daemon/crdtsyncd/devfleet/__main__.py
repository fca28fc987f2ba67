"""``python -m crdtsyncd.devfleet``: a fleet on this machine until Ctrl-C."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # what a shell reports for a program that SIGINT ended


def main() -> None:
    """Run the fleet and exit.

    The imports are inside, so that an interrupt during them is as quiet as one later on.
    """
    try:
        import click
        from crdtsyncd import terminal
        from crdtsyncd.devfleet.app import cluster

        try:
            cluster.main(prog_name="python -m crdtsyncd.devfleet", standalone_mode=False)
        except click.ClickException as error:
            terminal.sentence(f"cluster: {error.format_message()} See --help.")
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(INTERRUPTED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
