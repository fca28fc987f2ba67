"""What crdtsync is to reach beside others: each target a ratio of two medians of one run, and what there is to say
where it is missed.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.rivals import measures
from benchmarks.rivals.measures import Figure
from benchmarks.rivals.report import BASE, Found

US, PAIR, DISTANT_BASE = "crdtsync", "crdtsync, two daemons", "Redis always, set and publish"
ECHO = "echo of uvloop and msgpack"


class Target(NamedTuple):
    """``ours / theirs`` is to be at most ``limit``, or at least, if ``is_floor``. ``note``: where it is missed."""

    name: str
    ours: tuple[Figure, str]
    theirs: tuple[Figure, str]
    limit: float
    is_floor: bool = False
    note: str = ""

    def ratio(self, found: Found) -> float | None:
        """What was measured; None: not measured."""
        values = [found.get(figure, {}).get(system) for figure, system in (self.ours, self.theirs)]
        return values[0] / values[1] if values[0] is not None and values[1] else None

    def is_met(self, ratio: float) -> bool:
        """Whether that is good enough."""
        return ratio >= self.limit if self.is_floor else ratio <= self.limit


_WRITE = (
    "Floor: the disk. An append with `fdatasync` is most of what a write takes in Redis, which spends about 10 µs "
    "of CPU on one; a SQLite commit of one row adds some 15 µs of CPU and a second page to that. Profile, of the "
    "daemon's CPU for a write: a half is the core (what the write supersedes, the change with its hashes, "
    "history, the outcome for retries), a quarter the commit, the rest the turn, the frames and the socket. "
    "Tried: rows packed into one journal row a commit (kept: it saved a third), the reply before the rest of a "
    "turn (kept), planning once a millisecond (kept), commits in a thread (slower: it waits for the interpreter's "
    "lock). Next: a journal in a preallocated file of its own, without SQLite's locks and page, and the path of a "
    "plain `set` (one operation, one entry removed) in a module compiled with mypyc or Cython."
)
_IN_FLIGHT = (
    "Here the disk is shared by all that waits, so it is the interpreter that counts: the core's step for each "
    "write, and bringing the journal's rows into the tables (log, live state, history, removals, outcomes: six "
    "rows a write). Redis does the same in C without history, causality or retries. Tried: group commit (kept), "
    "settling 256, 64 and 32 changes at once (64 kept: as little CPU as 256, and half the delay for the slowest "
    "write of a hundred). Next: rows that are superseded within one batch go to history directly; a compiled core."
)
_EVENT = (
    "Two commits, one after the other, on two hosts, against one of Redis's; then two frames of websockets and "
    "two more turns. Tried: sending within the turn and not from a task (kept), acknowledgements that nobody "
    "waits for without a turn (kept). Next: handing a change on while its own commit is under way, which the "
    "promises forbid; or a websocket of our own on top of uvloop, which saves two wake-ups."
)
_RESTART = (
    "Most of it is Python: the interpreter and the imports (SQLite, cryptography, websockets, uvloop and the "
    "core). Floor: `python -c 'import uvloop, sqlite3, cryptography.x509, websockets'`. Tried: imports at first "
    "use for what few need (metrics, texts, console logs; kept). Next: the daemon frozen with its modules in one "
    "archive; under systemd the socket is passed on, so agents wait instead of failing."
)
_CPU = (
    "The echo decodes and encodes a frame; a write also decides what it supersedes, makes a change with two "
    "hashes, keeps history and an outcome, and goes to disk. See durable writes above."
)

_READ = (
    "A read takes no turn while nothing waits for the disk: it is decoded, looked up, told with its version and "
    "written at once. What is left is about equal parts of socket, client and core. Reads that are many belong "
    "into a mirror. Next: the version of a value encoded once and kept beside it."
)
_CATCH_UP = (
    "The state is sent when it is less than the changes that are lacking (from 10,000 on), in parts that are "
    "checked and written to disk before they show; Redis's figure is one `MGET` from memory to memory. The time "
    "has the dialling, the introduction of both nodes and two commits in it."
)

TARGETS: tuple[Target, ...] = (
    Target("durable write, one client", (measures.WRITE_P50, US), (measures.WRITE_P50, BASE), 1.0, note=_WRITE),
    Target("durable writes a second, 16 in flight", (measures.WRITES, US), (measures.WRITES, BASE), 1.5,
           is_floor=True, note=_IN_FLIGHT),
    Target("CPU of the daemon for one of those, beside a bare echo", (measures.SERVER_CPU, US),
           (measures.SERVER_CPU, ECHO), 3.0, note=_CPU),
    Target("read through the socket", (measures.READ_P50, US), (measures.READ_P50, BASE), 1.0, note=_READ),
    Target("read of a mirror", (measures.MIRROR_READ, US), (measures.READ_P50, BASE), 0.01),
    Target("write to event, over two hosts", (measures.DISTANCE_P50, PAIR), (measures.DISTANCE_P50, DISTANT_BASE), 1.5,
           note=_EVENT),
    Target("the same beside y-websocket", (measures.DISTANCE_P50, PAIR), (measures.DISTANCE_P50, "y-websocket"), 1.0,
           note="None of the servers of Yjs documents has anything on disk when its event comes; here it is on two."),
    Target("the same beside Hocuspocus", (measures.DISTANCE_P50, PAIR), (measures.DISTANCE_P50, "Hocuspocus"), 1.0,
           note="As above."),
    Target("the same beside pycrdt-websocket", (measures.DISTANCE_P50, PAIR),
           (measures.DISTANCE_P50, "pycrdt-websocket"), 1.0, note="As above."),
    Target("catch-up, time", (measures.CATCH_UP, US), (measures.CATCH_UP, BASE), 3.0, note=_CATCH_UP),
    Target("catch-up, bytes", (measures.CATCH_UP_BYTES, US), (measures.CATCH_UP_BYTES, BASE), 2.0, note=_CATCH_UP),
    Target("restart to first read, 1,000 keys", (measures.RESTART, US), (measures.RESTART, BASE), 1.0, note=_RESTART),
)  # fmt: skip
