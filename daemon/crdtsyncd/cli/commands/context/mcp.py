"""``mcp``: the shared state for coding agents, by the Model Context Protocol."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.errors import absent, refused_value, report
from crdtsyncd.cli.params import TEXT
from crdtsyncd.cli.shared_options import loopback_place, token_file_option, token_of
from crdtsyncd.cli.show import output

from crdtsync.context.tokens import ANY_MODEL
from crdtsync.errors import CrdtSyncError
from crdtsync.mcp.install.change import (
    BYTE_ORDER_MARK,
    has_server,
    in_its_lines,
    read,
    with_server,
    without_server,
    write,
)
from crdtsync.mcp.install.clients import client as client_named
from crdtsync.mcp.install.clients import found
from crdtsync.mcp.install.hooks import has_hooks, with_hooks, without_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from crdtsync.mcp.install.clients import McpClient

    _Change = tuple[Path, Callable[[str], str]]


@click.group("mcp", cls=StateGroup)
def mcp() -> None:
    """Attach coding agents, by the Model Context Protocol."""


@mcp.command("serve")
@click.option("--read-only", is_flag=True, help="Offer no tool that writes.")
@click.option("--memory-server", is_flag=True, help="Offer the nine tools of the reference memory server instead.")
@click.option("--tools", metavar="NAME,…", default="", help="Offer only these tools.")
@click.option("--http", metavar="[HOST:]PORT", type=TEXT, help="Listen there instead, on loopback; 7478 is usual.")
@token_file_option
@click.option(
    "--model",
    metavar="NAME",
    default=ANY_MODEL,
    show_default=True,
    help="Whose tokens budgets count; a name such as claude or gpt-5 takes 40 MB more.",
)
def serve(
    settings: Settings,
    read_only: bool,
    memory_server: bool,
    tools: str,
    http: str | None,
    token_file: Path | None,
    model: str,
) -> None:
    """Speak MCP on stdin and stdout, for one agent, or with --http for many.

    The agent writes under the name that --agent gives; else under the one that the MCP client gives itself, with the
    directory that it works in. It may do what that name may.

    \b
    Example, as a coding agent's settings have it:
      crdtsync mcp serve --agent reviewer
    """
    import asyncio

    from crdtsync.context.extras import need

    need("mcp", "mcp")
    from crdtsync.mcp.server import serve_stdio
    from crdtsync.mcp.session import ServerOptions

    names = tuple(name.strip() for name in tools.split(",") if name.strip())
    options = ServerOptions(
        socket=settings.socket, space=settings.space, agent=settings.agent, agent_key=settings.agent_key,
        model=model, read_only=read_only, tools=names,
        memory_server=memory_server,
    )  # fmt: skip
    if http is None:
        asyncio.run(serve_stdio(options))
        return
    from crdtsync.mcp.http import serve_http

    host, port = loopback_place(http, "--http")
    asyncio.run(serve_http(options, host, port, *token_of(token_file, "mcp")))


_client_option = click.option(
    "--client",
    "names",
    metavar="NAME",
    multiple=True,
    help="claude-code, codex, cursor, vscode, gemini, claude-desktop.",
)
_scope_option = click.option(
    "--scope", type=click.Choice(["user", "project"]), default="user", show_default=True, help="Whose settings."
)
_dry_run_option = click.option("--dry-run", is_flag=True, help="Show the change, and write nothing.")


@mcp.command("install")
@_client_option
@_scope_option
@click.option("--hooks", is_flag=True, help="Also tell each session what is new, and save it (claude-code, codex).")
@_dry_run_option
def install(settings: Settings, names: tuple[str, ...], scope: str, hooks: bool, dry_run: bool) -> None:
    """Register the server with the clients on this machine, and show what changes in their settings.

    Without --client: with all that are found. Nothing else in a file changes, and no secret is written. The server
    attaches as this command does: by its options, and unless for a project by CRDTSYNC_SOCKET, CRDTSYNC_SPACE and
    CRDTSYNC_AGENT_KEY_FILE.

    With --hooks a session is shown the shared state when it begins, and before each turn what others have changed
    since; after each turn it is saved, for `session load`.

    \b
    Example:
      crdtsync mcp install --client codex --hooks
    """
    common = _attaching(settings, {} if scope == "project" else os.environ)
    program = "crdtsync" if scope == "project" else _program()

    def changes(client: McpClient) -> Iterator[_Change]:
        path = client.path(scope, *_where())
        entry = client.entry(program, ["mcp", "serve", *common])
        yield path, lambda text: with_server(text, path, client.section, entry)
        if hooks and (names or client.hooks):
            file = client.hooks_path(scope, *_where())
            command = shlex.join([program, "session", "hook", "--from", client.name, *common])
            yield file, lambda text: with_hooks(text, file, command)

    _change_all(settings, names, scope, changes, dry_run=dry_run)


@mcp.command("uninstall")
@_client_option
@_scope_option
@_dry_run_option
def uninstall(settings: Settings, names: tuple[str, ...], scope: str, dry_run: bool) -> None:
    """Take the server and its hooks out of the settings of clients again.

    \b
    Example:
      crdtsync mcp uninstall --client codex
    """

    def changes(client: McpClient) -> Iterator[_Change]:
        path = client.path(scope, *_where())
        yield path, lambda text: without_server(text, path, client.section)
        if client.hooks:
            file = client.hooks_path(scope, *_where())
            yield file, lambda text: without_hooks(text, file)

    _change_all(settings, names, scope, changes, dry_run=dry_run)


@mcp.command("status")
def status(settings: Settings) -> None:
    """Print which clients are on this machine, and whether they have the server and its hooks.

    \b
    Example:
      crdtsync mcp status
    """
    with _Each(settings) as each:
        for client in found():
            path = client.path("user", *_where())
            with each.told():
                has_it = has_server(read(path).removeprefix(BYTE_ORDER_MARK), path, client.section)
                hooks = read(client.hooks_path("user", *_where())) if client.hooks else ""
                has_them = bool(hooks) and has_hooks(hooks.removeprefix(BYTE_ORDER_MARK))
                fields = {"client": client.name, "installed": has_it, "hooks": has_them, "file": str(path)}
                state = f"{'installed' if has_it else 'not installed'}{' with hooks' if has_them else ''}"
                output.line(output.record(fields) if settings.json else f"{client.title}: {state} ({path})")


def _change_all(
    settings: Settings,
    names: tuple[str, ...],
    scope: str,
    changes: Callable[[McpClient], Iterable[_Change]],
    *,
    dry_run: bool,
) -> None:
    chosen = [client_named(name) for name in names] or [one for one in found() if scope == "user" or one.project]
    if not chosen:
        raise absent("no client was found on this machine: name one with --client")
    with _Each(settings) as each:
        for client in chosen:
            for path, change in changes(client):
                with each.told():
                    _change_one(settings, client, path, change, dry_run=dry_run)


def _change_one(
    settings: Settings, client: McpClient, path: Path, change: Callable[[str], str], *, dry_run: bool
) -> None:
    before = read(path)
    after = in_its_lines(before, change)
    if not dry_run and after != before:
        write(path, after)
    state = "unchanged" if after == before else "would change" if dry_run else "changed"
    if settings.json:
        output.line(output.record({"client": client.name, "file": str(path), "state": state}))
        return
    output.line(f"{client.title}: {path} {state}")
    difference = unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=1)
    for line in list(difference)[2:]:
        output.line(f"  {line}")


class _Each:
    """A failure with one client is reported, and does not stop the others; the command ends with its status."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._status = settings, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._status:
            raise click.exceptions.Exit(self._status)

    @contextmanager
    def told(self) -> Iterator[None]:
        try:
            yield
        except (CrdtSyncError, OSError) as error:
            self._status = report(error, as_json=self._settings.json)


def _attaching(settings: Settings, environment: Mapping[str, str]) -> list[str]:
    """The options with which a client's server attaches as this command does, wherever it is started."""
    if environment.get("CRDTSYNC_AGENT_KEY") and settings.agent_key is None:
        message = "CRDTSYNC_AGENT_KEY is a secret, which no settings should hold: put it into a file, and name that"
        raise refused_value(f"{message} with --agent-key-file")
    socket = settings.socket or environment.get("CRDTSYNC_SOCKET")
    key = settings.agent_key or environment.get("CRDTSYNC_AGENT_KEY_FILE")
    options = {
        "--socket": socket and str(Path(socket).absolute()),
        "--space": settings.space or environment.get("CRDTSYNC_SPACE"),
        "--agent": settings.agent,
        "--agent-key-file": key and str(Path(key).absolute()),
    }
    return [word for option, value in options.items() if value for word in (option, value)]


def _where() -> tuple[Path, Path, Mapping[str, str]]:
    return Path.home(), Path.cwd(), os.environ


def _program() -> str:
    """The command as a client finds it: the path of this one, for a client may have another PATH."""
    return shutil.which("crdtsync") or str(Path(sys.executable).with_name("crdtsync"))
