"""Mirrors over sockets: what they show, what they wait for, how they end."""

# mypy: disable-error-code="attr-defined,union-attr,misc,assignment"

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from time import monotonic

import msgpack
import pytest

from crdtsync.causality import Dot, Writer
from crdtsync.client import AsyncClient, Client
from crdtsync.client.aio.stream import HELLO_TIMEOUT_S, AsyncStream
from crdtsync.client.blocking.stream import Stream
from crdtsync.client.streams.resume import NEED_FIRST_MS, NEED_NEXT_MS
from crdtsync.errors import DaemonUnavailable, InvalidRequest, NotAllowed, Timeout, TooLarge
from crdtsync.wire.tokens import Version, encode_token, encode_version
from tests.harness.workers import in_a_child

PATIENCE_S = 60.0


def token(seq: int) -> str:
    return encode_token([("default", 0, {Writer(1): seq})])


def version(seq: int, *others: int) -> str:
    return encode_version(Version((Dot(Writer(1), seq, 0),), tuple(Dot(Writer(1), other, 0) for other in others)))


def state(key: str, value: object, seq: int = 1, **fields: object) -> dict[str, object]:
    known = {"kind": "register", "dot": f"1.{seq}.0", "version": version(seq), "siblings": []}
    return {"event": "state", "key": key, "value": msgpack.packb(value), **known, **fields}


def current(seq: int) -> dict[str, object]:
    return {"event": "current", "key": None, "token": token(seq)}


class Feed:
    """The daemon's side of a mirror: plays one connection, and lets the test say what comes."""

    def __init__(self, *first: dict[str, object]) -> None:
        self.first = first
        self.watch: dict[str, object] = {}
        self.asked = threading.Semaphore(0)
        self.lag = 0
        self.token: str | None = token(1)
        self._peer = None
        self._started = threading.Event()

    def __call__(self, peer) -> None:
        peer.greet()
        number, operation, self.watch = peer.receive()
        assert (number, operation) == (2, "watch")
        peer.reply(2, {"token": token(0)})
        self._peer = peer
        peer.events(2, *self.first)
        self._started.set()
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, operation, _ = peer.receive()
                assert operation == "confirm"
                self.asked.release()
                peer.reply(number, {"token": self.token, "lag": self.lag, "away": 1})

    def tell(self, *events: dict[str, object]) -> None:
        assert self._started.wait(PATIENCE_S)
        if not events:
            return
        self.token = next((event["token"] for event in events if event["event"] == "current"), self.token)
        self._peer.events(2, *events)

    def fail(self, code: str) -> None:
        assert self._started.wait(PATIENCE_S)
        self._peer.refuse(2, code)

    def cut(self) -> None:
        assert self._started.wait(PATIENCE_S)
        self._peer.socket.shutdown(2)


def until(condition) -> None:
    deadline = monotonic() + PATIENCE_S
    while not condition():
        assert monotonic() < deadline
        threading.Event().wait(0.002)


def test_it_is_a_mapping(daemon):
    feed = Feed(state("p/b", {"x": 1}), state("p/a", [2]), current(1))
    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        assert feed.watch == {"prefix": "p/", "states": True}
        assert dict(mirror) == mirror == {"p/a": [2], "p/b": {"x": 1}}
        assert list(mirror) == list(mirror.keys()) == ["p/a", "p/b"]
        assert list(mirror.items()) == [("p/a", [2]), ("p/b", {"x": 1})]
        assert list(mirror.values()) == [[2], {"x": 1}]
        assert len(mirror) == 2
        assert "p/a" in mirror
        assert "p/c" not in mirror
        assert mirror.get("p/c") is None
        assert mirror.get("p/c", 7) == 7
        assert mirror.entry("p/a").version == version(1)
        assert mirror.entry("p/c") is None
        assert mirror.token == token(1)
        with pytest.raises(KeyError):
            mirror["p/c"]
        assert mirror["p/a"] is mirror["p/a"], "a value is decoded once"
        snapshot = mirror.snapshot()
        feed.tell(state("p/a", 3), {"event": "delete", "key": "p/b"}, current(2))
        until(lambda: mirror == {"p/a": 3})
        assert snapshot == {"p/a": [2], "p/b": {"x": 1}}
        assert (snapshot.token, mirror.token) == (token(1), token(2))


def test_a_conflict_shows_the_winner_and_its_siblings(daemon):
    sibling = {"kind": "register", "value": msgpack.packb("lost"), "dot": "1.1.0"}
    feed = Feed(state("p/a", 1), state("p/k", "won", siblings=[sibling], winner=version(2, 1)), current(1))
    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        assert mirror["p/k"] == "won"
        assert [entry.key for entry in mirror.conflicts()] == ["p/k"]
        assert [other.value for other in mirror.conflicts()[0].siblings] == ["lost"]


def test_what_is_told_is_not_shown_before_it_is_whole(daemon):
    feed = Feed(state("p/a", 1), state("p/b", 1), current(1))
    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        feed.tell(state("p/a", 2))
        feed.token = None  # the daemon has more to tell
        assert feed.asked.acquire(timeout=PATIENCE_S)
        assert mirror == {"p/a": 1, "p/b": 1}
        feed.tell(state("p/b", 2), current(2))
        until(lambda: mirror["p/b"] == 2)
        assert mirror["p/a"] == 2


def test_readers_never_see_half_of_a_batch(daemon):
    """However threads are scheduled: who has seen the second key changed finds the first one changed."""
    keys = [f"p/{number}" for number in range(40)]
    feed = Feed(*(state(key, 0) for key in keys), current(1))
    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        torn: list[object] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                last = mirror[keys[-1]]
                if mirror[keys[0]] < last:
                    torn.append("lookups")
                if len({*mirror.snapshot().values()}) != 1 or len({*mirror.values()}) != 1:
                    torn.append("snapshot")

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(1, 300):
            feed.tell(*(state(key, number) for key in keys), current(number))
        until(lambda: mirror[keys[0]] == 299)
        done.set()
        for thread in threads:
            thread.join()
        assert not torn


def test_it_says_how_stale_it_is(daemon):
    feed = Feed(current(1))
    feed.lag = 5
    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        until(lambda: mirror.staleness_s < PATIENCE_S)
        assert (mirror.daemon_lag, mirror.peers_away) == (5, 1)
        feed.token = None
        before = mirror._confirmed_s
        feed.asked.acquire(timeout=PATIENCE_S)
        feed.asked.acquire(timeout=PATIENCE_S)
        assert mirror._confirmed_s == before, "a daemon that has more to tell confirms nothing"


def test_it_goes_on_after_a_broken_connection(daemon):
    feed, again = Feed(state("p/a", 1), current(1)), Feed(state("p/a", 2), current(2))
    daemon.play(daemon.idle, feed, again)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        feed.tell(state("p/a", "half"))
        feed.cut()
        until(lambda: mirror["p/a"] == 2)
        assert again.watch["after"] == token(1)


def behind(peer) -> None:
    """A daemon that lacks something, and is asked nothing more on that connection."""
    peer.greet()
    number, _, watch = peer.receive()
    behind.watches.append(watch)
    peer.refuse(number, "timeout", missing={"host-a": 3})
    peer.wait_for_end()


def test_a_daemon_that_lacks_what_was_shown_is_asked_again(daemon):
    feed, again = Feed(state("p/a", 1), current(5)), Feed(state("p/a", 2), current(6))
    behind.watches = []
    daemon.play(daemon.idle, feed, behind, behind, again)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        assert client.token == token(5), "what it shows its client has seen"
        feed.cut()
        until(lambda: mirror.missing)
        assert mirror.missing == {"host-a": 3}
        assert mirror == {"p/a": 1}
        until(lambda: mirror == {"p/a": 2})
        assert mirror.missing == {}
        asked = [*behind.watches, again.watch]
        assert [watch["need"] for watch in asked] == [token(5)] * 3
        assert [watch["timeout"] for watch in asked] == [NEED_FIRST_MS, NEED_NEXT_MS, NEED_NEXT_MS]


def silent(peer) -> None:
    """A daemon that takes its time, and is not asked meanwhile how fresh it is."""
    peer.greet()
    peer.receive()
    assert peer.socket.recv(1000) == b""


def test_a_mirror_that_cannot_open_says_what_is_missing(daemon):
    behind.watches = []
    daemon.play(daemon.idle, behind, silent)
    with Client(daemon.path, after=token(7)) as client:
        with pytest.raises(Timeout, match="did not come in time: refused: timeout") as late:
            client.mirror("p/", timeout=1.0)
        assert late.value.missing == {"host-a": 3}
        assert behind.watches[0]["need"] == token(7)


def test_a_reset_replaces_everything_at_once(daemon):
    feed = Feed(state("p/a", 1), state("p/b", 1), current(1))
    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        feed.tell({"event": "reset", "key": None}, state("p/c", 1))
        feed.token = None
        feed.asked.acquire(timeout=PATIENCE_S)
        assert {*mirror} == {"p/a", "p/b"}
        feed.tell(current(2))
        until(lambda: {*mirror} == {"p/c"})


def test_a_token_that_is_of_no_use_any_more_starts_it_over(daemon):
    def refusing(peer):
        peer.greet()
        peer.receive()
        peer.refuse(2, "invalid_request")
        peer.wait_for_end()

    feed, again = Feed(state("p/a", 1), current(7)), Feed(state("p/b", 2), current(1))
    daemon.play(daemon.idle, feed, refusing, again)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        feed.cut()
        until(lambda: mirror == {"p/b": 2})
        assert "after" not in again.watch


def test_a_part_that_does_not_fit_has_the_key_told_anew(daemon):
    feed = Feed(state("p/log", [1, 2], kind="log"), current(1))
    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        part = {"event": "part", "key": "p/log", "kind": "log", "op": "append", "places": None, "length": 9}
        feed.tell({**part, "value": msgpack.packb([3])}, state("p/k", 1), current(2))
        feed.asked.acquire(timeout=PATIENCE_S)
        assert mirror == {"p/log": [1, 2]}, "nothing of that moment is shown while something lacks"
        feed.tell(state("p/log", [*range(9)], kind="log"), current(3))
        until(lambda: mirror == {"p/log": [*range(9)], "p/k": 1})


# -- writes ----------------------------------------------------------------------------------------------------------


def writes(feed: Feed, replies, told):
    """The scene of the client's own connection: answers each write, and tells the mirror of it."""

    def play(peer) -> None:
        peer.greet()
        for reply, events in zip(replies, told, strict=True):
            number, _, arguments = peer.receive()
            arguments_of.append(arguments)
            peer.reply(number, reply)
            with contextlib.suppress(OSError):  # the test may have ended by then
                feed.tell(*events)
        peer.wait_for_end()

    arguments_of: list[dict[str, object]] = []
    play.arguments = arguments_of
    return play


def written(seq: int) -> dict[str, object]:
    return {"token": token(seq), "version": version(seq), "siblings": 0, "behind": False, "replaced": None}


def test_a_write_returns_when_its_mirror_shows_it(daemon):
    feed = Feed(state("p/a", 1), current(1))
    daemon.play(writes(feed, [written(2), written(3)], [[state("p/a", 2), current(2)], []]), feed)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        client.set("p/a", 2)
        assert mirror["p/a"] == 2
        client.set("elsewhere", 2)  # concerns no mirror, and waits for none


def test_a_write_that_changed_nothing_is_confirmed(daemon):
    feed = Feed(current(1))
    daemon.play(writes(feed, [{"token": token(5), "existed": False}], [[]]), feed)
    with Client(daemon.path) as client, client.mirror("p/"):
        feed.token = token(5)
        started = monotonic()
        assert client.delete("p/a") is False
        assert monotonic() - started < PATIENCE_S / 2


def test_a_write_whose_mirror_lags_behind_is_done_all_the_same(daemon):
    feed = Feed(current(1))
    daemon.play(writes(feed, [written(2)], [[]]), feed)
    with Client(daemon.path) as client, client.mirror("p/"):
        feed.token = None
        with pytest.raises(Timeout, match="is done") as failed:
            client.set("p/a", 2, timeout=0.2)
        assert failed.value.token == token(2)


def test_what_is_read_here_counts_as_seen(daemon):
    """By look-up the winner, by entry all siblings; what was not read is written blind."""
    sibling = {"kind": "register", "value": msgpack.packb("lost"), "dot": "1.1.0"}
    conflict = {"siblings": [sibling], "version": version(9), "winner": version(2, 1)}
    feed = Feed(*(state(f"p/{name}", 1, 2, **conflict) for name in "abc"), current(2))
    scene = writes(feed, [written(3)] * 5, [[current(3)], [], [], [], []])
    daemon.play(scene, feed)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:
        mirror["p/a"], mirror.entry("p/b"), mirror.get("p/none")
        for name in ("a", "b", "c", "none"):
            client.set(f"p/{name}", 1)
        seen = [arguments.get("seen") for arguments in scene.arguments]
        assert seen == [version(2, 1), version(9), None, "?"]
        feed.tell(state("p/c", 2, 4), current(4))
        until(lambda: mirror.token == token(4))
        client.set("p/c", 1)
        assert "seen" not in scene.arguments[-1], "what came was not read"


@pytest.mark.parametrize("kind", [Stream, AsyncStream])
async def test_a_daemon_is_given_as_long_for_its_hello_as_by_any_client(daemon, monkeypatch, kind):
    feed, again = Feed(current(1)), Feed(state("p/a", 2), current(2))
    daemon.play(daemon.idle, feed, again)
    limits: list[float] = []
    receive = kind.receive

    def note(stream, deadline):
        if not (stream.is_up or stream.is_closed):  # which may happen as it looks
            limits.append(deadline - monotonic())
        return receive(stream, deadline)

    monkeypatch.setattr(kind, "receive", note)
    if kind is Stream:
        with Client(daemon.path) as client, client.mirror("p/") as mirror:
            feed.cut()
            until(lambda: mirror == {"p/a": 2})
    else:
        changed = asyncio.Event()
        async with AsyncClient(daemon.path) as client, client.mirror("p/", on_change=lambda _: changed.set()):
            feed.cut()
            await changed.wait()
    assert min(limits) > HELLO_TIMEOUT_S


# -- its end ---------------------------------------------------------------------------------------------------------


def test_no_thread_stays_behind(daemon):
    before = {*threading.enumerate()}
    daemon.play(daemon.idle, Feed(current(1)), Feed(current(1)), Feed(current(1)))
    client = Client(daemon.path)
    mirrors = [client.mirror("p/"), client.session("other").mirror("p/"), client.mirror("q/")]
    mirrors[0].close()
    mirrors[0].close()
    client.close()
    for mirror in mirrors:
        assert not mirror._worker.is_running
        for read in (lambda m=mirror: m["p/a"], lambda m=mirror: m.get("p/a"), lambda m=mirror: "p/a" in m,
                     lambda m=mirror: len(m), lambda m=mirror: list(m), lambda m=mirror: m.snapshot()):  # fmt: skip
            with pytest.raises(DaemonUnavailable, match="is closed"):
                read()
    assert not {thread for thread in threading.enumerate() if thread.name.startswith("mirror")} - before


def test_it_is_closed_while_a_daemon_that_hangs_is_greeted(daemon):
    feed, greeted = Feed(current(1)), threading.Event()

    def hang(peer) -> None:
        peer.receive()
        greeted.set()
        peer.wait_for_end()

    daemon.play(daemon.idle, feed, hang)
    with Client(daemon.path) as client:
        mirror = client.mirror("p/")
        feed.cut()
        assert greeted.wait(PATIENCE_S)
        mirror.close()
        assert not mirror._worker.is_running


def test_a_refusal_ends_it_and_its_readers_are_told(daemon):
    feed = Feed(state("p/a", 1), current(1))
    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client:
        mirror = client.mirror("p/")
        feed.fail("not_allowed")
        until(lambda: mirror.error is not None)
        with pytest.raises(NotAllowed):
            mirror["p/a"]


def test_too_much_is_refused_when_it_opens_and_ends_it_later(daemon):
    feed = Feed(state("p/a", 1), current(1))
    daemon.play(daemon.idle, Feed(state("p/a", 1), state("p/b", 1), current(1)), feed)
    with Client(daemon.path) as client:
        with pytest.raises(TooLarge, match="the mirror of 'p/' has over 1 keys"):
            client.mirror("p/", keys_max=1)
        mirror = client.mirror("p/", bytes_max=1000)
        feed.tell(state("p/b", "x" * 1000), current(2))
        until(lambda: mirror.error is not None)
        with pytest.raises(TooLarge, match="raise bytes_max"):
            mirror["p/a"]


def test_there_must_be_a_daemon_and_it_must_answer_in_time(daemon, tmp_path):
    feed = Feed(state("p/a", 1))
    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client:
        with pytest.raises(Timeout, match="did not come in time"):
            client.mirror("p/", timeout=0.1)
        with pytest.raises(InvalidRequest):
            client.mirror("p/", keys_max=0)


def test_a_callback_that_fails_does_no_harm(daemon, caplog):
    feed = Feed(state("p/a", 1), current(1))
    told: list[set[str]] = []

    def on_change(keys: set[str]) -> None:
        told.append(keys)
        raise ValueError("of the callback")

    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client, client.mirror("p/", on_change=on_change) as mirror, \
            caplog.at_level(logging.ERROR):  # fmt: skip
        feed.tell(state("p/a", 2), state("p/b", 2), current(2))
        until(lambda: len(told) == 2)
        feed.tell({"event": "delete", "key": "p/a"}, current(3))
        until(lambda: len(told) == 3)
        assert told == [{"p/a"}, {"p/a", "p/b"}, {"p/a"}]
        assert mirror == {"p/b": 2}
    assert "of the callback" in caplog.text


def test_it_does_not_live_on_in_a_child(daemon):
    feed = Feed(state("p/a", 1), current(1))
    daemon.play(daemon.idle, feed)
    with Client(daemon.path) as client, client.mirror("p/") as mirror:

        def read():
            with pytest.raises(InvalidRequest, match="belongs to the parent process"):
                _ = mirror["p/a"]

        in_a_child(read)
        feed.tell(state("p/a", 2), current(2))
        until(lambda: mirror["p/a"] == 2)


# -- asyncio ---------------------------------------------------------------------------------------------------------


async def test_the_asyncio_client_has_the_same(daemon):
    feed = Feed(state("p/a", 1), current(1))
    told: list[set[str]] = []
    daemon.play(writes(feed, [written(2)], [[state("p/a", 2), current(2)]]), feed)
    async with AsyncClient(daemon.path) as client, client.mirror("p/", on_change=told.append) as mirror:
        assert mirror == {"p/a": 1}
        await client.set("p/a", 2)
        assert mirror["p/a"] == 2
        assert told == [{"p/a"}, {"p/a"}]
        assert "seen" not in client.memory._read
    with pytest.raises(DaemonUnavailable, match="is closed"):
        mirror["p/a"]
    assert len(asyncio.all_tasks()) == 1


async def test_an_asyncio_mirror_goes_on_after_a_broken_connection(daemon):
    feed, again = Feed(state("p/a", 1), current(1)), Feed(state("p/a", 2), current(2))
    daemon.play(daemon.idle, feed, again)
    changed = asyncio.Event()
    async with AsyncClient(daemon.path) as client, client.mirror("p/", on_change=lambda _: changed.set()) as mirror:
        changed.clear()
        feed.cut()
        async with asyncio.timeout(PATIENCE_S):
            await changed.wait()
        assert mirror["p/a"] == 2
        assert again.watch["after"] == token(1)


async def test_an_asyncio_mirror_ends_with_its_bounds_and_with_its_client(daemon):
    feed = Feed(state("p/a", 1), current(1))
    daemon.play(daemon.idle, Feed(state("p/a", 1), state("p/b", 1), current(1)), feed)
    async with AsyncClient(daemon.path) as client:
        with pytest.raises(TooLarge):
            async with client.mirror("p/", keys_max=1):
                pass
        mirror = client.mirror("p/")
        await mirror.attach()
        assert mirror["p/a"] == 1
    with pytest.raises(DaemonUnavailable):
        mirror["p/a"]
