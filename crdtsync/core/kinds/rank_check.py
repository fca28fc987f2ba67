"""Refuses a write that ranks lower than what readers are shown, if the key's schema asks for that.

With the read policy ``max`` a key that holds 7 goes on to show 7 after a ``set`` of 5: the 5 would lie beside it,
unseen. A schema with ``refuse_lower`` makes that ``set`` an error, which shows the author what the key holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.causality import HLC_MAX, WRITER_MAX, Dot, Writer
from crdtsync.core.crdt.entries import Entry
from crdtsync.core.crdt.read_policies import first_of, ranks_lower
from crdtsync.errors import InvalidEncoding, RanksLower
from crdtsync.wire.codec import unpack
from crdtsync.wire.limits import shown
from crdtsync.wire.stored_values import attributes_of

if TYPE_CHECKING:
    from crdtsync.core.crdt.read_policies import Policy
    from crdtsync.core.replica.change_draft import Draft

LATER_HLC = HLC_MAX
"""After every hybrid time of a clock that goes: the write will be later than whatever its author's node holds."""


def check_rank(
    draft: Draft, key: str, live: list[Entry], value: bytes, attrs: dict[str, Any] | None, field: str | None = None
) -> None:
    """Refuse to write ``value`` where it would rank lower than what readers are shown of ``live``, the values of
    ``key`` or of its ``field``, and the key's schema says so.

    Decided here and now: what others write at once is not known, and merging never refuses.

    :raises RanksLower: with what the key holds.
    """
    schema = draft.replica.schemas.of(key)
    if not schema.refuse_lower or not live:
        return
    first = first_of(schema.policy, live)
    dot = Dot(Writer(WRITER_MAX), 0, 0)
    later = Entry(0, dot, key, field, first.kind, LATER_HLC, "", value, b"", attrs)
    if ranks_lower(schema.policy, first, later):
        where = repr(key) if field is None else f"the field {shown(field)} of {key!r}"
        raise RanksLower(
            f"{where} keeps its value, which ranks higher under the read policy {schema.policy.name}"
            f"{_compared(schema.policy, first, later)}: to put a lower one in its place use resolve, or delete it",
            key=key,
            current=draft.describe_current(key),
            policy=schema.policy.name,
            pattern=schema.pattern,
        )


def _compared(policy: Policy, first: Entry, later: Entry) -> str:
    """Both sides of the comparison where they are short."""
    if policy.name == "confidence":
        have, want = (attributes_of(entry.attrs).confidence for entry in (first, later))
        return f" (confidence {_or_none(have)} against {_or_none(want)})"
    if policy.name in ("max", "min"):
        try:
            plain = [unpack(entry.value or b"") for entry in (first, later)]
        except InvalidEncoding:
            return ""
        return " ({} against {})".format(*map(shown, plain))
    return ""


def _or_none(confidence: object) -> str:
    return "none" if confidence is None else str(confidence)
