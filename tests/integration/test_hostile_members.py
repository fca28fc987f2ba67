"""A member that was let in and keeps to no rule, over TLS with its own key: what it does harms nobody for good."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic
from typing import Any, Self, cast

import pytest
from crdtsyncd.peers.join_protocol import ask_to_join
from crdtsyncd.security.node_key import load_or_make_key
from crdtsyncd.security.tls import dialling_context, member_name
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import connect

from crdtsync.causality import SEQ_MAX, Dot, Frontier, Hlc, Writer
from crdtsync.wire.change import NO_HASH, Change, Codec, Op
from crdtsync.wire.codec import pack
from crdtsync.wire.invites import decode_invite
from crdtsync.wire.limits import CLUSTER_SPACE
from crdtsync.wire.peer.base import Message
from crdtsync.wire.peer.changes import Changes
from crdtsync.wire.peer.gossip import Health, ToldAlarm
from crdtsync.wire.peer.hello import Hello
from crdtsync.wire.peer.meshing import Ask, Asked, Held, Holding
from crdtsync.wire.peer.messages import FEATURES, decode_message
from crdtsync.wire.peer.snapshot import Header, WriterRow, encode_header, encode_writers, part_hash
from crdtsync.wire.peer.transfer import Offer, Part, Take
from tests.fleet.renegade import delete, put
from tests.harness import wait_until
from tests.harness.cluster import wait_until_equal, wait_until_forks_heal
from tests.harness.daemon import Daemon
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

WRITER = Writer(666)
SNAPSHOT = b"mad snapshot 001"


class Renegade:
    """A member played by hand."""

    def __init__(self, daemon: Daemon, place: Path, name: str) -> None:
        self.daemon = daemon
        self.key = load_or_make_key(place / name)
        with daemon.client() as client:
            self.cluster = bytes.fromhex(client.cluster_init()["cluster"])
            invite = decode_invite(client.cluster_invite(local=True)["invite"])
        asyncio.run(ask_to_join(invite, self.key, name, []))
        self.name = name
        self._stack = ExitStack()
        self._heads: dict[str, tuple[int, bytes]] = {}

    def connect(self) -> Self:
        """:raises WebSocketException, OSError: it is refused."""
        context = dialling_context(self.key, [load_or_make_key(self.daemon.data).certificate])
        self.socket = self._stack.enter_context(
            connect(
                f"wss://{self.daemon.address}", ssl=context, server_hostname=member_name(self.cluster),
                compression=None, proxy=None, ping_interval=None, close_timeout=1,
            )
        )  # fmt: skip
        spaces: dict[str, Any] = {"default": (0, {}), CLUSTER_SPACE: (0, {})}
        self.say(Hello(self.key.node, self.name, self.cluster, b"d" * 16, spaces, 0, features=FEATURES))
        return self

    def say(self, message: Message) -> None:
        self.socket.send(message.encode())

    def hear(self, kind: type, timeout_s: float = 60.0) -> Any:
        """The next message of a kind."""
        deadline = monotonic() + timeout_s
        while True:
            message = decode_message(cast("bytes", self.socket.recv(timeout=max(0.001, deadline - monotonic()))))
            if isinstance(message, kind):
                return message

    def write(self, space: str, *ops: Op, hlc_ms: int = 1_800_000_000_000) -> None:
        seq, prev_hash = self._heads.get(space, (0, NO_HASH))
        origin = (self.key.node, self.name) if seq == 0 else None
        change = Change(WRITER, seq + 1, (), prev_hash, Hlc(hlc_ms << 16), "mad", None, ops, origin)
        change = Codec(self.cluster, space, 0).encode(change)
        self._heads[space] = change.seq, change.hash
        self.say(Changes(space, 0, [change.body]))

    def give_empty_state(self, space: str, heads: Frontier) -> None:
        """Offer a state in which nothing is left, of all that there is and of a change of its own."""
        self.say(Offer(space, 0))
        self.hear(Take)
        rows = [WriterRow(w, seq, short.ljust(16, b"?"), None) for w, (seq, short) in sorted(heads.items())]
        rows.append(WriterRow(WRITER, 1, b"?" * 16, (self.key.node, self.name)))
        header = Header(self.key.node, 0, 0, len(rows), 0, 0)
        for number, data in enumerate((encode_header(header), encode_writers(rows))):
            self.say(Part(space, 0, SNAPSHOT, number, data, part_hash(SNAPSHOT, number, data), number == 1))

    def head_of(self, space: str, name: str) -> Change:
        """The newest change of an honest node, as it was heard."""
        heard: dict[int, Change] = {}
        codec, writers, awaited = Codec(self.cluster, space, 0), set[int](), self.hear(Hello).spaces[space][1]
        while not any(awaited.get(Writer(writer), (0,))[0] == heard[writer].seq for writer in writers):
            message = self.hear(Changes)
            for change in map(codec.decode, message.bodies if message.space == space else ()):
                heard[change.writer] = change
                if change.origin is not None and change.origin[1] == name:
                    writers.add(change.writer)
        return heard[writers.pop()]

    def forge_next(self, space: str, head: Change, *ops: Op) -> None:
        """A change under the next number of somebody else."""
        change = Change(head.writer, head.seq + 1, (), head.hash, Hlc(head.hlc + 1), "mad", None, ops)
        self.say(Changes(space, 0, [Codec(self.cluster, space, 0).encode(change).body]))

    def dot_of(self, key: str) -> Dot:
        """Of the first write of a record of the cluster."""
        codec = Codec(self.cluster, CLUSTER_SPACE, 0)
        while True:
            message = self.hear(Changes)
            for change in map(codec.decode, message.bodies if message.space == CLUSTER_SPACE else ()):
                for n, op in enumerate(change.ops):
                    if op.key == key:
                        return Dot(change.writer, change.seq, n)

    def is_refused(self) -> bool:
        try:
            self.connect()
            self.hear(Hello)
        except (OSError, WebSocketException, ConnectionClosed):
            return True
        return False

    def close(self) -> None:
        with suppress(OSError, WebSocketException):
            self._stack.close()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon("host-a", insecure_loopback=False)
    try:
        yield made
    finally:
        made.close()


def test_a_removed_member_stays_out_though_another_deletes_the_record_of_it(daemon: Daemon, tmp_path: Path) -> None:
    victim, renegade = (Renegade(daemon, tmp_path, name) for name in ("host-v", "host-r"))
    with daemon.client() as client:
        client.cluster_remove("host-v")
    record = f"removed/{victim.key.node}"
    renegade.connect()
    renegade.write(CLUSTER_SPACE, delete(record, (renegade.dot_of(record),)))
    wait_until(lambda: "record_undone" in daemon.alarms(), what="the daemon notices")
    assert victim.is_refused()
    daemon.stop()
    daemon.start()
    assert victim.is_refused()
    with daemon.client() as client:
        states = {row["name"]: row["state"] for row in client.cluster_members()["members"]}
    assert states["host-v"] == "removed"
    renegade.close()


ASKED: dict[str, Any] = {"question": "?", "options": [], "context": None, "deadline_ms": SEQ_MAX, "default": None}


def test_what_no_agent_can_write_ends_no_command(daemon: Daemon, tmp_path: Path) -> None:
    renegade = Renegade(daemon, tmp_path, "host-r").connect()
    deep, good = b"\x91" * 900 + b"\xc0", pack("good")
    renegade.write("default", put("a", deep), put("b", good, attrs={"ttl": "x"}), put("c", deep))
    renegade.write("default", put("c", good))
    renegade.write("default", put("d", good, attrs={"ttl": 1 << 48}), hlc_ms=(1 << 48) - 1)
    wait_until(lambda: "malformed_write" in daemon.alarms(), what="the daemon notices")
    with daemon.client() as client:
        wait_until(lambda: client.get("d") is not None, what="all of it is here")
        assert client.get("a") is None
        assert client.get("b") == client.get("d") == "good"
        assert {entry.value for entry in client.conflicts()[0].siblings} <= {None, "good"}
    renegade.say(Health(renegade.key.node, SEQ_MAX, "9", "ready", alarms=(ToldAlarm("fork", SEQ_MAX),)))
    with daemon.client() as client:
        for key, value in (("presence/x", {"role": None, "status": "", "since_ms": SEQ_MAX}), ("asks/x", ASKED)):
            client.set(key, value)
    shell = Shell(daemon.socket, tmp_path)
    wait_until(lambda: "fork" in shell("cluster", "status", "--json").out, what="the daemon is told of its health")
    for command in ("status", "status --json", "cluster status", "who", "asks"):
        done = shell(*command.split())
        assert done.status == 0, (command, done.err)
    for command in ("conflicts", "history", "history --lost", "export", "ls", "get d --json", "explain d", "explain a"):
        done = shell(*command.split())
        assert done.status == 0, (command, done.err)
    renegade.close()


def test_nodes_that_a_member_makes_up_leave_nothing_behind(daemon: Daemon, tmp_path: Path) -> None:
    """In answers that nobody asked for, in words of their health, and in questions that they are said to ask."""
    renegade = Renegade(daemon, tmp_path, "host-r").connect()
    here = renegade.hear(Hello).node
    ghosts = [f"{number:032x}" for number in range(200)]
    held = [Held("default", 0, ghost, f"ghost-{ghost[-3:]}", b"d" * 16, {WRITER: 1}) for ghost in ghosts]
    renegade.say(Holding(here, tuple(held)))
    for ghost in ghosts:
        renegade.say(Health(ghost, SEQ_MAX, "9", "read-only", alarms=(ToldAlarm("fork", 1),)))
        renegade.say(Ask(ghost, SEQ_MAX, (Asked("default", 0, (WRITER,)),)))
    renegade.write("default", put("last", pack("word")))
    with daemon.client() as client:
        wait_until(lambda: client.get("last") == "word", what="all of it has come")
    assert [peer["name"] for peer in daemon.status()["peers"]] == ["host-r"]
    shell = Shell(daemon.socket, tmp_path)
    assert "ghost" not in shell.ok("cluster", "status", "--json") + shell.ok("peers", "--json")
    renegade.close()
    daemon.kill()
    daemon.start()
    assert [peer["name"] for peer in daemon.status()["peers"]] == ["host-r"]


def test_an_empty_state_takes_no_member_away_and_nothing_in_silence(daemon: Daemon, tmp_path: Path) -> None:
    with daemon.client() as client:
        for n in range(20):
            client.set(f"k/{n:02}", n)
    renegade = Renegade(daemon, tmp_path, "host-r").connect()
    heads = renegade.hear(Hello).spaces
    for space in (CLUSTER_SPACE, "default"):
        renegade.give_empty_state(space, heads[space][1])
    wait_until(lambda: {"snapshot_contradicted", "taken_away"} <= set(daemon.alarms()), what="the daemon notices")
    with daemon.client() as client:
        assert {row["name"] for row in client.cluster_members()["members"]} == {"host-a", "host-r"}
        assert client.get("k/07") is None  # there is no third node that could have known better
        assert [past.value for past in client.history("k/07")] == [7]
    messages = {alarm["code"]: alarm["message"] for alarm in daemon.status()["alarms"]}
    assert "the state that host-r sent took away 20 values" in messages["taken_away"]
    renegade.close()
    daemon.kill()
    daemon.start()
    shell = Shell(daemon.socket, tmp_path)
    assert shell("bring-back").out == "20 values brought back, 0 left\n"
    assert shell("bring-back", "--json").out == '{"written": 0, "left": 0}\n'
    with daemon.client() as client:
        assert [client.get(f"k/{n:02}") for n in range(20)] == [*range(20)]


def test_a_change_under_the_next_number_of_another_is_undone(daemon: Daemon, tmp_path: Path) -> None:
    """Of the writer of host-a, host-b has another change 3 than host-a itself: both stand, also without the forger."""
    renegade = Renegade(daemon, tmp_path, "host-r")
    other = Daemon("host-b", insecure_loopback=False)
    try:
        with daemon.client() as client:
            other.client().cluster_join(client.cluster_invite(local=True)["invite"])
            client.incr("n", 1)
            client.set("k", "honest")
        wait_until_equal([daemon, other])
        daemon.stop()
        renegade.daemon = other
        renegade.connect()
        renegade.forge_next("default", renegade.head_of("default", "host-a"), put("forged", pack("x")))
        with other.client() as client:
            wait_until(lambda: client.get("forged") == "x", what="host-b has taken it")
            client.append("log", "b")
        other.stop()
        daemon.start()
        with daemon.client() as client:
            client.incr("n", 5)
            client.append("log", "a")
        other.start()
        wait_until_forks_heal(daemon, other)
        with daemon.client() as client:
            client.cluster_remove("host-r")
            client.incr("n", 10)
        with other.client() as client:
            client.incr("n", 100)
        wait_until_equal([daemon, other])
        for host in (daemon, other):
            with host.client() as client:
                assert (client.get("n"), client.get("k"), client.get("forged")) == (116, "honest", "x")
                assert sorted(client.log("log")) == ["a", "b"]
    finally:
        renegade.close()
        other.close()
