"""The connection of one command: from its settings to a client, which knows the environment itself."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from crdtsyncd.cli.command import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import click
    from click.shell_completion import CompletionItem

    from crdtsync.client import AsyncClient, Client, Entry, Session
    from crdtsync.client.values.points import Point

T = TypeVar("T")

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
    """A session that reads as of a point of the past, if one is given."""
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


def all_conflicts(client: Client, prefix: str) -> Iterator[Entry]:
    """All entries with siblings under a prefix."""
    return _paged(client.conflicts, prefix, _PAGE_VALUES, attrgetter("key"))


def all_keys(client: Session, prefix: str) -> Iterator[str]:
    """All keys under a prefix."""
    return _paged(client.keys, prefix, _PAGE_KEYS, str)


def all_entries(client: Session, prefix: str, *, values: bool) -> Iterator[Entry]:
    """All entries under a prefix as a scan has them; what is long without its value."""
    read = partial(client.entries, values=values)
    return _paged(read, prefix, _PAGE_VALUES if values else _PAGE_KEYS, attrgetter("key"))


def _paged(read: Callable[..., Sequence[T]], prefix: str, wanted: int, key_of: Callable[[T], str]) -> Iterator[T]:
    """All that ``read`` gives, page by page, so that the first are there before the last are read."""
    start: str | None = None
    while True:
        page = read(prefix, start=start, limit=wanted)
        yield from page
        if len(page) < wanted:
            return
        start = key_of(page[-1])
