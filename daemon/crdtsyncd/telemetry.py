"""Structured logs: one event a line on stderr, for people on a terminal, JSON otherwise."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str, form: str) -> None:
    """Set up logging for this process. May be called again, to change the level."""
    people = form == "console" or (form == "auto" and sys.stderr.isatty())
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    renderer: Any = structlog.dev.ConsoleRenderer() if people else structlog.processors.JSONRenderer(sort_keys=True)
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.ERROR, format="%(message)s", force=True)
    logging.getLogger("websockets").setLevel(logging.CRITICAL)


def log(event: str, level: str = "info", **fields: object) -> None:
    """Log one event."""
    getattr(structlog.get_logger(), level)(event, **fields)
