"""Types of arguments: what a word on the command line must look like, and what is said when it does not."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from click.shell_completion import CompletionItem

    from crdtsync.client import Client

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d{1,12})(B|kB|MB|GB)", re.ASCII)
_BYTES = {"B": 1, "kB": 1000, "MB": 1000_000, "GB": 1000_000_000}
_YEAR_S = 365 * 86400
_TTL_MAX_S = (1 << 48) / 1000  # as the daemon has it
_TAKEOVER_MAX_S = 3600.0  # as the daemon has it
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_NAME_CHARS_MAX = 128
_COMPLETIONS_MAX = 200


class Word(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A word, and what ``read`` takes it for. A word, and its meaning by ``read``. If ``read`` raises, that is a usage
    error: the ValueError says the form.

    ``ask``: how a daemon is asked for words that begin as one does, for a shell to complete it.
    """

    def __init__(
        self, name: str, read: Callable[[str], Any], ask: Callable[[Client, str], Iterable[str]] | None = None
    ) -> None:
        self.name = name
        self.read = read
        self._ask = ask

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The meaning of the word."""
        try:
            return self.read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Words that begin so; none when no daemon answers at once."""
        ask = self._ask
        if ask is None:
            return super().shell_complete(ctx, param, incomplete)
        from crdtsyncd.cli.connect import completed

        return completed(ctx, incomplete, lambda client: ask(client, incomplete))


class InputFile(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A file to read as bytes, ``-`` for stdin."""

    name = "filename"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> IO[bytes]:  # noqa: ARG002  # click's signature
        """The open file; the OSError if it cannot be opened, for that is no fault of the command line."""
        file: IO[bytes] = click.open_file(str(value), "rb")
        if ctx is not None and value != "-":
            ctx.call_on_close(file.close)
        return file


def duration(seconds_max: float = math.inf, most: str = "") -> Word:
    """``500ms 30s 10m 2h 7d``, as seconds: more than none, and no more than ``seconds_max``, in words ``most``."""

    def read(word: str | float) -> float:
        seconds = _seconds(word) if isinstance(word, str) else float(word)
        if seconds <= 0:
            raise ValueError(f"{str(word)!r} is no time at all: it must be more than 0, such as 500ms or 30s.")
        if seconds > seconds_max:
            raise ValueError(f"{str(word)!r} is too long: at most {most}.")
        return seconds

    return Word("duration", read)


def _seconds(word: str) -> float:
    match = _DURATION.fullmatch(word)
    if match is None:
        raise ValueError(f"{word!r} is not a duration such as 500ms, 30s, 10m, 2h or 7d.")
    return float(match[1]) * _SECONDS[match[2]]


def _history_cap(word: str) -> bool | int | timedelta:
    """``all``, ``none``, a size such as ``64MB`` or a duration such as ``7d``, as the client has them."""
    if word in ("all", "none"):
        return word == "all"
    size, time = _SIZE.fullmatch(word), _DURATION.fullmatch(word)
    if size is not None and int(size[1]):
        return int(size[1]) * _BYTES[size[2]]
    if time is None or not float(time[1]):
        raise ValueError(f"{word!r} is not all, none, a size such as 500kB or 64MB, or a duration such as 7d.")
    return timedelta(seconds=TTL.read(word))


def _size_bytes(word: str) -> int:
    match = _SIZE.fullmatch(word)
    if match is None:
        raise ValueError(f"{word!r} is not a size such as 800B, 500kB, 64MB or 2GB.")
    return int(match[1]) * _BYTES[match[2]]


def _point(word: str) -> str | datetime:
    """A point of a space's past: a token, ``checkpoint:NAME``, a time, local without a zone, or so long ago."""
    if word.startswith(("c1.", "checkpoint:")):
        return word
    if _DURATION.fullmatch(word):
        return datetime.now(UTC) - timedelta(seconds=_AGO.read(word))
    try:
        return datetime.fromisoformat(word).astimezone()
    except ValueError:
        raise ValueError(
            f"{word!r} is no point of the past: give a token, checkpoint:NAME, a time such as 2026-05-01T12:00, or "
            "how long ago, such as 10m."
        ) from None


def _point_or_checkpoint(word: str) -> str | datetime:
    try:
        return _point(word)
    except ValueError:
        return word


def _agent_name(name: str) -> str:
    if not (1 <= len(name) <= _NAME_CHARS_MAX and name.isprintable() and name.strip() == name):
        raise ValueError(f"{name!r} is no agent's name: 1 to 128 printable characters, without spaces at either end.")
    return name


def _name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a name: 1 to 128 of a-z 0-9 . _ - beginning with a letter or digit.")
    return name


def _space_or_archive(word: str) -> str:
    """The name of a space, or of an archive of one: ``team@3``."""
    space, sign, epoch = word.partition("@")
    name = _name(space)
    if sign and not (epoch.isascii() and epoch.isdigit()):
        raise ValueError(f"{word!r} names no archive: that is a space's name, @, and the number of an epoch.")
    return name + sign + epoch


def _text(text: str) -> str:
    """A text that goes to the daemon: any, as long as it is UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not valid UTF-8.") from None
    return text


WriteConcernValue: TypeAlias = int | str


def _write_concern(word: str) -> WriteConcernValue:
    """How many nodes shall hold a write: a number, ``majority`` or ``all``."""
    if word in ("majority", "all"):
        return word
    if word.isascii() and word.isdigit() and int(word) >= 1:
        return int(word)
    raise ValueError(f"{word!r} is neither a number of nodes from 1 on, nor 'majority', nor 'all'.")


def _confidence(word: str) -> float:
    """From 0 to 1. (click's own range lets NaN through, which is in no range.)"""
    try:
        confidence = float(word)
    except ValueError:
        confidence = math.nan
    if not 0 <= confidence <= 1:
        raise ValueError(f"{word!r} is not a number from 0 to 1.")
    return confidence


def _spaces(client: Client, _beginning: str) -> list[str]:
    return sorted(space["name"] for space in client.status()["spaces"])


def _keys(client: Client, beginning: str) -> list[str]:
    return client.keys(beginning, limit=_COMPLETIONS_MAX)


def _nodes(client: Client, _beginning: str) -> list[str]:
    """All that this one knows, by name."""
    return sorted({str(peer["name"]) for peer in client.status()["peers"] if peer.get("name")})


DURATION = duration()
_AGO = duration(50 * _YEAR_S, "50 years")
AT = Word("point", _point)
NAMED_AT = Word("point", _point_or_checkpoint)
"""A point of the past, or the bare name of a checkpoint."""
CHECKPOINT = Word("name", lambda word: _text(word.removeprefix("checkpoint:")))
"""The name of a checkpoint, also as it is written as a point of the past."""
TTL = duration(_TTL_MAX_S, f"{_TTL_MAX_S * 1000:.0f}ms, some {_TTL_MAX_S / _YEAR_S:,.0f} years")
TAKEOVER = duration(_TAKEOVER_MAX_S, "1h")
CONFIDENCE = Word("f", _confidence)
HISTORY_CAP = Word("history", _history_cap)
SIZE = Word("size", _size_bytes)
FILE = InputFile()
AGENT_NAME = Word("name", _agent_name)
"""The name of an agent, as its framework calls it."""
NAME = Word("name", _name)
"""The name of a space, or of an agent with a key."""
HELD_SPACE = Word("name", _name, _spaces)
"""The name of a space that is there already."""
SPACE_NAME = Word("name", _space_or_archive, _spaces)
TEXT = Word("text", _text)
KEY = Word("key", _text, _keys)
"""A key or the prefix of keys."""
MEMBER = Word("node", _text, _nodes)
"""A node: its name, or the beginning of its id."""
WRITE_CONCERN = Word("n|majority|all", _write_concern)
