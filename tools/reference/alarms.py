"""The page on alarms: a section for each entry of :mod:`crdtsync.core.alarm_catalogue`."""

from __future__ import annotations

from collections.abc import Iterator

from crdtsync.core.alarm_catalogue import ALARMS, Alarm
from tools.reference import page
from tools.reference.markdown import inline, prose, table

INTRODUCTION = """
# Alarms

An alarm shows in `crdtsync status`, `crdtsync doctor`, `crdtsync top` and the [metrics](metrics.md).
Unless its section says otherwise, an alarm clears by itself when its cause is gone.
[Troubleshoot](../how-to/troubleshoot.md) explains messages and symptoms that are no alarms.

In several sections the remedy is to let a node *start afresh*: stop its daemon, move the data directory away, and
start the daemon again as a new node, which gets everything from its peers. In a
[cluster](../how-to/cluster.md#removing), remove the old node and join the new one with an invite.
"""


@page("docs/reference/alarms.md")
def alarms() -> str:
    """The page."""
    return "\n\n".join([prose(INTRODUCTION), *(part for alarm in ALARMS.values() for part in _section(alarm))])


def _section(alarm: Alarm) -> Iterator[str]:
    yield f"## {alarm.code}"
    yield f"**Means:** {prose(alarm.means)}"
    if alarm.do:
        yield f"**Do:** {prose(alarm.do)}"
    if alarm.by_name:
        yield table(("name", "do"), ((_names(names), inline(do)) for names, do in alarm.by_name.items()))


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))
