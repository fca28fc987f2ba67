"""The settings in the daemon's own process, without what checks them: pydantic takes 7 MB of memory, for good.

So they are read in another process: in a fork of this one as long as it has a single thread, later, for a reload, in a
new one. Where that does not work, here.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from crdtsync.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crdtsyncd.config.model import Config

TIMEOUT_S = 20.0
_NAMES = "setting_names"


def read_settings(path: Path | None, options: dict[str, Any]) -> Config:
    """As :func:`crdtsyncd.config.model.load_config`, from another process; blocks for some tenths of a second.

    The result has the attributes of a :class:`~crdtsyncd.config.model.Config` and is none.

    :raises ConfigError: a sentence for each fault, naming the setting, its value and what is allowed.
    """
    return SettingsReader(path, options).result()


class SettingsReader:
    """The settings on their way from another process, beside whatever this one does meanwhile."""

    def __init__(self, path: Path | None, options: dict[str, Any]) -> None:
        self._path = path
        self._options = options
        self._fork: _Fork | None = None
        if threading.active_count() == 1 and hasattr(os, "fork"):
            with suppress(OSError):
                self._fork = _Fork(lambda: _load(path, options))

    def result(self) -> Config:
        """Wait for them.

        :raises ConfigError: as :func:`read_settings`.
        """
        answer = b""
        with suppress(OSError, subprocess.SubprocessError):
            answer = _from_new_process(self._path, self._options) if self._fork is None else self._fork.result()
        found = pickle.loads(answer or _load(self._path, self._options))  # noqa: S301  # from this very program
        if isinstance(found, str):
            raise ConfigError(found)
        return cast("Config", SimpleNamespace(**found))


def changed_settings(before: Config, after: Config) -> set[str]:
    """The names of the settings that differ."""
    return {name for name in vars(after)[_NAMES] if getattr(before, name) != getattr(after, name)}


def _load(path: Path | None, options: dict[str, Any]) -> bytes:
    """The settings by name, or what is wrong with them."""
    from crdtsyncd.config.model import load_config

    try:
        config = load_config(path, options)
    except ConfigError as error:
        return pickle.dumps(error.message)
    derived = [name for name, what in vars(type(config)).items() if isinstance(what, property)]
    names = [*type(config).model_fields]
    return pickle.dumps({_NAMES: names, **{name: getattr(config, name) for name in (*names, *derived)}})


class _Fork:
    """A copy of this process, which does something and hands over what came of it."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        self._reader, writer = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                with os.fdopen(writer, "wb") as pipe:
                    pipe.write(work())
            finally:
                os._exit(0)  # nothing of the parent's is to be ended
        os.close(writer)

    def result(self) -> bytes:
        with os.fdopen(self._reader, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(self._child, 0)
        return answer


def _from_new_process(path: Path | None, options: dict[str, Any]) -> bytes:
    asked = json.dumps([path and str(path), options], default=str)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "crdtsyncd.config.loader"],
        input=asked.encode(),
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=True,
    )
    return done.stdout


def main() -> None:
    """The main function of the new process."""
    path, options = json.load(sys.stdin)
    sys.stdout.buffer.write(_load(path and Path(path), options))


if __name__ == "__main__":
    main()
