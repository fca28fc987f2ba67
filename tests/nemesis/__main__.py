"""``./dev nemesis --minutes 10 [--seed 5]``: prints seed, faults and figures; status 1 if anything was found."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from crdtsync.testing.commands import positive_float, positive_int, run_until_stopped
from tests.harness.lan import has_namespaces
from tests.nemesis.plants import PLANTS
from tests.nemesis.run import Plan, run


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev nemesis", description="Real hosts, real faults, and a judge.")
    parser.add_argument("--minutes", type=positive_float, default=10.0, help="how long faults go on (default 10)")
    parser.add_argument("--seed", type=int, help="which faults and operations; default: a random one, which is printed")
    parser.add_argument("--agents", type=positive_int, default=3, help="agents on each host (default 3)")
    parser.add_argument("--at-once", type=positive_int, default=2, help="faults at once (default 2)")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="plant a fault in the daemons: the run must fail")
    parser.add_argument("--keep", type=Path, help="where record and logs go if anything is found")
    arguments = parser.parse_args()
    if not has_namespaces():
        print("needs root, ip (iproute2) and network namespaces", file=sys.stderr)
        return 2
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    plan = Plan(
        arguments.minutes * 60, seed, agents_per_host=arguments.agents, faults_at_once=arguments.at_once,
        plant=PLANTS.get(arguments.plant),
    )  # fmt: skip
    report = run(plan, lambda line: print(line, flush=True), arguments.keep)
    print("\n".join(report.lines()))
    return 1 if report.found else 0


if __name__ == "__main__":
    sys.exit(run_until_stopped(main))
