"""What is done to the hosts: each fault begins, lasts, and says how it ends."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.harness import space
from tests.harness.daemon import Daemon
from tests.harness.tracing import CannotTraceError, inject, stop
from tests.nemesis.history import History
from tests.nemesis.hosts import FREE_BYTES_MIN, MIB, Hosts

End = Callable[[], None]
FAILED = 1
END_TIMEOUT_S = 60.0
LONE_WRITES = 30
"""So many writes are acknowledged by a host that is cut off, before it is killed."""
LONE_TIMEOUT_S = 20.0
CLOCK_JUMPS_S = (2, 60, 3600, 23 * 3600, 400 * 86_400, -2, -60, -3600, -400 * 86_400)


@dataclass
class Nemesis:
    """Begins and ends faults by chance. At most one at a time touches a host's process, disk or clock."""

    hosts: Hosts
    history: History
    rng: random.Random
    only: tuple[str, ...] = ()
    faults_max: int | None = None
    """Begin no more than so many."""
    faults_min: int = 0
    """Go on until there were so many, however long that takes."""
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _busy: set[str] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def play(self, seconds: float, pause_s: float, hold_s: tuple[float, float], width: int) -> None:
        """Faults for so long, ``width`` at once; returns when all have ended."""
        until_s = self.history.now_s() + seconds
        seeds = [self.rng.randrange(2**32) for _ in range(width)]
        threads = [
            threading.Thread(target=self._guarded, args=(random.Random(seed), until_s, pause_s, hold_s))
            for seed in seeds
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            self._over.set()  # a fault may end by a mount or a start, which must not come after the hosts have gone
            for thread in threads:
                if thread.ident is not None:
                    thread.join(END_TIMEOUT_S)
            raise

    def _guarded(self, rng: random.Random, until_s: float, pause_s: float, hold_s: tuple[float, float]) -> None:
        deck: list[str] = []
        try:
            while not (self._over.is_set() or self._is_enough() or self._is_over(until_s)):
                if not deck:  # each of them once before any comes twice
                    deck = [name for name in FAULTS if self._can(name)]
                    rng.shuffle(deck)
                self.inflict(deck.pop(), rng, min(rng.uniform(*hold_s), max(until_s - self.history.now_s(), 0.1)))
                self._over.wait(pause_s * rng.uniform(0.5, 1.5))
        except BaseException as error:  # noqa: BLE001  # judged with the rest
            self.failures.append(f"the nemesis failed: {type(error).__name__}: {error}")

    def _is_over(self, until_s: float) -> bool:
        return self.history.now_s() >= until_s and sum(self.counts.values()) >= self.faults_min

    def _is_enough(self) -> bool:
        return self.faults_max is not None and sum(self.counts.values()) >= self.faults_max

    def _can(self, name: str) -> bool:
        return name not in self.left_out() and (not self.only or name in self.only)

    def left_out(self) -> dict[str, str]:
        """Faults that cannot be made here, each with the program that is missing."""
        return {name: needs for name, needs in NEEDS.items() if getattr(self.hosts, needs) is None}

    def wait_written_alone(self, host: str, since_s: float) -> bool:
        """Until agents had enough of their writes on a host acknowledged that began later than ``since_s``; or until
        its daemon has ended, as it must on a broken disk. False: neither came.
        """
        until_s = self.history.now_s() + LONE_TIMEOUT_S
        while self.history.now_s() < until_s and self.hosts.daemons[host].is_running:
            if sum(op.began_s > since_s for op in self.history.written(host)) >= LONE_WRITES:
                return True
            if self._over.wait(0.05):
                return False
        return not self.hosts.daemons[host].is_running

    def inflict(self, name: str, rng: random.Random, seconds: float) -> None:
        """One fault for so long, on a host that has no other trouble of its own."""
        host = self._reserve(rng)
        if host is None:
            return
        try:
            end = FAULTS[name](self, host, rng)
            self.counts[name] = self.counts.get(name, 0) + 1
            self.history.fault(f"{name} {host}")
            try:
                self._over.wait(seconds)
            finally:
                end()
            self.history.fault(f"{name} {host}: over")
        except CannotTraceError:
            pass
        finally:
            self._busy.discard(host)

    def _reserve(self, rng: random.Random) -> str | None:
        free = [name for name in self.hosts.names if name not in self._busy]
        if not free:
            return None
        host = rng.choice(free)
        self._busy.add(host)
        return host

    def chain(self) -> str:
        """A name that no other rule has."""
        return f"f{next(self._numbers)}"

    def ended_well(self, daemon: Daemon) -> None:
        """A daemon that had to end has done so with a status and a sentence, and not with a traceback."""
        status = daemon.wait_exit(30)
        last = (daemon.log_lines() or [""])[-1]
        if status != FAILED or not last.startswith("crdtsyncd: "):
            self.failures.append(f"{daemon.name} ended with {status} and the words {last!r}")


# -- networks ----------------------------------------------------------------------------------------------------------


def cut(nemesis: Nemesis, host: str, _: random.Random) -> End:
    """A link is down."""
    nemesis.hosts.lan.cut(host)
    return lambda: nemesis.hosts.lan.heal(host)


def flap(nemesis: Nemesis, host: str, rng: random.Random) -> End:
    """A link goes down and up and down."""
    for _ in range(rng.randrange(2, 6)):
        nemesis.hosts.lan.cut(host)
        threading.Event().wait(rng.uniform(0.05, 0.5))
        nemesis.hosts.lan.heal(host)
        threading.Event().wait(rng.uniform(0.05, 0.5))
    return lambda: None


def _filtered(nemesis: Nemesis, host: str, hook: str, *rules: str) -> End:
    chain = nemesis.chain()
    nemesis.hosts.rule(host, chain, hook, *rules)
    return lambda: nemesis.hosts.unrule(host, chain)


def one_way(nemesis: Nemesis, host: str, rng: random.Random) -> End:
    """What a host sends to some others is lost; what they send comes."""
    others = [name for name in nemesis.hosts.names if name != host]
    deaf = rng.sample(others, rng.randrange(1, len(others) + 1))
    return _filtered(nemesis, host, "output", *(f"ip daddr {nemesis.hosts.lan.address(name)} drop" for name in deaf))


def partition(nemesis: Nemesis, host: str, rng: random.Random) -> End:
    """Two parts of the network that do not hear each other."""
    names = nemesis.hosts.names
    others = [name for name in names if name != host]
    here = [host, *rng.sample(others, rng.randrange(len(names) // 2))]
    ends = [
        _filtered(nemesis, name, "input",
                  *(f"ip saddr {nemesis.hosts.lan.address(far)} drop" for far in names if far not in here))
        for name in here
    ]  # fmt: skip
    ends += [
        _filtered(nemesis, far, "input", *(f"ip saddr {nemesis.hosts.lan.address(name)} drop" for name in here))
        for far in names if far not in here
    ]  # fmt: skip

    def end() -> None:
        for each in ends:
            each()

    return end


def loss(nemesis: Nemesis, host: str, rng: random.Random) -> End:
    """Some of all packets are lost."""
    return _filtered(nemesis, host, "input", f"numgen random mod 100 < {rng.choice((2, 10, 30, 60))} drop")


def resets(nemesis: Nemesis, host: str, rng: random.Random) -> End:
    """Connections are reset, by chance."""
    return _filtered(
        nemesis, host, "input", f"meta l4proto tcp numgen random mod 1000 < {rng.choice((5, 50))} reject with tcp reset"
    )


def narrow(nemesis: Nemesis, host: str, rng: random.Random) -> End:
    """Little gets through in a second."""
    return _filtered(nemesis, host, "input", f"limit rate over {rng.choice((4, 20, 100))} kbytes/second drop")


# -- processes ---------------------------------------------------------------------------------------------------------


def kill(nemesis: Nemesis, host: str, _: random.Random) -> End:
    """kill -9."""
    daemon = nemesis.hosts.daemons[host]
    daemon.kill()
    return daemon.start


def lone_kill(nemesis: Nemesis, host: str, _: random.Random) -> End:
    """A host goes on alone, is killed, and has nothing but its own disk when it starts: no peer can give back what
    that has lost.
    """
    daemon, lan = nemesis.hosts.daemons[host], nemesis.hosts.lan
    lan.cut(host)
    try:
        nemesis.wait_written_alone(host, nemesis.history.now_s())
    finally:
        daemon.kill()

    def end() -> None:
        daemon.start()
        lan.heal(host)

    return end


def restart(nemesis: Nemesis, host: str, _: random.Random) -> End:
    """SIGTERM."""
    daemon = nemesis.hosts.daemons[host]
    status = daemon.stop(30)
    if status != 0:
        nemesis.failures.append(f"{daemon.name} stopped with {status}")
    return daemon.start


def freeze(nemesis: Nemesis, host: str, _: random.Random) -> End:
    """SIGSTOP, and SIGCONT."""
    daemon = nemesis.hosts.daemons[host]
    daemon.freeze()
    return daemon.thaw


# -- disks -------------------------------------------------------------------------------------------------------------


def fill(nemesis: Nemesis, host: str, rng: random.Random) -> End:
    """A disk is full, or nearly."""
    disk = nemesis.hosts.disks[host]
    space.fill(disk.place, rng.choice((0, FREE_BYTES_MIN // 4, FREE_BYTES_MIN - MIB)))
    return disk.empty


def read_only(nemesis: Nemesis, host: str, _: random.Random) -> End:
    """A file system becomes read-only under the daemon, which must end; then it is repaired."""
    daemon, disk = nemesis.hosts.daemons[host], nemesis.hosts.disks[host]
    disk.abort()

    def end() -> None:
        nemesis.ended_well(daemon)
        disk.repair()
        daemon.start()

    return end


def lone_read_only(nemesis: Nemesis, host: str, _: random.Random) -> End:
    """The same of a host that is alone: if it goes on all the same, only it has what it acknowledges."""
    daemon, disk, lan = nemesis.hosts.daemons[host], nemesis.hosts.disks[host], nemesis.hosts.lan
    lan.cut(host)
    disk.abort()
    nemesis.wait_written_alone(host, nemesis.history.now_s())
    goes_on = daemon.is_running

    def end() -> None:
        if goes_on:
            daemon.kill()  # the judge says what is lost
        else:
            nemesis.ended_well(daemon)
        disk.repair()
        daemon.start()
        lan.heal(host)

    return end


def input_output_error(nemesis: Nemesis, host: str, rng: random.Random) -> End:
    """A call fails with EIO: the daemon must end, for nobody knows what the disk holds."""
    daemon = nemesis.hosts.daemons[host]
    assert nemesis.hosts.strace is not None
    failed = len(daemon.log_events("storage_failed"))
    calls = rng.choice(("fsync,fdatasync", "pwrite64", "fsync,fdatasync,pwrite64"))
    tracer = inject(nemesis.hosts.strace, daemon, f"{calls}:error=EIO:when={rng.randrange(1, 40)}")

    def end() -> None:
        stop(tracer)  # perhaps before so many calls were made
        if not daemon.is_running or daemon.log_events("storage_failed")[failed:]:
            nemesis.ended_well(daemon)
            daemon.start()

    return end


def slow_disk(nemesis: Nemesis, host: str, rng: random.Random) -> End:
    """Every flush takes long."""
    assert nemesis.hosts.strace is not None
    delay_us = rng.choice((5_000, 50_000, 300_000))
    tracer = inject(nemesis.hosts.strace, nemesis.hosts.daemons[host], f"fsync,fdatasync:delay_enter={delay_us}")
    return lambda: stop(tracer)


# -- clocks ------------------------------------------------------------------------------------------------------------


def clock(nemesis: Nemesis, host: str, rng: random.Random) -> End:
    """A clock jumps, and later back to the truth."""
    nemesis.hosts.set_clock(host, rng.choice(CLOCK_JUMPS_S))
    return lambda: nemesis.hosts.set_clock(host, 0)


FAULTS: dict[str, Callable[[Nemesis, str, random.Random], End]] = {
    "cut": cut, "flap": flap, "one-way": one_way, "partition": partition, "loss": loss, "resets": resets,
    "narrow": narrow, "kill": kill, "restart": restart, "freeze": freeze, "full-disk": fill,
    "read-only-disk": read_only, "eio": input_output_error, "slow-disk": slow_disk, "clock": clock,
    "lone-kill": lone_kill, "lone-read-only-disk": lone_read_only,
}  # fmt: skip
NEEDS = {
    "one-way": "nft", "partition": "nft", "loss": "nft", "resets": "nft", "narrow": "nft", "eio": "strace",
    "slow-disk": "strace", "clock": "faketime",
}  # fmt: skip
