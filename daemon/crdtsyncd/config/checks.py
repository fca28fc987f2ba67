"""What is allowed as the value of a setting: each check returns it as the daemon uses it, or says what is allowed.

A value is of the TOML file, or text of the environment or an option; ``ValueError`` names the rule, not the setting.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from crdtsyncd.config.host_port import PEER_PORT_DEFAULT, is_loopback, split_address

from crdtsync.errors import InvalidRequest
from crdtsync.wire.invites import decode_invite
from crdtsync.wire.limits import is_name

if TYPE_CHECKING:
    from collections.abc import Callable

SOCKET_PATH_BYTES_MAX = 107
_DURATION = re.compile(r"(\d{1,15})(ms|[smhd])", re.ASCII)
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TRUTHS = {
    **dict.fromkeys(("true", "1", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("false", "0", "no", "off", "f", "n"), False),
}


def text(value: object) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise ValueError("must be text")  # noqa: TRY004  # as of all that a setting may not be
    return value


def texts(value: object) -> list[str]:
    """A list of texts, or one text that commas or blanks divide."""
    parts = [part for part in re.split(r"[,\s]+", value) if part] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ValueError("must be a list of texts")
    return [*parts]


def truth(value: object) -> bool:
    """Yes or no."""
    found = _TRUTHS.get(str(value).lower())
    if found is None:
        raise ValueError("must be true or false")
    return found


def number(least: int, most: int) -> Callable[[object], int]:
    """A whole number within bounds."""

    def checked(value: object) -> int:
        try:
            found = int(str(value).removesuffix(".0"))
        except ValueError:
            found = least - 1
        if not least <= found <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return found

    return checked


def duration_ms(least: str, most: str) -> Callable[[object], int]:
    """A duration within bounds, such as ``30s``, in milliseconds."""

    def parsed(value: object) -> int:
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise ValueError("must be a duration, such as 500ms, 30s, 10m, 2h or 7d")
        return int(match[1]) * _UNITS_MS[match[2]]

    def checked(value: object) -> int:
        if not parsed(least) <= parsed(value) <= parsed(most):
            raise ValueError(f"must be a duration from {least} to {most}")
        return parsed(value)

    return checked


def one_of(*allowed: str) -> Callable[[object], str]:
    """One of a few words."""

    def checked(value: object) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text(value)

    return checked


def path(value: object) -> Path:
    """A path that a file may have."""
    if not isinstance(value, str | Path) or "\0" in str(value):
        raise ValueError("must be a path")
    return Path(value)


def socket_path(value: object) -> Path:
    """A path that a unix socket may have."""
    found = path(value)
    if (length := len(os.fsencode(found))) > SOCKET_PATH_BYTES_MAX:
        raise ValueError(
            f"is {length} bytes long; the path of a unix socket may have {SOCKET_PATH_BYTES_MAX}: choose a shorter one"
        )
    return found


def socket_mode(value: object) -> str:
    """Permissions of a file."""
    if not isinstance(value, str) or not re.fullmatch("0?[0-7]{3}", value):
        raise ValueError("must be permissions in octal, such as '0660'")
    return value


def node_name(value: object) -> str:
    """A name of a node."""
    if not is_name(value):
        raise ValueError("must be 1 to 128 of a-z 0-9 . _ - and start with a letter or digit")
    return text(value)


def addresses(value: object) -> list[str]:
    """A list of ``HOST:PORT``."""
    found = texts(value)
    for address in found:
        split_address(address)
    return found


def local_address(value: object) -> str:
    """``HOST:PORT`` of this machine alone, or nothing."""
    address = text(value)
    if address:
        host, _ = split_address(address)
        if not is_loopback(host):
            raise ValueError(
                f"{host!r} is not a loopback address: the figures go to a collector on this machine, "
                "such as 127.0.0.1:9742"
            )
        if urlsplit(f"//{address}").port is None:
            raise ValueError("needs a port, such as 127.0.0.1:9742")
    return address


def peer_urls(value: object) -> list[str]:
    """Where peers are: a list of ``HOST:PORT`` or of URLs; all as URLs."""
    urls = [url if "://" in url else f"wss://{url}" for url in texts(value)]
    for url in urls:
        if not _is_peer_url(url):
            raise ValueError(
                f"{url!r} is not a peer's address, such as host-a:{PEER_PORT_DEFAULT} or its URL wss://… "
                f"(or ws://127.0.0.1:{PEER_PORT_DEFAULT} with insecure_loopback = true)"
            )
    return urls


def _is_peer_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def invite(value: object) -> str:
    """An invite, or nothing."""
    word = text(value)
    if word:
        try:
            decode_invite(word)
        except InvalidRequest as error:
            raise ValueError(error.message) from None
    return word
