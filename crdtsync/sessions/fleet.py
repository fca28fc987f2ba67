"""Sessions of all hosts: who works on what, what is said there now, and moved with one command.

A session is moved by a *receiver*, which its user lets run on the other host (``crdtsync session receive``): only
that user's processes may write where his agents look for sessions. A move is a task for it, and the result is what the
sender would have seen, had he sat there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from crdtsync.coordination.cards import PRESENCE
from crdtsync.errors import Refused, Timeout
from crdtsync.sessions.agents.places import AGENTS
from crdtsync.sessions.blocking import Sessions
from crdtsync.sessions.conversation.record import USER, Item, Text
from crdtsync.sessions.handing_over import HandedOver, conversation
from crdtsync.sessions.redaction.own import own_patterns
from crdtsync.sessions.redaction.redactor import Redactor
from crdtsync.sessions.saved.header import FOLLOWED, MAIN, Saved, lines_key
from crdtsync.sessions.saved.pieces import PieceTree, lines_of

if TYPE_CHECKING:
    from crdtsync.client import Client
    from crdtsync.client.blocking.client import Session
    from crdtsync.coordination import Job, Worker

MOVES = "session-moves/"
RECEIVER = "receives sessions"
MOVE_S = 60.0
"""So long the receiver waits until its host has the session."""


def followed(client: Client | Session) -> set[str]:
    """The ids of sessions that somebody follows with ``session watch`` now, on any host that can be reached."""
    cards = [one.value for one in client.shown(PRESENCE) if isinstance(one.value, dict)]
    return {str(card.get("status")) for card in cards if card.get("role") == FOLLOWED}


def follow(client: Client | Session, session: str) -> Iterator[tuple[int, Item]]:
    """The last turn of a saved session, and what is said and done from now on, as it is saved, each with the number of
    its turn. It goes on until the caller leaves the loop.
    """
    sessions = Sessions(client)
    saved = sessions.get(session)
    key = lines_key(saved.id, MAIN)
    elements = client.log(key)
    tree, begun = PieceTree(sessions.with_large(saved.id, elements)), b""
    turns = conversation(saved, list(lines_of(tree.file())), {}).turns()
    turn = len(turns) - 1
    yield from ((turn, item) for item in turns[-1])
    with client.watch(key, after=elements.token) as events:
        for event in events:
            appended = (one.value for one in event.events or [event] if one.op == "append")
            new = tree.add(sessions.with_large(saved.id, appended))
            whole, end, begun = (begun + b"".join(one.content for one in new)).rpartition(b"\n")
            for item in AGENTS[saved.agent].read(BytesIO(whole + end)).items:
                turn += isinstance(item, Text) and item.role == USER
                yield turn, item


def send(client: Client, saved: Saved, host: str, user: str, timeout_s: float, **options: Any) -> HandedOver:
    """Have a saved session handed over on another host, by the receiver of ``user`` there; ``options`` are those of
    :meth:`~crdtsync.sessions.Sessions.handover`. The new session's file is flushed there on return.

    Raises :class:`~crdtsync.errors.Refused` if nobody receives there, a path holds a secret or the hand-over fails, and
    :class:`~crdtsync.errors.Timeout` if nothing is heard in time: then it may still be done.
    """
    receivers = [(one.node, one.status) for one in client.who() if one.role == RECEIVER]
    if (host, user) not in receivers:
        there = ", ".join(f"{who}@{where}" for where, who in receivers) or "nobody"
        raise Refused(f"{user}@{host} receives no sessions ({there} does): let crdtsync session receive run there")
    if _freed(options) != options:
        raise Refused(f"a path holds a secret, and moves are stored: say handover on {host}")
    key = f"{MOVES}{host}/{user}/{uuid4().hex}"
    client.put_task(key, {"session": saved.id, "options": options, "token": client.token}, attempts=1)
    until_s = time.monotonic() + timeout_s
    with client.watch(key) as events:
        while True:
            task = next(iter(client.tasks(key)), None)
            if task is not None and task.is_over:
                break
            if time.monotonic() >= until_s:
                raise Timeout(f"{host} has not answered; crdtsync tasks {key} shows what becomes of it")
            events.next(timeout=until_s - time.monotonic())
    if not isinstance(task.result, dict):
        why = (task.error or "").removeprefix("Refused: ") or "the hand-over failed"
        raise Refused(f"{user}@{host}: {why}")
    try:
        return HandedOver.from_plain(saved, task.result)
    except (KeyError, TypeError, ValueError):
        raise Refused(f"{user}@{host}: what it answered is no hand-over") from None


def receiver(client: Client, user: str, done: Callable[[HandedOver], None]) -> Worker:
    """Carries out the moves that are for ``user`` on this host, in its ``run``; ``done`` hears of each.

    Whoever may write the keys ``session-moves/HOST/USER/**`` can have new sessions put where this user's agents look
    for them. Files that are there stay as they are.
    """
    host = str(client.status()["node"]["name"])

    def carry_out(job: Job) -> dict[str, Any]:
        client.wait(job.input["token"], timeout=MOVE_S)
        try:
            made = Sessions(client).handover(job.input["session"], **job.input["options"])
        except Exception as error:  # whatever it is, what it says is stored
            raise Refused(_without_secrets(str(error) or type(error).__name__)) from error
        result: dict[str, Any] = _freed(made.plain())
        done(made)
        return result

    return client.work(f"{MOVES}{host}/{user}/**", carry_out)


def _without_secrets(told: str) -> str:
    return Redactor(own_patterns()).text(told)


def _freed(value: Any) -> Any:
    """The same without secrets in any of its strings, each by itself: a pattern must not take the quotes around it."""
    match value:
        case str():
            return _without_secrets(value)
        case Path():
            return Path(_without_secrets(str(value)))
        case dict():
            return {_freed(key): _freed(one) for key, one in value.items()}
        case list() | tuple():
            return type(value)(map(_freed, value))
    return value
