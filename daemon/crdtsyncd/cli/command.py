"""The classes under every command: a group that imports on demand, and options that work before and after a command."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd import terminal
from crdtsyncd.cli.params import AGENT_NAME, DURATION, SPACE_NAME, TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

# An argument that looks like an option to click but is a number: `crdtsync set temperature -5`.
_NEGATIVE_NUMBER = re.compile(r"-(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Whether it can be opened shows when it is opened: the sentence then names the group that may.
SOCKET = click.Path(readable=False)
USAGE = 2
_SHIELD = "\0"  # no argument of a process can hold a NUL, so nobody else's text begins with it


@dataclass(slots=True)
class Settings:
    """The options of every command; None for one that was not given."""

    socket: str | None = None
    space: str | None = None
    agent: str | None = None
    json: bool = False
    timeout: float | None = None
    after: str | None = None
    agent_key_file: str | None = None

    @property
    def agent_key(self) -> Path | None:
        """The same as a client takes it: a str would be the key itself."""
        return None if self.agent_key_file is None else Path(self.agent_key_file)


def common_options() -> list[click.Parameter]:
    """Fresh copies of the options that stand before or after a command; the later one wins."""
    return [
        _common(["--socket"], "PATH", "Socket of the daemon.  [env: CRDTSYNC_SOCKET]", SOCKET),
        _common(["--space"], "NAME", "Space to work in.  [env: CRDTSYNC_SPACE; default: default]", SPACE_NAME),
        _common(["--agent"], "NAME", "Name to write under.  [env: CRDTSYNC_AGENT]", AGENT_NAME),
        _common(
            ["--agent-key-file"],
            "FILE",
            "File with the key that proves the name.  [env: CRDTSYNC_AGENT_KEY, CRDTSYNC_AGENT_KEY_FILE]",
            SOCKET,
        ),
        _common(
            ["--after"], "TOKEN", "First wait until this node holds what TOKEN names.  [env: CRDTSYNC_AFTER]", TEXT
        ),
        _common(["--json"], None, "Print JSON, errors too.", None),
        _common(["--timeout"], "DURATION", "Wait no longer than this, such as 500ms, 5s or 1m.", DURATION),
    ]


def _common(names: list[str], metavar: str | None, text: str, kind: click.ParamType[Any] | None) -> click.Option:
    field = names[0].lstrip("-").replace("-", "_")

    def store(context: click.Context, _: click.Parameter, given: object) -> None:
        settings = context.find_root().ensure_object(Settings)
        if given is not None and given is not False:
            setattr(settings, field, given)

    is_flag = True if kind is None else None  # False would make the value of the option optional
    return CommonOption(
        names, metavar=metavar, help=text, type=kind, is_flag=is_flag, expose_value=False, callback=store
    )


class CommonOption(click.Option):
    """An option that every command takes; marked so that the help can show it apart."""


class StateCommand(click.Command):
    """A command that takes the common options after its name too, and negative numbers as arguments.

    Its function is called with the settings first, then with its own arguments and options.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: click's own signature, passed on
        super().__init__(*args, **kwargs)
        own = {name for param in self.params for name in param.opts}
        self.params += [option for option in common_options() if own.isdisjoint(option.opts)]

    def invoke(self, ctx: click.Context) -> Any:  # Any: nothing comes of a command
        """See click."""
        assert self.callback is not None
        return ctx.invoke(self.callback, ctx.ensure_object(Settings), **ctx.params)

    def make_parser(self, ctx: click.Context) -> Any:  # Any: the class has two names in click 8
        """Click's parser, made to see ``-5`` as an argument; options such as ``-x`` stay errors."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_numbers(args: list[str]) -> Any:
            options, rest, order = parse(_shielded(args))
            return {name: _bare(value) for name, value in options.items()}, _bare(rest), order

        parser.parse_args = parse_numbers  # type: ignore[method-assign]
        return parser

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the command's own options first, then the common ones."""
        _write_options(ctx, formatter, self.get_params(ctx))


def _shielded(args: Sequence[str]) -> list[str]:
    end = list(args).index("--") if "--" in args else len(args)
    own = [_SHIELD + arg if _NEGATIVE_NUMBER.fullmatch(arg) else arg for arg in args[:end]]
    return own + list(args[end:])


def _bare(value: Any) -> Any:  # Any: whatever shape click's parser gives an option
    if isinstance(value, str):
        return value.removeprefix(_SHIELD)
    if isinstance(value, list | tuple):
        return type(value)(_bare(part) for part in value)
    return value


def _write_options(ctx: click.Context, formatter: click.HelpFormatter, params: Sequence[click.Parameter]) -> None:
    titles = {"Options": False, "Options of every command": True}
    for title, common in titles.items():
        options = [param for param in params if isinstance(param, click.Option)]
        found = [option.get_help_record(ctx) for option in options if isinstance(option, CommonOption) is common]
        records = [record for record in found if record is not None]
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


MEANT = {
    "cat": "crdtsync get",
    "cluster list": "crdtsync cluster members",
    "cluster ls": "crdtsync cluster members",
    "delete": "crdtsync del",
    "help": "crdtsync --help, crdtsync COMMAND --help",
    "info": "crdtsync status",
    "init": "crdtsync cluster init",
    "invite": "crdtsync cluster invite",
    "items": "crdtsync export",
    "join": "crdtsync cluster join",
    "keys": "crdtsync ls",
    "list": "crdtsync ls",
    "lock": "crdtsync claim",
    "memory delete": "crdtsync memory forget",
    "memory ls": "crdtsync memory list",
    "memory rm": "crdtsync memory forget",
    "nodes": "crdtsync peers, crdtsync cluster members",
    "put": "crdtsync set",
    "read": "crdtsync get",
    "rm": "crdtsync del",
    "schema list": "crdtsync schema show",
    "schema ls": "crdtsync schema show",
    "service logs": "journalctl --unit crdtsyncd",
    "service restart": "systemctl restart crdtsyncd",
    "service start": "systemctl start crdtsyncd",
    "service stop": "systemctl stop crdtsyncd.socket crdtsyncd.service",
    "subscribe": "crdtsync watch",
    "tail": "crdtsync log KEY -f, crdtsync watch",
    "task list": "crdtsync tasks",
    "task ls": "crdtsync tasks",
    "unset": "crdtsync del",
    "version": "crdtsync --version",
    "view ls": "crdtsync view list",
    "write": "crdtsync set",
}
"""Names that other programs have for a command, and its name here."""
DESTRUCTIVE = frozenset(
    {"clear", "del", "discard", "drop", "forget", "remove", "reset", "restore", "revoke", "trim", "uninstall"}
)
"""Never named because they look like what was typed: who tries out what is suggested must lose nothing."""


class StateGroup(click.Group):
    """A group of commands: without one it shows its help, and a name that it does not know it answers with another."""

    command_class = StateCommand

    def __init__(self, name: str, **kwargs: Any) -> None:  # Any: click's own signature, passed on
        super().__init__(name, **{"no_args_is_help": False, **kwargs})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help where it is needed, on stderr, for nothing was done; to a program say it as an error."""
        if not args and not ctx.resilient_parsing:
            if ctx.find_root().ensure_object(Settings).json:
                raise click.UsageError(f"a command is missing: {', '.join(self.list_commands(ctx))}", ctx)
            terminal.write(sys.stderr, f"{ctx.get_help()}\n".encode())
            ctx.exit(USAGE)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """The names, in the order in which the commands are declared: that in which one needs them."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the commands, each with a sentence."""
        self.write_commands(ctx, formatter, {"Commands": self.list_commands(ctx)})

    def write_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter, sections: Mapping[str, Iterable[str]]
    ) -> None:
        """Show each section with the whole first sentence of each of its commands."""
        width = max(map(len, self.list_commands(ctx)))
        for title, names in sections.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), one.get_short_help_str(1_000)) for name, one in commands if one]
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which name was meant."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command {args[0]!r}{self._hint(ctx, args[0], names)}", ctx)
        return super().resolve_command(ctx, args)

    def _hint(self, ctx: click.Context, word: str, names: Sequence[str]) -> str:
        meant = MEANT.get(word if ctx.parent is None else f"{ctx.info_name} {word}")
        if meant is not None:
            return f" (that is {meant})"
        from difflib import get_close_matches

        near = get_close_matches(word, [name for name in names if name not in DESTRUCTIVE])
        return f" (did you mean {' or '.join(near)}?)" if near else ""


class LazyGroup(StateGroup):
    """A group that knows its commands by name and imports one when it is called, or all for the help."""

    def __init__(
        self,
        name: str,
        *,
        sections: Mapping[str, Mapping[str, str]],
        package: str,
        **kwargs: Any,  # Any: click's own signature, passed on
    ) -> None:
        super().__init__(name, **kwargs)
        self.sections = sections
        self._package = package
        self._places = {command: place for section in sections.values() for command, place in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """The names, in the order of the sections."""
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's
        """The command of that name, imported now."""
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(f"{self._package}.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the group's options, then the commands by section."""
        _write_options(ctx, formatter, self.get_params(ctx))
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the commands by section."""
        self.write_commands(ctx, formatter, self.sections)


def state_command(name: str, **kwargs: Any) -> Callable[[Callable[..., Any]], StateCommand]:  # Any: as click's
    """Declare a command: ``click.command`` with :class:`StateCommand` under it."""
    return click.command(name, cls=StateCommand, no_args_is_help=False, **kwargs)
