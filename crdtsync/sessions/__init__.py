"""Sessions of coding agents: saved as a game is, to be gone on with elsewhere.

Somebody works with a coding agent, and hits its limit, or leaves the machine. This room takes the session along: all
that was said, called and answered, to the byte for the same agent under another home, or as a conversation for another
agent.

    from crdtsync.sessions import Sessions

    Sessions(state).save()                   # the session that was written last on this machine
    Sessions(state).load("f6c34a6a")         # on another host: puts it where the agent looks for it
    Sessions(state).handover("f6c34a6a", to="codex")

Open first: ``aio``; ``blocking`` is the same without asyncio, generated from it.

How ``save`` goes: ``agents`` finds the session's files and says what it is about. ``redaction`` takes the secrets out
of each line. ``saved`` makes a chain of the lines, and only those that the log lacks are appended to it. ``load`` goes
back: ``saved`` takes the newest end of the log, ``moving`` rewrites the paths and writes the files.

Rooms and modules:

- ``aio``: :class:`AsyncSessions`
- ``blocking``: :class:`Sessions`
- ``local``: what of saving and loading touches files
- ``handing_over``: the same of handing over
- ``hooks``: what a coding agent runs by itself
- ``fleet``: sessions of all hosts: who works on what, what is said there, and moved with one command
- ``searching``: what a search finds in them
- ``notes``: what one run leaves for the next
- ``conversation``: a session as a conversation that no agent's format is part of
- ``moving``: onto another machine
- ``redaction``: secrets out of lines
- ``saved``: how a session is stored
- ``agents``: the agents that are known, their files, and their formats

Its place: above the public client only. A module here may import ``crdtsync.context``, ``crdtsync.client`` and
``crdtsync.errors``; never ``crdtsync.core``, ``crdtsync.wire`` or ``crdtsyncd``. ``mcp`` and ``ui`` may import this
room. import-linter holds this (the contracts ``agent-layer`` and
``library-rooms`` in ``pyproject.toml``).

Why: a saved session is ordinary state under ordinary keys. It replicates, conflicts and is protected by rights as
all other state is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.sessions.aio import AsyncSessions as AsyncSessions
    from crdtsync.sessions.blocking import Sessions as Sessions
    from crdtsync.sessions.conversation.record import Conversation as Conversation
    from crdtsync.sessions.handing_over import HandedOver as HandedOver
    from crdtsync.sessions.local import Loaded as Loaded
    from crdtsync.sessions.local import SaveResult as SaveResult
    from crdtsync.sessions.saved.header import Saved as Saved

__getattr__ = lazy(
    globals(),
    {
        "aio": ("AsyncSessions",),
        "blocking": ("Sessions",),
        "conversation.record": ("Conversation",),
        "handing_over": ("HandedOver",),
        "local": ("Loaded", "SaveResult"),
        "saved.header": ("Saved",),
    },
)
