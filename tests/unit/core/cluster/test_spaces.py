"""Spaces are made and dropped everywhere at once, through partitions and restarts, and only where they may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crdtsync.causality import Dot, Writer
from crdtsync.core.cluster import archives, spaces
from crdtsync.core.cluster.space_records import SPACES
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.interface import DiskSpace
from crdtsync.core.peers import connections
from crdtsync.core.sync import protocol
from crdtsync.errors import NoSpace
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.changes import Ack, Changes, SpaceAck, Want
from crdtsync.wire.peer.comparing import Digests, Sample
from crdtsync.wire.peer.gossip import ResolvedPattern, Resolvers
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Ask, Asked
from crdtsync.wire.peer.messages import FEATURES
from crdtsync.wire.peer.transfer import Take
from tests.fleet.agent import Refusal
from tests.fleet.clock import START_MS
from tests.fleet.fleet import Fleet, fleet_of
from tests.fleet.host import Host
from tests.fleet.resolver import Resolving
from tests.fleet.stranger import Stranger


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleet_of("a", "b", "c", linked=True) as found:
        yield found


def make(machine: Host, name: str = "team", **args: Any) -> Any:
    return machine.agent("maker").ask("space_create", name=name, **args)


def drop(machine: Host, name: str = "team") -> Any:
    return machine.agent("dropper").ask("space_drop", name=name)


def names(machine: Host) -> list[str]:
    """The spaces that the status of a node shows."""
    return [space["name"] for space in machine.agent().ask("status")["spaces"]]


def part(fleet: Fleet, *ends: str) -> None:
    for wire in [w for w in fleet.wires if {end.name for end in w.ends} == {*ends}]:
        wire.close()


def read(machine: Host, key: str, space: str = "team") -> Any:
    return machine.agent().get(key, space=space)


def test_making_a_space_costs_the_same_however_many_there_are(fleet, monkeypatch):
    """10,000 took minutes while each looked at all others for a number that none of them has."""
    looked: list[object] = []
    numbers = archives.Archives.numbers

    def counted(self: archives.Archives) -> Any:
        looked.append(self)
        return numbers(self)

    monkeypatch.setattr(archives.Archives, "numbers", counted)
    for number in range(10):
        make(fleet["a"], f"team-{number}")
    assert len(looked) <= 1
    assert len({replica.id for replica in fleet["a"].node.replicas.values()}) == 12


# -- making ----------------------------------------------------------------------------------------------------------


def test_a_space_appears_on_every_node_and_is_synced(fleet):
    made = make(fleet["a"])
    assert (made["created"], made["epoch"], made["nodes"], made["here"]) == (True, 1, None, True)
    fleet.sync()
    assert names(fleet["c"]) == ["default", "team"]
    fleet["c"].agent().set("k", 1, space="team")
    fleet["b"].agent().set("k", 2)
    fleet.sync()
    assert {read(machine, "k") for machine in fleet.machines.values()} == {1}
    assert {read(machine, "k", "default") for machine in fleet.machines.values()} == {2}


def test_it_can_be_used_in_the_turn_that_makes_it(fleet):
    ann = fleet["a"].agent("ann")
    made = ann.send("space_create", name="team")
    done = ann.write("set", key="k", value=pack(1), space="team")
    fleet["a"].turn()
    assert ann.result(made)["created"]
    assert ann.result(done)["token"]
    fleet.sync()
    assert read(fleet["b"], "k") == 1


def test_making_it_again_changes_nothing(fleet):
    make(fleet["a"])
    fleet.sync()
    assert make(fleet["b"])["created"] is False
    with pytest.raises(Refusal, match="exists on all nodes already"):
        make(fleet["b"], nodes=["a"])
    make(fleet["a"], name="some", nodes=["a", "b"])
    with pytest.raises(Refusal, match="exists on a, b already"):
        make(fleet["a"], name="some")


def test_spaces_made_at_once_on_two_sides_become_one(fleet):
    part(fleet, "a", "b")
    part(fleet, "a", "c")
    make(fleet["a"])
    make(fleet["b"])
    fleet["a"].agent().set("k", "from a", space="team")
    fleet["b"].agent().set("j", "from b", space="team")
    fleet.link("a", "b")
    fleet.run(2.5)
    for machine in fleet.machines.values():
        assert (read(machine, "k"), read(machine, "j")) == ("from a", "from b")


def test_a_restarted_node_has_its_spaces(fleet):
    make(fleet["a"])
    fleet["a"].agent().set("k", 1, space="team")
    fleet["a"].restart()
    assert read(fleet["a"], "k") == 1
    fleet.link("a", "b")
    fleet.link("a", "c")
    fleet.sync()
    fleet["b"].agent().set("k", 2, space="team")
    fleet.sync()
    assert read(fleet["a"], "k") == 2


def test_a_node_that_was_away_gets_the_spaces_made_meanwhile(fleet):
    part(fleet, "a", "c")
    part(fleet, "b", "c")
    make(fleet["a"])
    fleet["a"].agent().set("k", 1, space="team")
    fleet.sync()
    fleet.link("c", "b")
    fleet.run(2.5)
    assert read(fleet["c"], "k") == 1


def test_who_waits_for_the_token_finds_the_space_made(fleet):
    bob = fleet["b"].agent("bob")
    made = make(fleet["a"])
    request = bob.send("wait", token=made["token"], timeout=5000)
    fleet["b"].turn()
    assert request not in bob.replies
    fleet.sync()
    assert bob.result(request) == {"nodes": 1}
    assert bob.ask("scan", prefix="", space="team")["items"] == []


@pytest.mark.parametrize("name", ["", "_mine", "_cluster", "Team", "a b", 7])
def test_a_bad_name_is_refused(fleet, name):
    with pytest.raises(Refusal, match="invalid_request"):
        make(fleet["a"], name)


def test_there_is_a_limit(fleet, monkeypatch):
    monkeypatch.setattr(spaces, "SPACES_MAX", 2)
    make(fleet["a"], "one")
    make(fleet["a"], "two")
    with pytest.raises(Refusal, match="quota_exceeded"):
        make(fleet["a"], "three")
    drop(fleet["a"], "two")
    make(fleet["a"], "two")


def test_without_room_nothing_is_made(fleet):
    fleet["a"].step(DiskSpace("the disk is full"))
    with pytest.raises(Refusal, match="no_space"):
        make(fleet["a"])
    assert names(fleet["a"]) == ["default"]


def test_a_space_whose_commit_fails_was_never_made(fleet):
    ann = fleet["a"].agent("ann")
    request = ann.send("space_create", name="team")
    fleet["a"].refuse(NoSpace("full"))
    with pytest.raises(Refusal, match="no_space"):
        ann.result(request)
    fleet["a"].turn()
    assert names(fleet["a"]) == ["default"]
    assert make(fleet["a"])["created"]


# -- dropping --------------------------------------------------------------------------------------------------------


def test_a_dropped_space_is_gone_everywhere_and_kept_in_the_archive(fleet):
    make(fleet["a"])
    fleet.sync()
    fleet["b"].agent().set("k", 1, space="team")
    fleet.sync()
    gone = drop(fleet["c"])
    assert gone["archive"] == "team@1"
    fleet.sync()
    for machine in fleet.machines.values():
        assert names(machine) == ["default"]
        with pytest.raises(Refusal, match="unknown_space"):
            read(machine, "k")
        (archive,) = machine.agent().ask("space_list")["archives"]
        assert (archive["name"], archive["entries"], archive["unseen"]) == ("team@1", 1, 0)
        assert machine.alarms == set()


def test_a_space_made_anew_is_empty(fleet):
    make(fleet["a"])
    fleet["a"].agent().set("k", 1, space="team")
    fleet.sync()
    drop(fleet["a"])
    assert make(fleet["a"])["epoch"] == 3
    fleet.sync()
    assert {read(machine, "k") for machine in fleet.machines.values()} == {None}
    fleet["b"].agent().set("k", 2, space="team")
    fleet.sync()
    assert {read(machine, "k") for machine in fleet.machines.values()} == {2}


def test_default_begins_anew_when_it_is_dropped(fleet):
    fleet["a"].agent().set("k", 1)
    fleet.sync()
    assert drop(fleet["b"], "default")["archive"] == "default@0"
    fleet.sync()
    assert {read(machine, "k", "default") for machine in fleet.machines.values()} == {None}
    fleet["c"].agent().set("k", 2)
    fleet.sync()
    assert {read(machine, "k", "default") for machine in fleet.machines.values()} == {2}


def test_what_a_node_wrote_while_it_was_away_goes_to_its_archive_and_it_says_so(fleet):
    make(fleet["a"])
    fleet.sync()
    part(fleet, "a", "c")
    part(fleet, "b", "c")
    for n in range(3):
        fleet["c"].agent().set(f"k{n}", n, space="team")
    drop(fleet["a"])
    make(fleet["a"])
    fleet.sync()
    fleet.link("c", "a")
    fleet.run(2.5)
    assert read(fleet["c"], "k0") is None
    assert read(fleet["a"], "k0") is None
    assert fleet["c"].alarms == {"archived_writes"}
    (archive,) = fleet["c"].agent().ask("space_list")["archives"]
    assert (archive["name"], archive["unseen"], archive["entries"]) == ("team@1", 3, 3)
    assert fleet["a"].alarms == set()
    fleet["c"].agent().set("k0", "new", space="team")
    fleet.sync()
    assert read(fleet["a"], "k0") == "new"


def test_the_highest_epoch_wins_whoever_hears_of_it_last(fleet):
    make(fleet["a"])
    fleet.sync()
    part(fleet, "a", "b")
    part(fleet, "a", "c")
    drop(fleet["a"])
    drop(fleet["b"])
    make(fleet["b"])
    fleet["b"].agent().set("k", 1, space="team")
    fleet.sync()
    assert names(fleet["a"]) == ["default"]
    fleet.link("a", "b")
    fleet.run(2.5)
    assert {read(machine, "k") for machine in fleet.machines.values()} == {1}


def test_changes_of_an_old_epoch_are_ignored(fleet):
    make(fleet["a"])
    fleet["a"].agent().set("k", 1, space="team")
    (old,) = fleet["a"].store._db.execute("SELECT body FROM changes WHERE space = 3").fetchone()
    drop(fleet["a"])
    make(fleet["a"])
    stranger = Stranger(fleet["a"], spaces={"team": (3, {})})
    stranger.say(Changes("team", 1, [old]))
    stranger.say(Want("team", 1, {}))
    fleet["a"].turn()
    assert read(fleet["a"], "k") is None
    assert stranger.heard(Changes) == []
    assert stranger.reason is None


def test_watches_and_waiting_requests_are_told(fleet):
    make(fleet["a"])
    fleet.sync()
    ann = fleet["b"].agent("ann")
    token = ann.set("k", 1, space="team")["token"]
    fleet.sync()
    watch = ann.send("watch", prefix="", space="team")
    fleet["b"].turn()
    ann.replies.pop(watch)
    part(fleet, "a", "c")
    part(fleet, "b", "c")
    waiting = ann.write("set", key="k", value=pack(2), space="team", w="all", timeout=60_000)
    fleet["b"].turn()
    drop(fleet["a"])
    fleet.sync()
    with pytest.raises(Refusal, match="unknown_space: the space team was dropped: the watch has ended"):
        ann.result(watch)
    with pytest.raises(Refusal, match="too_old"):
        ann.result(waiting)
    make(fleet["a"])
    fleet.sync()
    with pytest.raises(Refusal, match="epoch"):
        ann.ask("get", key="k", space="team", after=token)


def test_a_watch_of_a_space_that_begins_anew_starts_over(fleet):
    ann = fleet["b"].agent("ann")
    fleet["a"].agent().set("k", 1)
    fleet.sync()
    ann.send("watch", prefix="")
    fleet.sync()
    ann.told()
    drop(fleet["a"], "default")
    fleet["a"].agent().set("j", 2)
    fleet.sync()
    told = [(event["event"], event["key"]) for event in ann.told()]
    assert told[0] == ("reset", None)
    assert {key for _, key in told} == {None, "j"}


def test_what_is_written_in_the_turn_of_the_drop_is_archived(fleet):
    make(fleet["a"])
    ann = fleet["a"].agent("ann")
    done = ann.write("set", key="k", value=pack(1), space="team")
    gone = ann.send("space_drop", name="team")
    fleet["a"].turn()
    assert ann.result(done)["token"]
    assert ann.result(gone)["archive"] == "team@1"
    fleet["a"].restart()
    (archive,) = fleet["a"].agent().ask("space_list")["archives"]
    assert archive["entries"] == 1
    assert names(fleet["a"]) == ["default"]


def test_a_drop_whose_commit_fails_did_not_happen(fleet):
    make(fleet["a"])
    fleet["a"].agent().set("k", 1, space="team")
    fleet.sync()
    ann = fleet["a"].agent("ann")
    request = ann.send("space_drop", name="team")
    fleet["a"].refuse(NoSpace("full"))
    with pytest.raises(Refusal, match="no_space"):
        ann.result(request)
    fleet["a"].turn()
    assert read(fleet["a"], "k") == 1
    assert fleet["a"].agent().ask("space_list")["archives"] == []
    drop(fleet["a"])


@pytest.mark.parametrize("name, code", [("nobody", "unknown_space"), ("_cluster", "not_allowed"), (7, "invalid")])
def test_what_cannot_be_dropped(fleet, name, code):
    with pytest.raises(Refusal, match=code):
        drop(fleet["a"], name)


# -- archives --------------------------------------------------------------------------------------------------------


def rows_of(machine: Host, space: int) -> int:
    tables = ("changes", "entries", "removals", "heads", "origins", "own_writers", "change_hashes")
    count = "SELECT COUNT(*) FROM {} WHERE space = ?"
    return sum(machine.store._db.execute(count.format(table), (space,)).fetchone()[0] for table in tables)


def test_archives_go_after_their_time(fleet, monkeypatch):
    monkeypatch.setattr(archives, "PURGE_ROWS_MAX", 2)
    make(fleet["a"])
    ann = fleet["a"].agent("ann")
    for n in range(5):
        ann.set("k", n, space="team")
        ann.append("log", n, space="team")
    drop(fleet["a"])
    fleet.run(3)
    live = rows_of(fleet["a"], 3)
    assert 0 < live < 15  # of log and history nothing is left
    fleet.pass_time(archives.ARCHIVE_AGE_MS_MAX / 1000 - 60)
    fleet.run(3)
    assert rows_of(fleet["a"], 3) == live
    fleet.pass_time(120)
    fleet.run(3)
    assert rows_of(fleet["a"], 3) == 0
    assert fleet["a"].agent().ask("space_list")["archives"] == []


def test_archives_have_a_size(fleet, monkeypatch):
    monkeypatch.setattr(archives, "ARCHIVE_BYTES_MAX", 5000)
    for _ in range(5):
        make(fleet["a"])
        fleet["a"].agent().set("k", "x" * 2000, space="team")
        drop(fleet["a"])
        fleet.run(1)
    found = fleet["a"].agent().ask("space_list")["archives"]
    assert [archive["name"] for archive in found] == ["team@7", "team@9"]


def test_an_archive_can_be_read_and_nothing_else(fleet):
    make(fleet["a"])
    ann = fleet["a"].agent("ann")
    ann.set("k", {"v": 1}, space="team")
    ann.do("incr", key="n", by=3, space="team")
    for replacement in ("hello", "hello world"):
        before = ann.ask("text_read", key="notes", space="team")
        from pycrdt import Doc, Text

        doc: Doc[Text] = Doc()
        if before:
            doc.apply_update(before["update"])
        state = doc.get_state()
        text = doc.get("text", type=Text)
        text += replacement[len(str(text)) :]
        args = {"document": before["document"] if before else None, "update": doc.get_update(state)}
        ann.do("text_apply", key="notes", space="team", **args)
    drop(fleet["a"])
    fleet.run(1)
    fleet["a"].restart()
    ann = fleet["a"].agent("ann")
    assert ann.get("k", space="team@1") == {"v": 1}
    assert ann.get("n", space="team@1") == 3
    assert ann.get("notes", space="team@1") == "hello world"
    assert [item[0] for item in ann.ask("scan", prefix="", space="team@1")["items"]] == ["k", "n", "notes"]
    with pytest.raises(Refusal, match="not_allowed: team@1 is an archive"):
        ann.set("k", 2, space="team@1")
    with pytest.raises(Refusal, match="not_allowed"):
        ann.ask("watch", prefix="", space="team@1")
    for other in ("team@2", "team@", "team@01", "team@x", "@1"):
        with pytest.raises(Refusal, match="unknown_space"):
            ann.get("k", space=other)
    fleet.pass_time(archives.ARCHIVE_AGE_MS_MAX / 1000 + 61)
    fleet.run(3)
    with pytest.raises(Refusal, match="unknown_space"):
        ann.get("k", space="team@1")


# -- where it may be -------------------------------------------------------------------------------------------------


def test_a_space_for_some_nodes_is_on_those_alone(fleet):
    made = make(fleet["a"], nodes=["a", fleet["b"].node.identity.node])
    assert {node["name"] for node in made["nodes"]} == {"a", "b"}
    fleet.sync()
    fleet["a"].agent().set("k", 1, space="team")
    fleet.run(2.5)
    assert read(fleet["b"], "k") == 1
    assert names(fleet["c"]) == ["default"]
    with pytest.raises(Refusal, match="unknown_space"):
        read(fleet["c"], "k")
    (listed,) = [space for space in fleet["c"].agent().ask("space_list")["spaces"] if space["name"] == "team"]
    assert listed["here"] is False


def test_it_can_be_made_on_a_node_that_does_not_hold_it(fleet):
    assert make(fleet["c"], nodes=["a", "b"])["here"] is False
    fleet.sync()
    fleet["a"].agent().set("k", 1, space="team")
    fleet.sync()
    assert read(fleet["b"], "k") == 1
    drop(fleet["c"])
    fleet.sync()
    assert names(fleet["a"]) == ["default"]


@pytest.mark.parametrize("nodes, why", [([], "1 to"), (["nobody"], "no node that this one knows"), ("a", "list")])
def test_nodes_must_be_known(fleet, nodes, why):
    with pytest.raises(Refusal, match=why):
        make(fleet["a"], nodes=nodes)


def test_of_two_made_at_once_for_different_nodes_one_wins_whole_and_nothing_leaks(fleet):
    part(fleet, "a", "b")
    part(fleet, "a", "c")
    one = make(fleet["a"], nodes=["a", "b"])
    other = make(fleet["b"], nodes=["b", "c"])
    fleet["a"].agent().set("k", "of a", space="team")
    fleet["b"].agent().set("k", "of b", space="team")
    fleet.sync()
    assert one["epoch"] != other["epoch"]
    fleet.link("a", "b")
    fleet.link("a", "c")
    fleet.run(2.5)
    winner = max((one, other), key=lambda made: made["epoch"])
    value = "of a" if winner is one else "of b"
    assert read(fleet["b"], "k") == value
    holders = {node["name"] for node in winner["nodes"]}
    assert {name for name in "abc" if "team" in names(fleet[name])} == holders
    loser = "b" if winner is one else "a"
    assert [row["name"] for row in fleet[loser].agent().ask("space_list")["archives"]]


def test_a_write_concern_counts_the_nodes_that_may_hold_the_space(fleet):
    make(fleet["a"], nodes=["a", "b"])
    fleet.sync()
    ann = fleet["a"].agent("ann")
    request = ann.write("set", key="k", value=pack(1), space="team", w="all", timeout=5000)
    fleet.sync()
    assert ann.result(request)["nodes"] == 2
    with pytest.raises(Refusal, match="w=3 cannot be met"):
        ann.set("k", 2, space="team", w=3)
    request = ann.write("set", key="k", value=pack(1), w="all", timeout=5000)
    fleet.sync()
    assert ann.result(request)["nodes"] == 3


def test_a_turn_looks_only_at_spaces_that_have_something_to_do(fleet, monkeypatch):
    """Also while everything is in sync again, and a second later when lagging peers are looked for."""
    from crdtsync.core.background.text_maintenance import TextKeeper
    from crdtsync.core.sync.change_feed import Feeder

    for n in range(50):
        make(fleet["a"], f"s{n}")
    fleet.run(3)
    looked: list[str] = []

    def spy(kind: type, name: str, space: int) -> None:
        method = getattr(kind, name)

        def look(self: Any, *arguments: Any, **named: Any) -> Any:
            looked.append(arguments[space].name if space >= 0 else self._replica.name)
            return method(self, *arguments, **named)

        monkeypatch.setattr(kind, name, look)

    spy(Feeder, "push", 2)
    spy(Feeder, "_check_relay", 2)
    spy(TextKeeper, "keep", -1)
    spy(TextKeeper, "deadline_s", -1)
    fleet["a"].agent().set("k", 1, space="s7")
    fleet.run(3)
    assert set(looked) == {"s7"}
    assert read(fleet["c"], "k", "s7") == 1


MARKER = b"marker-of-the-secret-space"


def disk_of(machine: Host) -> bytes:
    files = [path for path in machine.directory.rglob("*") if path.is_file()]
    return b"".join(path.read_bytes() for path in files)


def test_not_one_byte_of_it_reaches_another_node_by_any_path(monkeypatch):
    """Changes, relays, snapshots, texts, acknowledgements, digests, status and disk: all that c gets is searched."""
    from crdtsync.core.sync import snapshot_server

    monkeypatch.setattr(snapshot_server, "MISSING_CHANGES_MIN", 3)
    with fleet_of("a", "b", "c", linked=True) as fleet:
        heard: dict[str, list[bytes]] = {"b": [], "c": []}
        deliver = Host.step

        def listen(machine: Host, event: Any) -> None:
            if hasattr(event, "data") and machine.name in heard:
                heard[machine.name].append(event.data)
            deliver(machine, event)

        monkeypatch.setattr(Host, "step", listen)
        make(fleet["a"], nodes=["a", "b"])
        fleet.sync()
        text = MARKER.decode()
        ann = fleet["a"].agent("ann")
        for n in range(5):
            ann.set(f"{text}/{n}", {"v": text}, space="team")
        ann.append("log", text, space="team")
        ann.set("public", "not a secret")
        fleet.run(2.5)
        fleet["b"].agent(text).set("from-b", text, space="team")
        fleet.run(2.5)
        for name in "abc":  # everybody comes back: hellos, snapshots, what was missed
            fleet[name].restart()
        fleet["b"].agent().set("again", text, space="team")
        for one, other in ("ab", "bc", "ca"):
            fleet.link(one, other)
        fleet.run(2.5)
        drop(fleet["b"])
        fleet.run(2.5)
        make(fleet["c"], nodes=["b", "a"])
        fleet.run(2.5)
        fleet["b"].agent().set("third", text, space="team")
        fleet.run(2.5)
        carol = fleet["c"].agent("carol")
        shown = pack([carol.ask(name) for name in ("status", "space_list")])
        everything = b"".join(heard["c"]) + disk_of(fleet["c"]) + shown
        assert b"not a secret" in everything
        assert any(MARKER in data for data in heard["b"])  # it would be found
        assert MARKER not in everything
        writers = {str(writer).encode() for name in "ab" for writer in fleet[name].node.replicas["team"].vector}
        assert not [writer for writer in writers if writer in shown]


def outsider(fleet: Fleet, node: str = "outsider", **hello: Any) -> Stranger:
    """A node that may not hold a space for a and b, and knows all messages."""
    return Stranger(fleet["a"], node=node, features=sorted(FEATURES), **hello)


def hears_of(stranger: Stranger, space: str = "team") -> bool:
    """Whether a message that has come since the last call names the space. The connection is still there."""
    stranger.machine.turn()
    assert stranger.reason is None
    data = b"".join(stranger.waiting)
    stranger.waiting.clear()
    return space.encode() in data


def asking(epoch: int, writer: Writer) -> list[Message]:
    return [
        Want("team", epoch, {}),
        Take("team", epoch, b"", 0),
        Ask("outsider", 1, (Asked("team", epoch, (writer,)),)),
        Sample("team", epoch, bytes(16), {}, [("k", Dot(writer, 1, 0))]),
        Digests("team", epoch, bytes(8), bytes(16), bytes(16)),
        Ack(0, [SpaceAck("team", epoch, {}, bytes(8), b"")]),
        Resolvers("outsider", (ResolvedPattern("team", "**", 1000),)),
    ]


@pytest.mark.parametrize("number", range(7))
def test_an_outsider_who_asks_for_it_hears_nothing_of_it(fleet, number):
    make(fleet["a"], nodes=["a", "b"])
    fleet.sync()
    fleet["a"].agent().set("k", 1, space="team")
    fleet.sync()
    replica = fleet["a"].node.replicas["team"]
    assert replica.writer is not None
    stranger = outsider(fleet, spaces={"default": (0, {}), "team": (replica.epoch, {})})
    assert not hears_of(stranger)
    stranger.say(asking(replica.epoch, replica.writer)[number])
    fleet["a"].agent().set("k", 2, space="team")
    fleet["a"].agent().set("k", 2)
    for _ in range(3):
        fleet.pass_time(1)
        fleet.sync()
        assert not hears_of(stranger)
    fleet["a"].agent().set("team", 2)
    assert hears_of(stranger)  # it would be found


def test_who_is_there_when_it_is_made_hears_nothing_of_it(fleet):
    stranger = outsider(fleet)
    stranger.heard()
    make(fleet["a"], nodes=["a", "b"])
    assert [message for message in stranger.heard() if "team" in str(message)] == []  # its record says it in bytes
    fleet["a"].agent().set("k", 1, space="team")
    fleet.run(2.5)
    assert not hears_of(stranger)


def test_who_else_may_hold_it_is_asked_how_much_and_no_outsider(fleet):
    make(fleet["a"], nodes=["a", "b"])
    fleet.sync()
    part(fleet, "a", "b")
    stranger = outsider(fleet, spaces={"default": (0, {}), "team": (1, {})})
    assert not hears_of(stranger)
    for space in ("default", "team"):
        fleet["a"].agent().write("set", key="k", value=pack(1), space=space, w="all", timeout=5000)
    fleet.run(1)
    asked = [one.space for message in stranger.heard(Ask) for one in message.spaces]
    assert {*asked} == {"default"}


def test_what_resolvers_are_at_work_on_there_is_told_to_no_outsider(fleet):
    make(fleet["a"], nodes=["a", "b"])
    fleet.sync()
    stranger = outsider(fleet)
    told: list[Resolvers] = []
    for space in ("default", "team"):
        Resolving(fleet["a"], space=space, name=space)
        for value in (1, 2):
            fleet["a"].agent().set(f"key-of-{space}", value, seen="?", space=space)
    for _ in range(3):
        fleet.pass_time(0.2)
        fleet["a"].turn()
        told += stranger.heard(Resolvers)
    keys = {one.key for message in told for one in message.keys}
    assert keys == {"key-of-default"}


def test_who_may_no_longer_hold_it_hears_nothing_more(fleet):
    """Two members made it at once, one of them for fewer nodes, by a record of the same epoch."""
    make(fleet["a"])
    fleet.sync()
    before = fleet["a"].node.spaces.record("team")
    ids = tuple(sorted(fleet[name].node.identity.node for name in "ab"))
    stranger = outsider(fleet, spaces={"default": (0, {}), "team": (1, {})})
    fleet["a"].agent().set("k", 1, space="team")
    assert hears_of(stranger)
    fleet["a"].node.cluster.put(SPACES, "team", before._replace(nodes=ids))
    fleet.sync()
    stranger.waiting.clear()
    fleet["a"].agent().set("k", 2, space="team")
    fleet.run(2.5)
    assert not hears_of(stranger)
    assert read(fleet["b"], "k") == 2


def test_who_says_hello_when_it_has_become_a_space_for_some_hears_nothing_of_it(fleet):
    make(fleet["a"])
    fleet.sync()
    stranger = Stranger(fleet["a"], hello=False)
    fleet["a"].turn()
    before = fleet["a"].node.spaces.record("team")
    ids = tuple(sorted(fleet[name].node.identity.node for name in "ab"))
    fleet["a"].node.cluster.put(SPACES, "team", before._replace(nodes=ids))
    fleet.sync()
    stranger.waiting.clear()  # it was for all when the connection stood
    fleet["a"].agent().set("k", 1, space="team")
    stranger.say(Hello("outsider", "outsider", LOOPBACK_CLUSTER, bytes(16), {"team": (1, {})}, START_MS))
    assert [message.space for message in stranger.heard(Changes)] in ([], ["_cluster"])


def test_one_that_is_yet_to_be_introduced_is_not_if_it_has_become_a_space_for_some(fleet, monkeypatch):
    monkeypatch.setattr(protocol, "HELLO_SPACES_MAX", 1)
    monkeypatch.setattr(connections, "HELLO_SPACES_MAX", 1)
    for name in ("one", "team"):
        make(fleet["a"], name)
    fleet.sync()
    ids = tuple(sorted(fleet[name].node.identity.node for name in "ab"))
    stranger = Stranger(fleet["a"], hello=False)
    fleet["a"].turn()
    stranger.say(Hello("outsider", "outsider", LOOPBACK_CLUSTER, bytes(16), {}, START_MS))
    before = fleet["a"].node.spaces.record("team")
    fleet["a"].node.cluster.put(SPACES, "team", before._replace(nodes=ids))
    (link,) = [link for link in fleet["a"].node.sync.links.values() if link.peer_node == "outsider"]
    assert "team" in link.unintroduced
    for _ in range(5):
        fleet["a"].turn()
    assert [message.space for message in stranger.heard(Want)] == ["default", "one"]


def test_a_change_pushed_by_a_node_that_may_not_hold_it_is_ignored(fleet):
    make(fleet["a"], nodes=["a", "b"])
    fleet.sync()
    replica = fleet["a"].node.replicas["team"]
    from tests.unit.core.sync.test_sync import change_of

    stranger = Stranger(fleet["a"], node="outsider", spaces={"team": (replica.epoch, {})})
    body = change_of(77, 1, codec=replica.codec).body
    stranger.say(Changes("team", replica.epoch, [body]))
    fleet["a"].turn()
    assert replica.vector == {}
