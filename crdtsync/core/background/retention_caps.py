"""How much is kept of the past of each space: see :mod:`crdtsync.core.background.trimming`."""

from __future__ import annotations

from crdtsync.named_tuple import NamedTuple

_DAY_MS = 24 * 3600 * 1000


class Caps(NamedTuple):
    """How much a space keeps beside its live state."""

    log_bytes_max: int = 64 * 1024 * 1024
    log_age_ms_max: int = 7 * _DAY_MS
    history_bytes_max: int = 64 * 1024 * 1024
    history_age_ms_max: int = 30 * _DAY_MS


DEFAULT_CAPS = Caps()
