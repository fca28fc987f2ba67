"""A flow of five agents on three hosts, each with a window of 8,000 tokens: what their prompts take.

No model runs. In its turn each agent is handed its prompt, and writes what such an agent would write, in pieces of real
texts: a plan and tasks, sources, test runs, findings, reviews and a report. So the state grows as in a real flow, and
what is measured is what would be read of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import NamedTuple

from benchmarks.context.corpora import Text
from crdtsync.client import Client
from crdtsync.context import SharedContext, Views, tokenizer
from crdtsync.context.view.items import text_of
from tests.harness.cluster import Cluster

WINDOW_TOKENS = 8_000
PREFIX = "flow/"
Material = tuple[Iterator[Text], Iterator[Text]]
"""Sources and logs, without end."""
_ORDER = "You are the {role} of a team that mends a library. What the team knows:\n\n{state}\n\nDo your next step:"


class Agent(NamedTuple):
    """Who reads what: a named view, which all hosts know."""

    role: str
    model: str
    prefixes: tuple[str, ...]
    budget_tokens: int
    query: str


AGENTS = (
    Agent("planner", "claude-opus-4-5", ("flow/plan", "flow/tasks/", "flow/reviews/"), 2_000, "open failed plan"),
    Agent("researcher", "gpt-5", ("flow/tasks/", "flow/findings", "context/"), 3_000, "def class source"),
    Agent(
        "coder", "claude-sonnet-4-5", ("flow/plan", "flow/tasks/", "context/", "flow/findings"), 3_000, "error failed"
    ),
    Agent("critic", "gemini-3-pro", ("flow/tasks/", "context/", "flow/report"), 3_000, "error warning skipped"),
    Agent("writer", "qwen3.5", ("flow/findings", "flow/reviews/", "flow/report"), 2_500, "finding review"),
)


@dataclass
class Bill:
    """Tokens that the prompts took: with views, with all of the state, and with as much of it as a window holds."""

    with_views: int = 0
    with_everything: int = 0
    with_full_windows: int = 0
    longest: int = 0
    exceeded: list[str] = field(default_factory=list)

    @property
    def saved_percent(self) -> float:
        """Beside handing everything to everybody, cut where the window ends."""
        return 100 * (1 - self.with_views / max(1, self.with_full_windows))


def run(cluster: Cluster, steps: int, texts: Sequence[Text], logs: Sequence[Text]) -> Bill:
    """So many steps, in turn; each agent sees what the one before it has written."""
    bill = Bill()
    seats = [_Seat(agent, cluster[number % len(cluster)].client(agent.role)) for number, agent in enumerate(AGENTS)]
    seats[0].define_views()
    token = seats[0].client.now()
    material = cycle(texts), cycle(logs)
    for step, seat in zip(range(steps), cycle(seats)):  # the seats never end
        seat.client.wait(token)
        seat.read(bill, step)
        _DUTIES[seat.agent.role](seat, step, material)
        token = seat.client.now()
    return bill


class _Seat:
    def __init__(self, agent: Agent, client: Client) -> None:
        self.agent = agent
        self.client = client
        self.views = Views(client, model=agent.model)
        self.context = SharedContext(client, model=agent.model)
        self._counter = tokenizer(agent.model)
        self._counted: dict[str, tuple[str | None, int]] = {}

    def define_views(self) -> None:
        for agent in AGENTS:
            self.views.define(
                agent.role, agent.prefixes, budget_tokens=agent.budget_tokens, query=agent.query, role=agent.role,
                model=agent.model,
            )  # fmt: skip

    def read(self, bill: Bill, step: int) -> None:
        """Make the prompt, and put it on the bill."""
        view = self.views.named(self.agent.role)
        prompt = self._counter.count(_ORDER.format(role=self.agent.role, state=view.text))
        everything = self._everything()
        bill.with_views += prompt
        bill.with_everything += everything
        bill.with_full_windows += min(everything, WINDOW_TOKENS)
        bill.longest = max(bill.longest, prompt)
        if prompt > WINDOW_TOKENS or view.tokens > self.agent.budget_tokens:
            bill.exceeded.append(f"step {step}: {self.agent.role} has {prompt:,}, of which its view {view.tokens:,}")

    def _everything(self) -> int:
        """The tokens of all that the team has written, in full."""
        for prefix in (PREFIX, "context.full/"):
            for entry in self.client.entries(prefix):
                if self._counted.get(entry.key, ("", 0))[0] != entry.version:
                    value = entry.value if entry.value is not None else self.client.get(entry.key)
                    self._counted[entry.key] = (entry.version, self._counter.count(f"{entry.key}: {text_of(value)}"))
        return sum(count for _, count in self._counted.values()) + self._counter.count(_ORDER)


def _plan(seat: _Seat, step: int, material: Material) -> None:
    tasks = seat.client.keys(f"{PREFIX}tasks/")
    for key in tasks:
        seat.client.set(key, {**seat.client.get(key), "state": "done"})
    title = f"read {next(material[0]).name}, and mend what its tests say"
    seat.client.set(f"{PREFIX}tasks/{step}", {"title": title, "state": "open", "step": step})
    seat.client.set(f"{PREFIX}plan", f"{len(tasks)} tasks are done; next is task {step}", meta={"pinned": True})


def _research(seat: _Seat, step: int, material: Material) -> None:
    source = next(material[0])
    seat.context.put(f"source/{step}", source.content)
    first = next((line.strip() for line in source.content.split("\n") if line.lstrip().startswith("def ")), "nothing")
    seat.client.append(
        f"{PREFIX}findings", f"{source.name} has {source.content.count(chr(10))} lines; it begins with {first}"
    )


def _code(seat: _Seat, step: int, material: Material) -> None:
    log = next(material[1])
    seat.context.put(f"run/{step}", log.content)
    seat.client.append(f"{PREFIX}findings", f"run {step} of {log.name}: {log.content.strip().splitlines()[-1][:200]}")


def _review(seat: _Seat, step: int, material: Material) -> None:  # noqa: ARG001
    keys = seat.context.keys()
    shown = (seat.context.get(keys[-1]) or "")[:1_500] if keys else ""
    seat.client.set(f"{PREFIX}reviews/{step}", f"looked at {keys[-1:]}:\n{shown}", confidence=0.8)


def _write(seat: _Seat, step: int, material: Material) -> None:  # noqa: ARG001
    found = seat.client.log(f"{PREFIX}findings")[-2:]
    report = seat.client.text(f"{PREFIX}report")
    report.insert(0, f"## After step {step}\n\n" + "\n".join(map(str, found)) + "\n\n")


_DUTIES: dict[str, Callable[[_Seat, int, Material], None]] = {
    "planner": _plan, "researcher": _research, "coder": _code, "critic": _review, "writer": _write,
}  # fmt: skip
