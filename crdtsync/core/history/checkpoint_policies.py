"""Policies of automatic checkpoints: of which keys, how often, and how many are kept.

Example: ``_checkpoint_policy/hourly`` says "every hour in which something under ``plan/`` changes; keep the newest 24".
It is a register of the space itself, so all nodes that hold the space know it; of two that were set at once the newest
one counts. The checkpoints are records like any other, which name their policy
(:mod:`crdtsync.core.background.automatic_checkpoints` makes them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.errors import InvalidRequest
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import TTL_MS_MAX, is_name, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crdtsync.core.crdt.entry import Entry

POLICY_PREFIX = "_checkpoint_policy/"
POLICIES_MAX = 16
"""Policies of a space when one more is set; merging takes what others have set."""
POLICY_NAME_CHARS_MAX = 64
PREFIXES_MAX = 100
"""Prefixes of one policy, or of one checkpoint."""
EVERY_MS_MIN = 1000
KEEP_MIN = 3
KEEP_MAX = 50
"""Checkpoints of one policy: a space has 100 at most."""


class CheckpointPolicy(NamedTuple):
    """A policy: a checkpoint every ``every_ms`` while keys that begin with one of ``prefixes`` change (none: any key).

    The newest ``keep`` are kept, and those younger than ``age_ms``, ``KEEP_MAX`` at most.
    """

    name: str
    entry: Entry
    prefixes: tuple[str, ...]
    every_ms: int
    keep: int
    age_ms: int | None

    def is_about(self, key: str) -> bool:
        """Whether a change of this key calls for a checkpoint."""
        return key[0] != "_" and (not self.prefixes or key.startswith(self.prefixes))


def check_policy_name(name: object) -> str:
    """A policy's name: what its checkpoints are called begins with it.

    :raises InvalidRequest: it cannot be one.
    """
    if not is_name(name) or len(str(name)) > POLICY_NAME_CHARS_MAX:
        raise InvalidRequest(
            f"{shown(name)} cannot name a policy: use 1 to {POLICY_NAME_CHARS_MAX} letters, digits, '.', '_' and '-', "
            "as in names of spaces"
        )
    return str(name)


def packed_policy(prefixes: list[str], every_ms: object, keep: object, age_ms: object) -> bytes:
    """The value of the record of a policy.

    :raises InvalidRequest: it cannot be one.
    """
    if type(every_ms) is not int or not EVERY_MS_MIN <= every_ms <= TTL_MS_MAX:
        raise InvalidRequest(f"every must be a whole number of ms from {EVERY_MS_MIN} to {TTL_MS_MAX}")
    if type(keep) is not int or not KEEP_MIN <= keep <= KEEP_MAX:
        raise InvalidRequest(f"keep must be a whole number from {KEEP_MIN} to {KEEP_MAX}")
    if age_ms is not None and (type(age_ms) is not int or not 1 <= age_ms <= TTL_MS_MAX):
        raise InvalidRequest(f"age must be a whole number of ms from 1 to {TTL_MS_MAX}")
    return pack({"prefixes": prefixes, "every": every_ms, "keep": keep, "age": age_ms})


def policy_of(name: str, held: Sequence[Entry]) -> CheckpointPolicy | None:
    """The policy of the newest record; None: there is none, or it is somebody's careless bytes."""
    for entry in sorted(held, key=lambda entry: entry.order, reverse=True):
        try:
            plain = unpack(entry.value or b"") if entry.kind == Kind.REGISTER else {}
            if len(plain["prefixes"]) > PREFIXES_MAX:
                continue
            prefixes, age = tuple(map(str, plain["prefixes"])), plain["age"]
            every_ms, keep = (
                _between(EVERY_MS_MIN, plain["every"], TTL_MS_MAX),
                _between(KEEP_MIN, plain["keep"], KEEP_MAX),
            )
            age_ms = None if age is None else _between(1, age, TTL_MS_MAX)
            return CheckpointPolicy(name, entry, prefixes, every_ms, keep, age_ms)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            continue
    return None


def _between(low: int, said: Any, high: int) -> int:
    return max(low, min(int(said), high))
