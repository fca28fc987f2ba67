"""Configuration: options override the environment, which overrides a TOML file, which overrides the defaults.

A start waits for it, so it imports little.
"""

from __future__ import annotations

import os
import re
import socket as sockets
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from crdtsyncd.config import checks
from crdtsyncd.config.host_port import PEER_PORT_DEFAULT, PLAIN_JOINS_NONE, is_loopback, split_address

from crdtsync.core.access.quotas import Limits
from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.crdt.uploads import BLOB_BYTES_MAX
from crdtsync.core.storage.long_values import CACHE_BYTES_MAX
from crdtsync.errors import ConfigError
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LOG_BYTES_MAX_MIN = 64 * 1024


def default_node_name() -> str:
    """The host's name, made to fit."""
    name = re.sub(r"[^a-z0-9._-]+", "-", sockets.gethostname().lower()).strip("-._")[:128]
    return name or "node"


def default_data_dir() -> Path:
    """Where the database lives if nothing is said: in the user's state directory."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "crdtsync"


def _default_socket() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "crdtsync" / "agent.sock"
    if os.geteuid() == 0:
        return Path("/run/crdtsync/agent.sock")
    return default_data_dir() / "agent.sock"


class Setting(NamedTuple):
    """What may be said for a setting (:mod:`~crdtsyncd.config.checks`), its default or what makes it, its meaning."""

    check: Callable[[object], Any]
    default: Any
    description: str


def _setting(check: Callable[[object], Any], default: Any, description: str) -> Any:
    """Stands where each :class:`Config` has the value; the annotation is the value's."""
    return Setting(check, default, description)


class Config:
    """Every setting of the daemon.

    :raises ConfigError: a sentence for each fault, naming the setting, its value and what is allowed.
    """

    data_dir: Path = _setting(checks.path, default_data_dir, "where the database lives")
    socket: Path = _setting(checks.socket_path, _default_socket, "unix socket for agents")
    socket_mode: str = _setting(checks.socket_mode, "0660", "permissions of that socket")
    listen: list[str] = _setting(checks.addresses, [], "HOST:PORT to accept peers on")
    advertise: list[str] = _setting(checks.addresses, [], "HOST:PORT at which peers reach this node")
    peers: list[str] = _setting(checks.peer_urls, [], "HOST:PORT of peers to connect to, or their URLs")
    node_name: str = _setting(checks.node_name, default_node_name, "name of this node, shown to people")
    join: str = _setting(checks.invite, "", "invite to a cluster, which this node joins unless it is a member already")
    join_data: str = _setting(
        checks.one_of("refuse", "merge", "archive"),
        "refuse",
        "what to do by join where this node holds data: bring it along, or put it aside",
    )
    mdns: bool = _setting(checks.truth, False, "find members on the same network by multicast DNS")
    insecure_loopback: bool = _setting(
        checks.truth, False, "allow plain ws:// between addresses of this machine's loopback"
    )
    log_level: str = _setting(checks.one_of("debug", "info", "warning", "error"), "info", "least severe events to log")
    log_format: str = _setting(
        checks.one_of("auto", "console", "json"), "auto", "auto: console on a terminal, else JSON"
    )
    ballast_bytes: int = _setting(
        checks.number(0, 1 << 40), 8 * 1024 * 1024, "size of a file given up when the disk is full"
    )
    free_bytes_min: int = _setting(
        checks.number(0, 1 << 50), 8 * 1024 * 1024, "below so much free space, writes are refused"
    )
    log_bytes_max: int = _setting(
        checks.number(LOG_BYTES_MAX_MIN, 1 << 50), 64 * 1024 * 1024, "size of a space's log of changes"
    )
    log_age_max: int = _setting(checks.duration_ms("1m", "36500d"), "7d", "age of the changes in it")
    history_bytes_max: int = _setting(
        checks.number(0, 1 << 50), 64 * 1024 * 1024, "size of a space's history of what was replaced and deleted"
    )
    history_age_max: int = _setting(checks.duration_ms("0s", "36500d"), "30d", "age of what is in it")
    value_cache_bytes: int = _setting(
        checks.number(0, 1 << 50), CACHE_BYTES_MAX, "memory for values that were read from disk or written lately"
    )
    blob_bytes_max: int = _setting(checks.number(1, 1 << 50), BLOB_BYTES_MAX, "size of a blob that is put here")
    voters: list[str] = _setting(
        checks.texts,
        [],
        "ids of the nodes that vote on claims by quorum, the same list on every host; it is never changed",
    )
    metrics_listen: str = _setting(
        checks.local_address, "", "HOST:PORT on loopback that serves /metrics for Prometheus; empty: none"
    )
    metrics_spaces: str = _setting(
        checks.one_of("open", "all", "none"),
        "open",
        "which spaces /metrics names: open to the socket's group, all, or none",
    )
    agents_max: int = _setting(
        checks.number(1, 1_000_000),
        4096,
        "how many agents may be attached at once; one user gets three times as many as are free",
    )
    agent_requests_per_s_max: int = _setting(
        checks.number(1, 1 << 50), 100_000, "requests a second of one agent, over all its connections"
    )
    agent_bytes_per_s_max: int = _setting(
        checks.number(1, 1 << 50), 256 * 1024 * 1024, "bytes of writes a second of one agent"
    )
    agent_watches_max: int = _setting(checks.number(1, 1 << 50), 10_000, "watches and resolvers of one agent")
    agent_connections_max: int = _setting(checks.number(1, 1 << 50), 1024, "connections of one agent")
    full_mesh_nodes_max: int = _setting(
        checks.number(2, 1000), 16, "up to so many members, each is connected to all others"
    )
    peers_max: int = _setting(checks.number(1, 100_000), 256, "how many peer connections may be open at once")

    def __init__(self, /, **given: Any) -> None:
        self.given = frozenset(given)
        faults = []
        for name, (check, default, _) in SETTINGS.items():
            value = given[name] if name in given else default() if callable(default) else default
            try:
                setattr(self, name, check(value))
            except ValueError as error:
                faults.append(f"{name} = {str(value) if isinstance(value, Path) else value!r}: {error}")
        unknown = [name for name in given if name not in SETTINGS]
        faults += [f"there is no setting {name!r}; the settings are {', '.join(sorted(SETTINGS))}" for name in unknown]
        if not faults:
            faults = [fault for fault in [self._plain_text_elsewhere()] if fault]
        if faults:
            raise ConfigError("; ".join(faults))

    @property
    def caps(self) -> Caps:
        """The caps of a space beside its live state."""
        return Caps(self.log_bytes_max, self.log_age_max, self.history_bytes_max, self.history_age_max)

    @property
    def limits(self) -> Limits:
        """The quotas of each agent."""
        return Limits(
            self.agent_requests_per_s_max,
            self.agent_bytes_per_s_max,
            self.agent_watches_max,
            self.agent_connections_max,
        )

    def _plain_text_elsewhere(self) -> str:
        """What is wrong if plain text would leave this machine, or nothing."""
        if not self.insecure_loopback:
            plain = next((url for url in self.peers if urlsplit(url).scheme == "ws"), None)
            if plain is not None:
                return (
                    f"{plain!r} is plain text, which needs insecure_loopback = true and a loopback address: "
                    "between hosts there is TLS alone (wss://HOST:PORT)"
                )
            return ""
        secure = next((url for url in self.peers if urlsplit(url).scheme == "wss"), None)
        if secure is not None:
            return (
                f"peers: {secure!r} is reached by TLS, and insecure_loopback = true speaks plain text alone: "
                f"ws://127.0.0.1:{PEER_PORT_DEFAULT}"
            )
        if self.join:
            return f"join: {PLAIN_JOINS_NONE}"
        hosts = [split_address(address)[0] for address in self.listen] + [
            str(urlsplit(url).hostname) for url in self.peers
        ]
        for host in hosts:
            if not is_loopback(host):
                return f"{host!r} is not a loopback address: plain ws:// is for 127.0.0.0/8, [::1] and localhost only"
        return ""


SETTINGS = {name: found for name, found in vars(Config).items() if isinstance(found, Setting)}


def config_path() -> Path | None:
    """The configuration file in force when none is named, if there is one."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    for path in (Path(base) / "crdtsync" / "crdtsyncd.toml", Path("/etc/crdtsync/crdtsyncd.toml")):
        if path.is_file():
            return path
    return None


def load_config(path: Path | None, options: dict[str, Any]) -> Config:
    """Options over environment over file over defaults.

    :raises ConfigError: a sentence for each fault, naming the setting, its value and what is allowed.
    """
    source = path or config_path()
    from_file = {} if source is None else _read(source)
    variables = {name: f"CRDTSYNC_{name.upper()}" for name in SETTINGS}
    in_environment = {name: os.environ[variable] for name, variable in variables.items() if variable in os.environ}
    try:
        return Config(**{**from_file, **in_environment, **options})
    except ConfigError as error:
        raise ConfigError(f"{source}: {error.message}" if source is not None else error.message) from None


def _read(path: Path) -> dict[str, Any]:
    import tomllib  # where there is a file

    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
