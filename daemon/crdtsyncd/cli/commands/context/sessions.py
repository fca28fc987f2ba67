"""``session``: sessions of coding agents, saved and put back elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import ABSENT, CommandFailed, absent
from crdtsyncd.cli.params import DURATION, HELD_SPACE, SIZE, TEXT
from crdtsyncd.cli.shared_options import all_of
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.session_lines import (
    print_excluded,
    print_handed_over,
    print_loaded,
    print_saved,
    print_texts,
    saved_fields,
)
from crdtsyncd.cli.show.tables import Column, show_rows
from crdtsyncd.wording import ago

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crdtsync.sessions import HandedOver, Sessions

HOOK_TIMEOUT_S = 10.0  # a user waits
_HOOKED = ("claude-code", "codex")
_AGENTS = (*_HOOKED, "gemini-cli", "opencode")
COLUMNS = (
    Column("SESSION", lambda row: str(row["id"])),
    Column("AGENT", spare=1),
    Column("SAVED", lambda row: "now" if row.get("now") else ago(row["time"])),
    Column("TURNS", is_number=True, spare=4),
    Column("BY", lambda row: f"{row['user']}@{row['node']}", spare=2),
)
TITLE = (Column("TITLE", folds=True),)
WHERE = (Column("TITLE", folds=True, spare=3), Column("IN", lambda row: str(row["cwd"]), folds=True))
_session_argument = click.argument("session", metavar="ID", type=TEXT)
_way = click.option(
    "--way", metavar="N", type=click.IntRange(1), default=1,
    help="Of a session that went on in several ways: 2 is the one saved before the last.",
)  # fmt: skip


@contextlib.contextmanager
def _sessions(settings: Settings) -> Iterator[Sessions]:
    from crdtsync.sessions import Sessions

    with connect(settings) as client:
        yield Sessions(client)


_here = all_of(
    click.argument("session", metavar="[ID]", type=TEXT, required=False),
    click.option("--latest", is_flag=True, help="The session that was written last on this machine."),
    click.option("--from", "program", type=click.Choice(_AGENTS), help="Of this agent alone."),
)
_going_on = all_of(
    click.option("--in", "cwd", metavar="DIR", type=click.Path(file_okay=False), help="The directory to go on in."),
    click.option("--map", "maps", metavar="OLD=NEW", multiple=True, type=TEXT, help="Rewrite this path."),
    click.option("--without-thinking", "thinking", flag_value=False, default=True, type=bool,
                 help="Leave out what the model thought."),
    click.option("--only-files", is_flag=True, help="Only calls that name files, with their results."),
    click.option("--merge", metavar="ID", type=TEXT, help="With notes of this session, which is saved, too."),
    click.option("--dry-run", is_flag=True, help="Say what would be done, and write nothing."),
)  # fmt: skip


@click.group("session", cls=StateGroup)
def session() -> None:
    """Take sessions of coding agents along.

    \b
    Example:
      crdtsync session save --latest
      crdtsync session load f6c34a6a        (on another host)
    """


@session.command("save")
@_here
@click.option("--no-redact", is_flag=True, help="Store secrets, too: whoever may read the space reads them.")
def save(settings: Settings, session: str | None, latest: bool, program: str | None, no_redact: bool) -> None:
    """Save a session of this machine into the shared state.

    Every line is kept to the byte, but for secrets: known forms, and what looks like chance beside words such as
    "password", become marks. A second save writes what is new.

    \b
    Example:
      crdtsync session save --latest
    """
    _check_here(session, latest)
    with _sessions(settings) as sessions:
        result = sessions.save(session, agent=program, redact=not no_redact)
    print_saved(settings, result)


@session.command("watch")
@_here
def watch(settings: Settings, session: str | None, latest: bool, program: str | None) -> None:
    """Save a session of this machine, and go on saving as it grows, until Ctrl-C.

    \b
    Example:
      crdtsync session watch --latest
    """
    _check_here(session, latest)
    with _sessions(settings) as sessions:
        for result in sessions.watch(session, agent=program):
            print_saved(settings, result)
            output.flush()


@session.command("ls")
@click.option("--where", is_flag=True, help="With the directory, and who is at work now.")
def ls(settings: Settings, where: bool) -> None:
    """Print the sessions of all hosts that are saved, the newest first.

    With --where the time is "now" while somebody lets session watch follow it, on whatever host. Turns are all that a
    person began, also those that the agent has left or no longer sees.

    \b
    Example:
      crdtsync session ls --where
    """
    from crdtsync.sessions import Sessions, fleet

    with connect(settings) as client:
        now = fleet.followed(client) if where else set()
        found = Sessions(client).ls()
    rows = [{**saved_fields(saved), **({"now": saved.id in now} if where else {})} for saved in found]
    show_rows(settings, (*COLUMNS, *(WHERE if where else TITLE)), rows)
    if not rows and not settings.json:
        output.warning("no saved sessions: crdtsync session save --latest saves one")


@session.command("show")
@_session_argument
@click.option("--turns", metavar="N[-M]", type=TEXT, help="Only these turns.")
@click.option("--file", metavar="NAME", type=TEXT, help="This file, as the agent wrote it: main, or one beside it.")
@_way
def show(settings: Settings, session: str, turns: str | None, file: str | None, way: int) -> None:
    """Print what was said and done in a saved session, by turns; with --json what is known of it.

    \b
    Example:
      crdtsync session show f6c34a6a --turns 3-5
    """
    from crdtsync.sessions.conversation.show import shown

    with _sessions(settings) as sessions:
        saved = sessions.get(session)
        if settings.json:
            output.line(output.record(saved_fields(saved)))
            return
        if file is not None:
            if file not in saved.files:
                raise absent(f"session {saved.id} has no file {file}: show --json names them")
            for piece in sessions.files(saved)[file]:
                output.write(piece.content)
            return
        print_texts(shown(sessions.conversation(saved.id, way), turns, sessions.excluded(saved.id)))


@session.command("log")
@_session_argument
def log(settings: Settings, session: str) -> None:
    """Print a saved session a turn a line: its number, when it began, its calls, and what was asked for.

    \b
    Example:
      crdtsync session log f6c34a6a
    """
    from crdtsync.sessions.conversation.show import logged

    with _sessions(settings) as sessions:
        print_texts(logged(sessions.conversation(session), sessions.excluded(session)))


@session.command("diff")
@_session_argument
@click.argument("other", metavar="[OTHER]", type=TEXT, required=False)
def diff(settings: Settings, session: str, other: str | None) -> None:
    """Print what a saved session changed in files, or what was said and done in OTHER and not in it, as a diff.

    \b
    Example:
      crdtsync session diff f6c34a6a
      crdtsync session diff f6c34a6a 019a77c2
    """
    from difflib import unified_diff

    from crdtsync.sessions.conversation.show import edited, shown

    with _sessions(settings) as sessions:
        if other is None:
            print_texts(edited(sessions.conversation(session)))
            return
        left, right = sessions.get(session).id, sessions.get(other).id
        one, two = ([line for text in shown(sessions.conversation(name)) for line in text.splitlines()]
                    for name in (left, right))  # fmt: skip
        print_texts(unified_diff(one, two, left, right, n=1, lineterm=""))


@session.command("load")
@_session_argument
@click.option("--in", "cwd", metavar="DIR", type=click.Path(file_okay=False), help="The directory to go on in.")
@click.option("--map", "maps", metavar="OLD=NEW", multiple=True, type=TEXT, help="Rewrite this path. Repeatable.")
@click.option("--whole", is_flag=True, help="With the turns that are excluded.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and write nothing.")
def load(settings: Settings, session: str, dry_run: bool, **options: Any) -> None:
    """Put a saved session where its agent looks for it on this machine, and print what resumes it.

    Paths of the home and, with --in, of the directory are rewritten; --map adds others. A file that is there is gone
    on with if it begins as the saved one, and else left alone. If turns are excluded, see branch.

    \b
    Example:
      crdtsync session load f6c34a6a --in ~/api --map /srv/data=/mnt/data
    """
    with _sessions(settings) as sessions:
        loaded = sessions.load(session, dry_run=dry_run, **options)
    for one in [*loaded.needed, loaded]:
        print_loaded(settings, one, dry_run=dry_run)


@session.command("handover")
@_here
@click.option("--to", required=True, type=click.Choice(_AGENTS), help="The agent that goes on.")
@click.option("--on", "host", metavar="[USER@]HOST", type=TEXT, help="There, where session receive runs; not here.")
@click.option("--budget", "budget_tokens", metavar="TOKENS", type=click.IntRange(1), help="Older turns become compact.")
@_going_on
def handover(
    settings: Settings, session: str | None, latest: bool, program: str | None, host: str | None, **options: Any
) -> None:
    """Make a saved session one of another agent, on this machine or another, and print what resumes it.

    With --latest the session is saved first.

    All that the model was told is carried, in order, with the calls of tools and their results. What cannot be carried
    is listed with the reason, here and in a note at the head of the new session.

    \b
    Example:
      crdtsync session handover --latest --to codex
      crdtsync session handover --latest --to codex --on desk
    """
    from crdtsync.sessions import Sessions, fleet

    _check_here(session, latest)
    with connect(settings) as client:
        sessions = Sessions(client)
        saved = sessions.get(session) if session else sessions.save(agent=program).saved
        if host is None:
            done = sessions.handover(saved.id, **options)
        else:
            user, _, node = host.rpartition("@")
            done = fleet.send(client, saved, node, user or saved.user, client.timeout_s, **options)
    print_handed_over(settings, done, **options)


@session.command("branch")
@_session_argument
@click.option("--at", metavar="TURN", type=click.IntRange(1), help="Only what was said up to the end of this turn.")
@_way
@_going_on
def branch(settings: Settings, session: str, **options: Any) -> None:
    """Make a new session of the same agent from a saved one, and print what resumes it.

    Turns that are excluded are left out. The saved session stays as it is.

    \b
    Example:
      crdtsync session branch f6c34a6a --at 12
    """
    with _sessions(settings) as sessions:
        done = sessions.branch(session, **options)
    print_handed_over(settings, done, **options)


@session.command("exclude")
@_session_argument
@click.argument("turns", metavar="N[-M]", type=TEXT)
def exclude(settings: Settings, session: str, turns: str) -> None:
    """Leave turns of a saved session out when it is handed over, branched or told in short.

    Nothing is deleted: session include takes them in again. It prints all turns that are left out.

    \b
    Example:
      crdtsync session exclude f6c34a6a 12-18
    """
    with _sessions(settings) as sessions:
        print_excluded(settings, sessions.exclude(session, turns))


@session.command("include")
@_session_argument
@click.argument("turns", metavar="N[-M]", type=TEXT)
def include(settings: Settings, session: str, turns: str) -> None:
    """Take turns in again that were excluded, and print those that are still left out.

    \b
    Example:
      crdtsync session include f6c34a6a 12-18
    """
    with _sessions(settings) as sessions:
        print_excluded(settings, sessions.include(session, turns))


@session.command("rewind")
@_session_argument
@click.argument("turn", metavar="TURN", type=click.IntRange(0))
def rewind(settings: Settings, session: str, turn: int) -> None:
    """Go back to the end of a turn: later ones are excluded, and session branch goes on from there.

    \b
    Example:
      crdtsync session rewind f6c34a6a 12
    """
    with _sessions(settings) as sessions:
        print_excluded(settings, sessions.rewind(session, turn))


@session.command("brief")
@_session_argument
@click.option(
    "--budget", "budget_tokens", metavar="TOKENS", type=click.IntRange(50), default=2000, show_default=True,
    help="At most so many.",
)  # fmt: skip
@click.option("--model", metavar="MODEL", type=TEXT, help="Whose tokens count.")
def brief(settings: Settings, session: str, budget_tokens: int, model: str | None) -> None:
    """Print a saved session in short: goal, decisions, rejected ways, open ends and files, each with its turn.

    Nobody is asked: sentences are chosen by their words, which are English ones.

    \b
    Example:
      crdtsync session brief f6c34a6a --budget 1000
    """
    with _sessions(settings) as sessions:
        text = sessions.brief(session, budget_tokens=budget_tokens, model=model)
    output.result(settings, text, {"brief": text})


@session.command("follow")
@_session_argument
def follow(settings: Settings, session: str) -> None:
    """Print what is said and done in a session of any host from now on, as it is saved, until Ctrl-C.

    Its own host saves it with session watch, or by hooks.

    \b
    Example:
      crdtsync session follow f6c34a6a
    """
    from crdtsync.sessions import fleet
    from crdtsync.sessions.conversation.record import text_of
    from crdtsync.sessions.conversation.show import lines_of

    with connect(settings) as client:
        for turn, item in fleet.follow(client, session):
            if settings.json:
                output.line(output.record({"turn": turn, "type": type(item).__name__, "text": text_of(item)}))
            else:
                print_texts(lines_of(item))
            output.flush()


@session.command("receive")
def receive(settings: Settings) -> None:
    """Let sessions be handed over to you on this host, from others, until Ctrl-C.

    Whoever may write the keys session-moves/HOST/USER/** can put new sessions where your agents look for them.

    \b
    Example:
      crdtsync session receive
    """
    import getpass

    from crdtsync.sessions import fleet

    user = getpass.getuser()
    with connect(settings) as client, client.present(role=fleet.RECEIVER, status=user):

        def print_it(done: HandedOver) -> None:
            print_handed_over(settings, done, dry_run=not Path(done.path).exists())
            output.flush()

        fleet.receiver(client, user, print_it).run()


@session.command("share")
@_session_argument
@click.argument("to", metavar="SPACE", type=HELD_SPACE)
def share(settings: Settings, session: str, to: str) -> None:
    """Copy a saved session into another space: from a private one into that of a project.

    \b
    Example:
      crdtsync session share f6c34a6a api --space mine
    """
    with _sessions(settings) as sessions:
        print_saved(settings, sessions.share(session, to))


@session.command("prune")
@click.option("--older", "older_s", metavar="DURATION", type=DURATION, help="Those that were saved last so long ago.")
@click.option("--over", "bytes_max", metavar="SIZE", type=SIZE, help="The oldest, if all take more than this.")
@click.option("--always", is_flag=True, help="From now on, on every host: each session save does the same.")
def prune(settings: Settings, older_s: float | None, bytes_max: int | None, *, always: bool) -> None:
    """Delete old saved sessions from the shared state; the agents' own files stay.

    \b
    Example:
      crdtsync session prune --older 30d --over 2GB --always
    """
    if older_s is None and bytes_max is None:
        raise click.UsageError("say --older or --over.")
    with _sessions(settings) as sessions:
        for saved in sessions.prune(older_s, bytes_max, always=always):
            output.result(settings, f"{saved.id}  {saved.title}", {"id": saved.id})


@session.command("drop")
@_session_argument
def drop(settings: Settings, session: str) -> None:
    """Take a saved session out of all that the hosts store, history and log, too; the agent's own files stay.

    Without the right admin on its keys it is only deleted, or stays if it was saved with --no-redact.

    \b
    Example:
      crdtsync session drop f6c34a6a
    """
    with _sessions(settings) as sessions:
        saved = sessions.get(session)
        sessions.drop(saved.id)
    output.result(settings, saved.id, {"id": saved.id})


@session.command("hook")
@click.option("--from", "program", required=True, type=click.Choice(_HOOKED), help="The agent that runs it.")
def hook(settings: Settings, program: str) -> None:
    """Carry out one hook of a coding agent, whose event is on stdin.

    At the start of a session it prints what the team shares; before a turn, what others have changed since the last
    one; after a turn it saves the session. While no daemon answers it does nothing. `mcp install --hooks` registers it.

    \b
    Example:
      crdtsync session hook --from codex < event.json
    """
    import json
    import sys

    given = sys.stdin.buffer.read()
    if not _is_up(settings):
        return
    from crdtsync.errors import CrdtSyncError, DaemonUnavailable, Timeout
    from crdtsync.mcp.install.clients import client as client_named
    from crdtsync.sessions import hooks

    try:
        event = json.loads(given)
        assert isinstance(event, dict)
    except (ValueError, RecursionError, AssertionError):
        raise CommandFailed("stdin holds no event of a hook", status=ABSENT, code="invalid_request") from None
    own = settings.agent or client_named(program).agent_name(str(event.get("cwd") or Path.cwd()))
    limit = HOOK_TIMEOUT_S if settings.timeout is None else settings.timeout
    try:
        with connect(dataclasses.replace(settings, agent=own, timeout=limit)) as client:
            text = hooks.run(client, program, event)
    except (DaemonUnavailable, Timeout):
        return
    except CrdtSyncError as error:  # status 2 would stop the turn
        raise CommandFailed(error.message, status=ABSENT, code=error.code) from error
    if text:
        output.whole(f"{text}\n".encode())


def _check_here(session: str | None, latest: bool) -> None:
    if latest == (session is not None):
        raise click.UsageError("give the ID of a session, or --latest.")


def _is_up(settings: Settings) -> bool:
    """Whether somebody listens; looked up before what takes long to import, for each turn of the user waits for it."""
    import socket

    from crdtsync.client.protocol.address import socket_paths

    for path in socket_paths(settings.socket):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as one:
            one.connect(path)
            return True
    return False
