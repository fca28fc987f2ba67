"""``task``, ``tasks`` and ``work``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, StateGroup, state_command
from crdtsyncd.cli.commands.together.again import show_again, watch_option
from crdtsyncd.cli.commands.together.children import check, until_told
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.errors import ABSENT, CommandFailed, absent
from crdtsyncd.cli.params import DURATION, KEY, TEXT, WriteConcernValue
from crdtsyncd.cli.shared_options import (
    concern_option,
    key_argument,
    prefix_argument,
    string_option,
    value_argument,
    value_of,
)
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.tables import Column, show_rows
from crdtsyncd.wording import counted, moment

if TYPE_CHECKING:
    from crdtsync import Client
    from crdtsync.coordination import Task

STATES = ("open", "claimed", "done", "failed")
role_option = click.option("--role", metavar="NAME", type=TEXT, help="Only workers of this role take the task.")


@click.group("task", cls=StateGroup)
def task() -> None:
    """Put tasks for the workers of all hosts.

    \b
    Example:
      crdtsync task put tasks/17 '{"page": 3}' --priority 5
    """


@task.command("put")
@key_argument
@value_argument
@string_option
@role_option
@click.option("--priority", metavar="N", type=int, default=0, help="Higher ones go first.")
@click.option("--delay", metavar="DURATION", type=DURATION, help="Not before so long from now, by this host's clock.")
@click.option(
    "--after-task", "after_tasks", metavar="KEY", type=KEY, multiple=True, help="Not before this one is done."
)
@click.option("--attempts", metavar="N", type=click.IntRange(1), default=3, show_default=True, help="Then it fails.")
@click.option(
    "--backoff", metavar="DURATION", type=DURATION, default="1s", show_default=True, help="Doubles each time."
)
@concern_option
def put(
    settings: Settings,
    key: str,
    value: str,
    as_string: bool,
    delay: float | None,
    after_tasks: tuple[str, ...],
    w: WriteConcernValue | None,
    **options: Any,
) -> None:
    """Put a task under KEY, and print the token.

    VALUE is what its worker gets, as JSON. If there is something under KEY, the exit status is 1.

    \b
    Example:
      crdtsync task put tasks/report '{"quarter": 3}' --after-task tasks/17
    """
    content = value_of(value, as_string=as_string)
    with connect(settings) as client:
        token = client.put_task(key, content, delay=delay or 0, after=after_tasks, w=w, **options)
    output.result(settings, token, {"token": token})


@task.command("retry")
@key_argument
def retry(settings: Settings, key: str) -> None:
    """Open the task under KEY again.

    It must have failed, or be done; else the exit status is 1.

    \b
    Example:
      crdtsync task retry tasks/17
    """
    with connect(settings) as client:
        if not client.retry_task(key):
            raise absent(f"{key!r} is no task that has failed or is done")
    output.done(settings, {"key": key})


@state_command("tasks")
@prefix_argument
@click.option("--state", type=click.Choice(STATES), help="Only those.")
@watch_option
def tasks(settings: Settings, prefix: str, state: str | None, is_watching: bool) -> None:
    """Print the tasks whose keys begin with PREFIX.

    NOTE says for what a task waits, or why it has failed, and what else came out where hosts that were cut off did it
    too. With --json each task is an object on a line, with its input and result.

    \b
    Example:
      crdtsync tasks tasks/ --state failed
    """
    with connect(settings) as client:
        show_again(
            lambda: _rows(client, prefix, state),
            lambda rows: show_rows(settings, COLUMNS, rows, "no tasks"),
            is_watching=is_watching,
        )


def _rows(client: Client, prefix: str, state: str | None) -> list[dict[str, Any]]:
    from crdtsync.coordination.task_record import blocked_by

    listed = client.tasks(prefix)
    found = _with_first(client, listed)
    now_s = time.time()
    return [
        _fields(one, blocked_by(one, found), _waits(one, found, now_s)) for one in listed if state in (None, one.state)
    ]


def _with_first(client: Client, listed: list[Task]) -> dict[str, Task]:
    """Tasks by key, with those that they come after."""
    found = {one.key: one for one in listed}
    for key in {key for one in listed for key in one.after} - found.keys():
        found.update((one.key, one) for one in client.tasks(key) if one.key == key)
    return found


def _attempts(row: Any) -> str:  # Any: as Column
    lost = f", {row['vanished']} lost" if row["vanished"] else ""
    return f"{row['attempts']} of {row['attempts_max']}{lost}" if row["attempts"] else ""


def _note(row: Any) -> str:  # Any: as Column
    if row["state"] == "done":
        return f"done elsewhere too: {json_values.dumps(row['crossed'])}" if row["crossed"] else ""
    return str(row["blocked"] or row["error"] or row["waits"])


COLUMNS = (
    Column("TASK", lambda row: row["key"], folds=True),
    Column("STATE"),
    Column("PRIORITY", lambda row: str(row["priority"] or ""), is_number=True),
    Column("ATTEMPTS", _attempts),
    Column("WORKER"),
    Column("NOTE", _note, folds=True),
)


def _waits(found: Task, tasks: Mapping[str, Task], now_s: float) -> str:
    """The reason why an open task waits, beside a missing worker."""
    if found.state != "open":
        return ""
    first = [key for key in found.after if key in tasks and tasks[key].state != "done"]
    waits = [f"after {', '.join(first[:3])}{' and more' if len(first) > 3 else ''}"] if first else []
    if found.not_before_ms / 1000 > now_s:
        waits.append(f"not before {moment(found.not_before_ms)}")
    if found.role is not None:
        waits.append(f"for a worker of the role {found.role}")
    return ", ".join(waits)


def _fields(found: Task, blocked: str, waits: str) -> dict[str, Any]:
    return {
        "key": found.key,
        "state": found.state,
        "role": found.role,
        "priority": found.priority,
        "attempts": found.attempts,
        "attempts_max": found.attempts_max,
        "vanished": found.vanished,
        "after": list(found.after),
        "blocked": blocked if not found.is_over else "",
        "not_before": moment(found.not_before_ms),
        "waits": waits,
        "worker": found.worker,
        "fence": found.fence,
        "error": found.error,
        "input": found.input,
        "result": found.result,
        "crossed": list(found.crossed),
    }


@state_command("work")
@click.argument("pattern", metavar="PATTERN", type=TEXT)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@role_option
@click.option("-n", "count", metavar="N", type=click.IntRange(1, 256), default=1, help="So many tasks at a time.")
@click.option("--ttl", metavar="DURATION", type=DURATION, default="30s", show_default=True, help="1s to 7d.")
@click.option("--limit", metavar="DURATION", type=DURATION, help="End a CMD that takes longer: it has failed.")
@click.option("--drain", is_flag=True, help="End when nothing is left to do.")
def work(
    settings: Settings,
    pattern: str,
    command: tuple[str, ...],
    role: str | None,
    count: int,
    ttl: float,
    limit: float | None,
    drain: bool,
) -> None:
    """Work on tasks with a command, until Ctrl-C.

    Of the tasks whose keys match PATTERN: * is one part of a key, ** any number of parts. CMD finds on its stdin an
    object with key, input, attempt and fence, and prints the result: JSON, or else a text. If CMD fails, the task is
    tried again later. A worker holds the claim on its task; if it dies, another one begins the task anew at once, and
    if its host does, after --ttl. If this is told to end, it gives its tasks back. How each attempt ended is printed.
    With --drain the exit status is 1 if a task has failed, or waits for one that can never be done.

    \b
    Example:
      crdtsync work 'tasks/**' -n 4 -- ./summarise
    """
    from crdtsyncd.cli.commands.together.working import Working

    check(command)
    working = Working(settings, command, limit)
    with connect(settings) as client:
        for _ in range(count):
            worker = client.work(pattern, working.handle, role=role, ttl=ttl)
            worker.on_end, worker.on_overtaken = working.tell, working.tell_of_loss
            working.workers.append(worker)
        until_told(lambda: working.run(drain=drain), working.end)
        if drain:
            _check_drained(client, pattern, role, working.failed)


def _check_drained(client: Client, pattern: str, role: str | None, failed: set[str]) -> None:
    """Say which tasks can never be done, and that some have failed."""
    from crdtsync.client.values.patterns import check_new_pattern
    from crdtsync.coordination.task_record import blocked_by

    wanted = check_new_pattern(pattern)
    left = [
        one
        for one in client.tasks(pattern if wanted.is_exact else wanted.prefix)
        if wanted.matches(one.key) and one.role == role and one.state == "open"
    ]
    found = _with_first(client, left)
    blocked = {one.key: why for one in left if (why := blocked_by(one, found))}
    for key, why in blocked.items():
        output.warning(f"{key} is left: {why}")
    if failed or blocked:
        told = f"{counted(len(failed), 'task')} failed, {len(blocked):,} left that can never be done"
        raise CommandFailed(told, status=ABSENT, code="failed")
