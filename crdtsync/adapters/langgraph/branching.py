"""Which branches a thread has, and what a branch has added to the state since it left another one.

Example: two hosts that are cut off go on from one checkpoint, and each adds a finding. The thread then has two *heads*,
checkpoints that no other goes on from. To merge them, what one branch has added since the last checkpoint that they
have in common is written to the other as an update, which goes through the graph's own reducers.

A merge names in its metadata which head it took in. Two hosts may merge the same two heads at once: both results are
one in what follows, so nothing is added twice. Or one host merges a and b while the other one merges a, b and c: both
results go on from a and from b, and neither of these from the other. Their common part is then what a and b are
together, so these are merged first, in memory (as git's recursive merge does).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.channels.base import BaseChannel

    from crdtsync.adapters.langgraph.checkpoints import Record

    Channels = Mapping[str, BaseChannel[Any, Any, Any]]

MERGED = "merged_checkpoint_id"


class Branches:
    """The checkpoints of a thread and namespace, by what each goes on from."""

    def __init__(self, records: Collection[Record]) -> None:
        self._parents: dict[str, tuple[str, ...]] = {}  # of each, by name: of two merges of the same it is one name
        self._ids: dict[str, str] = {}
        names: dict[str, str] = {}
        merged = {each.id: each.metadata.get(MERGED) for each in records}
        before = {
            record.id: [each for each in (record.parent, merged[record.id]) if isinstance(each, str) and each]
            for record in records
        }
        for each in _parents_first(before):
            parents = tuple(names.get(parent, parent) for parent in before[each])
            name = names[each] = "+".join(sorted(parents)) if merged[each] else each
            self._parents[name] = parents
            self._ids[name] = max(each, self._ids.get(name, ""))
        self._names = names
        self._bases: dict[tuple[tuple[str, ...], str], Mapping[str, Any]] = {}

    def heads(self) -> list[str]:
        """The ids of those that no other goes on from, newest first."""
        passed = {each for parents in self._parents.values() for each in parents}
        return sorted((self._ids[name] for name in self._ids if name not in passed), reverse=True)

    def has(self, one: str, other: str) -> bool:
        """Whether ``one`` goes on from ``other``, or is it."""
        return self._names.get(other, other) in self._before([self._names.get(one, one)])

    def common(self, ones: Iterable[str], other: str) -> tuple[str, ...]:
        """The ids of the newest that both ``other`` and some of ``ones`` go on from; none of them goes on from another.

        :raises ValueError: they may have been pruned.
        """
        of_ones, of_other = (self._before(self._names.get(each, each) for each in some) for some in (ones, [other]))
        if known := [name for name in of_ones & of_other if name in self._ids]:
            passed = self._before(parent for name in known for parent in self._parents[name])
            return tuple(sorted(self._ids[name] for name in known if name not in passed))
        if any(name not in self._ids for name in of_ones | of_other):
            message = f"what checkpoint {other} and others have in common is not here, it may have been pruned"
            raise ValueError(message)
        return ()

    def needed(self, one: str, other: str) -> set[str]:
        """The ids of those whose values :meth:`base` asks for."""
        found: set[str] = set()
        left: list[tuple[tuple[str, ...], str]] = [((one,), other)]
        done = set()
        while left:
            pair = left.pop()
            if pair not in done:
                done.add(pair)
                common = self.common(*pair)
                found.update(common)
                left += [(common[:at], common[at]) for at in range(1, len(common))]
        return found

    def base(
        self, channels: Channels, values: Mapping[str, Mapping[str, Any]], ones: tuple[str, ...], other: str
    ) -> Mapping[str, Any]:
        """The values, by channel, of all that ``other`` and ``ones`` have in common."""
        pair = ones, other
        if pair not in self._bases:
            common = self.common(*pair)
            made = dict(values[common[0]]) if common else {}
            for at, each in enumerate(common[1:], 1):
                before = self.base(channels, values, common[:at], each)
                made |= _applied(channels, made, additions(channels, before, values[each], made))
            self._bases[pair] = made
        return self._bases[pair]

    def _before(self, names: Iterable[str]) -> set[str]:
        """Some checkpoints and all that they go on from, by name."""
        found: set[str] = set()
        left = [*names]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += self._parents.get(name, ())
        return found


def _parents_first(before: Mapping[str, Sequence[str]]) -> list[str]:
    """Ids in an order in which each comes after those that it goes on from: a host's clock may be behind another's."""
    try:
        return [each for each in TopologicalSorter(before).static_order() if each in before]
    except CycleError:  # no saver makes one
        return sorted(before)


def additions(
    channels: Channels,
    before: Mapping[str, Any],
    branch: Mapping[str, Any],
    base: Mapping[str, Any],
) -> dict[str, Any]:
    """The update that brings what a branch has changed since ``before`` to ``base``, by channel.

    A channel without a reducer keeps the value of ``base``, if that has changed too.

    :raises ValueError: nobody can tell what was added to a channel.
    """
    from langgraph.channels import BinaryOperatorAggregate, DeltaChannel  # whoever has a graph has it

    update = {}
    for name, after in branch.items():
        if name in before and before[name] == after:
            continue
        channel = channels[name]
        if isinstance(channel, BinaryOperatorAggregate | DeltaChannel):
            update[name] = _added(name, channel, before[name], after) if name in before else after
        elif base.get(name) == before.get(name):
            update[name] = after
    return update


def _applied(channels: Channels, base: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """The values that an update changes, as it makes them."""
    from langgraph.channels import BinaryOperatorAggregate, DeltaChannel

    found = {}
    for name, added in update.items():
        found[name] = added
        if name in base and isinstance(channels[name], BinaryOperatorAggregate | DeltaChannel):
            channel = channels[name].from_checkpoint(deepcopy(base[name]))
            channel.update([added])
            found[name] = channel.get()
    return found


def _added(name: str, channel: BaseChannel[Any, Any, Any], before: Any, after: Any) -> Any:
    """The part by which the channel's reducer makes ``after`` of ``before``; the order of a list does not count."""
    for added in _candidates(before, after):
        trial = channel.from_checkpoint(deepcopy(before))
        with suppress(Exception):  # a reducer may be anything
            trial.update([added])
            made = trial.get()
            if made == after or (isinstance(made, list) and len(made) == len(after) and not _beyond(made, after)):
                return added
    message = f"nobody can tell what the branch has added to {name}, say it in values: {before!r:.80} is {after!r:.80}"
    raise ValueError(message)


def _candidates(before: Any, after: Any) -> Iterator[Any]:
    if isinstance(after, list):
        yield _beyond(before, after)
    elif isinstance(after, str):
        yield after[len(before) :]
    elif isinstance(after, dict):
        yield {key: value for key, value in after.items() if key not in before or before[key] != value}
    elif isinstance(after, int | float | set | frozenset):
        yield after - before
    yield after  # as for the greater of two numbers


def _beyond(before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """The elements that are in ``after``, or more often, and not in ``before``."""
    at = len([*takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))])  # most of both
    left, found = list(before[at:]), []
    for each in after[at:]:
        if each in left:
            left.remove(each)
        else:
            found.append(each)
    return found
