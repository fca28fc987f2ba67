"""``./dev bench context``: tokens saved, answers kept, budgets held, and how fast views and searches are."""

from __future__ import annotations

import json
import os
import random
import sysconfig
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click

from benchmarks.context import flow, held_out
from benchmarks.context.corpora import Text, corpora
from benchmarks.context.questions import MODEL, Question, answered, questions
from benchmarks.gauges import cpu_exact_s
from crdtsync.client import Client, Entry
from crdtsync.context import Search, Views, compress, tokenizer
from crdtsync.context.view.choose import choose
from crdtsync.context.view.definition import Definition
from crdtsync.context.view.items import items_of
from tests.harness.cluster import Cluster
from tests.harness.daemon import Daemon

SAVED_MIN = {"json": 64.0, "log": 88.0, "code": 50.0}
ANSWERED_MIN, SAVED_IN_FLOW_MIN = 0.95, 60.0
VIEW_MS_MAX, NEWS_MS_MAX = 30.0, 5.0
BUILT_S_MAX, QUERY_MS_MAX, FINDABLE_S_MAX = 60.0, 20.0, 1.0
ROUNDS = 20
_BATCH, _ENTRY_WORDS = 500, 30
_LIBRARY = Path(sysconfig.get_paths()["stdlib"])
_ASKED = ("connection reset", "close the socket", "parse a date", "lock is held by another thread", "readline encoding")
_MODELS = (
    "gpt-5",
    "gpt-4",
    "claude-opus-4-5",
    "gemini-3-pro",
    "llama-3.3",
    "qwen3.5",
    "mistral-large",
    "deepseek-v3",
    "x",
)
_WORDS = [
    "disk",
    "plan",
    "journal",
    "cache",
    "peer",
    "agent",
    "task",
    "failed",
    "slow",
    "host",
    "merge",
    "token",
    "view",
    "budget",
    "search",
    "index",
    "write",
    "read",
    "not",
    "never",
    "42",
    "0x7f",
    "ümlaut",
    "世界",
    "```",
    "</state>",
    "a/b.py",
    '{"a":[1,2]}',
    "\n",
]


class Judged:
    """Figures as lines, and whether each that has a bound keeps it."""

    def __init__(self) -> None:
        self.figures: dict[str, Any] = {}
        self.faults: list[str] = []

    def add(self, name: str, value: float, unit: str, *, least: float | None = None, most: float | None = None) -> None:
        """Print a figure; note it as a fault if it is out of bounds."""
        self.figures[name] = round(value, 3)
        bound = f"  (at least {least:g})" if least is not None else f"  (at most {most:g})" if most is not None else ""
        print(f"{name:58} {value:10,.1f} {unit}{bound}", flush=True)
        if (least is not None and value < least) or (most is not None and value > most):
            self.faults.append(name)


def tokens_saved(judged: Judged, texts: dict[str, list[Text]], whose: str = "") -> None:
    """How much less each kind is, weighted by tokens; exact for gpt-5. Bounds are those of the texts that are known."""
    for kind, each in texts.items():
        done = [compress(one.content, model=MODEL) for one in each]
        before, after = sum(one.original_tokens for one in done), sum(one.compressed_tokens for one in done)
        least = None if whose else SAVED_MIN.get(kind)
        judged.add(f"{whose}{kind}: tokens saved, of {before:,}", 100 * (1 - after / before), "%", least=least)


def answers_kept(judged: Judged, asked: dict[str, list[Question]], whose: str = "", apart: str = "") -> None:
    """Of how many questions the answer is still there; those of the kind ``apart`` do not count for the share."""
    kept = {kind: answered(each) for kind, each in asked.items()}
    for kind, each in asked.items():
        judged.add(f"{whose}{kind}: answers still there, of {len(each)}", len(kept[kind]), "")
    known = [kind for kind in asked if kind != apart]
    share = sum(len(kept[kind]) for kind in known) / sum(len(asked[kind]) for kind in known)
    least = None if whose else 100 * ANSWERED_MIN
    judged.add(
        f"{whose}of {sum(len(asked[kind]) for kind in known)} answers still there", 100 * share, "%", least=least
    )


def budgets_held(judged: Judged, states: int) -> None:
    """How many views of random states take more than their budget."""
    exceeded, rng = 0, random.Random(20)
    now = datetime(2026, 11, 22, tzinfo=UTC)
    for _ in range(states):
        entries = [_entry(rng, number, now) for number in range(rng.choice((0, 1, 3, 10, 40)))]
        model = rng.choice(_MODELS)
        budget = rng.choice((1, 5, 20, 60, 200, 1_000, 4_000)) + rng.randrange(20)
        query, form = rng.choice((None, "disk plan")), rng.choice(("markdown", "xml", "json"))
        wish = Definition(budget_tokens=budget, query=query, role="critic", model=model, form=form)
        exceeded += tokenizer(model).count(choose(items_of(entries), wish).text) > budget
    judged.add(f"budgets exceeded, of {states:,}", exceeded, "", most=0)


def _entry(rng: random.Random, number: int, now: datetime) -> Entry:
    value = rng.choice((
        " ".join(rng.choices(_WORDS, k=rng.randrange(1, 120))),
        [{"id": row, "n": rng.random(), "said": rng.choice(_WORDS)} for row in range(rng.randrange(20))],
        rng.randbytes(rng.randrange(40)), rng.random(), None,
    ))  # fmt: skip
    time = now + timedelta(seconds=rng.randrange(10_000))
    meta = rng.choice((None, {"pinned": True}, {"role": "critic"}))
    return Entry(
        f"{rng.choice(('plan', 'é', 'a*b'))}/{number}", "register", value, str(number), None, [], "ann", None, time,
        rng.choice((None, 0.2, 0.9)), meta, None,
    )  # fmt: skip


class Stopwatch:
    """Times calls: by the clock, and by what this process and the daemon had of the cores.

    Other work on the machine makes the first longer and the second hardly, so the shorter of both is what is judged:
    a client and its daemon take turns, and would take no longer on cores of their own.
    """

    def __init__(self, judged: Judged, daemon: Daemon) -> None:
        self._judged = judged
        self._daemon = daemon
        self._clock_s: list[float] = []
        self._busy_s: list[float] = []

    def time(self, call: Callable[[], Any]) -> Any:
        """Call it, and note how long it took."""
        start_s, busy_s = perf_counter(), self._spent_s()
        done = call()
        self._clock_s.append(perf_counter() - start_s)
        self._busy_s.append(min(self._clock_s[-1], self._spent_s() - busy_s))
        return done

    def _spent_s(self) -> float:
        return process_time() + cpu_exact_s(self._daemon.pid)

    def told(self, name: str, *, most: float | None = None, unit: str = "ms", longest: bool = False) -> None:
        """Print the median of what was noted, or the longest, and begin anew."""
        factor = 1000 if unit == "ms" else 1
        which = -1 if longest else len(self._busy_s) // 2
        self._judged.add(name, factor * sorted(self._busy_s)[which], unit, most=most)
        self._judged.add(f"{name}, by the clock", factor * sorted(self._clock_s)[which], unit)
        if not longest:
            self._busy_s, self._clock_s = [], []


def views(judged: Judged, daemon: Daemon, client: Client, entries: int) -> None:
    """A view of 4,000 tokens over many entries: the first, the same again, after a change, and only what is new."""
    _fill(client, "findings/", entries)
    kept = Views(client)
    said: dict[str, Any] = {"budget_tokens": 4_000, "query": "disk slow"}
    name = f"view of 4,000 tokens over {entries:,} entries"
    view, news = Stopwatch(judged, daemon), Stopwatch(judged, daemon)
    first = view.time(lambda: kept.view("findings/", **said))
    view.told(f"{name}: first")
    for _ in range(ROUNDS):
        view.time(lambda: kept.view("findings/", **said))
    view.told(f"{name}: again", most=VIEW_MS_MAX)
    for number in range(ROUNDS):
        client.set(f"findings/{number % 50}/{number}", f"the disk of host-{number} was replaced")
        view.time(lambda: kept.view("findings/", **said))
        news.time(lambda: kept.view("findings/", since=first.token, **said))
    view.told(f"{name}: after a change", most=VIEW_MS_MAX)
    news.told("what is new since (1 to 20 entries)", most=NEWS_MS_MAX)


def searches(judged: Judged, daemon: Daemon, client: Client, entries: int, folder: Path) -> None:
    """An index from nothing, a query, and how soon a new entry is found."""
    _fill(client, "notes/", entries)
    search, watch = Search(client, folder=folder), Stopwatch(judged, daemon)
    watch.time(lambda: search.search("disk slow"))
    watch.told(f"index of {entries:,} entries built", most=BUILT_S_MAX, unit="s")
    for query in _ASKED * (ROUNDS // 5):
        watch.time(partial(search.search, query))
    watch.told("a query, longest", longest=True)
    watch.told("a query, median", most=QUERY_MS_MAX)
    for number in range(ROUNDS):
        client.set("notes/new", f"quokka{number} seen")
        found = watch.time(partial(search.search, f"quokka{number}", limit=1))
        assert [one.key for one in found] == ["notes/new"]
    watch.told("a new entry found after, longest", most=FINDABLE_S_MAX, unit="s", longest=True)


def _fill(client: Client, prefix: str, entries: int) -> None:
    """Entries of 30 words each from the sources of the standard library, from the beginning again when these end."""
    words = " ".join(path.read_text("utf-8", "replace") for path in sorted(_LIBRARY.rglob("*.py"))).split()
    for begin in range(0, entries, _BATCH):
        with client.batch() as batch:
            for number in range(begin, min(entries, begin + _BATCH)):
                at = number * _ENTRY_WORDS % (len(words) - _ENTRY_WORDS)
                batch.set(f"{prefix}{number % 50}/{number}", " ".join(words[at : at + _ENTRY_WORDS])[:2_000])


def flow_of_agents(judged: Judged, texts: dict[str, list[Text]], steps: int) -> None:
    """Five agents on three daemons: nobody's prompt passes its window, and what all of them take."""
    with Cluster(3) as cluster:
        bill = flow.run(cluster, steps, texts["code"], [*texts["log"], *texts["traceback"]])
    for line in bill.exceeded:
        print(line)
    judged.add(
        f"prompts over {flow.WINDOW_TOKENS:,} tokens or their view's budget, of {steps}", len(bill.exceeded), "", most=0
    )
    judged.add("the longest prompt", bill.longest, "tokens", most=flow.WINDOW_TOKENS)
    judged.add("all prompts with views", bill.with_views, "tokens")
    judged.add("all prompts with everything", bill.with_everything, "tokens")
    judged.add("all prompts with everything, cut at the window", bill.with_full_windows, "tokens")
    judged.add("tokens saved beside the last", bill.saved_percent, "%", least=SAVED_IN_FLOW_MIN)


@click.command()
@click.option("--steps", default=200, show_default=True, help="Steps of the flow of five agents.")
@click.option("--states", default=10_000, show_default=True, help="Random states whose views must keep their budget.")
@click.option("--entries", default=100_000, show_default=True, help="Entries that are searched.")
@click.option("--viewed", default=10_000, show_default=True, help="Entries that a view is over.")
@click.option("--data", type=click.Path(exists=True, path_type=Path), help="A folder with recorded editing sessions.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one object at the end.")
def main(steps: int, states: int, entries: int, viewed: int, data: Path | None, as_json: bool) -> None:
    """Measure what agents are given to read; exit status 1 if a bound does not hold.

    The texts are what programs of this machine write (see benchmarks/context/corpora.py), tokens are those of gpt-5.
    """
    judged = Judged()
    texts = corpora()
    tokens_saved(judged, texts)
    answers_kept(judged, questions(texts))
    others = held_out.texts(data)
    tokens_saved(judged, others, "held out, ")
    answers_kept(judged, held_out.questions(others), "held out, ", apart="any line")
    flow_of_agents(judged, texts, steps)
    budgets_held(judged, states)
    for measure, number in ((views, viewed), (searches, entries)):
        daemon = Daemon()
        try:
            with tempfile.TemporaryDirectory() as folder, Client(daemon.socket, agent="bench") as client:
                more = (Path(folder),) if measure is searches else ()
                measure(judged, daemon, client, number, *more)
        finally:
            daemon.close()
    print(f"load {os.getloadavg()[0]:.1f}")
    if as_json:
        print(json.dumps(judged.figures))
    if judged.faults:
        raise SystemExit(f"out of bounds: {', '.join(judged.faults)}")
