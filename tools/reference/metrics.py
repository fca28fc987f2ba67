"""The tables of metrics, from :mod:`crdtsyncd.telemetry.metric_catalogue`, and of what they say of turns, from
:mod:`crdtsyncd.telemetry.turn_times`. The page's other words are by hand.
"""

from __future__ import annotations

from crdtsyncd.telemetry.metric_catalogue import METRICS, PREFIX, Metric
from crdtsyncd.telemetry.turn_times import KINDS, WORK

from tools.reference import ROOT, page
from tools.reference.markdown import table, with_table

PAGE = ROOT / "docs/reference/metrics.md"


@page("docs/reference/metrics.md", is_marked=False)
def metrics() -> str:
    """The page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    for made in (
        table(("metric", "labels", "meaning"), (_row(metric) for metric in METRICS)),
        table(("kind", "the loop was held by"), ((f"`{kind}`", said) for kind, said in KINDS.items())),
        table(("work", "the daemon"), ((f"`{work}`", said) for work, said in WORK.items())),
    ):
        text = with_table(text, made)
    return text


def _row(metric: Metric) -> tuple[str, str, str]:
    labels = (*metric.labels, "le") if metric.type == "histogram" else metric.labels
    text = f"a histogram of {metric.help}" if metric.type == "histogram" else metric.help
    return f"`{PREFIX}{metric.name}`", ", ".join(f"`{label}`" for label in labels), text + metric.more
