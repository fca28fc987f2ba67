"""``python -m fuzz TARGET [OPTION…]``: every fuzzer by name.

Each has ``--help``, ``--inputs``, ``--seconds`` and ``--seed``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.simulator.commands import run_until_stopped

TARGETS = {
    "all": "every target in turn, with a budget: decoders, recovery, and those below",
    "yjs-updates": "Yjs updates against the validator, and what passes it against pycrdt",
    "frames": "frames of the agent protocol against a real daemon",
    "peer": "messages of the peer protocol against a real daemon",
    "member": "messages of the peer protocol from a member of the cluster, also the cluster's own records",
    "joining": "requests to join a cluster, and TLS handshakes, against a real daemon",
    "slow-edits": "edits of texts within every bound, searched for those that take longest",
    "hostile-edits": "mutated Yjs updates from a peer, against two real daemons",
}


def _main_of(target: str) -> Callable[[], int]:
    if target == "all":
        from fuzz.runner import main as fuzz_all  # noqa: PLC0415

        return fuzz_all
    if target == "yjs-updates":
        from fuzz.yjs_updates import main as fuzz_yjs  # noqa: PLC0415  # none needs what another imports

        return fuzz_yjs
    if target == "slow-edits":
        from fuzz.slow_edits import main as fuzz_slow  # noqa: PLC0415

        return fuzz_slow
    if target == "hostile-edits":
        from fuzz.hostile_edits import main as fuzz_edits  # noqa: PLC0415

        return fuzz_edits
    from fuzz.frames import main as fuzz_frames  # noqa: PLC0415

    return lambda: fuzz_frames(target)


def main() -> int:
    """Run the fuzzer that the command line names."""
    if sys.argv[1:2] == ["worker"]:  # what the runner starts
        from fuzz.workers import worker  # noqa: PLC0415

        target, seed, count, seconds, path = sys.argv[2:]
        worker(target, int(seed), int(count), float(seconds), path)
        return 0
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        print("usage: python -m fuzz TARGET [OPTION…]\n\n" + "\n".join(f"  {n:12} {t}" for n, t in TARGETS.items()))
        return 0 if sys.argv[1:] in (["--help"], ["-h"]) else 2
    target = sys.argv.pop(1)
    return _main_of(target)()


if __name__ == "__main__":
    sys.exit(main() if sys.argv[1:2] == ["worker"] else run_until_stopped(main))
