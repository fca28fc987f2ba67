"""The daemon's ends of its cluster: listeners, what it dials, and the chores that the node hands to it."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Coroutine
from contextlib import suppress
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from crdtsyncd.cluster.dial_planner import DialPlanner
from crdtsyncd.cluster.join_at_start import JoinAtStart, tell_left
from crdtsyncd.cluster.local_addresses import reachable
from crdtsyncd.config.host_port import PLAIN_JOINS_NONE, is_loopback, split_address
from crdtsyncd.loop.driver import Driver, operators
from crdtsyncd.peers.dial_member import dial_member_forever
from crdtsyncd.peers.join_protocol import ask_to_join
from crdtsyncd.peers.listen import addresses, listen
from crdtsyncd.peers.websocket_peer import dial_forever
from crdtsyncd.security.node_key import load_or_make_key, make_next_key, pending_key, use_next_key, with_new_certificate
from crdtsyncd.telemetry.event_log import log
from websockets.asyncio.server import Server

from crdtsync.core.agents.cluster_requests import Chore, ChoreDone
from crdtsync.core.alarm_catalogue import NOT_LISTENING
from crdtsync.core.cluster.admission import LISTEN_META, Reach, pack_told
from crdtsync.core.cluster.membership import Membership, known_as, written
from crdtsync.core.cluster.node_alarms import EXPIRY_ALARM_MS, RENEWAL_MS, LetIn
from crdtsync.core.interface import HostAlarm
from crdtsync.errors import ConfigError, CrdtSyncError, DaemonUnavailable, InvalidRequest, Refused
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.invites import CLUSTER_BYTES, Invite
from crdtsync.wire.peer.joining import Admitted

if TYPE_CHECKING:
    from crdtsyncd.cluster.mdns import Neighbours
    from crdtsyncd.config.model import Config

REACH_INTERVAL_S = 10.0
"""How often this machine's addresses are looked at."""
MDNS_INTERVAL_S = 2.0
MESH_INTERVAL_S = 1.0
"""How often it is looked whom to dial, where not all are."""
STOP_TIMEOUT_S = 5.0


class ClusterRuntime:
    """See the module's description."""

    def __init__(self, config: Config, driver: Driver) -> None:
        self._config = config
        self._driver = driver
        self._trust = driver.trust
        self._servers: dict[str, Server] = {}
        self._seeds: dict[str, asyncio.Task[None]] = {}
        self._members: dict[str, asyncio.Task[None]] = {}
        self._membership = driver.trust.membership
        self._mesh = DialPlanner(driver.is_node_linked, full_max=config.full_mesh_nodes_max)
        self._has_mesh = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reach: Reach | None = None
        self._kept: list[str] = []  # addresses to listen on that could not be had yet
        self._unheard = ""  # why, as the node was told
        self._neighbours: Neighbours | None = None
        self._rotating = {"next_key": self._make_next_key, "use_next_key": self._use_next_key}
        driver.on_membership = self._membership_changed

    # -- life --------------------------------------------------------------------------------------------------

    async def start(self, inherited: list[socket.socket]) -> None:
        """Listen and dial.

        :raises ConfigError: an address cannot be had.
        """
        plain = self._config.insecure_loopback
        for sock in inherited:
            if plain and not is_loopback(sock.getsockname()[0]):
                raise ConfigError(
                    "an inherited socket for peers must be bound to a loopback address where insecure_loopback = true"
                )
            self._servers[f"inherited {len(self._servers)}"] = await listen(sock, self._driver, self._config.peers_max)
        stored = self._driver.meta(LISTEN_META)
        kept = [] if plain or stored is None else [str(address) for address in unpack(stored)]
        for address in self._config.listen:
            await self._listen(address)
        self._kept = kept
        await self._listen_as_before()
        self._trust.next_key = None if plain else pending_key(self._config.data_dir)
        self._tell_reach()
        self.dial(self._config.peers)
        self._membership_changed(self._trust.membership)
        self._spawn(self._watch_reach())
        self._spawn(self._keep_mesh())
        if self._config.mdns and not plain:
            self._spawn(self._meet_neighbours())
        if self._config.join:
            self._spawn(JoinAtStart(self._config, self._driver, self._join_by).run())
        self._driver.on_chore = lambda chore: self._spawn(self._do(chore))
        for chore in self._driver.early_chores:
            self._driver.on_chore(chore)

    def listening(self) -> list[str]:
        """``HOST:PORT`` of everything that is listened on."""
        return [where for server in self._servers.values() for where in addresses(server)]

    async def stop(self) -> None:
        """Dial and listen no more, and end what stands."""
        tasks = [*self._tasks, *self._seeds.values(), *self._members.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)
        servers = list(self._servers.values())
        for server in servers:
            server.close(close_connections=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(_closed(servers), STOP_TIMEOUT_S)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = _watched(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- listening ---------------------------------------------------------------------------------------------

    async def _listen_as_before(self) -> None:
        """Listen where a command has said. If an address cannot be had now, such as that of an interface that is down,
        it is tried again: that must not keep the node from its agents.
        """
        failed: dict[str, str] = {}
        for address in self._kept:
            try:
                await self._listen(address)
            except ConfigError as error:
                failed[address] = error.message
        self._kept = list(failed)
        reason = "; ".join(failed.values())
        if reason != self._unheard:
            self._unheard = reason
            if self._reach is not None:
                self._tell_reach()  # first: whoever sees the alarm end may ask for an invite
            self._driver.feed(HostAlarm(NOT_LISTENING, f"{reason}. It is tried again" if reason else ""))

    async def _listen(self, address: str) -> bool:
        """Listen on an address; False if that is done already."""
        host, port = split_address(address)
        if any(split_address(where) == (host, port) for where in [*self._servers, *self.listening()] if ":" in where):
            return False
        self._servers[address] = await listen(address, self._driver, self._config.peers_max)
        return True

    def _tell_reach(self) -> None:
        """Tell the node how others can reach it, if that has changed."""
        listening = self.listening()
        found, unreachable = reachable(listening, self._config.advertise)
        keys = tuple((key.pin, key.certificate) for key in self._driver.trust.keys)
        expires_ms = self._driver.trust.key.expires_ms
        reach = Reach(
            keys,
            found,
            unreachable,
            expires_ms,
            operators(),
            is_listening=bool(listening),
            full_mesh_nodes_max=self._config.full_mesh_nodes_max,
        )
        if reach != self._reach or reach.expires_ms < time.time() * 1000 + EXPIRY_ALARM_MS:
            self._reach = reach
            self._driver.feed(reach)

    async def _meet_neighbours(self) -> None:
        """Say and hear on the local network who is where, in the cluster that this node belongs to by now."""
        from crdtsyncd.cluster.mdns import Neighbours
        from crdtsyncd.security.tls import member_name

        told: tuple[bytes, Reach | None] | None = None
        try:
            while True:
                now = (self._trust.cluster, self._reach)
                if self._neighbours is None or (told is not None and told[0] != now[0]):
                    if self._neighbours is not None:
                        await self._neighbours.stop()
                    self._neighbours = Neighbours(self._driver.node, member_name(now[0]))
                    await self._neighbours.start()
                    self._membership_changed(self._membership)
                if told != now:
                    await self._neighbours.tell(() if now[1] is None else now[1].addresses)
                    told = now
                await asyncio.sleep(MDNS_INTERVAL_S)
        finally:
            if self._neighbours is not None:
                await self._neighbours.stop()

    async def _watch_reach(self) -> None:
        while True:
            tell_left(self._config, self._driver)
            await self._listen_as_before()
            self._renew_in_time()
            await asyncio.sleep(REACH_INTERVAL_S)
            self._tell_reach()

    # -- dialling ----------------------------------------------------------------------------------------------

    def dial(self, urls: list[str]) -> None:
        """Keep connections to these addresses, and to no others but the members'."""
        for url in set(self._seeds) - set(urls):
            self._seeds.pop(url).cancel()
            self._driver.dial_state(url, "forgotten", "")
        for url in urls:
            if url not in self._seeds:
                self._seeds[url] = _watched(dial_forever(url, self._driver))

    def _membership_changed(self, membership: Membership) -> None:
        self._membership = membership
        if self._trust.is_plain:
            return
        is_member = self._driver.node in membership.members
        has_mdns = self._neighbours is not None
        reachable_nodes = {node for node, member in membership.members.items() if member.addresses or has_mdns}
        me, groups = self._driver.node, self._driver.space_groups()
        wanted = self._mesh.choose(me, reachable_nodes, groups) if is_member else set()
        for node in set(self._members) - wanted:
            self._members.pop(node).cancel()
        for node in sorted(wanted - set(self._members)):
            self._members[node] = _watched(
                dial_member_forever(node, self._driver, self._driver.is_node_linked, self._addresses_of)
            )
        self._has_mesh.set() if self._mesh.is_partial else self._has_mesh.clear()

    async def _keep_mesh(self) -> None:
        """In a large cluster see now and then who has not answered, and which spaces there are by now."""
        while True:
            await self._has_mesh.wait()
            await asyncio.sleep(MESH_INTERVAL_S)
            self._membership_changed(self._membership)

    def _addresses_of(self, node: str) -> tuple[str, ...]:
        member = self._membership.members.get(node)
        if member is None:
            return ()
        heard = () if self._neighbours is None else self._neighbours.addresses_of(node)
        return tuple(dict.fromkeys((*heard, *member.addresses)))

    # -- chores ------------------------------------------------------------------------------------------------

    async def _do(self, chore: Chore) -> None:
        try:
            if self._trust.is_plain:
                raise Refused(PLAIN_JOINS_NONE, "not_possible")
            if chore.name in self._rotating:
                self._rotating[chore.name]()
            await self._listen_on(chore.addresses)
            if chore.name == "begin_anew":
                await self._driver.join(os.urandom(CLUSTER_BYTES), {}, chore.number, 0)
                self._reach = None
                self._tell_reach()
                return
            if chore.invite is not None:
                await self._join(chore.invite, chore.addresses, chore.number, keeps_data=chore.keeps_data)
                return
        except DaemonUnavailable as error:
            self._driver.feed(ChoreDone(chore.number, Refused(error.message, "unreachable")))
        except CrdtSyncError as error:
            self._driver.feed(ChoreDone(chore.number, error))
        else:
            self._driver.feed(ChoreDone(chore.number))

    def _make_next_key(self) -> None:
        """Make a second key and let all members know of it."""
        directory = self._config.data_dir
        if self._trust.key.key_path.parent != directory:
            raise Refused(
                f"this node's key is handed over by its service manager ({self._trust.key.key_path}): put it into "
                f"{directory} for as long as it is changed",
                "not_possible",
            )
        self._trust.next_key = make_next_key(directory)
        self._tell_reach()

    def _renew_in_time(self) -> None:
        """Change the key long before its certificate expires; the node uses the new one once others know it."""
        key = self._trust.key
        is_due = key.expires_ms < time.time() * 1000 + RENEWAL_MS and self._trust.next_key is None
        is_member = not self._trust.is_plain and self._driver.node in self._membership.members
        if is_due and is_member and key.key_path.parent == self._config.data_dir:
            log("key_renewal", pin=key.pin, expires=written(key.expires_ms))
            self._make_next_key()

    def _use_next_key(self) -> None:
        """Show the second key from now on, and forget the first. Connections that stand are left alone."""
        if self._trust.next_key is None:
            raise Refused("there is no new key: crdtsync cluster rotate-key makes one", "not_possible")
        use_next_key(self._config.data_dir)
        self._trust.next_key = None
        self._trust.use(load_or_make_key(self._config.data_dir), self._trust.cluster)
        self._tell_reach()
        log("key_changed", pin=self._trust.key.pin)

    async def _listen_on(self, wanted: tuple[str, ...]) -> None:
        made: list[str] = []
        try:
            for address in wanted:
                split_address(address)
                if await self._listen(address):
                    made.append(address)
        except (ValueError, ConfigError) as error:
            for address in made:
                self._servers.pop(address).close()
            raise InvalidRequest(error.message if isinstance(error, ConfigError) else str(error)) from None
        self._tell_reach()

    async def _join_by(self, invite: Invite) -> None:
        is_to_keep = self._config.join_data != "archive" and self._driver.keeps_data(invite)
        await self._join(invite, (), keeps_data=is_to_keep)

    async def _join(
        self, invite: Invite, listen_on: tuple[str, ...], number: int = 0, keeps_data: bool = False
    ) -> Admitted:
        """Be let in, and begin anew as a member: with another database, for every change bears the cluster's id.

        With ``keeps_data`` the database bears that id already, and stays: its changes are the same as the members'.
        """
        own = () if self._reach is None else self._reach.addresses
        if self._trust.key.expires_ms < time.time() * 1000 + RENEWAL_MS:
            self._trust.use(with_new_certificate(self._config.data_dir, self._trust.key), self._trust.cluster)
        admitted = await ask_to_join(invite, self._trust.key, self._config.node_name, own)
        metas = {"told": pack_told(admitted.members)}
        kept = [*listen_on]
        if kept:
            metas[LISTEN_META] = pack(kept)
        node = known_as(admitted.members, self._trust.key.pin)
        if keeps_data:
            self._go_on_in(admitted, metas, number, node)
        else:
            await self._driver.join(admitted.cluster, metas, number, len(admitted.members), node)
        self._reach = None
        self._tell_reach()
        log("joined", cluster=admitted.cluster.hex(), by=admitted.node, members=len(admitted.members))
        return admitted

    def _go_on_in(self, admitted: Admitted, metas: dict[str, bytes], number: int, node: str) -> None:
        if node != self._driver.node:
            raise Refused(
                f"the cluster knows this node's key as that of {node[:12]}, and the data here is of "
                f"{self._driver.node[:12]}: join with --archive, which puts it aside",
                "not_possible",
            )
        self._driver.feed(LetIn(metas["told"], metas.get(LISTEN_META)))
        summary = {"cluster": admitted.cluster.hex(), "node": node, "members": len(admitted.members)}
        self._driver.feed(ChoreDone(number, result={**summary, "archive": None, "kept": True}))


def _watched(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task whose end by a bug is logged: nobody awaits it, and what it did is missed by somebody else, later."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_log_bug)
    return task


def _log_bug(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log("bug", level="error", during="fleet", error="".join(format_exception(error)))


async def _closed(servers: list[Server]) -> None:
    await asyncio.gather(*(server.wait_closed() for server in servers))
