"""After a fork, the child must neither read from its parent's sockets nor wait for locks that no thread of its own
holds.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something that has to start afresh in a child process."""

    def after_fork(self) -> None:
        """Called in the child, before anything else runs there."""


_forkable: WeakSet[Forkable] = WeakSet()


def restart_in_children(part: Forkable) -> None:
    """Have ``part`` told in every child that this process forks while ``part`` lives."""
    _forkable.add(part)


def _after_fork() -> None:
    for part in list(_forkable):
        part.after_fork()


os.register_at_fork(after_in_child=_after_fork)
