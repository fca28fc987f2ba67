"""Which settings are judged: those of the daemon that runs, if it can be told what it was started with."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import click
from crdtsyncd.config.model import Config, config_path, load_config
from crdtsyncd.doctor.finding import Finding, ok, problem, warning
from crdtsyncd.options import cli

from crdtsync.errors import ConfigError
from crdtsync.named_tuple import NamedTuple

_PROGRAM = "crdtsyncd"


class Started(NamedTuple):
    """With which file (None: none) and options a daemon was started."""

    file: Path | None
    options: dict[str, Any]


def examine_settings(file: str | None, pid: int | None) -> tuple[Config | None, Finding]:
    """``file``: the one that the caller names. ``pid``: the daemon that answers, if one does."""
    started = None if pid is None else started_with(pid)
    named = None if file is None else Path(file)
    found = Started(named or config_path(), {}) if named is not None or started is None else started
    source, options = found
    where = str(source) if source is not None else "no file, so the defaults hold"
    try:
        config = load_config(source or Path(os.devnull), options)  # no file: and not that of another user either
    except ConfigError as error:
        remedy = "correct it, then look again: crdtsyncd --check-config says what is allowed"
        return None, problem("settings", error.message, remedy)
    if started is None:
        return config, ok("settings", where)
    if named is None or _is_same(named, started.file):
        given = sorted(_word(name, value) for name, value in options.items())
        return config, ok("settings", where + (f", and the daemon's options {', '.join(given)}" if given else ""))
    other = f"with {started.file}" if started.file is not None else "without a file"
    remedy = f"leave --config {file} out, to look at the settings of the daemon that runs"
    return config, warning("settings", f"{where}, but the daemon was started {other}", remedy)


def _word(name: str, value: Any) -> str:
    """The word that somebody has typed for an option; two that exclude each other have one name and a value each."""
    named = [option for option in cli.params if isinstance(option, click.Option) and option.name == name]
    return next((option.opts[0] for option in named if option.flag_value == value), named[0].opts[0])


def started_with(pid: int, proc: Path = Path("/proc")) -> Started | None:
    """The command line of a daemon; None: that cannot be told."""
    place = proc / str(pid)
    try:
        words = [os.fsdecode(word) for word in (place / "cmdline").read_bytes().split(b"\0")[:-1]]
        owner = place.stat().st_uid
    except OSError:
        return None
    known = {option for parameter in cli.params for option in parameter.opts if option.startswith("--")}
    first = next((n for n, word in enumerate(words) if word.partition("=")[0] in known), len(words))
    if not any(_PROGRAM in Path(word).name for word in words[:first]) or (
        first == len(words) and Path(words[-1]).name != _PROGRAM
    ):
        return None
    try:
        given = cli.make_context(_PROGRAM, words[first:], resilient_parsing=True).params
    except click.ClickException:
        return None
    options = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value not in (None, ()) and name not in ("config_file", "check_config")
    }
    file = given.get("config_file")
    return Started(_default_of(owner) if file is None else _from(place, Path(file)), options)


def _from(place: Path, file: Path) -> Path:
    """A path as the daemon sees it, who may run in another directory."""
    try:
        return file if file.is_absolute() else (place / "cwd").readlink() / file
    except OSError:
        return file


def _default_of(owner: int) -> Path | None:
    """The file that a daemon of this user takes by itself."""
    if owner == os.geteuid():
        return config_path()
    try:
        home = Path(pwd.getpwuid(owner).pw_dir)
    except KeyError:
        home = Path("/nonexistent")
    for path in (home / ".config" / "crdtsync" / "crdtsyncd.toml", Path("/etc/crdtsync/crdtsyncd.toml")):
        try:
            if path.is_file():
                return path
        except PermissionError:
            continue
    return None


def _is_same(one: Path, other: Path | None) -> bool:
    try:
        return other is not None and one.resolve() == other.resolve()
    except OSError:
        return one == other
