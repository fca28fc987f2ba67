"""``SharedContext`` beside that of headroom-ai: the same calls, and the same answers to what both promise."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from headroom import SharedContext as Theirs

from crdtsync import Client
from crdtsync.context import SharedContext, compress

MODEL = "claude-sonnet-4-5-20250929"
CONTENTS = (
    json.dumps([{"id": number, "state": "ok", "path": f"/srv/app/{number}.py"} for number in range(200)]),
    "\n".join(f"2026-11-22T10:00:00Z INFO took task {number} in 20 ms" for number in range(300)),
    "The disk of host-b is slow.", "", "世界 " * 200, "def f(x):\n    return x\n" * 60, '{"a": ', "\x00\x01",
)  # fmt: skip


@pytest.fixture
def client() -> Iterator[Client]:
    with Client(os.environ["SOCKET"], agent="ann") as found:
        yield found


def both(client: Client, **settings: Any) -> tuple[SharedContext, Theirs]:
    ours = SharedContext(client, model=MODEL, prefix=f"context-{random.getrandbits(60)}", **settings)
    return ours, Theirs(model=MODEL, **settings)


@pytest.mark.parametrize("seed", range(4))
def test_a_random_run_of_calls_is_answered_alike(client: Client, seed: int) -> None:
    rng = random.Random(seed)
    ours, theirs = both(client, max_entries=4)
    for _ in range(60):
        call = rng.choice(
            ("put", "put", "put", "get", "full", "entry", "keys", "stats", "clear" if rng.random() < 0.1 else "get")
        )
        key = f"key-{rng.randrange(7)}"
        if call == "put":
            content, agent = rng.choice(CONTENTS), rng.choice(("bob", "eve"))
            one, other = ours.put(key, content, agent=agent), theirs.put(key, content, agent=agent)
            assert (one.key, one.original, one.agent) == (other.key, other.original, other.agent)
            assert 0 <= one.compressed_tokens <= one.original_tokens
            assert one.savings_percent == pytest.approx(
                100 * (1 - one.compressed_tokens / one.original_tokens) if one.original_tokens else 0, abs=0.06
            )
            time.sleep(0.002)  # they tell the oldest by a clock
        elif call == "get":
            assert (ours.get(key) is None) == (theirs.get(key) is None)
        elif call == "full":
            assert ours.get(key, full=True) == theirs.get(key, full=True)
        elif call == "entry":
            found, same = ours.get_entry(key), theirs.get_entry(key)
            assert (found is None) == (same is None)
            if found is not None:
                assert (found.key, found.original, found.agent) == (same.key, same.original, same.agent)
                assert found.timestamp == pytest.approx(same.timestamp, abs=5)
                assert isinstance(found.compressed, str)
        elif call == "keys":
            assert ours.keys() == sorted(theirs.keys())
        elif call == "stats":
            figures = ours.stats()
            assert figures.entries == theirs.stats().entries
            assert figures.total_tokens_saved == figures.total_original_tokens - figures.total_compressed_tokens >= 0
        else:
            ours.clear()
            theirs.clear()
    assert ours.keys() == sorted(theirs.keys())


def test_both_forget_when_the_time_is_over(client: Client) -> None:
    ours, theirs = both(client, ttl=1)
    for context in (ours, theirs):
        context.put("a", "word")
        assert context.get("a") == "word"
    end = time.monotonic() + 30
    while ours.keys() or theirs.keys():
        assert time.monotonic() < end
        time.sleep(0.05)
    assert ours.get("a") is theirs.get("a") is ours.get_entry("a") is theirs.get_entry("a") is None


def test_an_update_at_capacity_evicts_nothing_with_either(client: Client) -> None:
    for context in both(client, max_entries=2):
        for key in ("a", "b", "a"):
            context.put(key, f"word {key}")
            time.sleep(0.002)
        assert sorted(context.keys()) == ["a", "b"]
        context.put("c", "word c")
        assert sorted(context.keys()) == ["a", "c"]


def test_it_stands_behind_the_same_interface(client: Client) -> None:
    done = compress(CONTENTS[0], model=MODEL, by="headroom", source="get('a')")
    assert "[200]{id:int" in done.text
    assert done.savings_percent > 30
    assert any("smart_crusher" in name for name in done.transforms)
    assert done.text.endswith("[shortened; in full: get('a')]")
    short = compress(CONTENTS[0], model=MODEL, by="headroom", budget=100)
    assert short.compressed_tokens <= 100
    context = SharedContext(client, model=MODEL, by="headroom", prefix="by-headroom")
    assert "[200]{id:int" in context.put("a", CONTENTS[0]).compressed
    assert context.get("a", full=True) == CONTENTS[0]
