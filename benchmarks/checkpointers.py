"""``./dev bench checkpointers``: LangGraph's checkpoints, beside LangGraph's own savers: SQLite, Redis, in memory."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
from pathlib import Path

import click

from benchmarks.daemons import Daemons
from benchmarks.rivals.floors import Bare

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-adapters" / "langgraph" / "bin" / "python"
PROGRAM = ROOT / "tests" / "adapters" / "langgraph" / "speed.py"


async def measure(steps: int) -> dict[str, dict[str, float]]:
    """For each saver, what it takes."""
    bare = Bare()
    async with Daemons(1) as fleet:
        daemon = fleet[0]
        with tempfile.TemporaryDirectory() as folder:
            await bare.start(Path(folder))
            places = [daemon.socket, daemon.database.parent, bare.process.address]
            command = [str(PYTHON), str(PROGRAM), *map(str, places), str(steps)]
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "LANGSMITH_TRACING": "false"}
            try:
                done = await asyncio.to_thread(
                    subprocess.run, command, env=environment, stdout=subprocess.PIPE, check=True
                )
            finally:
                await bare.stop()
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


@click.command()
@click.option("--steps", default=1000, show_default=True, help="Of the thread whose checkpoints are read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(steps: int, as_json: bool) -> None:
    """Checkpoints of a state of 50 kB, of which one in a hundred changes with each step, in 100 channels.

    All savers in one run, in turns; medians. Redis flushes every write. "bare" is the floor of a saver whose data lie
    in another process: a server of a few lines, and one request for each call. A plain write of as many bytes as a put
    of crdtsync stores, and a plain get of them, say what the second process takes alone. It runs in the environment
    that tests/integration/test_langgraph.py makes.
    """
    if not PYTHON.exists():
        raise click.ClickException("LangGraph is not installed: ./dev test tests/integration/test_langgraph.py")
    found = asyncio.run(measure(steps))
    if as_json:
        click.echo(json.dumps(found))
        return
    for name in found["crdtsync"]:
        figures = "  ".join(f"{saver} {of[name]:.2f}" for saver, of in found.items() if name in of)
        rivals = [rival for rival in ("SQLite", "Redis") if name in found[rival]]
        ratios = [f"{found['crdtsync'][name] / found[rival][name]:.2f} × {rival}'s" for rival in rivals]
        click.echo("; ".join([f"{name}: {figures}", *ratios]))
