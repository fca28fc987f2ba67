"""Structure-aware fuzzing of ``crdtsync.wire.yjs.validator``: what the validator passes, pycrdt must survive.

Genuine updates come from random editing sessions of real pycrdt documents. They are mutated (bytes, varints, fields of
structs, splices), and whatever the validator accepts is applied in a worker process, to a document that holds a prefix
of the session, and then read and edited in every way. It fails on: a panic, a dead worker, more than a second, more
than 64 MB of growth, and a document that does not hold what the validator said it would.

    python fuzz/yjs_updates.py --inputs 2000 --seed 1

prints one summary; the exit status is 1 if anything was found, with the seed and the updates in hex.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pycrdt

from crdtsync.wire.yjs.validator import InvalidUpdate, Outline, advance, validate_update
from fuzz.yjs_mutation import Mutator
from fuzz.yjs_sessions import KINDS, session
from fuzz.yjs_worker import Worker
from tests.simulator.commands import positive_float, positive_int


@dataclass
class Totals:
    """What a run has seen."""

    inputs: int = 0
    accepted: int = 0
    jobs: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    notes: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[str] = field(default_factory=list)


def _reason(error: InvalidUpdate) -> str:
    return re.sub(r"\([^)]*\)|[0-9]+", "N", str(error).split(", at byte")[0])[:60]


def attempts(rng: random.Random) -> Iterator[tuple[Mutator, list[bytes], int]]:
    """Sessions without end, each with a number of mutations to try on it."""
    while True:
        updates = session(rng, rng.randint(2, 25), only_text=rng.random() < 0.4)
        if updates:
            yield Mutator(updates, rng), updates, 60


def one_history(mutator: Mutator, updates: list[bytes], rng: random.Random, totals: Totals) -> list[bytes]:
    """A prefix of a session, one to three mutated updates, and what of the rest still fits. Only accepted ones."""
    known = Outline(KINDS)
    history = updates[: rng.randint(0, len(updates))]
    rest = updates[len(history) :]
    for update in history:
        advance(known, validate_update(update, known))
    mutated = 0
    for _ in range(rng.choice((1, 1, 2, 3))):
        base = rng.choice(rest[:2] or updates)
        if rng.random() < 0.2:
            base = pycrdt.merge_updates(*(rest[: rng.randint(1, 5)] or updates))
        candidate = mutator.mutate(base, known)
        totals.inputs += 1
        try:
            summary = validate_update(candidate, known)
        except InvalidUpdate as error:
            totals.refused[_reason(error)] += 1
            continue
        totals.accepted += 1
        mutated += 1
        advance(known, summary)
        history.append(candidate)
    if not mutated:
        return []
    for update in rest if rng.random() < 0.5 else []:
        try:
            advance(known, validate_update(update, known))
        except InvalidUpdate:
            continue
        history.append(update)
    return history


def fuzz(inputs: int, seed: int, seconds: float) -> Totals:
    """Run until ``inputs`` mutated updates have been tried or the time is over."""
    totals = Totals()
    rng = random.Random(seed)
    deadline = time.monotonic() + seconds
    runner = Worker()
    try:
        for mutator, updates, count in attempts(rng):
            for _ in range(count):
                if totals.inputs >= inputs or time.monotonic() > deadline or len(totals.failures) >= 20:
                    return totals
                history = one_history(mutator, updates, rng, totals)
                if not history:
                    continue
                totals.jobs += 1
                job_seed = rng.randrange(2**32)
                found = runner.run(history, job_seed)
                if found.startswith(("refused by pycrdt", "unfaithful")):
                    totals.notes[found] += 1
                elif found:
                    hexes = " ".join(update.hex() for update in history)
                    totals.failures.append(f"{found}\n  seed {seed}, job seed {job_seed}, updates: {hexes}")
    finally:
        runner.stop()
    return totals


def report(totals: Totals, seconds: float) -> None:
    """Print the summary."""
    print(f"{totals.inputs} inputs, {totals.accepted} accepted, {totals.jobs} histories applied, {seconds:.0f} s")
    for reason, count in totals.refused.most_common():
        print(f"  refused {count:7}  {reason}")
    for note, count in totals.notes.most_common(20):
        print(f"  note    {count:7}  {note}")
    kinds = collections.Counter(failure.split(":")[0] for failure in totals.failures)
    print("found: " + (", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing"))
    for failure in totals.failures:
        print(failure)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--inputs", type=positive_int, default=100_000, help="mutated updates to try")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--seconds", type=positive_float, default=3600.0, help="stop after this time")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    started = time.monotonic()
    totals = fuzz(arguments.inputs, seed, arguments.seconds)
    report(totals, time.monotonic() - started)
    return 1 if totals.failures else 0


if __name__ == "__main__":
    sys.exit(main())
