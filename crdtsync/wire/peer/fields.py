"""The parts of which messages between peers are made, read with every bound checked.

Each function raises ValueError, or TypeError, for what no correct node could have sent.
"""

from __future__ import annotations

from typing import Any

from crdtsync.causality import SEQ_MAX, WRITER_MAX, Frontier, VersionVector, Writer
from crdtsync.wire.change import SHORT_HASH_BYTES
from crdtsync.wire.limits import CHANGE_DEPS_MAX, CLUSTER_SPACE, KEY_BYTES_MAX, NAME_CHARS_MAX, is_name, shown


def flat_frontier(frontier: Frontier) -> list[object]:
    """The flat form of a frontier: writer, number, short hash, and so on."""
    return [part for writer, (seq, short) in sorted(frontier.items()) for part in (writer, seq, short)]


def read_frontier(flat: list[Any]) -> Frontier:
    """A frontier in its flat form."""
    if len(flat) % 3 or len(flat) > 3 * CHANGE_DEPS_MAX:
        raise ValueError("frontier")
    return {
        Writer(read_count(flat[i], WRITER_MAX)): (read_count(flat[i + 1]), read_blob(flat[i + 2], SHORT_HASH_BYTES))
        for i in range(0, len(flat), 3)
    }


def read_vector(flat: list[Any]) -> VersionVector:
    """A version vector in its flat form."""
    if len(flat) % 2 or len(flat) > 2 * CHANGE_DEPS_MAX:
        raise ValueError("version vector")
    return {Writer(read_count(flat[i], WRITER_MAX)): read_count(flat[i + 1]) for i in range(0, len(flat), 2)}


def read_count(number: Any, highest: int = SEQ_MAX) -> int:
    """A count up to ``highest``."""
    if type(number) is not int or not 0 <= number <= highest:
        raise ValueError(f"{shown(number)} is not a count")
    return number


def read_text(text: Any) -> str:
    """A short string."""
    if type(text) is not str or not 1 <= len(text) <= NAME_CHARS_MAX:
        raise ValueError("not a short string")
    return text


def read_key(key: Any) -> str:
    """A key, or a pattern."""
    if type(key) is not str or not 1 <= len(key) <= KEY_BYTES_MAX:
        raise ValueError("not a key or pattern")
    return key


def read_name(name: Any) -> str:
    """A name of a node or space."""
    if not is_name(name):
        raise ValueError("not a name")
    return str(name)


def read_space(name: Any) -> str:
    """The name of a space; also the cluster's own."""
    return CLUSTER_SPACE if name == CLUSTER_SPACE else read_name(name)


def read_blob(data: Any, bytes_max: int) -> bytes:
    """Up to so many bytes."""
    if type(data) is not bytes or len(data) > bytes_max:
        raise ValueError("not bytes of an allowed length")
    return data
