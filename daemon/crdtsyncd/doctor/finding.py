"""Findings of a check."""

from __future__ import annotations

from crdtsync.named_tuple import NamedTuple


class Finding(NamedTuple):
    """``state``: ok, warning or problem; what is not ok has a ``remedy``."""

    check: str
    state: str
    message: str
    remedy: str = ""


def ok(check: str, message: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", message)


def warning(check: str, message: str, remedy: str) -> Finding:
    """Works, and may not for long."""
    return Finding(check, "warning", message, remedy)


def problem(check: str, message: str, remedy: str) -> Finding:
    """Does not work as it should."""
    return Finding(check, "problem", message, remedy)
