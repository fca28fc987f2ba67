"""The node keeps its order: persist, then let out; and when the disk refuses, memory goes back to what is on it."""

from __future__ import annotations

import pytest
from pycrdt import Doc, Text

from crdtsync.core.interface import AgentFrame, AgentOpened, DiskSpace, Now, PeerFrame
from crdtsync.core.sync.acks import ACK_PATIENCE_S
from crdtsync.errors import NoSpace
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.framing import FrameReader
from crdtsync.wire.limits import AGENT_FRAME_BYTES_MAX
from crdtsync.wire.peer.changes import Ack, Changes
from crdtsync.wire.peer.messages import type_of
from tests.fleet.agent import Agent, Refusal
from tests.fleet.stranger import Stranger
from tests.unit.core.sync.test_sync import chain

FULL = NoSpace("this could not be stored, and was not done: the disk is full")


def edit(text, word):
    """The update of a document that holds ``text`` and gets ``word`` at its end."""
    doc: Doc[Text] = Doc()
    doc.get("text", type=Text).insert(0, text)
    before = doc.get_state()
    doc.get("text", type=Text).insert(len(text), word)
    return doc.get_update(before) if text else doc.get_update()


# -- the order -------------------------------------------------------------------------------------------------------


def test_replies_and_sends_come_with_what_they_show(pair):
    """One Ready carries the rows, the reply and the message to the peer: none of them can leave without the rows."""
    a = pair["a"]
    ann = a.agent("ann")
    ann.write("set", key="k", value=pack(1))
    ready = a.node.ready()
    assert [row.seq for row in ready.persist.changes] == [1]
    assert [reply.conn for reply in ready.replies] == [ann.conn]
    assert len(ready.sends) == 1


def test_a_turn_without_news_persists_nothing(node):
    node.turn()
    node.agent("ann").get("k")
    assert not node.turn().persist
    commits = node.store.commits
    node.turn()
    assert node.store.commits == commits


def test_a_read_is_answered_at_once_while_nothing_waits_for_the_disk(node):
    ann = node.agent("ann")
    ann.set("k", 1)
    node.turn()
    assert node.node.deadline_s() is not None
    read = ann.send("get", key="k")
    assert node.node.is_calm
    (reply,) = node.node.take_replies()
    node.sessions[ann.conn].received(reply.data)
    assert unpack(ann.result(read)["value"]) == 1
    ann.write("set", key="k", value=pack(2))
    assert not node.node.is_calm
    ann.send("get", key="k")  # it is shown what is not on disk yet, so it waits for that
    assert not node.node.is_calm
    assert len(node.turn().replies) == 2
    assert node.node.is_calm  # a short turn leaves nothing to be done
    node.agent("ben")
    node.turn()
    assert not node.node.is_calm  # until somebody has asked when to go on


@pytest.mark.parametrize("w", [None, 2])
def test_an_acknowledgement_takes_a_turn_only_where_somebody_waits_for_it(pair, w):
    a = pair["a"]
    ann = a.agent("ann")
    pair.sync()
    ann.write("set", key="k", value=pack(1), **({} if w is None else {"w": w}))
    a.turn()
    (wire,) = pair.wires
    wire.deliver(pair["b"])
    pair["b"].turn()
    a.node.deadline_s()
    if w is None:
        assert wire.deliver(a) == 0, "to one who is patient several things are acknowledged at once"
        pair.pass_time(ACK_PATIENCE_S)
        ((_, ack),) = pair["b"].node.acknowledge(pair.now)
        assert type_of(ack) == Ack.TYPE
        wire.put(pair["b"], ack)
        assert pair["b"].node.ack_due_s is None
        a.node.deadline_s()
    assert wire.deliver(a) == 1
    assert a.node.is_calm == (w is None)


def test_a_read_does_not_put_off_what_is_due(node):
    ann = node.agent("ann")
    ann.set("k", 1)
    node.turn()
    due_s = node.node.deadline_s()
    node.fleet.now = Now(node.now.wall_ms, due_s)
    ann.send("get", key="k")
    assert not node.node.is_calm


def test_many_writes_are_one_commit(node):
    ann = node.agent("ann")
    commits = node.store.commits
    for n in range(50):
        ann.write("set", key=f"k{n}", value=pack(n))
    node.turn()
    assert node.store.commits == commits + 1
    assert node.replica.vector == {node.replica.writer: 50}


def test_a_reader_of_the_same_turn_sees_the_write_before_it(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    ann.write("set", key="k", value=pack(1))
    request = bob.send("get", key="k")
    node.turn()
    assert bob.result(request)["value"] == pack(1)


def test_a_restart_resumes_everything(node):
    ann = node.agent("ann")
    ann.set("k", 1)
    ann.append("log", "x")
    ann.do("text_apply", key="t", update=edit("", "hello"))
    before = (node.replica.writer, node.replica.vector.copy(), node.replica.entries.digest, node.replica.clock.last)
    node.restart()
    assert (node.replica.writer, node.replica.vector, node.replica.entries.digest, node.replica.clock.last) == before
    bob = node.agent("bob")
    assert (bob.get("k"), bob.get("log"), bob.get("t")) == (1, ["x"], "hello")
    bob.set("k", 2)
    assert node.replica.vector == {before[0]: 4}


# -- the disk refuses ------------------------------------------------------------------------------------------------


def test_a_refused_commit_is_not_done_and_says_so(node):
    ann = node.agent("ann")
    ann.set("k", 1)
    before = (node.replica.vector.copy(), node.replica.entries.digest)
    requests = [ann.write("set", key="k", value=pack(2)), ann.write("append", key="log", value=pack(1))]
    node.refuse(FULL)
    for request in requests:
        with pytest.raises(Refusal, match="not done") as refusal:
            ann.result(request)
        assert refusal.value.code == "no_space"
    assert (node.replica.vector, node.replica.entries.digest) == before
    assert (ann.get("k"), ann.get("log")) == (1, None)
    ann.set("k", 3)
    assert node.replica.vector == {node.replica.writer: 2}
    node.restart()
    assert node.agent().get("k") == 3


def test_a_refused_text_edit_leaves_the_text_as_it_was(node):
    ann = node.agent("ann")
    document = ann.do("text_apply", key="t", update=edit("", "hello"))["document"]
    ann.write("text_apply", key="t", document=document, update=edit("", " world"))
    node.refuse(FULL)
    assert ann.get("t") == "hello"


def test_a_refused_commit_sends_nothing_and_peers_start_over(pair):
    a, b = pair["a"], pair["b"]
    ann = a.agent("ann")
    ann.write("set", key="k", value=pack(1))
    ready = a.refuse(FULL)
    assert ready.sends == []
    assert pair.wires == []
    pair.link("a", "b")
    pair.sync()
    assert b.replica.vector == {}
    ann.set("k", 2)
    pair.sync()
    assert b.agent().get("k") == 2


@pytest.mark.parametrize("is_patient", [False, True])
def test_turns_between_a_refused_commit_and_the_end_of_its_connections(node, is_patient):
    """The driver closes the connections; until they are gone there are more turns."""
    stranger = Stranger(node)
    ann = node.agent("ann")
    stranger.say(Changes("default", 0, [chain(77, 1)[0].body], is_patient))
    node.node.persist_failed(node.node.ready(), FULL)
    node.fleet.pass_time(1.5)
    node.turn()
    ann.set("k", 1)
    node.fleet.pass_time(1.5)
    node.turn()
    stranger.close()
    Stranger(node, node="again").send(*chain(77, 1, key="j"))
    assert node.agent().get("j") == 1


def test_a_retry_of_a_write_that_stands_is_answered_also_if_another_one_is_refused(node):
    ann, bob = node.agent("ann"), node.agent("bob")
    done = ann.append("log", 1)
    request = ann.send("append", key="log", value=pack(1), n=ann.number, again=True)
    other = bob.write("set", key="k", value=pack(1))
    node.refuse(FULL)
    assert ann.result(request)["token"] == done["token"]
    with pytest.raises(Refusal):
        bob.result(other)


def test_a_retry_that_waits_for_others_goes_on_waiting_also_if_another_write_is_refused(node):
    """It is done, on disk, and must not be told that it is not."""
    node.expect_peer()
    ann, bob = node.agent("ann"), node.agent("bob")
    ann.append("log", 1)
    request = ann.send("append", key="log", value=pack(1), n=ann.number, again=True, w=2, timeout=5000)
    bob.write("set", key="k", value=pack(1))
    node.refuse(FULL)
    assert request not in ann.replies
    node.fleet.pass_time(5.1)
    node.turn()
    with pytest.raises(Refusal, match="timeout"):
        ann.result(request)


def test_a_write_that_others_have_by_now_is_answered_also_if_another_one_is_refused(pair):
    """It is done, on both disks, and must not be told that it is not."""
    a, b = pair["a"], pair["b"]
    ann, bob = a.agent("ann"), a.agent("bob")
    request = ann.write("append", key="log", value=pack(1), w=2, timeout=5000)
    a.turn()
    (wire,) = pair.wires
    wire.deliver(b, 100)
    b.turn()
    pair.pass_time(0.1)
    b.turn()
    assert request not in ann.replies
    wire.deliver(a, 100)
    bob.write("set", key="k", value=pack(1))
    a.refuse(FULL)
    assert ann.result(request)["nodes"] == 2


def test_a_retry_in_the_turn_that_is_refused_is_refused(node):
    ann = node.agent("ann")
    ann.write("append", key="log", value=pack(1))
    request = ann.send("append", key="log", value=pack(1), n=ann.number, again=True)
    node.refuse(FULL)
    with pytest.raises(Refusal):
        ann.result(request)
    ann.ask("append", key="log", value=pack(1), n=ann.number, again=True)
    assert ann.get("log") == [1]


def test_waiting_requests_are_refused_with_the_commit(node):
    node.expect_peer()
    ann, bob = node.agent("ann"), node.agent("bob")
    waiting = bob.write("append", key="log", value=pack(1), w=2, timeout=5000)
    ann.write("set", key="k", value=pack(1))
    node.refuse(FULL)
    with pytest.raises(Refusal):
        bob.result(waiting)
    assert bob.get("log") is None


def test_a_write_that_stands_and_waits_for_other_nodes_is_not_said_to_be_undone(node):
    """It was committed long ago; that a later commit fails says nothing about it."""
    node.expect_peer()
    ann, bob = node.agent("ann"), node.agent("bob")
    waiting = ann.write("append", key="log", value=pack(1), w=2, timeout=5000)
    node.turn()
    bob.write("set", key="k", value=pack(1))
    node.refuse(FULL)
    if waiting in ann.replies:
        with pytest.raises(Refusal) as refusal:
            ann.result(waiting)
        assert refusal.value.code == "timeout"
        assert refusal.value.fields["token"]
    assert ann.get("log") == [1]


def test_a_plain_set_may_have_no_more_lists_than_any_value(node):
    ann = node.agent("ann")
    ann.set("k", [])
    with pytest.raises(Refusal, match="65,536 lists and maps"):
        ann.set("k", [[]] * 65_536)
    ann.set("k", [[]] * 65_535)


def test_a_read_only_node_refuses_writes_and_reads_on(node):
    ann = node.agent("ann")
    ann.set("k", 1)
    node.step(DiskSpace("the disk is nearly full: free some space"))
    with pytest.raises(Refusal, match="nearly full"):
        ann.set("k", 2)
    assert ann.get("k") == 1
    assert node.alarms == {"no_space"}
    assert ann.ask("status")["node"]["state"] == "read-only"
    node.step(DiskSpace(""))
    ann.set("k", 3)
    assert node.alarms == set()


# -- bugs ------------------------------------------------------------------------------------------------------------


def test_a_bug_in_one_request_undoes_the_turn_and_hurts_only_its_connection(node, monkeypatch):
    from crdtsync.core.replica import write_operations

    ann, bob = node.agent("ann"), node.agent("bob")
    ann.set("k", 1)
    good = ann.write("set", key="k", value=pack(2))

    def broken(draft, args):
        draft.replica.vector[5] = 99  # half done
        raise RuntimeError("a bug")

    monkeypatch.setitem(write_operations.WRITES, "delete", broken)
    event = AgentFrame(bob.conn, pack([9, "delete", {"key": "k", "n": 1}]))
    with pytest.raises(RuntimeError):
        node.step(event)
    ready = node.node.step_failed(event, "RuntimeError: a bug")
    node.deliver(ready)
    monkeypatch.undo()
    assert bob.closed
    with pytest.raises(Refusal, match="report it"):
        ann.result(good)
    assert not ann.closed
    assert (ann.get("k"), node.replica.vector) == (1, {node.replica.writer: 1})


def test_a_bug_in_a_message_of_a_peer(node, monkeypatch):
    stranger = Stranger(node)
    ann = node.agent("ann")
    monkeypatch.setattr(node.node.sync, "received", lambda *_: 1 / 0)
    event = PeerFrame(stranger.conn, Changes("default", 0, [chain(77, 1)[0].body]).encode())
    with pytest.raises(ZeroDivisionError):
        node.step(event)
    node.deliver(node.node.step_failed(event, "ZeroDivisionError"))
    monkeypatch.undo()
    assert stranger.reason
    assert ann.set("k", 1)


# -- the agents' handshake and frames --------------------------------------------------------------------------------


def raw(node, *payloads):
    """What a fresh connection is answered, as ``(id, status, content)``, and whether it was closed."""
    conn = node.fleet.new_conn()
    node.step(AgentOpened(conn, 0, 0))
    answers = []
    closed = False
    for payload in payloads:
        node.step(AgentFrame(conn, payload if isinstance(payload, bytes) else pack(payload)))
        ready = node.node.ready()
        node.store.commit(ready.persist)
        node.node.advance()
        from crdtsync.wire.codec import unpack

        for reply in ready.replies:
            answers += [unpack(data) for data in FrameReader(AGENT_FRAME_BYTES_MAX).feed(reply.data)]
        closed |= any(closing == conn for closing, _ in ready.agent_closes)
    return answers, closed


HELLO = [1, "hello", {"protocol": 1, "client": bytes(16), "agent": "ann"}]


def test_the_hello_tells_who_the_node_is(node):
    ((request, status, result),), closed = raw(node, HELLO)
    assert (request, status, closed) == (1, 0, False)
    assert result["protocol"] == 1
    assert (result["name"], result["node"], result["database"]) == ("a", node.store.node, node.store.database)


@pytest.mark.parametrize(
    "payload",
    [
        b"\xc1",
        [],
        [1],
        [1, "hello"],
        [0, "hello", {}],
        ["1", "hello", {}],
        [1, 2, {}],
        [1, "get", []],
        5,
        [1, "get", {}, 4],
        [True, "get", {}],
    ],
    ids=repr,
)
def test_a_frame_that_is_no_request_gets_an_error_and_a_closed_connection(node, payload):
    answers, closed = raw(node, HELLO, payload)
    if payload == [True, "get", {}] and not closed:
        return
    assert answers[-1][:2] == [0, 1]
    assert closed


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"protocol": 2, "client": bytes(16), "agent": "ann"},
        {"protocol": 1, "client": b"x", "agent": "ann"},
        {"protocol": 1, "client": bytes(16), "agent": "no\nname"},
        {"protocol": 1, "client": bytes(16)},
        {"protocol": 1, "client": bytes(16), "agent": "ann", "space": "No Space"},
        {"protocol": 1, "client": bytes(16), "agent": "ann", "space": "x" * 100_000},
        {"protocol": 1, "client": bytes(16), "agent": "ann", "space": []},
    ],
    ids=repr,
)
def test_a_hello_that_is_refused(node, args):
    answers, closed = raw(node, [1, "hello", args])
    assert answers[-1][:2] == [1, 1]
    assert closed


def test_nothing_before_the_hello(node):
    answers, _ = raw(node, [1, "get", {"key": "k"}])
    assert answers[-1][:2] == [1, 1]
    assert "hello" in answers[-1][2]["message"]


def test_an_unknown_operation_names_the_known_ones(node):
    with pytest.raises(Refusal, match="append, backup, batch, "):
        node.agent().ask("explode")


def test_a_client_that_attaches_again_closes_its_older_connection(node):
    first = node.agent("ann")
    second = Agent(node, "ann", first.client)
    assert first.closed
    assert second.set("k", 1)
    with pytest.raises(KeyError):
        first.ask("get", key="k")


def test_a_closed_connections_waiting_write_is_not_done_later(pair):
    a, b = pair["a"], pair["b"]
    pair.wires[0].close()
    pair.sync()
    a.agent().set("k", 1)
    version = a.agent().version("k")
    bob = b.agent("bob")
    bob.write("set", key="k", value=pack(2), seen=version, strict=True, timeout=60_000)
    b.turn()
    again = Agent(b, "bob", bob.client)
    pair.link("a", "b")
    pair.run(3)
    assert again.get("k") == 1


def test_a_request_may_name_another_agent_as_author(node):
    ann = node.agent("ann")
    ann.set("k", 1, agent="on-behalf")
    assert ann.ask("entry", key="k")["agent"] == "on-behalf"


def test_status_is_plain_data_about_everything(trio):
    trio["a"].agent("ann").set("k", 1)
    trio.run(2)
    status = trio["b"].agent("bob").ask("status")
    (space,) = status["spaces"]
    assert (space["keys"], space["entries"], space["siblings"], space["pending_changes"]) == (1, 1, 0, 0)
    assert {peer["name"]: (peer["state"], peer["behind"], peer["ahead"]) for peer in status["peers"]} == {
        name: ("connected", {"default": 0}, {"default": 0}) for name in "ac"
    }
    assert [agent["name"] for agent in status["agents"]] == ["bob"]
    assert status["alarms"] == []
