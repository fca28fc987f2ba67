"""What a shared context stores: any content comes back as it was, and equal content is stored equally."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.context.compact.compress import compress
from crdtsync.context.shared import entry
from crdtsync.context.shared.entry import is_record, record, text_of, unpacked
from crdtsync.context.tokens import count
from crdtsync.errors import InvalidValue

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip
CONTENTS = st.binary(max_size=600) | st.text(st.characters(exclude_categories=["Cs"]), max_size=600) | JSON


@given(CONTENTS)
def test_any_content_comes_back_as_it_was(content: object):
    value, packed = record("k", content, "ann", "auto", "gpt-5")
    assert packed is None
    assert is_record(value)
    assert value == record("k", content, "ann", "auto", "gpt-5")[0]
    assert value["compressed_tokens"] == count(value["text"], "gpt-5") <= value["original_tokens"]
    try:
        entry.LARGE_BYTES = -1
        value, packed = record("k", content, "ann", "auto", "gpt-5")
    finally:
        entry.LARGE_BYTES = 512 * 1024
    assert packed is not None
    assert unpacked(packed, value["packed"]) == content
    assert value["compressed_tokens"] <= entry.LARGE_TOKENS


@given(st.binary(max_size=3_000), st.integers(0, 200))
def test_any_bytes_are_made_compact_within_a_budget(content: bytes, budget: int):
    done = compress(text_of(content), budget=budget, model="gpt-5", query="disk", source="crdtsync get x")
    assert done.compressed_tokens == count(done.text, "gpt-5") <= budget
    assert done == compress(text_of(content), budget=budget, model="gpt-5", query="disk", source="crdtsync get x")


def test_half_a_character_is_refused_by_name():
    with pytest.raises(InvalidValue, match="'k'"):
        record("k", "a\ud800", None, "auto", "gpt-5")
