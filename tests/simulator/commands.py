"""What the commands of the harnesses share: numbers that ask for something, and ends that clean up."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


class Stopped(SystemExit):
    """Somebody asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


def positive_int(text: str) -> int:
    """For argparse: a run of nothing would find nothing, and look as if all were well."""
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"has to be more than 0, and is {text}")
    return number


def natural_int(text: str) -> int:
    """The same where none of a thing is something that can be asked for."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"cannot be less than 0, and is {text}")
    return number


def positive_float(text: str) -> float:
    """The same of numbers that need not be whole."""
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"has to be more than 0, and is {text}")
    return number


def run_until_stopped(main: Callable[[], int]) -> int:
    """Run a command, and give its status back. Ctrl-C and SIGTERM end it alike: by an exception, so that all is taken
    down that it has put up, and no second one disturbs that.
    """
    for number in ENDING:
        signal.signal(number, _stop)
    try:
        return main()
    except (Stopped, Exception) as error:
        end = _stop_behind(error)
        if end is None:
            raise
        sys.stderr.write(f"stopped by {end.name}; what ran has been ended\n")
        return 128 + signal.Signals[end.name]
    finally:
        _ignore()  # some things are taken down when the interpreter ends


def _stop_behind(error: BaseException | None) -> Stopped | None:
    """What stopped the command, also where it came in the middle of a ``with`` of a lock, which then fails itself."""
    while error is not None and not isinstance(error, Stopped):
        error = error.__context__
    return error


def heed_as_usual() -> None:
    """In a process that was forked: signals do there what they do in any."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def leave_to_parent() -> None:
    """In a process that was forked to work: Ctrl-C, which all processes get, is its parent's affair, which ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _stop(number: int, _: FrameType | None) -> None:
    _ignore()
    raise Stopped(number)


def _ignore() -> None:
    """Here and in what is started from now on: what unmounts a disk must not be ended by a Ctrl-C either."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
