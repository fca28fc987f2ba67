"""``crdtsyncd``: open the store, serve until told to stop. :mod:`crdtsyncd.main` is where it begins."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sqlite3
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop
from crdtsyncd.config.loader import changed_settings
from crdtsyncd.loop import gc_policy
from crdtsyncd.loop.agent_socket import AgentConnection, serve_agents, serve_agents_on
from crdtsyncd.loop.driver import Driver
from crdtsyncd.loop.process import release_start_pages
from crdtsyncd.security.trusted_members import Trust
from crdtsyncd.service import sd_notify
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.disk_guard import make_room_to_start
from crdtsyncd.storage.journal.quarantine import RowsRefused
from crdtsyncd.telemetry import event_log

from crdtsync.core.alarm_catalogue import NO_METRICS
from crdtsync.core.identity import LOOPBACK_CLUSTER
from crdtsync.core.interface import HostAlarm
from crdtsync.errors import ConfigError, CrdtSyncError
from crdtsync.wire.invites import CLUSTER_BYTES

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine

    from crdtsyncd.cluster.cluster_runtime import ClusterRuntime
    from crdtsyncd.config.model import Config
    from crdtsyncd.security.node_key import NodeKey
    from crdtsyncd.telemetry.metrics_http import MetricsServer

STOP_TIMEOUT_S = 5.0
AGENTS_FIRST_S = 0.03
"""So long after the start agents have the daemon to themselves: those that waited for it come at once."""
SWITCH_INTERVAL_S = 0.0005
"""How long a thread that imports keeps the interpreter from agents, at most."""


def _raise_open_files_max() -> None:
    """Every agent and peer takes a file descriptor: use as many as this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _log_ignored(ignored: Any) -> None:
    """Log an error that the interpreter cannot raise anywhere, such as a server name in a TLS handshake that is no
    ASCII.
    """
    event_log.log("ignored", level="warning", error=f"{type(ignored.exc_value).__name__}: {ignored.exc_value}")


def serve(config: Config, reload: Callable[[], Config]) -> None:
    """Serve until told to stop; ``reload`` reads the settings again."""
    os.umask(0o077)  # what is made in the data directory is nobody else's, even where others may look into that
    event_log.configure(config.log_level, config.log_format)
    uvloop.run(_serve(config, reload))


async def _serve(config: Config, reload: Callable[[], Config]) -> None:
    _raise_open_files_max()
    sys.unraisablehook = _log_ignored
    runtime_dir = config.socket.parent
    _make_dir(runtime_dir)

    def read_key() -> NodeKey:
        from crdtsyncd.security.node_key import load_or_make_key  # long after agents are served, but at the first start

        return load_or_make_key(config.data_dir)

    def open_store(cluster: bytes, node: str = "") -> Store:
        return Store(config.data_dir, runtime_dir, lambda: node or read_key().node, cluster)

    make_room_to_start(config.data_dir, config.free_bytes_min)
    store = open_store(LOOPBACK_CLUSTER if config.insecure_loopback else os.urandom(CLUSTER_BYTES))
    try:
        trust = Trust(read_key, store.cluster, config.insecure_loopback)
        driver = Driver(config, store, open_store, trust, config.version)
        try:
            await Service(config, driver, reload).run()
            with suppress(RowsRefused):  # they are in quarantine, and the next start says so
                driver.store.truncate()
        finally:
            store = driver.store
    except sqlite3.Error as error:
        raise store.unreadable(error) from None
    finally:
        store.close()


class Service:
    """Listeners, dialers and signals around one driver."""

    def __init__(self, config: Config, driver: Driver, reload: Any) -> None:
        self._config = config
        self._driver = driver
        self._reload = reload
        self._fleet: ClusterRuntime | None = None
        self._has_fleet = asyncio.Event()
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._rereading = asyncio.Lock()
        self._own_socket: int | None = None  # its inode; None: the socket is not ours to remove
        self._reload_fault = ""

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until the disk fails.

        :raises ConfigError: an address or the socket cannot be had.
        :raises CrdtSyncError: the disk failed.
        """
        config, driver = self._config, self._driver
        self._handle_signals()
        inherited = sd_notify.inherited_sockets()
        for url in config.peers:  # agents may ask for them before what dials them is there
            driver.dial_state(url, "connecting", "")
        agents = await self._serve_agents(inherited["agents"])
        house = asyncio.create_task(driver.keep_house())
        reporter = asyncio.create_task(sd_notify.report(driver, self._summary))
        metrics: list[MetricsServer] = []
        try:
            fleet = self._fleet = await self._make_fleet()
            await fleet.start(inherited["peers"])
            if config.metrics_listen:
                metrics.append(await self._serve_metrics(config.metrics_listen))
            event_log.log(
                "ready",
                node=config.node_name,
                socket=str(config.socket),
                listen=fleet.listening(),
                pid=os.getpid(),
            )
            sd_notify.notify("READY=1", f"STATUS={self._summary()}")
            await self._until_stopped(house)
        finally:
            sd_notify.notify("STOPPING=1", "STATUS=stopping")
            agents.close()
            for server in metrics:
                server.close()
            driver.stop()
            await _cancel([house, reporter])
            if self._fleet is not None:
                await self._fleet.stop()
            await driver.finish()
            if self._own_socket is not None:
                _remove_socket(config.socket, self._own_socket)
            event_log.log("stopped")

    async def _make_fleet(self) -> ClusterRuntime:
        """Import what peers need, and agents do not, while these are served: it is a third of all imports."""
        await asyncio.sleep(AGENTS_FIRST_S)
        usual_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        try:
            found = await asyncio.to_thread(import_module, "crdtsyncd.cluster.cluster_runtime")
        finally:
            sys.setswitchinterval(usual_s)
        with self._driver.times.work("release"):
            release_start_pages()
        fleet: ClusterRuntime = found.ClusterRuntime(self._config, self._driver)
        self._has_fleet.set()
        gc_policy.begin()  # which the start was done without
        gc.callbacks.append(self._driver.times.collected)
        return fleet

    async def _serve_agents(self, inherited: list[socket.socket]) -> asyncio.Server:
        """Listen for agents: on the socket that systemd keeps for us, or else on one of our own."""

        def make() -> AgentConnection:
            return AgentConnection(self._driver)

        if inherited:
            return await serve_agents_on(inherited, make)
        server = await serve_agents(self._config.socket, int(self._config.socket_mode, 8), make)
        self._own_socket = self._config.socket.stat().st_ino
        return server

    async def _serve_metrics(self, address: str) -> MetricsServer:
        from crdtsyncd.telemetry.metrics_http import MetricsServer

        spaces, driver = self._config.metrics_spaces, self._driver
        server = MetricsServer(
            lambda: driver.exposition(spaces), lambda reason: driver.feed(HostAlarm(NO_METRICS, reason))
        )
        await server.start(address)
        return server

    async def _until_stopped(self, house: asyncio.Task[None]) -> None:
        stop = asyncio.create_task(self._stop.wait())
        waited: list[asyncio.Future[Any]] = [stop, self._driver.failed, house]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if house.done():
            house.result()
        if self._driver.failed.done():
            raise CrdtSyncError(self._driver.failed.result())

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._spawn(self._reread()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reread(self) -> None:
        await self._has_fleet.wait()
        async with self._rereading:
            sd_notify.notify_reloading()
            try:
                self._apply(await asyncio.to_thread(self._reload))
                self._reload_fault = ""
            except ConfigError as error:
                self._reload_fault = error.message
                event_log.log("reload_refused", level="error", reason=error.message)
            finally:
                sd_notify.notify("READY=1", f"STATUS={self._summary()}")

    def _summary(self) -> str:
        """One line for people who ask the service manager."""
        refused = f"; at the last reload the settings were refused: {self._reload_fault}" if self._reload_fault else ""
        return f"{self._driver.summary()}{' '.join(refused.split())}"

    def _apply(self, config: Config) -> None:
        event_log.configure(config.log_level, config.log_format)
        fixed = {"log_level", "log_format", "peers"}
        changed = changed_settings(self._config, config) - fixed
        if self._fleet is not None:
            self._fleet.dial(config.peers)
        event_log.log("reloaded", needs_restart=sorted(changed))


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)


def _remove_socket(path: Path, inode: int) -> None:
    """Remove our socket, unless another daemon has put its own in that place."""
    with suppress(OSError):
        if path.stat().st_ino == inode:
            path.unlink()


def _make_dir(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError(
            f"cannot make the socket's directory {path}: {error.strerror}; choose another with --socket"
        ) from None
