"""All that a person sees is written here; no other module writes to a terminal, which a test checks.

A terminal obeys what it is shown. Example: an agent stores a text with ``ESC ] 52 ; …``, and who prints that text has
another clipboard afterwards; with U+202E in it, ``exe.gpj`` reads as ``jpg.exe``. Texts, keys, and messages of other
hosts are somebody else's. So whatever cannot be seen is shown as what it is, ``\\x1b`` and ``\\u202e``, if it goes to a
terminal. A pipe or a file gets it as it is: there it is data.

Sentences about what went wrong are written in the same way wherever they go, and on one line: what they quote must not
look like another line.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

from crdtsync.visible import in_line, readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console


def write(stream: TextIO, content: bytes, *, as_it_is: bool = False) -> None:
    """Write what somebody stored; ``as_it_is``: to a terminal, too, since a person has asked for that.

    :raises OSError: it cannot be written.
    """
    if not as_it_is and stream.isatty():
        content = readable(content.decode(errors="backslashreplace")).encode()
    stream.buffer.write(content)


def line(text: str, *, at_once: bool = False) -> None:
    """Write one line; ``at_once``: whoever reads acts on it.

    :raises OSError: it cannot be written.
    """
    shown = in_line(text) if sys.stdout.isatty() else text
    sys.stdout.buffer.write(f"{shown}\n".encode(errors="backslashreplace"))
    if at_once:
        sys.stdout.buffer.flush()


def sentence(text: str) -> None:
    """Say something on stderr that may quote others.

    :raises OSError: nobody listens there.
    """
    sys.stderr.buffer.write(f"{in_line(' '.join(text.split()))}\n".encode(errors="backslashreplace"))
    sys.stderr.buffer.flush()


def passing(text: str) -> None:
    """Show a line on stderr that the next one takes the place of; an empty one wipes it away."""
    sys.stderr.write(f"\r{in_line(text)}\x1b[K")
    sys.stderr.flush()


def console(**options: Any) -> Console:  # Any: those of rich
    """A console of rich for tables and screens, whose own colours pass and nothing of what is shown in them does."""
    from rich.console import Console
    from rich.segment import Segment

    class Careful(Console):
        def render(self, *args: Any, **named: Any) -> Iterable[Segment]:
            for segment in super().render(*args, **named):
                is_plain = segment.control or segment.text == "\n" or segment.text.isprintable()
                yield segment if is_plain else Segment(readable(segment.text), segment.style)

    return Careful(**options)
