"""Entry point of ``crdtsync``: whatever happens, end with one sentence and an exit status, never with a traceback."""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130  # what a shell reports for a program that SIGINT ended


def main() -> None:
    """Run the command line of this process and exit.

    The imports are inside, so that an interrupt during them is as quiet as one later on.
    """
    try:
        _open_streams()
        gc.disable()  # the imports make much that stays and nothing to collect
        from crdtsyncd.cli.app import run

        gc.enable()
        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        status = INTERRUPTED
    _flush()
    os._exit(status)  # taking the interpreter down takes as long as a request does, and there is nothing left to do


def _open_streams() -> None:
    """Give a process that was started with a closed stream another one; a socket would get its number otherwise.

    That stdin is empty. That stdout cannot be written to, so that no output is lost without an error.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            access = os.O_WRONLY if name == "stderr" else os.O_RDONLY
            os.open(os.devnull, access)  # takes the lowest free number, which is this one
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: PTH123, SIM115  # a number, for good


def _flush() -> None:
    """Write out what is buffered now; at interpreter exit a failure would be printed as an ignored exception."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Reported already when the write failed; point the stream elsewhere so that exit does not try again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
