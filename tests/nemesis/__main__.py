"""``./dev nemesis --minutes 10 [--seed 5]``: prints seed, faults and figures.

The status is 1 if anything was found, and 3 if a planted fault was not.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from tests.harness.lan import has_namespaces
from tests.nemesis.faults import FAULTS
from tests.nemesis.plants import PLANTS
from tests.nemesis.run import Plan, run
from tests.simulator.commands import positive_float, positive_int, run_until_stopped

NOT_FOUND = 3
"""The status where a planted fault goes unnoticed: neither that of a clean run nor that of one that found it."""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev nemesis", description="Real hosts, real faults, and a judge.")
    parser.add_argument("--minutes", type=positive_float, default=10.0, help="how long faults go on (default 10)")
    parser.add_argument("--seed", type=int, help="which faults and operations; default: a random one, which is printed")
    parser.add_argument("--agents", type=positive_int, default=3, help="agents on each host (default 3)")
    parser.add_argument("--at-once", type=positive_int, default=2, help="faults at once (default 2)")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="plant a fault in the daemons: the run must fail")
    parser.add_argument(
        "--only", action="append", default=[], choices=sorted(FAULTS), help="this fault (may be repeated)"
    )
    parser.add_argument("--keep", type=Path, help="where record and logs go if anything is found")
    arguments = parser.parse_args()
    if not has_namespaces():
        print("needs root, ip (iproute2) and network namespaces", file=sys.stderr)
        return 2
    plant = PLANTS.get(arguments.plant)
    if plant is not None and arguments.only and not set(plant.shown_by) & set(arguments.only):
        parser.error(f"--plant {arguments.plant} shows by {', '.join(plant.shown_by)}, which --only leaves out")
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    plan = Plan(
        arguments.minutes * 60, seed, agents_per_host=arguments.agents, faults_at_once=arguments.at_once,
        plant=plant, only=tuple(arguments.only),
    )  # fmt: skip
    report = run(plan, lambda line: print(line, flush=True), arguments.keep)
    print("\n".join(report.lines()))
    if plant is not None and not report.lost:
        print("the planted fault was not found: no acknowledged write is missing", file=sys.stderr)
        return NOT_FOUND
    return 1 if report.found else 0


if __name__ == "__main__":
    sys.exit(run_until_stopped(main))
