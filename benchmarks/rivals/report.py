"""A table for people, and plots (SVG) drawn by hand: a bar for each system."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path

from benchmarks.rivals import keystrokes, measures
from benchmarks.rivals.measures import Figure

Found = Mapping[Figure, Mapping[str, float]]

MUST_BE_ZERO = (measures.LOST_BY_KILL, measures.LOST_BY_RESTART)
BASE = "Redis always"
"""Of the stores, ratios are to this one: it promises the same."""
PLOTTED = (
    measures.WRITE_P50, measures.WRITES, measures.READ_P50, measures.DISTANCE_P50, measures.RESTART, measures.CATCH_UP,
    measures.SERVER_CPU, keystrokes.KEYSTROKE,
)  # fmt: skip

_BAR_PX, _GAP_PX, _LABEL_PX, _WIDTH_PX = 22, 8, 230, 820
_CHAR_PX = 7.6
"""Of a bold letter of the title, about."""
_OURS, _OTHERS = "#2563eb", "#94a3b8"


def table(found: Found, rounds: int) -> str:
    """Markdown: what was measured, a row for each figure."""
    return f"Medians of {rounds} rounds; {machine()}.\n\n{tables(found)}"


def tables(found: Found) -> str:
    """A table for each set of systems that were measured by the same figures, and one for crdtsync alone."""
    lines: list[str] = []
    alone = {figure: by["crdtsync"] for figure, by in found.items() if by.keys() == {"crdtsync"}}
    groups: list[dict[Figure, Mapping[str, float]]] = []
    for figure, by in found.items():
        if figure not in alone:
            others = by.keys() - {"crdtsync"}
            group = next((each for each in groups if any(others & known.keys() for known in each.values())), None)
            if group is None:
                groups.append(group := {})
            group[figure] = by
    for group in groups:
        systems = list(dict.fromkeys(name for by in group.values() for name in by))
        lines += [f"| | {' | '.join(systems)} |", f"|---|{'--:|' * len(systems)}"]
        for figure, by in group.items():
            cells = [f"{by[name]:,.{_digits(by[name])}f}" if name in by else "" for name in systems]
            lines.append(f"| {figure.name}, {figure.unit} | {' | '.join(cells)} |")
        lines.append("")
    if alone:
        lines += ["| crdtsync alone | | |", "|---|---|---|"]
        lines += [f"| {figure.name} | {value:,.{_digits(value)}f} | {figure.unit} |" for figure, value in alone.items()]
        lines.append("")
    return "\n".join(lines)


def _digits(value: float) -> int:
    return 0 if value >= 100 or not value else 1 if value >= 10 else 2


def machine() -> str:
    """Where it was measured."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {sys.version.split()[0]}"


def write(folder: Path, found: Found, rounds: int) -> None:
    """The table and the plots, as files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rivals.md").write_text(table(found, rounds), encoding="utf-8")
    for number, figure in enumerate(PLOTTED):
        if figure in found:
            (folder / f"rivals-{number + 1}.svg").write_text(plot(figure, found[figure]), encoding="utf-8")


def plot(figure: Figure, by: Mapping[str, float]) -> str:
    """Horizontal bars, the best first."""
    rows = sorted(by.items(), key=lambda item: item[1], reverse=not figure.is_better_low)
    most = max(value for _, value in rows) or 1
    digits = 1 if most < 100 else 0
    height = 40 + len(rows) * (_BAR_PX + _GAP_PX)
    title = f"{figure.name} ({figure.unit}, {'less' if figure.is_better_low else 'more'} is better)"
    size = f'width="{max(_WIDTH_PX, 16 + round(_CHAR_PX * len(title)))}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">',
        f'<rect {size} fill="white"/>',
        f'<text x="8" y="22" font-weight="bold">{escape(title)}</text>',
    ]
    for number, (name, value) in enumerate(rows):
        top = 36 + number * (_BAR_PX + _GAP_PX)
        width = max(1.0, value / most * (_WIDTH_PX - _LABEL_PX - 90))
        colour = _OURS if name.startswith("crdtsync") else _OTHERS
        parts += [
            f'<text x="8" y="{top + 16}">{escape(name)}</text>',
            f'<rect x="{_LABEL_PX}" y="{top}" width="{width:.1f}" height="{_BAR_PX}" fill="{colour}"/>',
            f'<text x="{_LABEL_PX + width + 6:.1f}" y="{top + 16}">{value:,.{digits}f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
