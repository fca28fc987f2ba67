"""Authors type a trace into editors, each at a daemon of their own, and each seeing exactly what the trace says they
saw.

An editor sends what was typed when the daemon has taken what it sent before, as one change. What another author saw of
it in the middle of that has to come as an update of its own: there the author has it sent apart.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from time import monotonic
from typing import TYPE_CHECKING

from benchmarks.replay import KEY, REQUEST_TIMEOUT_S, ReplayError
from benchmarks.verdict import Verdict, compare_state, first_difference
from crdtsync.client import AsyncClient
from crdtsync.client.aio.editor_tasks import Typing
from crdtsync.client.text.editor_state import Editing, Incoming

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.daemons import Daemons
    from benchmarks.editor import ClientIds
    from benchmarks.traces import Trace, Transaction
    from crdtsync.client.text.update_queue import Segment
    from crdtsync.client.values.results import Event
    from crdtsync.errors import CrdtSyncError

QUIET_ROUNDS = 5
"""How often nodes are looked at, and nothing happens between them, before typing begins."""


class Session:
    """What all typists of one replay share: what each of them has sent."""

    def __init__(self, trace: Trace, client_ids: ClientIds) -> None:
        if len(trace.chains) > trace.agents:
            raise ReplayError(f"an author of {trace.name} went back to an older text: replay it without editors")
        self.trace = trace
        self.client_ids = client_ids
        self.sent: defaultdict[str, dict[int, int]] = defaultdict(dict)
        """By author: which of their updates, counted from 1, goes up to so many of their edits."""
        self.numbers: defaultdict[str, list[int]] = defaultdict(lambda: [0])
        """By author: how many edits their transactions up to each one were."""
        self.authors = [author_name(trace.transactions[chain[0]].agent) for chain in trace.chains]
        """Of each chain."""
        self.cuts: set[tuple[int, int]] = set()
        """The places in chains after which another author looked."""
        for transaction in trace.transactions:
            self.cuts.update(place for place in transaction.past.items() if place[0] != transaction.chain)
        self.started_s = monotonic()
        self.ended_s = self.started_s
        self.changes = 0

    def updates_wanted(self, transaction: Transaction) -> dict[str, int] | None:
        """How many updates of each other author show what the author of a transaction saw; None: not all are sent."""
        wanted = {}
        for chain, place in transaction.past.items():
            if chain == transaction.chain:
                continue
            author = self.authors[chain]
            if len(self.numbers[author]) <= place:
                return None
            number = self.numbers[author][place]
            if number == 0:
                continue
            if number not in self.sent[author]:
                return None
            wanted[author] = self.sent[author][number]
        return wanted


def author_name(agent: int) -> str:
    """Of the agent of that number."""
    return f"author-{agent}"


class PacedEditing(Editing):
    """Takes in so many updates of each author as it is told to, and no more."""

    def __init__(self, author: str, client_id: Callable[[], int]) -> None:
        super().__init__(client_id)
        self.author = author
        self.taken: defaultdict[str, int] = defaultdict(int)
        self._teller = ""
        self._tellers: deque[str] = deque()

    def told(self, event: Event, key: str) -> bool:
        """See :meth:`Editing.told`."""
        if event.key != key:
            return super().told(event, key)
        self._teller = event.agent or ""
        is_twin = self._teller != self.author and event.value in self._echoes  # both deleted the same
        if is_twin:
            del self._echoes[event.value]
        found = super().told(event, key)
        if is_twin:
            self._echoes[event.value] = None
        return found

    def _receive(self, part: Incoming) -> None:
        super()._receive(part)
        self._tellers.append(self._teller)

    def fetched(self, document: str | None, update: bytes | None, version: str | None) -> None:
        """See :meth:`Editing.fetched`."""
        unread = len(self._inbox)
        super().fetched(document, update, version)
        if len(self._inbox) > unread:
            raise ReplayError("a daemon told its author of a new state, and not of the edits that led to it")

    def has(self, wanted: dict[str, int]) -> bool:
        """Whether so many updates of each author have come."""
        if all(self.taken[author] >= count for author, count in wanted.items()):
            return True
        come = defaultdict(int, self.taken)
        for teller in self._tellers:
            come[teller] += 1
        return all(come[author] >= count for author, count in wanted.items())

    def take(self, wanted: dict[str, int]) -> None:
        """Have the text show them."""
        chosen: deque[Incoming] = deque()
        rest: deque[tuple[Incoming, str]] = deque()
        for part, teller in zip(self._inbox, self._tellers, strict=True):
            if self.taken[teller] < wanted.get(teller, 0):
                self.taken[teller] += 1
                chosen.append(part)
            else:
                rest.append((part, teller))
        if chosen:
            self._inbox = chosen
            self.read()
            self._inbox = deque(part for part, _ in rest)
            self._tellers = deque(teller for _, teller in rest)


class PacedTyping(Typing):
    """An editor whose updates are numbered."""

    session: Session
    pace: PacedEditing
    author: str
    updates = 0
    """How many it has sent."""

    def prepare(self, session: Session, agent: int) -> None:
        """Before it is attached."""
        self.session, self.author = session, author_name(agent)
        self.state = self.pace = PacedEditing(self.author, lambda: session.client_ids.new(agent))

    def last_number(self) -> int:
        """The edit up to which others will see what was typed so far: those after it have undone each other."""
        state = self.state
        return state.typed.last_number or state.outbox.last_number or max(self.session.sent[self.author], default=0)

    def _fail(self, error: CrdtSyncError) -> None:
        super()._fail(error)
        if self._on_change is not None:
            self._on_change()  # whoever waits for the others sees that there is no use

    async def _send(self, parts: list[Segment]) -> None:
        for part in parts:
            self.updates += 1
            self.session.sent[self.author][part.number] = self.updates
        await super()._send(parts)


class Typist:
    """One author, at one daemon."""

    def __init__(self, session: Session, agent: int, client: AsyncClient) -> None:
        self._session = session
        self._transactions = session.trace.by(agent)
        self._author = author_name(agent)
        self._news = asyncio.Event()
        self._seen: dict[int, int] = {}
        timeout_s = REQUEST_TIMEOUT_S
        self.editor = PacedTyping(client, client._connection, KEY, self._news.set, timeout_s)  # noqa: SLF001  # as its `editor` does
        self.editor.prepare(session, agent)

    async def run(self) -> None:
        """Type all transactions, and wait until they are on disk."""
        editor, session = self.editor, self._session
        numbers = session.numbers[self._author]
        for transaction in self._transactions:
            await self._see(transaction)
            for position, deleted, inserted in transaction.patches:
                await editor.type(position, position + deleted, inserted, None)
            numbers.append(editor.state.typed.number)
            if (transaction.chain, transaction.place) in session.cuts:
                editor.send()
                numbers[-1] = editor.last_number()
                await asyncio.sleep(0)
        await editor.flush(None, None)
        session.ended_s = monotonic()
        session.changes += editor.state.outbox.changes

    async def _see(self, transaction: Transaction) -> None:
        seen = {chain: place for chain, place in transaction.past.items() if chain != transaction.chain}
        if seen == self._seen:
            return
        self._seen = seen
        while True:
            wanted = self._session.updates_wanted(transaction)
            if wanted is not None and self.editor.pace.has(wanted):
                break
            self._news.clear()
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self._news.wait()
            if self.editor.state.error is not None:
                raise ReplayError(f"{self._author} cannot go on: {self.editor.state.error}")
        self.editor.pace.take(wanted)


async def type_all(session: Session, fleet: Daemons, expected: str) -> Verdict:
    """Replay on a fleet that holds nothing yet; what the nodes then hold."""
    clients = [AsyncClient(fleet[agent].socket, agent=author_name(agent)) for agent in range(session.trace.agents)]
    for client in clients:
        await client.__aenter__()
    try:
        token = await clients[0].session(agent="host").text(KEY).set("")
        for client in clients:
            await client.wait(token)
        await _meet(clients, fleet)
        typists = [Typist(session, agent, client) for agent, client in enumerate(clients)]
        for typist in typists:
            await typist.editor.attach()
        session.started_s = monotonic()
        async with asyncio.TaskGroup() as group:
            for typist in typists:
                group.create_task(typist.run())
        tokens = [typist.editor.token or token for typist in typists]
        for typist in typists:
            await typist.editor.close(None)
    finally:
        for client in clients:
            await client.close()
    return await _judge(session, fleet, tokens, expected)


async def _meet(clients: list[AsyncClient], fleet: Daemons) -> None:
    """Until all nodes are connected and have been for a while: who meets others takes their state, not each update."""
    rounds, taken = 0, -1
    while rounds < QUIET_ROUNDS:
        tokens = [await client.set(f"here/{number}", rounds) for number, client in enumerate(clients)]
        for client in clients:
            for token in tokens:
                await client.wait(token)
        found = [await client.status() for client in clients]
        is_met = all(peer["state"] == "connected" for status in found for peer in status["peers"])
        before, taken = taken, sum(daemon.snapshots_taken() for daemon in fleet.daemons)
        rounds = rounds + 1 if is_met and taken == before else 0
        await asyncio.sleep(0.2)


async def _judge(session: Session, fleet: Daemons, tokens: list[str], expected: str) -> Verdict:
    verdict = Verdict(characters=len(expected))
    spaces = []
    for daemon in fleet.daemons:
        async with AsyncClient(daemon.socket, agent="judge", timeout=REQUEST_TIMEOUT_S) as client:
            for token in tokens:
                await client.wait(token)
            verdict.settled_s = max(verdict.settled_s, monotonic() - session.ended_s)
            for way, content in (("get", await client.get(KEY)), ("read", await client.text(KEY).read())):
                if content != expected:
                    verdict.differences.append(f"{daemon.name}, by {way}: {first_difference(content, expected)}")
            status = await client.status()
        verdict.differences += [f"{daemon.name} logged a bug: {line}" for line in daemon.bugs()]
        spaces.append((daemon.name, next(space for space in status["spaces"] if space["name"] == "default")))
        verdict.alarms += [f"{daemon.name}: {alarm['code']}: {alarm['message']}" for alarm in status["alarms"]]
    verdict.document_bytes = max(space["document_bytes"] for _, space in spaces)
    verdict.log_bytes = max(space["log_bytes"] for _, space in spaces)
    compare_state(spaces, verdict)
    return verdict
