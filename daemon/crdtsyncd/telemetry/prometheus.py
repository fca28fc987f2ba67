"""The metrics of a node in Prometheus' text format, made when somebody asks: nothing is kept for them.

For example, ``crdtsync_agents 3`` comes from an entry of :mod:`crdtsyncd.telemetry.metric_catalogue`, which says what
the metric is called and where the 3 is. Here is only how each type of metric is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from crdtsyncd.telemetry.commit_histogram import BOUNDS_S, Durations
from crdtsyncd.telemetry.metric_catalogue import METRICS, PREFIX, Fields, Metric, Sources
from crdtsyncd.telemetry.turn_times import TurnTimes
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily | SummaryMetricFamily


def exposition(status: Fields, commits: Durations, turns: TurnTimes) -> str:
    """All metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(Sources(status, commits, turns)))
    return generate_latest(registry).decode()


class _Collected:
    """The catalogue with its values, in the shape that a registry asks for."""

    def __init__(self, sources: Sources) -> None:
        self._families = [family for metric in METRICS for family in _family(metric, sources)]

    def collect(self) -> Iterator[Family]:
        yield from self._families


def _family(metric: Metric, sources: Sources) -> Iterator[Family]:
    """A metric with its series; none if no value of it is known."""
    known = [(labels, value) for labels, value in metric.series(sources) if value is not None]
    if not known:
        return
    name, text, names = PREFIX + metric.name, metric.help, metric.labels
    if metric.type == "histogram":
        histogram = HistogramMetricFamily(name, text, labels=names)
        for labels, times in known:
            bounds = (*map(str, BOUNDS_S), "+Inf")
            histogram.add_metric(labels, list(zip(bounds, accumulate(times.counts), strict=True)), times.sum_s)
        yield histogram
    elif metric.type == "summary":
        summary = SummaryMetricFamily(name, text, labels=names)
        for labels, (count, sum_s) in known:
            summary.add_metric(labels, count, sum_s)
        yield summary
    else:
        plain = (CounterMetricFamily if metric.type == "counter" else GaugeMetricFamily)(name, text, labels=names)
        for labels, value in known:
            plain.add_metric(labels, value)
        yield plain
