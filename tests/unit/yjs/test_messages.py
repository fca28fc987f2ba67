"""The y-websocket protocol: what is written is read back, and other bytes are refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.errors import InvalidEncoding
from crdtsync.yjs.messages import (
    AskAwareness,
    Awareness,
    Caret,
    Edit,
    Lacks,
    answering,
    asking,
    clients,
    decoded,
    denying,
    editing,
    showing,
)

numbers = st.integers(0, 2**53 - 1)


@given(st.binary(max_size=300))
def test_what_is_sent_is_what_is_read(data: bytes) -> None:
    assert decoded(asking(data)) == Lacks(data)
    assert decoded(answering(data)) == decoded(editing(data)) == Edit(data)
    assert decoded(denying("no")) is None


@given(st.lists(st.builds(Caret, numbers, numbers, st.binary(max_size=200)), max_size=5))
def test_carets_likewise(carets: list[Caret]) -> None:
    assert decoded(showing(carets)) == Awareness(carets)


def test_bytes_as_the_provider_sends_them() -> None:
    assert decoded(bytes.fromhex("000001 00")) == Lacks(b"\0")
    assert decoded(bytes.fromhex("000202 0000")) == Edit(b"\0\0")
    assert decoded(bytes.fromhex("01 08 01 8502 03 03") + b"{ }") == Awareness([Caret(261, 3, b"{ }")])
    assert decoded(b"\x03") == AskAwareness()
    assert clients(bytes.fromhex("02 8502 07 09 00")) == {261}  # of 9 it holds nothing


@given(st.binary(max_size=40))
def test_other_bytes_are_refused_as_such(data: bytes) -> None:
    for read in (decoded, clients):
        with suppress(InvalidEncoding):
            read(data)


@pytest.mark.parametrize(
    "data", ["", "00", "0003 00", "0000 05 01", "01 03 01 01", "ffffffffffffffffffff", "0105ffff3f0000"]
)
def test_what_is_cut_off_or_too_long_is_refused(data: str) -> None:
    with pytest.raises(InvalidEncoding):
        decoded(bytes.fromhex(data))
