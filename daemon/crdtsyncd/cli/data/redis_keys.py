"""Keys of a Redis server as lines of an export: a string as a register, a hash as a map, a list as a log."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from importlib import import_module
from itertools import islice, product, takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.data.kinds import BLOB_PART
from crdtsyncd.cli.data.ndjson import Line
from crdtsyncd.cli.errors import refused_value
from crdtsyncd.cli.show import output

from crdtsync.wire.limits import KEY_BYTES_MAX

if TYPE_CHECKING:
    from crdtsyncd.cli.data.json_values import Value

Client = Any
"""The client of the package ``redis``, whose types do not say that it answers in bytes."""

TIMEOUT_S = 30.0
SCANNED_AT_ONCE = 500
NAMES_BEFORE_MAX = 64  # that may have taken a name's key and are asked for: all, where it has six dividers or fewer
PAGE = 1000  # elements of a list or stream that are fetched at once
REGISTER_BYTES_MAX = 1_000_000  # a longer string becomes a blob
BLOB_PART_BYTES = 256 * 1024
NONSENSE = (AttributeError, IndexError, RecursionError, TypeError, ValueError)
"""Errors from an answer that Redis never gives."""


def without_password(url: str) -> str:
    """A server's address as it may be shown."""
    return url.replace(f"{urlsplit(url).netloc.rpartition('@')[0]}@", "", 1)


class RedisKeys:
    """The values of the keys that match a pattern, under ``prefix``; ``left_out`` counts those that have no place here.

    A name's parts, which ``separator`` divides, become parts of the key. With ``parse_json`` a string that is JSON
    becomes what it says.

    :raises CommandFailed: as each call: there is no such server, or it answers as no Redis server does.
    """

    def __init__(self, url: str, match: str, prefix: str, separator: str, *, parse_json: bool) -> None:
        self._shown_url = without_password(url)
        self._match = match
        self._pattern = _as_fnmatch(match.encode())
        self._prefix = prefix
        self._separator = separator
        self._parse_json = parse_json
        self.left_out = 0
        with self._asking():
            options = dict.fromkeys(("socket_timeout", "socket_connect_timeout"), TIMEOUT_S)
            self._redis: Client = _package().Redis.from_url(url, **options)
            self._redis.ping()

    def count(self) -> int | None:
        """How many there are, where that is known."""
        with self._asking():
            return int(self._redis.dbsize()) if self._match == "*" else None

    def lines(self) -> Iterator[Line]:
        """Each key as a line of an export; that of a blob is followed by its parts."""
        with self._asking():
            yield from self._lines()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        package = _package()
        try:
            yield
        except (package.RedisError, OSError, *NONSENSE) as error:
            raise refused_value(f"no Redis server that can be read at {self._shown_url!r}: {error}") from error

    def _lines(self) -> Iterator[Line]:
        cursor = number = 0
        while True:
            cursor, names = self._redis.scan(cursor, self._match, SCANNED_AT_ONCE)
            about = self._redis.pipeline(transaction=False)
            for name in names:
                about.type(name)
                about.pttl(name)
            kinds_and_ttls = about.execute()
            for name, kind, ttl_ms in zip(names, kinds_and_ttls[::2], kinds_and_ttls[1::2], strict=True):
                for fields in self._fields(name, kind.decode(), ttl_ms):
                    number += 1
                    yield Line(f"redis {shown(name)}", number, fields)
            if cursor == 0:
                return

    def leave_out(self, name: str, why: str) -> None:
        """Say that a key has no place here, and why."""
        self.left_out += 1
        output.warning(f"{name} was left out: {why}")

    def _fields(self, name: bytes, kind: str, ttl_ms: int) -> Iterator[dict[str, Value]]:
        try:
            key = self._prefix + name.decode().replace(self._separator, "/")
        except UnicodeDecodeError:
            return self.leave_out(shown(name), "its name is not UTF-8")
        if (other := self._other(key, name)) is not None:
            return self.leave_out(shown(name), f"{key} is what {shown(other)} becomes; --separator / keeps both")
        read = _READERS.get(kind)
        if kind == "none":  # it has expired, or was deleted
            return None
        if kind == "string":
            yield from self._string(key, self._redis.get(name), ttl_ms)
        elif read is None:
            return self.leave_out(shown(name), f"it is a {kind}")
        else:
            if ttl_ms >= 0:
                output.warning(f"{shown(name)} has a time to live, which a {kind} cannot have here: it stays")
            try:
                yield {"key": key, **read(self._redis, name)}
            except UnicodeDecodeError:
                return self.leave_out(shown(name), "the name of a field is not UTF-8")
        return None

    def _other(self, key: str, name: bytes) -> bytes | None:
        """The name whose key this one would take: ``a/b`` would take that of ``a:b``, and ``a/b:c`` of ``a:b/c``."""
        separator = self._separator.encode()
        if b"/" not in name or separator in (b"", b"/") or len(key) > KEY_BYTES_MAX:
            return None
        *parts, last = name.replace(separator, b"/").split(b"/")
        choices = product(*([part + separator, part + b"/"] for part in parts), [last])
        before = takewhile(lambda other: other != name, map(b"".join, islice(choices, NAMES_BEFORE_MAX)))
        asked = [other for other in before if fnmatchcase(other, self._pattern)]
        if not asked or not self._redis.exists(*asked):
            return None
        return next((other for other in asked if self._redis.exists(other)), None)

    def _string(self, key: str, data: bytes | None, ttl_ms: int) -> Iterator[dict[str, Value]]:
        options: dict[str, Value] = {} if ttl_ms <= 0 else {"ttl": ttl_ms / 1000}
        if data is None:
            return
        if len(data) <= REGISTER_BYTES_MAX:
            yield {"key": key, "kind": "register", "value": self._value(data), **options}
            return
        said = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "media_type": "application/octet-stream"}
        yield {"key": key, "kind": "blob", "value": said, **options}
        for start in range(0, len(data), BLOB_PART_BYTES):
            yield {"key": key, "kind": BLOB_PART, "value": data[start : start + BLOB_PART_BYTES]}

    def _value(self, data: bytes) -> Value:
        found = value(data)
        if self._parse_json and isinstance(found, str):
            try:
                return json_values.loads(found)
            except ValueError:
                return found
        return found


def value(data: bytes) -> str | bytes:
    """Text where it is text; Redis does not know."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def shown(name: bytes) -> str:
    """The name of a key for a person."""
    return name.decode("utf-8", "backslashreplace")


def _as_fnmatch(pattern: bytes) -> bytes:
    """A pattern of Redis as Python has them: ``[!a]`` for ``[^a]``, ``[*]`` for ``\\*``."""
    return re.sub(rb"\\(.)|\[\^", lambda found: b"[%b]" % found[1] if found[1] else b"[!", pattern)


def _package() -> Any:  # Any: mypy does not see what is imported by name
    try:
        return import_module("redis")
    except ImportError:
        raise refused_value("this needs a package: pip install 'crdtsync[redis]'") from None


def _list(redis: Client, name: bytes) -> Iterator[str | bytes]:
    start = 0
    while found := redis.lrange(name, start, start + PAGE - 1):
        yield from map(value, found)
        start += PAGE


def _stream(redis: Client, name: bytes) -> Iterator[dict[str, Value]]:
    first = b"-"
    while found := redis.xrange(name, first, "+", PAGE):
        for each, fields in found:
            yield {"id": each.decode(), "fields": _texts(fields)}
        first = b"(" + found[-1][0]


def _texts(fields: Mapping[bytes, bytes]) -> dict[str, Value]:
    return {name.decode(): value(data) for name, data in fields.items()}


def _scores(redis: Client, name: bytes) -> dict[str, Value]:
    return {each.decode(): score for each, score in redis.zrange(name, 0, -1, withscores=True)}


_READERS: Mapping[str, Callable[[Client, bytes], dict[str, Value]]] = {
    "hash": lambda redis, name: {"kind": "map", "value": _texts(redis.hgetall(name))},
    "list": lambda redis, name: {"kind": "log", "value": [*_list(redis, name)]},
    "set": lambda redis, name: {"kind": "set", "value": [*map(value, sorted(redis.smembers(name)))]},
    "stream": lambda redis, name: {"kind": "log", "value": [*_stream(redis, name)]},
    "zset": lambda redis, name: {"kind": "map", "value": _scores(redis, name)},
}
"""How each type but a string is read."""
