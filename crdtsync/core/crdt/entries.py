"""The live entries of one space: an observed-remove map without tombstones.

Ann sets ``k``: the entry 1.1.0. Bob, who has read that, sets it: the entry 2.1.0, and the write names 1.1.0 as seen. A
replica that gets Bob's change removes 1.1.0 and adds 2.1.0. If Ann's host is asked later whether it lacks 1.1.0, it
does not need to have kept a note of it: its version vector covers 1.1.0, and it holds no such entry, so the entry is
gone.

The rules: a put adds an entry under a new dot and removes the entries that its author had seen; a delete only removes;
a removed dot leaves nothing behind (ORSWOT: Bieniusa et al., 2012; delta CRDTs: Almeida et al., 2018). Nothing here
looks at what kind a key is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

from crdtsync.causality import Dot, VersionVector
from crdtsync.core.crdt.entry import Entry, order_of
from crdtsync.core.crdt.expiry import Expiry
from crdtsync.core.crdt.key_entries import KeyEntries, S, covered_by, insert, summary_of
from crdtsync.core.crdt.read_policies import Policy, newest_wins
from crdtsync.core.crdt.sliding import KEPT_PREFIX, kept_by, slides
from crdtsync.wire.change import RemoveRange

DIGEST_MODULUS = 1 << 128
SMALL_ENTRIES_MAX = 64
"""So many entries of a key are kept in a plain list and searched one by one: most keys have one."""
LAST_CHAR = "\U0010ffff"
NEW_KEYS_MAX = 256
"""So many new keys are inserted into the order of keys one by one; beyond that it is made anew."""
UNHASHED_ENTRIES_MAX = 1024
"""So many entries are not part of the digest before somebody asks for it: hashing one takes some µs."""
ADDED_SINGLY_MAX = 16
"""So many entries that come at once are added to a key one by one; with more its order is made anew."""
STALE_KEYS_MAX = 1000
"""How many keys that are gone may stand in the order of keys, beside as many as are alive."""
REMOVED_AT_ONCE_MAX = 1000
"""If so many entries go at once, their digests are taken off the sum at once; if more, in slices, or when asked for."""
REMOVED_SHARE = 8
"""If more than one in so many go of a key, those that are left are put together anew, which looks at all of them."""
SUMMED_AT_ONCE_MAX = 10_000
"""The digests of so many entries are summed up while they are loaded; those of more in slices, or when asked for."""


class IncomingEntries:
    """Entries on their way into a replica: by key those that last, and ``others``, which may expire."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.lasting: dict[str, list[Entry]] = {}
        self.others: list[Entry] = []
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Add one."""
        if entry.attrs is None:
            self.lasting.setdefault(entry.key, []).append(entry)
        else:
            self.others.append(entry)


class Entries:
    """Live entries by key, each key's in causal order, with an incremental digest of the whole.

    The digest is the sum of the entries' hashes modulo 2**128 (AdHash: Bellare and Micciancio, 1997): equal sets
    have equal digests, in whatever order they came about, and an update costs O(1). ``keys_with_several`` have
    several entries, ``keys_of_mixed_kinds`` entries of several kinds, ``keys_all_hidden`` hidden entries alone;
    ``unjudged`` have or had several, and have changed since somebody took them out of it.
    ``policy_of`` tells a key's read policy to those who show it.
    """

    __slots__ = (
        "_departed", "_digest", "_expiring", "_keys", "_large", "_new", "_resort", "_sorted", "_unhashed",
        "_unsubtracted", "_unsummed", "count", "expiry", "keys_all_hidden", "keys_of_mixed_kinds",
        "keys_with_several", "policy_of", "unjudged",
    )  # fmt: skip

    def __init__(self) -> None:
        self.policy_of: Callable[[str], Policy] = newest_wins
        self._keys: dict[str, Entry | list[Entry]] = {}  # a list of one would take 72 bytes of each key
        self._large: dict[str, KeyEntries] = {}
        self._sorted: list[str] = []
        self._resort = False
        self._new: list[str] = []  # keys that may be missing from `_sorted`; it may hold some that are gone
        self._expiring: dict[str, int] = {}  # for each key with a time to live: when the first of its entries expires
        self.expiry = Expiry()
        self.keys_all_hidden: set[str] = set()
        self.keys_with_several: set[str] = set()
        self.unjudged: set[str] = set()
        self.keys_of_mixed_kinds: set[str] = set()
        self.count = 0
        self._digest = 0
        self._unsummed: list[Entry] = []  # loaded, and not in `_digest` yet, though some may have been removed since
        self._unsubtracted: list[Entry] = []  # removed, and still in `_digest`
        self._departed: list[KeyEntries] = []  # of which all or most went, which nobody asks any more; see `sum_up`
        self._unhashed: OrderedDict[Entry, bool] = OrderedDict()  # live ones that came since and `_digest` lacks

    def __len__(self) -> int:
        """How many keys have entries."""
        return len(self._keys)

    @property
    def digest(self) -> int:
        """The digest of the whole: see the class."""
        if not self.is_summed:
            self.sum_up(len(self._unsummed) + len(self._unsubtracted))
        if self._unhashed:
            self._digest = (self._digest + sum([entry.digest for entry in self._unhashed])) % DIGEST_MODULUS
            self._unhashed.clear()
        return self._digest

    @property
    def is_summed(self) -> bool:
        """Whether the digest is known without working it out: of many that were loaded it takes seconds, of many that
        were removed a tenth of one.
        """
        return not self._unsummed and not self._unsubtracted

    @property
    def key_count(self) -> int:
        """How many keys hold entries."""
        return len(self._keys)

    def sum_up(self, count_max: int) -> None:
        """Work on the digest, by so many of the entries that were loaded, or of those that were removed."""
        some, gone = self._unsummed[-count_max:], self._unsubtracted[-count_max:]
        if some:
            del self._unsummed[-count_max:]
            self._digest = (self._digest + sum([entry.digest for entry in some])) % DIGEST_MODULUS
        if gone and len(some) < count_max:
            del self._unsubtracted[-count_max:]
            self._digest = (self._digest - sum([entry.digest for entry in gone])) % DIGEST_MODULUS
            for departed in self._departed[-1:]:
                departed.let_go(count_max)
                if not departed.by_dot:
                    self._departed.pop()
            if not self._unsubtracted:
                self._departed.clear()

    def load(self, stored: list[Entry], digest: int | None = None) -> None:
        """Add everything that a replica holds on disk to one that is empty; ``digest``: of all that, if known."""
        keys, others = self._keys, []
        for entry in stored:
            if entry.attrs is None and entry.key not in keys:
                keys[entry.key] = entry
            else:
                others.append(entry)
        self._resort = True
        self.count = len(stored) - len(others)
        for entry in others:
            self.put(entry)
        if digest is not None:
            self._digest = digest
            return
        self._unsummed = stored
        if len(stored) <= SUMMED_AT_ONCE_MAX:
            self.sum_up(SUMMED_AT_ONCE_MAX)

    def add(self, entry: Entry) -> None:
        """Add an entry whose dot is new to this replica."""
        self._hash_later(entry)
        self.put(entry)

    def put(self, entry: Entry) -> None:
        """The same, and the digest is the caller's."""
        held = self._keys.get(entry.key)
        if held is None:
            self._keys[entry.key] = entry
            self._note_new(entry.key)
        else:
            if isinstance(held, Entry):
                held = self._keys[entry.key] = [held]
            self._add_beside(held, entry)
        if self.keys_all_hidden:
            self.keys_all_hidden.discard(entry.key)
        if entry.attrs is not None and entry.expires_ms() is not None:
            self._add_expiring(entry)
        self.count += 1

    def _add_expiring(self, entry: Entry) -> None:
        kept = kept_by(entry)
        if kept is not None:
            until_ms = entry.expires_ms() or 0
            for other in self.held(kept):
                self._keep(other, until_ms)
        elif slides(entry):
            entry.kept_ms = max((one.expires_ms() or 0 for one in self.held(KEPT_PREFIX + entry.key)), default=0)
        expires_ms = entry.expires_ms()
        assert expires_ms is not None
        self.expiry.add(entry, expires_ms)
        self._expiring[entry.key] = min(expires_ms, self._expiring.get(entry.key, expires_ms))

    def _keep(self, entry: Entry, until_ms: int) -> None:
        """Somebody has read the key of an entry."""
        expires_ms = entry.expires_ms()
        if slides(entry) and expires_ms is not None and expires_ms < until_ms:
            entry.kept_ms = until_ms
            self.expiry.put_off(entry, until_ms)

    def _add_beside(self, held: list[Entry], entry: Entry) -> None:
        self.keys_with_several.add(entry.key)
        self.unjudged.add(entry.key)
        if held[-1].kind != entry.kind:
            self.keys_of_mixed_kinds.add(entry.key)
        large = self._large.get(entry.key)
        if large is not None:
            large.add(entry)
            return
        insert(held, entry)
        if len(held) > SMALL_ENTRIES_MAX:
            self._large[entry.key] = KeyEntries(held)

    def remove(self, key: str, removes: tuple[Dot, ...] | RemoveRange) -> list[Entry]:
        """Remove those entries of ``key`` that ``removes`` names, and return them. Entries that are already gone stay
        gone.
        """
        gone = self._take_out(key, removes)
        if len(gone) > REMOVED_AT_ONCE_MAX:
            fresh = {entry for entry in self._unhashed if entry.key == key}
            for entry in fresh.intersection(gone) if key in self._keys else fresh:
                del self._unhashed[entry]
                self._digest += entry.digest
            self._unsubtracted += gone
        else:
            for entry in gone:
                self._unhash(entry)
        return gone

    def _take_out(self, key: str, removes: tuple[Dot, ...] | RemoveRange) -> list[Entry]:
        """The same, and the digest is the caller's."""
        held = self.held(key)
        if not held or not removes:
            return []
        large = self._large.get(key)
        gone = covered_by(held, removes) if large is None else large.covered(removes)
        if not gone:
            return []
        if len(gone) == len(held):
            self._forget(key)
            left = []
        elif large is not None:
            if len(gone) > max(REMOVED_AT_ONCE_MAX, len(held) // REMOVED_SHARE):
                self._departed.append(large)
                large = self._large[key] = large.without(gone)
            else:
                large.remove(gone)
            left = large.entries
            self._keys[key] = left if len(left) > 1 else left[0]
            if len(left) <= SMALL_ENTRIES_MAX // 2:
                del self._large[key]
        else:
            dots = {entry.dot for entry in gone}
            left = [entry for entry in held if entry.dot not in dots]
            self._keys[key] = left if len(left) > 1 else left[0]
        if key in self.keys_with_several:
            self._recheck(key, left)
        if key in self._expiring:
            self._recheck_expiry(key, left, gone)
        self.count -= len(gone)
        return gone

    def put_in_place(self, gone: Entry, entry: Entry) -> None:
        """Remove the only entry of a key and add one of the same kind; neither of them has attributes."""
        self._keys[entry.key] = entry
        self._unhash(gone)
        self._hash_later(entry)

    def _hash_later(self, entry: Entry) -> None:
        """Most entries of keys that are written often go before anybody asks for the digest."""
        self._unhashed[entry] = True
        if len(self._unhashed) > UNHASHED_ENTRIES_MAX:
            oldest, _ = self._unhashed.popitem(last=False)  # of a dict it would take longer for each one gone before
            self._digest = (self._digest + oldest.digest) % DIGEST_MODULUS

    def _unhash(self, entry: Entry) -> None:
        if not self._unhashed.pop(entry, False):
            self._digest = (self._digest - entry.digest) % DIGEST_MODULUS

    def _forget(self, key: str) -> None:
        """Drop a key whose last entry goes, with all that is remembered of it."""
        del self._keys[key]
        large = self._large.pop(key, None)
        if large is not None and len(large.entries) > REMOVED_AT_ONCE_MAX:
            self._departed.append(large)
        if len(self._sorted) > 2 * len(self._keys) + STALE_KEYS_MAX:
            self._sorted = []
            self._resort = True

    def _recheck(self, key: str, left: list[Entry]) -> None:
        self.unjudged.add(key)
        if len(left) < 2:
            self.keys_with_several.discard(key)
        if key in self.keys_of_mixed_kinds:
            large = self._large.get(key)
            kinds = {entry.kind for entry in left} if large is None else large.kinds
            if len(kinds) < 2:
                self.keys_of_mixed_kinds.discard(key)

    def _recheck_expiry(self, key: str, left: list[Entry], gone: list[Entry]) -> None:
        lasting = True
        for entry in gone:
            if entry.attrs:
                lasting = False
                self.expiry.discard(entry)
        if not lasting:
            times = [expires_ms for entry in left if (expires_ms := entry.expires_ms()) is not None]
            if times:
                self._expiring[key] = min(times)
            else:
                del self._expiring[key]
        self._recheck_absent(key, left)

    def _recheck_absent(self, key: str, held: list[Entry]) -> None:
        if held and all(entry.hidden for entry in held):
            self.keys_all_hidden.add(key)
        else:
            self.keys_all_hidden.discard(key)

    def expire(self, now_ms: int, count_max: int | None = None) -> list[Entry]:
        """Hide what has expired since the last call; returns these entries, ``count_max`` at most if given."""
        hidden = self.expiry.take_due(now_ms, len(self.expiry) if count_max is None else count_max)
        for entry in hidden:
            self._recheck_absent(entry.key, self.held(entry.key))
        return hidden

    def unexpire(self, now_ms: int) -> list[Entry]:
        """Show again what is hidden, if the clock has been set back or its time put off; returns these entries."""
        back = self.expiry.take_back(now_ms)
        self.keys_all_hidden.difference_update(entry.key for entry in back)
        return back

    def exchange(self, gone: Iterable[Entry], come: IncomingEntries, digest: int, whole: int | None = None) -> None:
        """Remove entries that are held, and add others, many at once; ``digest``: the sum of the others' digests.

        ``whole``: what all that is then held adds up to, where that is known: what goes is not hashed for it.
        """
        self._take_out_all(gone, is_hashed=whole is None)
        fresh, others = come.lasting, come.others
        if not self._keys.keys().isdisjoint(fresh):
            fresh, others = {}, [*others]
            for key, entries in come.lasting.items():
                if key not in self._keys:
                    fresh[key] = entries
                elif len(entries) > ADDED_SINGLY_MAX:
                    held = self.held(key)
                    fresh[key] = [*held, *entries]
                    self.count -= len(held)
                else:
                    others += entries
        for key, entries in fresh.items():
            if len(entries) > 1:
                self._settle(key, entries)
        self._keys.update((key, entries if len(entries) > 1 else entries[0]) for key, entries in fresh.items())
        self.keys_all_hidden.difference_update(fresh)
        self._resort = True
        self.count += sum(map(len, fresh.values()))
        if whole is None:
            self._digest = (self._digest + digest) % DIGEST_MODULUS
        else:
            self._digest, self._unsummed, self._unsubtracted = whole % DIGEST_MODULUS, [], []
            self._departed.clear()
            self._unhashed.clear()
        for entry in others:
            self.put(entry)

    def _take_out_all(self, gone: Iterable[Entry], *, is_hashed: bool) -> None:
        keys, by_key = self._keys, dict[str, list[Dot]]()
        for entry in gone:
            key = entry.key
            if is_hashed or type(keys[key]) is list or key in self._expiring:
                by_key.setdefault(key, []).append(entry.dot)
            else:
                del keys[key]
                self.count -= 1
        for key, dots in by_key.items():
            if is_hashed:
                self.remove(key, tuple(dots))
            else:
                self._take_out(key, tuple(dots))

    def _settle(self, key: str, entries: list[Entry]) -> None:
        """Note what is to be known of a key that comes with several entries at once."""
        entries.sort(key=order_of)
        self.keys_with_several.add(key)
        self.unjudged.add(key)
        if len({entry.kind for entry in entries}) > 1:
            self.keys_of_mixed_kinds.add(key)
        if len(entries) > SMALL_ENTRIES_MAX:
            self._large[key] = KeyEntries(entries)

    def all(self) -> Iterator[Entry]:
        """Every entry, in no order that means anything."""
        for held in self._keys.values():
            if isinstance(held, Entry):
                yield held
            else:
                yield from held

    def held(self, key: str) -> list[Entry]:
        """All entries of ``key`` in causal order, expired ones included. Not to be changed."""
        held = self._keys.get(key)
        if held is None:
            return []
        return [held] if isinstance(held, Entry) else held

    def live(self, key: str, now_ms: int) -> list[Entry]:
        """The entries of ``key`` that a reader sees now, in causal order. Not to be changed."""
        held = self.held(key)
        if now_ms < self._expiring.get(key, now_ms + 1):
            return held
        return [entry for entry in held if not entry.is_expired(now_ms)]

    def reach(self, key: str) -> VersionVector | None:
        """The highest ``seq`` of each writer among the entries of ``key``; None: it has so few that one may look."""
        large = self._large.get(key)
        return None if large is None else large.reach

    def may_hold(self, key: str, kind: int) -> bool:
        """Whether entries of this kind are held, or so few that one may look."""
        large = self._large.get(key)
        return large is None or kind in large.kinds

    def holds(self, entry: Entry) -> bool:
        """Whether this very entry is held."""
        large = self._large.get(entry.key)
        if large is not None:
            return entry.dot in large.by_dot
        return any(held is entry for held in self.held(entry.key))

    def holds_dot(self, key: str, dot: Dot) -> bool:
        """Whether an entry of this name is held."""
        large = self._large.get(key)
        return dot in large.by_dot if large is not None else any(held.dot == dot for held in self.held(key))

    def find(self, key: str, dot: Dot) -> Entry | None:
        """The held entry of ``key`` with this dot."""
        large = self._large.get(key)
        if large is not None:
            return large.by_dot.get(dot)
        return next((entry for entry in self.held(key) if entry.dot == dot), None)

    def of_sub(self, key: str, sub: str) -> Sequence[Entry]:
        """Those of the held entries that have this ``sub``."""
        large = self._large.get(key)
        if large is not None:
            return large.by_sub.get(sub, ())
        return [entry for entry in self.held(key) if entry.sub == sub]

    def subs(self, key: str) -> int:
        """How many different ones the held entries have."""
        large = self._large.get(key)
        if large is not None:
            return len(large.by_sub)
        return len({entry.sub for entry in self.held(key) if entry.sub is not None})

    def summary(self, key: str, make: Callable[[], S]) -> S:
        """The result of ``make`` over all held entries of ``key``. Not to be changed."""
        large = self._large.get(key)
        return summary_of(make, self.held(key)) if large is None else large.summary(make)

    def copy_of(self, key: str) -> KeyEntries:
        """The held entries of ``key``, to be changed on their own."""
        large = self._large.get(key)
        return KeyEntries(self.held(key).copy()) if large is None else large.copy()

    def is_expiring(self, key: str) -> bool:
        """Whether readers may not see all of the held entries of ``key``, now or later."""
        return key in self._expiring

    def keys(
        self, prefix: str = "", start: str = "", *, hidden: bool = False, is_reversed: bool = False
    ) -> Iterator[str]:
        """Keys that readers see, begin with ``prefix`` and sort after ``start``, in order of code points; ``hidden``:
        also those of which all has expired. ``is_reversed``: those that sort before ``start``, from the last on.
        """
        self._sort()
        if is_reversed:
            at, step = self._end(prefix), -1
            at = (min(at, bisect_left(self._sorted, start)) if start else at) - 1
        else:
            at, step = bisect_left(self._sorted, max(prefix, start + "\0" if start else "")), 1
        while 0 <= at < len(self._sorted):
            key = self._sorted[at]
            if not key.startswith(prefix):
                return
            if key in self._keys and (hidden or key not in self.keys_all_hidden):
                yield key
            at += step

    def _end(self, prefix: str) -> int:
        """Where in the order of keys those that begin with ``prefix`` have ended."""
        last = prefix.rstrip(LAST_CHAR)
        return bisect_left(self._sorted, last[:-1] + chr(ord(last[-1]) + 1)) if last else len(self._sorted)

    def _note_new(self, key: str) -> None:
        if len(self._new) < NEW_KEYS_MAX:
            self._new.append(key)
        else:
            self._resort = True

    def _sort(self) -> None:
        """Bring the order of keys up to date: what reads page by page while others write costs no sorting a page."""
        if self._resort:
            self._sorted = sorted(self._keys)
            self._resort = False
        else:
            for key in self._new:
                at = bisect_left(self._sorted, key)
                if at == len(self._sorted) or self._sorted[at] != key:
                    self._sorted.insert(at, key)
        self._new.clear()
