"""Writing Yjs updates anew: with other neighbours, with other content, or from nothing.

A struct says where it stands by its neighbours' ids: "after clock 7 of client 3, before clock 2 of client 9". A
document may have forgotten where these stood (``crdtsync.core.text.forgetting``). Then the struct is written with
neighbours that the document still has. All else stays as it is, byte for byte: its own id above all, for it is by ids
that Yjs counts an insertion once and a deletion for ever.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.yjs.encoding import (
    ANY,
    CLOCK_MAX,
    DELETED,
    GC,
    STEP_STRUCTS,
    STRING,
    Id,
    Steps,
    Struct,
    at_once,
    causally,
    read_deletes,
    read_sections,
    read_sections_slowly,
)
from crdtsync.wire.yjs.lib0 import InvalidUpdate, read_text, read_uint, written_text, written_uint
from crdtsync.wire.yjs.order import Run, in_order

Inserted = dict[int, list[Struct]]
"""Some structs of each client, in the order of their clocks."""


class NewStruct(NamedTuple):
    """A struct to be written."""

    client: int
    clock: int
    data: bytes


def written_item(kind: int, origin: Id | None, right: Id | None, root: str, content: bytes) -> bytes:
    """An item, which without any neighbour goes into this root."""
    info = kind | (0x80 if origin else 0) | (0x40 if right else 0)
    ids = b"".join(written_uint(number) for neighbour in (origin, right) if neighbour for number in neighbour)
    parent = b"" if origin or right else b"\1" + written_text(root)
    return bytes((info,)) + ids + parent + content


def written_gap(length: int) -> bytes:
    """A GC struct: so many clocks of which all is forgotten."""
    return b"\0" + written_uint(length)


def written_update(parts: Iterable[NewStruct], deletes: bytes = b"\0") -> bytes:
    """An update of structs, those of each client in the order of their clocks and without a gap."""
    sections: dict[int, list[NewStruct]] = {}
    for part in parts:
        sections.setdefault(part.client, []).append(part)
    data = [written_uint(len(sections))]
    for client, members in sections.items():
        data += [written_uint(number) for number in (len(members), client, members[0].clock)]
        data += [part.data for part in members]
    return b"".join((*data, deletes))


def in_pieces(
    update: bytes, known: Mapping[int, int], structs_max: int, ranges_max: int = CLOCK_MAX
) -> Steps[list[list[bytes]]]:
    """The updates that, one after the other, do to a document which holds ``known`` what this one does at once; those
    that stand together have at most so many structs, or ranges that they delete.
    """
    sections, deletes_at = yield from read_sections_slowly(update, CLOCK_MAX)
    groups: list[list[bytes]] = []
    of = done = 0
    run: list[Struct] = []
    for number, (client, struct) in enumerate(causally(sections, known)):
        if run and (client != of or len(run) + done == structs_max):
            done = 0 if done + len(run) == structs_max else done + len(run)
            groups[-1].append(_piece(update, of, run))
            run = []
        if not run and not done:
            groups.append([])
        of = client
        run.append(struct)
        if number % STEP_STRUCTS == STEP_STRUCTS - 1:
            yield
    if run:
        groups[-1].append(_piece(update, of, run))
    deletes, _ = yield from read_deletes(update, deletes_at, lambda *_: None)
    ranges = [(client, *each) for client, members in deletes.items() for each in members]
    groups += [[deletion(ranges[at : at + ranges_max])] for at in range(0, len(ranges), ranges_max)]
    return groups


def _piece(update: bytes, client: int, run: list[Struct]) -> bytes:
    head = b"".join(map(written_uint, (1, len(run), client, run[0].clock)))
    return head + update[run[0].at : run[-1].stop] + b"\0"


Runs = dict[int, list[list[Struct]]]
"""The structs of each client; those of which each goes on where the one before ended are together."""


def runs_of(sections: Inserted, known: Mapping[int, int]) -> Steps[Runs]:
    """Those of an update; what a document that holds ``known`` has already stays apart.

    Where nothing comes between them, the Yjs library makes one item of such a run when it has taken it in: from the
    last on, and each time it copies all that follows.
    """
    runs: Runs = {}
    done = 0
    for client, structs in sections.items():
        found = runs[client] = [[structs[0]]]
        held = known.get(client, 0)
        for before, struct in pairwise(structs):
            if (
                struct.origin == (client, before.end - 1)
                and struct.right == before.right
                and struct.kind == before.kind
                and struct.kind in (STRING, ANY)
                and not struct.keyed
                and before.clock >= held
            ):
                found[-1].append(struct)
            else:
                found.append([struct])
            done += 1
            if done % STEP_STRUCTS == 0:
                yield
    return runs


def as_one(run: list[Struct]) -> Struct:
    """The item that stands for all of them."""
    if len(run) == 1:
        return run[0]
    first, last = run[0], run[-1]
    pairs = [struct.clock - first.clock + offset for struct in run if struct.detail for offset in _pairs(struct)]
    return first._replace(end=last.end, stop=last.stop, detail=pairs)


def _pairs(struct: Struct) -> list[int]:
    return struct.detail if isinstance(struct.detail, list) else []


def with_runs_joined(update: bytes, runs: Runs, deletes_at: int) -> bytes:
    """The update with one item for each run."""
    items = [_one(update, client, run) for client, members in runs.items() for run in members]
    return written_update(items, update[deletes_at:])


def _one(update: bytes, client: int, run: list[Struct]) -> NewStruct:
    """The content of a string, and of values, is a count and what it counts."""
    first = run[0]
    if len(run) == 1:
        return NewStruct(client, first.clock, update[first.at : first.stop])
    counts = [read_uint(update, struct.body) for struct in run]
    contents = [update[start : struct.stop] for struct, (_, start) in zip(run, counts, strict=True)]
    head = update[first.at : first.body] + written_uint(sum(count for count, _ in counts))
    return NewStruct(client, first.clock, head + b"".join(contents))


def joined(update: bytes, structs_max: int) -> bytes:
    """An update that does the same, with one item for each run.

    :raises InvalidUpdate: it has more structs than that, or is none.
    """
    sections, deletes_at = read_sections(update, structs_max)
    return with_runs_joined(update, at_once(runs_of(sections, {})), deletes_at)


def deletion(ranges: list[tuple[int, int, int]]) -> bytes:
    """An update that deletes these: a client, the first clock, the one after the last."""
    by_client: dict[int, list[bytes]] = {}
    for client, clock, end in ranges:
        by_client.setdefault(client, []).append(written_uint(clock) + written_uint(end - clock))
    data = [b"\0", written_uint(len(by_client))]
    for client, members in by_client.items():
        data += [written_uint(client), written_uint(len(members)), *members]
    return b"".join(data)


def forwarded(
    update: bytes,
    known: Mapping[int, int],
    left: Callable[[Id], Id | None],
    right: Callable[[Id, Id | None, Inserted], Id | None],
    root: str,
    structs_max: int = CLOCK_MAX,
) -> bytes:
    """An update as it is to be made in a document that holds ``known``, with the neighbours that ``left`` and ``right``
    give for those that it names. Structs that the document holds already are left out, up to the clock.

    ``right`` is also given the left neighbour, and the structs before it as they are forwarded.

    :raises InvalidUpdate: it cannot be written so.
    """
    sections, at = read_sections(update, structs_max)
    parts: list[NewStruct] = []
    done: Inserted = {}
    for client, struct in causally(sections, known):
        clock = max(known.get(client, 0), struct.clock)
        if struct.end <= clock:
            continue
        before = (client, clock - 1) if clock > struct.clock else struct.origin
        origin = left(before) if before else None
        after = right(struct.right, origin, done) if struct.right else None
        parts.append(NewStruct(client, clock, _forwarded(update, clock, struct, origin, after, root)))
        done.setdefault(client, []).append(struct._replace(clock=clock, origin=origin, right=after))
    return written_update(parts, update[at:])


def _forwarded(update: bytes, clock: int, struct: Struct, origin: Id | None, after: Id | None, root: str) -> bytes:
    """One struct, from this clock on."""
    if struct.kind == GC:
        return written_gap(struct.end - clock)
    if clock == struct.clock and (origin, after) == (struct.origin, struct.right):
        return update[struct.at : struct.stop]
    if struct.keyed:
        raise InvalidUpdate(f"the value under a key stands beside what is forgotten, at byte {struct.at}")
    return written_item(struct.kind, origin, after, root, _content_from(update, clock, struct))


def _content_from(update: bytes, clock: int, struct: Struct) -> bytes:
    if clock == struct.clock:
        return update[struct.body : struct.stop]
    if struct.kind == DELETED:
        return written_uint(struct.end - clock)
    if struct.kind == STRING:
        return written_text(units(read_text(update, struct.body)[0], clock - struct.clock, struct.end - struct.clock))
    raise InvalidUpdate(f"content kind {struct.kind} cannot be cut up, at byte {struct.at}")


def units(text: str, start: int, end: int) -> str:
    """A part of a string, counted as Yjs does: in UTF-16 code units."""
    return text[start:end] if text.isascii() else text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


def contradiction(update: bytes, held: bytes) -> Id | None:
    """Where an update says something else of an id than another one that holds it too: two authors have one client id.

    What was deleted is not compared, nor where it stands.
    """
    ours, theirs = _strings(held), _strings(update)
    for client in sorted(ours.keys() & theirs.keys()):
        mine, others = iter(ours[client]), iter(theirs[client])
        one, other = next(mine, None), next(others, None)
        while one is not None and other is not None:
            clock = max(one[0], other[0])
            pairs = zip(one[1][clock - one[0] :], other[1][clock - other[0] :], strict=False)
            differing = next((at for at, (unit, another) in enumerate(pairs) if unit != another), None)
            if differing is not None:
                return client, clock + differing
            if one[0] + len(one[1]) <= other[0] + len(other[1]):
                one = next(mine, None)
            else:
                other = next(others, None)
    return None


def _strings(update: bytes) -> dict[int, list[tuple[int, array[int]]]]:
    """By client, the clock of the first character of each string, and its UTF-16 code units."""
    sections, _ = read_sections(update, CLOCK_MAX)
    return {
        client: [
            (struct.clock, array("H", read_text(update, struct.body)[0].encode("utf-16-le")))
            for struct in structs
            if struct.kind == STRING
        ]
        for client, structs in sections.items()
    }


class WholeText:
    """The state of a document as it may be written anew: its characters are those of this root."""

    def __init__(self, state: bytes, root: str, sections: dict[int, list[Struct]], deletes_at: int) -> None:
        self.state = state
        self._root = root
        self.sections = sections
        self._structs = [(client, struct) for client, structs in sections.items() for struct in structs]
        self._deletes_at = deletes_at

    @staticmethod
    def read(state: bytes, root: str) -> Steps[WholeText]:
        """That of this state."""
        sections, at = yield from read_sections_slowly(state, CLOCK_MAX)
        return WholeText(state, root, sections, at)

    def ends(self) -> dict[int, int]:
        """The clock that comes next, by client."""
        return {client: struct.end for client, struct in self._structs}

    def is_only_text(self) -> bool:
        """Whether it holds nothing but characters, beside what was deleted."""
        return all(struct.kind in (GC, DELETED) or self._is_plain(struct) for _, struct in self._structs)

    def in_order(self) -> Steps[list[tuple[Run, Run]]]:
        """Its characters as they stand in the text, deleted ones too, and the struct that each run is of."""
        return (yield from in_order(self.sections, self._root))

    def characters(self) -> Steps[dict[Run, str]]:
        """The characters that are not deleted."""
        deletes, _ = yield from read_deletes(self.state, self._deletes_at, lambda *_: None)
        found: dict[Run, str] = {}
        for number, (client, struct) in enumerate(self._structs, 1):
            if struct.kind == STRING and self._is_plain(struct) and not _overlaps(struct, deletes.get(client, [])):
                found[Run(client, struct.clock, struct.end)] = read_text(self.state, struct.body)[0]
            if number % STEP_STRUCTS == 0:
                yield
        return found

    def _is_plain(self, struct: Struct) -> bool:
        return struct.kind in (STRING, DELETED) and not struct.keyed and struct.parent in (None, self._root)


def _overlaps(struct: Struct, ranges: list[tuple[int, int]]) -> bool:
    index = bisect_left(ranges, (struct.end, 0)) - 1  # the last that begins before its end
    return index >= 0 and ranges[index][1] > struct.clock
