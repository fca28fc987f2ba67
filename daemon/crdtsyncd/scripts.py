"""The programs ``crdtsync`` and ``crdtsyncd``: they begin, or say what has to be installed first.

An agent needs the library alone, so ``pip install crdtsync`` brings little more. The programs lie beside it all the
same, and what they import may not be there.
"""

from __future__ import annotations

import sys
from importlib import import_module

from crdtsyncd import terminal

NOT_INSTALLED = 2
"""As for settings that do not work: to start again would not help, and systemd does not."""
_OURS = ("crdtsync", "crdtsyncd")


def crdtsync() -> None:
    """The command line."""
    _run("crdtsync", "crdtsyncd.cli.main")


def crdtsyncd() -> None:
    """The daemon."""
    _run("crdtsyncd", "crdtsyncd.main")


def _run(program: str, module: str) -> None:
    try:
        import_module(module).main()
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package in _OURS:
            raise  # a bug, or half an installation
        terminal.sentence(
            f"{program}: {package} is not installed: the daemon and the commands need more than the library for "
            "agents: pip install 'crdtsync[daemon]'"
        )
        sys.exit(NOT_INSTALLED)
