"""A port of loopback that only its user may use.

Any program of the host can connect to a port on loopback, and so can a web page that the user looks at. So whoever
comes shows a token, which a file of the user holds.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from crdtsync.errors import InvalidRequest

_TOKEN_CHARS_MIN = 20


def token_in(path: Path) -> str:
    """The token that a file holds; it is made, for its owner alone, if there is none.

    Raises :class:`~crdtsync.errors.InvalidRequest` for a file that others may read, or that holds no token.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError), os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    if path.stat().st_mode & 0o077:
        message = f"others may read the token in {path}: chmod 600 {path}, and delete it to have a new one"
        raise InvalidRequest(message)
    token = path.read_text().strip()
    if len(token) < _TOKEN_CHARS_MIN or not token.isascii() or not token.isprintable():
        message = f"{path} holds no token of {_TOKEN_CHARS_MIN} characters or more: delete it to have one made"
        raise InvalidRequest(message)
    return token


def listening(host: str, port: int, *, anywhere: bool = False) -> socket.socket:
    """A socket that listens there.

    Raises :class:`~crdtsync.errors.InvalidRequest` for what is not loopback, unless it may be ``anywhere``, and OSError
    if the port is taken.
    """
    if not anywhere and not is_loopback(host):
        message = f"{host!r} is no address of loopback: use 127.0.0.1 or ::1; other hosts run a server of their own"
        raise InvalidRequest(message)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        message = f"port {port} of {host} is in use by another program: choose another one"
        raise OSError(error.errno, message) from None


def is_loopback(host: str) -> bool:
    """Whether that is an address of loopback; a name is none."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
