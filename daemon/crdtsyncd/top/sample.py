"""One look at a node: its status, and how fast its counters have moved since the look before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crdtsync.core.reads.operations import READS
from crdtsync.core.replica.write_operations import WRITES

Status = Mapping[str, Any]  # Any: the status object

KEYS_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class Frame:
    """``rates`` are a second; ``hot`` the keys written most since the last look, with writes a second."""

    status: Status
    rates: dict[str, float]
    hot: list[tuple[str, float]] = field(default_factory=list)
    conflicts: list[tuple[str, int]] = field(default_factory=list)
    """Keys with several values, and how many."""

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        peers = [
            {name: peer[name] for name in ("name", "id", "state", "rtt_ms", "behind", "ahead", "last_error")}
            for peer in self.status["peers"]
        ]
        return {
            "node": self.status["node"],
            "rates": {name: round(rate, 2) for name, rate in self.rates.items()},
            "peers": peers,
            "hot_keys": [{"key": key, "writes_per_s": round(rate, 2)} for key, rate in self.hot],
            "conflicts": [{"key": key, "values": values} for key, values in self.conflicts],
            "alarms": [alarm["code"] for alarm in self.status["alarms"]],
        }


def counters(status: Status) -> dict[str, int]:
    """The counters that a rate is shown of."""
    counted, requests = status["counters"], status["counters"]["requests"]
    return {
        "writes": sum(count for name, count in requests.items() if name in WRITES),
        "reads": sum(count for name, count in requests.items() if name in READS),
        "received": counted["changes_received"],
        "conflicts": counted["conflicts"],
        "refusals": sum(counted["refusals"].values()),
        "commits": status["store"]["commits"],
    }


def rates(before: Status | None, now: Status, elapsed_s: float) -> dict[str, float]:
    """How fast the counters move; 0 at the first look, and after the daemon was restarted."""
    current = counters(now)
    if before is None or before["node"]["pid"] != now["node"]["pid"] or elapsed_s <= 0:
        return dict.fromkeys(current, 0.0)
    earlier = counters(before)
    return {name: (count - earlier[name]) / elapsed_s for name, count in current.items()}


def hottest(counts: Mapping[str, int], elapsed_s: float) -> list[tuple[str, float]]:
    """The keys written most, first; keys of one rate by name."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:KEYS_SHOWN_MAX]
    return [(key, count / max(elapsed_s, 0.001)) for key, count in ranked]
