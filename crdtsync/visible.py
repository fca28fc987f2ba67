"""Text that does only what it shows.

Example: U+202E makes ``exe.gpj`` read as ``jpg.exe`` on a terminal; U+200B and the tag characters of Unicode hide words
from a person that a model reads. An invisible character is shown as an escape: ``\\x1b``, ``\\u202e``.
"""

from __future__ import annotations

import re

JOINERS = "\u200c\u200d"
"""Invisible, and part of how words of some languages and some pictures are written; they move nothing."""
SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"

_DOUBTFUL = re.compile(r"[^\x20-\x7e]+")
_DOUBTFUL_IN_LINES = re.compile(r"[^\x20-\x7e\n\t]+")
_KEPT = frozenset(JOINERS + SPACES)


def is_seen(character: str) -> bool:
    """Whether a character is shown and does nothing else."""
    return character.isprintable() or character in _KEPT


def readable(text: str) -> str:
    """A text of many lines with all that cannot be seen written out."""
    return text if text.isprintable() else _DOUBTFUL_IN_LINES.sub(_shown, text)


def in_line(text: str) -> str:
    """The same of one line, which stays one."""
    return text if text.isprintable() else _DOUBTFUL.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    run = found[0]
    if run.isprintable():
        return run
    return "".join(one if is_seen(one) else one.encode("unicode_escape").decode() for one in run)
