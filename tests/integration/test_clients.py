"""The real clients on real daemons: atomic updates, exactly-once writes over broken connections, sessions that move."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crdtsync.client import AsyncClient, Client
from crdtsync.errors import OutcomeUnknown, Timeout
from tests.harness import Cluster, Daemon, Mirror, Network, Proxy, wait_until, wait_until_equal
from tests.harness.workers import in_processes, increments

pytestmark = pytest.mark.integration


@pytest.fixture
def doorway(daemon: Daemon) -> Iterator[Proxy]:
    """A unix socket in front of the daemon's, whose connections can be cut."""
    network = Network()
    yield network.proxy(str(daemon.socket), str(daemon.run / "d"))
    network.close()


def in_threads(count: int, work: Callable[[int], object]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001  # raised below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


# -- several agents on one host ------------------------------


def test_two_agents_that_update_a_number_lose_no_step(daemon: Daemon) -> None:
    in_processes(increments, [(str(daemon.socket), "number", 200)] * 2)
    with daemon.client() as client:
        entry = client.entry("number")
    assert entry is not None
    assert entry.value == 400
    assert entry.siblings == []


def test_sessions_of_one_client_that_update_a_number_lose_no_step(daemon: Daemon) -> None:
    client = daemon.client()

    def work(number: int) -> None:
        session = client.session(f"agent-{number}")
        for _ in range(100):
            # Each attempt that fails does so because another one was done: there are 400 in all.
            session.update("number", lambda value: value + 1, default=0, attempts=400)

    in_threads(4, work)
    assert client.get("number") == 400


# -- several writes of a batch to one key ------------------------------


def test_a_batch_that_sets_an_absent_key_twice_leaves_one_value(daemon: Daemon) -> None:
    with daemon.client() as client, daemon.client() as other:
        assert client.get("k") is None
        with client.batch() as batch:
            batch.set("k", 1)
            batch.set("k", 2)
        entry = client.entry("k")
        assert entry is not None
        assert (entry.value, entry.siblings) == (2, [])
        assert client.get("taken") is None
        other.set("taken", "unread")
        with client.batch() as batch:
            batch.set("taken", 1)
            batch.set("taken", 2)
            batch.delete("taken")
        entry = client.entry("taken")
        assert entry is not None
        assert (entry.value, entry.siblings) == ("unread", []), "what the batch's author had not read lives on"


def test_a_batch_can_write_siblings(daemon: Daemon) -> None:
    with daemon.client() as client:
        with client.batch() as batch:
            batch.set("k", 1, seen="?")
            batch.set("k", 2, seen="?")
        entry = client.entry("k")
        assert entry is not None
        assert sorted([entry.value, *(sibling.value for sibling in entry.siblings)]) == [1, 2]


# -- connections that break ------------------------------


@pytest.mark.parametrize("seed", range(2))
async def test_pipelined_writes_over_a_connection_that_is_cut_50_times_are_done_once(
    doorway: Proxy, daemon: Daemon, seed: int
) -> None:
    rng = random.Random(seed)
    lengths: list[int] = []
    written = 0
    async with AsyncClient(str(doorway.address), agent="writer") as client:
        for _ in range(150):
            if doorway.cuts >= 50:
                break
            limits: list[int | None] = [rng.randrange(1, 2500), None]
            rng.shuffle(limits)
            doorway.cut_after(*limits)
            lengths += await asyncio.gather(*(client.append("log", written + n) for n in range(25)))
            written += 25
    assert doorway.cuts == 50
    assert sorted(lengths) == list(range(1, written + 1)), "every length once"
    with daemon.client() as direct:
        log = direct.log("log")
    assert sorted(log) == list(range(written)), "every write once"
    assert [log[length - 1] for length in lengths] == list(range(written)), "each reply is about its own write"


def test_threads_that_share_a_connection_that_is_cut_write_once(doorway: Proxy, daemon: Daemon) -> None:
    rng = random.Random(7)
    client = Client(str(doorway.address), agent="writer")
    done = threading.Event()
    lengths: list[int] = []

    def work(number: int) -> None:
        if number == 0:
            for _ in range(30):
                before = doorway.accepted
                doorway.cut_after(*rng.sample([rng.randrange(1, 3000), None], 2))
                for _ in range(100):
                    if done.wait(0.005) or doorway.accepted > before:
                        break
            done.set()
            return
        n = 0
        while not done.is_set() and n < 3000:
            lengths.append(client.append("log", [number, n]))
            n += 1

    with client:
        in_threads(5, work)
    assert doorway.cuts > 5
    assert sorted(lengths) == list(range(1, len(lengths) + 1))
    with daemon.client() as direct:
        found = [tuple(item) for item in direct.log("log")]
    assert len(found) == len(set(found)) == len(lengths)
    for number in range(1, 5):
        mine = [n for who, n in found if who == number]
        assert mine == sorted(mine), "a thread's own order is kept"


def test_conditional_writes_over_a_connection_that_is_cut_answer_as_if_it_had_not_been(
    doorway: Proxy, daemon: Daemon
) -> None:
    """A write that was done before the cut must not fail its own condition when it is sent again."""
    rng = random.Random(11)
    with Client(str(doorway.address), agent="writer") as client:
        client.set("number", 0)
        for n in range(60):
            doorway.cut_after(*rng.sample([rng.randrange(1, 300), None], 2))
            entry = client.entry("number")
            assert entry is not None
            assert entry.value == n
            client.set("number", n + 1, if_version=entry.version)
            with client.batch() as batch:
                batch.append("log", n)
                batch.set(f"once/{n}", n, if_absent=True)
    assert doorway.cuts > 20
    with daemon.client() as direct:
        assert direct.get("number") == 60
        assert direct.log("log") == list(range(60))


def test_a_blind_write_that_is_sent_again_still_says_what_it_replaced(doorway: Proxy, daemon: Daemon) -> None:
    with daemon.client() as direct, Client(str(doorway.address), agent="writer") as client:
        direct.set("plan", "theirs")
        doorway.cut_after(down=1)  # the write gets there, its reply does not come back
        written = client.set("plan", "mine")
        assert doorway.cuts == 1
        assert written.replaced is not None
        assert written.replaced.value == "theirs"


def test_a_watch_goes_on_over_broken_connections_without_a_gap(doorway: Proxy, daemon: Daemon) -> None:
    """The watcher comes back while others write. Every cut comes: what is still to be told takes more bytes than it
    lets through.
    """
    rng = random.Random(3)
    cuts, events_per_cut, event_bytes_min = 30, 20, 50
    count = cuts * events_per_cut
    seen: list[int] = []
    ready = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            with Client(str(doorway.address), agent="watcher") as client, client.watch("log", timeout=60) as watch:
                for event in watch:
                    if event.event == "snapshot":
                        ready.set()
                        continue
                    assert event.event == "set"
                    seen.append(event.value)
                    if len(seen) == count:
                        return
        else:
            assert ready.wait(10)
            with daemon.client("writer") as writer:
                for n in range(count):
                    if n % events_per_cut == 0:
                        wait_until(lambda: doorway.cuts == n // events_per_cut)  # noqa: B023  # asked at once
                        doorway.cut_after(down=rng.randrange(1, events_per_cut * event_bytes_min))
                    writer.append("log", n)

    in_threads(2, work)
    assert doorway.cuts == cuts
    assert seen == list(range(count))


@pytest.mark.parametrize("broken", [False, True], ids=["steady", "broken"])
def test_a_copy_that_a_watch_keeps_shows_what_the_daemon_shows(pair: Cluster, broken: bool) -> None:
    """Also with siblings that come and go, and over connections that break."""
    rng = random.Random(9)
    door = pair.network.proxy(str(pair[1].socket), str(pair[1].run / "d"))
    clients = [daemon.client(daemon.name) for daemon in pair]
    with Client(str(door.address), agent="watcher") as client, Mirror(client, "k/") as mirror:
        for turn in range(5):
            pair.cut(0, 1)
            if broken:
                door.cut_after(down=rng.randrange(1, 3000))
            for n in range(120):
                writer, key = rng.choice(clients), f"k/{rng.randrange(8)}"
                match rng.randrange(6):
                    case 0:
                        writer.entry(key)
                        writer.delete(key)
                    case 1:
                        writer.get(key)
                        writer.delete(key)
                    case 2:
                        writer.get(key)
                        writer.set(key, [turn, n])
                    case 3:
                        writer.update(key, lambda found: found, siblings=True)
                    case _:
                        writer.set(key, [turn, n])
            pair.heal()
            wait_until_equal(pair)
            if broken and turn % 2:
                mirror.wait_for(dict(clients[1].items("k/")))  # so that it is connected, whatever was cut before
                door.drop()
        mirror.wait_for(dict(clients[1].items("k/")))
    assert not broken or door.accepted > 2


def test_writes_go_on_when_the_daemon_is_killed_and_comes_back(daemon: Daemon) -> None:
    client = daemon.client("writer")
    lengths: list[int] = []

    def work(number: int) -> None:
        if number == 0:
            for _ in range(4):
                if stopped.wait(0.3):
                    return
                daemon.kill()
                daemon.start()
            stopped.set()
            return
        n = 0
        while not stopped.is_set():
            lengths.append(client.append("log", [number, n]))
            n += 1

    stopped = threading.Event()
    in_threads(4, work)
    assert sorted(lengths) == list(range(1, len(lengths) + 1))
    assert len(client.log("log")) == len(lengths) > 20


# -- sessions that move to another daemon ------------------------------


@pytest.fixture
def moving(pair: Cluster) -> Iterator[tuple[Client, Proxy]]:
    """A client attached to the first daemon, and the door behind which the second one can be put."""
    door = pair.network.proxy(str(pair[0].socket), str(pair[0].run / "d"))
    with Client(str(door.address), agent="mover") as client:
        yield client, door


def move(door: Proxy, to: Daemon) -> None:
    door.target = str(to.socket)
    door.drop()


def test_a_session_that_asks_a_daemon_that_is_behind_for_its_reasons_reads_no_older_state_after(
    pair: Cluster, moving: tuple[Client, Proxy]
) -> None:
    client, door = moving
    client.set("plan", "v1")
    wait_until_equal(pair)
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    client.set("plan", "v2")
    move(door, pair[1])
    assert client.explain("plan")["values"][0]["value"] == "v1"
    with pytest.raises(Timeout, match="it lacks 1 change of host-a"):
        client.get("plan", timeout=0.5)


def test_a_session_that_insists_on_writing_at_a_daemon_that_is_behind_makes_a_sibling(
    pair: Cluster, moving: tuple[Client, Proxy]
) -> None:
    client, door = moving
    client.set("plan", "v1")
    wait_until_equal(pair)
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    author = pair[0].client()
    author.get("plan")
    author.set("plan", "v2")
    assert client.get("plan") == "v2"
    move(door, pair[1])
    assert client.status()["node"]["name"] == "host-b"
    with pytest.raises(Timeout, match="it lacks 1 change of host-a") as refused:
        client.set("plan", "v3", timeout=0.5)
    assert refused.value.missing == {"host-a": 1}
    client.forget_token()
    written = client.set("plan", "v3")
    assert written.behind
    assert written.siblings == 1, "v1, which it had not read, lives on here"
    pair.heal()
    wait_until_equal(pair)
    for daemon in pair:
        entry = daemon.client().entry("plan")
        assert entry is not None
        assert [entry.value, *(sibling.value for sibling in entry.siblings)] == ["v3", "v2"], "what it knew ranks below"


def test_a_write_that_insists_on_what_it_had_seen_waits_for_it(pair: Cluster) -> None:
    here, there = pair[0].client(), pair[1].client()
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    here.set("plan", "v1")
    entry = here.entry("plan")
    assert entry is not None
    with pytest.raises(Timeout):
        there.set("plan", "v2", seen=entry.version, timeout=0.3)
    with pytest.raises(Timeout):
        there.set("plan", "v2", if_version=entry.version, timeout=0.3)
    assert there.get("plan") is None, "nothing was done"
    answers: list[Any] = []
    other = pair[1].client()

    def work(number: int) -> None:
        if number == 0:
            answers.append(other.set("plan", "v3", seen=entry.version))
        else:
            pair.heal()

    in_threads(2, work)
    wait_until_equal(pair)
    assert [here.get("plan"), there.get("plan")] == ["v3", "v3"]
    assert answers[0].siblings == 0


def test_a_write_that_was_cut_off_and_comes_back_to_another_daemon_has_an_unknown_outcome(
    pair: Cluster, moving: tuple[Client, Proxy]
) -> None:
    client, door = moving
    client.set("plan", 0)
    outcomes: Counter[str] = Counter()
    for n in range(10):
        door.target = str(pair[(n + 1) % 2].socket)
        door.cut_after(down=0 if n % 2 else 1)
        try:
            client.append("log", n)
            outcomes["done"] += 1
        except OutcomeUnknown:
            outcomes["unknown"] += 1
    assert outcomes["unknown"] > 0
    wait_until_equal(pair)
    counts = Counter(client.log("log"))
    assert set(counts.values()) == {1}, "none was done twice"
    assert len(counts) >= outcomes["done"]
