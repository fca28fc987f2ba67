"""Tools for tasks that the agents of all hosts share: put one, take one, finish it.

A worker of :mod:`crdtsync.coordination` gives a task to a function and stores what that returns. Here the function is
a model: the worker waits in the background, and holds the task's claim, until the model calls ``finish_task``.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult
from pydantic import Field
from typing_extensions import TypedDict

from crdtsync.client import AsyncSession, Entry
from crdtsync.coordination import AsyncJob, AsyncWorker
from crdtsync.errors import InvalidRequest
from crdtsync.mcp.answers import Done, answer, within
from crdtsync.mcp.session import ALONE_S, Callers
from crdtsync.mcp.tools.following import Wait, awaited
from crdtsync.mcp.tools.table import Tool

IN_HAND_MAX = 100
"""Tasks in hand, of all agents of one server."""
_LOOK_S = 1.0  # what a worker may need to find a task that is there
_BUDGET_TOKENS = 4_000


class Taken(TypedDict):
    """A task to be done; ``key`` None: there is none."""

    key: str | None
    task: Any
    by: str | None
    attempt: int


def tools(sessions: Callers) -> list[Tool]:
    """The tools of this module, for the callers of ``sessions``."""
    hands = _Hands()

    async def put_task(
        ctx: Context,
        key: Annotated[str, Field(description="Such as tasks/parser.")],
        task: Annotated[Any, Field(description="What is to be done.")],
        after: Annotated[tuple[str, ...], Field(description="Keys of tasks to be done first.")] = (),
    ) -> Annotated[CallToolResult, Done]:
        """Put a task that some agent on some host will take; each is done once."""
        done = await sessions.of(ctx).put_task(key, task, after=after)
        return answer(f"put {key}", {"done": f"put {key}", "token": str(done)})

    async def take_task(ctx: Context, prefix: str = "tasks/", timeout_s: Wait = 5) -> Annotated[CallToolResult, Taken]:
        """Take the next open task, or wait for one. It is yours until you call finish_task, or end."""
        longest_s = None if sessions.ends_with_server(ctx) else ALONE_S
        session = sessions.of(ctx)
        job = await hands.take(ctx, session, prefix, timeout_s, longest_s)
        if job is None:
            none = {"key": None, "task": None, "by": None, "attempt": 0}
            return answer(f"no task is open under {prefix or 'any key'}", none)
        text, shown = within([await _as_put(session, job)], _BUDGET_TOKENS, sessions.options.model)
        said = f"{job.key} is yours: do it, then call finish_task.\n{text}"
        task = shown["entries"][0]
        data = {"key": job.key, "task": task["value"], "by": task["agent"], "attempt": job.attempt}
        return answer(said, data)

    async def finish_task(
        ctx: Context,
        key: str,
        result: Annotated[Any, Field(description="What came of it.")] = None,
        failure: Annotated[str | None, Field(description="Why it could not be done; somebody may try again.")] = None,
    ) -> Annotated[CallToolResult, Done]:
        """Say what came of the task that you took."""
        session = sessions.of(ctx)
        said = await hands.finish(session, key, result, failure)
        return answer(said, {"done": said, "token": session.token})

    return [Tool(put_task, writes=True), Tool(take_task, writes=True), Tool(finish_task, writes=True)]


class _Hands:
    """The tasks that the models of one server have taken, each with the worker that waits for its outcome."""

    def __init__(self) -> None:
        self._taken: dict[tuple[AsyncSession, str], tuple[AsyncWorker, asyncio.Task[int], asyncio.Future[Any]]] = {}

    async def take(
        self, ctx: Context, session: AsyncSession, prefix: str, timeout_s: float, longest_s: float | None
    ) -> AsyncJob | None:
        """The next task; None if none is open within this time."""
        if len(self._taken) >= IN_HAND_MAX:
            raise InvalidRequest(f"{IN_HAND_MAX} tasks are in hand: finish some first")
        loop = asyncio.get_running_loop()
        taken: asyncio.Future[AsyncJob] = loop.create_future()

        async def hand_over(job: AsyncJob) -> Any:
            worker.stop()
            outcome = loop.create_future()
            self._taken[session, job.key] = worker, working, outcome
            taken.set_result(job)
            try:
                return await asyncio.wait_for(outcome, longest_s)
            finally:
                del self._taken[session, job.key]

        worker = session.work(f"{prefix}**", hand_over)
        working = asyncio.create_task(worker.run())
        either: set[asyncio.Future[Any]] = {working, taken}
        try:
            if not await awaited(ctx, either, max(timeout_s, _LOOK_S), f"no task is open under {prefix}"):
                worker.stop()
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            working.cancel()
            raise
        if taken.done():
            return taken.result()
        await working  # raises what went wrong
        return None

    async def finish(self, session: AsyncSession, key: str, result: Any, failure: str | None) -> str:
        """Store what came of it; says how that stands."""
        worker, working, outcome = self._taken.get((session, key)) or (None, None, None)
        if worker is None or working is None or outcome is None or outcome.done():
            raise ToolError(f"you do not have {key} in hand: take_task first")
        if failure is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(RuntimeError(failure))
        await working
        if worker.done or worker.failed:
            return f"{key} {'is done' if worker.done else 'has failed'}"
        raise ToolError(f"{key} was not yours any more: somebody else has taken it up, and theirs counts")


async def _as_put(session: AsyncSession, job: AsyncJob) -> Entry:
    """What is to be done, with who said so: the entry itself is by the agent that has taken it."""
    entry = await session.entry(job.key)
    first = (await session.history(job.key))[-1:]
    if entry is None:
        raise ToolError(f"{job.key} was deleted just now")
    agent, time = (first[0].agent, first[0].time) if first else (None, None)
    return replace(entry, value=job.input, agent=agent, time=time, siblings=[])
