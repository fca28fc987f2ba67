"""Sessions of all hosts: who works on what, what is said there now, where something was said, and moved with one
command.

A session is moved by a *receiver*, which its user lets run on the other host (``crdtsync session receive``): only
that user's processes may write where his agents look for sessions. A move is a task for it, and the result is what the
sender would have seen, had he sat there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from crdtsync.coordination.cards import PRESENCE
from crdtsync.errors import InvalidEncoding, InvalidRequest, Refused, Timeout
from crdtsync.sessions.agents.places import AGENTS
from crdtsync.sessions.blocking import Sessions
from crdtsync.sessions.conversation.record import USER, Item, Text, text_of
from crdtsync.sessions.handing_over import HandedOver, conversation
from crdtsync.sessions.saved.header import FOLLOWED, MAIN, Saved, lines_key
from crdtsync.sessions.saved.pieces import Tree, lines_of

if TYPE_CHECKING:
    from crdtsync.client import Client
    from crdtsync.client.blocking.client import Session
    from crdtsync.coordination import Job, Worker

MOVES = "session-moves/"
RECEIVER = "receives sessions"
MOVE_S = 60.0
"""So long the receiver waits until its host has the session."""
_SNIPPET_CHARS = 160


@dataclass(frozen=True, slots=True)
class Found:
    """Where something was said: ``text`` is what stands around it."""

    saved: Saved
    turn: int
    text: str


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
    tree, begun = Tree(sessions.with_large(saved.id, elements)), b""
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


def search(client: Client | Session, words: str) -> Iterator[Found]:
    """Where all of ``words`` stand in one text, call or result, the newest session and turn first, once a turn.

    Sessions whose lines are not all on this host, or of agents that are not known here, are passed over.
    """
    sessions = Sessions(client)
    wanted = words.casefold().split()
    for saved in sessions.ls():
        try:
            turns = sessions.conversation(saved.id).turns()
        except (InvalidEncoding, InvalidRequest):
            continue
        for number in range(len(turns) - 1, -1, -1):
            for text in map(text_of, turns[number]):
                folded = text.casefold()
                if all(word in folded for word in wanted):
                    at = max(0, folded.find(wanted[0]) - _SNIPPET_CHARS // 3) if wanted else 0
                    yield Found(saved, number, " ".join(text[at : at + _SNIPPET_CHARS].split()))
                    break


def send(client: Client, saved: Saved, host: str, user: str, timeout_s: float, **options: Any) -> HandedOver:
    """Have a saved session handed over on another host, by the receiver of ``user`` there; ``options`` are those of
    :meth:`~crdtsync.sessions.Sessions.handover`. The new session's file is flushed there on return.

    Raises :class:`~crdtsync.errors.Refused` if nobody receives there or the hand-over fails, and
    :class:`~crdtsync.errors.Timeout` if nothing is heard in time: then it may still be done.
    """
    receivers = [(one.node, one.status) for one in client.who() if one.role == RECEIVER]
    if (host, user) not in receivers:
        there = ", ".join(f"{who}@{where}" for where, who in receivers) or "nobody"
        raise Refused(f"{user}@{host} receives no sessions ({there} does): let crdtsync session receive run there")
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
        raise Refused(f"{user}@{host}: {task.error or 'the hand-over failed'}")
    try:
        return HandedOver.from_plain(saved, task.result)
    except (KeyError, TypeError, ValueError):
        raise Refused(f"{user}@{host}: what it answered is no hand-over") from None


def receiver(client: Client, user: str, done: Callable[[HandedOver], None]) -> Worker:
    """What carries out the moves that are for ``user`` on this host, in its ``run``; ``done`` hears of each.

    Whoever may write the keys ``session-moves/HOST/USER/**`` can have new sessions put where this user's agents look
    for them. Files that are there stay as they are.
    """
    host = str(client.status()["node"]["name"])

    def carry_out(job: Job) -> dict[str, Any]:
        client.wait(job.input["token"], timeout=MOVE_S)
        made = Sessions(client).handover(job.input["session"], **job.input["options"])
        done(made)
        return made.plain()

    return client.work(f"{MOVES}{host}/{user}/**", carry_out)
