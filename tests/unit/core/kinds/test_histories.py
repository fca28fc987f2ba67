"""Random histories of a few sites: equal values everywhere, and those that a plain model of the promise has.

The model keeps every event with what its author had seen, and works a value out from all events that a site has. It
knows nothing of entries, dots or totals.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from crdtsync.core.crdt.read_context import NotYet
from crdtsync.errors import KindMismatch
from tests.examples import examples
from tests.fleet.replicas import Site, shuffled, sites

NAMES = ("a", "b", "c")
ELEMENTS = ["x", 1, {"b": 1, "a": [None]}, "y" * 300]


class Event(NamedTuple):
    """One write: ``past`` are the events that its site had."""

    operation: str
    args: dict[str, Any]
    past: frozenset[int]


class World:
    """Sites, and which events each of them has."""

    def __init__(self) -> None:
        self.sites = sites(*NAMES)
        self.events: list[Event] = []
        self.has: list[set[int]] = [set() for _ in NAMES]

    def write(self, at: int, operation: str, **args: Any) -> Any:
        plain = {name: value for name, value in args.items() if name != "seen"}
        self.events.append(Event(operation, plain, frozenset(self.has[at])))
        self.has[at].add(len(self.events) - 1)
        return self.sites[at].do(operation, **args)

    def sync(self, source: int, target: int) -> None:
        self.sites[target].take(self.sites[source].changes)
        self.has[target] |= self.has[source]

    def seen(self, at: int) -> list[tuple[int, Event]]:
        return [(number, self.events[number]) for number in sorted(self.has[at])]

    def end(self, seed: int) -> list[Site]:
        """Everybody gets everything; one site more gets it in another order."""
        for _ in NAMES:
            for at in range(len(NAMES)):
                self.sync(at, (at + 1) % len(NAMES))
        everywhere = [*self.sites, shuffled(self.sites[0], seed)]
        assert len({site.replica.entries.digest for site in everywhere}) == 1
        entries = [site.ask("entry") for site in everywhere]
        assert all(entry == entries[0] for entry in entries)
        return everywhere


def play(steps: list[tuple[int, Any]], seed: int, act: Callable[[World, int, Any], None], model: Any) -> None:
    """Do the steps, comparing with the model after each, and once all is exchanged."""
    world = World()
    for at, step in steps:
        if isinstance(step, int):
            world.sync(at, step)
        else:
            act(world, at, step)
        model(world.seen(at), world.sites[at])
    world.end(seed)
    for at in range(len(NAMES)):
        model(world.seen(at), world.sites[at])


def histories(step: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[int, Any]]]:
    return st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2) | step), max_size=25)


SEEDS = st.integers(0, 999)


# -- counters ------------------------------------------------------------------------------------------------


def count(world: World, at: int, by: Any) -> None:
    before = world.sites[at].get() or 0
    if by == "reset":
        assert world.write(at, "reset")["value"] == before
    else:
        assert world.write(at, "incr", by=by[0])["value"] == before + by[0]


def counted(seen: list[tuple[int, Event]], site: Site) -> None:
    """Every increment counts that no reset had seen."""
    reset = {number for _, event in seen if event.operation == "reset" for number in event.past}
    steps = [event.args["by"] for number, event in seen if event.operation == "incr" and number not in reset]
    assert (site.get() or 0) == sum(steps)


@examples(100)
@given(histories(st.tuples(st.integers(-9, 9)) | st.just("reset")), SEEDS)
def test_counters_count_what_no_reset_had_seen(steps, seed):
    play(steps, seed, count, counted)


# -- sets ----------------------------------------------------------------------------------------------------


def change_set(world: World, at: int, step: tuple[str, int, bool]) -> None:
    operation, element, is_read = step
    site = world.sites[at]
    here = site.get() or []
    args: dict[str, Any] = {"value": ELEMENTS[element]}
    if is_read and here:
        args["seen"] = site.version()
    reply = world.write(at, operation, **args)
    assert (reply.get("existed") or reply.get("added") is False) == (ELEMENTS[element] in here)
    assert reply["length"] == len(site.get() or [])


def is_in_set(seen: list[tuple[int, Event]], site: Site) -> None:
    """An element is there if somebody added it and nobody who had seen that discarded it."""

    def is_there(element: object) -> bool:
        adds = {n for n, event in seen if event.operation == "add" and event.args["value"] == element}
        for _, event in seen:
            if event.operation == "discard" and event.args["value"] == element:
                adds -= event.past
        return bool(adds)

    wanted = [element for element in ELEMENTS if is_there(element)]
    assert sorted(site.get() or [], key=repr) == sorted(wanted, key=repr)


@examples(100)
@given(histories(st.tuples(st.sampled_from(["add", "add", "discard"]), st.integers(0, 3), st.booleans())), SEEDS)
def test_sets_hold_what_was_added_and_not_discarded_by_who_had_seen_it(steps, seed):
    play(steps, seed, change_set, is_in_set)


# -- maps ----------------------------------------------------------------------------------------------------


def change_map(world: World, at: int, step: tuple[str, str, bool]) -> None:
    operation, fields, is_read = step
    site = world.sites[at]
    entry = site.ask("entry")
    seen = {"seen": "?" if entry is None else entry["version"]}
    if operation == "drop":
        world.write(at, "drop", field=fields[0], **(seen if is_read and entry else {}))
    else:
        world.write(at, "merge", fields={field: len(world.events) for field in fields}, **seen)


def has_fields(seen: list[tuple[int, Event]], site: Site) -> None:
    """A field has those of its values that nobody had seen who wrote or dropped it."""
    wanted: dict[str, list[int]] = {}
    for field in "xyz":
        touched = [
            (n, event) for n, event in seen if field in event.args.get("fields", ()) or event.args.get("field") == field
        ]
        gone = {n for _, event in touched for n in event.past}
        values = [n for n, event in touched if event.operation == "merge" and n not in gone]
        if values:
            wanted[field] = values
    winner, *losers = site.values() or [{}]
    shown = {field: [value] for field, value in winner.items()}
    for field, value in losers:
        shown[field].append(value)
    assert {field: sorted(values) for field, values in shown.items()} == wanted
    assert len(losers) == (site.ask("get") or {"siblings": 0})["siblings"]


@examples(100)
@given(
    histories(
        st.tuples(st.sampled_from(["merge", "merge", "drop"]), st.sampled_from(["x", "xy", "yxz"]), st.booleans())
    ),
    SEEDS,
)
def test_fields_keep_what_nobody_had_seen_who_wrote_them(steps, seed):
    play(steps, seed, change_map, has_fields)


# -- everything at once ------------------------------------------------------------------------------------------


def change_anything(world: World, at: int, step: tuple[str, int]) -> None:
    """Whatever the key is: what does not fit is refused, and that is fine."""
    operation, number = step
    site = world.sites[at]
    dots = site.dots() if site.ask("entry") else []
    requests: dict[str, dict[str, Any]] = {
        "set": {"value": number},
        "incr": {"by": number},
        "reset": {},
        "add": {"value": number},
        "discard": {"value": number},
        "merge": {"fields": {f"{number}": number}},
        "drop": {"field": f"{number}"},
        "append": {"value": number},
        "trim": {"keep": number},
        "remove": {"dot": dots[number % len(dots)] if dots else "7.1.0"},
        "touch": {"ttl": 1000} if number else {},
        "delete": {},
        "resolve": {"take": dots[number % len(dots)]} if dots else {"value": number},
    }
    with suppress(KindMismatch, NotYet):
        site.do(operation, **requests[operation])


ANYTHING = st.tuples(
    st.sampled_from(
        [
            *("set", "incr", "reset", "add", "discard", "merge", "drop", "append", "trim", "remove", "touch", "delete"),
            *("resolve", "resolve"),
        ]
    ),
    st.integers(0, 3),
)


@examples(100)
@given(histories(ANYTHING), SEEDS)
def test_whatever_is_written_to_one_key_everybody_reads_the_same(steps, seed):
    play(steps, seed, change_anything, lambda _seen, _site: None)


ALONE_AND_BATCHED: dict[str, Callable[[int], Any]] = {
    "set": lambda number: {"value": number},
    "incr": lambda number: {"by": number},
    "reset": lambda _: {},
    "add": lambda number: {"value": number},
    "discard": lambda number: {"value": number},
    "merge": lambda number: {"fields": {"f": number}},
    "drop": lambda _: {"field": "f"},
    "append": lambda number: {"value": number},
    "trim": lambda number: {"keep": number},
    "touch": lambda _: {},
}


@examples(100)
@given(histories(ANYTHING), st.lists(ANYTHING, max_size=8))
def test_a_batch_does_what_its_operations_do_one_by_one(steps, ops):
    """What later operations of a batch see is what is there after the earlier ones."""
    worlds = World(), World()
    for world in worlds:
        for at, step in steps:
            if isinstance(step, int):
                world.sync(at, step)
            else:
                change_anything(world, at, step)
    alone, batched = (world.sites[0] for world in worlds)
    requests = []
    results = []
    for operation, number in ops:
        args = ALONE_AND_BATCHED.get(operation, lambda _: None)(number)
        if args is None:
            continue
        with suppress(KindMismatch):
            results.append(alone.do(operation, **args))
            requests.append([operation, {"key": "k", **Site.packed(args)}])
    if requests:
        told = batched.do("batch", ops=requests)["results"]
        for one, other in zip(results, told, strict=True):
            for reply in (one, other):
                reply.pop("version", None)
                reply.pop("replaced", None)
        assert told == results
    assert alone.get() == batched.get()
