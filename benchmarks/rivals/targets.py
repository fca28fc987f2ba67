"""What crdtsync is to reach: each target a ratio of two medians of one run, or one figure of it, and what there is to
say where it is missed.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.rivals import attached, floors, keystrokes, large, measures, overwritten
from benchmarks.rivals.measures import Figure
from benchmarks.rivals.report import BASE, Found

US, PAIR = "crdtsync", "crdtsync, two daemons"
BARE, BARE_ROWS, BARE_PAIR = floors.Bare.name, floors.BareRows.name, floors.BareLine.name


class Target(NamedTuple):
    """``ours / theirs``, or ``ours`` alone, is to be at most ``limit``, or at least, if ``is_floor``. ``note``: where
    it is missed.
    """

    name: str
    ours: tuple[Figure, str]
    theirs: tuple[Figure, str] | None
    limit: float
    is_floor: bool = False
    note: str = ""

    def measured(self, found: Found) -> float | None:
        """The ratio, or the figure; None: not measured."""
        return self._of(found, self.ours)

    def of_floor(self, found: Found) -> float | None:
        """The same for a bare server, which writes our rows if there is one; None: none was measured, or it is what
        this is beside.
        """
        figure, _ = self.ours
        floor = next((name for name in (BARE_ROWS, BARE, BARE_PAIR) if name in found.get(figure, {})), None)
        return None if floor is None or (figure, floor) == self.theirs else self._of(found, (figure, floor))

    def _of(self, found: Found, place: tuple[Figure, str]) -> float | None:
        value = _value(found, place)
        if self.theirs is None or value is None:
            return value
        theirs = _value(found, self.theirs)
        return value / theirs if theirs else None

    def is_met(self, measured: float) -> bool:
        """Whether that is good enough."""
        return measured >= self.limit if self.is_floor else measured <= self.limit

    def shown(self, value: float) -> str:
        """With what it is measured in."""
        unit = "times" if self.theirs is not None else self.ours[0].unit
        if unit == "times":
            return f"{value:.2g}×"
        return f"{value:,.{0 if value >= 100 or value == int(value) else 2}f} {unit}"


def _value(found: Found, place: tuple[Figure, str]) -> float | None:
    figure, system = place
    return found.get(figure, {}).get(system)


_WRITE = (
    "Floor: the disk. An append with `fdatasync` is most of what a write takes in Redis, and a write here waits"
    " for one append and one flush, too. The rest is Python: a turn, a commit and two wake-ups for each write."
)
_TAIL = (
    "Rows come from the journal into SQLite's tables between turns, some at a time, and now and then their transaction "
    "ends; a write that comes just then waits for that."
)
_IN_FLIGHT = (
    "The interpreter counts and not the disk. A write leaves a change, an entry, a mark on the one before, a line of "
    "history and an outcome; a bare server that writes just these takes half of the time. The other half decides what "
    "a write replaces, checks rights and bounds, and serves those who wait and watch. Redis does the bare work in C."
)
_EVENT = (
    "Of 880 µs (busy machine, real-time priority; two bare servers: 440) the two flushes take 270, and sockets and "
    "clients 250. The rest is Python, 150 µs at the writer's host and 200 at the other. It runs once in a millisecond, "
    "and so the processor's caches are cold: a change is decoded in 18 µs, and once more in 9. It is spread over 230 "
    "calls; without those that only count, and plan what is to be trimmed and compared, an event takes as long."
)
_RESTART = (
    "[Most of it](../../benchmarks/README.md#profile) is Python: the libraries, as in a bare server, and some 300 "
    "modules of ours, a quarter of a millisecond each. Under systemd the socket is passed on, so agents wait and do "
    "not fail."
)
_READ = (
    "A read of a register takes 7 µs of Python in the daemon and 5 in the client. System calls and waking each "
    "other are the rest. Many reads belong into a mirror."
)
_CATCH_UP = (
    "Redis's figure is one `MGET` from memory to memory. Two bare servers, of which one dials for the state and stores "
    "it, take three times as long. Of 25 ms here (busy machine, real-time priority; the bare servers: 14) dialling and "
    "what two hosts say as they meet take 6.6, reading from disk what is held, while the other host begins, 4.1, "
    "the parts 8, checking and merging them 4.7, the commit 2. Each part, value and entry is hashed at both hosts: a "
    "state that does not hold together must not take anything away."
)
_LOAD = (
    "The live state is in memory: the start reads each key's row and makes an entry, some 3.5 µs, of which 2 "
    "are SQLite's and Python's for the row itself."
)
_APPENDS = (
    "So many appends come as the state, a thousand in a part, compressed, checked, and written to disk before "
    "they show. That takes 15 to 20 µs of the receiver's CPU for an entry, half of it SQLite's."
)
_GROWTH = (
    "No step of a write looks at more keys than its own. But the row that it marks, and that row's place among the "
    "living, are each in a page that no other write of the same seconds needs. Two such pages cost some 40 µs: to "
    "read, to log, and to move to the database."
)
_KEYSTROKE = (
    "A user of an editor waits 1 to 3 µs for a keystroke. This figure is the whole session, until three daemons "
    "have all on disk, divided by the keystrokes; one in eight waits for what its author had seen of others."
)
_DURABLE_EDIT = (
    "pycrdt alone keeps its edits in memory, in one process. Here each edit is a change on its own, on disk on "
    "three nodes, and read back by every author."
)

TARGETS: tuple[Target, ...] = (
    Target("durable write, one client", (measures.WRITE_P50, US), (measures.WRITE_P50, BASE), 1.0, note=_WRITE),
    Target("durable write, one client, p99", (measures.WRITE_P99, US), (measures.WRITE_P99, BASE), 1.5, note=_TAIL),
    Target("durable writes a second, 16 in flight", (measures.WRITES, US), (measures.WRITES, BASE), 1.0,
           is_floor=True, note=_IN_FLIGHT),
    Target("durable writes a second, 16 in flight, beside a bare server", (measures.WRITES, US),
           (measures.WRITES, BARE), 0.6, is_floor=True, note=_IN_FLIGHT),
    Target("CPU of the daemon for one of those", (measures.SERVER_CPU, US), None, 45, note=_IN_FLIGHT),
    Target("read through the socket", (measures.READ_P50, US), (measures.READ_P50, BASE), 1.0, note=_READ),
    Target("read of a mirror", (measures.MIRROR_READ, US), (measures.READ_P50, BASE), 0.01),
    Target("write to event over two hosts, beside two bare servers", (measures.DISTANCE_P50, PAIR),
           (measures.DISTANCE_P50, BARE_PAIR), 1.3, note=_EVENT),
    Target("write to event over two hosts, p99, beside them", (measures.DISTANCE_P99, PAIR),
           (measures.DISTANCE_P99, BARE_PAIR), 1.5, note=_EVENT),
    Target("write to event over two hosts, beside y-websocket", (measures.DISTANCE_P50, PAIR),
           (measures.DISTANCE_P50, "y-websocket"), 1.5, note=_EVENT),
    Target("catch-up, time", (measures.CATCH_UP, US), (measures.CATCH_UP, BASE), 3.0, note=_CATCH_UP),
    Target("catch-up, bytes", (measures.CATCH_UP_BYTES, US), (measures.CATCH_UP_BYTES, BASE), 2.0, note=_CATCH_UP),
    Target("restart to first read, 1,000 keys", (measures.RESTART, US), (measures.RESTART, BASE), 4.0, note=_RESTART),
    Target("restart to first read, 100,000 keys", (large.restart_of(large.MANY), US), None, 1.0, note=_LOAD),
    Target("restart to first read, 1,000,000 keys", (large.restart_of(large.MOST), US), None, 5.0, note=_LOAD),
    Target("catch-up of appends", (measures.APPENDS_RATE, US), None, 25_000, is_floor=True, note=_APPENDS),
    Target("catch-up of appends, bytes for each of the payload", (measures.APPENDS_BYTES, US), None, 1.3,
           note=_APPENDS),
    # Per keystroke: what a text editor does with one. It shows it at once and saves it with others, and says when
    # it is saved. An edit that is a durable write of its own is another thing, shown beside it, by the same measure.
    Target("a keystroke of a replayed session, in editors, beside pycrdt alone",
           (keystrokes.KEYSTROKE, keystrokes.EDITOR), (keystrokes.KEYSTROKE, keystrokes.ALONE), 2.0, note=_KEYSTROKE),
    Target("the same with each edit on disk by itself", (keystrokes.KEYSTROKE, keystrokes.DURABLE),
           (keystrokes.KEYSTROKE, keystrokes.ALONE), 2.0, note=_DURABLE_EDIT),
    Target("memory of one more idle agent", (attached.AGENT_MEMORY, US), None, 40),
    Target("memory of one more idle peer", (attached.PEER_MEMORY, US), None, 100),
    Target("growth of a write's CPU from 1,000 to 1,000,000 keys", (large.GROWTH_CPU, US), None, 1.2,
           note=_GROWTH),
    Target("growth of a write's time from 1,000 to 1,000,000 keys", (large.GROWTH_P50, US), None, 1.3,
           note=_GROWTH),
    Target("live state after 1,000,000 overwrites, beside a fresh one", (overwritten.LIVE, US), None, 1.0),
    Target("disk after those, beside its budget", (overwritten.BUDGET, US), None, 1.0),
    Target("memory that 800,000 of those add", (overwritten.GROWTH, US), None, 5),
    Target("acknowledged writes lost by kill -9", (measures.LOST_BY_KILL, US), None, 0),
    Target("acknowledged writes lost by a clean restart", (measures.LOST_BY_RESTART, US), None, 0),
)  # fmt: skip
