"""Makes genuine messages worse: as bytes, as text, and as trees of msgpack, also those that travel inside as bytes."""

from __future__ import annotations

import binascii
import random
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgpack

FRAME_BYTES_MAX: Final = 300_000
PACK_DEPTH_MAX: Final = 200

Tree = Any  # what msgpack unpacks to

_INTS: Final = (
    0,
    1,
    2,
    -1,
    7,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    2**31,
    2**32 - 1,
    2**53 - 1,
    2**53,
    2**63 - 1,
    2**64 - 1,
    -(2**63),
)
_TEXTS: Final = (
    "",
    "default",
    "_cluster",
    "k",
    "a/b",
    "*",
    "..",
    "\0",
    "é",
    "😀" * 10,
    "x" * 129,
    "y" * 1025,
    "v1.",
    "c1.",
    "1.2.3",
    "?",
    "all",
    "majority",
)
_BLOBS: Final = (b"", b"\0", b"\xc0", b"\xc1", bytes(8), bytes(16), b"\x91" * 70, b"\xff" * 16, b"\xdd\xff\xff\xff\xff")
_FLOATS: Final = (0.0, -0.5, 1.5, float("nan"), float("inf"), 1e308)


class Mutator:
    """Makes a genuine message worse, at random."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.scraps: list[Tree] = []

    def learn(self, tree: Tree) -> None:
        """Remember the parts of a genuine message, to put them where they do not belong."""
        for part in _parts(tree):
            if len(self.scraps) < 2000:
                self.scraps.append(part)

    def tree(self, tree: Tree, edits: int) -> Tree:
        """A copy with some parts replaced, removed, repeated or moved."""
        for _ in range(edits):
            tree = self._edit(tree)
        return tree

    def _edit(self, tree: Tree) -> Tree:
        rng = self.rng
        if isinstance(tree, list) and tree and rng.random() < 0.85:
            at = rng.randrange(len(tree))
            copy = list(tree)
            match rng.randrange(12):
                case 0:
                    del copy[at]
                case 1:
                    copy.insert(at, self.scrap())
                case 2:
                    is_deep = isinstance(copy[at], list | dict)  # of which many, several times over, are too many
                    copy[at:at] = [copy[at]] * rng.choice((1, 2, 3) if is_deep else (1, 2, 10, 300))
                case 3:
                    other = rng.randrange(len(copy))
                    copy[at], copy[other] = copy[other], copy[at]
                case _:
                    copy[at] = self._edit(copy[at])
            return copy
        if isinstance(tree, dict) and tree and rng.random() < 0.85:
            name = rng.choice(list(tree))
            changed = dict(tree)
            match rng.randrange(8):
                case 0:
                    del changed[name]
                case 1:
                    changed[rng.choice(_TEXTS)] = self.scrap()
                case 2:
                    changed[
                        rng.choice(("seen", "strict", "w", "timeout", "again", "after", "if_version", "space", "n"))
                    ] = self.scrap()
                case _:
                    changed[name] = self._edit(tree[name])
            return changed
        return self._leaf(tree)

    def _leaf(self, leaf: Tree) -> Tree:
        rng = self.rng
        if rng.random() < 0.4:
            return self.scrap()
        if isinstance(leaf, bytes):
            inner = _unpacked(leaf)
            if inner is not None and rng.random() < 0.7:
                return packed(self._edit(inner))
            return self.octets(leaf)
        if isinstance(leaf, str):
            return self.text(leaf)
        if isinstance(leaf, bool):
            return not leaf
        if isinstance(leaf, int):
            return rng.choice((leaf + 1, leaf - 1, -leaf, leaf * 2, leaf ^ (1 << rng.randrange(62))))
        return self.scrap()

    def text(self, text: str) -> str:
        """A text with a part gone, or something nasty put in; also inside what it encodes."""
        rng = self.rng
        if text[:3] in ("c1.", "v1.") and rng.random() < 0.7:
            with suppress(ValueError, binascii.Error):
                inner = _unpacked(urlsafe_b64decode(text[3:] + "=" * (-len(text[3:]) % 4)))
                if inner is not None:
                    return text[:3] + urlsafe_b64encode(packed(self._edit(inner))).rstrip(b"=").decode()
        at = rng.randrange(len(text) + 1)
        return text[:at] + rng.choice(_TEXTS) + text[at + rng.randrange(3) :]

    def scrap(self) -> Tree:
        """A value that is nasty, or genuine and out of place."""
        rng = self.rng
        if self.scraps and rng.random() < 0.4:
            return rng.choice(self.scraps)
        return rng.choice((
            rng.choice(_INTS), rng.choice(_TEXTS), rng.choice(_BLOBS), rng.choice(_FLOATS), None, True, False, [], {},
            [[]], {"a": {}}, _nested(rng.choice((3, 64, 65, 150))), [rng.choice(_INTS)] * rng.choice((1, 3, 100, 5000)),
            {str(i): i for i in range(rng.choice((1, 20, 500)))}, msgpack.ExtType(rng.randrange(128), b"x"),
            rng.randbytes(rng.choice((1, 16, 300))),
        ))  # fmt: skip

    def octets(self, data: bytes) -> bytes:
        """The bytes with some flipped, cut, repeated or put in."""
        rng = self.rng
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(changed) + 1)
            match rng.randrange(6):
                case 0:
                    del changed[at : at + rng.choice((1, 2, 10))]
                case 1:
                    changed[at:at] = rng.randbytes(rng.choice((1, 4, 30)))
                case 2:
                    changed[at:at] = rng.choice(_BLOBS)
                case 3:
                    del changed[at:]
                case _:
                    if at < len(changed):
                        changed[at] = rng.choice((changed[at] ^ (1 << rng.randrange(8)), rng.randrange(256)))
        return bytes(changed)

    def message(self, tree: Tree) -> bytes:
        """A worse form of a whole message; sometimes none the worse."""
        edits = self.rng.choice((0, 1, 1, 1, 2, 3, 6))
        data = packed(self.tree(tree, edits))
        return self.octets(data) if self.rng.random() < 0.15 else data


def packed(tree: Tree) -> bytes:
    """As msgpack; what cannot be packed (too deep) becomes nil."""
    try:
        return bytes(msgpack.packb(tree, use_bin_type=True))[:FRAME_BYTES_MAX]
    except (ValueError, OverflowError, TypeError):
        return b"\xc0"


def _unpacked(data: bytes) -> Tree | None:
    try:
        tree = msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, msgpack.exceptions.UnpackException, TypeError):
        return None
    return tree if isinstance(tree, list | dict) else None


def _parts(tree: Tree) -> Iterator[Tree]:
    yield tree
    children: Any = tree if isinstance(tree, list) else tree.values() if isinstance(tree, dict) else ()
    for child in children:
        yield from _parts(child)


def _nested(depth: int) -> Tree:
    tree: Tree = None
    for _ in range(min(depth, PACK_DEPTH_MAX)):
        tree = [tree]
    return tree
