"""What was said about a value counts as far as an agent can have said it."""

from __future__ import annotations

from typing import Any

import pytest

from crdtsync.wire.codec import pack
from crdtsync.wire.limits import TTL_MS_MAX
from crdtsync.wire.stored_values import Attributes, attributes_of

MOST: dict[str, Any] = {"ttl": TTL_MS_MAX, "confidence": 1.0, "meta": pack({"role": "critic"})}


def test_all_that_an_agent_can_say_counts():
    assert attributes_of(MOST) == Attributes(**MOST)
    assert attributes_of(None) == attributes_of({}) == Attributes()


@pytest.mark.parametrize(
    "wrong",
    [{"ttl": TTL_MS_MAX + 1}, {"ttl": 0}, {"ttl": True}, {"ttl": "1"}, {"confidence": 1.5}, {"confidence": 1},
     {"confidence": float("nan")}, {"meta": b"\xc1"}, {"meta": {"role": "critic"}}],
    ids=repr,
)  # fmt: skip
def test_what_is_wrong_is_as_if_it_had_not_been_said_and_the_rest_counts(wrong):
    (name,) = wrong
    assert attributes_of({**MOST, **wrong}) == Attributes(**{**MOST, name: None})
