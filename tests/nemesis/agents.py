"""Agents that write and read, or claim, without pause on one host each, and record it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from crdtsync import Client
from crdtsync.client import Watch
from crdtsync.coordination import Lease
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, OutcomeUnknown, Refused, Timeout
from tests.nemesis.history import History, Op, Outcome

TIMEOUT_S = 3.0
READ_ELSEWHERE_S = 1.0
REGISTERS = 4
CLAIMED, CLAIM_TTL_S = "deploy", 2.0
WORDS_MAX = 300
"""So many words of an agent go into the one text: it is written whole at the end of the run."""


class Agent(threading.Thread):
    """One author with one session at a time, at one host."""

    def __init__(
        self, name: str, host: str, sockets: dict[str, Path], others: Sequence[str], history: History, seed: int,
        pause_s: float,
    ) -> None:  # fmt: skip
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self._host, self._sockets, self._others, self._history = host, sockets, others, history
        self._rng, self._pause_s = random.Random(f"{seed}/{name}"), pause_s
        self._ended = threading.Event()
        self._client: Client | None = None
        self._session = 0
        self._count = self._words = 0
        self._token: str | None = None
        self._token_count = 0
        self._saw: tuple[Any, ...] = ()

    def end(self) -> None:
        """Begin nothing any more."""
        self._ended.set()

    def run(self) -> None:
        """The thread."""
        names = list(_ACTIONS)
        weights = [weight for _, weight in _ACTIONS.values()]
        try:
            while not self._ended.wait(self._pause_s * self._rng.uniform(0.5, 1.5)):
                _ACTIONS[self._rng.choices(names, weights)[0]][0](self)
        except BaseException as error:  # noqa: BLE001  # raised by whoever waits for the thread
            self.failure = error
        finally:
            if self._client is not None:
                self._client.close()

    # -- what it does ------------------------------------------------------------------------------------------

    def append(self) -> None:
        """Its own next word to the log of all."""
        value = self._next()
        self._do("append", "log", value, lambda client: client.append("log", value))

    def add(self) -> None:
        """The same to the set."""
        value = self._next()
        self._do("add", "tags", value, lambda client: client.add("tags", value))

    def incr(self) -> None:
        """Count."""
        self._do("incr", "spent", 1, lambda client: client.incr("spent", 1))

    def insert(self) -> None:
        """A word before all others."""
        self._words += 1
        if self._words <= WORDS_MAX:
            value = self._next()
            self._do("insert", "notes", value, lambda client: client.text("notes").insert(0, f"{value} "))

    def set_own(self) -> None:
        """Its own key, blindly; sometimes until others hold it."""
        self._count += 1
        value, key = self._count, f"own/{self.name}"
        w = "majority" if self._rng.random() < 0.1 else None

        def write(client: Client) -> None:
            self._token = client.set(key, value, w=w)
            self._token_count = value

        self._do("set", key, value, write)

    def merge(self) -> None:
        """Its own field of the map of all."""
        self._count += 1
        value = self._count
        self._do("merge", self.name, value, lambda client: client.merge("board", {self.name: value}))

    def replace(self) -> None:
        """A key of all: read every value of it, and put one in their place."""
        key, value = f"shared/{self._rng.randrange(REGISTERS)}", self._next()

        def write(client: Client) -> None:
            self._saw = ()
            entry = client.entry(key)
            if entry is None:
                client.set(key, value, if_absent=True)
                return
            self._saw = tuple(sorted([entry.value, *(sibling.value for sibling in entry.siblings)]))
            client.set(key, value, seen=entry.version)

        self._do("replace", key, value, write)

    def write_effect(self) -> None:
        """Read another's key, and answer it under one's own."""
        other = self._rng.choice(self._others)

        def write(client: Client) -> None:
            found = client.get(f"own/{other}")
            if found:
                client.set(f"answer/{self.name}/{other}", found)

        self._do("write effect", f"answer/{self.name}/{other}", None, write)

    def read_effect(self) -> None:
        """Read an answer, then what it answers."""
        other, author = self._rng.choice(self._others), self._rng.choice(self._others)
        key = f"answer/{author}/{other}"
        self._do("read effect and cause", key, None, lambda client: (client.get(key), client.get(f"own/{other}")))

    def write_batch(self) -> None:
        """Three keys at once."""
        self._count += 1
        value = self._count

        def write(client: Client) -> None:
            with client.batch() as batch:
                for n in range(3):
                    batch.set(f"batch/{self.name}/{n}", value)

        self._do("batch", f"batch/{self.name}", value, write)

    def read_batch(self) -> None:
        """Three keys of another in one look."""
        prefix = f"batch/{self._rng.choice(self._others)}/"
        self._do("read batch", prefix, None, lambda client: [value for _, value in client.items(prefix)])

    def get_own(self) -> None:
        """Its own key."""
        key = f"own/{self.name}"
        self._do("get own", key, None, lambda client: client.get(key))

    def get_other(self) -> None:
        """Another's key."""
        key = f"own/{self._rng.choice(self._others)}"
        self._do("get", key, None, lambda client: client.get(key))

    def get_after(self) -> None:
        """Its own key on another host, after its newest write by token."""
        if self._token is None:
            return
        key, token = f"own/{self.name}", self._token
        host = self._rng.choice(sorted(self._sockets))

        def read(_: Client) -> Any:
            with Client(self._sockets[host], agent=self.name, timeout=READ_ELSEWHERE_S) as elsewhere:
                return elsewhere.get(key, after=token)

        self._do("get after", key, self._token_count, read, host)

    def begin_anew(self) -> None:
        """Another session, which has read nothing."""
        if self._client is not None:
            self._client.close()
            self._client = None

    # -- how -------------------------------------------------------------------------------------------------

    def _next(self) -> str:
        self._count += 1
        return f"{self.name}:{self._count}"

    def _do(self, name: str, key: str, value: Any, act: Callable[[Client], Any], host: str = "") -> Outcome:
        began_s, result, why = self._history.now_s(), None, ""
        self._saw = ()
        outcome: Outcome = "unknown"
        try:
            if self._client is None:
                self._client = Client(self._sockets[self._host], agent=self.name, timeout=TIMEOUT_S)
                self._session += 1
            result = act(self._client)
            outcome = "done"
        except Timeout as error:  # with a token it is done here, and not known to be so elsewhere
            outcome, why = ("done" if error.token else "unknown"), "timeout"
        except OutcomeUnknown:
            why = "outcome unknown"
        except (DaemonUnavailable, OSError) as error:
            why = f"{type(error).__name__}"
        except Refused as error:
            outcome, why = "refused", f"{error.code}"
        except CrdtSyncError as error:
            why = f"{error.code}: {error}"
        ended_s = self._history.now_s()
        self._history.add(
            Op(self.name, self._session, host or self._host, name, key, value, result, self._saw, outcome,
               began_s, ended_s, why)
        )  # fmt: skip
        return outcome


_ACTIONS: dict[str, tuple[Callable[[Agent], object], int]] = {
    "append": (Agent.append, 20),
    "add": (Agent.add, 10),
    "incr": (Agent.incr, 10),
    "insert": (Agent.insert, 3),
    "set": (Agent.set_own, 15),
    "merge": (Agent.merge, 5),
    "replace": (Agent.replace, 10),
    "write effect": (Agent.write_effect, 10),
    "read effect": (Agent.read_effect, 10),
    "batch": (Agent.write_batch, 6),
    "read batch": (Agent.read_batch, 6),
    "get own": (Agent.get_own, 8),
    "get": (Agent.get_other, 8),
    "get after": (Agent.get_after, 4),
    "begin anew": (Agent.begin_anew, 1),
}


class Claimer(threading.Thread):
    """Claims one key by quorum on one host again and again, and records from when until when it surely held it."""

    def __init__(self, host: str, socket: Path, history: History, seed: int) -> None:
        super().__init__(name=f"claimer-{host}", daemon=True)
        self.failure: BaseException | None = None
        self._host, self._socket, self._history = host, socket, history
        self._rng = random.Random(f"{seed}/{self.name}")
        self._ended = threading.Event()

    def end(self) -> None:
        """Claim no more."""
        self._ended.set()

    def run(self) -> None:
        """The thread."""
        try:
            while not self._ended.wait(self._rng.uniform(0, 0.3)):
                with (
                    suppress(CrdtSyncError, OSError),
                    Client(self._socket, agent=self.name, timeout=TIMEOUT_S) as client,
                    client.claim(CLAIMED, quorum=True, ttl=CLAIM_TTL_S, wait=TIMEOUT_S) as lease,
                ):
                    self._hold(lease)
        except BaseException as error:  # noqa: BLE001  # raised by whoever waits for the thread
            self.failure = error

    def _hold(self, lease: Lease) -> None:
        held: list[float] = []
        until_s = self._history.now_s() + self._rng.uniform(0, 2 * CLAIM_TTL_S)
        while True:
            now_s = self._history.now_s()  # before it is asked: what is held then was held now
            if not lease.is_held:
                break
            held.append(now_s)
            if now_s > until_s or self._ended.wait(0.02):
                break
        if held:
            began_s, ended_s = held[0], held[-1]
            self._history.add(
                Op(self.name, 0, self._host, "hold", CLAIMED, None, lease.fence, (), "done", began_s, ended_s)
            )


class Watcher(threading.Thread):
    """Follows the keys of all agents on one host."""

    def __init__(self, host: str, socket: Path, history: History) -> None:
        super().__init__(name=f"watcher-{host}", daemon=True)
        self.failure: BaseException | None = None
        self.seen: dict[str, int] = {}
        self._host, self._socket, self._history = host, socket, history
        self._ended = threading.Event()

    def end(self) -> None:
        """Watch no more."""
        self._ended.set()

    def run(self) -> None:
        """The thread."""
        try:
            while not self._ended.wait(0.1):
                with (
                    suppress(DaemonUnavailable),  # it may be down when it is asked first; later a watch outlasts that
                    Client(self._socket, agent=self.name, timeout=60) as client,
                    client.watch("own/") as watch,
                ):
                    self._follow(watch)
        except BaseException as error:  # noqa: BLE001  # raised by whoever waits for the thread
            self.failure = error

    def _follow(self, watch: Watch) -> None:
        while not self._ended.is_set():
            try:
                event = watch.next(0.3)
            except (Timeout, DaemonUnavailable):
                continue
            for each in [event, *event.events] if event is not None else []:
                if each.key is not None and isinstance(each.value, int):
                    self._note(each.key, each.value)

    def _note(self, key: str, value: int) -> None:
        self.seen[key] = value
        now_s = self._history.now_s()
        self._history.add(Op(self.name, 0, self._host, "event", key, None, value, (), "done", now_s, now_s))
