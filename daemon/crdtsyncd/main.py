"""The beginning of ``crdtsyncd``: settings, and errors as one sentence.

It imports little, so that the settings are read and checked, in another process, while this one imports the rest.
"""

from __future__ import annotations

import gc
import sys
import time
from traceback import format_exception
from typing import TYPE_CHECKING, NoReturn

from crdtsyncd import terminal
from crdtsyncd.config import exit_status
from crdtsyncd.config.loader import SettingsReader, read_settings

from crdtsync.errors import CrdtSyncError

if TYPE_CHECKING:
    from crdtsyncd.options import Given

HOLD_S = 5.0
"""How long a start that failed waits before it ends, under a service manager: that would try again at once, for ever,
also after a fault that somebody has to mend, for as long as agents wait on the socket.
``RestartSteps=`` of systemd counts the restarts of years, and would keep agents waiting after a single crash."""


def _run(given: Given) -> None:
    config_file, options, is_check = given
    gc.disable()  # until it serves: what is imported and loaded from disk stays, and there is none among it
    reading = SettingsReader(config_file, options)
    if is_check:
        reading.result()
        terminal.line("the configuration is valid")
        return
    from crdtsyncd.serve import serve  # meanwhile: it takes as long

    serve(reading.result(), lambda: read_settings(config_file, options))


def main() -> None:
    """Entry point: errors become one sentence and an exit status."""
    given: Given | None = None, {}, False
    try:
        if sys.argv[1:]:
            from crdtsyncd.options import given_options  # it imports click, and a service has no options

            given = given_options()
        if given is not None:
            _run(given)
    except KeyboardInterrupt:
        sys.exit(130)
    except CrdtSyncError as error:
        terminal.sentence(f"crdtsyncd: {error.message}")
        _end(exit_status.status_of(error), error.message)
    except ModuleNotFoundError:
        raise  # crdtsyncd.scripts says what to install
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
