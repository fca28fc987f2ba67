"""Small notes that one run leaves for the next, in the cache of this user: how far a session was read, or told.

To lose one means more work the next time, and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from pathlib import Path

KEPT_S = 30 * 24 * 3600.0
"""A note that was not written anew for so long is deleted."""


class Note:
    """A file in the folder ``kind``, named by ``words``; only its owner may read it."""

    def __init__(self, kind: str, *words: str) -> None:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crdtsync" / kind
        name = "\0".join(words).encode("utf-8", "surrogateescape")
        self._path = folder / hashlib.sha256(name).hexdigest()[:32]

    def taken(self) -> str | None:
        """Its content, once: so a note that cannot be used is forgotten."""
        try:
            text = self._path.read_text("ascii")
        except (OSError, UnicodeDecodeError):
            return None
        self._path.unlink(missing_ok=True)
        return text or None

    def write(self, text: str) -> None:
        """Say ``text``, which is ASCII, in place of what it said."""
        folder = self._path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for other in folder.iterdir():
            if time.time() - other.stat().st_mtime > KEPT_S:
                other.unlink(missing_ok=True)
        handle, partial = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        Path(partial).replace(self._path)
