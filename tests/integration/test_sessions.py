"""Session guarantees on real hosts: a client that goes on at another daemon takes along what it has seen.

It reads its own writes, is never shown less than before, and writes after what it has read; or it is told what is
missing.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from crdtsync import AsyncClient, Client
from crdtsync.client import Event, Watch
from crdtsync.errors import Timeout, Unresolved, VersionMismatch
from crdtsync.wire.tokens import decode_token
from tests.harness import Cluster, Daemon, Proxy, wait_until, wait_until_equal
from tests.harness.shell import Done, Shell

pytestmark = pytest.mark.integration

SHORT_S = 0.4
LONG_S = 60.0
PATIENCES_S = (SHORT_S, 2.0, LONG_S)
"""How long a daemon is given to say what it lacks: on a busy machine its word may come late."""


@pytest.fixture
def door(pair: Cluster) -> Proxy:
    """A socket at which the first daemon answers, until :func:`swap` puts the second one behind it."""
    return pair.network.proxy(str(pair[0].socket), str(pair[0].run / "d"))


@pytest.fixture
def state(door: Proxy) -> Iterator[Client]:
    """A client of whoever answers at the door."""
    with Client(str(door.address), agent="mover") as client:
        yield client


def swap(door: Proxy, to: Daemon) -> None:
    """From now on ``to`` answers at the door; connections to the other break."""
    door.target = str(to.socket)
    door.drop()


def part(pair: Cluster, *, known: bool = True) -> None:
    """Cut them apart; ``known``: each has heard of the other."""
    for daemon in pair if known else ():
        daemon.client("usher").set(f"known/{daemon.name}", True)
    wait_until_equal(pair)
    pair.cut(0, 1)
    pair.wait_parted(0, 1)


READS: list[Callable[[Client], Any]] = [
    lambda state: state.get("r"),
    lambda state: state.entries("r")[0].value,
    lambda state: dict(state.items())["r"],
    lambda state: state.get("c"),
    lambda state: state.log("l")[-1],
    lambda state: state.members("s")[-1],
    lambda state: state.get("m")["f"],
    lambda state: int(state.text("t").read()),
]


def write_all(state: Client, n: int) -> None:
    """Write ``n`` in every kind, as one change but for the text."""
    with state.batch() as batch:
        batch.set("r", n)
        batch.incr("c", n - (n - 1 if n > 1 else 0))
        batch.append("l", n)
        batch.add("s", n)
        batch.merge("m", {"f": n})
    state.text("t").set(str(n))


def test_it_reads_its_own_writes_of_every_kind(pair: Cluster, door: Proxy, state: Client) -> None:
    write_all(state, 1)
    wait_until_equal(pair)
    part(pair)
    write_all(state, 2)
    swap(door, pair[1])
    for read in READS:
        with pytest.raises(Timeout, match="it lacks 2 changes of host-a") as late:
            in_short(state, read)
        assert late.value.missing == {"host-a": 2}
    pair.heal()
    assert [read(state) for read in READS] == [2] * len(READS)


def in_short(state: Client, read: Callable[[Client], Any]) -> Any:
    timeout_s, state.timeout_s = state.timeout_s, SHORT_S
    try:
        return read(state)
    finally:
        state.timeout_s = timeout_s


def test_it_waits_for_what_is_on_its_way(pair: Cluster, door: Proxy, state: Client) -> None:
    part(pair)
    state.set("plan", 1)
    swap(door, pair[1])
    found: list[Any] = []
    reader = Thread(target=lambda: found.append(state.get("plan")))
    reader.start()
    wait_until(lambda: any(agent["name"] == "mover" for agent in pair[1].status()["agents"]), what="it has moved")
    assert not found
    pair.heal()
    reader.join(LONG_S)
    assert found == [1]


def test_its_reads_never_go_back(pair: Cluster, door: Proxy, state: Client) -> None:
    """What others wrote and it has only read counts as much as what it wrote."""
    other = pair[0].client("other")
    part(pair)
    for n in range(5):
        other.set("plan", n)
    assert state.get("plan") == 4
    swap(door, pair[1])
    with pytest.raises(Timeout) as late:
        state.get("plan", timeout=SHORT_S)
    assert late.value.missing == {"host-a": 5}
    assert late.value.token is None
    pair.heal()
    assert state.get("plan") == 4


def test_what_it_saw_absent_does_not_come_back(pair: Cluster, door: Proxy, state: Client) -> None:
    other = pair[0].client("other")
    other.set("plan", 1)
    wait_until_equal(pair)
    part(pair)
    other.delete("plan")
    assert state.get("plan") is None
    swap(door, pair[1])
    with pytest.raises(Timeout):
        state.get("plan", timeout=SHORT_S)
    pair.heal()
    assert state.get("plan") is None


def test_what_it_was_shown_by_refusals_counts_too(pair: Cluster, door: Proxy, state: Client) -> None:
    """By a read that needs somebody to choose, and by a choice that came too late."""
    other = pair[0].client("other")
    other.schema_set("k", "manual")
    part(pair)
    for n in (1, 2):
        other.set("k", n, seen="?")
    with pytest.raises(Unresolved) as unresolved:
        state.get("k")
    assert unresolved.value.token == state.last_token == state.token
    with Client(str(door.address), agent="chooser") as chooser:
        taken = other.conflicts()[0].siblings[0].dot
        other.resolve("k", value=3)
        with pytest.raises(VersionMismatch) as late:
            chooser.resolve("k", take=taken)
        assert late.value.current.value == 3
        assert late.value.token == chooser.last_token == chooser.token
        swap(door, pair[1])
        for client, count in ((state, 2), (chooser, 3)):
            with pytest.raises(Timeout) as behind:
                client.get("else", timeout=SHORT_S)
            assert behind.value.missing == {"host-a": count}


def test_its_writes_come_after_what_it_has_read(cluster: Cluster) -> None:
    """On every host: the third hears of the answer from the second before it hears of the question from the first."""
    door = cluster.network.proxy(str(cluster[0].socket), str(cluster[0].run / "d"))
    with Client(str(door.address), agent="mover") as state:
        cluster[0].client().set("known", True)
        wait_until_equal(cluster)
        cluster.isolate(0)
        for other in (1, 2):
            cluster.wait_parted(0, other)
        cluster[0].client("asker").set("question", "?")
        assert state.get("question") == "?"
        swap(door, cluster[1])
        assert state.status()["node"]["name"] == "host-b"  # a write to a connection that breaks has an unknown outcome
        with pytest.raises(Timeout, match="nothing was done"):
            state.set("answer", "!", timeout=SHORT_S)
        assert cluster[1].client().get("answer") is None
        cluster.heal(0, 1)
        token = state.set("answer", "!")
        third = cluster[2].client()
        assert third.get("answer", after=token) == "!"
        assert third.get("question") == "?"


def event_of(watch: Watch) -> Event:
    event = watch.next(LONG_S)
    assert event is not None
    return event


def test_its_watches_never_go_back(pair: Cluster, door: Proxy, state: Client) -> None:
    part(pair)
    with state.watch("plan") as watch:
        assert event_of(watch).event == "snapshot"
        pair[0].client("other").set("plan", "new")
        assert event_of(watch).value == "new"
        pair[1].client("other").set("plan", "concurrent")
        swap(door, pair[1])
        with pytest.raises(Timeout):
            watch.next(1.0)
        pair.heal()
        while not (event := event_of(watch)).siblings:
            assert event.key != "plan" or event.value == "concurrent", "what it has not been told"
        assert {event.value, *(one.value for one in event.siblings)} == {"new", "concurrent"}


def test_a_watch_that_was_shown_more_binds_its_client_too(pair: Cluster, door: Proxy, state: Client) -> None:
    part(pair)
    with state.watch("plan") as watch:
        assert event_of(watch).event == "snapshot"
        pair[0].client("other").set("plan", "new")
        assert event_of(watch).value == "new"
    swap(door, pair[1])
    with pytest.raises(Timeout, match="1 change of host-a"):
        state.get("plan", timeout=SHORT_S)
    pair.heal()
    assert state.get("plan") == "new"


def test_its_mirrors_never_go_back(pair: Cluster, door: Proxy, state: Client) -> None:
    part(pair)
    with state.mirror("plan") as mirror:
        token = pair[0].client("other").set("plan", "new")
        mirror.wait(token)
        pair[1].client("other").set("plan", "concurrent")
        swap(door, pair[1])
        wait_until(lambda: mirror.missing, what="the mirror has moved, and waits")
        assert mirror.missing == {"host-a": 1}
        assert mirror == {"plan": "new"}
        assert mirror.staleness_s > 0
        with pytest.raises(Timeout, match="1 change of host-a"):
            state.get("plan", timeout=SHORT_S)  # what its mirror showed its client has seen
        pair.heal()
        wait_until(mirror.conflicts, what="it shows both")
        assert mirror["plan"] == state.get("plan")
        assert mirror.missing == {}


def test_a_client_that_forgets_has_its_mirrors_go_on_too(pair: Cluster, door: Proxy, state: Client) -> None:
    """As after the loss of the disk that held it: what the daemon lacks will never come."""
    part(pair)
    with state.mirror("plan") as mirror:
        mirror.wait(pair[0].client("other").set("plan", "lost"))
        pair[1].client("other").set("plan", "kept")
        pair[0].kill()
        swap(door, pair[1])
        wait_until(lambda: mirror.missing)
        with pytest.raises(Timeout) as late:
            mirror.wait(pair[1].client("other").set("plan/2", 2), timeout=SHORT_S)
        assert late.value.missing == {"host-a": 1}
        assert mirror == {"plan": "lost"}
        state.forget_token()
        wait_until(lambda: mirror == {"plan": "kept", "plan/2": 2}, what="the mirror shows what there is")


def test_what_cannot_be_opened_yet_says_what_is_missing(pair: Cluster) -> None:
    part(pair)
    token = pair[0].client().set("plan", 1)
    with Client(pair[1].socket, agent="worker", after=token) as worker:
        acts: list[Callable[[float], Any]] = [
            lambda _limit_s: worker.mirror("plan"),
            lambda _limit_s: worker.resolver("plan"),
            lambda limit_s: next_of(worker, limit_s),
        ]
        for act in acts:
            late = refused(worker, act)
            assert late.missing == {"host-a": 1}
            assert "it lacks 1 change of host-a" in str(late)
        pair.heal()
        with worker.mirror("plan") as mirror:
            assert mirror == {"plan": 1}


def refused(client: Client, act: Callable[[float], object]) -> Timeout:
    """The error that says what is missing."""
    for client.timeout_s in PATIENCES_S:
        try:
            act(client.timeout_s)
        except Timeout as late:
            if late.missing:
                return late
    raise AssertionError("the daemon did not say what it lacks")


def next_of(client: Client, limit_s: float) -> Event | None:
    with client.watch("plan") as watch:
        return watch.next(limit_s)


def test_a_daemon_that_comes_back_empty_catches_up_before_it_is_believed(
    pair: Cluster, make_daemon: Callable[..., Daemon]
) -> None:
    """The same socket, another database: that of a host that was set up anew."""
    first, second = pair
    door = pair.network.proxy(str(first.socket), str(first.run / "d"))
    with Client(str(door.address), agent="mover") as state:
        state.set("plan", "old", w="all")
        fresh = make_daemon("host-a2", peers=[])
        swap(door, fresh)
        with pytest.raises(Timeout, match="connected to no other node"):
            state.get("plan", timeout=SHORT_S)
        fresh.stop()
        fresh.start(peers=[second.url])
        assert state.get("plan") == "old"


def test_back_where_it_was_it_waits_for_nothing(pair: Cluster, door: Proxy, state: Client) -> None:
    part(pair)
    state.set("plan", 1)
    for _ in range(3):
        door.drop()
        assert state.get("plan") == 1
    pair[0].kill()
    pair[0].start()
    assert state.get("plan") == 1


def test_another_client_goes_on_with_its_token(pair: Cluster) -> None:
    part(pair)
    with pair[0].client("planner") as planner:
        planner.set("plan", 1)
        planner.get("plan")
        token = planner.token
    assert token is not None
    with Client(pair[1].socket, agent="worker", after=token) as worker:
        for act in (lambda: worker.get("plan", timeout=SHORT_S), lambda: worker.incr("n", timeout=SHORT_S)):
            with pytest.raises(Timeout, match="1 change of host-a"):
                act()
        assert pair[1].client().get("n") is None
        pair.heal()
        assert worker.get("plan") == 1
        assert worker.incr("n") == 1
        together = worker.token
    assert together is not None
    with Client(pair[0].socket, after=together) as back:
        assert (back.get("n"), back.get("plan")) == (1, 1)


def test_who_is_missing_may_never_have_been_heard_of(pair: Cluster) -> None:
    part(pair, known=False)
    state = pair[1].client(after=pair[0].client().set("plan", 1))
    with pytest.raises(Timeout, match=r"1 change of a writer never heard of here .* connected to no other node"):
        state.get("plan", timeout=SHORT_S)


def test_tokens_stay_short_whatever_has_happened(pair: Cluster) -> None:
    for n in range(200):
        pair[n % 2].client().set(f"k/{n}", n)
    state = pair[0].client()
    state.keys()
    state.set("k", 1)
    for token in (state.token, state.last_token):
        assert token is not None
        assert len(token) < 60
        assert len(decode_token(token)["default"][1]) == 1


def test_a_token_of_a_read_covers_what_it_showed(pair: Cluster) -> None:
    here, there = pair[0].client("here"), pair[1].client("there")
    writer = pair[0].client("writer")
    for n in range(20):
        writer.set("k", n)
        assert here.get("k") == n
        token = here.last_token
        assert token is not None
        assert there.get("k", after=token) >= n


async def test_the_asyncio_client_keeps_what_it_has_seen_too(pair: Cluster, door: Proxy) -> None:
    part(pair)
    async with AsyncClient(str(door.address), agent="mover") as state:
        await state.set("plan", 1)
        swap(door, pair[1])
        with pytest.raises(Timeout, match="1 change of host-a"):
            await state.get("plan", timeout=SHORT_S)
        token = state.token
        assert token is not None
        async with AsyncClient(pair[1].socket, after=token) as other:
            with pytest.raises(Timeout) as late:
                await other.append("log", 1, timeout=SHORT_S)
            assert late.value.missing == {"host-a": 1}
            pair.heal()
            assert await other.append("log", 1) == 1
        assert await state.get("plan") == 1
        state.forget_token()
        assert state.token is None


async def test_so_do_its_mirrors_watches_and_resolvers(pair: Cluster, door: Proxy) -> None:
    part(pair)
    async with AsyncClient(str(door.address), agent="mover") as state, state.mirror("plan") as mirror:
        await state.set("plan", 1)
        assert mirror == {"plan": 1}
        swap(door, pair[1])
        await asyncio.to_thread(wait_until, lambda: mirror.missing)
        assert mirror == {"plan": 1}

        async def open_resolver() -> None:
            async with state.resolver("plan"):
                pass

        acts: list[Callable[[], Awaitable[object]]] = [
            lambda: state.mirror("plan").attach(),
            open_resolver,
            lambda: state.watch("plan").next(state.timeout_s),
        ]
        for act in acts:
            missing: dict[str, int] = {}
            for state.timeout_s in PATIENCES_S:
                with pytest.raises(Timeout) as late:
                    await act()
                missing = late.value.missing
                if missing:
                    break
            assert missing == {"host-a": 1}
        pair[1].client().set("plan/2", 2)
        pair.heal()
        await asyncio.to_thread(wait_until, lambda: mirror == {"plan": 1, "plan/2": 2})


def told(shell: Shell, *words: str, **environment: str) -> Done:
    """What a command ends with whose daemon lacks something."""
    for limit_s in PATIENCES_S:
        done = shell("--timeout", f"{limit_s}s", *words, **environment)
        if "1 change of host-a" in done.err:
            return done
    raise AssertionError("the daemon did not say what it lacks")


def test_the_command_line_takes_tokens_everywhere(pair: Cluster, tmp_path: Path) -> None:
    shells = []
    for daemon in pair:
        (tmp_path / daemon.name).mkdir()
        shells.append(Shell(daemon.socket, tmp_path / daemon.name))
    here, there = shells
    part(pair)
    here.ok("set", "plan", "1")
    token = json.loads(here.ok("get", "plan", "--json"))["token"]
    for command in (
        ("get", "plan"),
        ("members", "s"),
        ("set", "n", "1"),
        ("incr", "c"),
        ("ls",),
        ("log", "l"),
        ("text", "t"),
    ):
        done = told(there, *command, "--after", token)
        assert done.status == 5
        assert "it lacks 1 change of host-a" in done.err
    assert told(there, "ls", CRDTSYNC_AFTER=token).status == 5
    for words in (
        ("get", "plan", "--after", token),
        ("wait", token),
        ("watch", "--after", token),
        ("resolver", "*", "--after", token, "--", "cat"),
    ):
        done = told(there, "--json", *words)
        assert done.status == 5
        assert json.loads(done.err)["error"]["missing"] == {"host-a": 1}
        assert "1 change of host-a" in done.err
        assert "--after None" not in done.err
    assert there("get", "plan").status == 1
    pair.heal()
    assert there.ok("get", "plan", "--after", token) == "1"
    assert "plan" in there.ok("--after", token, "ls").split()


def test_a_child_process_goes_on_with_what_its_parent_had_seen(pair: Cluster, door: Proxy, state: Client) -> None:
    part(pair)
    state.set("plan", 1)
    door.target = str(pair[1].socket)  # the parent's connection stands; the child makes one of its own
    child = os.fork()
    if child == 0:
        try:
            state.get("plan", timeout=SHORT_S)
        except Timeout as late:
            os._exit(7 if late.missing == {"host-a": 1} else 1)
        except BaseException:  # noqa: BLE001  # the child of a test run must not go on with the tests
            os._exit(2)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
