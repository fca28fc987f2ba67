"""A search for edits of a text that take long though each is within every bound: a hill climb over sets of edits.

A plan is a list of steps, such as "300 clients insert after clock 7 of client 3, before the end" or "delete every other
character". It is played as an agent would: each edit is judged as by its author's daemon, what is refused is left out,
the document is counted when a daemon would count it, and takes nothing more when it is fenced. Then is measured, in
time of the processor, what each edit took, and what it takes to load the document, to hash it and to merge one half of
the edits into the other. And each step of the plan is sent as one request, a batch, to one of two hosts, which are cut
off from each other and linked again, compact the text and merge what are two; or as one change of a member that keeps
to no bound of authors: what a request takes, refused or not, and what the longest turn of either host takes. The plan
that takes longest is changed, and kept if it takes longer still.

    python -m fuzz slow-edits --inputs 500 --seed 1

prints the longest of each; the exit status is 1 if one is above its limit, with the plan.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from pycrdt import Doc, Map

from crdtsync.causality import Dot, Writer
from crdtsync.core.kinds.text_join import text_op
from crdtsync.core.text.document import AUTHOR_LOOKED_AT_MAX, EDIT_DELETES_MAX, EDIT_STRUCTS_MAX, Document
from crdtsync.core.text.family import families
from crdtsync.core.text.yjs_library import NO_CHANGE, new_doc
from crdtsync.errors import CrdtSyncError
from crdtsync.wire.limits import CHANGE_BYTES_MAX
from crdtsync.wire.yjs.encoding import STRING, Id, at_once
from crdtsync.wire.yjs.lib0 import written_text, written_uint
from crdtsync.wire.yjs.rewriting import NewStruct, written_item, written_update
from fuzz.yjs_steps import ROOT
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.renegade import Renegade
from tests.simulator.commands import positive_float, positive_int

LIMIT_S: Final = 0.1
"""Of processor time, for each: twice what a turn may take, on a machine that others use too."""

STEPS_MAX: Final = 12
TURNS_MAX: Final = 100_000
APART_MAX: Final = 10
"""So many edits of a step are measured one by one."""
_DOT: Final = Dot(Writer(1), 1, 0)


class Step(NamedTuple):
    """One kind of edits: by which client on, how many, and the places of the neighbours among all items (0 to 1).

    ``is_forged``: a member makes them, which keeps to no bound of authors.
    """

    kind: str
    client: int
    size: int
    left: float
    right: float
    edits: int
    is_forged: bool = False


class Timed(NamedTuple):
    """What a plan takes, in seconds."""

    apply: float
    load: float
    hash: float
    merge: float
    request: float
    turn: float


Plan = list[Step]
Insert = tuple[Id, Id | None, Id | None, str]


def fan(step: Step, known: list[Id], clocks: dict[int, int]) -> Iterator[Insert]:
    """Many clients at one place."""
    left, right = _neighbours(step, known)
    for number in range(step.size):
        yield _next(step.client + number, clocks), left, right, "a"


def front(step: Step, known: list[Id], clocks: dict[int, int]) -> Iterator[Insert]:
    """One client, each before the one before."""
    left, right = _neighbours(step, known)
    for _ in range(step.size):
        item = _next(step.client, clocks)
        yield item, left, right, "a"
        right = item


def comb(step: Step, known: list[Id], clocks: dict[int, int]) -> Iterator[Insert]:
    """One client after one item, before another one each time."""
    left, right = _neighbours(step, known)
    first = known.index(right) if right is not None else 0
    for number in range(step.size):
        other = known[(first + number) % len(known)] if known else None
        yield _next(step.client, clocks), left, other if other != left else None, "a"


def ladder(step: Step, known: list[Id], clocks: dict[int, int]) -> Iterator[Insert]:
    """Two clients by turns, each after the one before."""
    left, right = _neighbours(step, known)
    for number in range(step.size):
        item = _next(step.client + number % 2, clocks)
        yield item, left, right, "a"
        left = item


def paste(step: Step, known: list[Id], clocks: dict[int, int]) -> Iterator[Insert]:
    """Many characters at once."""
    left, right = _neighbours(step, known)
    client, clock = _next(step.client, clocks)
    clocks[client] = clock + step.size
    yield (client, clock), left, right, "a" * step.size


def spread(step: Step, _known: list[Id], clocks: dict[int, int]) -> Iterator[Insert]:
    """One client, at places all over what the client with most has typed."""
    of = max(clocks, key=lambda name: clocks[name], default=0)
    gap = max(2, clocks.get(of, 0) // (step.size + 1))
    for at in range(int(step.left * gap), clocks.get(of, 0) - 1, gap)[: step.size]:
        yield _next(step.client, clocks), (of, at), (of, at + 1), "a"


EDITED_MAX: Final = 100_000
"""Of a step, in all edits; more is refused, and takes long to make."""
SIZES_MAX: Final = {"paste": 900_000, "holes": EDIT_DELETES_MAX}
"""Of the others :data:`EDIT_STRUCTS_MAX`."""
MAKERS: Final = {"fan": fan, "front": front, "comb": comb, "ladder": ladder, "paste": paste, "spread": spread}


def _next(client: int, clocks: dict[int, int]) -> Id:
    clock = clocks.get(client, 0)
    clocks[client] = clock + 1
    return client, clock


def _neighbours(step: Step, known: list[Id]) -> tuple[Id | None, Id | None]:
    places = len(known)
    left, right = int(step.left * places), int(step.right * places)
    first = known[left - 1] if left else None
    last = known[right] if right < len(known) else None
    return first, last if last != first else None


def holes(step: Step, clocks: dict[int, int]) -> bytes:
    """Characters all over what the client with most has typed are deleted."""
    client = max(clocks, key=lambda name: clocks[name])
    gap = max(2, clocks[client] // (step.size + 1))
    starts = range(int(step.left * gap), clocks[client], gap)[: step.size]
    head = written_uint(1) + written_uint(client) + written_uint(len(starts))
    return head + b"".join(written_uint(clock) + b"\1" for clock in starts) if starts else b"\0"


def tree(step: Step) -> bytes:
    """Values under many names of the other root that agents read, by a client of its own."""
    doc: Doc[Any] = Doc(client_id=step.client + 2**41)
    root = doc.get("doc", type=Map)
    with doc.transaction():
        for number in range(step.size):
            root[f"{step.left}/{number}"] = number
    return doc.get_update()


def edit_of(step: Step, known: list[Id], clocks: dict[int, int]) -> bytes:
    """One edit of a step, on top of what is known, which it adds to."""
    if step.kind in OF_HOSTS:
        return NO_CHANGE
    if step.kind == "tree":
        return tree(step)
    if step.kind == "holes":
        return written_update([], holes(step, clocks) if clocks else b"\0")
    items = list(MAKERS[step.kind](step, known, clocks))
    known.extend(item for item, *_ in items)
    return written_update(
        [
            NewStruct(*item, written_item(STRING, left, right, ROOT, written_text(text)))
            for item, left, right, text in items
        ]
    )


def measure(plan: Plan) -> Timed:
    """Play it."""
    document, taken = Document(_DOT, lambda _: (None, [])), list[bytes]()
    known, clocks = list[Id](), dict[int, int]()
    slowest_s = 0.0
    edits = [each for each in plan if each.kind not in OF_HOSTS]
    for step in (each for each in edits for _ in range(min(each.edits, APART_MAX))):
        if document.is_contested:
            break
        tried, there = dict(clocks), len(known)
        update = edit_of(step, known, tried)
        try:
            document.check(update, looked_at_max=AUTHOR_LOOKED_AT_MAX)
            took_s = _timed(lambda update=update: document.apply(update))  # type: ignore[misc]
        except CrdtSyncError:
            del known[there:]
            continue
        clocks = tried
        taken.append(update)
        slowest_s = max(slowest_s, took_s)
        if document.is_to_be_counted:
            at_once(document.count())
    state = document.state()
    loaded = new_doc()
    load_s = _timed(lambda: loaded.apply_update(state))
    half = new_doc()
    for update in taken[: len(taken) // 2]:
        half.apply_update(update)
    merge_s = _timed(lambda: half.apply_update(state))
    return Timed(slowest_s, load_s, _timed(document.content), merge_s, *hosts_s(plan))


def hosts_s(plan: Plan) -> tuple[float, float]:
    """The longest that one of two hosts takes for one step of it, and the longest turn of either."""
    known, clocks = list[Id](), dict[int, int]()
    slowest_s = 0.0
    with fleet_of("a", "b") as fleet, turns_timed() as turns_s:
        agents = [fleet[name].agent() for name in "ab"]
        member = Renegade(fleet["a"])
        for step in plan:
            agent = agents[step.client % 2]
            if step.kind in OF_HOSTS:
                with suppress(Refusal):
                    OF_HOSTS[step.kind](fleet, agent)
                continue
            tried, there = dict(clocks), len(known)
            updates = [edit_of(step, known, tried) for _ in range(step.edits)]
            ops: list[Any] = [["text_apply", {"key": "t", "update": update}] for update in updates]
            is_done = False

            def send(agent: Agent = agent, ops: list[Any] = ops) -> None:
                nonlocal is_done
                with suppress(Refusal):
                    agent.do_slowly("batch", ops=ops)
                    is_done = True

            held = families(fleet["a"].replica.entries.held("t"))
            if step.is_forged and held and sum(map(len, updates)) < CHANGE_BYTES_MAX:
                forged = [text_op("t", None, held[-1].current, update, ()) for update in updates]
                member.write("default", *forged)
                come_to_rest(fleet)
                clocks = tried
                continue

            if sum(map(len, updates)) < CHANGE_BYTES_MAX:
                slowest_s = max(slowest_s, _timed(send))
                fleet.sync()
            if is_done:
                clocks = tried
            else:
                del known[there:]
        if not fleet.wires:
            fleet.link("a", "b")
        fleet.run(2.0)
    return slowest_s, max(turns_s)


def come_to_rest(fleet: Fleet) -> None:
    """A change may take some thousand turns."""
    for _ in range(TURNS_MAX):
        moved = sum(wire.deliver(end) for wire in fleet.wires for end in wire.ends)
        for host in fleet.machines.values():
            host.turn()
        if not moved and not any(
            host.replica.gate or host.replica.documents.unready for host in fleet.machines.values()
        ):
            return
    raise AssertionError("the fleet does not come to rest")


def cut_or_link(fleet: Fleet, _agent: Agent) -> None:
    """What is edited meanwhile comes late to the other host."""
    if fleet.wires:
        fleet.wires[0].close()
    else:
        fleet.link("a", "b")
        fleet.sync()


OF_HOSTS: Final[dict[str, Callable[[Fleet, Agent], object]]] = {
    "link": cut_or_link,
    "compact": lambda _fleet, agent: agent.do_slowly("text_compact", key="t"),
    "unite": lambda _fleet, agent: agent.do_slowly("resolve", key="t", merge=True),
}
"""Steps that edit nothing."""


@contextmanager
def turns_timed() -> Iterator[list[float]]:
    """What each event and each turn of every host takes meanwhile."""
    turns_s = [0.0]

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            results: list[Any] = []
            turns_s.append(_timed(lambda: results.append(method(*args))))
            return results[0]

        return call

    with patch.object(Host, "step", timed(Host.step)), patch.object(Host, "turn", timed(Host.turn)):
        yield turns_s


def _timed(work: Callable[[], object]) -> float:
    gc.disable()  # a daemon looks for garbage between its turns
    began_s = time.thread_time()
    try:
        work()
    finally:
        took_s = time.thread_time() - began_s
        gc.enable()
    return took_s


BEGIN: Final[Plan] = [Step("paste", 1, 900_000, 0.0, 0.0, 1), Step("holes", 1, 1000, 0.0, 0.0, 1)]
"""What is known to be dear."""


def some_step(rng: random.Random) -> Step:
    """Any; larger than it may be, too."""
    kind = rng.choice((*MAKERS, "holes", "tree", *OF_HOSTS))
    size = rng.choice((1, 10, 100, 400, EDIT_STRUCTS_MAX, 10_000, EDIT_DELETES_MAX, 900_000))
    ends = (0.0, 0.5, 1.0, rng.random())
    edits = rng.choice((1, 1, 3, 10, 200))
    is_forged = kind not in OF_HOSTS and rng.random() < 0.3
    return bounded(Step(kind, rng.randrange(1, 2**40), size, rng.choice(ends), rng.choice(ends), edits, is_forged))


def bounded(step: Step) -> Step:
    """The step, no larger than what a request has room for."""
    size = min(step.size, SIZES_MAX.get(step.kind, EDIT_STRUCTS_MAX))
    return step._replace(size=size, edits=min(step.edits, max(1, EDITED_MAX // size)))


def changed(plan: Plan, rng: random.Random) -> Plan:
    """A plan near this one."""
    plan = list(plan)
    at = rng.randrange(len(plan))
    how = rng.randrange(5)
    if how == 0 and len(plan) < STEPS_MAX:
        plan.insert(at, some_step(rng))
    elif how == 1 and len(plan) > 1:
        del plan[at]
    elif how == 2 and len(plan) < STEPS_MAX:
        plan.append(plan[at]._replace(client=rng.randrange(1, 2**40)))
    elif how == 3:
        rng.shuffle(plan)
    else:
        other = some_step(rng)
        name = rng.choice(("client", "size", "left", "right", "edits", "kind", "is_forged"))
        plan[at] = bounded(plan[at]._replace(**{name: getattr(other, name)}))
    return plan


def climb(inputs: int, seed: int, seconds: float) -> tuple[int, dict[str, tuple[float, Plan]]]:
    """Try so many plans; how many were tried, and the longest time of each kind with its plan."""
    rng = random.Random(seed)
    best: dict[str, tuple[float, Plan]] = dict.fromkeys(Timed._fields, (0.0, BEGIN))
    deadline_s = time.monotonic() + seconds
    tried = 0
    while tried < inputs and time.monotonic() < deadline_s:
        of = rng.choice(Timed._fields)
        is_new = rng.random() < 0.2
        plan = [some_step(rng) for _ in range(rng.randint(1, 5))] if is_new else changed(best[of][1], rng)
        timed = measure(plan)
        tried += 1
        for name, took_s in zip(Timed._fields, timed, strict=True):
            if took_s > best[name][0]:
                best[name] = took_s, plan
    return tried, best


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="./dev fuzz slow-edits", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=positive_int, default=1000, help="plans to try (default 1,000)")
    parser.add_argument("--seconds", type=positive_float, default=600.0, help="stop after this time (default 600)")
    parser.add_argument("--limit-s", type=positive_float, default=LIMIT_S, help=f"for each (default {LIMIT_S})")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    tried, best = climb(arguments.inputs, seed, arguments.seconds)
    print(f"{tried:,} inputs")
    for name, (took_s, plan) in best.items():
        print(f"  {name} {took_s * 1000:.0f} ms: {plan}")
    found = [name for name, (took_s, _) in best.items() if took_s > arguments.limit_s]
    for name in found:
        print(f"  FOUND {name} over {arguments.limit_s} s: {best[name][1]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
