"""What agents may ask of the process itself: its metrics, its log level, a backup."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from crdtsyncd import telemetry
from crdtsyncd.backup import Backups

from crdtsync.core.service import Service
from crdtsync.errors import InvalidRequest, NotAllowed


def services(exposition: Callable[[], str], backups: Backups) -> dict[str, Service]:
    """The operations by name."""

    def metrics(_conn: int, _uid: int, _args: Mapping[str, Any]) -> object:
        return {"text": exposition()}

    def backup(conn: int, uid: int, args: Mapping[str, Any]) -> object:
        _check_operator(uid, "take a backup, which holds everything of everybody")
        return backups.serve(conn, args)

    return {"backup": backup, "log_level": _log_level, "metrics": metrics}


def _log_level(_conn: int, uid: int, args: Mapping[str, Any]) -> object:
    level = args.get("level")
    if level is not None:
        _check_operator(uid, "change what is logged")
        if level not in telemetry.LEVELS:
            raise InvalidRequest(f"level must be one of {', '.join(telemetry.LEVELS)}")
        before = telemetry.set_level(level)
        telemetry.log("log_level_changed", level="warning", before=before, now=level)
    return {"level": telemetry.level()}


def _check_operator(uid: int, what: str) -> None:
    if uid not in (0, os.geteuid()):
        raise NotAllowed(f"only root and the user that crdtsyncd runs as may {what}: use sudo")
