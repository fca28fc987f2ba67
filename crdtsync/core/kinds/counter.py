"""Counter: whole numbers added up from many sides, with a reset that loses none of them.

The problem: Ann counts 2 on one host and Bob 3 on another, at once. A register would keep both as siblings; a counter
must show 5. And when Carol, who has seen Ann's 2 alone, resets it, Bob's 3 must stay.

So each writer keeps one entry with its own running totals, ``[up, down]``: Ann's says ``[2, 0]``, Bob's ``[3, 0]``, and
the value is the sum. Carol's reset is an entry of its own, with ``sub`` "reset", that records what she saw: ``{Ann's
name: [2, 0]}``. The recorded totals are taken off: 3 is left.

The rules:

- The *name* of an entry of totals is the dot of the writer's first increment. That one has no ``sub``; the later ones
  carry the name there.
- Totals of one name count once, by their maximum. An entry that was written anew (see ``resolve``) is therefore not
  counted twice.
- What resets recorded is taken off by the maximum of all of them. Two resets at once take off once what both saw.
- What a merge brings from a fork counts under names of the fork, begun with "fork:". Two hosts that merge one fork at
  once write the same totals, which count once. No writer goes on with such a name: the next merge does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from crdtsync.causality import Dot, Writer
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.key_entries import summary_of
from crdtsync.core.kinds.arguments import Arguments, Result, attributes
from crdtsync.core.kinds.base import Copied, Rules, Sibling, always
from crdtsync.core.kinds.operations import Operation, Tells, no_value
from crdtsync.errors import InvalidEncoding, InvalidRequest, TooLarge
from crdtsync.wire.change import Op, value_hash
from crdtsync.wire.codec import check_items, pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import REQUEST_ITEMS_MAX, VALUE_BYTES_MAX, check_key
from crdtsync.wire.tokens import encode_dot, encode_version

if TYPE_CHECKING:
    from crdtsync.core.kinds.draft import Draft
    from crdtsync.core.space import SpaceState

INCREMENT_MAX = 1 << 53
TOTAL_MAX = 2**63 - 1
TOTAL_BYTES_MAX = 32
"""The two totals in an entry of a counter: no pair is longer."""

RESET = "reset"
OF_FORK = "fork:"
Totals = tuple[int, int]
"""Up and down."""

_NONE: Totals = (0, 0)


class Tally:
    """The sums over the entries of a counter. Careless bytes of another author count as nothing."""

    __slots__ = ("_names", "_net", "_recorded", "_resets", "_totals")

    def __init__(self) -> None:
        self._totals: dict[str, dict[Dot, Totals]] = {}
        self._names: dict[str, dict[str, None]] = {}  # by the writer that gave them
        self._resets: dict[Dot, dict[str, Totals]] = {}
        self._recorded: dict[str, Totals] = {}
        self._net = 0

    @property
    def value(self) -> int:
        """The value, within 64 bits: only hostile totals lead beyond."""
        return max(-TOTAL_MAX, min(TOTAL_MAX, self._net))

    def total(self, name: str) -> Totals:
        """The totals counted under a name."""
        return _highest(self._totals.get(name, {}).values())

    def recorded(self, name: str) -> Totals:
        """How much of it has been reset."""
        return self._recorded.get(name, _NONE)

    def net(self, name: str) -> Totals:
        """The rest of it after resets."""
        (up, down), (up_off, down_off) = self.total(name), self.recorded(name)
        return max(0, up - up_off), max(0, down - down_off)

    def dots(self, name: str) -> tuple[Dot, ...]:
        """The entries that say what was counted under a name."""
        return tuple(self._totals.get(name, ()))

    def names_of(self, writer: Writer) -> list[str]:
        """The names that a writer gave and goes on with: those whose entry is its own."""
        names = self._names.get(str(writer), ())
        return [name for name in names if any(dot.writer == writer for dot in self._totals[name])]

    def reset_dots(self) -> tuple[Dot, ...]:
        """The entries of resets."""
        return tuple(self._resets)

    def gain(self, name: str, totals: Totals) -> int:
        """How much higher the value is if so much has been counted under a name."""
        (up, down), (up_off, down_off) = totals, self.recorded(name)
        return max(0, up - up_off) - max(0, down - down_off) - self._value_of(name)

    def names(self) -> dict[str, list[int]]:
        """By name the totals counted under it, and what has been reset of them."""
        return {name: [*self.total(name), *self.recorded(name)] for name in {**self._totals, **self._recorded}}

    def record(self) -> dict[str, Totals]:
        """The totals that a reset has to record now: all that was counted under living names, and what was reset of it
        before.

        Nothing if all of it has been reset.
        """
        if all(self.net(name) == _NONE for name in self._totals):
            return {}
        record = {name: _highest((self.total(name), self.recorded(name))) for name in self._totals}
        return {name: totals for name, totals in sorted(record.items()) if totals != _NONE}

    def add(self, entry: Entry) -> None:
        """Count an entry in."""
        if entry.kind != Kind.COUNTER:
            return
        if entry.sub == RESET:
            self._resets[entry.dot] = record = _record(entry.value)
            for name, totals in record.items():
                self._take_off(name, _highest((totals, self.recorded(name))))
        else:
            name = name_of(entry)
            before = self._value_of(name)
            self._totals.setdefault(name, {})[entry.dot] = totals_of(entry.value)
            self._names.setdefault(name.partition(".")[0], {})[name] = None
            self._net += self._value_of(name) - before

    def remove(self, entry: Entry) -> None:
        """Count an entry out."""
        if entry.kind != Kind.COUNTER:
            return
        if entry.sub == RESET:
            for name in self._resets.pop(entry.dot):
                self._take_off(name, _highest(record.get(name, _NONE) for record in self._resets.values()))
        else:
            name = name_of(entry)
            before = self._value_of(name)
            del self._totals[name][entry.dot]
            if not self._totals[name]:
                del self._totals[name]
                self._forget(name)
            self._net += self._value_of(name) - before

    def _take_off(self, name: str, recorded: Totals) -> None:
        before = self._value_of(name)
        if recorded == _NONE:
            self._recorded.pop(name, None)
        else:
            self._recorded[name] = recorded
        self._net += self._value_of(name) - before

    def _forget(self, name: str) -> None:
        giver = name.partition(".")[0]
        del self._names[giver][name]
        if not self._names[giver]:
            del self._names[giver]

    def _value_of(self, name: str) -> int:
        up, down = self.net(name)
        return up - down


def name_of(entry: Entry) -> str:
    """The name under which an entry of totals counts."""
    return encode_dot(entry.dot) if entry.sub is None else entry.sub


def net_of(entry: Entry) -> int:
    """The count of an entry's writer under its name, by an entry of totals."""
    up, down = totals_of(entry.value)
    return up - down


def _highest(totals: Iterable[Totals]) -> Totals:
    up = down = 0
    for more_up, more_down in totals:
        up, down = max(up, more_up), max(down, more_down)
    return up, down


def totals_of(value: bytes | None) -> Totals:
    """The totals in an entry's value."""
    if value is None or len(value) > TOTAL_BYTES_MAX:
        return _NONE
    try:
        return _pair(unpack(value))
    except InvalidEncoding:
        return _NONE


def _record(value: bytes | None) -> dict[str, Totals]:
    """The totals that a reset recorded."""
    try:
        check_items(value or b"", 4 * REQUEST_ITEMS_MAX)
        plain = unpack(value or b"")
    except InvalidEncoding:
        return {}
    if type(plain) is not dict:
        return {}
    return {name: pair for name, part in plain.items() if type(name) is str and (pair := _pair(part)) != _NONE}


def _pair(plain: object) -> Totals:
    match plain:
        case [int(up), int(down)] if type(up) is type(down) is int and 0 <= up <= TOTAL_MAX and 0 <= down <= TOTAL_MAX:
            return up, down
    return _NONE


# -- the operations ------------------------------------------------------------------------------------------


def _incr(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    by = args.get("by", 1)
    if type(by) is not int or abs(by) > INCREMENT_MAX:
        raise InvalidRequest(f"by must be a whole number from -{INCREMENT_MAX:,} to {INCREMENT_MAX:,}")
    draft.check_write(key, args, Kind.COUNTER, "incr")
    seen, behind = draft.seen(args)
    tally = draft.summary(key, Tally)
    name: str | None
    if "totals" in args:
        name, (up, down) = _given(args["totals"])
        up, down = totals = _highest(((up, down), tally.total(name)))
        by, removes = tally.gain(name, totals), tally.dots(name)
    else:
        name, (up, down), removes = _own(tally, draft.own_dot().writer)
        up, down = up + max(by, 0), down + max(-by, 0)
    value = tally.value + by
    if max(up, down) > TOTAL_MAX or abs(value) > TOTAL_MAX:
        raise TooLarge(f"{key!r} cannot count any further: reset it")
    packed = pack([up, down])
    attrs = attributes({"meta": args.get("meta")}, draft.parts_of_values)
    draft.add(Op(key, name, Kind.COUNTER, packed, value_hash(packed), removes, attrs))
    result: Result = {"value": value, "behind": behind}
    if seen is not None:
        draft.promise_key_version(result, key, seen)
    return result


def _given(totals: object) -> tuple[str, Totals]:
    """What has been counted in a fork, and under which name: more than that stays, so to do it again adds nothing."""
    match totals:
        case [str(name), *pair] if name.startswith(OF_FORK) and _pair(pair) == tuple(pair):
            return name, _pair(pair)
    raise InvalidRequest(f"totals must be a name that begins with {OF_FORK!r}, and what to count up and down to")


def _own(tally: Tally, writer: Writer) -> tuple[str | None, Totals, tuple[Dot, ...]]:
    """Under which name a writer counts on (None: a new one), from which totals, and which entries that replaces."""
    name = max(tally.names_of(writer), default=None)
    if name is None:
        return None, _NONE, ()
    totals = up, down = tally.total(name)
    if tally.net(name) == _NONE:  # all of it was reset: under a new name, later resets need not record it
        return None, _NONE, tally.dots(name)
    up_off, down_off = tally.recorded(name)
    if up < up_off or down < down_off:  # a careless reset: what is counted there would not show
        return None, _NONE, ()
    return name, totals, tally.dots(name)


def _reset(draft: Draft, args: Arguments) -> Result:
    key = check_key(args.get("key"))
    draft.check_write(key, args, Kind.COUNTER, "reset")
    seen, behind = draft.seen(args)
    tally = draft.summary(key, Tally)
    result: Result = {"value": tally.value, "behind": behind}
    record = {name: list(totals) for name, totals in tally.record().items()}
    if record:
        packed = pack(record)
        if len(packed) > VALUE_BYTES_MAX:
            raise TooLarge(f"{key!r} counts under {len(record):,} names, too many for a reset: delete it instead")
        draft.add(Op(key, RESET, Kind.COUNTER, packed, value_hash(packed), tally.reset_dots(), None))
        if seen is not None:
            draft.promise_key_version(result, key, seen)
    elif seen is not None:
        result["version"] = encode_version(seen)
    return result


# -- reading -------------------------------------------------------------------------------------------------


def _read(space: SpaceState, group: Sibling) -> bytes:
    entries = space.entries
    is_all = entries.held(group[0].key) is group
    return pack((entries.summary(group[0].key, Tally) if is_all else summary_of(Tally, group)).value)


def names_of(group: Sibling) -> dict[str, list[int]]:
    """What was counted under each name: see :meth:`Tally.names`."""
    return summary_of(Tally, group).names()


def _copy(group: Sibling) -> list[Copied]:
    """Every entry as it is, but for the name, which had been its dot."""
    return [Copied(name_of(entry), entry.value, entry.attrs) for entry in group if entry.value is not None]


# -- what is told --------------------------------------------------------------------------------------------


def _history_value(entry: Entry) -> bytes | None:
    """The count of a writer by then; the record of a reset is no value."""
    return None if entry.sub == RESET else pack(net_of(entry))


INCR = Operation("incr", Tells.RESULT, no_value)

RULES: Rules = Rules(
    None,
    _read,
    is_inline=always,
    writes={"incr": _incr, "reset": _reset},
    copy=_copy,
    written=INCR,
    written_to={RESET: Operation("reset", Tells.RESULT, no_value)},
    is_accumulating=True,
    history_value=_history_value,
)
