"""Finding members on the same network by multicast DNS (RFC 6762, 6763), where that is switched on.

An answer is a hint where a member may be found, and nothing more: a node that answers there must show that member's
key.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence

from crdtsyncd.config.host_port import split_address
from crdtsyncd.telemetry.event_log import log
from zeroconf import IPVersion, ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

SERVICE = "_crdtsync._tcp.local."
ANSWER_MS_MAX = 3000
FOUND_NODES_MAX = 1000
"""Nodes found by multicast DNS."""


class Neighbours:
    """Says where this node is, and hears where others are. ``cluster`` is the name that its members ask for."""

    def __init__(self, node: str, cluster: str) -> None:
        self._node = node
        self._cluster = cluster
        self._found: dict[str, tuple[str, ...]] = {}
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None
        self._told: AsyncServiceInfo | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def addresses_of(self, node: str) -> tuple[str, ...]:
        """Where a node says that it is."""
        return self._found.get(node, ())

    async def start(self) -> None:
        """Listen for others. Without a network for it, that is logged, and nothing is found."""
        try:
            self._zeroconf = AsyncZeroconf(ip_version=IPVersion.All)
            self._browser = AsyncServiceBrowser(self._zeroconf.zeroconf, SERVICE, handlers=[self._changed])
        except OSError as error:
            log("mdns_failed", level="warning", reason=error.strerror or str(error))

    async def tell(self, addresses: Sequence[str]) -> None:
        """Say where this node is."""
        if self._zeroconf is None:
            return
        told = self._service(addresses)
        try:
            if self._told is not None:
                await (await self._zeroconf.async_unregister_service(self._told))
                self._told = None
            if told is not None:
                await (await self._zeroconf.async_register_service(told, allow_name_change=True))
                self._told = told
        except OSError as error:
            log("mdns_failed", level="warning", reason=error.strerror or str(error))

    async def stop(self) -> None:
        """Say goodbye."""
        for task in self._tasks:
            task.cancel()
        if self._browser is not None:
            await self._browser.async_cancel()
        if self._zeroconf is not None:
            await self._zeroconf.async_close()

    def _service(self, addresses: Sequence[str]) -> AsyncServiceInfo | None:
        packed, port_last = [], 0
        for address in addresses:
            host, port = split_address(address)
            try:
                packed.append(ipaddress.ip_address(host).packed)
            except ValueError:
                continue  # a name needs no finding
            port_last = port
        if not packed:
            return None
        name = f"{self._node}.{SERVICE}"
        properties = {"node": self._node, "cluster": self._cluster}
        return AsyncServiceInfo(
            SERVICE, name, port_last, addresses=packed, properties=properties, server=f"{self._node}.local."
        )

    def _changed(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        if state_change is not ServiceStateChange.Removed:
            task = asyncio.get_running_loop().create_task(self._look(zeroconf, service_type, name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _look(self, zeroconf: Zeroconf, service_type: str, name: str) -> None:
        info = AsyncServiceInfo(service_type, name)
        if not await info.async_request(zeroconf, ANSWER_MS_MAX):
            return
        node, cluster = info.decoded_properties.get("node"), info.decoded_properties.get("cluster")
        if cluster != self._cluster or not node or node == self._node or len(self._found) >= FOUND_NODES_MAX:
            return
        hosts = info.parsed_scoped_addresses()
        self._found[node] = tuple(f"[{host}]:{info.port}" if ":" in host else f"{host}:{info.port}" for host in hosts)
