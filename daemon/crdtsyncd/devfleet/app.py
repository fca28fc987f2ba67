"""Start the daemons, tell of them, and stop them all at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import click
from crdtsyncd import terminal
from crdtsyncd.devfleet.layout import NODES_MAX, ClusterError, NodePlace, prepared
from crdtsyncd.devfleet.process import DevNode, stop_all

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), default=3, show_default=True, help="How many daemons.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep data, logs and settings there for the next time, instead of in a temporary directory.",
)
@click.option("--demo", is_flag=True, help="Let three small agents write, so that there is something to see.")
def cluster(nodes: int, directory: Path | None, demo: bool) -> None:
    """Start a small fleet of daemons on this machine, until Ctrl-C.

    They are linked with each other over loopback. One that dies is started again; kill one to see it. A line is printed
    when a node comes, goes or raises an alarm. In crdtsync who it is the agent cluster-view.
    """
    try:
        with prepared(nodes, directory) as places:
            asyncio.run(_Cluster(places, demo=demo).run())
    except ClusterError as error:
        terminal.sentence(f"cluster: {error}")
        sys.exit(1)
    kept = "" if directory is None else f"; the data stays in {directory}"
    with suppress(OSError):
        terminal.line(f"cluster: stopped {nodes} {'node' if nodes == 1 else 'nodes'}{kept}", at_once=True)
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered has no reader


class _Cluster:
    """The daemons and what follows them."""

    def __init__(self, places: list[NodePlace], *, demo: bool) -> None:
        self._places = places
        self._demo = demo
        self._members = [DevNode(place) for place in places]
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        """Run until told to stop.

        :raises ClusterError: a daemon does not start.
        """
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        started_s = time.monotonic()
        runs = [asyncio.create_task(member.run()) for member in self._members]
        stopping = asyncio.create_task(self._stop.wait())
        telling = asyncio.create_task(self._tell(started_s))
        try:
            done, _ = await asyncio.wait([telling, stopping, *runs], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            telling.cancel()
            await asyncio.wait([telling])
            await stop_all(self._members, runs, self._hurry)

    def _on_signal(self) -> None:
        """The first asks, the second hurries."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def _tell(self, started_s: float) -> None:
        # While the daemons start, there is time to import what tells of them.
        from crdtsyncd.devfleet import demo, view

        for member in self._members:
            await member.ready()
        try:
            view.greet(self._members, time.monotonic() - started_s)
            async with asyncio.TaskGroup() as group:
                for member in self._members:
                    group.create_task(view.follow(member))
                if self._demo:
                    group.create_task(demo.run(self._places))
        except* OSError:  # the pipe is closed, or the terminal gone: nobody reads any more
            self._stop.set()
