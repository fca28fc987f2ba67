"""The end of a history: everything is mended, every host comes to the same state, and everything is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from crdtsync.core.background.trimming import CHECK_INTERVAL_S, IDLE_INTERVAL_S
from tests.simulator import images
from tests.simulator.agents import Agent
from tests.simulator.bounds import check_digest
from tests.simulator.disks import check_bounds, check_disk
from tests.simulator.kinds import KEYS
from tests.simulator.model import require
from tests.simulator.pasts import check_history

if TYPE_CHECKING:
    from tests.simulator.hosts import Host
    from tests.simulator.world import World

QUIET_ROUNDS_MAX = 2000


def heal(world: World, is_line: bool = False) -> None:
    """Start what is down, mend every connection, deliver everything: all nodes must come to the same state.

    They are connected in a line, or each with each.
    """
    for host in [host for host in world.staying() if host.twin_of is not None]:
        images.leave(world, host)  # somebody has noticed
    for host in world.staying():
        if host.is_busy:
            world.wake(host)
    for link in list(world.links):
        if link.is_tampered_with:
            world.cut(link)
        for side in (0, 1):
            world.notice(link, side)
    for host in world.staying():
        if host.node is None:
            world.start(host)
    for watcher in world.watchers:
        watcher.flow(blocked=False)
    hosts = world.staying()
    count = len(hosts)
    pairs = [(i, i + 1) for i in range(count - 1)] if is_line else [(i, j) for i in range(count) for j in range(i)]
    settle(world, lambda: is_quiet(world), [(hosts[i], hosts[j]) for i, j in pairs])


def settle(world: World, done: Callable[[], bool], pairs: Iterable[tuple[Host, Host]] = ()) -> None:
    """Deliver, turn and let time pass until ``done``; the first of each pair dials the other when it is gone."""
    pairs = [*pairs]
    for _ in range(QUIET_ROUNDS_MAX):
        for first, second in pairs:
            if not world.linked(first, second):
                world.counts["dial"] += 1
                world.connect(first, second)
        moved = 0
        for link in list(world.links):
            for side in (0, 1):
                moved += world.deliver(link, side, 1000)
        for host in world.up():
            world.turn(host)
        if moved or any(any(link.queues) for link in world.links):
            continue
        if done():
            return
        world.pass_time(time_to_next(world))
    vectors = {host.name: host.model.vector for host in world.staying()}
    require(False, "the nodes do not come to rest:", vectors, [agent.pending for agent in world.agents])


def time_to_next(world: World) -> float:
    """Seconds until something is due somewhere."""
    due = [deadline for host in world.up() if (deadline := host.running.deadline_s()) is not None]
    return max(0.01, min([*due, world.mono_s + 1.0]) - world.mono_s)


def is_quiet(world: World) -> bool:
    """Whether every host holds the same, and nobody waits for anything."""
    hosts = world.staying()
    first = hosts[0].model.vector
    waiting = any(agent.pending for agent in world.agents if agent.conn is not None)
    waiting |= any(host.running.dispatcher.watches.has_more() for host in hosts)
    return not waiting and all(host.model.vector == first for host in hosts)


def check_converged(world: World) -> None:
    """Nodes with equal vectors hold equal content, and nothing that was acknowledged is missing."""
    hosts = world.staying()
    first = hosts[0].replica
    for host in hosts:
        world.check(host)
        replica = host.replica
        require(replica.vector == first.vector, host.name, "has another vector")
        check_digest(host)
        require(replica.entries.digest == first.entries.digest, host.name, "has another digest")
        missing = {*replica.gate.missing()} - world.forgone
        require(not missing, host.name, "still holds early changes that wait for", missing)
        require(entries_of(replica) == entries_of(first), host.name, "has other entries")
        check_texts(world, host)
        check_disk(world, host)
        check_history(world, host)
    check_reads(world)
    everything = {*hosts[0].applied}
    for request in world.acknowledged:
        is_there = request.change in everything or request.change in world.forgone
        require(is_there, "an acknowledged write is gone:", request)
    for watcher in world.watchers:
        watcher.check()


def check_caps(world: World) -> None:
    """A while after the last write, when no snapshot is kept for anybody any more, every cap is kept to.

    In the first minute texts are compared, which may take snapshots; these are kept for one more, and within another
    one each node looks at spaces that nobody writes to. In any of these a text may be compacted that was left alone for
    one, which is a write: the caps are looked at a second after that.
    """
    rounds_s = 61.0, 61.0, IDLE_INTERVAL_S + 1.0, CHECK_INTERVAL_S + 0.1
    for seconds in (*rounds_s, *[0.1] * 8):  # the end of a pin is noticed by the next round
        world.pass_time(seconds)
        for host in world.up():
            if host.store is not None:
                host.store.settle()  # as a daemon does after a quarter of a second, and then slice by slice
                while host.store.backlog_records and host.store.bring_some_in():
                    pass
        settle(world, lambda: is_quiet(world))
    for host in world.staying():
        world.check(host)
        check_disk(world, host)
        check_bounds(world, host)


def check_texts(world: World, host: Host) -> None:
    """Every live document of ``host`` has the words that were written into it."""
    for values in host.model.keys.values():
        for document in sorted({value.document for value in values.values() if value.document is not None}):
            text = host.replica.documents.get(document).read()
            wanted = host.model.texts.read(document)
            is_right = world.oracle.is_text(document, text, wanted)
            require(is_right, host.name, document, f"is {text!r}, and ought to be {wanted!r}")


def check_reads(world: World) -> None:
    """Every reader is shown the same, on every host; and that is what the oracle expects."""
    readers = [Agent(world, f"reader-{host.index}", host) for host in world.staying()]
    for reader in readers:
        for key in KEYS:
            for name in ("get", "entry"):
                reader.ask(name, key)
        world.turn(reader.home)
        reader.leave()
        for name, key in {**readers[0].told, **reader.told}:
            (live, told), (other, shown) = _told(readers[0], name, key), _told(reader, name, key)
            alike = other != live or _agree(shown, told)  # clocks differ, and so what has expired
            require(alike, reader.home.name, "shows", name, key, "as", shown, "and not as", told)


def _told(reader: Agent, name: str, key: str) -> Any:
    """What was alive, and what was shown; a read of several values that was refused handed over all of them."""
    return reader.told.get((name, key)) or reader.told["entry", key]


def check_disks(world: World) -> None:
    """The same after every daemon was killed and started again."""
    for host in world.staying():
        world.crash(host)
    for host in world.staying():
        world.start(host)
        check_texts(world, host)
        check_history(world, host)


def entries_of(replica: Any) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that a reader could learn of every entry."""
    return {
        key: [(e.dot, e.sub, e.kind, e.hlc, e.agent, e.value, e.value_hash, e.attrs) for e in replica.entries.held(key)]
        for key in replica.entries._keys
    }


def _agree(one: Any, other: Any) -> bool:
    """Whether two hosts tell the same, but for what one of them cannot know: what the author of a value had seen that
    came with a snapshot.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        if "seen" in one and None in (one["seen"], other["seen"]):
            one, other = ({n: v for n, v in told.items() if n not in _HAD_SEEN} for told in (one, other))
        return one.keys() == other.keys() and all(_agree(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    return bool(one == other)


_HAD_SEEN = ("seen", "blind", "seen_all")
