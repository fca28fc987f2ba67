"""Where a trial cluster keeps what it needs: ports, and a directory with data, socket, log and settings of nodes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

NODES_MAX = 16
SOCKET_PATH_BYTES_MAX = 107
"""As in :mod:`crdtsyncd.config.model`, whose import would cost a fifth of a second before the first daemon starts."""

_SHORT_PREFIX_CHARS_MAX = 12


class ClusterError(Exception):
    """The cluster cannot run; the message is one sentence for the person at the keyboard."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The files and the address of one node."""

    number: int
    directory: Path
    port: int

    @property
    def name(self) -> str:
        """The node's name."""
        return f"node-{self.number}"

    @property
    def socket(self) -> Path:
        """The socket for its agents; short, for the path of a socket has a limit and people type it."""
        return self.directory / f"{self.number}.sock"

    @property
    def log(self) -> Path:
        """The file of its daemon's log."""
        return self.directory / f"{self.number}.log"

    @property
    def config(self) -> Path:
        """Its daemon's settings."""
        return self.directory / f"{self.number}.toml"

    @property
    def url(self) -> str:
        """Where its peers reach it."""
        return f"ws://127.0.0.1:{self.port}"

    def write_config(self, everyone: list[NodePlace]) -> None:
        """Write the settings: every node dials every other, so that one that comes back is met at once."""
        settings = {
            "node_name": self.name,
            "data_dir": str(self.directory / str(self.number)),
            "socket": str(self.socket),
            "listen": [f"127.0.0.1:{self.port}"],
            "peers": [other.url for other in everyone if other is not self],
            "insecure_loopback": True,
        }
        # JSON's strings, numbers, booleans and lists are TOML too.
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
        self.config.write_text("".join(lines), encoding="utf-8")


@contextmanager
def prepared(nodes: int, directory: Path | None) -> Iterator[list[NodePlace]]:
    """The places of ``nodes`` nodes, in ``directory`` or a temporary one that is removed at the end.

    :raises ClusterError: the directory cannot be used, or another cluster uses it.
    """
    with ExitStack() as stack:
        root = _temporary(stack) if directory is None else _kept(stack, directory)
        longest = root / f"{nodes}.sock"
        if len(os.fsencode(longest)) > SOCKET_PATH_BYTES_MAX:
            raise ClusterError(
                f"{longest} is too long for a socket, whose path may have {SOCKET_PATH_BYTES_MAX} bytes: "
                "choose a shorter --dir"
            )
        places = [NodePlace(number, root, port) for number, port in enumerate(_reserved(stack, nodes), 1)]
        for place in places:
            place.write_config(places)
        yield places


def _temporary(stack: ExitStack) -> Path:
    short = len(tempfile.gettempdir()) <= _SHORT_PREFIX_CHARS_MAX or not Path("/tmp").is_dir()  # noqa: S108  # see below
    # mkdtemp makes a directory of our own with mode 0700, wherever it is.
    root = Path(tempfile.mkdtemp(prefix="cs-", dir=None if short else "/tmp"))  # noqa: S108
    stack.callback(shutil.rmtree, root, ignore_errors=True)
    return root


def _kept(stack: ExitStack, directory: Path) -> Path:
    root = directory.absolute()
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ClusterError(f"cannot use the directory {root}: {error.strerror}; choose another --dir") from None
    stack.callback(os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ClusterError(f"another cluster runs in {root}: stop it, or choose another --dir") from None
    return root


def _reserved(stack: ExitStack, count: int) -> list[int]:
    """Free ports on loopback that stay ours as long as ``stack`` is open.

    Each is held by a socket that is bound and never listens: the system gives the port to nobody else, and our daemon
    may listen on it beside that socket, since both set SO_REUSEADDR (socket(7)), also when it is started again.
    """
    ports = []
    for _ in range(count):
        holder = stack.enter_context(socket.socket())
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        ports.append(holder.getsockname()[1])
    return ports


def last_log_line(place: NodePlace) -> str:
    """The last thing that a node's daemon said, as a person reads it; empty if nothing."""
    with suppress(OSError), place.log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        lines = file.read().decode(errors="replace").split("\n")
        return next((readable(line) for line in reversed(lines) if line.strip()), "")
    return ""


def readable(line: str) -> str:
    """A log line without its JSON."""
    try:
        fields = json.loads(line)
    except ValueError:
        return line.strip()
    if not isinstance(fields, dict):
        return line.strip()
    event = fields.pop("event", "")
    reason = fields.get("reason") or fields.get("message")
    if reason:
        return f"{event}: {reason}"
    shown = [f"{name}={value}" for name, value in fields.items() if name not in ("timestamp", "level")]
    return " ".join([event, *shown])
