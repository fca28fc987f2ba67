"""Versions put together: what was handed over in parts is covered, and nothing else."""

from __future__ import annotations

import random

from crdtsync.causality import Dot, Writer
from crdtsync.client.session.read_memory import NOTHING_STORED, ReadMemory
from crdtsync.client.values.version_merge import DOTS_MAX, both
from crdtsync.wire.tokens import Version, decode_version, encode_token, encode_version


def dot(writer, seq, n=0):
    return Dot(Writer(writer), seq, n)


def covers(version, one):
    """Whether a write with this version supersedes the entry; see ``core.seen``."""
    in_vector = one.seq <= (version.vector or {}).get(one.writer, 0) and one not in version.others
    return one in version.dots or in_vector


def a_version(rng, dots):
    handed = rng.sample(dots, rng.randrange(4))
    others = [one for one in rng.sample(dots, rng.randrange(3)) if one not in handed]
    vector = rng.choice([None, {Writer(w): rng.randrange(1, 6) for w in rng.sample([1, 2, 3], 2)}])
    return Version(tuple(handed), tuple(others), vector, rng.randrange(100))


def test_two_versions_cover_together_what_either_covers():
    rng = random.Random(5)
    dots = [dot(w, s, n) for w in (1, 2, 3) for s in range(1, 7) for n in range(2)]
    for _ in range(2000):
        one, other = a_version(rng, dots), a_version(rng, dots)
        together = both(encode_version(one), encode_version(other))
        assert together is not None
        made = decode_version(together)
        for each in dots:
            assert covers(made, each) == (covers(one, each) or covers(other, each)), (one, other, made, each)
        assert made.hlc == max(one.hlc, other.hlc)


def test_a_point_covers_all_there_was():
    version = both(
        encode_version(Version((dot(1, 1), dot(2, 9)), others=(dot(3, 1),))),
        encode_version(Version((dot(1, 5),))),
        encode_token([("default", 0, {Writer(1): 5, Writer(3): 2})]),
    )
    assert version is not None
    made = decode_version(version)
    assert (made.vector, made.dots, made.others) == ({1: 5, 3: 2}, (dot(2, 9),), ())


def test_what_cannot_be_put_together():
    many = encode_version(Version(tuple(dot(1, seq) for seq in range(1, DOTS_MAX + 1))))
    assert both(many, NOTHING_STORED) == many
    assert both(many, encode_version(Version((dot(2, 1),)))) is None
    assert both(many, "nonsense") is None
    assert both(many, NOTHING_STORED, "nonsense") is None


def test_a_part_adds_to_what_was_read_and_is_nothing_without():
    memory = ReadMemory()
    first, second = encode_version(Version((dot(1, 1),))), encode_version(Version((dot(1, 2),)))
    memory.saw("k", first)
    assert memory.seen("k") is None
    memory.read("k", None)
    memory.saw("k", first)
    assert memory.seen("k") == first
    memory.saw("k", second)
    assert memory.seen("k") == both(first, second)
    memory.saw("k", "nonsense")
    assert memory.is_forgotten("k")
    memory.saw("k", first)
    assert memory.is_forgotten("k")
