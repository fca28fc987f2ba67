"""Requests without an answer: numbers, replies in any order, and what is sent again after a broken connection."""

import msgpack
import pytest

from crdtsync.client.protocol.in_flight import WRITES_MAX, InFlight, Pending, timed_out
from crdtsync.errors import (
    CrdtSyncError,
    InvalidEncoding,
    InvalidRequest,
    OutcomeUnknown,
    Refused,
    Timeout,
    UnknownSpace,
)
from crdtsync.wire.features import FEATURES

ONE, OTHER = {"database": b"1" * 16}, {"database": b"2" * 16}


def enter(table: InFlight, *, write: bool = False, sent: bool = True) -> Pending:
    pending = Pending("set" if write else "get", {"key": "k"})
    table.admit(pending, is_write=write)
    pending.sent = sent
    return pending


def replayed(table: InFlight) -> list[tuple[int, dict[str, object]]]:
    requests = [msgpack.unpackb(frame[4:]) for frame in table.replay()]
    return [(request_id, arguments) for request_id, _, arguments in requests]


def test_ids_and_write_numbers_count_up():
    table = InFlight()
    read, first, second = enter(table), enter(table, write=True), enter(table, write=True)
    assert (read.id, first.id, second.id) == (2, 3, 4)
    assert (first.arguments["n"], second.arguments["n"]) == (1, 2)
    assert "n" not in read.arguments


def test_replies_find_their_requests_in_any_order():
    table = InFlight()
    first, second = enter(table), enter(table)
    assert table.deliver((second.id, 0, "two")) is second
    assert table.deliver((first.id, 1, {"code": "refused", "message": "no"})) is first
    assert second.outcome() == "two"
    with pytest.raises(Refused, match="no"):
        first.outcome()
    assert not table.pending


def test_the_answer_to_an_abandoned_request_is_dropped():
    table = InFlight()
    pending = enter(table, write=True)
    table.abandon(pending)
    assert table.writes == 0
    assert table.deliver((pending.id, 0, "late")) is None


def test_what_cannot_be_encoded_leaves_no_trace():
    table = InFlight()
    with pytest.raises(CrdtSyncError):
        table.admit(Pending("set", {"key": "\ud800"}), is_write=True)
    assert (table.pending, table.writes) == ({}, 0)
    assert enter(table, write=True).number == 1


def test_after_a_break_all_is_sent_again_in_order_and_writes_say_so():
    table = InFlight()
    table.resume(ONE)
    enter(table, write=True)
    enter(table)
    enter(table, write=True, sent=False)
    assert table.resume(ONE) == []
    assert replayed(table) == [
        (2, {"key": "k", "n": 1, "again": True}),
        (3, {"key": "k"}),
        (4, {"key": "k", "n": 2}),  # it had never left
    ]
    assert replayed(table)[2] == (4, {"key": "k", "n": 2, "again": True})


def test_at_another_database_nobody_knows_what_became_of_a_write():
    table = InFlight()
    table.resume(ONE)
    sent, read, unsent = enter(table, write=True), enter(table), enter(table, write=True, sent=False)
    assert table.resume(OTHER) == [sent]
    with pytest.raises(OutcomeUnknown, match="another database"):
        sent.outcome()
    assert [request_id for request_id, _ in replayed(table)] == [read.id, unsent.id]
    assert table.resume(OTHER) == []


def test_a_write_older_than_the_daemon_remembers_is_not_sent_again():
    table = InFlight()
    table.resume(ONE)
    oldest, kept = enter(table, write=True), enter(table, write=True)
    for _ in range(WRITES_MAX - 1):
        table.deliver((enter(table, write=True).id, 0, None))
    assert table.resume(ONE) == [oldest]
    with pytest.raises(OutcomeUnknown):
        oldest.outcome()
    assert [request_id for request_id, _ in replayed(table)] == [kept.id]


def test_when_the_daemon_will_not_have_us_writes_are_unknown_and_the_rest_fails_with_its_reason():
    table = InFlight()
    write, read, unsent = enter(table, write=True), enter(table), enter(table, write=True, sent=False)
    assert table.fail_all(UnknownSpace("gone")) == [write, read, unsent]
    assert [type(pending.error) for pending in (write, read, unsent)] == [OutcomeUnknown, UnknownSpace, UnknownSpace]
    assert (table.pending, table.writes) == ({}, 0)


def test_an_error_about_the_connection_is_raised():
    with pytest.raises(Refused, match="bad frame"):
        InFlight().deliver((0, 1, {"code": "refused", "message": "bad frame"}))


def test_a_hello_without_database_is_not_the_protocol():
    with pytest.raises(InvalidEncoding):
        InFlight().resume({"protocol": 1})


@pytest.mark.parametrize(
    "write, sent, says", [(True, True, "may or may not"), (True, False, "not sent"), (False, True, "no answer")]
)
def test_a_timeout_says_what_is_known(write, sent, says):
    error = timed_out(enter(InFlight(), write=write, sent=sent))
    assert isinstance(error, Timeout)
    assert says in error.message
    assert error.token is None


# -- an older daemon ---------------------------------------------------------------------------------------------


def test_what_the_daemon_does_not_know_is_not_sent():
    table = InFlight()
    table.resume({**ONE, "version": "0.1.0"})
    with pytest.raises(InvalidRequest, match=r"\(version 0.1.0\) does not know reverse of scan yet: upgrade it"):
        table.admit(Pending("scan", {"reverse": True}), is_write=False)
    enter(table)
    assert len(table.pending) == 1
    table.resume({**ONE, "version": "0.2.0", "features": [*FEATURES]})
    table.admit(Pending("scan", {"reverse": True}), is_write=False)


def test_a_daemon_that_came_back_older_is_not_sent_again_what_it_does_not_know():
    table = InFlight()
    table.resume({**ONE, "features": [*FEATURES]})
    read, written, waiting = (Pending(name, {}) for name in ("get_many", "touch", "touch"))
    for pending in (read, written, waiting):
        table.admit(pending, is_write=pending is not read)
        pending.sent = pending is not waiting
    plain = enter(table)
    assert table.resume(ONE) == [read, written, waiting]
    assert [type(pending.error) for pending in (read, written, waiting)] == [
        InvalidRequest,
        OutcomeUnknown,
        InvalidRequest,
    ]
    assert [*table.pending.values()] == [plain]
