"""What a session has seen goes along with it: ``need`` on its requests, and the points that it is told."""

from __future__ import annotations

import pytest

from crdtsync.causality import Dot, Writer
from crdtsync.core.waiting.missing_changes import UNHEARD, UNHEARD_WAIT_S
from crdtsync.wire.codec import pack
from crdtsync.wire.tokens import Version, decode_token, encode_token, encode_version
from tests.fleet.agent import Refusal
from tests.fleet.fleet import fleet_of


def waits(session, request):
    session.machine.turn()
    return request not in session.replies


@pytest.mark.parametrize(
    "operation, args",
    [("get", {"key": "k"}), ("scan", {}), ("set", {"key": "k", "value": pack(2), "n": 1}), ("watch", {})],
)
def test_whatever_is_asked_for_waits_until_what_the_session_has_seen_is_here(apart, operation, args):
    token = apart["a"].agent().set("k", 1)["token"]
    bob = apart["b"].agent()
    request = bob.send(operation, need=token, timeout=60_000, **args)
    assert waits(bob, request)
    apart.link("a", "b")
    apart.sync()
    assert not waits(bob, request)
    bob.result(request)


def test_a_write_that_waited_comes_after_what_its_author_had_read(apart):
    token = apart["a"].agent().set("question", 1)["token"]
    request = apart["b"].agent().write("set", key="answer", value=pack(2), need=token, timeout=60_000)
    apart.link("a", "b")
    apart.sync()
    answer = next(iter(apart["b"].sessions.values())).result(request)["token"]
    cat = apart["c"].agent()
    asked = cat.send("get", key="question", after=answer, timeout=60_000)
    apart.link("b", "c")
    apart.sync()
    assert cat.result(asked)["value"] == pack(1)


def test_what_is_missing_is_named_when_time_is_over(apart):
    ann = apart["a"].agent()
    ann.set("j", 1)
    token = ann.set("k", 1)["token"]
    apart["b"].agent().set("other", 1)
    apart.link("b", "c")
    apart.sync()
    bob = apart["b"].agent()
    request = bob.write("set", key="k", value=pack(2), need=token, timeout=1000)
    apart.pass_time(1.1)
    apart["b"].turn()
    with pytest.raises(
        Refusal,
        match=r"b did not get in time .* 2 changes of a writer never heard of here .*another fleet.*; nothing was done",
    ) as caught:
        bob.result(request)
    assert caught.value.code == "timeout"
    assert list(caught.value.fields["missing"].values()) == [2]
    assert bob.get("k") is None


@pytest.mark.parametrize("of", ["need", "after", "if_version", "seen"])
def test_what_is_of_no_node_known_is_not_waited_for_for_long(of):
    """As long as every node that is known can be reached: it may be on its way."""
    with fleet_of("a", "b", "c") as fleet:
        fleet["a"].agent().set("k", 0)
        fleet.link("b", "c")
        fleet.sync()
        foreign = {"need": encode_token([("default", 0, {Writer(77): 1})]), "if_version": "v", "seen": "v"}
        args = {of: foreign.get(of, foreign["need"])}
        if args[of] == "v":
            args = {of: encode_version(Version((Dot(Writer(77), 1, 0),))), "strict": of == "seen"}

        def asked(machine):
            session = machine.agent()
            if of in ("need", "after"):
                return session, session.send("get", key="k", timeout=60_000, **args)
            return session, session.write("set", key="k", value=pack(1), timeout=60_000, **args)

        session, request = asked(fleet["b"])
        fleet.run(UNHEARD_WAIT_S - 0.5)
        assert waits(session, request)
        fleet.run(1.0)
        with pytest.raises(Refusal, match="another fleet") as refusal:
            session.result(request)
        assert refusal.value.fields["missing"] == {UNHEARD: 1}
        # One that is known is away: it may be hers.
        fleet.link("a", "b")
        fleet.sync()
        session, request = asked(fleet["b"])
        fleet.wires[-1].close()
        fleet.run(UNHEARD_WAIT_S + 1)
        assert waits(session, request)


def test_points_are_told_only_to_those_who_ask_and_only_when_they_change(node):
    ann, bob = node.agent(points=True), node.agent()
    ann.set("k", 1)
    for session in (ann, bob):
        for _ in range(3):
            session.get("k")
            session.ask("scan")
    assert bob.points == []
    ((request, space, token),) = ann.points
    assert (request, space) == (3, "default")
    assert decode_token(token)["default"][1] == node.replica.vector
    bob.set("k", 2)
    assert ann.get("k") == 2
    assert len(ann.points) == 2


def test_a_point_is_told_before_the_answer_that_it_belongs_to(node):
    order = []
    ann = node.agent(points=True)
    received = ann.received

    def noted(data):
        received(data)
        order.append((len(ann.points), ann.request_last in ann.replies))

    ann.received = noted
    ann.get("k")
    assert order == [(1, False), (1, True)]


def test_a_point_is_short_and_still_covers_all(trio):
    for name in "abc":
        trio[name].agent(name).set(name, 1)
    trio.run(1)
    ann = trio["a"].agent(points=True)
    ann.get("a")
    _, _, before = ann.points[-1]
    assert len(decode_token(before)["default"][1]) == 3
    ann.set("a", 2)
    ann.get("a")
    _, _, after = ann.points[-1]
    assert decode_token(after)["default"][1] == {trio["a"].replica.writer: 2}
    cat = trio["c"].agent()
    request = cat.send("wait", token=after, timeout=60_000)
    trio.run(1)
    cat.result(request)
    assert [cat.get(key) for key in "abc"] == [2, 1, 1]


def test_a_point_that_could_not_be_told_is_told_again(node):
    ann, bob = node.agent(points=True), node.agent()
    bob.set("k", 1)
    bob.write("set", key="k", value=pack(2))
    request = ann.send("get", key="k")
    from crdtsync.errors import NoSpace

    node.refuse(NoSpace("full"))
    with pytest.raises(Refusal):
        ann.result(request)
    ann.points.clear()
    bob.set("k", 3)  # under the number of the write that failed
    ann.get("k")
    assert decode_token(ann.points[-1][2])["default"][1] == node.replica.vector


def test_a_failed_condition_tells_its_point_too(node):
    ann = node.agent()
    ann.set("k", 1)
    with pytest.raises(Refusal) as refusal:
        ann.set("k", 2, if_absent=True)
    assert decode_token(refusal.value.fields["token"])["default"][1] == node.replica.vector
    assert refusal.value.fields["key"] == "k"


@pytest.mark.parametrize("kind", ["register", "map"])
def test_whatever_is_refused_for_what_there_is_tells_of_which_key_and_its_point(node, kind):
    ann = node.agent()
    ann.do("schema_set", pattern="k", policy="manual")
    operation, what = ("set", {"value": pack(1)}) if kind == "register" else ("merge", {"fields": {"f": pack(1)}})
    ann.do(operation, key="k", **what)
    gone = ann.ask("entry", key="k")
    for seen in (gone["version"], "?", "?"):
        ann.do(operation, key="k", seen=seen, **what)
    ann.set("later", 1)
    requests = [
        ann.send("get" if kind == "register" else "fields", key="k"),
        ann.write(operation, key="k", if_absent=True, **what),
        ann.write("resolve", key="k", take=gone["dot"]),
        ann.write("resolve", key="k", take=f"{node.replica.writer + 1}.1.0"),
    ]
    ann.machine.turn()
    for request in requests:
        with pytest.raises(Refusal) as refusal:
            ann.result(request)
        assert refusal.value.fields["key"] == "k"
        assert refusal.value.fields["current"]["siblings"]
        assert decode_token(refusal.value.fields["token"])["default"][1] == node.replica.vector


def test_points_of_an_earlier_epoch(node):
    """The space was dropped since: what was seen of it is gone for good, and its tokens name nothing any more."""
    ann = node.agent()
    old = ann.set("k", 1)["token"]
    node.replica.epoch = 1
    assert ann.get("k", need=old) == 1
    for operation, args in (("get", {"key": "k", "after": old}), ("wait", {"token": old})):
        with pytest.raises(Refusal, match="which was dropped since") as refusal:
            ann.ask(operation, **args)
        assert refusal.value.code == "too_old"
    ann.ask("watch", after=old)
    node.turn()
    assert [event["event"] for event in ann.told()] == ["reset", "snapshot", "snapshot"]


@pytest.mark.parametrize("argument", ["need", "after"])
def test_points_of_a_later_epoch(node, argument):
    ann = node.agent()
    token = encode_token([("default", 7, {})])
    with pytest.raises(Refusal, match="has not heard yet") as refusal:
        ann.ask("get", key="k", **{argument: token})
    assert refusal.value.code == "timeout"


def test_a_token_of_several_spaces_counts_for_each_alone(node):
    ann = node.agent()
    writer, seq = next(iter(decode_token(ann.set("k", 1)["token"])["default"][1].items()))
    both = encode_token([("default", 0, {writer: seq}), ("elsewhere", 3, {writer: 17})])
    assert ann.get("k", need=both) == 1


def test_the_token_of_a_write_that_found_nothing_to_do_covers_what_it_looked_at(trio):
    trio["b"].agent().set("k", 1)
    trio.run(1)
    ann = trio["a"].agent()
    result = ann.do("delete", key="other")
    assert not result["existed"]
    assert decode_token(result["token"])["default"][1] == trio["a"].replica.vector != {}


@pytest.mark.parametrize("number", [None, "1", -1, 2**63])
def test_a_write_has_a_number_that_can_be_kept(node, number):
    ann = node.agent()
    with pytest.raises(Refusal, match="a write needs n"):
        ann.ask("append", key="k", value=pack(1), n=number)
    assert ann.get("k") is None
