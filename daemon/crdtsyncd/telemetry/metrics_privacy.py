"""Which spaces the figures name that any process of the machine can ask for: loopback knows no users and no rights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from crdtsyncd.telemetry.metric_catalogue import SUMMED, Fields

UNNAMED = "_other"
"""Stands for all that are not named. No space can be called so."""


def with_names(status: Fields, is_named: Callable[[str], bool]) -> Fields:
    """The same status with the figures of spaces that are not to be named summed up as one."""
    hidden = [space for space in status["spaces"] if not is_named(space["name"])]
    if not hidden:
        return status
    named = [space for space in status["spaces"] if is_named(space["name"])]
    return {
        **status,
        "spaces": [*named, _summed(hidden)],
        "peers": [
            {**peer, **{lag: _lags(peer[lag], is_named) for lag in ("behind", "ahead")}} for peer in status["peers"]
        ],
    }


def _summed(spaces: Iterable[Fields]) -> Fields:
    total: dict[str, Any] = {"name": UNNAMED}
    for space in spaces:
        for field, figure in space.items():
            if field in SUMMED and isinstance(figure, int):
                total[field] = total.get(field, 0) + figure
    return total


def _lags(lag: Mapping[str, int], is_named: Callable[[str], bool]) -> dict[str, int]:
    found: dict[str, int] = {}
    for space, count in lag.items():
        label = space if is_named(space) else UNNAMED
        found[label] = found.get(label, 0) + count
    return found
