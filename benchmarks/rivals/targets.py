"""What crdtsync is to reach: each target a ratio of two medians of one run, or one figure of it, and what there is to
say where it is missed.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.rivals import attached, keystrokes, large, measures, overwritten
from benchmarks.rivals.measures import Figure
from benchmarks.rivals.report import BASE, Found

US, PAIR, DISTANT_BASE = "crdtsync", "crdtsync, two daemons", "Redis always, set and publish"
ECHO = "echo of uvloop and msgpack"


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
        ours = _value(found, self.ours)
        if self.theirs is None or ours is None:
            return ours
        theirs = _value(found, self.theirs)
        return ours / theirs if theirs else None

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
    "Floor: the disk. An append with `fdatasync` is most of what a write takes in Redis, which spends about 10 µs "
    "of CPU on one. A SQLite commit of one row asks the kernel for nine things where an append asks for two: side by "
    "side on one machine 140 µs against 68 µs. The CPU is that of the next line, and for each write a commit, a turn "
    "and two wake-ups of its own. Tried: rows packed into one journal row a "
    "commit (kept: it saved a third), a short way for a plain `set` and short turns for those in which nothing else "
    "happened (kept: a third less CPU, 54 calls of Python functions a write where there were 138), planning at most "
    "once a millisecond (kept), commits in a thread (slower: it waits for the interpreter's lock). Next: a journal in "
    "a preallocated file of its own, which backups, quarantine and repair would have to know too."
)
_IN_FLIGHT = (
    "Here the disk is shared by all that waits, so it is the interpreter that counts: of some 100 µs for a write the "
    "core's step takes 30, and bringing the journal's rows into the tables (log, live state, history, removals, "
    "outcomes) 60, nearly all of it SQLite's own for six rows. Redis does the same in C without history, causality or "
    "retries. Tried: group commit (kept), settling 256, 64 and 32 changes at once (64 kept: as little CPU as 256, and "
    "half the delay for the slowest write of a hundred), 14 modules of the core compiled with mypyc (left out: the "
    "step fell from 29 to 24 µs, the whole stayed the same), three indexes less (no change). Next: rows that are "
    "superseded within one batch go to history directly, and the log served from the journal."
)
_EVENT = (
    "Two commits, one after the other, on two hosts, against one of Redis's; then two frames of websockets and "
    "two more turns; on two cores the third process, the clients', takes its share of them meanwhile. Tried: sending "
    "within the turn and not from a task (kept), acknowledgements that nobody waits for without a turn (kept), and "
    "only after agents have been told (kept), a message taken in where it is read, without the websocket library's "
    "queue and its task (kept: one wake-up less). Handing a change on while its own commit is under way was not done: "
    "if that host then loses its power, others hold a change whose number it will use again, for another one. "
    "Next: commits that cost less (above), and a codec for frames in place of the library's parser."
)
_RESTART = (
    "Most of it is Python: the interpreter and the imports (SQLite, cryptography, websockets, uvloop and the "
    "core). Floor: `python -c 'import uvloop, sqlite3, cryptography.x509, websockets'`, and pydantic for the settings, "
    "which are checked in a process beside it. Tried: imports at first use for what few need (metrics, texts, console "
    "logs, interfaces; kept), no search for garbage during the start (kept: a tenth), the agents' socket before "
    "anything is heard of peers (kept). Next: keys and websockets imported only after that, which is a third of the "
    "imports; then the daemon frozen with its modules in one archive. Under systemd the socket is passed on, so "
    "agents wait instead of failing."
)
_CPU = (
    "The echo decodes and encodes a frame; a write also decides what it supersedes, makes a change with two "
    "hashes, keeps history and an outcome, and goes to disk. See durable writes above."
)

_READ = (
    "A read takes no turn while nothing waits for the disk. Of a register with one value it is decoded, looked "
    "up, told with its version and written in one go: 7 µs of Python in the daemon and 7 in the client. Each "
    "of them makes as few system calls as can be (one to send and one to receive; the daemon also waits for "
    "its sockets), and these, and waking each other, are the rest. Reads that are many belong into a mirror. "
    "Tried: the general way for all reads (14 µs in the daemon). Not done: keeping the encoded version beside "
    "the value saves 1.5 µs and takes some 100 bytes for each key."
)
_CATCH_UP = (
    "The state is sent when it is less than the changes that are lacking (from 10,000 on), in parts that are "
    "compressed, checked and written to disk before they show; Redis's figure is one `MGET` from memory to memory. "
    "The time has the dialling, the introduction of both nodes and three commits in it; of the 50 µs of CPU for an "
    "entry half is SQLite's, for each replaces one that goes to history."
)

_LOAD = (
    "The live state is in memory: each key's row is read and made an entry, some 3.5 µs of which 2 are SQLite's and "
    "Python's for the row itself. Tried: making entries in bulk without looking for garbage meanwhile, one string "
    "for all that an agent wrote, the digest summed up beside serving (kept: half the time). Next: rows decoded "
    "when they are first looked at."
)
_APPENDS = (
    "So many come as the state, a thousand in a part, which is compressed, checked, and written to disk before it "
    "shows. It takes 15 to 20 µs of the receiver's CPU for an entry, half of that SQLite's. Tried: a part's entries "
    "added to a long key at once and not one by one, each hashed once and not three times (kept: half the time), "
    "parts compressed (kept: 1.1 bytes and not 1.4 for each of the payload). Next: entries written to disk once, and "
    "not first as staged and then as taken over."
)
_GROWTH = (
    "Supposed, and not measured apart yet: SQLite's trees are a page deeper, and of 1,000 keys all that a write "
    "touches fits into the processor's caches, of 1,000,000 nearly nothing; no step of a write looks at more keys "
    "than its own."
)
_KEYSTROKE = (
    "pycrdt alone keeps its edits in memory, in one process. Here each edit is a change on its own, acknowledged when "
    "it is on disk, sent to two more nodes and written there too, and every author reads the others' back. Floor: a "
    "durable write (above). An editor that sends what was typed within some tens of ms as one edit pays this once for "
    "all of it."
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
    Target("restart to first read, 100,000 keys", (large.restart_of(large.MANY), US), None, 1.0, note=_LOAD),
    Target("restart to first read, 1,000,000 keys", (large.restart_of(large.MOST), US), None, 5.0, note=_LOAD),
    Target("catch-up of appends", (measures.APPENDS_RATE, US), None, 25_000, is_floor=True, note=_APPENDS),
    Target("catch-up of appends, bytes for each of the payload", (measures.APPENDS_BYTES, US), None, 1.3,
           note=_APPENDS),
    Target("an edit of a replayed text, beside pycrdt alone", (keystrokes.KEYSTROKE, US),
           (keystrokes.KEYSTROKE, keystrokes.ALONE), 2.0, note=_KEYSTROKE),
    Target("memory of one more idle agent", (attached.AGENT_MEMORY, US), None, 40),
    Target("memory of one more idle peer", (attached.PEER_MEMORY, US), None, 100),
    Target("growth of a write's CPU from 1,000 to 1,000,000 keys", (large.GROWTH_CPU, US), None, 1.3,
           note=_GROWTH),
    Target("growth of a write's time from 1,000 to 1,000,000 keys", (large.GROWTH_P50, US), None, 1.3,
           note=_GROWTH),
    Target("live state after 1,000,000 overwrites, beside a fresh one", (overwritten.LIVE, US), None, 1.0),
    Target("disk after those, beside its budget", (overwritten.BUDGET, US), None, 1.0),
    Target("memory that 800,000 of those add", (overwritten.GROWTH, US), None, 5),
    Target("acknowledged writes lost by kill -9", (measures.LOST_BY_KILL, US), None, 0),
    Target("acknowledged writes lost by a clean restart", (measures.LOST_BY_RESTART, US), None, 0),
)  # fmt: skip
