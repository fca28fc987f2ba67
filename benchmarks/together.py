"""``./dev bench together``: claims and tasks beside the writes and events that they are made of, and presence.

What is compared takes turns, round by round: look at the ratios. Presence is measured as processor time of the daemons,
while all agents only stand there and while one after another says that it does something else.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from statistics import median
from time import monotonic

import click

from benchmarks.daemons import Daemons
from benchmarks.gauges import cpu_exact_s, percentile
from benchmarks.past import HEAD, Figure, timed
from crdtsync.client import AsyncClient
from crdtsync.coordination import AsyncPresence

CLAIM_RATIO_MAX, TASK_RATIO_MAX, PRESENCE_PERCENT_MAX = 2.0, 4.0, 1.0
REST_S = 15.0


async def in_turn(
    rounds: int, ours: Callable[[int], Awaitable[object]], theirs: Callable[[int], Awaitable[object]]
) -> tuple[list[float], list[float]]:
    """How long each took, in each round one after the other."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        taken[0].append(await timed(lambda: ours(number)))  # noqa: B023  # awaited at once
        taken[1].append(await timed(lambda: theirs(number)))  # noqa: B023
    return taken


async def of_claims(client: AsyncClient, rounds: int, w: int | None) -> list[Figure]:
    """A claim and its release beside two durable writes, on as many hosts as ``w`` says."""

    async def claim(number: int) -> None:
        async with client.claim(f"{w}/{number}", ttl=30):
            pass

    async def write_twice(number: int) -> None:
        await client.set(f"first/{number}", number, w=w)
        await client.set(f"second/{number}", number, w=w)

    ours, theirs = await in_turn(rounds, claim, write_twice)
    where = "one host" if w is None else f"{w} hosts"
    return [
        Figure(f"claim and release, {where}", median(ours), "two durable writes", median(theirs), CLAIM_RATIO_MAX),
        Figure("p99", percentile(ours, 0.99), "p99", percentile(theirs, 0.99), None),
    ]


async def of_tasks(here: AsyncClient, there: AsyncClient, rounds: int) -> list[Figure]:
    """From the put of a task until it is known to be done, by a worker of the other host, beside an event there."""
    worker = there.work("tasks/**", lambda job: job.input)
    working = asyncio.create_task(worker.run())
    async with here.watch("tasks/", snapshot=False) as told, there.watch("events/", snapshot=False) as events:

        async def task(number: int) -> None:
            await here.put_task(f"tasks/{number}", number)
            while True:
                event = await told.next(timeout=60)
                parts = (event.events or [event]) if event else []
                if any(isinstance(part.value, dict) and part.value.get("state") == "done" for part in parts):
                    return

        async def tell(number: int) -> None:
            await here.set(f"events/{number}", number)
            await events.next(timeout=60)

        ours, theirs = await in_turn(rounds, task, tell)
    worker.stop()
    await working
    return [
        Figure("task, put to done, 2 hosts", median(ours), "an event, 2 hosts", median(theirs), TASK_RATIO_MAX),
        Figure("p99", percentile(ours, 0.99), "p99", percentile(theirs, 0.99), None),
    ]


async def of_steps(here: AsyncClient, there: AsyncClient, rounds: int) -> list[Figure]:
    """The steps of such a task without workers, claims and tasks: each writes when it is told of what comes before."""
    async with here.watch("step/", snapshot=False) as told, there.watch("step/", snapshot=False) as events:

        async def steps(number: int) -> None:
            await here.set(f"step/{number}", {"put": number})
            await events.next(timeout=60)
            await there.set(f"claim/{number}", number, w="reached")
            await there.set(f"step/{number}", {"begun": number})
            await there.set(f"step/{number}", {"done": number})
            while True:
                event = await told.next(timeout=60)
                if event is not None and event.value == {"done": number}:
                    break
            for _ in range(2):
                await events.next(timeout=60)

        async def tell(number: int) -> None:
            await here.set(f"step/{rounds + number}", number)
            await events.next(timeout=60)
            await told.next(timeout=60)

        ours, theirs = await in_turn(rounds, steps, tell)
    return [Figure("the same without a worker", median(ours), "an event, 2 hosts", median(theirs), None)]


async def of_presence(hosts: int, agents: int) -> tuple[float, float, float]:
    """Percent of a core that a daemon needs in the mean: without agents, with all at rest, and while each changes its
    status once a minute.
    """
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(Daemons(hosts))
        pids = [daemon.pid for daemon in fleet.daemons]
        cards = list[AsyncPresence]()

        async def percent(changes: int) -> float:
            before_s, start_s = sum(map(cpu_exact_s, pids)), monotonic()
            for number in range(changes):
                await asyncio.sleep(start_s + number * REST_S / changes - monotonic())
                await cards[number].update(status=f"step {number}")
            await asyncio.sleep(start_s + REST_S - monotonic())
            return 100 * (sum(map(cpu_exact_s, pids)) - before_s) / (monotonic() - start_s) / hosts

        await asyncio.sleep(2)
        alone = await percent(0)
        for number in range(agents):
            client = AsyncClient(socket=fleet[number % hosts].socket, agent=f"agent-{number}", timeout=60)
            state = await stack.enter_async_context(client)
            cards.append(await stack.enter_async_context(await state.present(role="worker", status="waits")))
        async with AsyncClient(socket=fleet[0].socket, agent="bench", timeout=60) as state:
            async with asyncio.timeout(60):
                while len(await state.who()) < agents:  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
        await asyncio.sleep(2)
        return alone, await percent(0), await percent(round(agents * REST_S / 60))


async def measure(rounds: int, hosts: int, agents: int) -> bool:
    """All of it, and print it; whether all limits are kept."""
    async with Daemons(1) as single, AsyncClient(socket=single[0].socket, agent="bench") as client:
        figures = await of_claims(client, rounds, None)
    async with (
        Daemons(2) as fleet,
        AsyncClient(socket=fleet[0].socket, agent="bench", timeout=60) as here,
        AsyncClient(socket=fleet[1].socket, agent="worker", timeout=60) as there,
    ):
        await there.wait(await here.set("ready", 1), timeout=60)
        figures += await of_claims(here, rounds, 2)
        figures += await of_tasks(here, there, rounds)
        figures += await of_steps(here, there, rounds)
    print(HEAD)
    for figure in figures:
        print(figure.line())
    alone, at_rest, busy = await of_presence(hosts, agents)
    print(f"{hosts} daemons, each: {alone:.2f} % of a core without agents; with {agents:,} present {at_rest:.2f} %")
    print(f"({at_rest - alone:.2f} % for presence, target {PRESENCE_PERCENT_MAX:g} %)")
    print(f"while each changes its status once a minute: {busy:.2f} %")
    print(f"load {os.getloadavg()[0]:.1f}")
    kept = all(figure.target is None or figure.ours <= figure.target * figure.theirs for figure in figures)
    return kept and at_rest - alone <= PRESENCE_PERCENT_MAX


@click.command()
@click.option("--rounds", default=300, show_default=True, help="Of each claim and task.")
@click.option("--hosts", default=10, show_default=True, help="Daemons among which agents are present.")
@click.option("--agents", default=1_000, show_default=True, help="Present, with a connection each.")
@click.option("--check", is_flag=True, help="Exit status 1 if a target is missed.")
def main(rounds: int, hosts: int, agents: int, check: bool) -> None:
    """Measure claims, tasks and presence."""
    if not asyncio.run(measure(rounds, hosts, agents)) and check:
        raise SystemExit(1)
