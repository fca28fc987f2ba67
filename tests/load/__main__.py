"""``./dev load``: the figures; status 1 if others had to wait, memory passed its bound, or a refusal was unclear."""

from __future__ import annotations

import argparse
import sys

from tests.harness.daemon import PROGRAM
from tests.load.plants import PLANTS
from tests.load.run import Scale, run
from tests.simulator.commands import natural_int, positive_int, run_until_stopped


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev load", description="A daemon under load, and those beside it.")
    standard = Scale()
    for name, words in (
        ("agents", "attached"), ("silent", "of them, who watch everything and read nothing"),
        ("peers", "that never read"), ("spaces", "with a key each"), ("large", "values of 1 MiB"),
        ("keys", "in one space"), ("samples", "of a latency"),
    ):  # fmt: skip
        default = getattr(standard, name)
        kind = positive_int if name == "samples" else natural_int
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{words} (default {default:,})")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="plant a fault in the daemon: the run must fail")
    arguments = vars(parser.parse_args())
    program = PLANTS.get(arguments.pop("plant"), PROGRAM)
    scale = Scale(**arguments)
    if scale.silent > scale.agents:
        parser.error(f"--silent {scale.silent}: so many of --agents {scale.agents} there are not")
    if not any((scale.agents, scale.peers, scale.spaces, scale.large, scale.keys)):
        parser.error("nothing of anything is no load")
    report = run(scale, lambda line: print(line, flush=True), program)
    print("\n".join([*(f"FOUND {each}" for each in report.found), f"{len(report.found)} violations"]))
    return 1 if report.found else 0


if __name__ == "__main__":
    sys.exit(run_until_stopped(main))
