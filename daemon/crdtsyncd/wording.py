"""Figures and times as people read them: counts, sizes, spans of time, how long ago."""

from __future__ import annotations

from datetime import UTC, datetime

from crdtsync.client.values import times

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")
_SPANS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_SKEW_MS_MAX = 1000
_SKEW_S_MAX = 60


def counted(count: int, what: str) -> str:
    """``1 agent``, ``2 agents``."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def byte_size(count: float) -> str:
    """Three digits and a unit: ``1.2 MB``."""
    size = float(count)
    for unit in _BYTE_UNITS:
        if size < 999.5 or unit == _BYTE_UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 99.95 else f"{size:.1f} {unit}"


def span(duration_s: float) -> str:
    """The two largest units: ``3d 4h``."""
    left = max(0, int(duration_s))
    parts: list[str] = []
    for unit_s, unit in _SPANS:
        count, left = divmod(left, unit_s)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def rfc3339(moment: datetime) -> str:
    """A time in UTC with milliseconds: ``2026-01-31T09:30:00.125Z``."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(time: str | float | None) -> str | None:
    """A time as RFC 3339, given so or in ms since 1970; None for none, or for 0, which means never."""
    if isinstance(time, int | float):
        return rfc3339(times.moment(time)) if time else None
    return time


def ago(time: datetime | str | None) -> str:
    """How long ago a time is, perhaps an RFC 3339 one; ``never`` for None."""
    if time is None:
        return "never"
    then = datetime.fromisoformat(time) if isinstance(time, str) else time
    return f"{span((datetime.now(UTC) - then).total_seconds())} ago"


def round_trip(duration_ms: float | None) -> str:
    """Milliseconds, or nothing when not measured."""
    return "" if duration_ms is None else f"{duration_ms:.1f} ms"


def clock_skew(skew_ms: float | None) -> str:
    """How far another clock is ahead (+) or behind; nothing when that was never measured."""
    if skew_ms is None:
        return ""
    if abs(skew_ms) < _SKEW_MS_MAX:
        return f"{skew_ms:+.0f} ms"
    if abs(skew_ms) < _SKEW_S_MAX * 1000:
        return f"{skew_ms / 1000:+.1f} s"
    return f"{'+' if skew_ms > 0 else '-'}{span(abs(skew_ms) / 1000)}"
