"""The command line: ``python -m tests.simulator``, in a checkout ``./dev simulate``."""

from __future__ import annotations

import argparse
import os
import sys
from time import monotonic

from tests.simulator.campaign import PLANS, jobs_of, length_of, run_campaign
from tests.simulator.commands import positive_float, positive_int, run_until_stopped
from tests.simulator.faults import catch_all, chosen_by, names
from tests.simulator.histories import AnyPlan
from tests.simulator.shrinking import failure_of, shrink, trace

PROGRAM = "./dev simulate"
COUNTS_TOLD = 60


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for; 1 if a promise was broken, or a planted fault not found."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.fault is not None and not options.faults:
        parser.error("--fault chooses among the planted faults: it goes with --faults")
    if options.fault is not None and not chosen_by(options.fault):
        parser.error(f"no planted fault has {options.fault!r} in its name; there are: {', '.join(names())}")
    if options.only is not None and options.seed is None:
        parser.error("--only chooses among the steps of one history: it goes with --seed")
    if options.faults:
        return catch_all(options.fault, options.seeds or 250, print, is_hinted=options.quick)
    if options.seed is not None:
        return _replay(options, parser)
    return _campaign(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Plays random histories of simulated fleets and checks that every promise is kept.",
        epilog="A seed says all that happens. What fails is played again with ever fewer steps, and told in words.",
    )
    number, count = {"type": int, "metavar": "N"}, {"type": positive_int, "metavar": "N"}
    parser.add_argument("--seeds", **count, help="how many histories (1,000; with --faults up to 250 for each)")  # type: ignore[arg-type]
    parser.add_argument("--first", **number, default=0, help="the first seed (0)")  # type: ignore[arg-type]
    parser.add_argument("--steps", **count, help="steps of each history (60, 120 or 400, by its seed)")  # type: ignore[arg-type]
    parser.add_argument("--jobs", **count, default=os.cpu_count() or 1, help="processes (one for each core)")  # type: ignore[arg-type]
    parser.add_argument("--minutes", type=positive_float, default=float("inf"), metavar="M", help="begin nothing later")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--calm", action="store_true", help="only what happens to a sound network and sound disks")
    kinds.add_argument("--members", action="store_true", help="clusters: joining, removing, rights, spaces for some")
    parser.add_argument("--seed", **number, help="play one history and tell what happens")  # type: ignore[arg-type]
    parser.add_argument("--only", metavar="N,N,…", help="with --seed: only these of its steps")
    parser.add_argument("--faults", action="store_true", help="plant known faults one by one, and look who finds them")
    parser.add_argument("--fault", metavar="WORD", help="with --faults: only those with this in their name")
    parser.add_argument("--quick", action="store_true", help="with --faults: begin with seeds that are known to do it")
    return parser


def _kind(options: argparse.Namespace) -> str:
    return "members" if options.members else "calm" if options.calm else "all"


def _plan(seed: int, options: argparse.Namespace) -> AnyPlan:
    return PLANS[_kind(options)](seed, length_of(seed, options.steps))


def _replay(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    plan = _plan(options.seed, options)
    if options.only is not None:
        wanted = [number for number in options.only.split(",") if number]
        there = {str(step.number) for step in plan.steps}
        unknown = [number for number in wanted if number not in there]
        if unknown:
            parser.error(f"--only: this history has no step {', '.join(unknown)}; it has 0 to {len(there) - 1}")
        plan = plan.only({int(number) for number in wanted})
    lines = trace(plan)
    print("\n".join(lines))
    return 1 if lines[-1].startswith("!!") else 0


def _campaign(options: argparse.Namespace) -> int:
    started = monotonic()
    jobs = jobs_of(options.first, options.seeds or 1000, options.steps, _kind(options))
    figures = run_campaign(jobs, options.jobs, options.minutes * 60, lambda line: print(line, file=sys.stderr))
    print(f"{figures}; {monotonic() - started:,.0f} s")
    if not figures.seeds:
        print("nothing was played: there was no time", file=sys.stderr)
        return 1
    happened = sorted(figures.counts.items(), key=lambda item: -item[1])[:COUNTS_TOLD]
    print("  " + ", ".join(f"{name} {count:,}" for name, count in happened))
    for seed in sorted(figures.failed):
        _tell_failure(seed, options)
    return 1 if figures.failed else 0


def _tell_failure(seed: int, options: argparse.Namespace) -> None:
    plan = _plan(seed, options)
    failure = failure_of(plan)
    if failure is None:
        print(f"\nseed {seed} failed, and does not when it is played again")
        return
    small, failure = shrink(plan, failure)
    numbers = ",".join(str(step.number) for step in small.steps)
    kind = "" if _kind(options) == "all" else f" --{_kind(options)}"
    print(f"\nseed {seed} fails: {failure.text}\n")
    print(f"{len(small.steps)} of its {len(plan.steps)} steps are enough; replay them:")
    print(f"{PROGRAM} --seed {seed} --steps {len(plan.steps)}{kind} --only {numbers or ','}\n")
    print("\n".join(f"  {line}" for line in trace(small)))


if __name__ == "__main__":
    sys.exit(run_until_stopped(main))
