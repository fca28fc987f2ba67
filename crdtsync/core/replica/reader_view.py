"""The answer of a plain read, by the key's read policy: the first value, all of them, or a refusal."""

from __future__ import annotations

from collections.abc import Callable

from crdtsync.causality import Writer
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.crdt.read_policies import Policy
from crdtsync.core.kinds.base import Sibling
from crdtsync.core.kinds.registry import rules_of
from crdtsync.core.kinds.values import ReadValue, describe_key, inline_value, policy_of, readable_value
from crdtsync.core.replica.replica import Replica
from crdtsync.errors import DamagedValue, TooLarge, Unresolved
from crdtsync.wire.limits import shown


def handed_over(policy: Policy, groups: list[Sibling]) -> tuple[list[Sibling], list[Sibling]]:
    """The values that a plain read hands over, and those that are alive beside them.

    All means all of the winner's kind: a list of values has no place for a log.
    """
    if not policy.is_whole:
        return groups[:1], groups[1:]
    kind = groups[0][-1].kind
    return [group for group in groups if group[-1].kind == kind], [group for group in groups if group[-1].kind != kind]


def value_handed_over(replica: Replica, policy: Policy, groups: list[Sibling], read: ReadValue) -> bytes | None:
    """The msgpack of what a plain read hands over; ``read`` reads one value.

    :raises TooLarge: it does not fit into one reply.
    :raises DamagedValue: the disk has spoilt it.
    """
    rules = rules_of(groups[0][-1].kind)
    if not policy.is_whole or rules.ranked is None:
        return read(replica, groups[0])
    value = rules.ranked.read_all(groups)
    replica.values.check(flat(groups))
    return value


def listed_value(replica: Replica, policy: Policy, groups: list[Sibling]) -> bytes | None:
    """The same where many keys are listed: None for what may be long, and for what somebody has to choose from."""
    is_short = rules_of(groups[0][-1].kind).is_inline
    is_left_out = (policy.is_manual and len(groups) > 1) or not is_short(replica, groups[0])
    try:
        return None if is_left_out else value_handed_over(replica, policy, handed_over(policy, groups)[0], inline_value)
    except (TooLarge, DamagedValue):
        return None


def check_settled(
    replica: Replica, key: str, groups: list[Sibling], live: list[Entry], node_of: Callable[[Writer], str]
) -> Policy:
    """The read policy of these values; a plain read is refused if they are several and it is ``manual``.

    :raises Unresolved: with all of them.
    """
    policy = policy_of(replica.entries, groups)
    if policy.is_manual and len(groups) > 1:
        raise Unresolved(
            f"{shown(key)} has {len(groups)} values and the read policy manual: see them with entry or conflicts "
            f"(crdtsync get --siblings), and settle them with resolve, or write what shall stand in their place",
            key=key,
            current=describe_key(replica, key, live, node_of, readable_value),
        )
    return policy


def flat(groups: list[Sibling]) -> list[Entry]:
    """The entries of several values."""
    return [entry for group in groups for entry in group]
