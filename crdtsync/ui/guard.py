"""The guard decides who is let in.

Any program of this machine can connect to a port on loopback, and so can every web page that its user looks at: by a
form that posts to it, by a script, or under a name of its own that it lets resolve to 127.0.0.1. So

- the address that is printed has a word in its fragment, which no server ever sees; the page trades it, once, for a
  cookie that scripts cannot read and that other sites' requests do not carry;
- the cookie goes with one secret path alone, which the page remembers: browsers tell cookies of one host apart by their
  paths, not by their ports, and would hand it to any program that listens on another port;
- a request has to name this server as its host, which stops pages under other names;
- what writes has to come from this very page, by its origin.

The page itself may run and load nothing but its own files, and nobody may frame it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_OPEN = ("/", "/login", "/assets/")
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
PLACE = "/in-"
"""A browser's secret path begins so."""
BROWSERS_MAX = 64
"""That are in at once; the one that came first has to come anew."""


class Doorkeeper:
    """Hands out words that let one browser in each, and knows the browsers that are in, by their cookies.

    ``tell`` gets each new word: one at the start, and one whenever a word was used.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._cookies: dict[str, str] = {}  # by path
        self._word = ""
        self._new_word()

    def _new_word(self) -> None:
        self._word = secrets.token_urlsafe(24)
        self._tell(self._word)

    def let_in(self, word: str) -> tuple[str, str] | None:
        """The path and the cookie for who has the word, which is worth nothing from then on; None for who has not."""
        if not hmac.compare_digest(word.encode(), self._word.encode()):
            return None
        place, cookie = PLACE + secrets.token_urlsafe(24), secrets.token_urlsafe(32)
        kept = list(self._cookies.items())[-BROWSERS_MAX + 1 :]
        self._cookies = {**dict(kept), place: cookie}
        self._new_word()
        return place, cookie

    def is_in(self, place: str, cookie: str) -> bool:
        """Whether a browser that asks under this path shows the cookie that goes with it."""
        known = self._cookies.get(place)
        return known is not None and hmac.compare_digest(cookie.encode(), known.encode())


class Guard:
    """``app``, for this page in a browser that was let in; and with headers that bind the browser."""

    def __init__(self, app: App, keeper: Doorkeeper, hosts: Iterable[str], *, is_tls: bool, cookie: str) -> None:
        self._app = app
        self._keeper = keeper
        self._hosts = {host.lower() for host in hosts}
        self._origins = {f"{'https' if is_tls else 'http'}://{host}" for host in self._hosts}
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app({**scope, "path": _within(scope["path"])[1]}, receive, _with_headers(send))
            return
        status, reason = refusal
        bound = _with_headers(send)
        await bound({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
        await bound({"type": "http.response.body", "body": reason.encode()})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get(b"host", "").lower() not in self._hosts:
            return 421, "this server does not go by that name\n"
        origin = headers.get(b"origin")
        if (origin is None and scope["method"] != "GET") or (origin is not None and origin not in self._origins):
            return 403, "only the page itself may ask\n"
        path = scope["path"]
        if path in _OPEN or path.startswith(_OPEN[2]) or self._keeper.is_in(_within(path)[0], self._shown(headers)):
            return None
        return 401, "this browser is not let in: open the address that crdtsync ui prints\n"

    def _shown(self, headers: dict[bytes, str]) -> str:
        try:
            found = SimpleCookie(headers.get(b"cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return found.value if found else ""


def _within(path: str) -> tuple[str, str]:
    """A browser's secret path, if it begins so, and what is asked for below it."""
    if not path.startswith(PLACE):
        return "", path
    place, _, rest = path[1:].partition("/")
    return f"/{place}", f"/{rest}"


def _with_headers(send: Send) -> Send:
    async def bound(message: Any) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in _HEADERS}
            given = [pair for pair in message.get("headers", []) if pair[0].lower() not in names]
            message = {**message, "headers": [*given, *_HEADERS]}
        await send(message)

    return bound
