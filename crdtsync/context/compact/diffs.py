"""Diffs: what changed stays, the lines around it go, and long runs of one kind are cut in the middle."""

from __future__ import annotations

from itertools import groupby

from crdtsync.context.compact.result import CompactDraft

_CONTEXT = (3, 1, 0, 0, 0)  # unchanged lines kept on either side of a change, by level
_RUN_MAX = (10**9, 60, 24, 10, 4)  # lines of one run of added or removed lines, by level
_NOISE = ("index ", "similarity index", "old mode", "new mode")


def compact_diff(text: str, level: int, query: str | None) -> CompactDraft:  # noqa: ARG001  # as all kinds have it
    """``text``, a unified diff, at ``level``."""
    out: list[str] = []
    unchanged = cut = 0
    runs = [(sign, list(lines)) for sign, lines in groupby(text.splitlines(), key=_sign)]
    for i, (sign, lines) in enumerate(runs):
        if sign == " ":
            near = _CONTEXT[level]
            before = near if i and runs[i - 1][0] in "+-" else 0
            after = near if i + 1 < len(runs) and runs[i + 1][0] in "+-" else 0
            kept = lines if len(lines) <= before + after else [*lines[:before], *lines[len(lines) - after :]]
            unchanged += len(lines) - len(kept)
            out += kept
        elif sign in "+-" and len(lines) > _RUN_MAX[level]:
            most = _RUN_MAX[level]
            out += [*lines[: most * 2 // 3], f"[… {len(lines) - most} lines]", *lines[len(lines) - most // 3 :]]
            cut += len(lines) - most
        else:
            out += [line for line in lines if not line.startswith(_NOISE)]
    draft = CompactDraft("\n".join(out))
    if unchanged:
        draft.transforms.append("context left out")
        draft.left_out.append(f"{unchanged:,} unchanged lines")
    if cut:
        draft.transforms.append("long runs cut")
        draft.left_out.append(f"{cut:,} changed lines in long runs")
    return draft


def _sign(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "@"
    return line[:1] if line[:1] in ("+", "-", " ") else "@" if line else " "
