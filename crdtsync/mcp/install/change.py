"""A client's file of settings with our server in it, or without it; nothing else in it changes."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crdtsync.context.extras import need
from crdtsync.errors import InvalidRequest
from crdtsync.mcp.install import jsonc

NAME = "crdtsync"
BYTE_ORDER_MARK = "\ufeff"


def with_server(text: str, path: Path, section: str, entry: Mapping[str, Any]) -> str:
    """``text``, the content of ``path``, with the server under ``section``; equal if it is there already.

    Raises :class:`~crdtsync.errors.InvalidRequest` if the file does not hold what its name says.
    """
    try:
        if path.suffix == ".toml":
            tomlkit = need("tomlkit", "mcp")
            document = tomlkit.parse(text)
            servers = document.setdefault(section, tomlkit.table(is_super_table=True))
            if dict(servers.get(NAME, {})) != dict(entry):
                servers[NAME] = dict(entry)
            return _checked(text, str(tomlkit.dumps(document)), section)
        if not text.strip():
            return json.dumps({section: {NAME: dict(entry)}}, indent=2) + "\n"
        return jsonc.put_at(text, (section, NAME), dict(entry))
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidRequest(f"{path} cannot be changed: {error}; mend it, or add the server by hand") from error


def without_server(text: str, path: Path, section: str) -> str:
    """``text`` without the server, and without a section that would be empty then."""
    try:
        if path.suffix == ".toml":
            tomlkit = need("tomlkit", "mcp")
            document = tomlkit.parse(text)
            servers = document.get(section)
            if servers is None or NAME not in servers:
                return text
            del servers[NAME]
            if not servers:
                del document[section]
            whole = str(tomlkit.dumps(document)).rstrip("\n")
            return _checked(text, f"{whole}\n" if whole.strip() else "", section)
        return jsonc.take_at(text, (section, NAME)) if has_server(text, path, section) else text
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidRequest(f"{path} cannot be changed: {error}; mend it, or take the server out by hand") from error


def has_server(text: str, path: Path, section: str) -> bool:
    """Whether the server is there; False for what cannot be read."""
    try:
        if path.suffix == ".toml":
            return NAME in need("tomlkit", "mcp").parse(text).get(section, {})
        return jsonc.at(text, (section, NAME)) is not None
    except (ValueError, TypeError):
        return False


def _checked(before: str, after: str, section: str) -> str:
    """``after``, which says of all else what ``before`` said; ValueError if not, as among keys with dots."""
    if _others(before, section) != _others(after, section):
        raise ValueError(f"the lines of {section} would mean something else")
    return after


def _others(text: str, section: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What ``text`` says beside our server: all but the section, and the other servers in it."""
    whole = tomllib.loads(text)
    servers = whole.pop(section, {})
    servers.pop(NAME, None)
    return whole, servers


def in_its_lines(text: str, change: Callable[[str], str]) -> str:
    """``text`` as ``change`` has it; if all lines of it end in CRLF, they still do, and a byte order mark stays."""
    if text.startswith(BYTE_ORDER_MARK):
        after = in_its_lines(text.removeprefix(BYTE_ORDER_MARK), change)
        return after and BYTE_ORDER_MARK + after
    lines = text.replace("\r\n", "\n")
    if "\r\n" not in text or lines.count("\n") != text.count("\r\n"):
        return change(text)
    return change(lines).replace("\n", "\r\n")


def read(path: Path) -> str:
    """What the file holds; "" if there is none. Raises :class:`~crdtsync.errors.InvalidRequest` if that is no text, and
    OSError if it cannot be read.
    """
    if path.exists() and not path.is_file():  # a fifo would be waited for
        raise InvalidRequest(f"{path} is no file: mend it")
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} holds no text in UTF-8: mend it") from error


def write(path: Path, text: str) -> None:
    """Write the file whole or not at all; an empty one goes. Links stay links, and who may read it stays so."""
    path = path.resolve()
    if not text:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).chmod(mode)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
