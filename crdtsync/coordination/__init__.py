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
- ``background``: what goes on beside its owner: a task, or a thread

Its place: above the public client only, beside ``context``. A module here may import :class:`crdtsync.Client`,
:class:`crdtsync.AsyncClient`, ``crdtsync.client`` and ``crdtsync.errors``; never ``crdtsync.core``, ``crdtsync.wire``
or ``crdtsyncd``. What a daemon alone can know it tells through the client: ``bind`` lets a key go with a connection,
``wait(…, w="reached")`` says when all hosts that can be reached have heard of a write.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crdtsync.coordination.aio.claims import AsyncLease
    from crdtsync.coordination.aio.model import AsyncModel, AsyncModelField
    from crdtsync.coordination.aio.presence import AsyncPresence
    from crdtsync.coordination.aio.private import AsyncPrivate
    from crdtsync.coordination.aio.reactions import AsyncReaction
    from crdtsync.coordination.aio.work import AsyncJob, AsyncWorker
    from crdtsync.coordination.blocking.claims import Lease
    from crdtsync.coordination.blocking.model import Model, ModelField
    from crdtsync.coordination.blocking.presence import Presence
    from crdtsync.coordination.blocking.private import Private
    from crdtsync.coordination.blocking.reactions import Reaction
    from crdtsync.coordination.blocking.work import Job, Worker
    from crdtsync.coordination.cards import Present
    from crdtsync.coordination.claim_record import Claim
    from crdtsync.coordination.questions import Answer, Question
    from crdtsync.coordination.shapes import Text
    from crdtsync.coordination.task_record import GiveBack, Task, TaskFailed

_MODULES = {
    "Answer": "questions",
    "AsyncJob": "aio.work",
    "AsyncLease": "aio.claims",
    "AsyncModel": "aio.model",
    "AsyncModelField": "aio.model",
    "AsyncPresence": "aio.presence",
    "AsyncPrivate": "aio.private",
    "AsyncReaction": "aio.reactions",
    "AsyncWorker": "aio.work",
    "Claim": "claim_record",
    "GiveBack": "task_record",
    "Job": "blocking.work",
    "Lease": "blocking.claims",
    "Model": "blocking.model",
    "ModelField": "blocking.model",
    "Presence": "blocking.presence",
    "Present": "cards",
    "Private": "blocking.private",
    "Question": "questions",
    "Reaction": "blocking.reactions",
    "Task": "task_record",
    "TaskFailed": "task_record",
    "Text": "shapes",
    "Worker": "blocking.work",
}

__all__ = [
    "Answer",
    "AsyncJob",
    "AsyncLease",
    "AsyncModel",
    "AsyncModelField",
    "AsyncPresence",
    "AsyncPrivate",
    "AsyncReaction",
    "AsyncWorker",
    "Claim",
    "GiveBack",
    "Job",
    "Lease",
    "Model",
    "ModelField",
    "Presence",
    "Present",
    "Private",
    "Question",
    "Reaction",
    "Task",
    "TaskFailed",
    "Text",
    "Worker",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"crdtsync.coordination.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
