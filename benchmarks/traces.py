"""Concurrent editing traces: what each author typed, and exactly what of the others' edits they had seen by then.

The format is that of the collection ``josephg/editing-traces`` ("concurrent" kind): JSON, or JSON in gzip,
``{kind, endContent, numAgents, txns: [{parents, agent, patches: [[position, deleted, inserted], …]}, …]}``. Parents
are indexes of earlier transactions; positions count Unicode code points in the text with exactly the parents and
their ancestors merged.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Past = dict[int, int]
"""How many transactions of each chain somebody has seen; a chain is a line of ancestry."""


class TraceError(Exception):
    """The file is not a concurrent editing trace; the message is a sentence."""


class Patch(NamedTuple):
    """One edit: at ``position`` delete ``deleted`` code points, then insert ``inserted`` there."""

    position: int
    deleted: int
    inserted: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """One author's edit and its place in history: the ``place``-th of its ``chain``, made on top of ``past``."""

    index: int
    agent: int
    parents: tuple[int, ...]
    patches: tuple[Patch, ...]
    chain: int
    place: int
    past: Past

    def past_with_itself(self) -> Past:
        """What a replica holds after it."""
        return {**self.past, self.chain: self.place}


@dataclass(slots=True)
class Trace:
    """A whole session, in an order in which every transaction follows its parents."""

    name: str
    agents: int
    end_content: str | None
    """What the text must be in the end; None if nobody has said (a shortened trace)."""
    transactions: list[Transaction] = field(default_factory=list)
    chains: list[list[int]] = field(default_factory=list)
    """The transactions of each chain. An author who never went back to an older text has one chain."""

    def missing(self, held: Past, wanted: Past) -> list[int]:
        """The transactions of ``wanted`` that ``held`` lacks, parents first."""
        lacking = [
            self.chains[chain][held.get(chain, 0) : count]
            for chain, count in wanted.items()
            if count > held.get(chain, 0)
        ]
        return lacking[0] if len(lacking) == 1 else sorted(index for part in lacking for index in part)

    def by(self, agent: int) -> list[Transaction]:
        """One author's transactions."""
        return [transaction for transaction in self.transactions if transaction.agent == agent]

    def shortened(self, count: int) -> Trace:
        """The first ``count`` transactions alone; what the text is after them is not known."""
        if count >= len(self.transactions):
            return self
        return _build(self.name, self.agents, None, self.transactions[:count])

    def merges(self) -> int:
        """How many transactions joined what several authors had written."""
        return sum(len(transaction.parents) > 1 for transaction in self.transactions)


def load(path: Path) -> Trace:
    """Read a trace from a file.

    :raises TraceError: it is not there, or not a concurrent editing trace.
    """
    try:
        data = path.read_bytes()
        plain = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except OSError as error:
        raise TraceError(f"cannot read the trace {path}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise TraceError(f"{path} is not JSON: {error}") from None
    return parse(path.name.split(".")[0], plain)


def parse(name: str, plain: Mapping[str, Any]) -> Trace:
    """A trace from its JSON form.

    :raises TraceError: another form.
    """
    try:
        if plain["kind"] != "concurrent":
            raise TraceError(f"the trace {name} is of kind {plain['kind']!r}; only concurrent ones name their authors")
        return _build(name, int(plain["numAgents"]), str(plain["endContent"]), _read(plain["txns"]))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise TraceError(f"the trace {name} has another form than josephg/editing-traces: {error!r}") from None


def to_json(trace: Trace) -> dict[str, Any]:
    """The JSON form, as far as anybody reads it."""
    children = [0] * len(trace.transactions)
    for transaction in trace.transactions:
        for parent in transaction.parents:
            children[parent] += 1
    return {
        "kind": "concurrent",
        "endContent": trace.end_content,
        "numAgents": trace.agents,
        "txns": [
            {
                "parents": list(transaction.parents),
                "numChildren": children[transaction.index],
                "agent": transaction.agent,
                "patches": [list(patch) for patch in transaction.patches],
            }
            for transaction in trace.transactions
        ],
    }


def _read(plain: list[Mapping[str, Any]]) -> Iterator[Transaction]:
    for index, item in enumerate(plain):
        patches = tuple(Patch(int(position), int(deleted), str(text)) for position, deleted, text in item["patches"])
        yield Transaction(index, int(item["agent"]), tuple(item["parents"]), patches, 0, 0, {})


def _build(name: str, agents: int, end_content: str | None, source: Iterator[Transaction] | list[Transaction]) -> Trace:
    """Sort transactions into chains, so that a set of ancestors is a few numbers: a version vector."""
    trace = Trace(name, agents, end_content)
    own_chains: dict[int, list[int]] = {}
    for item in source:
        if not all(0 <= parent < item.index for parent in item.parents) or not 0 <= item.agent < agents:
            raise TraceError(f"transaction {item.index} of the trace {name} has a parent or author that does not exist")
        past: Past = {}
        for parent in item.parents:
            seen = trace.transactions[parent]
            for chain, count in [*seen.past.items(), (seen.chain, seen.place)]:
                past[chain] = max(past.get(chain, 0), count)
        mine = own_chains.setdefault(item.agent, [])
        own = next((c for c in mine if past.get(c, 0) == len(trace.chains[c])), len(trace.chains))
        if own == len(trace.chains):  # the author's first edit, or one on top of a text without all of their own
            trace.chains.append([])
            mine.append(own)
        trace.chains[own].append(item.index)
        place = len(trace.chains[own])
        trace.transactions.append(Transaction(item.index, item.agent, item.parents, item.patches, own, place, past))
    if not trace.transactions:
        raise TraceError(f"the trace {name} has no transactions")
    return trace
