"""What a client has seen and done, and what it asks of a daemon that may not have it."""

from __future__ import annotations

import msgpack
import pytest

from crdtsync.causality import Writer
from crdtsync.client.protocol.frames import POINT
from crdtsync.client.protocol.in_flight import InFlight, Pending
from crdtsync.client.protocol.seen_point import Horizon
from crdtsync.errors import InvalidRequest
from crdtsync.wire.tokens import decode_token, encode_token

HELLO = {"database": b"1" * 16}


def token(space="default", epoch=0, **heads):
    return encode_token([(space, epoch, {Writer(ord(name)): seq for name, seq in heads.items()})])


def vector(text, space="default"):
    return {chr(writer): seq for writer, seq in decode_token(text)[space][1].items()}


@pytest.fixture
def horizon():
    return Horizon(clock=lambda: 0.0)


def needed(horizon, operation="get", deadline=float("inf"), **arguments):
    horizon.prepare(operation, arguments, deadline)
    return arguments.get("need")


def test_a_client_that_has_seen_nothing_needs_nothing(horizon):
    assert (horizon.token(), needed(horizon)) == (None, None)
    horizon.moved()
    assert needed(horizon) is None


def test_what_the_daemon_tells_replaces_what_it_told_before(horizon):
    horizon.told("default", token(a=1, b=2))
    horizon.told("default", token(a=7))
    assert vector(horizon.token()) == {"a": 7}
    assert needed(horizon) is None


def test_elsewhere_all_of_it_is_needed_until_an_answer_has_come(horizon):
    horizon.told("default", token(a=7))
    horizon.moved()
    arguments: dict[str, object] = {"key": "k"}
    horizon.prepare("get", arguments, float("inf"))
    assert arguments["need"] == token(a=7)
    horizon.told("default", token(a=2, c=3))  # a point that says nothing of what is needed: both are kept
    assert vector(horizon.token()) == {"a": 7, "c": 3}
    assert needed(horizon) == token(a=7)
    horizon.done("get", arguments, None)
    assert needed(horizon) is None
    horizon.told("default", token(c=9))
    assert vector(horizon.token()) == {"c": 9}


def test_an_answer_that_was_not_asked_for_it_confirms_nothing(horizon):
    horizon.told("default", token(a=7))
    horizon.moved()
    horizon.done("get", {"key": "k"}, None)
    assert needed(horizon) == token(a=7)


@pytest.mark.parametrize("operation", ["explain", "status", "unwatch", "wait"])
def test_what_shows_nothing_of_a_space_needs_nothing(horizon, operation):
    horizon.add(token(a=1))
    assert needed(horizon, operation) is None


def test_an_explanation_confirms_nothing(horizon):
    """It is answered whatever the daemon lacks: what follows it must still ask for that."""
    horizon.add(token(a=7))
    horizon.moved()
    arguments = {"key": "k"}
    assert not horizon.prepare("explain", arguments, float("inf"))
    horizon.done("explain", arguments, {"values": []})
    assert needed(horizon) == token(a=7)


def test_each_space_is_a_point_of_its_own(horizon):
    horizon.add(token(a=1))
    horizon.add(token("other", b=2))
    assert (needed(horizon), needed(horizon, space="other"), needed(horizon, space="third")) == (
        token(a=1),
        token("other", b=2),
        None,
    )
    assert decode_token(horizon.token()) == {"default": (0, {97: 1}), "other": (0, {98: 2})}


def test_of_two_epochs_the_later_counts(horizon):
    horizon.add(token(epoch=1, a=9))
    horizon.add(token(epoch=2, b=1))
    horizon.add(token(epoch=1, c=5))
    assert decode_token(horizon.token()) == {"default": (2, {98: 1})}


def test_a_write_counts_with_its_token_also_when_it_is_answered_late(horizon):
    horizon.done("set", {"n": 1}, {"token": token(a=5)})
    assert vector(horizon.token()) == {"a": 5}
    horizon.done("set", {"n": 2, "w": 2}, {"token": token(a=3)})
    assert vector(horizon.token()) == {"a": 5}
    horizon.failed({"n": 3, "w": 2}, {"code": "timeout", "token": token(a=6)})
    assert vector(horizon.token()) == {"a": 6}
    horizon.failed({"token": token(z=1), "w": 2}, {"code": "timeout", "token": token(z=1)})
    assert vector(horizon.token()) == {"a": 6}, "what was waited for in vain was not seen"


def test_a_read_that_is_refused_shows_what_it_was_refused_for(horizon):
    horizon.told("default", token(a=1))
    horizon.failed({"key": "k"}, {"code": "unresolved", "current": None, "token": token(b=6)})
    assert vector(horizon.token()) == {"a": 1, "b": 6}


def test_what_was_waited_for_counts_as_seen(horizon):
    horizon.done("set", {"n": 1}, {"token": token(a=5)})
    horizon.done("wait", {"token": token(b=2)}, {"nodes": 1})
    assert vector(horizon.token()) == {"a": 5, "b": 2}


def test_what_watches_have_shown_counts_as_seen(horizon):
    for number in range(40):
        horizon.watched(None, number, token(a=number + 1))
    horizon.watched("other", 1, token("other", c=1))
    assert decode_token(horizon.token()) == {"default": (0, {97: 40}), "other": (0, {99: 1})}
    assert vector(horizon.need(None, token(b=3))) == {"a": 40, "b": 3}


def test_an_answer_that_was_on_its_way_meanwhile_says_nothing_of_what_was_watched():
    """Only what is asked after that is told by who has shown it already."""
    table = InFlight()
    table.resume(HELLO)
    requests = [Pending("get", {"key": "k"}) for _ in range(2)]
    table.admit(requests[0], is_write=False)
    table.horizon.watched(None, 1, token(a=9))
    assert vector(table.horizon.token()) == {"a": 9}
    table.admit(requests[1], is_write=False)
    table.deliver((requests[0].id, POINT, ["default", token(a=5, b=1)]))
    assert vector(table.horizon.token()) == {"a": 9, "b": 1}
    table.deliver((requests[1].id, POINT, ["default", token(c=3)]))
    assert vector(table.horizon.token()) == {"c": 3}


def test_the_daemon_gives_up_when_the_time_is_over_and_the_client_waits_for_its_word(horizon):
    horizon.add(token(a=1))
    for deadline, given, wanted in ((10.0, None, 10_000), (1.0, None, 1000), (10.0, 3000, 3000)):
        arguments: dict[str, object] = {} if given is None else {"timeout": given}
        horizon.prepare("get", arguments, deadline)
        assert arguments["timeout"] == wanted


def test_what_is_no_token_is_refused_at_once():
    with pytest.raises(InvalidRequest, match="is not a token"):
        Horizon(after="c1.nonsense")


def test_requests_in_flight_are_sent_again_with_what_they_need():
    table = InFlight()
    table.resume(HELLO)
    pending = Pending("get", {"key": "k"})
    table.admit(pending, is_write=False)
    assert table.deliver((pending.id, POINT, ["default", token(a=4)])) is None
    later = Pending("get", {"key": "j"})
    table.admit(later, is_write=False)
    table.deliver((pending.id, 0, None))
    table.resume(HELLO)
    (frame,) = table.replay()
    assert msgpack.unpackb(frame[4:])[2] == {"key": "j", "need": token(a=4)}


def test_forgetting(horizon):
    horizon.add(token(a=1))
    horizon.forget()
    horizon.moved()
    assert (horizon.token(), needed(horizon)) == (None, None)
