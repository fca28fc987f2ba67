"""Structured logs: one event a line on stderr, for people on a terminal, JSON otherwise."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Import what follows as if a package were not there."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # so says the import system's documentation
    try:
        yield
    finally:
        del sys.modules[name]


LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_now = {"level": "info", "form": "auto"}
_loggers: list[Any] = []  # the one in use, once there is one


def configure(level: str, form: str) -> None:
    """Set up logging for this process. May be called again, to change the level."""
    _now.update(level=level, form=form)
    if _loggers:
        _make_logger()


def _make_logger() -> Any:
    """The logger of events from now on. It is imported when the first one is logged, which is after
    agents are served.
    """
    with _without("rich"):  # structlog would print tracebacks with it; none is ever logged, and it takes 3.5 MB
        import structlog

    form = _now["form"]
    people = form == "console" or (form == "auto" and sys.stderr.isatty())
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    renderer: Any = structlog.processors.JSONRenderer(sort_keys=True)
    if people:  # values quoted, for they may come from another host: none of them can forge a line
        coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        renderer = structlog.dev.ConsoleRenderer(colors=coloured, repr_native_str=True)
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[_now["level"]]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.ERROR, format="%(message)s", force=True)
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    _loggers[:] = [structlog.get_logger()]
    return _loggers[0]


def level() -> str:
    """The least severe events that are logged now."""
    return _now["level"]


def set_level(wanted: str) -> str:
    """Log from this level on, until the settings are read again. Returns what it was."""
    before = level()
    configure(wanted, _now["form"])
    return before


def log(event: str, level: str = "info", **fields: object) -> None:
    """Log one event."""
    with suppress(OSError, ValueError):  # nobody listens any more: no reason to stop serving
        getattr(_loggers[0] if _loggers else _make_logger(), level)(event, **fields)
