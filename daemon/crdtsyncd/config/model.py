"""Configuration: options override the environment, which overrides a TOML file, which overrides the defaults."""

from __future__ import annotations

import os
import re
import socket as sockets
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from crdtsyncd.config.host_port import PEER_PORT_DEFAULT, PLAIN_JOINS_NONE, is_loopback, split_address
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from crdtsync.core.access.quotas import Limits
from crdtsync.core.background.retention_caps import Caps
from crdtsync.core.crdt.uploads import BLOB_BYTES_MAX
from crdtsync.core.storage.long_values import CACHE_BYTES_MAX
from crdtsync.errors import ConfigError, InvalidRequest
from crdtsync.wire.invites import decode_invite
from crdtsync.wire.limits import is_name

SOCKET_PATH_BYTES_MAX = 107
LOG_BYTES_MAX_MIN = 64 * 1024


def _split(value: object) -> object:
    return [part for part in re.split(r"[,\s]+", value) if part] if isinstance(value, str) else value


_DURATION = re.compile(r"(\d{1,15})(ms|[smhd])", re.ASCII)
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration_ms(least: str, most: str) -> Callable[[object], int]:
    def parsed(value: object) -> int:
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise ValueError("must be a duration, such as 500ms, 30s, 10m, 2h or 7d")
        return int(match[1]) * _UNITS_MS[match[2]]

    def checked(value: object) -> int:
        if not parsed(least) <= parsed(value) <= parsed(most):
            raise ValueError(f"must be a duration from {least} to {most}")
        return parsed(value)

    return checked


LogAge = Annotated[int, BeforeValidator(_duration_ms("1m", "36500d"))]
HistoryAge = Annotated[int, BeforeValidator(_duration_ms("0s", "36500d"))]
Strings = Annotated[list[str], BeforeValidator(_split)]


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


class Config(BaseModel):
    """Every setting of the daemon; the table of ``docs/reference/configuration.md`` is made from it. An unknown key in
    a file is an error.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    data_dir: Path = Field(
        default_factory=default_data_dir, description="where the database lives; one daemon at a time"
    )
    socket: Path = Field(
        default_factory=_default_socket,
        description="unix socket for agents, a path of 107 bytes at most. Its directory must survive restarts of the "
        "daemon: the [mark](../explanation/architecture.md#writers-and-the-mark) is kept there",
    )
    socket_mode: str = Field(
        "0660",
        pattern="^0?[0-7]{3}$",
        description="permissions of the socket, octal; see [rights](../how-to/rights.md#without-any-rule-of-yours)",
    )
    listen: Strings = Field(
        [],
        description="`HOST:PORT` to accept peers on; the port is 7420 if left out. Only members of this node's "
        "[cluster](../how-to/cluster.md) are let in",
    )
    advertise: Strings = Field(
        [],
        description="`HOST:PORT` at which peers reach this node, if that is not what it listens on: behind a NAT, or "
        "by a name, which is resolved again at each attempt",
    )
    peers: Strings = Field(
        [],
        description="`HOST:PORT` of peers to connect to, or their URLs (`wss://host-a:7420`), beside the members' own "
        "addresses",
    )
    node_name: str = Field(
        default_factory=default_node_name,
        description="name of this node, shown to people: 1 to 128 of `a-z 0-9 . _ -`, starting with a letter or digit",
    )
    join: str = Field(
        "",
        description="an [invite](../how-to/cluster.md#joining): a node that is no member yet joins as soon as the "
        "inviting node can be reached",
    )
    join_data: Literal["refuse", "merge", "archive"] = Field(
        "refuse",
        description="what `join` does where this node holds data: `merge` brings it along, `archive` puts it aside, as "
        "with [`cluster join`](command-line.md#cluster-join); `refuse` waits, with the alarm "
        "[`not_joined`](alarms.md#not_joined)",
    )
    mdns: bool = Field(
        False,
        description="find [members](../how-to/cluster.md#addresses) on the local network by multicast DNS, which tells "
        "the node's id and a hash of the cluster",
    )
    insecure_loopback: bool = Field(
        False,
        description="plain `ws://`, no TLS; everything that is listened on or dialled must be loopback then",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least severe events to log: `debug`, `info`, `warning`, `error`"
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto",
        description="`console` for people, `json` for programs; `auto`: console on a terminal, else JSON",
    )
    ballast_bytes: int = Field(
        8 * 1024 * 1024,
        ge=0,
        le=1 << 40,
        description="size of a file in `data_dir` that is given up when the disk is nearly full; 0: none",
    )
    free_bytes_min: int = Field(
        8 * 1024 * 1024,
        ge=0,
        le=1 << 50,
        description="below so much free space, agents' writes are refused and peers' changes not taken, until there is "
        "a quarter more",
    )
    log_bytes_max: int = Field(
        64 * 1024 * 1024,
        ge=LOG_BYTES_MAX_MIN,
        le=1 << 50,
        description="size of a space's log of changes on disk; 65536 at least. Peers and watchers that were away, and "
        "missed more than it holds, start over from the state",
    )
    log_age_max: LogAge = Field(
        "7d",
        validate_default=True,
        description="how old a change in the log may get: `30s`, `10m`, `2h`, `7d`; `1m` at least",
    )
    history_bytes_max: int = Field(
        64 * 1024 * 1024,
        ge=0,
        le=1 << 50,
        description="size of a space's history: what was replaced and deleted",
    )
    history_age_max: HistoryAge = Field(
        "30d", validate_default=True, description="how old what is in the history may get"
    )
    value_cache_bytes: int = Field(
        CACHE_BYTES_MAX,
        ge=0,
        le=1 << 50,
        description="memory for values over 512 bytes that were written or read lately; others are read from disk",
    )
    blob_bytes_max: int = Field(BLOB_BYTES_MAX, ge=1, le=1 << 50, description="size of a blob that is put here")
    voters: Strings = Field(
        [],
        description="ids of the nodes that vote on claims by quorum, the same list on every host, never changed",
    )
    metrics_listen: str = Field(
        "",
        description="`HOST:PORT` on a loopback address that answers Prometheus; see "
        "[Prometheus](metrics.md#prometheus). Empty: none",
    )
    metrics_spaces: Literal["open", "all", "none"] = Field(
        "open",
        description="which spaces [that names](metrics.md#prometheus): `open`, those that the socket's group may read; "
        "`all`; `none`",
    )
    agents_max: int = Field(4096, ge=1, le=1_000_000, description="how many agents may be attached at once")
    agent_requests_per_s_max: int = Field(
        100_000,
        ge=1,
        le=1 << 50,
        description="requests a second of one agent, over all its connections. See [quotas](../how-to/rights.md#quotas)"
        ", as for the next three",
    )
    agent_bytes_per_s_max: int = Field(
        256 * 1024 * 1024, ge=1, le=1 << 50, description="bytes of requests that write, a second"
    )
    agent_watches_max: int = Field(10_000, ge=1, le=1 << 50, description="watches and resolvers of one agent")
    agent_connections_max: int = Field(1024, ge=1, le=1 << 50, description="connections of one agent")
    full_mesh_nodes_max: int = Field(
        16,
        ge=2,
        le=1000,
        description="up to so many members of the [cluster](../how-to/cluster.md#large-clusters), each dials all "
        "others; of more it dials a few",
    )
    peers_max: int = Field(256, ge=1, le=100_000, description="how many peer connections may be open at once")

    @property
    def version(self) -> str:
        """The version of this daemon; here, since to look it up takes longer than all else that a start
        does with it.
        """
        return version("crdtsync")

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

    @field_validator("node_name")
    @classmethod
    def _name(cls, name: str) -> str:
        if not is_name(name):
            raise ValueError("must be 1 to 128 of a-z 0-9 . _ - and start with a letter or digit")
        return name

    @field_validator("listen", "advertise")
    @classmethod
    def _addresses(cls, addresses: list[str]) -> list[str]:
        for address in addresses:
            split_address(address)
        return addresses

    @field_validator("metrics_listen")
    @classmethod
    def _metrics_are_local(cls, address: str) -> str:
        if address:
            host, _ = split_address(address)
            if not is_loopback(host):
                raise ValueError(
                    f"{host!r} is not a loopback address: the figures go to a collector on this machine, "
                    "such as 127.0.0.1:9742"
                )
            if urlsplit(f"//{address}").port is None:
                raise ValueError("needs a port, such as 127.0.0.1:9742")
        return address

    @field_validator("peers")
    @classmethod
    def _urls(cls, given: list[str]) -> list[str]:
        urls = [url if "://" in url else f"wss://{url}" for url in given]
        for url in urls:
            if not _is_peer_url(url):
                raise ValueError(
                    f"{url!r} is not a peer's address, such as host-a:{PEER_PORT_DEFAULT} or its URL wss://… "
                    f"(or ws://127.0.0.1:{PEER_PORT_DEFAULT} with insecure_loopback = true)"
                )
        return urls

    @field_validator("join")
    @classmethod
    def _invite(cls, invite: str) -> str:
        if invite:
            try:
                decode_invite(invite)
            except InvalidRequest as error:
                raise ValueError(error.message) from None
        return invite

    @field_validator("data_dir", "socket")
    @classmethod
    def _path(cls, path: Path) -> Path:
        if "\0" in str(path):
            raise ValueError("must be a path")
        return path

    @field_validator("socket")
    @classmethod
    def _socket_path(cls, path: Path) -> Path:
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
            raise ValueError(
                f"is {len(os.fsencode(path))} bytes long; the path of a unix socket may have {SOCKET_PATH_BYTES_MAX}: "
                "choose a shorter one"
            )
        return path

    @model_validator(mode="after")
    def _plain_text_is_local(self) -> Config:
        if not self.insecure_loopback:
            plain = next((url for url in self.peers if urlsplit(url).scheme == "ws"), None)
            if plain is not None:
                raise ValueError(
                    f"{plain!r} is plain text, which needs insecure_loopback = true and a loopback address: "
                    "between hosts there is TLS alone (wss://HOST:PORT)"
                )
            return self
        secure = next((url for url in self.peers if urlsplit(url).scheme == "wss"), None)
        if secure is not None:
            raise ValueError(
                f"peers: {secure!r} is reached by TLS, and insecure_loopback = true speaks plain text alone: "
                f"ws://127.0.0.1:{PEER_PORT_DEFAULT}"
            )
        if self.join:
            raise ValueError(f"join: {PLAIN_JOINS_NONE}")
        hosts = [split_address(address)[0] for address in self.listen] + [
            str(urlsplit(url).hostname) for url in self.peers
        ]
        for host in hosts:
            if not is_loopback(host):
                raise ValueError(
                    f"{host!r} is not a loopback address: plain ws:// is for 127.0.0.0/8, [::1] and localhost only"
                )
        return self


def _is_peer_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


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
    variables = {name: f"CRDTSYNC_{name.upper()}" for name in Config.model_fields}
    in_environment = {name: os.environ[variable] for name, variable in variables.items() if variable in os.environ}
    try:
        return Config.model_validate({**from_file, **in_environment, **options})
    except ValidationError as error:
        where = f"{source}: " if source is not None else ""
        raise ConfigError(where + "; ".join(_sentence(fault) for fault in error.errors())) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


_PLAINER = {"path_type": "must be a path"}


def _sentence(fault: Any) -> str:
    name = ".".join(str(part) for part in fault["loc"][:1])
    if fault["type"] == "extra_forbidden":
        return f"there is no setting {name!r}; the settings are {', '.join(sorted(Config.model_fields))}"
    message = _PLAINER.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))
    given = str(fault["input"]) if isinstance(fault["input"], Path) else fault["input"]
    return f"{name} = {given!r}: {message}" if name else message
