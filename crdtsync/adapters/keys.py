"""Names of any characters as parts of keys."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, repeat
from urllib.parse import quote, unquote

from crdtsync.errors import InvalidRequest

NAME_BYTES_MAX = 1000  # a key has 1,024, with all of its names


class Keys:
    """Names of keys: ``PREFIX/KIND/NAME/…``, where each name may have any characters.

    ``first`` is the framework's word for the first of them, in what an error says.
    """

    def __init__(self, prefix: str, first: str = "name") -> None:
        self._prefix = prefix.rstrip("/")
        self._first = first

    def key(self, kind: str, *names: str) -> str:
        """The key of these names."""
        return "/".join([self._prefix, kind, *map(quoted, names, chain((self._first,), repeat("name")))])

    def below(self, kind: str, *names: str) -> str:
        """All keys below these names begin so."""
        return self.key(kind, *names) + "/"

    def names(self, key: str) -> list[str]:
        """The names that a key was made of."""
        return [*map(unquoted, key[len(self._prefix) + 1 :].split("/")[1:])]


@lru_cache(maxsize=10_000)  # listing 100 checkpoints with 100 channels each names 10,000 values
def quoted(name: str, what: str = "name") -> str:
    """A name as a part of a key; ``what`` it is, in what an error says.

    :raises InvalidRequest: it is no text, none that UTF-8 can hold, or too long.
    """
    if not isinstance(name, str):
        raise InvalidRequest(f"{name!r} cannot be a {what}: give a text, such as {str(name)!r}")
    try:
        part = quote(name, safe=":|") or "@"
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"{name[:40]!r} has a lone surrogate, which UTF-8 cannot hold: give another {what}"
        ) from None
    if len(part) > NAME_BYTES_MAX:
        told = f"{name[:40]!r}… has {len(part):,} bytes in a key, where {NAME_BYTES_MAX} are the most"
        raise InvalidRequest(f"{told}: give a shorter {what}")
    return part


def unquoted(part: str) -> str:
    """The name that is a part of a key."""
    return "" if part == "@" else unquote(part)
