"""``./dev load``: the figures; status 1 if others had to wait, memory passed its bound, or a refusal was unclear."""

from __future__ import annotations

import argparse
import sys

from tests.load.run import Scale, run


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
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{words} (default {default:,})")
    report = run(Scale(**vars(parser.parse_args())), lambda line: print(line, flush=True))
    print("\n".join([*(f"FOUND {each}" for each in report.found), f"{len(report.found)} violations"]))
    return 1 if report.found else 0


if __name__ == "__main__":
    sys.exit(main())
