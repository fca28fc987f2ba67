"""Logs and traces: lines of one template are counted, errors and rare lines are kept as they are.

    2026-11-22T10:00:01Z INFO worker-1 took task 17 in 20 ms
    2026-11-22T10:00:02Z INFO worker-2 took task 18 in 25 ms
    2026-11-22T10:00:03Z ERROR worker-2 disk is full

becomes

    times from 2026-11-22T10:00:01Z
    [×2 +0s…+1s] INFO worker-<1|2> took task <17…18> in <20…25> ms
    +2s ERROR worker-2 disk is full

A *template* is a line whose numbers, identifiers and quoted strings are taken out, and the names of tests that passed
or were skipped for one reason: nobody asks for these, while each that failed has something to say. It stands where its
first line stood. Each error that says something new is written whole, and so are the lines of a template that comes
once or twice. If many traces have a part in common, ``traces`` writes it once.
The idea of taking variables out of lines is that of Drain (He et al., ICWS 2017), with fixed patterns for its tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from crdtsync.context.compact.result import CompactDraft
from crdtsync.context.compact.traces import Traces
from crdtsync.context.compact.words import content_words, is_telling, words

_TIME = re.compile(r"\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\]?[:,]?\s*")
_VARIABLE = re.compile(
    r"(\"[A-Z]{3,7} )(\S+)( HTTP/[\d.]+\" \d{3})\b"  # a request: what it asks for, and neither method nor status
    r"|\"[^\"\n]*\"|'[^'\n]*'"  # quoted
    r"|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b0x[0-9a-fA-F]+\b"  # identifiers
    r"|\b(?=[0-9a-f]*\d)[0-9a-f]{7,}\b"
    r"|\b\d+(?:[.:]\d+)*%?|(?<=[A-Za-z_])\d+"  # numbers, addresses, times; and a number that ends a word
)
_PASSED = re.compile(  # a test that passed, or was skipped: pytest and unittest, cargo; go
    r"((?:test )?)([^\s\[]+(?:\[[^\]\n]*\][^\s\[]*)?(?: \(\S+\))?)( (?:\.\.\. )?(?:ok|PASSED|skipped|SKIPPED)\b.*)"
    r"|(--- (?:PASS|SKIP): )(\S+)(.*)"
)
_SKIPPED = (" skipped", " ... skipped", " SKIPPED")
_CONTINUED = re.compile(r"^(\s+\S|Traceback |Caused by|\t)|^\S*(Error|Exception)\b.*:")
_PROGRESS = re.compile(r"\[ {0,3}\d+%\]$")
_NAMED_TWICE = re.compile(r"\b(\w{1,200}) \(([\w.\[\]/+-]{1,400}\.)\1\)")
_PADDING = re.compile(r"(?<=\S) {2,}")
_SERVER_FAILED = re.compile(r" HTTP/[\d.]+\" 5")
_RULER = re.compile(r"([-=_*#~])\1{8,}")
_EVENT_END = 400  # characters at either end of an event by which it is told whether it is a trace
_SHOWN = (3, 3, 2, 1, 1)  # lines of a template that are shown whole before they are counted, by level
_VALUES_MAX = 4  # different values of a variable that are listed
_LINE_MAX = (10**9, 600, 300, 160, 100)  # characters of a line, by level


@dataclass(slots=True)
class _Group:
    """The lines of one template; ``values`` has a list for each variable of it."""

    lines: list[str] = field(default_factory=list)
    times: list[datetime | None] = field(default_factory=list)
    values: list[list[str]] = field(default_factory=list)


def compact_log(text: str, level: int, query: str | None) -> CompactDraft:
    """``text``, a log, a test run or a trace, at ``level``."""
    asked = content_words(query or "")
    draft = CompactDraft("", ["log templates"])
    start: datetime | None = None
    groups: dict[str, _Group] = {}
    traces = Traces(text)
    for event in _events(text):
        time, rest = _time_of(event)
        rest = _tidy(traces.shortened(rest))
        start = start or time
        template, values = _template(rest)
        group = groups.setdefault(template, _Group(values=[[] for _ in values]))
        group.lines.append(rest)
        group.times.append(time)
        for known, value in zip(group.values, values, strict=True):
            known.append(value)
    out = [f"times from {start.isoformat().replace('+00:00', 'Z')}"] if start else []
    if traces.said:
        out.append(traces.said)
        draft.transforms.append("repeated frames once")
        draft.left_out.append("frames of traces that an earlier trace has, and marks of columns")
    if start:
        draft.transforms.append("times relative")
    counted = 0
    for template, group in groups.items():
        whole = len(group.lines) <= _whole(template, level, asked)
        if whole:
            out += [_said(time, start) + _cut(line, level) for line, time in zip(group.lines, group.times, strict=True)]
        else:
            counted += len(group.lines)
            out.append(_counted(template, group, start, level))
    if counted:
        draft.transforms.append("repeats counted")
        draft.left_out.append(f"the single lines of {counted:,} that repeat a template")
    draft.text = "\n".join(out)
    return draft


def _events(text: str) -> list[str]:
    """Lines, and traces as one event each: the lines that continue the one before belong to it."""
    events: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        if events and _continues(line, events[-1]):
            events[-1] += f"\n{line}"
        else:
            events.append(line.rstrip())
    return events


def _continues(line: str, event: str) -> bool:
    """An indented line goes on with what speaks of an error, such as a trace; elsewhere it is a line like others."""
    found = _CONTINUED.match(line)
    if found is None or _TIME.match(line) or event.count("\n") >= 80:
        return False
    return not line[0].isspace() or is_telling(event[-_EVENT_END:]) or is_telling(event[:_EVENT_END])


def _tidy(event: str) -> str:
    """``event`` with each name and ruler once: ``test_a (m.T.test_a)`` is ``m.T.test_a``, and 70 dashes are three."""
    return _NAMED_TWICE.sub(r"\2\1", _RULER.sub(r"\1\1\1", event))


def _whole(template: str, level: int, asked: set[str]) -> int:
    """How many lines of a template are shown as they are before they are counted."""
    if asked and len(asked & words(template)) >= max(1, len(asked) // 2):
        return 20
    is_fault = is_telling(template) or _SERVER_FAILED.search(template)
    return _SHOWN[level] if is_fault else min(2, _SHOWN[level])


def _time_of(event: str) -> tuple[datetime | None, str]:
    found = _TIME.match(event)
    if found is None:
        return None, event
    try:
        time = datetime.fromisoformat(found[1].replace(",", "."))
    except ValueError:
        return None, event
    return time, event[found.end() :]


def _template(line: str) -> tuple[str, list[str]]:
    values: list[str] = []

    def take(found: re.Match[str]) -> str:
        before, value, after = found.groups() if found[2] else ("", found[0], "")
        values.append(value)
        return f"{before}\0{after}"

    line = _PADDING.sub(" ", line)
    passed = _PASSED.fullmatch(line)
    if passed is None:
        return _VARIABLE.sub(take, line), values
    before, name, after = passed.groups()[:3] if passed[2] else passed.groups()[3:]
    values.append(name)
    if after.startswith(_SKIPPED):
        return f"{before}\0{_PROGRESS.sub('', after)}", values
    return f"{before}\0{_VARIABLE.sub(take, after)}", values


def _said(time: datetime | None, start: datetime | None) -> str:
    if time is None or start is None:
        return ""
    return f"+{_seconds(time, start)} "


def _seconds(time: datetime, start: datetime) -> str:
    try:
        passed = (time - start) / timedelta(seconds=1)
    except TypeError:  # one with a zone, one without
        passed = (time.replace(tzinfo=None) - start.replace(tzinfo=None)) / timedelta(seconds=1)
    return f"{passed:.3f}".rstrip("0").rstrip(".") + "s"


def _counted(template: str, group: _Group, start: datetime | None, level: int) -> str:
    parts = template.split("\0")
    shown = [_values(values) for values in group.values]
    line = parts[0] + "".join(value + part for value, part in zip(shown, parts[1:], strict=True))
    times = [time for time in group.times if time is not None]
    when = f" +{_seconds(times[0], start)}…+{_seconds(times[-1], start)}" if times and start else ""
    return f"[×{len(group.lines)}{when}] {_cut(line, level)}"


def _values(values: list[str]) -> str:
    """The values of one variable: the one, a few, or a range."""
    different = list(dict.fromkeys(values))
    if len(different) == 1:
        return different[0]
    if len(different) <= _VALUES_MAX and sum(map(len, different)) <= 60:
        return f"<{'|'.join(different)}>"
    try:
        numbers = sorted(different, key=float)
    except ValueError:
        return f"<{len(different)} values: {different[0]}…{different[-1]}>"
    return f"<{numbers[0]}…{numbers[-1]}>"


def _cut(line: str, level: int) -> str:
    most = _LINE_MAX[level]
    return line if len(line) <= most else f"{line[: most * 2 // 3]}…[{len(line):,}]…{line[len(line) - most // 3 :]}"
