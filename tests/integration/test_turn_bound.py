"""No turn of the event loop is long: whatever an agent asks for, at its largest, others are served meanwhile.

Every request of the protocol is made at the largest size that it may have, on one of two linked daemons. The daemons
say by themselves what each long turn took (``slow_turn``), in processor time: that of a busy machine's clock would say
how busy it is. A request that is new has to be given its largest form here, or the reason why it has none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from msgpack import packb
from pycrdt import Doc, Text

from crdtsync.wire.blobs import PART_BYTES, PARTS_AT_ONCE
from crdtsync.wire.codec import CONTAINER_PARTS
from crdtsync.wire.limits import CHANGE_OPS_MAX, EDIT_PARTS, REQUEST_PARTS_MAX, VALUE_BYTES_MAX, WORK_PARTS_MAX
from crdtsync.wire.requests import REQUESTS
from tests.harness import Cluster, Daemon, wait_until
from tests.harness.daemon import PROGRAM
from tests.harness.raw import RawAgent, RawError
from tests.requests import SMALL

pytestmark = pytest.mark.integration

TURN_CPU_MS_MAX = 50.0
LONGER_MS: Mapping[str, float] = {
    "batch": 75.0,
    "merge": 75.0,
}
"""What is known to take longer: 1,000 operations of 4 MB are one change, one commit, and one turn."""
STANDARD_MS = 10.0
"""What :func:`standard_work` takes on a machine that is fast enough for the bounds."""
WAIT_S_MAX = 2.0
"""What a bystander may wait on a machine that does much else; without slices it waited for 5 and more."""
WAL_BYTES_MAX = 64 * 1024 * 1024
MANY = 10_000
PAGE = 1000
VALUE = bytes(VALUE_BYTES_MAX - 16)
SHORT = bytes(4000)
NESTED = {
    "lists in each other": (b"\x91" * 28 + b"\xc0", 28 * (CONTAINER_PARTS + 1)),
    "empty lists": (b"\x90", CONTAINER_PARTS),
    "maps in each other": (b"\x81\xa0" * 20 + b"\x01", 20 * (CONTAINER_PARTS + 2)),
    "small numbers": (b"\x01", 0),
}
"""Items of lists that take long to look at, each with its parts."""
SHORT_BYTES = 65_000
"""A value of so many bytes cannot hold as many lists and maps as a value may."""
EVERY_LINE = f"from crdtsyncd.telemetry import slow_turns; slow_turns.LINES_PER_MINUTE_MAX = 10**6; {PROGRAM}"


def standard_work() -> float:
    """How long a piece of work takes here and now, in ms of processor time: of the same kind as what is bounded."""
    started_s = time.thread_time()
    table: dict[int, tuple[int, bytes]] = {}
    for n in range(20_000):
        table[n] = (n, packb([n, "key", b"value"]))
    assert len(table) == 20_000
    return (time.thread_time() - started_s) * 1000


@dataclass
class Bystander:
    """Reads one key of a space of its own every 10 ms, and writes it."""

    daemon: Daemon
    waits_s: list[float] = field(default_factory=list)

    @contextmanager
    def reading(self) -> Iterator[None]:
        over = threading.Event()

        def read() -> None:
            with self.daemon.raw("bystander", space="quiet", timeout_s=60) as agent:
                while not over.wait(0.01):
                    started_s = time.monotonic()
                    agent.write("set", key=self.daemon.name, value=1)
                    agent.call("get", key=self.daemon.name)
                    self.waits_s.append(time.monotonic() - started_s)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


# -- the largest form of each request ----------------------------------------------------------------------------------


Arguments = Callable[[int], dict[str, Any]]
ALL = range(CHANGE_OPS_MAX)
UPLOAD = "0" * 24
SLOW_PATTERN = {"items": {"pattern": "^[01]*1[01]{60}$"}}
"""The slowest that is known of its steps, a byte."""


def batch(agent: RawAgent, operation: str, arguments: Arguments, numbers: range = ALL) -> None:
    agent.write("batch", ops=[[operation, arguments(n)] for n in numbers])


def _element(key: str, n: int) -> dict[str, Any]:
    return {"key": key, "value": packb(f"element {n}")}


def fill(agent: RawAgent) -> None:
    """Something large of each kind; and a text, for the Yjs library is loaded with the first one."""
    agent.write("text_apply", key="first", update=b"\0\0")
    for start in range(0, MANY, CHANGE_OPS_MAX):
        some = range(start, start + CHANGE_OPS_MAX)
        for key in ("log", "log/2"):
            batch(agent, "append", partial(_element, key), some)
        batch(agent, "add", partial(_element, "set"), some)
        batch(agent, "merge", lambda n: {"key": "map", "fields": {f"f{n}": packb(n)}}, some)
        batch(agent, "set", lambda n: {"key": f"keys/{n}", "value": packb(n)}, some)
    for n in range(40):
        agent.write("set", key=f"values/{n}", value=VALUE)
    for _ in range(30):
        agent.write("set", key="value", value=VALUE)
    batch(agent, "set", lambda n: {"key": f"short/{n}", "value": packb(SHORT)})


def overwrite(agent: RawAgent) -> None:
    batch(agent, "set", lambda n: {"key": f"short/{n}", "value": packb(SHORT + b"2")})


def delete_values(agent: RawAgent) -> None:
    batch(agent, "delete", lambda n: {"key": f"values/{n}"}, range(40))


def delete_keys(agent: RawAgent) -> None:
    batch(agent, "delete", lambda n: {"key": f"keys/{n}"})


def type_on(agent: RawAgent) -> None:
    """As many edits of one text as a request may hold; and one of as many parts, and more than fit."""
    doc: Doc[Any] = Doc()
    text = doc.get("text", type=Text)
    updates = []
    for number in ALL:
        before = doc.get_state()
        text += f"word {number} "
        updates.append(doc.get_update(before))

    def edit(number: int) -> dict[str, Any]:
        return {"key": "text", "update": updates[number]}

    small = range((WORK_PARTS_MAX + EDIT_PARTS) // (EDIT_PARTS + 1))
    batch(agent, "text_apply", edit, small)
    with pytest.raises(RawError, match="come to"):
        batch(agent, "text_apply", edit)
    with doc.transaction():
        for number in range(WORK_PARTS_MAX // 2 - 2):  # each cuts what stands there in two
            text.insert(5 * number, "x")
    agent.write("text_apply", key="parts", update=doc.get_update())


def count_up(agent: RawAgent) -> None:
    batch(agent, "incr", lambda _n: {"key": "counter", "by": 1})


def remove(agent: RawAgent) -> None:
    newest = agent.call("history", key="log", limit=1)["items"][0]
    agent.write("remove", key="log", dot=newest["dot"])


def remove_many(agent: RawAgent) -> None:
    newest = agent.call("history", key="log", limit=500)["items"]
    batch(agent, "remove", lambda n: {"key": "log", "dot": newest[n]["dot"]}, range(len(newest)))


def put_parts(agent: RawAgent) -> None:
    """64 MiB of them."""
    parts = [{"key": "blob", "upload": UPLOAD, "part": n, "value": bytes(PART_BYTES)} for n in range(128)]
    for start in range(0, 128, PARTS_AT_ONCE):
        batch(agent, "blob_write", lambda n: parts[n], range(start, start + PARTS_AT_ONCE))


def show_blob(agent: RawAgent) -> None:
    """And remove it, with all of its parts."""
    agent.write("blob_set", key="blob", upload=UPLOAD, size=128 * PART_BYTES, sha256="0" * 64)
    agent.write("delete", key="blob")


def watch(agent: RawAgent) -> None:
    number = agent.send("watch", prefix="")
    deadline_s = time.monotonic() + 20
    while time.monotonic() < deadline_s and len(agent.events) < 3:
        agent.call("status")
    agent.call("unwatch", watch=number)


def calls(name: str, /, **arguments: Any) -> Callable[[RawAgent], object]:
    return lambda agent: agent.call(name, **arguments)


def writes(name: str, /, **arguments: Any) -> Callable[[RawAgent], object]:
    return lambda agent: agent.write(name, **arguments)


def set_nested(agent: RawAgent, packed: bytes, count: int) -> None:
    """Sets so many values in a space where no history is read."""
    ops = [["set", {"key": f"nested/{n}", "value": packed}] for n in range(count)]
    agent.write("batch", space="default", ops=ops)


def short_list(item: bytes, parts: int) -> tuple[bytes, int]:
    """A list of such items, shorter than what may have too many lists and maps; and how many of it fit in a request."""
    count = SHORT_BYTES // len(item)
    packed = b"\xdd" + count.to_bytes(4, "big") + item * count
    return packed, REQUEST_PARTS_MAX // (count * (parts + 1) + CONTAINER_PARTS)


def nested(item: bytes, parts: int) -> Callable[[RawAgent], object]:
    """Sets values that are a list of equal items: as many as fit into a request, then more, then as much as there is
    room for, in values that are not looked at in pieces.
    """
    packed, fit = short_list(item, parts)
    of_long = (VALUE_BYTES_MAX - 8) // len(item)

    def form(agent: RawAgent) -> None:
        set_nested(agent, packed, fit)
        with pytest.raises(RawError, match="too many parts"):
            set_nested(agent, packed, fit + 1)
        with pytest.raises(RawError, match=r"lists and maps|too many parts"):
            set_nested(agent, b"\x92\x00\xdd" + of_long.to_bytes(4, "big") + item * of_long, 3)

    return form


def at_once(daemon: Daemon) -> None:
    """Many agents make a request that takes long to look at, at one moment."""
    agents = 8
    item, parts = NESTED["maps in each other"]
    packed, fit = short_list(item, parts)
    start = threading.Barrier(agents)

    def ask(number: int) -> None:
        with daemon.raw(f"one-of-many-{number}", space="bulk", timeout_s=60) as agent:
            start.wait()
            set_nested(agent, packed, fit)

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def declare_slowly(agent: RawAgent) -> None:
    """A JSON Schema that takes long to be looked through, and is refused in the end."""
    deep = [
        {"properties": {f"f{n}": {"type": "string"} for n in range(450)}, "uniqueItems": True, "items": {"$ref": "#"}}
    ]
    with pytest.raises(RawError, match="one place"):
        agent.write("schema_set", pattern="p/**", policy="lww", json=packb({"allOf": deep}))


def check_slowly(agent: RawAgent) -> None:
    """As much work as a change may be, and more, which is refused before it begins."""
    agent.write("schema_set", pattern="checked/**", policy="lww", json=packb(SLOW_PATTERN))
    text = "".join(map(str, (n * n % 7 % 2 for n in range(27_000)))) + "a"
    with pytest.raises(RawError, match="schema_mismatch"):
        agent.write("set", key="checked/k", value=packb([text]))
    with pytest.raises(RawError, match="steps"):
        agent.write("set", key="checked/k", value=packb([VALUE.decode()]))


PAGED = {"log": "log", "set": "members", "map": "fields"}
LARGEST: dict[str, list[Callable[[RawAgent], object]]] = {
    "get": [calls("get", key=key) for key in ("values/0", "log", "set", "map")],
    "entry": [calls("entry", key="value")],
    "get_many": [calls("get_many", keys=[f"{of}/{n}" for n in range(PAGE)]) for of in ("short", "values")],
    "log": [calls("log", key="log", limit=PAGE)],
    "members": [calls("members", key="set", limit=PAGE)],
    "fields": [calls("fields", key="map", limit=PAGE)],
    "scan": [calls("scan", prefix=prefix, limit=PAGE, values=True) for prefix in ("keys/", "values/", "short/")],
    "history": [calls("history", key="value"), calls("history", prefix=""), calls("history", key="log/2")],
    "schemas": [calls("schemas")],
    "checkpoint_set": [writes("checkpoint_set", name="before")],
    "checkpoint_policy": [writes("checkpoint_policy", name="hourly", every=3_600_000, keep=3)],
    "checkpoints": [calls("checkpoints")],
    "set": [writes("set", key="value", value=VALUE)],
    "blob_write": [put_parts],
    "blob_read": [calls("blob_read", key="blob", upload=UPLOAD, part=1)],
    "blob_set": [show_blob],
    "blob_parts": [calls("blob_parts", key="blob", sha256="0" * 64)],
    "append": [writes("append", key="log", value=VALUE)],
    "add": [writes("add", key="set", value=VALUE)],
    "merge": [writes("merge", key="map", fields={f"g{n}": packb(SHORT) for n in range(CHANGE_OPS_MAX)})],
    "drop": [
        writes("drop", key="map", field="f0"),
        *(writes("restore", at="checkpoint:before", prefix=prefix, dry_run=True) for prefix in ("map", "set", "log")),
        *(calls(name, key=key, at="checkpoint:before") for key, name in PAGED.items()),
    ],
    "discard": [writes("discard", key="set", value="element 0")],
    "incr": [writes("incr", key="counter", by=1)],
    "reset": [writes("reset", key="counter")],
    "resolve": [writes("resolve", key="value", value=VALUE)],
    "touch": [writes("touch", key="value", ttl=10**9)],
    "remove": [remove],
    "batch": [remove_many, overwrite, delete_keys, delete_values, count_up],
    "text_apply": [type_on],
    "bring_back": [writes("bring_back")],
    "trim": [writes("trim", key="log/2", keep=0)],
    "delete": [writes("delete", key=key) for key in ("log", "set", "map", "value")],
    "schema_set": [writes("schema_set", pattern="p/**", policy="all"), declare_slowly, check_slowly],
    "restore": [
        writes("restore", at="checkpoint:before", prefix=prefix) for prefix in ("keys/", "short/", "values/", "log")
    ],
    "purge": [writes("purge", pattern=pattern) for pattern in ("short/**", "log/**", "**")],
    "purges": [calls("purges")],
    "watch": [watch],
    "wait": [lambda agent: agent.call("wait", token=agent.write("set", key="k", value=1)["token"], w=2)],
    "explain": [calls("explain", key="value"), calls("explain", key="log")],
    "status": [calls("status")],
    "metrics": [calls("metrics")],
    "space_list": [calls("space_list")],
    "access_list": [calls("access_list")],
    "agent_list": [calls("agent_list")],
    "cluster_members": [calls("cluster_members")],
    "space_drop": [calls("space_drop", name="bulk")],
}
TEXTS = {"text_read", "text_updates", "text_compact"}
"""What an edit takes depends on the document and the library, not on rows: a bound of its own."""


def test_no_request_is_forgotten() -> None:
    assert {*LARGEST, *SMALL, *TEXTS} == {*REQUESTS}


@pytest.mark.slow  # endurance: some 30 s of processor time, and as much again where something made a turn long
@pytest.mark.timeout(900)
def test_no_turn_is_long_whatever_an_agent_asks_for(make_cluster: Callable[..., Cluster]) -> None:
    """A turn that is long by itself is long each time; one that something else on the machine made long is not."""
    long = long_turns(make_cluster)
    for _ in range(2):
        if long:
            again = long_turns(make_cluster)
            long = {name: lines for name, lines in long.items() if name in again}
    assert not long, f"over {TURN_CPU_MS_MAX} ms of processor time, three times"


def long_turns(make_cluster: Callable[..., Cluster]) -> dict[str, Sequence[object]]:
    """The turns that were too long, by what they were for, and for how long bystanders waited too long."""
    cluster = make_cluster(2, program=EVERY_LINE)
    for space in ("bulk", "quiet"):
        cluster[0].client().create_space(space)
    wait_until(lambda: all(len(daemon.status()["spaces"]) == 3 for daemon in cluster))
    bystanders = [Bystander(daemon) for daemon in cluster]
    lines: dict[str, list[dict[str, Any]]] = {}
    standard_work()  # the first one takes twice as long on any machine
    slowness = [standard_work() / STANDARD_MS]
    with cluster[0].raw("worker", space="bulk", timeout_s=60) as agent:
        fill(agent)
        wait_until(lambda: is_quiet(cluster), timeout_s=60)
        with bystanders[0].reading(), bystanders[1].reading():
            values = [(name, nested(*what)) for name, what in NESTED.items()]
            values.append(("many at once", lambda _agent: at_once(cluster[0])))
            for name, form in [*values, *((name, form) for name, forms in LARGEST.items() for form in forms)]:
                before = [len(daemon.log_events("slow_turn")) for daemon in cluster]
                form(agent)
                wait_until(lambda: is_quiet(cluster), timeout_s=60)
                for daemon, count in zip(cluster, before, strict=True):
                    lines.setdefault(name, []).extend(daemon.log_events("slow_turn")[count:])
                slowness.append(standard_work() / STANDARD_MS)
    slow = max(1.0, *slowness)
    assert all(daemon.data.joinpath("crdtsync.db-wal").stat().st_size < WAL_BYTES_MAX for daemon in cluster)
    bounds_ms = {name: LONGER_MS.get(name, TURN_CPU_MS_MAX) * slow for name in lines}
    long: dict[str, Sequence[object]] = {
        name: [line for line in found if line["cpu_ms_max"] > bounds_ms[name]] for name, found in lines.items()
    }
    long["bystanders"] = [s for bystander in bystanders for s in bystander.waits_s if s > WAIT_S_MAX * slow]
    return {name: found for name, found in long.items() if found}


def is_quiet(cluster: Cluster) -> bool:
    """Whether both hold the same, but for what bystanders write."""
    shown = [daemon.status()["spaces"] for daemon in cluster]
    spaces = [{space["name"]: space["version_vector"] for space in each if space["name"] != "quiet"} for each in shown]
    return spaces[0] == spaces[1]
