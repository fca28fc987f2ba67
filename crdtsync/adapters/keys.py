"""Names of any characters as parts of keys."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, unquote

from crdtsync.errors import InvalidRequest

NAME_BYTES_MAX = 1000  # a key has 1,024, with all of its names


class Keys:
    """Names of keys: ``PREFIX/KIND/NAME/…``, where each name may have any characters."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.rstrip("/")

    def key(self, kind: str, *names: str) -> str:
        """The key of these names."""
        return "/".join([self._prefix, kind, *map(quoted, names)])

    def below(self, kind: str, *names: str) -> str:
        """All keys below these names begin so."""
        return self.key(kind, *names) + "/"

    def names(self, key: str) -> list[str]:
        """The names that a key was made of."""
        return [*map(unquoted, key[len(self._prefix) + 1 :].split("/")[1:])]


@lru_cache(maxsize=10_000)  # listing 100 checkpoints with 100 channels each names 10,000 values
def quoted(name: str) -> str:
    """A name as a part of a key.

    :raises InvalidRequest: it is no text, none that UTF-8 can hold, or too long.
    """
    if not isinstance(name, str):
        raise InvalidRequest(f"{name!r} cannot be a name: give a text, such as {str(name)!r}")
    try:
        part = quote(name, safe=":|") or "@"
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"{name[:40]!r} has a lone surrogate, which UTF-8 cannot hold: give another name"
        ) from None
    if len(part) > NAME_BYTES_MAX:
        raise InvalidRequest(
            f"{name[:40]!r}… has {len(part):,} bytes in a key, where {NAME_BYTES_MAX} are the most: give a shorter name"
        )
    return part


def unquoted(part: str) -> str:
    """The name that is a part of a key."""
    return "" if part == "@" else unquote(part)
