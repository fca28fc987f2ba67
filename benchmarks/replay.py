"""Authors type a trace into real daemons, each at their own, and each seeing exactly what the trace says they saw."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from time import monotonic
from typing import TYPE_CHECKING

from benchmarks.editor import Editor
from benchmarks.reference import replica_for
from crdtsync.causality import covers, merge
from crdtsync.client import AsyncClient
from crdtsync.errors import CrdtSyncError
from crdtsync.wire.tokens import decode_token

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.editor import ClientIds
    from benchmarks.traces import Trace, Transaction
    from crdtsync.causality import VersionVector
    from crdtsync.client import AsyncText, TextUpdate

KEY = "trace"
SPACE = "default"
WRITES_IN_FLIGHT_MAX = 64
"""An author types on while so many edits are not acknowledged yet."""

BUSY_WRITES = 4
"""With so many edits in flight an author counts as in the middle of typing."""

REQUEST_TIMEOUT_S = 120.0
"""Long enough for a daemon to be killed and started meanwhile."""


class ReplayError(Exception):
    """A daemon did something that the replay cannot go on from; the message is a sentence."""


class Replay:
    """What all authors of one replay share: what was sent, what is acknowledged, and who waits for it."""

    def __init__(self, trace: Trace, client_ids: ClientIds) -> None:
        self.trace = trace
        self.client_ids = client_ids
        self.tokens: list[asyncio.Future[str]] = []
        self.acknowledged = 0
        self.started_s = monotonic()
        self.ended_s = self.started_s
        self.made: dict[int, tuple[str, bytes]] = {}
        """The author's name and the update of each transaction that was sent."""
        self._sent: defaultdict[tuple[str, bytes], list[int]] = defaultdict(list)
        self._marks: list[tuple[int, asyncio.Event]] = []
        loop = asyncio.get_running_loop()
        self.tokens = [loop.create_future() for _ in trace.transactions]

    def sends(self, index: int, agent: str, update: bytes) -> None:
        """An update is about to be sent for a transaction."""
        self._sent[agent, update].append(index)
        self.made[index] = agent, update

    def sent(self, agent: str | None, update: bytes) -> list[int]:
        """The transactions that an update was sent for: nearly always one.

        Two deletions can be the same bytes. Of one author that takes a return to an older text.
        """
        return self._sent.get((agent or "", update), [])

    def done(self, index: int, token: str) -> None:
        """A transaction is acknowledged: on its author's daemon's disk."""
        self.tokens[index].set_result(token)
        self.acknowledged += 1
        self.ended_s = monotonic()
        for mark in [mark for mark in self._marks if mark[0] <= self.acknowledged]:
            self._marks.remove(mark)
            mark[1].set()

    async def reaches(self, count: int) -> None:
        """Wait until so many transactions are acknowledged."""
        if self.acknowledged < count:
            event = asyncio.Event()
            self._marks.append((count, event))
            await event.wait()

    def newest_tokens(self) -> list[str]:
        """Tokens that together name all that is acknowledged: the newest of each chain."""
        newest = []
        for chain in self.trace.chains:
            acknowledged = [index for index in reversed(chain) if self.tokens[index].done()]
            if acknowledged:
                newest.append(self.tokens[acknowledged[0]].result())
        return newest

    async def holds(self, client: AsyncClient, tokens: list[str]) -> None:
        """Wait until the client's daemon holds them all."""
        for token in tokens:
            await client.wait(token)


class Inbox:
    """The edits that one daemon has shown of the text, by transaction.

    A daemon that no longer has the oldest edits one by one shows a state of the text in their stead: they count as
    shown.
    """

    def __init__(self, replay: Replay, text: AsyncText) -> None:
        self.updates: dict[int, bytes] = {}
        self.states = 0
        """How many states were shown in the stead of edits."""
        self._replay = replay
        self._text = text
        self._cursor: str | None = None
        self._in_state: VersionVector = {}
        self._shown: Counter[tuple[str | None, bytes]] = Counter()

    async def fetch(self) -> list[bytes]:
        """Take in all that is new there; returns it in the order given.

        :raises ReplayError: the daemon shows an edit twice, or one that nobody made.
        """
        new = []
        async for item in self._text.updates(after=self._cursor):
            self._cursor = item.token
            if item.reset:
                self.states += 1
                _, vector = decode_token(item.token)[SPACE]
                merge(self._in_state, vector)
            else:
                self.updates[self._transaction(item)] = item.update
            new.append(item.update)
        return new

    def holds(self, index: int) -> bool:
        """Whether an acknowledged transaction has been shown, by itself or within a state."""
        if index in self.updates:
            return True
        token = self._replay.tokens[index]
        if not self._in_state or not token.done() or not covers(self._in_state, decode_token(token.result())[SPACE][1]):
            return False
        agent, update = self._replay.made[index]
        self.updates[index] = update
        self._shown[agent, update] += 1
        return True

    def _transaction(self, item: TextUpdate) -> int:
        sent = self._replay.sent(item.agent, item.update)
        earlier = self._shown[item.agent, item.update]
        self._shown[item.agent, item.update] += 1
        if not sent:
            raise ReplayError(f"the daemon shows an edit by {item.agent} that nobody made: {item.update.hex()}")
        if earlier >= len(sent):
            raise ReplayError(f"the daemon shows the edit of transaction {sent[-1]:,} twice")
        return sent[earlier]


class Author:
    """One author with an editor, attached to one daemon. ``may_type`` is cleared to make the author pause."""

    def __init__(self, replay: Replay, agent: int, socket: Path) -> None:
        self.agent = agent
        self.may_type = asyncio.Event()
        self.may_type.set()
        self._replay = replay
        self._transactions = replay.trace.by(agent)
        self._name = f"author-{agent}"
        self._client = AsyncClient(socket, agent=self._name, timeout=REQUEST_TIMEOUT_S)
        self._text = self._client.text(KEY)
        self._inbox = Inbox(replay, self._text)
        self._editor: Editor | None = None
        self._room = asyncio.Semaphore(WRITES_IN_FLIGHT_MAX)
        self._in_flight = 0
        self._busy = asyncio.Event()
        self._is_done = False

    @property
    def in_flight(self) -> int:
        """How many edits are sent and not acknowledged."""
        return self._in_flight

    async def types(self) -> None:
        """Wait until this author is in the middle of typing, with some edits on their way."""
        self._busy.clear()
        if self._is_done:
            return
        await self._busy.wait()

    async def run(self) -> None:
        """Make all transactions, and wait until they are acknowledged."""
        async with self._client, asyncio.TaskGroup() as sending:
            for transaction in self._transactions:
                update = await self._make(transaction)
                await self._room.acquire()
                self._in_flight += 1
                self._replay.sends(transaction.index, self._name, update)
                sending.create_task(self._send(transaction.index, update))
                if self._in_flight >= BUSY_WRITES:
                    self._busy.set()
                if transaction.index == 0:  # makes the text: two authors who both do would make two
                    await self._replay.tokens[0]
        self._is_done = True
        self._busy.set()

    async def _make(self, transaction: Transaction) -> bytes:
        if self._text.document is None and transaction.index:
            await self._client.wait(await self._replay.tokens[0])
            await self._inbox.fetch()
        editor = replica_for(transaction, self._editor, self._replay.client_ids)
        missing = self._replay.trace.missing(editor.held, transaction.past)
        if missing:
            await self._receive(missing)
            editor.merge(self._inbox.updates[index] for index in missing)
        await self.may_type.wait()
        try:
            update = editor.edit(transaction.patches)
        except IndexError as error:
            raise ReplayError(
                f"transaction {transaction.index:,} does not fit the text of its author: {error}"
            ) from None
        editor.held = transaction.past_with_itself()
        self._editor = editor
        self._inbox.updates[transaction.index] = update
        return update

    async def _receive(self, wanted: list[int]) -> None:
        """Have these transactions in the inbox: wait until the daemon holds them, then take them from it."""
        trace = self._replay.trace
        lacking = [index for index in wanted if not self._inbox.holds(index)]
        newest = {trace.transactions[index].chain: index for index in lacking}
        for index in newest.values():
            await self._client.wait(await self._replay.tokens[index])
        if newest:
            await self._inbox.fetch()
        lost = [index for index in lacking if not self._inbox.holds(index)]
        if lost:
            raise ReplayError(
                f"the daemon of {self._name} says that it holds transaction {lost[0]:,} and does not show it"
            )

    async def _send(self, index: int, update: bytes) -> None:
        try:
            token = await self._text.apply(update)
        except CrdtSyncError as error:
            raise ReplayError(f"the edit of transaction {index:,} failed: {type(error).__name__}: {error}") from error
        self._in_flight -= 1
        self._room.release()
        self._replay.done(index, str(token))
