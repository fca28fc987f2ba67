"""Gives memory that was freed back to the system: the C library keeps it otherwise, in case it is asked for again."""

from __future__ import annotations

import asyncio
import ctypes

GIVE_BACK_BYTES_MIN = 4 * 1024 * 1024
"""So much has to have been freed before it is worth the call."""


class MemoryGuard:
    """Watches how much memory the documents take; see :meth:`check`."""

    def __init__(self) -> None:
        self._peak_bytes = 0
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; others give back by themselves

    async def check(self, used_bytes: int) -> bool:
        """Give back what has been freed since the last peak, if that is much; whether it did."""
        if self._peak_bytes - used_bytes < GIVE_BACK_BYTES_MIN:
            self._peak_bytes = max(self._peak_bytes, used_bytes)
            return False
        self._peak_bytes = used_bytes
        if self._trim is not None:
            await asyncio.to_thread(self._trim, 0)
        return True
