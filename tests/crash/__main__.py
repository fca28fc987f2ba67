"""``./dev crash HARNESS``: prints the seed and the figures; status 1 if anything acknowledged was lost."""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from tests.crash.harness import can_trace, errors, kills, points, steps, until
from tests.crash.jobs import Run
from tests.crash.report import Report
from tests.harness.daemon import PROGRAM
from tests.nemesis.plants import PLANTS
from tests.simulator.commands import positive_float, positive_int, run_until_stopped

ONLY = "cases of this phase, call and error, as write/pwrite64/EIO* (may be repeated)"
RESUME = "a file: leave out the cases that are noted there, and note those that are tried"


def _power(cuts: int) -> int:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--timeout=0", "tests/integration/test_power.py"]
    environment = {**os.environ, "CRDTSYNC_POWER_CUTS": str(cuts)}
    # In a session of its own, so that a Ctrl-C comes to it once, from here.
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            return process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev crash", description="Kills, errors of the disk, power cuts.")
    harnesses = parser.add_subparsers(dest="harness", required=True)
    each = harnesses.add_parser("kills", help="kill -9 at random moments")
    each.add_argument("--count", type=positive_int, default=500)
    for name, words in (
        ("points", "kill -9 at every call that changes the disk"), ("errors", "every call to the disk fails in turn"),
        ("steps", "as points, in a life that puts a blob, undoes, and makes, restores, forks and merges checkpoints"),
    ):  # fmt: skip
        each = harnesses.add_parser(name, help=words)
        each.add_argument("--cases", type=positive_int, help="so many, of all names and phases (default: every one)")
        each.add_argument("--minutes", type=positive_float, help="stop after so long")
        each.add_argument("--jobs", type=positive_int, default=os.cpu_count() or 1, help="processes (default: cores)")
        each.add_argument("--only", action="append", default=[], metavar="PATTERN", help=ONLY)
        each.add_argument("--resume", type=Path, metavar="FILE", help=RESUME)
    for each in harnesses.choices.values():
        each.add_argument("--seed", type=int)
        each.add_argument("--plant", choices=sorted(PLANTS), help="plant a fault: the run must fail")
    each = harnesses.add_parser("power", help="power cuts, with commits that are not synced as the control")
    each.add_argument("--cuts", type=positive_int, default=1000)
    arguments = parser.parse_args()
    if arguments.harness == "power":
        return _power(arguments.cuts)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    program = PLANTS[arguments.plant].program if arguments.plant else PROGRAM
    report: Report
    if arguments.harness == "kills":
        report = kills(arguments.count, seed, program)
    elif not can_trace():
        print("needs root and strace (apt-get install strace)", file=sys.stderr)
        return 2
    else:
        budget = until(None if arguments.minutes is None else arguments.minutes * 60)
        run = Run(seed, budget, arguments.cases, program, arguments.jobs, tuple(arguments.only), arguments.resume)
        report = {"points": points, "errors": errors, "steps": steps}[arguments.harness](run)
    print("\n".join(report.lines()))
    if not report.runs:
        print("nothing was tried", file=sys.stderr)
    return 1 if report.found or not report.runs else 0


if __name__ == "__main__":
    sys.exit(run_until_stopped(main))
