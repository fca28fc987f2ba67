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
from crdtsyncd.loop import process
from crdtsyncd.telemetry.commit_histogram import Durations
from crdtsyncd.telemetry.metric_catalogue import METRICS, PREFIX
from crdtsyncd.telemetry.prometheus import exposition
from crdtsyncd.telemetry.turn_times import TurnTimes

from crdtsync.core import alarm_catalogue
from crdtsync.core.alarm_catalogue import ALARMS, CRITICAL, NEAR_LIMIT
from crdtsync.core.diagnostics import usage
from crdtsync.core.diagnostics.usage import Usage

ROOT = Path(__file__).resolve().parents[2]
TROUBLESHOOT_PAGE = (ROOT / "docs" / "how-to" / "troubleshoot.md").read_text()
DASHBOARD = json.loads((ROOT / "monitoring" / "dashboard.json").read_text())
ALERTS = (ROOT / "monitoring" / "alerts.yml").read_text()
CATALOGUE = ALARMS.values()
SHOWN = {PREFIX + metric.name for metric in METRICS}

SUFFIXES = re.compile(r"_(bucket|sum|count|created)$")

STATUS: dict[str, Any] = {
    "node": {
        "id": "1f", "name": "n", "version": "0", "uptime_s": 1.0, "pid": 1, "state": "ready", "certificate_expires": 1,
    },
    "spaces": [
        {
            "name": "default", "epoch": 0, "keys": 1, "entries": 1, "siblings": 0, "log_changes": 1, "log_bytes": 1,
            "history_bytes": 1, "document_bytes": 1, "pending_changes": 0, "checkpoint_age_s": 1.0,
            "checkpoint_failures": 0,
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
        "changes_made": 1, "changes_received": 1, "conflicts": 1, "values_crowded_out": 1, "alarms": 1, "requests": {},
        "refusals": {"kind": 1},
    },
    "usage": [Usage("agents", 1, 10, "agents", "limit").described()],
}  # fmt: skip


def named(text: str) -> set[str]:
    return {SUFFIXES.sub("", name) for name in re.findall(r"\bcrdtsync_\w+", text)}


def test_every_metric_of_the_catalogue_is_shown_where_its_value_is_known():
    text = exposition(STATUS, Durations(), TurnTimes(print))
    types = dict(re.findall(r"^# TYPE crdtsync_(\w+) (\w+)$", text, re.MULTILINE))
    assert types == {metric.name: metric.type for metric in METRICS}
    assert len(types) == len(METRICS)


def test_the_dashboard_shows_what_exists():
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    assert len(expressions) > 20
    assert named(" ".join(expressions)) <= SHOWN
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
    assert named(" ".join(expressions)) <= SHOWN


def test_every_alert_names_a_section_that_helps():
    sections = {("alarms", code) for code in [*ALARMS, "{{ $labels.code }}"]}
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
        done = subprocess.run(["promtool", *command], input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_every_alarm_of_the_catalogue_is_raised_somewhere():
    places = (ROOT / "crdtsync" / "core", ROOT / "daemon" / "crdtsyncd")
    files = {file for place in places for file in place.rglob("*.py")} - {Path(alarm_catalogue.__file__)}
    source = "".join(file.read_text() for file in files)
    assert [alarm.code for alarm in CATALOGUE if not re.search(rf"\(\s*(\w+\.)?{alarm.code.upper()}\b", source)] == []


def test_every_alarm_of_the_catalogue_has_its_words_its_name_and_its_place():
    for alarm in CATALOGUE:
        assert alarm.means
        assert alarm.remedy
        assert "\n" not in alarm.remedy
        assert getattr(alarm_catalogue, alarm.code.upper()) is alarm
    assert list(ALARMS) == sorted(ALARMS)


def test_an_alert_rule_has_the_severity_of_the_alarms_that_it_names():
    critical = set()
    for rule in ALERTS.split("- alert:")[1:]:
        expression, severity = re.findall(r"^ +expr: (.*)$|severity: (\w+)", rule, re.MULTILINE)
        expression, severity = expression[0], severity[1]
        named = {code for names in re.findall(r'code=~?"(.*?)"', expression) for code in names.split("|")}
        assert named <= ALARMS.keys()
        assert {ALARMS[code].severity for code in named} <= {severity}, expression
        if severity == CRITICAL:
            critical |= named | set(re.findall(r"See alarms: (\w+)\.", rule))
    assert critical == {alarm.code for alarm in CATALOGUE if alarm.severity == CRITICAL}


def test_the_alert_rule_for_all_other_alarms_leaves_out_those_with_a_rule_of_their_own():
    (left_out,) = re.findall(r'crdtsync_alarm_raised\{code!~"(.*?)"\}', ALERTS)
    named = re.findall(r'crdtsync_alarm_raised\{code=~?"(.*?)"\}', ALERTS)
    assert set(left_out.split("|")) == {code for names in named for code in names.split("|")} | {"near_limit"}


def test_every_bound_that_may_be_near_is_explained():
    source = inspect.getsource(usage) + inspect.getsource(process)
    found = re.findall(r'(?:fullest|Usage)\(\s*"(\w+)",.*?(LIMIT|BUFFER|CAP)\)', source, re.DOTALL)
    wanted = {name for name, kind in found if kind != "CAP"}
    explained = [name for names in NEAR_LIMIT.by_name for name in names.split(", ")]
    assert sorted(explained) == sorted(wanted)
