"""Subscriptions: a client is told when an entry, a view, a saved session or the state has changed, and reads it again
if it likes.

Clients of the protocol since 2026-07-28 listen to one stream of events, which the SDK serves from a bus. Older ones
subscribe to one resource at a time. Both are served from one watch on the space, which goes on as long as somebody
listens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)
from mcp_types import (
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from crdtsync.client import AsyncSession
from crdtsync.context.view.definition import VIEWS, Definition, definition_from
from crdtsync.errors import CrdtSyncError
from crdtsync.mcp.session import SESSION_HEADER, Callers, failure, told
from crdtsync.sessions.saved.header import HEADERS

KEY = "crdtsync://key/{+key}"
VIEW = "crdtsync://view/{name}"
SESSION = "crdtsync://session/{id}"
STATE = "crdtsync://state"
SUBSCRIPTIONS_MAX = 1_000
"""Subscriptions of older clients; the SDK bounds those of newer ones."""
_AS_IT_IS = "/:?#[]@!$&'()*+,;="  # in an URI, by RFC 6570

_log = logging.getLogger(__name__)


class Bus(InMemorySubscriptionBus):
    """What has changed, for all listeners of one server."""

    def __init__(self, sessions: Callers) -> None:
        super().__init__()
        self._sessions = sessions
        self._following: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Begin to watch; whatever changes after the return is told to who subscribes then."""
        async with self._starting:
            if self._following is None or self._following.done():
                session = self._sessions.some()
                async with told(failure):
                    token = await session.now()
                self._following = asyncio.create_task(self._follow(session, token))

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """As of the SDK's; the watch ends with the last listener."""
        unsubscribe = super().subscribe(listener)

        def end() -> None:
            unsubscribe()
            if not self._listeners:
                self.close()

        return end

    def close(self) -> None:
        """End the watch."""
        if self._following is not None:
            self._following.cancel()
            self._following = None

    async def _follow(self, session: AsyncSession, token: str) -> None:
        try:
            views, saved = await _views(session), set(await session.keys(HEADERS))
            async with session.watch(after=token) as events:
                async for event in events:
                    keys = sorted({one.key for one in event.events or [event] if one.key is not None})
                    is_view = any(key.startswith(VIEWS) for key in keys)
                    views = await _views(session) if is_view else views
                    is_saved = any(key.startswith(HEADERS) for key in keys)
                    before, saved = saved, set(await session.keys(HEADERS)) if is_saved else saved
                    if is_view or saved != before:
                        await self.publish(ResourcesListChanged())
                    for uri in _uris(keys, views):
                        await self.publish(ResourceUpdated(uri=uri))
        except CrdtSyncError as error:
            _log.warning("changes are no longer told to who has subscribed: %s", error.message)


async def _views(session: AsyncSession) -> dict[str, Definition]:
    found = {}
    for key, stored in await session.items(VIEWS):
        with suppress(CrdtSyncError):  # somebody stored something else there
            found[key[len(VIEWS) :]] = definition_from(key[len(VIEWS) :], stored)
    return found


def _uris(keys: list[str], views: dict[str, Definition]) -> list[str]:
    """The resources that are not what they were, now that ``keys`` have changed."""
    shown = [VIEW.replace("{name}", quote(name, safe="")) for name, definition in views.items()
             if any(key == VIEWS + name or definition.covers(key) for key in keys)]  # fmt: skip
    shown += [SESSION.replace("{id}", quote(key[len(HEADERS) :], safe="")) for key in keys if key.startswith(HEADERS)]
    return [*(KEY.replace("{+key}", quote(key, safe=_AS_IT_IS)) for key in keys), *shown, *([STATE] if keys else [])]


class _Listening(ListenHandler):
    """The SDK's, which begins when changes are watched."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._changes = bus

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        await self._changes.start()
        return await super().__call__(ctx, params)


def offer(server: MCPServer, bus: Bus) -> None:
    """Let the clients of ``server`` subscribe to what ``bus`` tells."""
    subscribed: dict[tuple[str, str], Callable[[], None]] = {}
    sending: set[asyncio.Task[None]] = set()

    async def subscribe(ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        name, asked = _caller(ctx, params.uri), unquote(params.uri)
        if len(subscribed) >= SUBSCRIPTIONS_MAX:
            raise ResourceError(f"{SUBSCRIPTIONS_MAX:,} resources are subscribed to already: unsubscribe from some")
        await bus.start()

        def deliver(event: ServerEvent) -> None:
            if isinstance(event, ResourceUpdated) and unquote(event.uri) == asked:
                task = asyncio.create_task(ctx.session.send_resource_updated(params.uri))
                sending.add(task)
                task.add_done_callback(sending.discard)

        if name not in subscribed:
            subscribed[name] = bus.subscribe(deliver)
        return EmptyResult()

    async def unsubscribe(ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        end = subscribed.pop(_caller(ctx, params.uri), None)
        if end is not None:
            end()
        return EmptyResult()

    inner = server._lowlevel_server  # noqa: SLF001  # the SDK's outer server has no words for these requests
    inner.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    inner.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)
    inner.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, _Listening(bus))


def _caller(ctx: ServerRequestContext[Any, Any], uri: str) -> tuple[str, str]:
    headers = getattr(ctx.request, "headers", None) or {}
    return headers.get(SESSION_HEADER, ""), uri
