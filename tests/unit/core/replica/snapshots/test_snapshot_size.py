"""What a snapshot that comes takes: its parts are counted as they are in memory, not as they were sent."""

from __future__ import annotations

import pytest

from crdtsync.core.replica.snapshots import snapshot
from crdtsync.core.replica.snapshots.snapshot import RECORD_BYTES, Taking
from crdtsync.errors import InvalidEncoding
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.snapshot import INFLATED_BYTES_MAX, Header, compressed, decode_part, encode_header

WRITER = [7, 100, bytes(16), None, None]


def taking(entries: int) -> Taking:
    begun = Taking(bytes(16), "a")
    begun.add(encode_header(Header("a", 1, 0, 1, entries, 0)))
    begun.add(pack([2, WRITER]))
    return begun


def part(count: int, size_bytes: int, first: int = 1) -> bytes:
    value = bytes(size_bytes)
    return pack([3, [field for n in range(count) for field in ("k", None, 0, 7, first, n, 1, "a", value, None, None)]])


def test_a_compressed_part_counts_as_what_it_is_inflated() -> None:
    plain = part(100, 1000)
    sent = compressed(plain)
    assert len(sent) < len(plain) // 50
    found = taking(100)
    before = found.size_bytes
    found.add(sent)
    assert found.size_bytes - before == len(plain)
    assert found.memory_bytes == found.size_bytes + 101 * RECORD_BYTES


def test_a_part_inflates_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidEncoding, match="compressed bytes"):
        decode_part(compressed(bytes([0xC4]) + bytes(INFLATED_BYTES_MAX)))
    monkeypatch.setattr(snapshot, "SNAPSHOT_BYTES_MAX", 50_000)
    found = taking(1000)
    with pytest.raises(InvalidEncoding, match="a snapshot of over 50,000 bytes"):
        found.add(compressed(part(100, 1000)))


def test_what_a_header_says_counts_before_it_has_come() -> None:
    assert taking(1_000_000).memory_bytes > 1_000_000 * RECORD_BYTES
