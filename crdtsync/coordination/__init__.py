"""Coordination: who is here and who does what, without a server.

The problem. Two agents on two hosts take up one task. No server says who may, hosts are cut off now and then, and
clocks are wrong. So who holds what is itself shared state, which merges: after every cut each host finds the same
owner, by a rule that looks at the records alone, and tells the other one.

Open first: ``claim_record`` for what is stored and which claim counts, then ``aio.claims`` for how one is made. People
come in by the client's methods (``state.claim(…)``), which import this room when they are called.

Rooms and modules:

- ``aio``: for asyncio; ``blocking``: the same for threads and scripts, made from it by ``./dev generate``
- ``claim_record``: claims as they are stored; which one counts
- ``task_record``: tasks as they are stored; ``task_board``: which one a worker takes next
- ``questions``: questions to people, and their answers; ``cards``: who is here
- ``shapes``: from a class to keys, for ``state.model(Plan, "plan/")``

Its place: above the public client only, beside ``context``. A module here may import :class:`crdtsync.Client`,
:class:`crdtsync.AsyncClient`, ``crdtsync.client`` and ``crdtsync.errors``; never ``crdtsync.core``, ``crdtsync.wire``
or ``crdtsyncd``. What a daemon alone can know it tells through the client: ``bind`` lets a key go with a connection,
``wait(…, w="reached")`` says when all hosts that can be reached have heard of a write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.lazy import lazy

if TYPE_CHECKING:
    from crdtsync.coordination.aio.claims import AsyncLease as AsyncLease
    from crdtsync.coordination.aio.model import AsyncModel as AsyncModel
    from crdtsync.coordination.aio.model import AsyncModelField as AsyncModelField
    from crdtsync.coordination.aio.presence import AsyncPresence as AsyncPresence
    from crdtsync.coordination.aio.private import AsyncPrivate as AsyncPrivate
    from crdtsync.coordination.aio.reactions import AsyncReaction as AsyncReaction
    from crdtsync.coordination.aio.work import AsyncJob as AsyncJob
    from crdtsync.coordination.aio.work import AsyncWorker as AsyncWorker
    from crdtsync.coordination.blocking.claims import Lease as Lease
    from crdtsync.coordination.blocking.model import Model as Model
    from crdtsync.coordination.blocking.model import ModelField as ModelField
    from crdtsync.coordination.blocking.presence import Presence as Presence
    from crdtsync.coordination.blocking.private import Private as Private
    from crdtsync.coordination.blocking.reactions import Reaction as Reaction
    from crdtsync.coordination.blocking.work import Job as Job
    from crdtsync.coordination.blocking.work import Worker as Worker
    from crdtsync.coordination.cards import Present as Present
    from crdtsync.coordination.claim_record import Claim as Claim
    from crdtsync.coordination.questions import Answer as Answer
    from crdtsync.coordination.questions import Question as Question
    from crdtsync.coordination.shapes import Text as Text
    from crdtsync.coordination.task_record import GiveBack as GiveBack
    from crdtsync.coordination.task_record import Task as Task
    from crdtsync.coordination.task_record import TaskFailed as TaskFailed

__getattr__ = lazy(
    globals(),
    {
        "aio.claims": ("AsyncLease",),
        "aio.model": ("AsyncModel", "AsyncModelField"),
        "aio.presence": ("AsyncPresence",),
        "aio.private": ("AsyncPrivate",),
        "aio.reactions": ("AsyncReaction",),
        "aio.work": ("AsyncJob", "AsyncWorker"),
        "blocking.claims": ("Lease",),
        "blocking.model": ("Model", "ModelField"),
        "blocking.presence": ("Presence",),
        "blocking.private": ("Private",),
        "blocking.reactions": ("Reaction",),
        "blocking.work": ("Job", "Worker"),
        "cards": ("Present",),
        "claim_record": ("Claim",),
        "questions": ("Answer", "Question"),
        "shapes": ("Text",),
        "task_record": ("GiveBack", "Task", "TaskFailed"),
    },
)
