"""``memory``: what agents have learnt, for whoever comes later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import KEY, TEXT
from crdtsyncd.cli.shared_options import all_of, confidence_option
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crdtsync import Client

_scoped = all_of(
    click.option("--user-id", metavar="ID", type=TEXT, help="Of this user."),
    click.option("--agent-id", metavar="ID", type=TEXT, help="Of this agent."),
    click.option("--run-id", metavar="ID", type=TEXT, help="Of this run; by default of the whole team."),
)
_id_argument = click.argument("memory_id", metavar="ID", type=KEY)
_text_argument = click.argument("text", type=TEXT)
_limit_option = click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many at most.")


@click.group("memory", cls=StateGroup)
def memory() -> None:
    """Remember what agents have learnt, on all hosts.

    What is of nobody in particular is of the team: coding agents remember and recall the same.

    \b
    Example:
      crdtsync memory add "the tests need a running Redis" --about tests
    """


@memory.command("add")
@_text_argument
@_scoped
@click.option("--about", metavar="WORD", type=TEXT, help="What it is about: two that say different things show.")
@click.option("--source", metavar="KEY", type=KEY, help="The key that it comes from.")
@confidence_option
def add(settings: Settings, text: str, **fact: Any) -> None:
    """Remember TEXT, and print its id.

    \b
    Example:
      crdtsync memory add "prefers night trains" --user-id alice
    """
    from crdtsync.context import Memory

    with connect(settings) as client:
        added = Memory(client).add(text, **_whose(fact))["results"]
    if not added:
        raise click.UsageError("there is nothing in that to remember: say it in a sentence.")
    output.result(settings, added[0]["id"], added[0])


@memory.command("search")
@click.argument("words", nargs=-1, required=True, type=TEXT)
@_scoped
@_limit_option
def search(settings: Settings, words: tuple[str, ...], limit: int, **scope: Any) -> None:
    """Print the memories that speak of WORDS, the best first.

    \b
    Example:
      crdtsync memory search train --user-id alice
    """
    from crdtsync.context import Memory

    with connect(settings) as client:
        found = Memory(client).search(" ".join(words), limit=limit, **_whose(scope))["results"]
        _print(settings, found or _readable(client, scope), "no memory speaks of that")


@memory.command("list")
@_scoped
@_limit_option
def list_(settings: Settings, limit: int, **scope: Any) -> None:
    """Print the memories that hold now, the newest first.

    \b
    Example:
      crdtsync memory list --user-id alice
    """
    from crdtsync.context import Memory

    with connect(settings) as client:
        found = Memory(client).get_all(limit=limit, **_whose(scope))["results"]
        _print(settings, found or _readable(client, scope), "nothing is remembered: crdtsync memory add remembers it")


@memory.command("get")
@_id_argument
def get(settings: Settings, memory_id: str) -> None:
    """Print what the memory ID says.

    \b
    Example:
      crdtsync memory get user/alice/5f1d
    """
    from crdtsync.context import Memory

    with connect(settings) as client:
        found = Memory(client).get(memory_id)
    if found is None:
        raise _no(memory_id)
    output.result(settings, found["memory"], found)


@memory.command("update")
@_id_argument
@_text_argument
def update(settings: Settings, memory_id: str, text: str) -> None:
    """Let the memory ID say TEXT from now on; what it said stays in its history.

    \b
    Example:
      crdtsync memory update user/alice/5f1d "prefers day trains"
    """
    from crdtsync.context import Memory

    with connect(settings) as client:
        remembered = Memory(client)
        if remembered.get(memory_id) is None:
            raise _no(memory_id)
        remembered.update(memory_id, text)
    output.result(settings, memory_id, {"id": memory_id, "memory": text})


@memory.command("forget")
@_id_argument
def forget(settings: Settings, memory_id: str) -> None:
    """Forget the memory ID for good, also what it said before.

    It leaves history and checkpoints, on every host. That needs the right admin on its key.

    \b
    Example:
      crdtsync memory forget user/alice/5f1d
    """
    from crdtsync.context import Memory
    from crdtsync.context.memory.blocking import FORGOTTEN

    with connect(settings) as client:
        told = Memory(client).forget(memory_id)["message"]
    output.result(settings, memory_id, {"id": memory_id})
    if told != FORGOTTEN:
        output.warning(f"{told[0].lower()}{told[1:]}: is the id right?")


@memory.command("history")
@_id_argument
def history(settings: Settings, memory_id: str) -> None:
    """Print what the memory ID has said, the oldest first.

    \b
    Example:
      crdtsync memory history user/alice/5f1d
    """
    from crdtsync.context import Memory

    with connect(settings) as client:
        told = Memory(client).history(memory_id)
    if not told:
        raise _no(memory_id)
    for one in told:
        said = one["new_memory"] if one["new_memory"] is not None else one["old_memory"]
        odds = f" (at odds with: {'; '.join(one['at_odds'])})" if one.get("at_odds") else ""
        plain = f"{one['created_at']} {one['event']} ({one['agent']}): {said}{odds}"
        output.line(output.record(one) if settings.json else plain)


def _whose(fact: dict[str, Any]) -> dict[str, Any]:
    """``fact`` with a scope: the team's where none is given."""
    from crdtsync.context.memory.record import SCOPES, TEAM

    return fact if any(fact[name] is not None for name in SCOPES) else fact | {"run_id": TEAM}


def _readable(client: Client, scope: dict[str, Any]) -> list[Mapping[str, Any]]:
    """No memories; refused, as the daemon says it, if this agent may read none of that scope."""
    from crdtsync.context.memory.record import Scope

    client.get(f"memory/{Scope(**_whose(scope)).place()}none")
    return []


def _print(settings: Settings, found: Iterable[Mapping[str, Any]], nothing: str) -> None:
    output.lines(
        settings, ((f"{one['id']} ({one['agent']}, {one['created_at'][:10]}): {one['memory']}", one) for one in found),
        nothing,
    )  # fmt: skip


def _no(memory_id: str) -> Exception:
    return absent(f"there is no memory {memory_id!r}")
