"""The cluster's records of agents, rules and quotas, and how two of one name merge. Pure. Pure.

A rule is of one *making* of a space, named by its epoch. A space that is made anew begins with no rules of an earlier
making, whoever wrote them and whenever they arrive. A rule counts for each right how often it was granted and taken
away: granted if the count is odd. If two were written at once, the higher count stands, so that taking away wins over
leaving as it is, and rights that two hosts grant at once both stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crdtsync.causality import SEQ_MAX
from crdtsync.core.access.requirements import GRANTED, Right
from crdtsync.core.cluster.records import RecordType
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.agent_keys import HASH_BYTES

AGENT_HASHES_MAX = 64
"""Keys of one agent: more than one only if several hosts made it at once."""
QUOTA_MAX = 1 << 50


class AccessRecord(NamedTuple):
    """One rule: how often each of read, write and admin was granted and taken away; by whom and when last.

    ``epoch``: of which making of the space, see :func:`~crdtsync.core.cluster.space_records.making_of`.
    """

    counts: tuple[int, int, int]
    time_ms: int = 0
    by: str = ""
    epoch: int = 0

    @property
    def right(self) -> Right:
        """The right that it grants: a right counts only with those that it includes."""
        held = Right.NONE
        for count, right in zip(self.counts, GRANTED, strict=True):
            if count % 2 == 0:
                break
            held = right
        return held

    def with_right(self, right: Right, time_ms: int, by: str) -> AccessRecord:
        """The same, granting ``right`` and no more."""
        counts = [count + (count % 2 != (one <= right)) for count, one in zip(self.counts, GRANTED, strict=True)]
        return AccessRecord((counts[0], counts[1], counts[2]), time_ms, by, self.epoch)


NO_RULE = AccessRecord((0, 0, 0))
BUILT_IN = AccessRecord((1, 1, 1))
"""The record of the socket's owner and group in a space while nobody has written one."""


class AgentRecord(NamedTuple):
    """An agent that proves its name. ``serial`` counts how often it was made and revoked: it is there if that is odd.

    ``hashes``: of the secrets of its keys.
    """

    serial: int
    hashes: tuple[bytes, ...]
    time_ms: int = 0
    by: str = ""

    @property
    def exists(self) -> bool:
        """Whether it has not been revoked."""
        return self.serial % 2 == 1


class QuotaRecord(NamedTuple):
    """The settings of one agent that differ from each daemon's defaults; None: no difference."""

    requests_per_s: int | None = None
    bytes_per_s: int | None = None
    watches: int | None = None
    connections: int | None = None
    time_ms: int = 0
    by: str = ""


QUOTA_NAMES = ("requests_per_s", "bytes_per_s", "watches", "connections")


# -- merging -------------------------------------------------------------------------------------------------


def _merged_access(one: AccessRecord, other: AccessRecord) -> AccessRecord:
    if one.epoch != other.epoch:
        return max(one, other, key=lambda record: record.epoch)
    read, write, admin = (max(pair) for pair in zip(one.counts, other.counts, strict=True))
    last = max(one, other, key=lambda record: (record.time_ms, record.by))
    return last._replace(counts=(read, write, admin))


def _merged_agent(one: AgentRecord, other: AgentRecord) -> AgentRecord:
    if one.serial != other.serial:
        return max(one, other, key=lambda record: record.serial)
    last = max(one, other, key=lambda record: (record.time_ms, record.by))
    hashes = sorted({*one.hashes, *other.hashes})[:AGENT_HASHES_MAX]
    return last._replace(hashes=tuple(hashes))


def _merged_quota(one: QuotaRecord, other: QuotaRecord) -> QuotaRecord:
    return max(one, other, key=lambda record: (record.time_ms, record.by, _limits(record)))


def _limits(record: QuotaRecord) -> list[int]:
    return [-1 if (limit := getattr(record, name)) is None else limit for name in QUOTA_NAMES]


# -- as stored -----------------------------------------------------------------------------------------------


def _read_access(plain: Mapping[str, Any]) -> AccessRecord:
    counts = (_count(plain["read"]), _count(plain["write"]), _count(plain["admin"]))
    return AccessRecord(counts, _count(plain["time_ms"]), _text(plain["by"]), _count(plain.get("epoch", 0)))


def _write_access(record: AccessRecord) -> dict[str, Any]:
    named = {right.word: count for right, count in zip(GRANTED, record.counts, strict=True)}
    return {**named, "time_ms": record.time_ms, "by": record.by, "epoch": record.epoch}


def _read_agent(plain: Mapping[str, Any]) -> AgentRecord:
    hashes = plain["hashes"]
    if len(hashes) > AGENT_HASHES_MAX or any(type(one) is not bytes or len(one) != HASH_BYTES for one in hashes):
        raise ValueError(hashes)
    return AgentRecord(_count(plain["serial"]), tuple(hashes), _count(plain["time_ms"]), _text(plain["by"]))


def _write_agent(record: AgentRecord) -> dict[str, Any]:
    return {"serial": record.serial, "hashes": list(record.hashes), "time_ms": record.time_ms, "by": record.by}


def _read_quota(plain: Mapping[str, Any]) -> QuotaRecord:
    limits = {name: None if plain.get(name) is None else _count(plain[name]) for name in QUOTA_NAMES}
    return QuotaRecord(**limits, time_ms=_count(plain["time_ms"]), by=_text(plain["by"]))


def _write_quota(record: QuotaRecord) -> dict[str, Any]:
    limits = {name: getattr(record, name) for name in QUOTA_NAMES}
    return {**limits, "time_ms": record.time_ms, "by": record.by}


def _count(number: Any) -> int:
    if type(number) is not int or not 0 <= number <= SEQ_MAX:
        raise ValueError(number)
    return number


def _text(text: Any) -> str:
    if type(text) is not str:
        raise ValueError(text)
    return text


ACCESS = RecordType("access", read=_read_access, write=_write_access, merge=_merged_access)
AGENTS = RecordType("agent", read=_read_agent, write=_write_agent, merge=_merged_agent)
QUOTAS = RecordType("quota", read=_read_quota, write=_write_quota, merge=_merged_quota)


def rule_name(space: str, who: str, pattern: str) -> str:
    """The name of a rule's record."""
    return f"{space}/{who}/{pattern}"


def rule_of(name: str) -> tuple[str, str, str] | None:
    """Space, who and pattern of a rule's record; None: that is none."""
    parts = name.split("/", 2)
    return None if len(parts) < 3 else (parts[0], parts[1], parts[2])
