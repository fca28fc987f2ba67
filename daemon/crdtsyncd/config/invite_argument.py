"""An invite on a command line: itself, or better where it stands, for all users of a host see a command's words."""

from __future__ import annotations

import sys

WORD_CHARS_MAX = 8192


def invite_of(given: str) -> str:
    """The invite that was given itself, or that is on stdin (``-``) or in a file.

    A word that is none of these is returned as it is, since its decoder says what is wrong with it.
    """
    from crdtsync.wire.invites import INVITE_PREFIX  # where there is an invite: a start imports little

    if given == "-":
        return sys.stdin.read(WORD_CHARS_MAX).strip()
    if given.startswith(INVITE_PREFIX):
        return given
    try:
        with open(given, encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # pathlib would do no more
            return file.read(WORD_CHARS_MAX).strip()
    except (OSError, ValueError):
        return given
