"""The connection of one command: from its settings to a client, which knows the environment itself."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crdtsyncd.cli.command import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import click
    from click.shell_completion import CompletionItem

    from crdtsync.client import AsyncClient, Client, Entry, Session
    from crdtsync.client.values.points import Point

CLIENT_TIMEOUT_S = 30.0
COMPLETION_TIMEOUT_S = 1.0
_PAGE_KEYS = 1000
_PAGE_VALUES = 64  # each may have 1 MiB


@contextlib.contextmanager
def connect(settings: Settings) -> Iterator[Client]:
    """A client for these settings, closed at the end of the block.

    Raises :class:`~crdtsync.errors.DaemonUnavailable` when no daemon answers.
    """
    from crdtsync.client import Client

    with Client(**_arguments(settings)) as client:
        yield client


def async_client(settings: Settings) -> AsyncClient:
    """The same for asyncio; it attaches, and is closed, as a context."""
    from crdtsync.client import AsyncClient

    return AsyncClient(**_arguments(settings))


def _arguments(settings: Settings) -> dict[str, Any]:
    return {
        "socket": settings.socket,
        "space": settings.space,
        "agent": settings.agent,
        "after": settings.after,
        "timeout": CLIENT_TIMEOUT_S if settings.timeout is None else settings.timeout,
        "agent_key": settings.agent_key,
    }


def past(client: Client, at: Point | None) -> Session:
    """What reads as of a point of the past, if one is given."""
    return client if at is None else client.session(at=at)


def completed(context: click.Context, beginning: str, ask: Callable[[Client], Iterable[str]]) -> list[CompletionItem]:
    """Words that begin so, of those that the daemon gives; none rather than an error: a shell cannot show one."""
    from click.shell_completion import CompletionItem

    from crdtsync.errors import CrdtSyncError

    settings = context.find_root().ensure_object(Settings)
    found: list[str] = []
    with (
        contextlib.suppress(CrdtSyncError, OSError),
        connect(replace(settings, timeout=COMPLETION_TIMEOUT_S)) as client,
    ):
        found = [word for word in ask(client) if word.startswith(beginning)]
    return [CompletionItem(word) for word in found]


def space_names(client: Client) -> list[str]:
    """The spaces that this node holds."""
    return sorted(space["name"] for space in client.status()["spaces"])


def node_names(client: Client) -> list[str]:
    """All nodes that this one knows, by name."""
    return sorted({str(peer["name"]) for peer in client.status()["peers"] if peer.get("name")})


def all_conflicts(client: Client, prefix: str) -> Iterator[Entry]:
    """All entries with siblings under a prefix, page by page."""
    start: str | None = None
    while True:
        page = client.conflicts(prefix, start=start, limit=_PAGE_VALUES)
        yield from page
        if len(page) < _PAGE_VALUES:
            return
        start = page[-1].key


def all_keys(client: Session, prefix: str) -> Iterator[str]:
    """All keys under a prefix, page by page, so that the first are there before the last are read."""
    start: str | None = None
    while True:
        page = client.keys(prefix, start=start, limit=_PAGE_KEYS)
        yield from page
        if len(page) < _PAGE_KEYS:
            return
        start = page[-1]


def all_entries(client: Session, prefix: str, *, values: bool) -> Iterator[Entry]:
    """All entries under a prefix as a scan has them, page by page; what is long without its value."""
    start: str | None = None
    wanted = _PAGE_VALUES if values else _PAGE_KEYS
    while True:
        page = client.entries(prefix, start=start, limit=wanted, values=values)
        yield from page
        if len(page) < wanted:
            return
        start = page[-1].key
