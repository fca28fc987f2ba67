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
    "of CPU on one; here too a write waits for one append and one flush of a file, and not for SQLite. The CPU is "
    "that of the next line, and for each write a commit, a turn and two wake-ups of its own. Tried: rows packed "
    "into one journal row a commit (kept: it saved a third), that row in a preallocated file and not in a table "
    "(kept: two system calls a commit where there were nine, 139 µs where there were 209), a short way for a plain "
    "`set` and short turns for those in which nothing else happened (kept: a third less CPU, 54 calls of Python "
    "functions a write where there were 138), planning at most once a millisecond (kept), commits in a thread "
    "(slower: it waits for the interpreter's lock)."
)
_IN_FLIGHT = (
    "Here the disk is shared by all that waits, so it is the interpreter that counts: of some 100 µs for a write "
    "the core's step takes 25, and bringing the journal's rows into the tables (log, live state, history, "
    "removals, outcomes) 30 to 45, nearly all of it SQLite's own for six rows. Redis does the same in C without "
    "history, causality or retries. Tried: group commit (kept), settling 256, 64 and 32 changes at once (64 kept: "
    "as little CPU as 256, and half the delay for the slowest write of a hundred), what is superseded within "
    "those 64 straight to history, and of replies the last of each slot (kept: settling takes a fifth less, of "
    "one hot key a third), 14 modules of the core compiled with mypyc (left out: the step fell from 29 to 24 µs, "
    "the whole stayed the same), three indexes less (no change), plain requests without a plan in the client "
    "(kept: 8 µs and not 11 of its Python, 47 calls of functions and not 78), half of what is in flight sent "
    "ahead, so that daemon and client work at once (left out: more commits, and on a busy machine no more "
    "writes). All 16 that are in flight come in one read, go into one commit and are answered by one write. Next: "
    "the log served from the journal."
)
_EVENT = (
    "Two commits, one after the other, on two hosts, against one of Redis's; then two frames of websockets and "
    "two more turns; on two cores the third process, the clients', takes its share of them meanwhile. An event takes "
    "some 18 system calls of each daemon, a third of them the commit's. What the code costs here is not what it costs "
    "in a loop: each step runs once and then waits for a disk or another process, and by then the caches are cold (a "
    "frame takes the websocket library 4 µs in a loop and 30 to 60 here), so what counts is how much code a change "
    "touches. Tried: sending "
    "within the turn and not from a task (kept), acknowledgements that nobody waits for without a turn (kept), and "
    "only after agents have been told (kept), one of them for all changes of 3 ms where nobody waits (kept), a message "
    "taken in where it is read, without the websocket library's queue and its task (kept: one wake-up less), whole "
    "frames read and made without its parser (kept: 45 to 70 µs less a hop), a short way for plain changes of "
    "peers, for their events, and for turns that bring nothing else (kept: with the frames 12 to 19 % less CPU of the "
    "daemons), a full journal emptied behind the turn that fills it (kept: for the slowest of a hundred). Handing a "
    "change on while its own commit is under way was not done: if that host then loses its power, others hold a change "
    "whose number it will use again, for another one. Next: the turn's own bookkeeping in one place instead of ten "
    "modules, for the caches; a client that reads events without a task's wake-up."
)
_RESTART = (
    "Most of it is Python: the interpreter and the imports (uvloop, SQLite, msgpack and the core). Floor: `python -c "
    "'import uvloop, sqlite3, msgpack'`, and pydantic for the settings, which are checked in a process beside it and "
    "take as long. Tried: what peers need (cryptography, websockets: a third of the imports) and what logs, only when "
    "agents are served (kept: a fifth less CPU until the first answer); settings without pydantic-settings "
    "(left out: a sixth of that process's time, which is spent beside the imports, against a reader of settings of our "
    "own); imports at first use for what few need (metrics, texts; kept), no search for garbage during the start "
    "(kept: a tenth). Next: the core's 70 dataclasses as plain classes, some 25 ms. Under systemd the socket is passed "
    "on, so agents wait instead of failing."
)
_CPU = (
    "The echo decodes and encodes a frame; a write also decides what it supersedes, makes a change with two "
    "hashes, keeps history and an outcome, and goes to disk. See durable writes above."
)

_READ = (
    "A read takes no turn while nothing waits for the disk. Of a register with one value it is decoded, looked "
    "up, told with its version and written in one go: 7 µs of Python in the daemon and 5 in the client. Each "
    "of them makes as few system calls as can be (one to send and one to receive; the daemon also waits for "
    "its sockets), and these, and waking each other, are the rest. Reads that are many belong into a mirror. "
    "Tried: the general way for all reads (14 µs in the daemon), requests without a plan in the client (kept: 5 µs and "
    "not 7), the versions of 4,096 entries kept as text (kept: 1 µs). Side by side a read took 0.95 to 1.1 times as "
    "long as redis-py's, the more the busier the machine; before 1.2 to 2.3."
)
_CATCH_UP = (
    "The state is sent when it is less than the changes that are lacking (from 10,000 on), in parts that are "
    "compressed and checked; Redis's figure is one `MGET` from memory to memory. In the time are the dialling and the "
    "introduction of both nodes, some 4 ms of the websocket's handshake alone, and one commit. Tried: a snapshot of "
    "little written once, in its commit, through the journal, and not first as staged parts (kept: three commits less, "
    "12 ms), rows that went together moved to history in one statement (kept: half their time), parts that grow, so "
    "that the taker has something to do while the giver makes the next (kept), entries checked in one go and what goes "
    "not hashed (kept: 6 ms). Half of the taker's CPU in all. Left: 2 µs to hash an entry, 2 to check it, "
    "4 to merge it, 1 to write it to the journal, and on the other side 2 to compress it. Next: the digest of a "
    "snapshot of one's own frontier alone, and entries packed by column, which compress in a quarter of the time."
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
    "not first as staged and then as taken over, as those of a small snapshot are."
)
_GROWTH = (
    "Measured with perf: the interpreter's search for garbage, up to a fifth of a write with many keys while one went "
    "on, and a stop for it (kept: what is alive is set aside, and what waits in the journal no longer sets off a "
    "search; a tenth less CPU with few keys and with many). The rest: SQLite changes some 12 pages for each write "
    "where it changes 8, for keys that lie apart share none; a replaced entry is taken off the digest, which of 1,000 "
    "keys is hardly ever worked out; and of 1,000 keys all that a write touches is in the processor's caches. No step "
    "of a write looks at more keys than its own. Next: live state without an index by space, two pages less; no digest "
    "where there is no peer to compare it with."
)
_KEYSTROKE = (
    "What a user of an editor waits for at a keystroke is the replica in their own process: 1 to 3 µs. This "
    "figure is the whole session instead, from the first keystroke to the last being on disk: all that three "
    "daemons and three authors do for it, divided by the keystrokes. Each author types on as fast as they can, "
    "and is only held up by what the trace says they had seen of the others: one keystroke in eight is such a "
    "place, at which the other's editor has to send what it has as an update of its own, and which then takes a "
    "write to event over two hosts. Floor: pycrdt's own work, for the replica of each author and of each daemon; "
    "a durable write, and an event, for each change (above). Tried: what is typed in one place as one insertion "
    "of the replica (kept: fewer parts, and a keystroke that goes on with the one before touches no Yjs), "
    "positions counted from the edit before (kept), all that was typed during a request as one change (kept), "
    "updates that are to stay apart as one change of several operations (kept). Next: what makes writes and events "
    "cheaper (above), for of the processor time three quarters are the daemons', one change of some ten keystrokes "
    "at a time."
)
_DURABLE_EDIT = (
    "pycrdt alone keeps its edits in memory, in one process. Here each edit is a change on its own, acknowledged "
    "when it is on disk, sent to two more nodes and written there too, and every author reads the others' back. "
    "Floor: a durable write (above), which each of them is. Who needs this asks for it edit by edit; who types "
    "uses an editor, which pays it once for all that was typed meanwhile."
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
    # Per keystroke: what a text editor does with one. It shows it at once and saves it with others, and says when
    # it is saved. An edit that is a durable write of its own is another thing, shown beside it, by the same measure.
    Target("a keystroke of a replayed session, in editors, beside pycrdt alone",
           (keystrokes.KEYSTROKE, keystrokes.EDITOR), (keystrokes.KEYSTROKE, keystrokes.ALONE), 2.0, note=_KEYSTROKE),
    Target("the same with each edit on disk by itself", (keystrokes.KEYSTROKE, keystrokes.DURABLE),
           (keystrokes.KEYSTROKE, keystrokes.ALONE), 2.0, note=_DURABLE_EDIT),
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
