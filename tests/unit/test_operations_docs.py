"""Alarms, figures, dashboard and alert rules: each names what exists, and what exists is explained."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from crdtsyncd.doctor.running_daemon import REMEDIES
from crdtsyncd.loop import process_usage
from crdtsyncd.telemetry.commit_histogram import Durations
from crdtsyncd.telemetry.prometheus import exposition
from crdtsyncd.telemetry.turn_times import TurnTimes

from crdtsync.core.diagnostics import usage
from crdtsync.core.diagnostics.usage import Usage

ROOT = Path(__file__).resolve().parents[2]
ALARMS_PAGE = (ROOT / "docs" / "reference" / "alarms.md").read_text()
METRICS_PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
TROUBLESHOOT_PAGE = (ROOT / "docs" / "how-to" / "troubleshoot.md").read_text()
DASHBOARD = json.loads((ROOT / "monitoring" / "dashboard.json").read_text())
ALERTS = (ROOT / "monitoring" / "alerts.yml").read_text()

SUFFIXES = re.compile(r"_(bucket|sum|count|created)$")

STATUS: dict[str, Any] = {
    "node": {
        "id": "1f", "name": "n", "version": "0", "uptime_s": 1.0, "pid": 1, "state": "ready", "certificate_expires": 1,
    },
    "spaces": [
        {
            "name": "default", "epoch": 0, "keys": 1, "entries": 1, "siblings": 0, "log_changes": 1, "log_bytes": 1,
            "history_bytes": 1, "document_bytes": 1, "pending_changes": 0, "checkpoint_age_s": 1.0,
        }
    ],
    "peers": [
        {
            "id": "2e", "name": "p", "state": "connected", "rtt_ms": 1.0, "clock_skew_ms": 1, "behind": {"default": 0},
            "ahead": {"default": 0},
        }
    ],
    "agents": [{"watches": 1}],
    "alarms": [],
    "store": {
        "bytes": 1, "free_bytes": 1, "total_bytes": 1, "wal_bytes": 1, "ballast_bytes": 1, "growth_bytes_per_hour": 1,
    },
    "counters": {
        "changes_made": 1, "changes_received": 1, "conflicts": 1, "alarms": 1, "requests": {}, "refusals": {"kind": 1},
    },
    "usage": [Usage("agents", 1, 10, "agents", "limit").described()],
}  # fmt: skip


def figures() -> set[str]:
    """Every name that a daemon can show."""
    text = exposition(STATUS, Durations(), TurnTimes(print))
    return {SUFFIXES.sub("", name) for name in re.findall(r"^(crdtsync_\w+)", text, re.MULTILINE)}


def named(text: str) -> set[str]:
    return {SUFFIXES.sub("", name) for name in re.findall(r"\bcrdtsync_\w+", text)}


def first_cells(text: str, beginning: str = "") -> set[str]:
    """The names in the first column of the tables of a text."""
    rows = re.findall(rf"^\| (`{beginning}.*?) \|", text, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def alarm_codes() -> set[str]:
    """The codes of all alarms that the source raises."""
    places = (ROOT / "crdtsync" / "core", ROOT / "daemon" / "crdtsyncd")
    source = "".join(path.read_text() for place in places for path in place.rglob("*.py"))
    return set(re.findall(r"raise_(?:once|now)\(\s*\"(\w+)\"", source))


def explained_alarms() -> set[str]:
    """The codes of all alarms that the page explains."""
    return set(re.findall(r"^## (\w+)$", ALARMS_PAGE, re.MULTILINE))


def test_every_figure_is_documented_and_no_other():
    documented = {
        name
        for row in re.findall(r"^\| (`crdtsync_.*?) \|", METRICS_PAGE, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert documented == figures()


def test_the_dashboard_shows_what_exists():
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    assert len(expressions) > 20
    assert named(" ".join(expressions)) <= figures()
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_no_two_panels_of_the_dashboard_overlap():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_the_alert_rules_ask_for_what_exists():
    expressions = re.findall(r"^ +expr: (.*)$", ALERTS, re.MULTILINE)
    assert len(expressions) == ALERTS.count("- alert:") > 10
    assert named(" ".join(expressions)) <= figures()


def test_every_alert_names_a_section_that_helps():
    sections = {("alarms", code) for code in [*explained_alarms(), "{{ $labels.code }}"]}
    sections |= {("troubleshoot", title) for title in re.findall(r"^### (.*)$", TROUBLESHOOT_PAGE, re.MULTILINE)}
    named = re.findall(r"See (alarms|troubleshoot): (.*?)\.\"", ALERTS)
    assert len(named) == ALERTS.count("- alert:")
    assert set(named) <= sections


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_accepts_rules_and_figures():
    for command, given in (
        (["check", "config", str(ROOT / "monitoring" / "prometheus.yml")], ""),
        (["check", "metrics"], exposition(STATUS, Durations(), TurnTimes(print))),
    ):
        done = subprocess.run(
            ["promtool", *command], input=given, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr


def test_every_alarm_is_explained_and_has_a_remedy():
    codes = alarm_codes()
    assert {"fork", "near_limit", "no_space"} <= codes
    assert explained_alarms() == codes
    assert set(REMEDIES) == codes


def test_every_bound_that_may_be_near_is_explained():
    source = inspect.getsource(usage) + inspect.getsource(process_usage)
    found = re.findall(r'(?:fullest|Usage)\(\s*"(\w+)",.*?(LIMIT|BUFFER|CAP)\)', source, re.DOTALL)
    wanted = {name for name, kind in found if kind != "CAP"}
    section = ALARMS_PAGE.partition("\n## near_limit")[2].partition("\n## ")[0]
    explained = {
        name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert explained == wanted
