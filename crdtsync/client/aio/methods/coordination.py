"""How a session works together with others: doors to :mod:`crdtsync.coordination`, which stands above the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from crdtsync.client.aio.methods.base import AsyncMethods
from crdtsync.client.values.durations import Seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from crdtsync.client.aio.client import AsyncSession
    from crdtsync.client.session.request_context import WriteConcern
    from crdtsync.client.values.results import Event
    from crdtsync.client.values.write_result import Written
    from crdtsync.coordination.aio.claims import AsyncLease
    from crdtsync.coordination.aio.model import AsyncModel
    from crdtsync.coordination.aio.presence import AsyncPresence
    from crdtsync.coordination.aio.private import AsyncPrivate
    from crdtsync.coordination.aio.reactions import AsyncReaction
    from crdtsync.coordination.aio.work import AsyncJob, AsyncWorker
    from crdtsync.coordination.cards import Present
    from crdtsync.coordination.claim_record import Claim
    from crdtsync.coordination.questions import Question
    from crdtsync.coordination.task_record import Task

T = TypeVar("T")


class AsyncCoordinationMethods(AsyncMethods):
    """The part of a session that works together with others."""

    def claim(
        self,
        key: str,
        *,
        ttl: Seconds = 60,
        wait: bool | Seconds = False,
        keep: bool = True,
        quorum: bool = False,
        on_lost: Callable[[], object] | None = None,
    ) -> AsyncLease:
        """A claim on ``key``, to be held in an ``async with`` block; see :class:`~crdtsync.coordination.AsyncLease`.

        Among the agents of one host, and of all hosts that see each other, one holds it. Hosts that are cut off may
        hold it too; when they meet, the claim with the highest ``fence`` stays, and the other holder is told at once:
        ``on_lost`` is called, ``check`` and the end of the block raise :class:`~crdtsync.errors.ClaimLost`.

        It is renewed at a third of ``ttl`` (1 s to 7 days), and is free when it is released, when the connection of
        its holder ends, or when ``ttl`` has passed since a renewal by the clock of who wants it. With ``keep=False`` it
        is not renewed, and outlasts its connection: it ends after ``ttl``, by the clocks of the hosts.

        With ``quorum`` the majority of the voters (the daemons' setting ``voters``) must promise it. Then there is one
        holder at a time, also while hosts are cut off; where no majority can be reached, there is none, and this raises
        :class:`~crdtsync.errors.Timeout`. It is not freed by the end of a connection, only by its ``ttl`` (up to ten
        minutes), and :meth:`claims` does not list it.

        The key itself is not touched: claim whatever name you agree on. Entering the block raises
        :class:`~crdtsync.errors.ClaimHeld` if somebody else holds it, with ``wait`` after so long, or never (True).
        """
        from crdtsync.client.values.patterns import check_no_pattern
        from crdtsync.coordination.aio.claims import AsyncLease

        check_no_pattern(key, "a claim")
        wait_s = wait if isinstance(wait, bool) else seconds(wait, "wait")
        if quorum:
            from crdtsync.coordination.aio.quorum import AsyncQuorumLease

            return AsyncQuorumLease(self._session, key, seconds(ttl, "ttl"), wait_s, on_lost)
        return AsyncLease(self._session, key, seconds(ttl, "ttl"), wait_s, keep, on_lost)

    async def claims(self, prefix: str = "") -> list[Claim]:
        """The claims on keys that start with ``prefix``, by key, with those that crossed them."""
        from crdtsync.coordination.aio.claims import claims

        return await claims(self._session, prefix)

    async def release(self, key: str, *, fence: int | None = None) -> bool:
        """Free ``key``, whoever holds it; with ``fence`` only that claim. Whether it was held so. Its holder is told
        at once. A claim of one's own ends with its block.
        """
        from crdtsync.coordination.aio.claims import release

        return await release(self._session, key, fence)

    def model(self, shape: type[T], prefix: str, *, version: int | None = None) -> AsyncModel[T]:
        """The keys under ``prefix``, one for each field of a dataclass, TypedDict or Pydantic model.

        The annotation says the kind: ``Annotated[list[X], operator.add]`` a log, ``Annotated[int, operator.add]`` a
        counter, ``set[X]`` a set, ``dict[str, X]`` a map, ``Text`` (of :mod:`crdtsync.coordination`) a text, all else
        a register. ``model.findings.append(…)`` writes, ``model.read()`` makes an instance of what is there, and
        ``model.declare()`` has all hosts refuse what does not fit. ``version``: of the model; see :meth:`schema_set`.

        :raises InvalidRequest: a field cannot be kept; the message names it.
        """
        from crdtsync.coordination.aio.model import AsyncModel

        return AsyncModel(self._session, shape, prefix, version)

    async def private(self, *, everywhere: bool = False) -> AsyncPrivate:
        """A session in a space of this agent's own, which is made if it is not there: for drafts and scratch.

        It is on this host alone: nothing of it is sent to another one. With ``everywhere`` it is on all hosts, where
        the agent finds it again. Only this agent may do anything in it, if it proves its name with a key; without one,
        all agents of its user. ``publish(key)`` moves something to the space of this session.

        :raises NotAllowed: the agent may make no spaces.
        """
        from crdtsync.coordination.aio.private import private

        return await private(self._session, everywhere=everywhere)

    async def put_task(
        self,
        key: str,
        input: Any = None,  # noqa: A002  # the word of the field
        *,
        role: str | None = None,
        priority: int = 0,
        delay: Seconds = 0,
        after: str | Iterable[str] = (),
        attempts: int = 3,
        backoff: Seconds = 1,
        w: WriteConcern = None,
    ) -> Written:
        """Put a task for the workers of all hosts; durable as :meth:`set`: with ``w=2`` it outlives this host's disk.

        ``input`` is what its worker gets. Workers of ``role`` alone take it, those of higher ``priority`` first, not
        before ``delay`` (by this host's clock), and when the tasks in ``after`` (a key, or several) are done. An
        attempt that fails is repeated after ``backoff``, which doubles each time, until ``attempts`` are used up; then
        the task has ``failed``, and waits for somebody to look at it: :meth:`retry_task`. A task is a register: who
        sets its key replaces it.

        :raises VersionMismatch: there is something under ``key``.
        :raises TooLarge: ``input`` leaves no room for what its worker has to say.
        """
        from crdtsync.client.values.patterns import check_no_pattern
        from crdtsync.coordination.aio.work import put_task

        check_no_pattern(key, "a task")
        delay_s, backoff_s = seconds(delay, "delay"), seconds(backoff, "backoff")
        fields = key, input, role, priority, delay_s, after, attempts, backoff_s
        return await put_task(self._session, w, *fields)

    def work(
        self,
        pattern: str,
        handler: Callable[[AsyncJob], object | Awaitable[object]],
        *,
        role: str | None = None,
        ttl: Seconds = 30,
    ) -> AsyncWorker:
        """A worker for the tasks whose keys match ``pattern``; it works in its ``run()``.

        ``handler`` gets a :class:`~crdtsync.coordination.AsyncJob` and returns the result, a value as of :meth:`set`;
        if it raises, the attempt has failed, but for :class:`~crdtsync.coordination.GiveBack`. It holds the claim on
        the task's key meanwhile, which is renewed at a third of ``ttl``: if this process dies, another worker begins
        the task anew at once; if its host does, or this hangs, after ``ttl``. While hosts see each other and workers do
        not hang, each task is done once; those that were cut off may both do it, and the result with the higher fence
        counts.
        """
        from crdtsync.coordination.aio.work import AsyncWorker

        return AsyncWorker(self._session, pattern, handler, role, seconds(ttl, "ttl"))

    async def tasks(self, prefix: str = "") -> list[Task]:
        """The tasks under ``prefix``, by key. Those that are over are kept for seven days."""
        from crdtsync.coordination.aio.work import tasks

        return await tasks(self._session, prefix)

    async def retry_task(self, key: str) -> bool:
        """Open a task again that has failed, or is done; whether it was."""
        from crdtsync.coordination.aio.work import retry_task

        return await retry_task(self._session, key)

    async def ask(
        self,
        name: str,
        question: str = "",
        *,
        options: Iterable[Any] = (),
        context: Any = None,
        timeout: Seconds | None = None,
        deadline: Seconds | None = None,
        default: Any = None,
        anew: bool = False,
    ) -> Any:
        """Ask a person, and wait for the answer, for ever or as long as ``timeout``.

        The question is stored under ``name``. If an agent asks by that name again, after a restart or on another host,
        it goes on waiting, or has the answer at once, and need not say the question; ``anew`` forgets question and
        answer first. People see the question with ``crdtsync asks`` on any host. ``context`` helps them to decide; with
        ``options`` only those are answers. When ``deadline`` has passed since it was first asked, and somebody still
        waits, ``default`` is the answer. Answers are kept for 30 days.

        :raises Timeout: nobody has answered yet; the question stays.
        :raises Unresolved: two people answered at once, on hosts that did not see each other: one has to settle it.
        """
        from crdtsync.client.values.patterns import check_no_pattern
        from crdtsync.coordination.aio.asks import ask

        check_no_pattern(name, "a question")
        timeout_s = float("inf") if timeout is None else seconds(timeout, "timeout")
        deadline_s = None if deadline is None else seconds(deadline, "deadline")
        return await ask(
            self._session, name, question, options=options, context=context, timeout_s=timeout_s, deadline_s=deadline_s,
            default=default, anew=anew,
        )  # fmt: skip

    async def answer(self, name: str, value: Any, *, note: str = "", settle: bool = False) -> None:
        """Answer a question, once; ``settle``: in place of the answers that there are.

        :raises VersionMismatch: it is answered already; ``current`` holds how.
        :raises Unresolved: somebody on another host has answered otherwise at the same moment.
        :raises InvalidRequest: nobody asks that, or it is none of the options.
        """
        from crdtsync.coordination.aio.asks import answer

        await answer(self._session, name, value, note, settle=settle)

    async def asks(self, prefix: str = "", *, answered: bool = False) -> list[Question]:
        """The questions that wait for somebody, by name; ``answered``: the others, too."""
        from crdtsync.coordination.aio.asks import asks

        return await asks(self._session, prefix, answered=answered)

    async def present(self, *, role: str | None = None, status: str = "") -> AsyncPresence:
        """Show to all hosts that this agent is here, in which role and at what, until the connection ends or the result
        is closed; ``update`` of the result shows something else. ``status`` has 300 characters at most. Nothing of it
        is stored.
        """
        from crdtsync.coordination.aio.presence import AsyncPresence

        return await AsyncPresence(self._session, role, status).show()

    async def who(self) -> list[Present]:
        """The agents that are here, by host and name: those that show themselves, on all hosts that can be reached, and
        any others that are attached to this daemon, each with the claims that it holds.
        """
        from crdtsync.coordination.aio.presence import who

        return await who(self._session)

    def on(
        self,
        pattern: str,
        handler: Callable[[Event], object | Awaitable[object]],
        *,
        role: str,
        ttl: Seconds = 15,
        own: bool = False,
        rounds: int = 10,
        every_host: bool = False,
    ) -> AsyncReaction:
        """A reaction to the changes of keys that match ``pattern``; it goes on in its ``run()``.

        ``handler`` gets each :class:`~crdtsync.client.Event`, in causal order, from the first ``run`` of ``role`` on:
        once per role in the fleet while hosts see each other, and at least once always; with ``every_host``, once on
        each host that runs it. If the process that reacts dies, another one of that role goes on behind the event that
        was handled last. Changes by the agent itself are left out unless ``own``. If this host's log no longer has some
        changes, the handler gets the newest state alone (``snapshot``).

        Each set, merge, append, add, count, delete, discard or drop of a handler says which roles led to it
        (``meta["caused_by"]``). If this role has led to a change ``rounds`` times, it goes round in a loop: the handler
        is not called for it, ``loops`` of the reaction counts up, and the key ``reactions.alarms/ROLE`` says so on all
        hosts for a week.
        """
        from crdtsync.coordination.aio.reactions import AsyncReaction

        return AsyncReaction(self._session, pattern, handler, role, seconds(ttl, "ttl"), own, rounds, every_host)

    @property
    def _session(self) -> AsyncSession:
        return cast("AsyncSession", self)
