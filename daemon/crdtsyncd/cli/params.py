"""Types of arguments: what a word on the command line must look like, and what is said when it does not."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import IO, TYPE_CHECKING, TypeAlias

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """``500ms 30s 10m 2h 7d``, as seconds: more than none, and no more than ``seconds_max``, in words ``most``."""

    name = "duration"

    def __init__(self, seconds_max: float = math.inf, most: str = "") -> None:
        self._seconds_max = seconds_max
        self._most = most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, or a usage error that shows the form or what is allowed."""
        seconds = float(value) if isinstance(value, int | float) else self._parsed(str(value), param, ctx)
        if seconds <= 0:
            self.fail(f"{str(value)!r} is no time at all: it must be more than 0, such as 500ms or 30s.", param, ctx)
        if seconds > self._seconds_max:
            self.fail(f"{str(value)!r} is too long: at most {self._most}.", param, ctx)
        return seconds

    def _parsed(self, word: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = _DURATION.fullmatch(word)
        if match is None:
            self.fail(f"{word!r} is not a duration such as 500ms, 30s, 10m, 2h or 7d.", param, ctx)
        return float(match[1]) * _SECONDS[match[2]]


class HistoryCap(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """``all``, ``none``, a size such as ``64MB`` or a duration such as ``7d``, as the client has them."""

    name = "history"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> bool | int | timedelta:
        """True, False, bytes or a time; or a usage error that shows the form."""
        word = str(value)
        if word in ("all", "none"):
            return word == "all"
        size, time = _SIZE.fullmatch(word), _DURATION.fullmatch(word)
        if size is not None and int(size[1]):
            return int(size[1]) * _BYTES[size[2]]
        if time is None or not float(time[1]):
            self.fail(f"{word!r} is not all, none, a size such as 500kB or 64MB, or a duration such as 7d.", param, ctx)
        return timedelta(seconds=float(time[1]) * _SECONDS[time[2]])


class Size(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """``500kB 64MB 2GB``, as bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes, or a usage error that shows the form."""
        match = _SIZE.fullmatch(str(value))
        if match is None:
            self.fail(f"{str(value)!r} is not a size such as 800B, 500kB, 64MB or 2GB.", param, ctx)
        return int(match[1]) * _BYTES[match[2]]


class AtPoint(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A point of a space's past: a token, ``checkpoint:NAME``, a time such as ``2026-05-01T12:00Z``, or so long ago."""

    name = "point"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str | datetime:
        """The token or name as it is, or a time; one without a time zone is local."""
        word = str(value)
        if word.startswith(("c1.", "checkpoint:")):
            return word
        if _DURATION.fullmatch(word):
            return datetime.now(UTC) - timedelta(seconds=DURATION.convert(word, param, ctx))
        try:
            return datetime.fromisoformat(word).astimezone()
        except ValueError:
            self.fail(
                f"{word!r} is no point of the past: give a token, checkpoint:NAME, a time such as 2026-05-01T12:00, or "
                "how long ago, such as 10m.",
                param,
                ctx,
            )


class NamedAtPoint(AtPoint):
    """The same, or the bare name of a checkpoint."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str | datetime:
        """As of :class:`AtPoint`; what is nothing else is a name."""
        word = str(value)
        try:
            return super().convert(word, param, ctx)
        except click.UsageError:
            return word


class InputFile(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A file to read as bytes, ``-`` for stdin."""

    name = "filename"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> IO[bytes]:  # noqa: ARG002  # click's signature
        """The open file; the OSError if it cannot be opened, for that is no fault of the command line."""
        file: IO[bytes] = click.open_file(str(value), "rb")
        if ctx is not None and value != "-":
            ctx.call_on_close(file.close)
        return file


class AgentName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """The name of an agent, as its framework calls it."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself, or a usage error that says what a name may hold."""
        name = str(value)
        if not (1 <= len(name) <= _NAME_CHARS_MAX and name.isprintable() and name.strip() == name):
            self.fail(
                f"{name!r} is no agent's name: 1 to 128 printable characters, without spaces at either end.", param, ctx
            )
        return name


class Name(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """The name of a space, or of an agent with a key."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself, or a usage error that says what a name may hold."""
        name = str(value)
        if _NAME.fullmatch(name) is None:
            self.fail(
                f"{name!r} is not a name: 1 to 128 of a-z 0-9 . _ - beginning with a letter or digit.", param, ctx
            )
        return name


class HeldSpace(Name):
    """The name of a space that is there already; completed by asking the daemon."""

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002  # click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Spaces that this node holds, whose names begin so."""
        from crdtsyncd.cli.connect import completed, space_names

        return completed(ctx, incomplete, space_names)


class SpaceName(HeldSpace):
    """The name of a space, or of an archive of one: ``team@3``."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself, or a usage error that says what a name may hold."""
        space, sign, epoch = str(value).partition("@")
        name = super().convert(space, param, ctx)
        if sign and not (epoch.isascii() and epoch.isdigit()):
            self.fail(
                f"{str(value)!r} names no archive: that is a space's name, @, and the number of an epoch.", param, ctx
            )
        return name + sign + epoch


class Text(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Words that go to the daemon: any text, as long as it is UTF-8."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, or a usage error when the bytes of the argument were not UTF-8."""
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail("it is not valid UTF-8.", param, ctx)
        return text


class Key(Text):
    """A key or the prefix of keys; completed by asking the daemon."""

    name = "key"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002  # click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Keys that begin so; none when no daemon answers at once."""
        from crdtsyncd.cli.connect import completed

        return completed(ctx, incomplete, lambda client: client.keys(incomplete, limit=_COMPLETIONS_MAX))


class Member(Text):
    """A node: its name, or the beginning of its id; completed with the names that the daemon knows."""

    name = "node"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002  # click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Members that begin so, and nodes that are no members."""
        from crdtsyncd.cli.connect import completed, node_names

        return completed(ctx, incomplete, node_names)


WriteConcernValue: TypeAlias = int | str


class WriteConcern(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """How many nodes shall hold a write: a number, ``majority`` or ``all``."""

    name = "n|majority|all"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> WriteConcernValue:
        """The number or the word."""
        word = str(value)
        if word in ("majority", "all"):
            return word
        if word.isascii() and word.isdigit() and int(word) >= 1:
            return int(word)
        return self.fail(f"{word!r} is neither a number of nodes from 1 on, nor 'majority', nor 'all'.", param, ctx)


class Confidence(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """How sure an author is: a number from 0 to 1. (click's own range lets NaN through, which is in no range.)"""

    name = "f"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or a usage error."""
        try:
            confidence = float(str(value))
        except ValueError:
            confidence = math.nan
        if not 0 <= confidence <= 1:
            self.fail(f"{str(value)!r} is not a number from 0 to 1.", param, ctx)
        return confidence


DURATION = Duration()
AT = AtPoint()
NAMED_AT = NamedAtPoint()
TTL = Duration(_TTL_MAX_S, f"{_TTL_MAX_S * 1000:.0f}ms, some {_TTL_MAX_S / _YEAR_S:,.0f} years")
TAKEOVER = Duration(_TAKEOVER_MAX_S, "1h")
CONFIDENCE = Confidence()
HISTORY_CAP = HistoryCap()
SIZE = Size()
FILE = InputFile()
AGENT_NAME = AgentName()
NAME = Name()
HELD_SPACE = HeldSpace()
SPACE_NAME = SpaceName()
TEXT = Text()
KEY = Key()
MEMBER = Member()
WRITE_CONCERN = WriteConcern()
