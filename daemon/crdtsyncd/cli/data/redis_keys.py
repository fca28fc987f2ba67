"""Keys of a Redis server as lines of an export: a string as a register, a hash as a map, a list or a stream as a log.

Redis's protocol is small (https://redis.io/docs/latest/develop/reference/protocol-spec/), so no package is needed.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import IO, TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from crdtsyncd.cli.data import json_values
from crdtsyncd.cli.data.kinds import BLOB_PART
from crdtsyncd.cli.data.ndjson import Line
from crdtsyncd.cli.errors import refused_value
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from types import TracebackType

    from crdtsyncd.cli.data.json_values import Value

TIMEOUT_S = 30.0
SCANNED_AT_ONCE = 500
PAGE = 1000  # elements of a list or stream that are fetched at once
REGISTER_BYTES_MAX = 1_000_000  # a longer string becomes a blob
BLOB_PART_BYTES = 256 * 1024
STRING_BYTES_MAX = 512 * 1024 * 1024  # as Redis's own bound
LINE_BYTES_MAX = 64 * 1024
DEPTH_MAX = 8  # of arrays in arrays


class RedisError(Exception):
    """The server refuses a command; the message is its own."""


class Redis:
    """A connection to the server that a URL names: ``redis://[[USER:]PASSWORD@]HOST[:PORT][/DB]``, the same with
    ``rediss`` for TLS, or ``unix:///PATH[?db=DB]``.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        shown_url = url.replace(f"{parts.netloc.rpartition('@')[0]}@", "", 1)  # without the password
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise refused_value(
                f"{shown_url!r} is no address of a Redis server: give redis://HOST:PORT/DB or unix:///PATH"
            )
        try:
            self._socket = _connected(parts.scheme, parts.hostname or "127.0.0.1", parts.port or 6379, parts.path)
        except (OSError, ValueError) as error:
            raise refused_value(f"no Redis server answers at {shown_url!r}: {error}") from None
        self._file: IO[bytes] = self._socket.makefile("rb")
        database = parse_qs(parts.query).get("db", ["0"])[0] if parts.scheme == "unix" else parts.path.strip("/")
        if parts.password is not None:
            names = [unquote(parts.username)] if parts.username else []
            self.ask("AUTH", *names, unquote(parts.password))
        if database not in ("", "0"):
            self.ask("SELECT", database)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with closing(self._socket), closing(self._file):
            pass

    def ask(self, *words: str | bytes | int) -> Any:  # Any: what the command answers
        """The answer to one command."""
        return self.ask_all([words])[0]

    def ask_all(self, commands: Iterable[tuple[str | bytes | int, ...]]) -> list[Any]:
        """The answers to commands that are sent together.

        :raises CommandFailed: one is refused, or the connection breaks.
        """
        asked = list(commands)
        try:
            self._socket.sendall(b"".join(map(_encoded, asked)))
            return [self._answer() for _ in asked]
        except (RedisError, OSError, ValueError) as error:
            raise refused_value(f"the Redis server: {error}") from None

    def _answer(self, depth: int = 0) -> Any:
        line = self._file.readline(LINE_BYTES_MAX)
        if not line.endswith(b"\r\n") or depth > DEPTH_MAX:
            raise OSError("it has closed the connection, or is no Redis server")
        sign, rest = line[:1], line[1:-2]
        if sign == b"-":
            raise RedisError(rest.decode("utf-8", "replace"))
        if sign == b"+":
            return rest
        if sign == b":":
            return int(rest)
        if sign == b"$":
            size = int(rest)
            if size > STRING_BYTES_MAX:
                raise OSError(f"it announces a string of {size:,} bytes")
            data = None if size < 0 else self._file.read(size + 2)
            if data is not None and len(data) != size + 2:
                raise OSError("it has closed the connection")
            return None if data is None else data[:-2]
        if sign == b"*":
            return [self._answer(depth + 1) for _ in range(int(rest))]
        raise OSError("this is no Redis server")


def _connected(scheme: str, host: str, port: int, path: str) -> socket.socket:
    if scheme == "unix":
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(TIMEOUT_S)
        made.connect(unquote(path))
        return made
    made = socket.create_connection((host, port), TIMEOUT_S)
    return ssl.create_default_context().wrap_socket(made, server_hostname=host) if scheme == "rediss" else made


def _encoded(words: tuple[str | bytes | int, ...]) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class RedisKeys:
    """What the keys that match a pattern hold, under ``prefix``; ``left_out`` counts what has no place here.

    A name's parts, which ``separator`` divides, become parts of the key. With ``parse_json`` a string that is JSON
    becomes what it says.
    """

    def __init__(self, redis: Redis, match: str, prefix: str, separator: str, *, parse_json: bool) -> None:
        self._redis = redis
        self._match = match
        self._prefix = prefix
        self._separator = separator
        self._parse_json = parse_json
        self.left_out = 0

    def lines(self) -> Iterator[Line]:
        """Each key as a line of an export; that of a blob is followed by its parts.

        :raises CommandFailed: the server answers as no Redis server does.
        """
        try:
            yield from self._lines()
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise refused_value(f"the Redis server: its answers are not those of Redis ({error})") from error

    def _lines(self) -> Iterator[Line]:
        cursor: bytes = b"0"
        number = 0
        while True:
            cursor, names = self._redis.ask("SCAN", cursor, "MATCH", self._match, "COUNT", SCANNED_AT_ONCE)
            kinds = self._redis.ask_all(("TYPE", name) for name in names)
            left_ms = self._redis.ask_all(("PTTL", name) for name in names)
            for name, kind, ttl_ms in zip(names, kinds, left_ms, strict=True):
                for fields in self._fields(name, kind.decode(), ttl_ms):
                    number += 1
                    yield Line(f"redis {shown(name)}", number, fields)
            if cursor == b"0":
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
        read = _READERS.get(kind)
        if kind == "none":  # it has expired, or was deleted
            return None
        if kind == "string":
            yield from self._string(key, self._redis.ask("GET", name), ttl_ms)
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


def _pages(redis: Redis, name: bytes) -> Iterator[bytes]:
    start = 0
    while found := redis.ask("LRANGE", name, start, start + PAGE - 1):
        yield from found
        start += PAGE


def _stream(redis: Redis, name: bytes) -> Iterator[dict[str, Value]]:
    first = b"-"
    while found := redis.ask("XRANGE", name, first, b"+", "COUNT", PAGE):
        for each, fields in found:
            yield {"id": each.decode(), "fields": _pairs(fields)}
        first = b"(" + found[-1][0]


def _pairs(flat: list[bytes]) -> dict[str, Value]:
    return {name.decode(): value(data) for name, data in zip(flat[::2], flat[1::2], strict=True)}


def _scores(redis: Redis, name: bytes) -> dict[str, Value]:
    flat = redis.ask("ZRANGE", name, 0, -1, "WITHSCORES")
    return {each.decode(): float(score) for each, score in zip(flat[::2], flat[1::2], strict=True)}


_READERS: Mapping[str, Callable[[Redis, bytes], dict[str, Value]]] = {
    "hash": lambda redis, name: {"kind": "map", "value": _pairs(redis.ask("HGETALL", name))},
    "list": lambda redis, name: {"kind": "log", "value": [*map(value, _pages(redis, name))]},
    "set": lambda redis, name: {"kind": "set", "value": [*map(value, sorted(redis.ask("SMEMBERS", name)))]},
    "stream": lambda redis, name: {"kind": "log", "value": [*_stream(redis, name)]},
    "zset": lambda redis, name: {"kind": "map", "value": _scores(redis, name)},
}
"""How each type but a string is read."""
