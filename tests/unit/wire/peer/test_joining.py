"""Invites and the messages of joining: what is said arrives, and nothing else is understood."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.errors import InvalidEncoding, InvalidRequest
from crdtsync.wire.codec import pack
from crdtsync.wire.invites import Invite, decode_invite, encode_invite
from crdtsync.wire.peer.joining import (
    Admitted,
    Challenge,
    Join,
    NotAdmitted,
    binding,
    decode_join_message,
    encode_join_message,
    is_proof,
    proof_of,
)

INVITE = Invite(b"c" * 16, b"p" * 32, b"i" * 12, b"s" * 24, 1_800_000_000_000, ("host-a:7420", "[2001:db8::1]:7420"))
JOIN = Join(b"i" * 12, b"certificate", "host-b", ("host-b:7420",), b"p" * 32, b"s" * 70)


def test_an_invite_is_one_word_that_says_all():
    word = encode_invite(INVITE)
    assert word.split() == [word]
    assert decode_invite(word) == INVITE
    assert decode_invite(f"  {word}\n") == INVITE


@given(st.integers(10, 200), st.sampled_from("Aa0-_"))
def test_a_mistyped_invite_is_damaged_and_not_another(at: int, letter: str):
    word = encode_invite(INVITE)
    at = min(at, len(word) - 1)
    changed = word[:at] + letter + word[at + 1 :]
    if decode_or_none(changed) is not None:
        assert decode_invite(changed) == INVITE  # bits of the last letter that mean nothing


def decode_or_none(word: str) -> Invite | None:
    try:
        return decode_invite(word)
    except InvalidRequest:
        return None


@pytest.mark.parametrize(
    "word",
    ["", "crdtsync1.", "crdtsync1.é", "let me in", encode_invite(INVITE)[:-3], 7, None, "crdtsync1." + "A" * 5000],
)
def test_what_is_no_invite(word: object):
    with pytest.raises(InvalidRequest, match="invite"):
        decode_invite(word)


@given(st.text(max_size=200))
def test_whatever_somebody_pastes_is_refused_in_words(text: str):
    for word in (text, "crdtsync1." + text):
        assert decode_or_none(word) is None


@pytest.mark.parametrize(
    "message",
    [Challenge(b"n" * 32), JOIN, Admitted(b"c" * 16, "node", {"a": {"name": "a"}}), NotAdmitted("removed", "because")],
)
def test_messages_arrive_as_they_were(message):
    assert decode_join_message(encode_join_message(message)) == message


@pytest.mark.parametrize(
    "plain",
    [None, [], [5, {}], [1], [1, {"protocol": 1, "nonce": b"short"}], [2, {}], [3, {"cluster": b"", "members": []}],
     [4, "", 1]],
)  # fmt: skip
def test_what_is_no_message(plain):
    with pytest.raises(InvalidEncoding):
        decode_join_message(pack(plain))


@given(st.binary(max_size=100))
def test_bytes_of_any_kind_are_refused_in_one_way(data: bytes):
    with pytest.raises(InvalidEncoding):
        decode_join_message(data)


def test_a_proof_is_good_for_one_connection_one_inviter_and_one_node():
    key, nonce, pin = b"k" * 32, b"n" * 32, b"p" * 32
    bound = binding(nonce, pin, JOIN)
    proof = proof_of(key, bound)
    assert is_proof(key, bound, proof)
    others = [
        binding(b"m" * 32, pin, JOIN),
        binding(nonce, b"q" * 32, JOIN),
        binding(nonce, pin, Join(JOIN.invite, b"another", JOIN.name, JOIN.addresses)),
        binding(nonce, pin, Join(JOIN.invite, JOIN.certificate, "host-c", JOIN.addresses)),
        binding(nonce, pin, Join(JOIN.invite, JOIN.certificate, JOIN.name, ("elsewhere:1",))),
    ]
    assert not any(is_proof(key, other, proof) for other in others)
    assert not is_proof(b"l" * 32, bound, proof)
