"""The live entries of one space: an observed-remove map without tombstones.

A put adds an entry under a new dot and removes the entries that its author had seen; a delete only removes. A
removed dot leaves nothing behind: a replica whose version vector covers a dot that it does not hold knows that it
is gone (ORSWOT: Bieniusa et al., 2012; delta CRDTs: Almeida et al., 2018). Nothing here looks at what kind a key
is.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from crdtsync.causality import Dot, hlc_ms
from crdtsync.wire.change import Order, RemoveRange
from crdtsync.wire.codec import pack

DIGEST_MODULUS = 1 << 128
DOTS_SEARCHED_MAX = 16
"""So few dots are searched one by one, faster than a set of them is made."""


class Entry:
    """One live value of a key. ``row`` is its number in the database."""

    __slots__ = ("agent", "attrs", "dot", "hlc", "key", "kind", "row", "sub", "value", "value_hash")

    def __init__(
        self,
        row: int,
        dot: Dot,
        key: str,
        sub: str | None,
        kind: int,
        hlc: int,
        agent: str,
        value: bytes | None,
        value_hash: bytes,
        attrs: dict[str, Any] | None,
    ) -> None:
        self.row = row
        self.dot = dot
        self.key = key
        self.sub = sub
        self.kind = kind
        self.hlc = hlc
        self.agent = agent
        self.value = value
        self.value_hash = value_hash
        self.attrs = attrs

    @property
    def order(self) -> Order:
        """Causal order among the entries of a key: an entry comes after all that its author had seen."""
        return (self.hlc, *self.dot)

    @property
    def digest(self) -> int:
        """128-bit hash of everything that replicas must agree on."""
        plain = pack([self.key, self.sub, self.kind, *self.dot, self.hlc, self.agent, self.value_hash, self.attrs])
        return int.from_bytes(blake2b(plain, digest_size=16).digest(), "big")

    def expires_ms(self) -> int | None:
        """When readers stop seeing the entry, in ms since 1970; None: never."""
        ttl = self.attrs.get("ttl") if self.attrs else None
        return hlc_ms(self.hlc) + ttl if isinstance(ttl, int) else None


def order_of(entry: Entry) -> Order:
    """Sort key for :func:`bisect.insort`."""
    return entry.order


class Entries:
    """Live entries by key, each key's in causal order, with an incremental digest of the whole.

    The digest is the sum of the entries' hashes modulo 2**128 (AdHash: Bellare and Micciancio, 1997): equal sets
    have equal digests, in whatever order they came about, and an update costs O(1). ``plural`` are the keys with
    several entries, ``mixed`` those whose entries are of several kinds.
    """

    def __init__(self) -> None:
        self._keys: dict[str, list[Entry]] = {}
        self._sorted: list[str] = []
        self._resort = False
        self._expiring: set[str] = set()
        self.plural: set[str] = set()
        self.mixed: set[str] = set()
        self.count = 0
        self.digest = 0

    def __len__(self) -> int:
        """How many keys have entries."""
        return len(self._keys)

    def add(self, entry: Entry) -> None:
        """Add an entry whose dot is new to this replica."""
        held = self._keys.get(entry.key)
        if held is None:
            self._keys[entry.key] = [entry]
            self._resort = True
        else:
            self._add_beside(held, entry)
        if entry.attrs is not None and "ttl" in entry.attrs:
            self._expiring.add(entry.key)
        self.count += 1
        self.digest = (self.digest + entry.digest) % DIGEST_MODULUS

    def _add_beside(self, held: list[Entry], entry: Entry) -> None:
        self.plural.add(entry.key)
        if held[-1].kind != entry.kind:
            self.mixed.add(entry.key)
        if held[-1].order < entry.order:
            held.append(entry)
        else:
            insort(held, entry, key=order_of)

    def remove(self, key: str, removes: tuple[Dot, ...] | RemoveRange) -> list[Entry]:
        """Remove those entries of ``key`` that ``removes`` names, and return them. What is already gone stays gone."""
        held = self._keys.get(key)
        if not held or not removes:
            return []
        gone = covered_by(held, removes)
        if not gone:
            return []
        dots = {entry.dot for entry in gone}
        left = [entry for entry in held if entry.dot not in dots] if len(gone) < len(held) else []
        if left:
            self._keys[key] = left
        else:
            del self._keys[key]
        if key in self.plural:
            self._recheck(key, left)
        self.count -= len(gone)
        self.digest = (self.digest - sum(entry.digest for entry in gone)) % DIGEST_MODULUS
        return gone

    def _recheck(self, key: str, left: list[Entry]) -> None:
        if len(left) < 2:
            self.plural.discard(key)
        if key in self.mixed and len({entry.kind for entry in left}) < 2:
            self.mixed.discard(key)

    def held(self, key: str) -> list[Entry]:
        """All entries of ``key`` in causal order, expired ones included. Not to be changed."""
        return self._keys.get(key, [])

    def live(self, key: str, now_ms: int) -> list[Entry]:
        """The entries of ``key`` that a reader sees now, in causal order. Not to be changed."""
        held = self._keys.get(key, [])
        if key not in self._expiring:
            return held
        if not any(entry.attrs for entry in held):
            self._expiring.discard(key)
        return [e for e in held if (expires := e.expires_ms()) is None or expires > now_ms]

    def keys(self, prefix: str = "", start: str = "") -> Iterator[str]:
        """Keys that begin with ``prefix`` and sort after ``start``, in order of code points."""
        if self._resort:
            self._sorted = sorted(self._keys)
            self._resort = False
        at = bisect_left(self._sorted, max(prefix, start + "\0" if start else ""))
        while at < len(self._sorted):
            key = self._sorted[at]
            if not key.startswith(prefix):
                return
            if key in self._keys:
                yield key
            at += 1


def covered_by(held: Iterable[Entry], removes: tuple[Dot, ...] | RemoveRange) -> list[Entry]:
    """Those of ``held`` that ``removes`` names."""
    if not isinstance(removes, RemoveRange):
        dots = removes if len(removes) <= DOTS_SEARCHED_MAX else frozenset(removes)
        return [entry for entry in held if entry.dot in dots]
    vector, bound = removes
    return [
        entry
        for entry in held
        if entry.dot.seq <= vector.get(entry.dot.writer, 0) and (bound is None or entry.order <= bound)
    ]
