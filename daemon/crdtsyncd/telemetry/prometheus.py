"""The figures of a node in Prometheus' text format, made of its status when somebody asks: nothing is kept for them.

Every name begins with ``crdtsync_``. ``docs/reference/metrics.md`` lists them, and a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain
from typing import Any

from crdtsyncd.telemetry.commit_histogram import BOUNDS_S, Durations
from crdtsyncd.telemetry.turn_times import TurnTimes
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from crdtsync.core.reads.operations import READS
from crdtsync.core.replica.write_operations import WRITES

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

Fields = Mapping[str, Any]  # Any: parts of the status object

_STORE = {
    "bytes": "store_bytes|Size of the database with its write-ahead log.",
    "free_bytes": "disk_free_bytes|Free space on the disk that holds it.",
    "total_bytes": "disk_bytes|Size of that disk.",
    "ballast_bytes": "ballast_bytes|Size of the file that is given up when the disk is nearly full.",
    "wal_bytes": "wal_bytes|Size of the write-ahead log.",
    "growth_bytes_per_hour": "store_growth_bytes_per_hour|How fast the database has grown over the last hour.",
}
_SPACE = {
    "keys": "space_keys|Keys that exist.",
    "entries": "space_entries|Live entries.",
    "siblings": "space_conflicts|Keys that have several values.",
    "log_changes": "space_log_changes|Changes in the log.",
    "log_bytes": "space_log_bytes|Size of the log.",
    "history_bytes": "space_history_bytes|Size of the history.",
    "document_bytes": "space_document_bytes|Size of the stored texts.",
    "pending_changes": "space_pending_changes|Changes that wait for what they depend on.",
    "checkpoint_age_s": "space_checkpoint_age_seconds|Age of the newest checkpoint.",
    "epoch": "space_epoch|Epoch of the space.",
}
_COUNTERS = {
    "changes_made": "changes_made|Changes made by agents of this node.",
    "changes_received": "changes_received|Changes of other nodes that were applied.",
    "conflicts": "conflicts|Values that came to stand beside others that their authors had not seen.",
    "alarms": "alarms|Alarms raised.",
}


def exposition(status: Fields, commits: Durations, turns: TurnTimes) -> str:
    """All figures as text."""
    registry = CollectorRegistry(auto_describe=False)
    parts = (
        _node(status), _store(status["store"], commits), _turns(turns), _counters(status["counters"]),
        _spaces(status["spaces"]), _peers(status["peers"]), _usage(status["usage"]),
    )  # fmt: skip
    registry.register(_Collected(chain.from_iterable(parts)))
    return generate_latest(registry).decode()


class _Collected:
    """What was made beforehand, in the shape that a registry asks for."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _gauge(name: str, text: str, value: float, /, **labels: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"crdtsync_{name}", text, labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def _node(status: Fields) -> Iterator[Metric]:
    node = status["node"]
    yield _gauge("info", "What runs here.", 1, node=str(node["id"]), name=node["name"], version=node["version"])
    yield _gauge("uptime_seconds", "How long it has run.", node["uptime_s"])
    yield _gauge("read_only", "Whether writes are refused for lack of space.", node["state"] == "read-only")
    yield _gauge("agents", "Agents attached.", len(status["agents"]))
    yield _gauge("watches", "Watches of theirs.", sum(agent["watches"] for agent in status["agents"]))
    if node.get("certificate_expires"):
        yield _gauge("certificate_expires_seconds", "When it does, since 1970.", node["certificate_expires"] / 1000)
    raised = GaugeMetricFamily("crdtsync_alarm_raised", "Alarms that are raised now, by code.", labels=["code"])
    codes = [alarm["code"] for alarm in status["alarms"]]
    for code in sorted({*codes, "divergence", "fork"}):  # the worst are there from the start, to be watched
        raised.add_metric([code], codes.count(code))
    yield raised


def _store(store: Fields, commits: Durations) -> Iterator[Metric]:
    yield from _table(_STORE, [({}, store)])
    yield _histogram("commit_seconds", "How long commits took.", "", {"": commits})


def _turns(turns: TurnTimes) -> Iterator[Metric]:
    yield _histogram("turn_seconds", "How long the stages of turns took.", "stage", turns.stages)
    yield _histogram("loop_held_seconds", "How long the event loop was held at a time.", "kind", turns.held)
    yield _histogram("loop_lag_seconds", "How late timers came.", "", {"": turns.lag})
    slow = CounterMetricFamily("crdtsync_slow_turns", "How often it was for over 50 ms.", labels=["kind"])
    for kind, count in turns.slow.items():
        slow.add_metric([kind], count)
    yield slow
    work = SummaryMetricFamily("crdtsync_work_seconds", "How long work in the background held it.", labels=["work"])
    for name, (count, sum_s) in turns.work_sums.items():
        work.add_metric([name], count, sum_s)
    yield work


def _histogram(name: str, text: str, label: str, series: Mapping[str, Durations]) -> Metric:
    """One with a series for each value of its label; with no label there is one."""
    family = HistogramMetricFamily(f"crdtsync_{name}", text, labels=[label] if label else [])
    for value, times in series.items():
        bounds = (*map(str, BOUNDS_S), "+Inf")
        buckets = list(zip(bounds, accumulate(times.counts), strict=True))
        family.add_metric([value] if label else [], buckets, times.sum_s)
    return family


def _counters(counters: Fields) -> Iterator[Metric]:
    for field, described in _COUNTERS.items():
        name, _, text = described.partition("|")
        yield CounterMetricFamily(f"crdtsync_{name}", text, value=counters[field])
    requests = counters["requests"]
    for name, text, operations in (
        ("writes", "Writes asked for, by operation; refused ones count too.", WRITES),
        ("reads", "Reads, by operation.", READS),
    ):
        family = CounterMetricFamily(f"crdtsync_{name}", text, labels=["operation"])
        for operation in sorted(operations):
            family.add_metric([operation], requests.get(operation, 0))
        yield family
    refusals = CounterMetricFamily("crdtsync_refusals", "Requests that were refused, by code.", labels=["code"])
    for code, count in counters["refusals"].items():
        refusals.add_metric([code], count)
    yield refusals


def _spaces(spaces: Iterable[Fields]) -> Iterator[Metric]:
    return _table(_SPACE, [({"space": space["name"]}, space) for space in spaces])


def _peers(peers: Iterable[Fields]) -> Iterator[Metric]:
    known = [({"peer": _peer_name(peer)}, peer) for peer in peers if peer["id"] is not None]
    yield from _family(
        "peer_connected", "Whether a peer is connected, or reached over others.", known,
        lambda p: p["state"] in ("connected", "indirect"),
    )  # fmt: skip
    yield from _family("peer_rtt_seconds", "Round trip to a peer.", known, lambda p: _scaled(p["rtt_ms"]))
    yield from _family(
        "peer_clock_skew_seconds", "How far its clock is ahead.", known, lambda p: _scaled(p["clock_skew_ms"])
    )
    for field, text in (
        ("behind", "Changes that are here and that a peer has not confirmed."),
        ("ahead", "Changes that a peer has and this node has not."),
    ):
        family = GaugeMetricFamily(f"crdtsync_peer_{field}_changes", text, labels=["peer", "space"])
        for labels, peer in known:
            for space, count in sorted(peer[field].items()):
                family.add_metric([labels["peer"], space], count)
        yield family


def _peer_name(peer: Fields) -> str:
    return peer["name"] or str(peer["id"])[:12]


def _scaled(duration_ms: float | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1000


def _usage(usages: Iterable[Fields]) -> Iterator[Metric]:
    known = [({"name": usage["name"], "kind": usage["kind"], "unit": usage["unit"]}, usage) for usage in usages]
    yield from _family(
        "usage", "How much there is of what has a bound; of many, the fullest.", known, lambda u: u["used"]
    )
    yield from _family("usage_bound", "The bound.", known, lambda u: u["bound"])


def _table(table: Mapping[str, str], rows: list[tuple[dict[str, str], Fields]]) -> Iterator[Metric]:
    for field, described in table.items():
        name, _, text = described.partition("|")
        yield from _family(name, text, rows, lambda row, field=field: row.get(field))


def _family(name: str, text: str, rows: list[tuple[dict[str, str], Fields]], figure: Any) -> Iterator[Metric]:
    """A gauge with a figure of each row; those that are None are left out, and so is a gauge without any."""
    found = [(labels, figure(row)) for labels, row in rows]
    present = [(labels, value) for labels, value in found if value is not None]
    if present:
        family = GaugeMetricFamily(f"crdtsync_{name}", text, labels=list(present[0][0]))
        for labels, value in present:
            family.add_metric(list(labels.values()), value)
        yield family
