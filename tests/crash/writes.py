"""Writes of a daemon that is about to fail, what it acknowledged of them, and what is there afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from time import sleep
from typing import Any

import msgpack

from tests.harness.raw import RawAgent, RawError

PIPELINED = 12
LARGE_EVERY = 5
LARGE_BYTES = 30_000
BATCHED = 300
"""More than comes into the tables at once."""
DEAD = (OSError, EOFError)


@dataclass
class Writes:
    """What was sent in one life of a daemon, and what was acknowledged. Keys are its own."""

    name: str
    sent: list[tuple[str, str, Any]] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    _requests: dict[int, int] = field(default_factory=dict)

    def send(self, agent: RawAgent, count: int, large_every: int = 0) -> None:
        """Send so many writes without waiting; every so many-th is a large one."""
        for _ in range(count):
            number = len(self.sent)
            operation, key, value = self._write(number, bool(large_every) and number % large_every == large_every - 1)
            self.sent.append((operation, key, value))
            arguments = {"key": key, "by": 1} if operation == "incr" else {"key": key, "value": value}
            if operation == "batch":
                packed = msgpack.packb(value)
                arguments = {"ops": [["set", {"key": f"{key}/{n}", "value": packed}] for n in range(BATCHED)]}
            with suppress(*DEAD):
                self._requests[agent.send_write(operation, **arguments)] = number

    def live(self, agent: RawAgent, enter: Callable[[str], object]) -> bool:
        """Write, more than a checkpoint of the write-ahead log waits for. False: the daemon is gone."""
        enter("write")
        for _ in range(3):
            self.send(agent, PIPELINED, large_every=LARGE_EVERY)
            if not self.take(agent):
                return False
            sleep(0.02)
        return True

    def _write(self, number: int, is_large: bool) -> tuple[str, str, Any]:
        if is_large and number % 2:
            return "batch", f"b/{self.name}", f"{number}" + "x" * 1000
        if is_large:
            return "set", f"k/{self.name}/{number}", f"{number}" + "x" * LARGE_BYTES
        return (
            ("append", f"log/{self.name}", number), ("set", f"k/{self.name}/{number}", str(number)),
            ("incr", f"spent/{self.name}", 1), ("add", f"tags/{self.name}", number),
        )[number % 4]  # fmt: skip

    def take(self, agent: RawAgent) -> bool:
        """Take all answers; False: the connection ended before the last."""
        for request in list(self._requests):
            try:
                agent.result(request)
                self.acknowledged.add(self._requests.pop(request))
            except RawError as error:
                if request in self._requests:
                    self.refused[self._requests.pop(request)] = str(error)
            except DEAD:
                return False
        return True

    def wrong(self, agent: RawAgent) -> Iterator[str]:
        """How what is there differs from what was acknowledged."""
        kinds: dict[str, set[int]] = {}
        for number in self.acknowledged:
            kinds.setdefault(self.sent[number][0], set()).add(number)
        tried = {number for number in range(len(self.sent)) if number not in self.refused}
        for operation, key in (("append", f"log/{self.name}"), ("add", f"tags/{self.name}")):
            there = Counter(_value(agent, key) or [])
            yield from (f"{key} lacks {each}" for each in sorted(kinds.get(operation, set()) - set(there)))
            yield from (f"{key} has {each} {count} times" for each, count in there.items() if count > 1)
            yield from (f"{key} has {each}, which was refused or never sent" for each in sorted(set(there) - tried))
        counted, least = _value(agent, f"spent/{self.name}") or 0, len(kinds.get("incr", ()))
        most = sum(self.sent[number][0] == "incr" for number in tried)
        if not least <= counted <= most:
            yield f"{counted} counted, and {least} to {most} were"
        yield from self._wrong_batches(agent, sorted(kinds.get("batch", ())), tried)
        for number in sorted(kinds.get("set", ())):
            _, key, value = self.sent[number]
            if _value(agent, key) != value:
                yield f"{key} is gone"

    def _wrong_batches(self, agent: RawAgent, done: list[int], tried: set[int]) -> Iterator[str]:
        """Each writes the same keys: all hold what one of them wrote, and that is none before the last acknowledged."""
        values = [value for n in range(BATCHED) if (value := _value(agent, f"b/{self.name}/{n}")) is not None]
        found = set(values)
        batches = {value: number for number, (operation, _, value) in enumerate(self.sent) if operation == "batch"}
        numbers = {batches.get(value, -1) for value in found}
        if len(found) > 1 or len(values) not in (0, BATCHED):
            yield f"of a batch {len(values)} of {BATCHED} writes are there, of {len(found)} batches"
        if not numbers <= tried or (done and max(numbers, default=-1) < max(done)):
            yield f"batch {max(done, default=-1)} was acknowledged, and what is there is of {sorted(numbers)}"


def _value(agent: RawAgent, key: str) -> Any:
    found = agent.call("get", key=key)
    return None if found is None else msgpack.unpackb(found["value"]) if isinstance(found["value"], bytes) else found
