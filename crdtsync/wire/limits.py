"""Every bound of the protocol, in one place.

All nodes must agree on these: a change within them is valid everywhere.
"""

from __future__ import annotations

import re
from functools import lru_cache

from crdtsync.errors import InvalidRequest, TooLarge

PROTOCOL_VERSION = 1

KEY_BYTES_MAX = 1024
"""Bytes of a key, in UTF-8."""
NAME_CHARS_MAX = 128
"""Characters of the name of a space, an agent or a node."""
NAME_RULE = f"use 1 to {NAME_CHARS_MAX} of a-z 0-9 . _ - and start with a letter or digit"
AGENT_NAME_RULE = f"use 1 to {NAME_CHARS_MAX} printable characters, without spaces at either end"
VALUE_BYTES_MAX = 1024 * 1024
"""Bytes of a value."""
TTL_MS_MAX = 1 << 48
TEXT_BYTES_MAX = 3840 * 1024
"""In UTF-8, of a text after an edit that makes it longer, as the author's node has it; merging refuses nothing.
One change can make all of it anew, as compacting does, and it fits into an event.
"""
WORK_PARTS_MAX = 1300
"""Parts that the edits of texts in one request may come to: these are one change, which is judged and applied in one
turn.
"""
EDIT_PARTS = 19
"""As so many parts counts each edit after the first, however small it is."""
MOVED_BYTES_A_PART = 75_000
"""So much of strings that the edits cut in two, each as often as it is cut, count as one more: the Yjs library takes
0.5 ms a million.
"""
MOVES_A_SCAN = 40
"""So much of a string is moved, where it is cut in two, in the time in which one looks for a place in it."""
VALUE_DEPTH_MAX = 64
"""How deep lists and maps of a value may be nested."""
VALUE_CONTAINERS_MAX = 65_536
"""Lists and maps in a value that an agent writes. A value that a merge brings may hold more: versions before this
one let as many be as fit.
"""
REQUEST_PARTS_MAX = 1_048_576
"""Parts of the values that one request brings: each thing in their lists and maps counts as one part, and each
list or map as 8 more. Values that merges bring may have more, as above.
"""
CHANGE_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of a change."""
CHANGE_OPS_MAX = 1000
"""Operations of a change, so of a batch."""
KEY_SIBLINGS_MAX = 16
"""After a local write, of a register or of a field of a map; merging drops nothing. Versions before this one let 64
be, so a key that two versions write may hold more, until a node of this version writes it.
"""
NAMED_DOTS_MAX = 64
"""Dots of one key that a version or a removal names one by one; beyond that a vector stands for them."""
CHANGE_DEPS_MAX = 100_000
"""Writers in the deps of a change."""
IDEMPOTENCY_BYTES_MAX = 64

REQUEST_ITEMS_MAX = 65_536
"""Items of all arrays and maps of one request. Values travel as bytes and are not counted."""
MESSAGE_ITEMS_MAX = 400_000
"""Items of all arrays and maps of a message between peers: what a hello of 120,000 writers takes, and a tenth more."""
CHANGE_ITEMS_MAX = 1_000_000
"""Items of all arrays and maps of a change. All nodes must agree on this one: a change within it is valid
everywhere."""
SHOWN_CHARS_MAX = 80
NAMES_REMEMBERED_MAX = 1024
"""How many names are known to be valid or not without another look."""

CLUSTER_SPACE = "_cluster"
"""The one reserved space: the cluster's own records, on every node and out of reach for agents."""

AGENT_FRAME_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of a frame of an agent."""
PEER_FRAME_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of a message of a peer."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_EPOCH = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def shown(value: object) -> str:
    """Show something sent, in an error message: short, whatever it is. Hostile nesting makes ``repr`` itself fail."""
    if isinstance(value, str | bytes):
        return repr(value[:SHOWN_CHARS_MAX])
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"a {'map' if isinstance(value, dict) else type(value).__name__}"


def key_fault(key: object) -> str | None:
    """The fault of ``key``, as the end of a sentence; None if it is a valid key."""
    if type(key) is not str:
        return "must be a string"
    if not key:
        return "must not be empty"
    if key.isascii():
        if len(key) <= KEY_BYTES_MAX and key.isprintable():
            return None
    elif _not_utf8(key):
        return "is not valid Unicode"
    if len(key.encode()) > KEY_BYTES_MAX:
        return f"is longer than {KEY_BYTES_MAX:,} bytes of UTF-8"
    return "contains a control character" if _CONTROL.search(key) else None


def _not_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def check_key(key: object) -> str:
    """``key`` if a user may write it, else an error that says why not."""
    fault = key_fault(key)
    if fault is not None:
        raise InvalidRequest(f"the key {shown(key)} {fault}")
    assert isinstance(key, str)
    if key[0] == "_":
        raise InvalidRequest(f"the key {shown(key)} is reserved: a first part that starts with '_' belongs to crdtsync")
    return key


def check_prefix(prefix: object) -> str:
    """``prefix`` if it can be what keys begin with, else an error.

    A pattern is none, though keys could begin so: whoever asks for ``plan/**`` means what is below ``plan/``, and would
    be shown nothing.
    """
    if type(prefix) is not str:
        raise InvalidRequest("prefix must be a string")
    parts = prefix.split("/") if "*" in prefix else ()
    for at, part in enumerate(parts):
        if part in ("*", "**"):
            literal = "".join(f"{one}/" for one in parts[:at])
            instead = f"give {shown(literal)}" if literal else "leave it out"
            raise InvalidRequest(
                f"{shown(prefix)} is a pattern, and here the beginning of keys is meant, without wildcards: {instead}"
            )
    return prefix


def is_name(name: object) -> bool:
    """Whether ``name`` can name a space, an agent or a node."""
    return isinstance(name, str) and len(name) <= NAME_CHARS_MAX and _fits(name)


@lru_cache(NAMES_REMEMBERED_MAX)
def _fits(name: str) -> bool:
    """Remembered of the names seen last: those of agents and spaces come with every request."""
    return _NAME.fullmatch(name) is not None


def is_agent_name(name: object) -> bool:
    """Whether ``name`` can name an agent: one line, such as ``Research Lead`` or ``crew:writer`` of frameworks."""
    return isinstance(name, str) and 1 <= len(name) <= NAME_CHARS_MAX and (_fits(name) or _reads_well(name))


@lru_cache(NAMES_REMEMBERED_MAX)
def _reads_well(name: str) -> bool:
    return name.isprintable() and name.strip() == name


def check_agent_name(name: object) -> str:
    """``name`` if it can name an agent, else an error that says what is allowed."""
    if not is_agent_name(name):
        raise InvalidRequest(f"{shown(name)} cannot name an agent: {AGENT_NAME_RULE}")
    assert isinstance(name, str)
    return name


def archive_of(name: object) -> tuple[str, int] | None:
    """Space and epoch that ``name`` names an archive of, as ``team@3`` does; None if it names none."""
    space, sign, epoch = name.partition("@") if isinstance(name, str) else ("", "", "")
    return (space, int(epoch)) if sign and is_name(space) and _EPOCH.fullmatch(epoch) else None


def is_space_name(name: object) -> bool:
    """Whether ``name`` can be that of a space, or of an archive of one."""
    return is_name(name) or archive_of(name) is not None


def check_name(name: object, what: str) -> str:
    """``name`` if it can name a ``what``, else an error that says what is allowed."""
    if not is_name(name):
        raise InvalidRequest(f"{shown(name)} cannot name {what}: {NAME_RULE}")
    assert isinstance(name, str)
    return name


def check_value_size(size_bytes: int) -> None:
    """Refuse a value over the limit."""
    if size_bytes > VALUE_BYTES_MAX:
        raise TooLarge(
            f"the value has {size_bytes:,} bytes; at most {VALUE_BYTES_MAX:,} fit into one key: "
            "store it in parts, or as a blob (Client.put_blob, crdtsync blob put)"
        )
