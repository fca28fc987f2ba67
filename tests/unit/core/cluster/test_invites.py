"""Invites: for so many nodes, for so long, and bound to the keys that used them."""

from __future__ import annotations

import pytest

from crdtsync.core.cluster.invites import INVITES_MAX, KEPT_AFTER_EXPIRY_MS, Invitations
from crdtsync.errors import InvalidRequest, QuotaExceeded, Refused
from crdtsync.wire.peer.joining import Join, binding, proof_of, secret_key

NOW_MS = 1_800_000_000_000
DAY_MS = 24 * 3600 * 1000
ID = b"i" * 12
SECRET = b"s" * 24


@pytest.fixture
def invitations() -> Invitations:
    made = Invitations([])
    made.give(ID, secret_key(SECRET), DAY_MS, 1, NOW_MS)
    return made


def redeem(
    invitations: Invitations, pin: str, now_ms: int = NOW_MS, secret: bytes = SECRET, invite: bytes = ID
) -> None:
    join = Join(invite, pin.encode(), "x", ())
    bound = binding(b"n" * 32, b"p" * 32, join)
    proven = Join(invite, pin.encode(), "x", (), proof_of(secret_key(secret), bound))
    invitations.check(proven, pin, bound, now_ms)
    invitations.use(invite, pin)


def code_of(refusal: pytest.ExceptionInfo[Refused]) -> str:
    return refusal.value.code


def test_one_node_gets_in_and_the_next_does_not(invitations: Invitations):
    redeem(invitations, "b")
    with pytest.raises(Refused) as refusal:
        redeem(invitations, "c")
    assert code_of(refusal) == "invite_used"


def test_the_same_key_gets_its_answer_again_even_late(invitations: Invitations):
    redeem(invitations, "b")
    redeem(invitations, "b")
    redeem(invitations, "b", NOW_MS + DAY_MS + 1)


def test_an_expired_invite_is_told_from_a_false_one(invitations: Invitations):
    with pytest.raises(Refused) as refusal:
        redeem(invitations, "b", NOW_MS + DAY_MS)
    assert code_of(refusal) == "invite_expired"
    for secret, invite in ((b"t" * 24, ID), (SECRET, b"j" * 12)):
        with pytest.raises(Refused) as refusal:
            redeem(invitations, "b", secret=secret, invite=invite)
        assert code_of(refusal) == "invite_unknown"


def test_a_false_secret_uses_nothing_up(invitations: Invitations):
    with pytest.raises(Refused):
        redeem(invitations, "c", secret=b"t" * 24)
    redeem(invitations, "b")


def test_as_many_as_it_says():
    invitations = Invitations([])
    invitations.give(ID, secret_key(SECRET), DAY_MS, 3, NOW_MS)
    for pin in "bcd":
        redeem(invitations, pin)
    with pytest.raises(Refused):
        redeem(invitations, "e")


def test_what_was_stored_is_known_after_a_restart(invitations: Invitations):
    redeem(invitations, "b")
    again = Invitations(stored for stored in invitations.changed.values() if stored)
    with pytest.raises(Refused) as refusal:
        redeem(again, "c")
    assert code_of(refusal) == "invite_used"
    redeem(again, "b")


def test_the_secret_is_not_what_is_stored(invitations: Invitations):
    assert all(SECRET not in (stored or b"") for stored in invitations.changed.values())


def test_the_old_are_forgotten_in_the_end(invitations: Invitations):
    invitations.forget(NOW_MS + DAY_MS + KEPT_AFTER_EXPIRY_MS)
    assert invitations.given == {}
    assert invitations.changed == {ID: None}


@pytest.mark.parametrize("ttl_ms,uses", [(0, 1), (31 * DAY_MS, 1), (DAY_MS, 0), (DAY_MS, 1001)])
def test_what_no_invite_can_be(ttl_ms: int, uses: int):
    with pytest.raises(InvalidRequest):
        Invitations([]).give(ID, secret_key(SECRET), ttl_ms, uses, NOW_MS)


def test_they_are_bounded():
    invitations = Invitations([])
    for number in range(INVITES_MAX):
        invitations.give(number.to_bytes(12, "big"), b"", DAY_MS, 1, NOW_MS)
    with pytest.raises(QuotaExceeded):
        invitations.give(ID, b"", DAY_MS, 1, NOW_MS)


def test_junk_on_disk_lets_nobody_in():
    assert Invitations([b"", b"\xc0", b"\x91\x01"]).given == {}
