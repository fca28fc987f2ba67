"""A task board under fire: agents on three daemons work on shared keys while links are cut and daemons die."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from queue import Empty, Queue
from time import monotonic
from typing import Any

from crdtsync.client import Client, Written
from crdtsync.errors import OutcomeUnknown, Refused, Timeout, VersionMismatch
from tests.harness.cluster import Cluster, wait_until_equal
from tests.harness.daemon import Daemon
from tests.harness.mirror import Mirror
from tests.harness.oracle import (
    Added,
    Deletion,
    History,
    Outcome,
    Put,
    Sighting,
    added_faults,
    faults,
    order_faults,
)

OPERATION_TIMEOUT_S = 300.0
_MARK = re.compile(r"\[([^\]]+)\]")


@dataclass(frozen=True)
class Scale:
    """How much is done, on how many keys."""

    operations: int
    keys: int
    agents_per_daemon: int = 4
    daemons: int = 3

    @property
    def tasks(self) -> int:
        return self.keys * 88 // 100

    @property
    def logs(self) -> int:
        return self.keys * 8 // 100

    @property
    def texts(self) -> int:
        return self.keys * 4 // 100


class Tickets:
    """One for each operation, given out until there are none left; chaos goes by them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken = 0
        self.halted = False
        self._news = threading.Condition()

    def take(self) -> bool:
        with self._news:
            if self.halted or self.taken >= self.count:
                return False
            self.taken += 1
            self._news.notify_all()
            return True

    def wait_for(self, number: int, timeout_s: float) -> bool:
        """Until so many are taken; False if that takes too long."""
        with self._news:
            return self._news.wait_for(lambda: self.halted or self.taken >= number, timeout_s)

    def halt(self) -> None:
        with self._news:
            self.halted = True
            self._news.notify_all()


class Worker:
    """One agent with its own connection. It knows what it has seen of each key, independently of the client library."""

    def __init__(
        self, name: str, daemon: Daemon, scale: Scale, seed: str, mail: Sequence[Queue[tuple[str, str, str]]]
    ) -> None:
        self.name = name
        self.daemon = daemon
        self.history = History()
        self.incarnation: Callable[[], int] = lambda: 0
        self._rng = random.Random(seed)
        self._scale = scale
        self._client: Client = daemon.client(name, timeout=OPERATION_TIMEOUT_S)
        self._number = 0
        self._mail = mail
        self._inbox: Queue[tuple[str, str, str]] = Queue()
        # key -> (ids, whether it is known that there were no others); a key that was never read is not in it
        self._seen: dict[str, tuple[frozenset[str], bool]] = {}
        self._actions: list[Callable[[], None]] = [
            getattr(self, f"_do_{name}") for name, weight in _WEIGHTS.items() for _ in range(weight)
        ]

    @property
    def inbox(self) -> Queue[tuple[str, str, str]]:
        return self._inbox

    def run(self, tickets: Tickets) -> None:
        """Work until there are no tickets left."""
        while tickets.take():
            action = self._rng.choice(self._actions)
            self.history.counts[action.__name__.removeprefix("_do_")] += 1
            action()

    # -- what it does ------------------------------

    def _do_get(self) -> None:
        key = self._task()
        value = self._client.get(key)
        self._seen[key] = (frozenset(() if value is None else (value["id"],)), value is None)

    def _do_entry(self) -> None:
        self._read_whole(self._task())

    def _do_items(self) -> None:
        prefix = self._task()[:-1]
        for key, value in self._client.items(prefix):
            self._seen[key] = (frozenset((value["id"],)), False)

    def _do_set(self) -> None:
        key = self._task()
        known = self._seen.get(key)
        put = self._put(key, known[0] if known else frozenset())
        written = self._attempt([put], lambda: self._client.set(key, self._value(put)))
        if written is not None:
            self._learn_put(put, written, blind=known is None)
            if known is not None:
                self._seen[key] = (frozenset((put.id,)), not written.siblings)
            self._tell(key, put.id, written)

    def _do_read_and_set(self) -> None:
        key = self._task()
        self._read_whole(key)
        put = self._put(key, self._seen[key][0])
        written = self._attempt([put], lambda: self._client.set(key, self._value(put)))
        if written is not None:
            self._seen[key] = (frozenset((put.id,)), not written.siblings)
            self._tell(key, put.id, written)

    def _do_blind_set(self) -> None:
        key = self._task()
        put = self._put(key, frozenset())
        known = key in self._seen
        written = self._attempt([put], lambda: self._client.set(key, self._value(put), seen=None))
        if written is not None:
            self._learn_put(put, written, blind=True)
            if known:
                self._seen[key] = (frozenset((put.id,)), not written.siblings)

    def _do_set_if_version(self) -> None:
        key = self._task()
        entry = self._read_whole(key)
        if entry is None:
            return self._set_if_absent(key)
        put = self._put(key, self._seen[key][0])
        written = self._attempt([put], lambda: self._client.set(key, self._value(put), if_version=entry.version))
        if written is not None:
            self._seen[key] = (frozenset((put.id,)), not written.siblings)
        return None

    def _do_set_if_absent(self) -> None:
        self._set_if_absent(self._task())

    def _set_if_absent(self, key: str) -> None:
        put = self._put(key, frozenset())
        written = self._attempt([put], lambda: self._client.set(key, self._value(put), if_absent=True))
        if written is not None:
            self._seen[key] = (frozenset((put.id,)), not written.siblings)

    def _do_update(self) -> None:
        self._update(siblings=False)

    def _do_merge(self) -> None:
        self._update(siblings=True)

    def _update(self, *, siblings: bool) -> None:
        key = self._task()
        puts: list[Put] = []

        def compute(found: Any) -> dict[str, Any]:
            for put in puts:
                put.outcome = Outcome.REFUSED  # it came to another attempt
            values = found if siblings else [] if found is None else [found]
            puts.append(self._put(key, frozenset(value["id"] for value in values)))
            return self._value(puts[-1])

        written = self._attempt(puts, lambda: self._client.update(key, compute, siblings=siblings, attempts=8))
        if written is not None:
            self._seen[key] = (frozenset((puts[-1].id,)), not written.siblings)
            self._tell(key, puts[-1].id, written)

    def _do_delete(self) -> None:
        key = self._task()
        self._delete(key)

    def _do_read_and_delete(self) -> None:
        key = self._task()
        self._read_whole(key)
        self._delete(key)

    def _delete(self, key: str) -> None:
        deletion = self._deletion(key)
        known = key in self._seen
        try:
            existed = self._client.delete(key)
        except (Timeout, OutcomeUnknown):
            self.history.counts["unknown"] += 1
            return
        self._learn_deletion(deletion, existed, known)

    def _do_append(self) -> None:
        key = self._log()
        added = self._added(key)
        self._attempt([added], lambda: self._client.append(key, added.id))

    def _do_log(self) -> None:
        self._client.log(self._log(), last=self._rng.randrange(1, 30))

    def _do_text(self) -> None:
        key = f"text/{self._rng.randrange(self._scale.texts):02}"
        text = self._client.text(key)
        found = text.read()
        added = self._added(key)
        at = self._rng.choice([0, len(found)])
        self._attempt([added], lambda: text.insert(at, f"[{added.id}]"))

    def _do_batch(self) -> None:
        keys = sorted({self._task() for _ in range(self._rng.randrange(2, 5))})
        deleted = keys.pop() if len(keys) > 2 and self._rng.random() < 0.5 else None
        if deleted is not None:
            self._read_whole(deleted)
        known = {key: self._seen.get(key) for key in keys}
        puts = [self._put(key, (known[key] or (frozenset(), False))[0]) for key in keys]
        added = self._added(self._log())
        deletion = None if deleted is None else self._deletion(deleted)

        def commit() -> Any:
            with self._client.batch() as batch:
                for put in puts:
                    batch.set(put.key, self._value(put))
                batch.append(added.key, added.id)
                if deleted is not None:
                    batch.delete(deleted)
            return batch

        batch = self._attempt([*puts, added], commit)
        if batch is None:
            return
        for put, written in zip(puts, batch.results, strict=False):
            self._learn_put(put, written, blind=known[put.key] is None)
            if known[put.key] is not None:
                self._seen[put.key] = (frozenset((put.id,)), not written.siblings)
        if deletion is not None:
            self._learn_deletion(deletion, batch.results[-1], known=True)

    def _do_hear(self) -> None:
        """Look at what another agent says that it wrote, with its token."""
        try:
            key, id_, token = self._inbox.get_nowait()
        except Empty:
            return
        try:
            entry = self._client.entry(key, after=token, timeout=0.3)
        except Timeout:
            return
        shown = _ids(entry)
        self._seen[key] = (shown, True)
        self.history.sightings.append(Sighting(key, id_, shown))

    # -- what it learns ------------------------------

    def _attempt(self, records: Sequence[Put | Added], write: Callable[[], Any]) -> Any:
        """Do a write and note its outcome; None if it was not done, or nobody knows."""
        before = self.incarnation()
        try:
            result = write()
        except VersionMismatch as mismatch:
            self._note(records, Outcome.REFUSED)
            self.history.counts["mismatch"] += 1
            key = records[-1].key
            self._seen[key] = (_ids(mismatch.current), True)
            return None
        except (Timeout, OutcomeUnknown):
            self.history.counts["unknown"] += 1
            return None
        except Refused as error:
            self._note(records, Outcome.REFUSED)
            self.history.counts[error.code] += 1
            return None
        for record in records:
            if record.outcome is not Outcome.REFUSED:
                record.outcome = Outcome.DONE
        self._was_disturbed = before != self.incarnation()
        return result

    def _note(self, records: Sequence[Put | Added], outcome: Outcome) -> None:
        for record in records:
            record.outcome = outcome

    def _learn_put(self, put: Put, written: Written, *, blind: bool) -> None:
        if not blind:
            return
        replaced = written.replaced
        if replaced is not None:
            put.seen = frozenset((replaced.value["id"],))
        elif self._was_disturbed:
            put.replaced_unknown = True  # a write that is sent again no longer says what it replaced

    def _deletion(self, key: str) -> Deletion:
        ids, whole = self._seen.get(key, (frozenset(), False))
        deletion = Deletion(key, ids, blind=not whole)
        self.history.deletions.append(deletion)
        return deletion

    def _learn_deletion(self, deletion: Deletion, existed: bool, known: bool) -> None:
        deletion.outcome = Outcome.DONE
        deletion.ended_s = monotonic()
        if not existed and deletion.blind:
            deletion.blind = False
        if known:
            self._seen[deletion.key] = (frozenset(), True)

    def _read_whole(self, key: str) -> Any:
        entry = self._client.entry(key)
        self._seen[key] = (_ids(entry), True)
        return entry

    def _tell(self, key: str, id_: str, token: str) -> None:
        if self._rng.random() < 0.2:
            self._rng.choice(self._mail).put((key, id_, str(token)))

    def _put(self, key: str, seen: frozenset[str]) -> Put:
        put = Put(key, self._next_id(), seen, monotonic())
        self.history.puts.append(put)
        return put

    def _added(self, key: str) -> Added:
        added = Added(key, self._next_id(), self.name)
        self.history.added.append(added)
        return added

    def _value(self, put: Put) -> dict[str, Any]:
        return {
            "id": put.id,
            "state": self._rng.choice(["todo", "doing", "done"]),
            "pad": "x" * self._rng.randrange(120),
        }

    def _next_id(self) -> str:
        self._number += 1
        return f"{self.name}:{self._number}"

    def _task(self) -> str:
        hot = self._rng.random() < 0.4
        return f"task/{self._rng.randrange(max(1, self._scale.tasks // 40) if hot else self._scale.tasks):03}"

    def _log(self) -> str:
        return f"log/{self._rng.randrange(self._scale.logs):02}"


_WEIGHTS = {
    "get": 12,
    "entry": 8,
    "items": 1,
    "set": 14,
    "read_and_set": 8,
    "blind_set": 5,
    "set_if_version": 4,
    "set_if_absent": 3,
    "update": 12,
    "merge": 5,
    "delete": 3,
    "read_and_delete": 4,
    "append": 10,
    "log": 2,
    "text": 4,
    "batch": 6,
    "hear": 5,
}


class Chaos:
    """Cuts, kills and stops, by a schedule that follows the tickets."""

    def __init__(self, cluster: Cluster, tickets: Tickets, rng: random.Random) -> None:
        self._cluster = cluster
        self._tickets = tickets
        self._rng = rng
        self.incarnations = [0] * len(cluster)
        self.done: list[str] = []

    def run(self) -> None:
        """Until the tickets are gone; leaves every link healed and every daemon running."""
        try:
            for number, what, act in self._schedule():
                if not self._tickets.wait_for(number, OPERATION_TIMEOUT_S) or self._tickets.halted:
                    break
                self.done.append(f"{number}: {what}")
                act()
        finally:
            self._cluster.heal()
            for at, daemon in enumerate(self._cluster):
                if not daemon.is_running:
                    self._start(at)

    def _schedule(self) -> list[tuple[int, str, Callable[[], None]]]:
        count, rng = self._tickets.count, self._rng
        stopped, killed = rng.sample(range(len(self._cluster)), 2)
        third = rng.randrange(count // 12, count // 2)
        events: list[tuple[int, str, Callable[[], None]]] = [
            (third, f"stop {stopped}", lambda: self._stop(stopped)),
            (third + count // 3, f"start {stopped}", lambda: self._start(stopped)),
            (rng.randrange(count // 10, count * 9 // 10), f"kill {killed}", lambda: self._kill(killed)),
        ]
        for _ in range(max(6, count // 250)):
            a, b = rng.choice(list(combinations(range(len(self._cluster)), 2)))
            at, length = rng.randrange(count), rng.randrange(1, max(2, count // 8))
            how = rng.choice(["cut", "refuse", "drop", "bytes"])
            if how in ("cut", "refuse"):
                cut = partial(self._cluster.cut, a, b, refuse=how == "refuse")
                events.append((at, f"{how} {a}-{b}", cut))
                events.append((at + length, f"heal {a}-{b}", partial(self._cluster.heal, a, b)))
            elif how == "drop":
                events.append((at, f"drop {a}-{b}", partial(self._drop, a, b)))
            else:
                limit = rng.randrange(1, 50_000)
                events.append((at, f"cut {a}-{b} after {limit} bytes", partial(self._after, a, b, limit)))
        return sorted((event for event in events if event[0] <= count), key=lambda event: event[0])

    def _drop(self, a: int, b: int) -> None:
        self._cluster.link(a, b).drop()
        self._cluster.link(b, a).drop()

    def _after(self, a: int, b: int, limit: int) -> None:
        self._cluster.link(a, b).cut_after(up=limit)
        self._cluster.link(b, a).cut_after(down=limit)

    def _stop(self, at: int) -> None:
        self.incarnations[at] += 1
        self._cluster[at].stop()

    def _start(self, at: int) -> None:
        if not self._cluster[at].is_running:
            self.incarnations[at] += 1
            self._cluster[at].start()
            self.incarnations[at] += 1

    def _kill(self, at: int) -> None:
        if self._cluster[at].is_running:
            self.incarnations[at] += 1
            self._cluster[at].kill()
            self._start(at)


def play(cluster: Cluster, scale: Scale, seed: int, *, settle_s: float = 60.0) -> dict[str, object]:
    """One whole run and all its checks; figures about it."""
    _prepare(cluster, scale)
    tickets = Tickets(scale.operations)
    chaos = Chaos(cluster, tickets, random.Random(f"chaos {seed}"))
    mail: list[Queue[tuple[str, str, str]]] = []
    workers: list[Worker] = []
    for at, daemon in enumerate(cluster):
        for n in range(scale.agents_per_daemon):
            worker = Worker(f"agent-{at}{n}", daemon, scale, f"{seed} {at} {n}", mail)
            worker.incarnation = lambda at=at: chaos.incarnations[at]  # type: ignore[misc]
            workers.append(worker)
            mail.append(worker.inbox)
    mirrors = [Mirror(daemon.client("mirror"), "task/") for daemon in cluster]
    with ExitStack() as stack:
        for mirror in mirrors:
            stack.enter_context(mirror)
        return _play(cluster, scale, seed, settle_s, tickets, chaos, workers, mirrors)


def _play(
    cluster: Cluster,
    scale: Scale,
    seed: int,
    settle_s: float,
    tickets: Tickets,
    chaos: Chaos,
    workers: Sequence[Worker],
    mirrors: Sequence[Mirror],
) -> dict[str, object]:
    started_s = monotonic()
    _run(tickets, [chaos.run, *(partial(worker.run, tickets) for worker in workers)])
    worked_s = monotonic() - started_s
    context = f"seed {seed}; chaos: {'; '.join(chaos.done)}"
    try:
        wait_until_equal(cluster, settle_s)
        _check(cluster, scale, History.joined([worker.history for worker in workers]))
        for daemon, mirror in zip(cluster, mirrors, strict=True):
            mirror.wait_for(dict(daemon.client("checker").items("task/")))
        figures = {**_figures(cluster, workers), "events": [mirror.events for mirror in mirrors]}
        _check_restart(cluster)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{context}") from error
    return {"seed": seed, "worked_s": round(worked_s, 1), "total_s": round(monotonic() - started_s, 1), **figures}


def _prepare(cluster: Cluster, scale: Scale) -> None:
    """Texts that two hosts create at once are a conflict; that is not what this is about."""
    with cluster[0].client("prepare") as client:
        for n in range(scale.texts):
            client.text(f"text/{n:02}").insert(0, "|")
    wait_until_equal(cluster)


def _run(tickets: Tickets, works: Sequence[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # raised below
            failures.append(error)
            tickets.halt()

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(OPERATION_TIMEOUT_S)
    assert not any(thread.is_alive() for thread in threads), "an agent hangs"
    if failures:
        raise failures[0]


def _check(cluster: Cluster, scale: Scale, history: History) -> None:
    contents = [_content(daemon, scale) for daemon in cluster]
    for daemon, content in zip(cluster, contents, strict=True):
        different = [key for key in contents[0] if content[key] != contents[0][key]]
        assert not different, (
            f"{daemon.name} shows another {different[0]}: {content[different[0]]} and {contents[0][different[0]]}"
        )
    content = contents[0]
    live = {key: set(ids) for key, ids in content.items() if key.startswith("task/")}
    held = {key: ids for key, ids in content.items() if not key.startswith("task/")}
    logs = {key: ids for key, ids in held.items() if key.startswith("log/")}
    found = [*faults(history, live), *added_faults(history, held), *order_faults(history, logs)]
    assert not found, f"{len(found)} faults: " + "; ".join(found[:10])
    for daemon in cluster:
        assert not daemon.log_events("bug"), daemon.log_events("bug")[0]
        assert daemon.alarms() == [], daemon.alarms()


def _content(daemon: Daemon, scale: Scale) -> dict[str, list[str]]:
    """The ids in every key: of a task its live values, the winner first; of a log or text in order."""
    content: dict[str, list[str]] = {}
    with daemon.client("checker") as client:
        for n in range(scale.tasks):
            key = f"task/{n:03}"
            entry = client.entry(key)
            content[key] = [] if entry is None else [each.value["id"] for each in (entry, *entry.siblings)]
        for n in range(scale.logs):
            content[f"log/{n:02}"] = client.log(f"log/{n:02}")
        for n in range(scale.texts):
            text = client.text(f"text/{n:02}").read()
            content[f"text/{n:02}"] = _MARK.findall(text)
            left = _MARK.sub("", text)
            assert left == "|", f"text/{n:02} was torn: {left!r} is left"
    return content


def _check_restart(cluster: Cluster) -> None:
    """What is on disk is what was in memory."""
    before = [daemon.space() for daemon in cluster]
    for daemon in cluster:
        daemon.kill()
    cluster.start()
    for daemon, space in zip(cluster, before, strict=True):
        after = daemon.space()
        for name in ("version_vector", "digest", "keys", "entries", "siblings"):
            assert after[name] == space[name], (
                f"{daemon.name}: {name} was {space[name]} and is {after[name]} after a restart"
            )


def _figures(cluster: Cluster, workers: Sequence[Worker]) -> dict[str, object]:
    history = History.joined([worker.history for worker in workers])
    space = cluster[0].space()
    return {
        "changes": sum(space["version_vector"].values()),
        "writers": len(space["version_vector"]),
        "keys": space["keys"],
        "conflicting_keys": space["siblings"],
        "sightings": len(history.sightings),
        "unexplained_allowed": sum(put.replaced_unknown for put in history.puts),
        "counts": dict(sorted(history.counts.items())),
    }


def _ids(entry: Any) -> frozenset[str]:
    return frozenset() if entry is None else frozenset(each.value["id"] for each in (entry, *entry.siblings))
