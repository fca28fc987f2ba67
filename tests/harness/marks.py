"""Texts that agents of three daemons edit and compact at once while these are cut off, killed and stalled."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from random import Random
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, NamedTuple

from crdtsync.errors import CrdtSyncError
from tests.harness.cluster import Cluster, wait_until, wait_until_equal
from tests.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crdtsync import Client
    from crdtsync.client.blocking.editor import Editor

FAULTS = ("cut", "kill", "stall", "away")
"""Links are cut and healed; that, and daemons are killed, or stopped for a moment; one is cut off all the time."""
AWAY = 2
FAULT_CHANCE = 0.07
STALL_S_MAX = 0.3
TIMEOUT_S = 10.0
AGREE_S = 300.0


class Plan(NamedTuple):
    """What is done to a text: ``apart`` stands between two marks, the agents of ``compactors`` compact it.

    ``is_typed``: in editors, which stay open, and not by requests, each of which is durable.
    """

    apart: str
    is_typed: bool
    compactors: tuple[int, ...]

    @property
    def steps(self) -> int:
        return 60 if self.is_typed else 150


PLANS = [Plan(*each) for each in product((" ", "\n"), (False, True), ((), (0,), (0, 1, 2)))]


class Marks:
    """One text."""

    def __init__(self, key: str, plan: Plan, clients: Sequence[Client], random: Random) -> None:
        self.key = key
        self.plan = plan
        self.random = random
        self.failed = 0
        self.ledger = Ledger(random, plan.apart)
        self.agents = [(_Typist if plan.is_typed else _Writer)(client, key, random) for client in clients]
        clients[0].text(key).set(self.ledger.beginning)

    def step(self) -> None:
        """Somebody inserts, deletes or compacts. If that fails nobody knows whether it was done."""
        do = self.random.choices([self._insert, self._delete, self._compact], [12, 4, 3])[0]
        try:
            do()
        except CrdtSyncError:
            self.failed += 1

    def is_to_step(self, number: int, rounds: int) -> bool:
        """Whether its steps, spread over so many rounds, have one in this round."""
        steps = self.plan.steps
        return number * steps // rounds != (number + 1) * steps // rounds

    def _insert(self) -> None:
        agent = self.random.choice(self.agents)
        mark, at, text = self.ledger.insertion(agent.look())
        agent.edit(at, 0, text, partial(self.ledger.acknowledged.add, mark))

    def _delete(self) -> None:
        agent = self.random.choice(self.agents)
        if chosen := self.ledger.deletion(agent.look()):
            mark, at = chosen
            agent.edit(at, len(mark), "", partial(self.ledger.deleted.add, mark))

    def _compact(self) -> None:
        if self.plan.compactors:
            self.agents[self.random.choice(self.plan.compactors)].text.compact(timeout=TIMEOUT_S)

    def is_agreed(self) -> bool:
        """Whether all daemons show one text; then it must be as it ought to be."""
        texts = {agent.text.read() for agent in self.agents}
        if len(texts) > 1:
            return False
        self.ledger.check(texts.pop())
        for agent in self.agents:
            entry = agent.client.entry(self.key)
            assert entry is not None
            assert not entry.siblings, [sibling.value for sibling in entry.siblings]
        return True


class _Writer:
    """Edits by requests. What it sees is what it has read, now or some time ago, and its own edits."""

    def __init__(self, client: Client, key: str, random: Random) -> None:
        self.client = client
        self.text = client.text(key)
        self._random = random
        self._seen = ""

    def look(self) -> str:
        if not self._seen or self._random.random() < 0.6:
            self._seen = self.text.read(timeout=TIMEOUT_S)
        return self._seen

    def edit(self, at: int, length: int, text: str, done: Callable[[], object]) -> None:
        if length:
            self.text.delete(at, length, timeout=TIMEOUT_S)
        else:
            self.text.insert(at, text, timeout=TIMEOUT_S)
        self._seen = self._seen[:at] + text + self._seen[at + length :]
        done()

    def end(self) -> None:
        pass


class _Typist(_Writer):
    """Edits in an editor, reads at times what has come while something is unsent, and waits now and then until what it
    has typed is on disk.
    """

    _editor: Editor | None = None

    def look(self) -> str:
        if self._editor is None:
            self._editor = self.client.editor(self.text.key, timeout=TIMEOUT_S)
            self._typed: list[Callable[[], object]] = []
        return self._editor.read() if self._random.random() < 0.6 else self._editor.shown

    def edit(self, at: int, length: int, text: str, done: Callable[[], object]) -> None:
        assert self._editor is not None
        self._editor.replace(at, length, text)
        self._typed.append(done)
        if self._random.random() < 0.5:
            self._editor.read()  # in the next moment: nothing of it has been sent
        if self._random.random() < 0.4:
            self._editor.flush()
            self._note_done()
        if self._random.random() < 0.1:
            self.end()

    def end(self) -> None:
        editor, self._editor = self._editor, None
        if editor is not None:
            editor.close()
            self._note_done()

    def _note_done(self) -> None:
        for done in self._typed:
            done()
        self._typed.clear()


def play(cluster: Cluster, plans: Sequence[Plan], fault: str, seed: int) -> Counter[str]:
    """Edit one text for each plan, all at once, under one of the faults; how much was done.

    In a round each text is edited once by a thread of its own, so that the daemons take in what comes together.

    :raises AssertionError: a mark is lost, doubled, brought back, or elsewhere than its author put it.
    """
    random = Random(seed)
    clients = [daemon.client(f"agent-{index}") for index, daemon in enumerate(cluster)]
    texts = [Marks(f"text/{n}", plan, clients, Random(f"{seed} {n}")) for n, plan in enumerate(plans)]
    wait_until_equal(cluster)
    for agent in (agent for text in texts for agent in text.agents):
        agent.look()
    if fault == "away":
        cluster.isolate(AWAY)
    happened: Counter[str] = Counter()
    rounds = max(plan.steps for plan in plans)
    at_once = ThreadPoolExecutor(len(texts))
    for number in range(rounds):
        trouble = None
        if fault != "away" and random.random() < FAULT_CHANCE:
            kind = random.choice(("cut", fault))
            happened[kind] += 1
            trouble = Thread(
                target=_TROUBLES[kind], args=(cluster, *random.sample(range(len(cluster)), 2), random.random())
            )
            trouble.start()
        taking = [text for text in texts if text.is_to_step(number, rounds)]
        list(at_once.map(Marks.step, random.sample(taking, len(taking))))
        if trouble is not None:
            trouble.join()
    at_once.shutdown()
    cluster.heal()
    for agent in (agent for text in texts for agent in text.agents):
        agent.end()
    cluster.wait_connected(timeout_s=AGREE_S)
    wait_until_equal(cluster, timeout_s=AGREE_S)
    for text in texts:
        wait_until(text.is_agreed, AGREE_S, f"all daemons show one text of {text.plan}")
        happened["insertions"] += len(text.ledger.acknowledged)
        happened["deletions"] += len(text.ledger.deleted)
        happened["failed"] += text.failed
        assert len(text.ledger.acknowledged) > text.plan.steps // 3, "nearly nothing could be done"
    return happened


def _cut(cluster: Cluster, one: int, other: int, chance: float) -> None:
    (cluster.cut if chance < 0.5 else cluster.heal)(one, other)


def _kill(cluster: Cluster, one: int, other: int, chance: float) -> None:
    cluster[one].kill()
    cluster[one].start()


def _stall(cluster: Cluster, one: int, other: int, chance: float) -> None:
    cluster[one].freeze()
    sleep(chance * STALL_S_MAX)
    cluster[one].thaw()


_TROUBLES = {"cut": _cut, "kill": _kill, "stall": _stall}
