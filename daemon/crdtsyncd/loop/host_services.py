"""Requests of agents to the process itself: its metrics, its log level, a backup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crdtsyncd.backup.backup import Backups
from crdtsyncd.telemetry import event_log

from crdtsync.core.agents.host_requests import Service
from crdtsync.errors import InvalidRequest


def services(exposition: Callable[[], str], backups: Backups) -> dict[str, Service]:
    """The operations by name."""

    def metrics(_conn: int, _args: Mapping[str, Any]) -> object:
        return {"text": exposition()}

    def backup(conn: int, args: Mapping[str, Any]) -> object:
        return backups.serve(conn, args)

    return {"backup": backup, "log_level": _log_level, "metrics": metrics}


def _log_level(_conn: int, args: Mapping[str, Any]) -> object:
    level = args.get("level")
    if level is not None:
        if type(level) is not str or level not in event_log.LEVELS:
            raise InvalidRequest(f"level must be one of {', '.join(event_log.LEVELS)}")
        before = event_log.set_level(level)
        event_log.log("log_level_changed", level="warning", before=before, now=level)
    return {"level": event_log.level()}
