"""A session's memory of its reads: what a write may supersede, and never by mistake a blind write."""

import random

from crdtsync.client.session.read_memory import READ_LONG_AGO, ReadMemory


def test_a_key_that_was_never_read_is_written_blind():
    assert ReadMemory().seen("k") is None


def test_a_read_is_the_context_of_the_next_write():
    memory = ReadMemory()
    memory.read("k", "v1")
    assert memory.seen("k") == "v1"
    assert memory.seen("other") is None


def test_an_absent_key_was_read_too_and_covers_nothing():
    memory = ReadMemory()
    memory.read("k", None)
    assert memory.seen("k") == READ_LONG_AGO
    assert not memory.is_forgotten("k")


def test_own_writes_replace_a_context_and_do_not_make_one():
    memory = ReadMemory()
    memory.wrote("blind", "v1")
    assert memory.seen("blind") is None
    memory.read("k", "v1")
    memory.wrote("k", "v2")
    assert memory.seen("k") == "v2"
    memory.wrote("stated", "v3", as_read=True)
    assert memory.seen("stated") == "v3"


def test_a_key_that_fell_out_was_read_long_ago():
    memory = ReadMemory(keys_max=2)
    for key in "abc":
        memory.read(key, f"v-{key}")
    assert (memory.seen("a"), memory.seen("b"), memory.seen("c")) == (READ_LONG_AGO, "v-b", "v-c")
    assert memory.is_forgotten("a")
    assert memory.seen("never") is None


def test_the_key_unused_for_longest_falls_out():
    memory = ReadMemory(keys_max=2)
    memory.read("a", "1")
    memory.read("b", "1")
    memory.wrote("a", "2")
    memory.read("c", "1")
    assert (memory.seen("a"), memory.seen("b")) == ("2", READ_LONG_AGO)


def test_when_the_hashes_overflow_nothing_is_written_blind_any_more():
    memory = ReadMemory(keys_max=1, hashes_max=3)
    for number in range(5):
        memory.read(str(number), "v")
    assert memory.seen("never read") == READ_LONG_AGO
    assert memory.is_forgotten("never read")
    assert memory.seen("4") == "v"


def test_forgetting_leaves_a_key_as_read_long_ago():
    memory = ReadMemory()
    memory.read("a", "v")
    memory.forget("a")
    memory.forget("never read")
    assert (memory.seen("a"), memory.is_forgotten("a")) == (READ_LONG_AGO, True)
    assert memory.seen("never read") is None


def test_no_history_of_reads_and_writes_ends_in_an_unjustified_blind_write():
    rng = random.Random(7)
    for _ in range(200):
        memory = ReadMemory(keys_max=rng.randint(1, 5), hashes_max=rng.randint(1, 8))
        read: set[str] = set()
        for _ in range(60):
            key = str(rng.randint(0, 12))
            if rng.random() < 0.5:
                memory.read(key, "v")
                read.add(key)
            else:
                memory.wrote(key, "w")
            assert all(memory.seen(known) is not None for known in read)


class Copy:
    """Reads of one key that were not noted one by one."""

    def __init__(self, version: str) -> None:
        self.version: str | None = version

    def take(self, _key: str) -> str | None:
        version, self.version = self.version, None
        return version


def test_an_own_write_replaces_what_was_read_elsewhere_before_it_too():
    memory = ReadMemory()
    memory.mirrors = (Copy("v1.before"),)
    memory.read("k", "v1.read")
    memory.wrote("k", "v1.own")
    assert memory.seen("k") == "v1.own"
