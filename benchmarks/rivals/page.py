"""``docs/explanation/performance.md`` and its plots, written by the run that measured what they show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.rivals import report
from benchmarks.rivals.documents import DISTANT, Distant
from benchmarks.rivals.floors import Bare, BareLine, BareRows
from benchmarks.rivals.quiet import BUSY_SHARE_MAX
from benchmarks.rivals.report import Found
from benchmarks.rivals.stores import Crdtsync, Etcd, Nats, Redis, Store
from benchmarks.rivals.targets import TARGETS

DOCS = Path(__file__).parents[2] / "docs" / "explanation"
BENCHMARKS = "../../benchmarks/README.md"
PLOTS = "performance"

_PLACES = {
    "Size after overwrites": "overwrites",
    "A new node, also after a cut": "new-node",
    "An idle daemon, its agents and peers": "idle",
    "A cluster of 30": "fleet",
    "Large values, blobs, checkpoints and the past": "past",
    "Checkpoints of LangGraph": "checkpointers",
    "Sessions of concurrent typing": "editing-traces",
    "Watches and mirrors": "mirror",
    "Claims, tasks and presence": "together",
}


class Run(NamedTuple):
    """What was asked for, and which share of the processors others took before its parts began, at most."""

    rounds: int
    writes: int
    busiest: float
    took_s: Mapping[str, float] = MappingProxyType({})
    """By part."""
    shortened: str = ""
    """What was done less often than the names of figures say."""

    @property
    def is_quiet(self) -> bool:
        """Whether others have hardly disturbed it, as far as anybody looked."""
        return self.busiest <= BUSY_SHARE_MAX


def write(found: Found, run: Run, docs: Path = DOCS) -> None:
    """The page, and a plot for each of the figures that people look for."""
    (docs / PLOTS).mkdir(parents=True, exist_ok=True)
    plots = []
    for number, figure in enumerate(report.PLOTTED, 1):
        if figure in found:
            name = f"{PLOTS}/{number}.svg"
            (docs / name).write_text(report.plot(figure, found[figure]), encoding="utf-8")
            plots.append(f"![{figure.name}]({name})")
    (docs / "performance.md").write_text(text(found, run, plots), encoding="utf-8")


def text(found: Found, run: Run, plots: list[str]) -> str:
    """The page as Markdown."""
    parts = ["# Performance", _INTRODUCTION, _condition(run), "## Targets", _targets(found), "## Plots", *plots]
    parts += [
        "## Figures",
        report.tables(found),
        "## Method",
        _METHOD,
        *_times(run),
        _systems(),
        "## Elsewhere",
        _elsewhere(),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


_INTRODUCTION = """\
`./dev bench` writes this page: it shows one run of crdtsync and of other systems on the same machine.
Look at the ratios; another machine has other times.
[Decisions](decisions.md#tried-for-speed) lists what was tried."""


def _condition(run: Run) -> str:
    condition = (
        f"{report.machine()}; medians of {run.rounds} round{'s'[: run.rounds > 1]}; {run.writes:,} operations of each "
        f"kind in each round; before each round and part others took {run.busiest:.0%} of the processors at most."
    )
    if run.shortened:
        condition += f"\n\n{run.shortened}"
    if run.is_quiet:
        return condition
    return (
        f"{condition}\n\n**The machine was not quiet**, however long this waited. That slows down most what "
        "takes several processes or much Python, so this run does not show what crdtsync can do.\n"
        "Run it again on a quiet machine before you rely on it."
    )


def _targets(found: Found) -> str:
    lines = ["| target | at | measured | |", "|---|---|---|---|"]
    notes: dict[str, list[str]] = {}
    for target in TARGETS:
        measured = target.measured(found)
        limit = f"{'≥' if target.is_floor else '≤'} {target.shown(target.limit)}"
        if measured is None:
            lines.append(f"| {target.name} | {limit} | not in this run | |")
            continue
        is_met, floor = target.is_met(measured), target.of_floor(found)
        verdict = "met" if is_met else "**missed**"
        if not is_met and floor is not None:
            is_below = not target.is_met(floor)
            verdict = f"{'below the floor' if is_below else verdict}, a bare server: {target.shown(floor)}"
        lines.append(f"| {target.name} | {limit} | {target.shown(measured)} | {verdict} |")
        if not is_met and target.note:
            notes.setdefault(target.note, []).append(target.name)
    missed = [f"- **{'; '.join(names)}**: {note}" for note, names in notes.items()]
    if missed:
        lines += ["", "Where a target is missed, and where the time goes:", "", *missed]
    return "\n".join(lines)


_METHOD = (
    "In each round the systems are measured in turn, each started anew with an empty directory, so a "
    "disturbance hits all. A floor is a server of a few lines that does nothing but what the disk and the sockets "
    "ask for: it stores keys with values, or writes *our rows* into our tables as the daemon does, with no decision.\n"
    "\n"
    "- **Writes and reads:** one client writes values of 100 bytes to 1,000 keys one by one, then reads them. "
    "Then one asyncio client has 16 writes in flight, and then eight processes write one by one.\n"
    "- **Kill and restart:** while 16 writers are at work, the server is ended: once by `kill -9`, once as a "
    "service manager does it. Then all acknowledged writes are looked for.\n"
    "- **Write to event:** a write at one client, the event at another, one at a time; here each client has a "
    "daemon of its own.\n"
    "- **CPU:** the server's own count, which other work hardly changes.\n"
    "- **Catch-up:** a daemon that was stopped comes back, through a relay that counts bytes; from ready to "
    "complete. A bare server dials through it, too.\n"
    "\n"
    "Once, of crdtsync alone:\n"
    "\n"
    "- **Many keys:** daemons with 1,000 and with 1,000,000 keys are written to in turns, and then bare servers. A "
    "restart lasts "
    "from the start of the process, after `kill -9`, to the first reply.\n"
    "- **Memory:** what no other process shares, of a daemon with 1,000 keys, before and after 200 watching "
    "agents and 8 daemons attach.\n"
    "- **Overwrites:** log and history hold at most 8 MiB each.\n"
    "- **Texts:** recorded sessions (`--trace`) or a made-up one, through three daemons, three times. *Each edit "
    "durable by itself*: every keystroke is a change, acknowledged when it is on disk. *Typed into editors*: a "
    "keystroke is known to be on disk when `flush` returns. pycrdt alone keeps nothing."
)


def _times(run: Run) -> list[str]:
    if not run.took_s:
        return []
    parts = "; ".join(f"{name} {took_s:.0f} s" for name, took_s in run.took_s.items())
    return [f"This run took {sum(run.took_s.values()) / 60:.0f} minutes: {parts}."]


def _systems() -> str:
    lines = ["| system | what its acknowledgement, or its event, means |", "|---|---|"]
    stores: list[Store | Distant] = [
        Crdtsync(),
        Redis("always"),
        Redis("everysec"),
        Etcd(),
        Nats(),
        Bare(),
        BareRows(),
        *DISTANT,
        BareLine(),
    ]
    lines += [f"| {store.name} | {store.durability} |" for store in stores]
    return "\n".join(lines)


def _elsewhere() -> str:
    lines = [f"- [{name}]({BENCHMARKS}#{place})" for name, place in _PLACES.items()]
    return "\n".join(["Other benchmarks, with their commands and figures:", "", *lines])
