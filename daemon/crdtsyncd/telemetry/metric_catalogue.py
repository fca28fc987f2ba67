"""The catalogue of metrics: every metric that a daemon shows, with its type, labels, meaning, and where its value is.

For example, ``crdtsync_agents`` is one entry::

    _gauge("agents", (), "agents attached", lambda s: _one(len(s.status["agents"])))

:mod:`crdtsyncd.telemetry.prometheus` turns the entries into text, ``metrics_privacy`` learns here what may be summed
over spaces, and the table of ``docs/reference/metrics.md`` is made from the entries. To add a metric: its figure in
the node's status, its entry here, and a test. ``./dev docs --write`` then writes the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from crdtsyncd.telemetry.commit_histogram import Durations
from crdtsyncd.telemetry.turn_times import TurnTimes

from crdtsync.core.reads.operations import READS
from crdtsync.core.replica.write_operations import WRITES
from crdtsync.named_tuple import NamedTuple

Fields = Mapping[str, Any]  # Any: parts of the status object

PREFIX: Final = "crdtsync_"
"""Every name begins so."""


class Sources(NamedTuple):
    """Where values come from: the status object, and what the daemon measures itself."""

    status: Fields
    commits: Durations
    turns: TurnTimes


Series = Iterable[tuple[tuple[str, ...], Any]]
"""A value for each combination of labels: a number, ``Durations`` of a histogram, count and sum of a summary. None: it
is not known.
"""


class Metric(NamedTuple):
    """One metric.

    :param type: ``gauge``, ``counter``, ``histogram`` or ``summary``
    :param name: without the prefix
    :param labels: the labels' names
    :param help: what the value is
    :param series: reads the values
    :param more: what else the page of metrics says, in Markdown
    :param summed: the field of a space that holds the value, if values of several spaces may be summed up as one
    """

    type: str
    name: str
    labels: tuple[str, ...]
    help: str
    series: Callable[[Sources], Series]
    more: str = ""
    summed: str = ""


_gauge, _counter, _histogram = (partial(Metric, kind) for kind in ("gauge", "counter", "histogram"))


def _one(value: Any) -> Series:
    return [((), value)]


def _each(values: Mapping[str, Any]) -> Series:
    return [((label,), value) for label, value in values.items()]


def _count(field: str, text: str) -> Metric:
    return _counter(f"{field}_total", (), text, lambda s: _one(s.status["counters"][field]))


def _store(field: str, name: str, text: str) -> Metric:
    return _gauge(name, (), text, lambda s: _one(s.status["store"].get(field)))


def _space(field: str, name: str, text: str, *, is_summed: bool = True) -> Metric:
    def series(s: Sources) -> Series:
        return [((space["name"],), space.get(field)) for space in s.status["spaces"]]

    return Metric("gauge", f"space_{name}", ("space",), text, series, summed=field if is_summed else "")


def _peer(name: str, text: str, value: Callable[[Fields], Any]) -> Metric:
    def series(s: Sources) -> Series:
        return [((peer, p["id"]), value(p)) for peer, p in _peers(s)]

    return _gauge(f"peer_{name}", ("peer", "node"), text, series)


def _lag(field: str, text: str) -> Metric:
    def series(s: Sources) -> Series:
        return [((peer, p["id"], space), n) for peer, p in _peers(s) for space, n in sorted(p[field].items())]

    return _gauge(f"peer_{field}_changes", ("peer", "node", "space"), text, series)


def _peers(s: Sources) -> Iterator[tuple[str, Fields]]:
    for peer in s.status["peers"]:
        if peer["id"] is not None:
            yield peer["name"] or str(peer["id"])[:12], peer


def _usage(field: str, name: str, text: str) -> Metric:
    def series(s: Sources) -> Series:
        return [((usage["name"], usage["kind"], usage["unit"]), usage[field]) for usage in s.status["usage"]]

    return _gauge(name, ("name", "kind", "unit"), text, series)


def _requests(s: Sources, operations: Iterable[str]) -> Series:
    asked = s.status["counters"]["requests"]
    return [((operation,), asked.get(operation, 0)) for operation in sorted(operations)]


def _raised(s: Sources) -> Series:
    codes = [alarm["code"] for alarm in s.status["alarms"]]
    return [((code,), codes.count(code)) for code in sorted({*codes, "divergence", "fork"})]


def _info(s: Sources) -> Series:
    node = s.status["node"]
    return [((str(node["id"]), node["name"], node["version"]), 1)]


def _seconds(duration_ms: float | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1000


METRICS: Final = (
    _gauge("info", ("node", "name", "version"), "always 1", _info),
    _gauge("uptime_seconds", (), "since the daemon started", lambda s: _one(s.status["node"]["uptime_s"])),
    _gauge(
        "certificate_expires_seconds", (), "when the node's certificate expires, in seconds since 1970",
        lambda s: _one(_seconds(s.status["node"].get("certificate_expires") or None)),
    ),
    _gauge(
        "read_only", (), "1: writes are refused, for the disk is full",
        lambda s: _one(s.status["node"]["state"] == "read-only"),
    ),
    _gauge("agents", (), "agents attached", lambda s: _one(len(s.status["agents"]))),
    _gauge("watches", (), "watches that they have", lambda s: _one(sum(a["watches"] for a in s.status["agents"]))),
    _gauge(
        "alarm_raised", ("code",), "alarms that are raised now", _raised,
        "; `divergence` and `fork` are there also with 0",
    ),
    _count("alarms", "alarms raised"),
    _counter(
        "writes_total", ("operation",), "writes asked for, refused ones too", lambda s: _requests(s, WRITES)
    ),
    _counter("reads_total", ("operation",), "reads", lambda s: _requests(s, READS)),
    _counter(
        "refusals_total", ("code",), "requests that were refused", lambda s: _each(s.status["counters"]["refusals"]),
        ", by [code](errors.md)",
    ),
    _count("changes_made", "changes that this node's agents made"),
    _count("changes_received", "changes of other nodes that were applied"),
    _count("conflicts", "values that came to stand beside others that their authors had not seen"),
    _count("values_crowded_out", "values that a write here took along, since their key was full"),
    _histogram(
        "commit_seconds", (), "how long commits took: every write waits for one", lambda s: _one(s.commits),
        "; `_count` counts them",
    ),
    _histogram(
        "loop_held_seconds", ("kind",), "how long the event loop was held at a time", lambda s: _each(s.turns.held),
        "; see [slow turns](#slow-turns)",
    ),
    _histogram(
        "turn_seconds", ("stage",), "how long the stages of turns took", lambda s: _each(s.turns.stages),
        ": `step`, `ready`, `commit`, `deliver`",
    ),
    _counter(
        "slow_turns_total", ("kind",), "how often the loop was held for over 50 ms", lambda s: _each(s.turns.slow)
    ),
    _histogram("loop_lag_seconds", (), "how late timers came", lambda s: _one(s.turns.lag)),
    Metric(
        "summary", "work_seconds", ("work",), "how often and how long the loop did work in the background",
        lambda s: _each(s.turns.work_sums), " (`_count`, `_sum`)",
    ),
    _store("bytes", "store_bytes", "the database with its write-ahead log and the journal's file"),
    _store("growth_bytes_per_hour", "store_growth_bytes_per_hour", "how fast it has grown over the last hour"),
    _store("wal_bytes", "wal_bytes", "the write-ahead log"),
    _store(
        "ballast_bytes", "ballast_bytes", "the file that is given up when the disk is nearly full; 0: it has been"
    ),
    _store("total_bytes", "disk_bytes", "the disk that holds the database"),
    _store("free_bytes", "disk_free_bytes", "what is free on it"),
    _space("keys", "keys", "keys that exist"),
    _space("entries", "entries", "live entries"),
    _space("siblings", "conflicts", "keys that have several values"),
    _space("log_changes", "log_changes", "changes in the log"),
    _space("log_bytes", "log_bytes", "the log"),
    _space("history_bytes", "history_bytes", "the history"),
    _space("document_bytes", "document_bytes", "stored texts"),
    _space("pending_changes", "pending_changes", "changes that wait for what they depend on"),
    _space(
        "checkpoint_age_s", "checkpoint_age_seconds",
        "age of the newest checkpoint; absent if there is none", is_summed=False,
    ),
    _space(
        "checkpoint_failures", "checkpoint_failures",
        "automatic checkpoints that this node could not make, or that were not whole, since its start",
    ),
    _space("epoch", "epoch", "how often the space was dropped", is_summed=False),
    _peer(
        "connected", "1: connected, or reached over others; 0: not",
        lambda p: p["state"] in ("connected", "indirect"),
    ),
    _peer("rtt_seconds", "round trip", lambda p: _seconds(p["rtt_ms"])),
    _peer("clock_skew_seconds", "how far its clock is ahead", lambda p: _seconds(p["clock_skew_ms"])),
    _lag("behind", "changes that are here and that the peer has not confirmed"),
    _lag("ahead", "changes that the peer has and this node has not"),
    _usage("used", "usage", "how much there is of everything that has a bound; of many of a kind, the fullest"),
    _usage("bound", "usage_bound", "the bound"),
)  # fmt: skip

SUMMED: Final = frozenset(metric.summed for metric in METRICS if metric.summed)
"""The fields of a space that may be summed up with those of other spaces."""
