"""Two branches of one writer: one keeps its numbers, the other gets new names, and nothing counts twice or is lost."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from crdtsync.core import heal_forks
from crdtsync.core.peers.peer_state import Link
from crdtsync.core.replica import fork_healing
from crdtsync.errors import NoSpace
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.peer.comparing import Chain
from tests.fleet.agent import Agent
from tests.fleet.clones import clone, meet, part
from tests.fleet.editor import Editor
from tests.fleet.fleet import fleet_of
from tests.fleet.host import Host
from tests.simulator.forks import run_forks


@pytest.fixture
def fleet():
    with fleet_of("a", "c") as made:
        yield made


def append(machine: Host, *values) -> None:
    agent = machine.agent()
    for value in values:
        agent.append("log", value)


def log(machine: Host) -> list[Any]:
    return machine.agent().get("log") or []


def get(machine: Host, key: str):
    return machine.agent().get(key)


def check_agree(*machines: Host) -> None:
    assert len({(str(sorted(m.replica.vector.items())), m.replica.entries.digest) for m in machines}) == 1
    assert not {"fork", "divergence"} & set().union(*(machine.alarms for machine in machines))
    assert not any(len(machine.replica.gate) for machine in machines)


def test_a_copied_disk_heals(fleet):
    a = fleet["a"]
    append(a, *range(5))
    b = clone(fleet, "a", "b")
    append(a, "a0", "a1", "a2")
    append(b, "b0", "b1")
    assert a.replica.vector.keys() == b.replica.vector.keys()
    meet(fleet, ("a", "b"))
    check_agree(a, b)
    assert sorted(map(str, log(a))) == sorted(map(str, [*range(5), "a0", "a1", "a2", "b0", "b1"]))
    assert log(a) == log(b)
    assert sum("fork_healed" in machine.alarms for machine in (a, b)) == 1


def test_a_counter_counts_what_both_branches_counted(fleet):
    a = fleet["a"]
    agent = a.agent()
    agent.do("incr", key="n", by=10)
    agent.do("incr", key="only/a", by=3)
    agent.do("incr", key="only/b", by=4)
    b = clone(fleet, "a", "b")
    for by in (1, 2):
        a.agent().do("incr", key="n", by=by)
    for by in (5, -7):
        b.agent().do("incr", key="n", by=by)
    a.agent().do("incr", key="only/a", by=1)
    b.agent().do("incr", key="only/b", by=1)
    b.agent().do("incr", key="new", by=2)
    a.agent().do("incr", key="new", by=2)
    meet(fleet, ("a", "b"))
    check_agree(a, b)
    for machine in (a, b):
        assert [get(machine, key) for key in ("n", "only/a", "only/b", "new")] == [11, 4, 5, 4]
        machine.agent().do("incr", key="n", by=100)
    meet(fleet, ("a", "b"))
    check_agree(a, b)
    assert get(a, "n") == get(b, "n") == 211


@pytest.mark.parametrize("who", [(0,), (1,), (0, 1)])
def test_a_reset_on_a_branch_takes_off_what_it_saw(fleet, who):
    a = fleet["a"]
    a.agent().do("incr", key="n", by=10)
    b = clone(fleet, "a", "b")
    for machine, by in ((a, 2), (b, 5)):
        machine.agent().do("incr", key="n", by=by)
    for number in who:
        (a, b)[number].agent().do("reset", key="n")
    meet(fleet, ("a", "b"))
    check_agree(a, b)
    assert get(a, "n") == get(b, "n") == {(0,): 5, (1,): 2, (0, 1): 0}[who]


def test_what_one_branch_overwrote_or_deleted_is_as_if_two_hosts_had(fleet):
    a = fleet["a"]
    for key in ("both", "by/a", "by/b", "gone/a", "gone/b", "gone/both"):
        a.agent().set(key, "old")
    b = clone(fleet, "a", "b")
    for name, machine in (("a", a), ("b", b)):
        agent = machine.agent(name)
        agent.get("both")
        agent.set("both", name)
        agent.set(f"by/{name}", name)
        agent.delete(f"gone/{name}")
        agent.delete("gone/both")
    meet(fleet, ("a", "b"))
    check_agree(a, b)
    for machine in (a, b):
        agent = machine.agent()
        assert sorted(agent.values("both")) == ["a", "b"]
        assert [agent.values(f"by/{name}") for name in "ab"] == [["a"], ["b"]]
        assert [agent.get(f"gone/{which}") for which in ("a", "b", "both")] == [None] * 3


def test_texts_that_both_branches_edited_keep_both_edits(fleet):
    a = fleet["a"]
    Editor(a).append("one ")
    b = clone(fleet, "a", "b")
    for name, machine in (("a", a), ("b", b)):
        editor = Editor(machine)
        editor.read()
        editor.edit(0, 0, f"{name} ")
        own = Editor(machine, f"of/{name}")
        own.append("new")
        own.append("er")
    meet(fleet, ("a", "b"))
    check_agree(a, b)
    for machine in (a, b):
        assert sorted(Editor(machine).read().split()) == ["a", "b", "one"]
        assert [Editor(machine, f"of/{name}").read() for name in "ab"] == ["newer"] * 2
    assert Editor(a).read() == Editor(b).read()
    editor = Editor(a)
    editor.read()
    editor.append("!")
    meet(fleet, ("a", "b"))
    assert Editor(a).read() == Editor(b).read() != ""


def test_a_text_that_one_branch_made_and_deleted_and_one_that_it_compacted(fleet):
    a = fleet["a"]
    Editor(a, "long").append("word " * 20)
    b = clone(fleet, "a", "b")
    for name, machine in (("a", a), ("b", b)):
        editor = Editor(machine, "long")
        editor.read()
        editor.edit(0, 5, f"{name} ")
        editor.compact()
        editor.read()
        editor.append(f"{name}!")
        Editor(machine, f"of/{name}").append("gone")
        machine.agent().delete(f"of/{name}")
    meet(fleet, ("a", "b"))
    check_agree(a, b)
    text = Editor(a, "long").read()
    assert text == Editor(b, "long").read()
    assert "a!" in text
    assert "b!" in text
    assert text.count("word") == 19
    assert [get(machine, f"of/{name}") for machine in (a, b) for name in "ab"] == [None] * 4


@pytest.mark.parametrize("reverse", [False, True])
def test_what_others_built_on_a_branch_moves_with_it_on_every_node(fleet, reverse):
    """Hosts c and d follow one branch each, and write on it; then all meet, in either order."""
    a, c = fleet["a"], fleet["c"]
    d = fleet.add("d")
    append(a, 0)
    b = clone(fleet, "a", "b")
    meet(fleet, ("a", "c"))
    for name, machine, follower in (("a", a, c), ("b", b, d)):
        append(machine, f"{name}0")
        machine.agent().do("incr", key="n", by=1)
        meet(fleet, (machine.name, follower.name))
        append(follower, f"{follower.name}0")
        follower.agent().do("incr", key="n", by=10)
        meet(fleet, (machine.name, follower.name))
        append(machine, f"{name}1")
    pairs = [("a", "b"), ("c", "d"), ("a", "d"), ("b", "c"), ("a", "c"), ("b", "d")]
    for pair in pairs[::-1] if reverse else pairs:
        meet(fleet, pair)
    meet(fleet, *pairs)
    check_agree(a, b, c, d)
    for machine in (a, b, c, d):
        assert sorted(map(str, log(machine))) == sorted(["0", "a0", "b0", "c0", "d0", "a1", "b1"])
        assert get(machine, "n") == 22


def test_three_copies_heal(fleet):
    a = fleet["a"]
    append(a, 0)
    copies = [clone(fleet, "a", name) for name in ("b", "d")]
    hosts = [a, *copies]
    for machine in hosts:
        append(machine, f"{machine.name}0", f"{machine.name}1")
        machine.agent().do("incr", key="n", by=5)
    meet(fleet, ("a", "b"))
    meet(fleet, ("b", "d"), ("a", "d"), ("a", "b"))
    check_agree(*hosts)
    assert all(sorted(map(str, log(m))) == ["0", "a0", "a1", "b0", "b1", "d0", "d1"] for m in hosts)
    assert all(get(machine, "n") == 15 for machine in hosts)


def test_a_fork_far_back_is_found_in_few_messages(fleet):
    a = fleet["a"]
    append(a, *range(150))
    b = clone(fleet, "a", "b")
    append(a, *(f"a{n}" for n in range(150)))
    append(b, *(f"b{n}" for n in range(3)))
    a.restart()
    b.restart()
    meet(fleet, ("a", "b"))
    check_agree(a, b)
    assert len(log(a)) == 303


def loser(*machines: Host) -> Host:
    """The one of two whose branch will get new names."""
    writer = machines[0].replica.writer
    assert writer is not None

    def hash_of(machine: Host, seq: int) -> bytes:
        return machine.replica.short_hash(writer, seq) or b""

    seq = next(n for n in range(1, 100) if len({hash_of(machine, n) for machine in machines}) > 1)
    return max(machines, key=lambda machine: hash_of(machine, seq))


def test_a_crash_between_taking_back_and_writing_anew_loses_nothing(fleet, monkeypatch):
    a = fleet["a"]
    append(a, 0)
    b = clone(fleet, "a", "b")
    append(a, "a0", "a1")
    append(b, "b0", "b1")
    host = loser(a, b)
    commit = host.store.commit

    def cut(batch, *rest):
        commit(batch, *rest)
        if batch.rewinds:
            raise KeyboardInterrupt

    monkeypatch.setattr(host.store, "commit", cut)
    with pytest.raises(KeyboardInterrupt):
        meet(fleet, ("a", "b"))
    host.restart()
    assert len(log(host)) == 4
    meet(fleet, ("a", "b"))
    check_agree(a, b)
    assert sorted(map(str, log(a))) == ["0", "a0", "a1", "b0", "b1"]
    host.restart()
    assert len(log(host)) == 5


class Hasty(Agent):
    """It does not wait for its welcome."""

    def ask(self, operation, **args):
        return self.send(operation, **args)


@pytest.fixture
def long_fork(fleet, monkeypatch):
    """Who has to move a branch of some slices; what the test gives is called after each turn of it."""
    monkeypatch.setattr(fork_healing, "SLICE_ROWS", 4)
    a = fleet["a"]
    append(a, "before")
    b = clone(fleet, "a", "b")
    append(a, *(f"a{n}" for n in range(20)))
    append(b, *(f"b{n}" for n in range(20)))
    host = loser(a, b)

    def after_each_turn(do):
        deliver = host.deliver

        def delivered(ready):
            deliver(ready)
            do(host, host.node.fork_healing)

        monkeypatch.setattr(host, "deliver", delivered)
        return fleet, a, b

    return after_each_turn


def check_all_there(*machines: Host) -> None:
    check_agree(*machines)
    assert sorted(log(machines[0])) == sorted(["before", *(f"{name}{n}" for name in "ab" for n in range(20))])


def test_others_are_served_while_a_branch_is_looked_through(long_fork):
    answered: list[int] = []

    def write(host, healing):
        if healing.is_put_off and not agent.closed:
            answered.append(len(agent.replies))
            agent.write("incr", key="n", by=1)

    fleet, a, b = long_fork(write)
    agent = loser(a, b).agent("other")
    meet(fleet, ("a", "b"))
    assert len({*answered}) > 4
    check_all_there(a, b)
    assert get(a, "n") == get(b, "n") == agent.number


def test_who_asks_while_moved_changes_are_applied_waits_for_all_of_them(long_fork):
    asked: list[tuple[Hasty, int]] = []
    turns: list[int] = []

    def ask(host, healing):
        if healing.is_finishing:
            turns.append(len(turns))
            if not asked:
                agent = Hasty(host, "hasty")
                asked.append((agent, agent.send("get", key="log")))
            assert not asked[0][0].replies

    fleet, a, b = long_fork(ask)
    mine = set(log(loser(a, b)))
    meet(fleet, ("a", "b"))
    assert len(turns) > 4
    ((agent, request),) = asked
    assert mine < set(unpack(agent.result(request)["value"]))
    check_all_there(a, b)


def test_what_has_waited_is_taken_in_some_a_turn_and_in_its_order(long_fork, monkeypatch):
    monkeypatch.setattr(heal_forks, "WAITING_EVENTS_MAX", 100)
    first = 3 * heal_forks.SLICE_EVENTS
    agents: list[Hasty] = []
    answered = [0]
    crowded: list[bool] = []

    def ask(host, healing):
        if healing.is_finishing and not agents:
            agents.append(Hasty(host, "hasty"))
            for n in range(first):
                agents[0].write("append", key="log", value=pack(n))
        elif agents and healing.waiting and answered[-1]:
            agents[0].write("append", key="log", value=pack(first))  # it waits behind the others
        answered.append(len(agents[0].replies) if agents else 0)
        crowded.append(healing.is_crowded)

    fleet, a, b = long_fork(ask)
    meet(fleet, ("a", "b"))
    steps = [after - before for before, after in pairwise(answered)]
    assert 0 < max(steps) <= heal_forks.SLICE_EVENTS
    assert sum(map(bool, steps)) > 3
    assert (True in crowded, crowded[-1]) == (True, False)
    mine = [value for value in log(a) if type(value) is int]
    assert mine[: first + 1] == [*range(first + 1)]
    check_agree(a, b)


def test_a_crash_while_moved_changes_are_applied_loses_nothing(long_fork):
    turns: list[int] = []

    def crash(_host, healing):
        turns.extend([len(turns)] if healing.is_finishing else [])
        if len(turns) == 3:
            turns.append(3)
            raise KeyboardInterrupt

    fleet, a, b = long_fork(crash)
    host = loser(a, b)
    mine = set(log(host))
    with pytest.raises(KeyboardInterrupt):
        meet(fleet, ("a", "b"))
    host.restart()
    assert mine < set(log(host))
    meet(fleet, ("a", "b"))
    check_all_there(a, b)


def test_a_full_disk_while_moved_changes_are_applied_loses_nothing(long_fork):
    turns: list[int] = []

    def fill(host, healing):
        turns.extend([len(turns)] if healing.is_finishing else [])
        if len(turns) == 3:
            turns.append(3)
            host.refuse(NoSpace("full"))

    fleet, a, b = long_fork(fill)
    meet(fleet, ("a", "b"))
    assert len(turns) > 5
    check_all_there(a, b)


def test_a_node_rests_after_a_healing_nine_times_as_long_as_it_took(fleet, long_fork):
    took: list[int] = []

    def take_time(host, healing):
        if (healing.is_put_off or healing.is_finishing) and not took:
            took.append(1)
            fleet.pass_time(3)
        assert host.node.fork_healing.due_s <= host.now.mono_s + 27

    _, a, b = long_fork(take_time)
    host = loser(a, b)
    meet(fleet, ("a", "b"), rounds=1)
    assert took
    healed_s = host.node.fork_healing.due_s - 27
    assert 0 < healed_s <= host.now.mono_s
    meet(fleet, ("a", "b"))
    check_all_there(a, b)


def test_a_fork_that_comes_while_a_node_rests_heals_after_it(fleet):
    a = fleet["a"]
    append(a, 0)
    b = clone(fleet, "a", "b")
    append(a, "a0")
    append(b, "b0")
    host = loser(a, b)
    host.node.fork_healing._rests_until_s = host.now.mono_s + 100
    meet(fleet, ("a", "b"))
    assert "fork_healed" not in host.alarms
    due_s = host.node.turn_due_s()
    assert due_s is not None
    assert due_s <= host.node.fork_healing.due_s
    fleet.pass_time(100)
    meet(fleet, ("a", "b"))
    check_agree(a, b)
    assert len(log(a)) == 3


def test_what_is_read_anew_is_what_a_start_reads(fleet):
    """After a branch with all kinds has been taken back, memory holds what the disk does."""
    a = fleet["a"]
    for key in ("kept", "both", "gone"):
        a.agent().set(key, "old")

    Editor(a).append("one ")
    b = clone(fleet, "a", "b")
    for name, machine in (("a", a), ("b", b)):
        agent = machine.agent(name)
        for key in ("both", "gone"):
            agent.get(key)
        agent.set("both", name)
        agent.delete("gone")
        agent.set("short", name, ttl=10**6)
        agent.set(f"long/{name}", name * 2000)
        append(machine, *range(60))
        Editor(machine).append(name)
    host = loser(a, b)
    read_anew = host.replica.__class__.read_anew

    def compared(replica, row):
        read_anew(replica, row)
        fresh = host.node.read_archive(row)
        for name in ("vector", "hashes", "writer", "position", "since_own", "new_names", "origins"):
            assert getattr(replica, name) == getattr(fresh, name), name
        assert replica.entries.digest == fresh.entries.digest
        for key in {entry.key for entry in (*replica.entries.all(), *fresh.entries.all())}:
            held, expected = ([entry.dot for entry in each.entries.held(key)] for each in (replica, fresh))
            assert held == expected, key
        assert list(replica.entries.keys("")) == list(fresh.entries.keys(""))
        assert replica.entries.keys_with_several == fresh.entries.keys_with_several
        assert {*replica.documents.names()} == {*fresh.documents.names()}
        checked.append(row)

    checked: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host.replica.__class__, "read_anew", compared)
        meet(fleet, ("a", "b"))
    assert checked
    check_agree(a, b)


def test_agents_of_a_host_that_moved_its_branch_attach_to_another_database(fleet):
    a = fleet["a"]
    append(a, 0)
    b = clone(fleet, "a", "b")
    append(a, "a0")
    append(b, "b0")
    host = loser(a, b)
    agents = {machine.name: machine.agent("ann") for machine in (a, b)}
    before = host.node.identity
    writer = host.replica.writer
    meet(fleet, ("a", "b"))
    assert {name: agent.closed for name, agent in agents.items()} == {m.name: m is host for m in (a, b)}
    assert host.node.identity.incarnation not in (b"", before.incarnation, before.database)
    append(host, "on")
    assert host.replica.writer != writer
    incarnation = host.node.identity.incarnation
    host.restart()
    assert host.store.incarnation == incarnation


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_with_forks(seed):
    run_forks(seed)


def test_what_was_built_on_another_branch_is_known_after_a_restart_too(fleet):
    """Host c has written on b's branch; a, which was restarted, must not take that for built on its own."""
    a, c = fleet["a"], fleet["c"]
    append(a, 0)
    b = clone(fleet, "a", "b")
    append(a, *(f"a{n}" for n in range(3)))
    append(b, *(f"b{n}" for n in range(2)))
    meet(fleet, ("b", "c"))
    append(c, "c0")
    a.restart()
    meet(fleet, ("a", "c"))
    meet(fleet, ("a", "b"), ("a", "c"), ("b", "c"))
    check_agree(a, b, c)
    assert len(log(a)) == len(log(b)) == 7


def test_a_session_that_has_seen_a_branch_that_moved_goes_on(fleet):
    """It would wait for numbers that the other branch may never reach."""
    a = fleet["a"]
    append(a, 0)
    b = clone(fleet, "a", "b")
    append(a, "a0")
    append(b, "b0")
    host = loser(a, b)
    append(host, *(f"more {n}" for n in range(9)))
    token = host.agent().append("log", "seen")["token"]
    meet(fleet, ("a", "b"))
    host.restart()
    assert "seen" in host.agent().get("log", after=token)


def test_a_node_of_an_older_version_gets_both_branches_from_those_who_heal(fleet, monkeypatch):
    a, c = fleet["a"], fleet["c"]
    append(a, 0)
    b = clone(fleet, "a", "b")
    meet(fleet, ("a", "c"))
    part(fleet)
    append(a, "a0")
    append(b, "b0")
    takes = Link.takes
    monkeypatch.setattr(
        Link, "takes", lambda link, message: takes(link, message) and not (message is Chain and about(c, link))
    )
    meet(fleet, ("a", "b"))
    meet(fleet, ("a", "c"), ("b", "c"))
    check_agree(a, b, c)
    assert sorted(map(str, log(c))) == ["0", "a0", "b0"]


def test_a_node_of_an_older_version_on_the_branch_that_moves_is_left_out_and_told(fleet, monkeypatch):
    a, c = fleet["a"], fleet["c"]
    append(a, 0)
    b = clone(fleet, "a", "b")
    append(a, "a0")
    append(b, "b0")
    host = loser(a, b)
    other = b if host is a else a
    meet(fleet, (host.name, "c"))
    takes = Link.takes
    monkeypatch.setattr(
        Link, "takes", lambda link, message: takes(link, message) and not (message is Chain and about(c, link))
    )
    meet(fleet, ("a", "b"))
    meet(fleet, ("a", "c"), ("b", "c"))
    assert "fork" in c.alarms
    assert len(log(a)) == len(log(b)) == 3
    append(other, "on")
    append(c, "alone")
    meet(fleet, ("a", "b"))
    assert len(log(a)) == len(log(b)) == 4
    assert len(log(c)) == 3


def about(machine: Host, link: Link) -> bool:
    """Whether a connection is between a machine and another one."""
    return link in machine.node.sync.links.values() or link.peer_node == machine.node.identity.node
