"""The port on which Yjs editors join: ``ws://127.0.0.1:7479/yjs/SPACE/KEY?token=…&agent=…``.

A page cannot set headers of a websocket, so the token is in the address. Pages of other origins than loopback's are
refused unless they are named, and so are requests for another host, which stops pages that have a name resolve to
loopback.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from logging import CRITICAL, getLogger
from typing import TYPE_CHECKING, Any
from unicodedata import normalize
from urllib.parse import parse_qsl, unquote, urlsplit

from crdtsync.client import AsyncClient
from crdtsync.context.extras import need
from crdtsync.errors import CrdtSyncError, NotAllowed
from crdtsync.loopback import is_loopback, listening
from crdtsync.yjs.carets import Carets, Viewer
from crdtsync.yjs.editor import Editor, ending

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

INTERNAL_ERROR = 1011
EDITORS_MAX = 200
"""That are connected to one server."""
MESSAGE_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of a message of an editor; the daemon takes less in one edit, and says so."""


@dataclass
class Server:
    """The server knows who may connect, and who is here. Editors that give no name write under that of ``client``.

    ``has_key``: the client has proved its name with a key, so the daemon judges the names of editors.
    """

    client: AsyncClient
    token: str
    origins: Collection[str] = ()
    read_only: bool = False
    has_key: bool = False
    _here: int = 0
    _carets: dict[tuple[str, str], Carets] = field(default_factory=dict)

    async def serve(self, host: str, port: int, ready: Callable[[str], None]) -> None:
        """Serve until cancelled; ``ready`` is called with the address.

        Raises :class:`~crdtsync.errors.InvalidRequest` for a host that is not loopback, and OSError if the port is
        taken.
        """
        serve = need("websockets.asyncio.server", "daemon").serve
        with listening(host, port) as listener:
            options: dict[str, Any] = {"max_size": MESSAGE_BYTES_MAX, "compression": None, "server_header": None}
            silent = getLogger("crdtsync.yjs.handshakes")  # anybody may send anything to a port
            silent.setLevel(CRITICAL)
            async with serve(
                self._edit, sock=listener, process_request=self._judge, logger=silent, **options
            ) as running:
                name = f"[{host}]" if ":" in host else host
                ready(f"ws://{name}:{listener.getsockname()[1]}/yjs")
                await running.serve_forever()

    def _judge(self, connection: ServerConnection, request: Request) -> Response | None:
        """Why a request is refused."""
        address = _address(request.path)
        shown = address.token if address else ""
        hosts = request.headers.get_all("Host")
        if not hosts or not all(_is_local(f"http://{host}") for host in hosts):
            return connection.respond(HTTPStatus.MISDIRECTED_REQUEST, "ask for an address of loopback\n")
        origins = request.headers.get_all("Origin")
        if not all(origin in self.origins or _is_local(origin) for origin in origins):
            return connection.respond(HTTPStatus.FORBIDDEN, "pages of this origin may not: see --origin\n")
        if not hmac.compare_digest(shown.encode(), self.token.encode()):
            return connection.respond(HTTPStatus.UNAUTHORIZED, "show the token of this server: ?token=…\n")
        if self._here >= EDITORS_MAX:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"{EDITORS_MAX} editors are here already\n")
        return None

    async def _edit(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        address = _address(connection.request.path)
        assert address is not None  # it has shown the token
        place = address.space, address.key
        carets = Viewer(self._carets.setdefault(place, Carets()))
        self._here += 1
        try:
            async with AsyncExitStack() as stack:
                await self._check_name(address.agent)
                session = self.client.session(address.agent, space=address.space)
                stack.push_async_callback(session.close)
                await Editor(connection, session, address.key, carets, read_only=self.read_only).run()
        except CrdtSyncError as error:
            await connection.close(*ending(error))
        finally:
            await connection.close(INTERNAL_ERROR)  # if it is open still
            self._here -= 1
            if carets.close():
                self._carets.pop(place, None)

    async def _check_name(self, name: str | None) -> None:
        """Refuse a page the name of an agent with a key, which root and the daemon's user, as whom this may run, could
        write under.

        :raises NotAllowed: it is one, or reads like one.
        """
        if name is None or self.has_key:
            return
        taken = {agent["name"] for agent in await self.client.agent_list()}  # none if the daemon judges names
        if not taken.isdisjoint((name, normalize("NFKC", name).casefold())):
            message = f"the agent name {name} can be used with its key alone: choose another name, or start a server"
            raise NotAllowed(f"{message} with that key")


@dataclass(frozen=True, slots=True)
class _Address:
    space: str
    key: str
    token: str
    agent: str | None


def _address(path: str) -> _Address | None:
    """``/yjs/SPACE/KEY?token=…&agent=…``; a key may have slashes."""
    parts = urlsplit(path)
    room, _, rest = parts.path.removeprefix("/").partition("/")
    space, _, key = rest.partition("/")
    if room != "yjs" or not space or not key:
        return None
    given = dict(parse_qsl(parts.query))
    return _Address(unquote(space), unquote(key), given.get("token", ""), given.get("agent"))


def _is_local(origin: str) -> bool:
    try:
        host = urlsplit(origin).hostname or ""
    except ValueError:
        return False
    return host == "localhost" or is_loopback(host)


def is_origin(given: str) -> bool:
    """Whether a browser may send that as the origin of a page; ``null`` is that of a file."""
    try:
        parts = urlsplit(given)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    shown = f"[{host}]" if host and ":" in host else host
    wanted = f"{parts.scheme}://{shown}" + ("" if port is None else f":{port}")
    return given == "null" or (bool(host) and given == wanted)
