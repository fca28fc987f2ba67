"""``python -m tests.simulator.claims --seeds 1000``: plays that many histories of claims, on all cores."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from time import monotonic

from tests.simulator.claims.histories import run_history


def played(seed: int, by_quorum: bool, is_whole: bool) -> tuple[int, str, Counter[str]]:
    """The seed, why it failed or nothing, and what happened."""
    try:
        return seed, "", run_history(seed, by_quorum=by_quorum, is_whole=is_whole).counts
    except Exception as error:  # noqa: BLE001  # told with its seed
        return seed, f"{type(error).__name__}: {error}", Counter()


def main() -> int:
    """Play, and tell what came of it; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.claims", description="Histories of claims.")
    parser.add_argument("--seeds", type=int, default=100, help="how many histories (100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument("--quorum", action="store_true", help="claims by quorum")
    parser.add_argument("--votes", action="store_true", help="the same where hosts do nothing but vote: faster")
    options = parser.parse_args()
    counts, failed, started = Counter[str](), 0, monotonic()
    seeds = range(options.first, options.first + options.seeds)
    play = partial(played, by_quorum=options.quorum or options.votes, is_whole=not options.votes)
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, why, happened in pool.map(play, seeds, chunksize=10):
            counts += happened
            if why:
                failed += 1
                sys.stdout.write(f"seed {seed}: {why}\n")
    sys.stdout.write(f"{options.seeds:,} histories, {failed} failed, {monotonic() - started:,.0f} s\n")
    sys.stdout.write("  " + ", ".join(f"{name} {count:,}" for name, count in counts.most_common()) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
