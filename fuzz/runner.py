"""``./dev fuzz all --inputs 1000000``: every target in turn, each with its share, and their figures."""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import time
from typing import Final

from fuzz import workers
from tests.simulator.commands import positive_float, positive_int

IN_PROCESS: Final = (
    "messages", "changes", "snapshots", "join-messages", "requests", "framing", "websocket-frames", "tokens", "invites",
    "patterns", "places", "schemas", "config", "session-files", "recovery",
)  # fmt: skip
DAEMONS: Final = ("frames", "peer", "member", "joining", "hostile-edits", "yjs-updates", "slow-edits")
SHARES: Final = {
    "recovery": 0.01, "config": 0.05, "session-files": 0.02, "frames": 0.04, "peer": 0.03, "member": 0.01,
    "joining": 0.005, "hostile-edits": 0.005, "yjs-updates": 0.15, "slow-edits": 0.001,
}  # fmt: skip
"""Of all inputs; the others have equal parts of the rest. What needs a daemon takes a thousand times as long."""
_FIGURES: Final = re.compile(r"^([\d,]+) inputs", re.MULTILINE)


def share(target: str, inputs: int) -> int:
    """How many of the inputs are for a target."""
    rest = (1 - sum(SHARES.values())) / sum(name not in SHARES for name in (*IN_PROCESS, *DAEMONS))
    return max(int(inputs * SHARES.get(target, rest)), 1)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev fuzz all", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=positive_int, default=1_000_000, help="in all (default 1,000,000)")
    parser.add_argument("--minutes", type=positive_float, default=60.0, help="stop after so long (default 60)")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--only", nargs="+", choices=(*IN_PROCESS, *DAEMONS), help="these targets alone")
    parser.add_argument("--save", action="store_true", help="keep an input for each outcome in fuzz/corpus")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    deadline = time.monotonic() + arguments.minutes * 60
    total = found = 0
    for target in arguments.only or (*IN_PROCESS, *DAEMONS):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            print(f"{target:14} no time left")
            continue
        count = share(target, arguments.inputs) if not arguments.only else arguments.inputs
        if target in IN_PROCESS:
            totals = workers.run(target, count, left_s, seed)
            print(totals.line(target), flush=True)
            print("".join(f"  FOUND {find}\n" for find in totals.finds), end="", flush=True)
            if arguments.save and not totals.finds:
                workers.keep(target, totals)
            total, found = total + totals.inputs, found + len(totals.finds)
        else:
            inputs, failed = _with_daemons(target, count, left_s, seed)
            total, found = total + inputs, found + failed
    print(f"{total:,} inputs, {found} finds")
    if not total:
        print("nothing was tried", file=sys.stderr)
    return 1 if found or not total else 0


def _with_daemons(target: str, inputs: int, seconds: float, seed: int) -> tuple[int, int]:
    words = [sys.executable, "-m", "fuzz", target, "--inputs", str(inputs), "--seconds", str(seconds)]
    with subprocess.Popen(
        [*words, "--seed", str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:  # in a session of its own: a Ctrl-C comes to it from here, and it ends its daemons
        try:
            output, errors = process.communicate()
        except BaseException:
            process.terminate()
            raise
    figures = _FIGURES.search(output)
    tried = int(figures[1].replace(",", "")) if figures else 0
    first = [line for line in output.splitlines() if " inputs" in line or "bystander" in line]
    print(f"{target:14} {'; '.join(first)}; status {process.returncode}", flush=True)
    if process.returncode or not tried:
        print(output[-4000:] + errors[-2000:], flush=True)
    return tried, int(process.returncode != 0 or not tried)
