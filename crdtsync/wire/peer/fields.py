"""The fields of messages between peers: what each may hold, and how it is read with that bound checked.

For example, an epoch is declared as ``epoch: Epoch``. To the code, an ``Epoch`` is a plain ``int``. Its form,
``Number("epoch", SEQ_MAX)``, reads it with its bound checked, which is what protects the node. The reference page
prints the bound, and tests and fuzzers make values from it. A message is read and written by the forms of its fields
(:mod:`crdtsync.wire.peer.layout`).

Each reader raises ValueError, or TypeError, for what no correct node could have sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from crdtsync.causality import SEQ_MAX, WRITER_MAX, Dot, Frontier, VersionVector, Writer, flatten
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.change import SHORT_HASH_BYTES
from crdtsync.wire.limits import CHANGE_DEPS_MAX, CLUSTER_SPACE, KEY_BYTES_MAX, NAME_CHARS_MAX, is_name
from crdtsync.wire.parts import read_blob, read_count, read_text, read_vector

HASH_FIELD_BYTES_MAX = 64
"""Bytes of a hash, or an id, whose length is for the sender's version to choose."""


class Number(NamedTuple):
    """The form of an integer from 0 to ``highest``."""

    name: str
    highest: int

    def read(self, plain: Any) -> int:
        """Such an integer."""
        return read_count(plain, self.highest)


class Octets(NamedTuple):
    """The form of so many bytes."""

    name: str
    most: int
    least: int = 0

    def read(self, plain: Any) -> bytes:
        """Such bytes."""
        return read_blob(plain, self.most, self.least)


class Words(NamedTuple):
    """The form of a string: its ``rule`` for people, and the same as a regular expression and as a function."""

    name: str
    rule: str
    pattern: str
    read: Callable[[Any], str]


class Flat(NamedTuple):
    """The form of what is flattened into one array: what stands in it, and both ways."""

    name: str
    record: str
    write: Callable[[Any], object]
    read: Callable[[Any], Any]


class Several(NamedTuple):
    """How many items a list or map of other forms may have."""

    most: int
    least: int = 0


Form = Number | Octets | Words | Flat


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


def _flat_entry(entry: tuple[str, Dot]) -> list[object]:
    key, dot = entry
    return [key, *dot]


def _read_entry(flat: list[Any]) -> tuple[str, Dot]:
    key, writer, seq, n = flat[:4]
    return read_key(key), Dot(Writer(read_count(writer, WRITER_MAX)), read_count(seq), read_count(n))


NAME_PATTERN = rf"[a-z0-9][a-z0-9._-]{{0,{NAME_CHARS_MAX - 1}}}"
_SHORT, _SHORT_PATTERN = f"1 to {NAME_CHARS_MAX} characters", f"(?s:.){{1,{NAME_CHARS_MAX}}}"

Count = Annotated[int, Number("count", SEQ_MAX)]
Epoch = Annotated[int, Number("epoch", SEQ_MAX)]
WriterId = Annotated[Writer, Number("writer", WRITER_MAX)]
NodeId = Annotated[str, Words("node id", _SHORT, _SHORT_PATTERN, read_text)]
Text = Annotated[str, Words("short string", _SHORT, _SHORT_PATTERN, read_text)]
Name = Annotated[
    str,
    Words("name", f"1 to {NAME_CHARS_MAX} of ``a-z 0-9 . _ -``, the first a letter or digit", NAME_PATTERN, read_name),
]
SpaceName = Annotated[
    str,
    Words(
        "space name",
        f"a name; ``{CLUSTER_SPACE}``: the cluster's own records",
        f"{CLUSTER_SPACE}|{NAME_PATTERN}",
        read_space,
    ),
]
KeyText = Annotated[
    str, Words("key", f"a key or pattern: 1 to {KEY_BYTES_MAX:,} characters", f"(?s:.){{1,{KEY_BYTES_MAX}}}", read_key)
]
Hash = Annotated[bytes, Octets("hash", HASH_FIELD_BYTES_MAX)]
ShortHash = Annotated[bytes, Octets("short hash", SHORT_HASH_BYTES)]
FlatVector = Annotated[
    VersionVector,
    Flat(
        "version vector",
        f"one array of writer, seq, …, of up to {CHANGE_DEPS_MAX:,} writers, sorted",
        flatten,
        read_vector,
    ),
]
FlatFrontier = Annotated[
    Frontier,
    Flat(
        "frontier",
        f"one array of writer, seq, short hash, …, of up to {CHANGE_DEPS_MAX:,} writers, sorted",
        flat_frontier,
        read_frontier,
    ),
]
FlatEntry = Annotated[
    tuple[str, Dot],
    Flat("entry", "key, writer, seq, n: a key, and the dot of one of its values", _flat_entry, _read_entry),
]
