"""Where everybody's caret is in one key, and the names beside them: what Yjs calls awareness.

It is told among the editors of this server alone, and stored nowhere. The highest clock of a replica counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from crdtsync.yjs.messages import CARETS_MAX, Caret

CARET_BYTES_MAX = 16 * 1024
"""Bytes of what one replica tells of itself; more is not shown."""

OWN_MAX = 16
"""Replicas that one editor speaks for; more are not shown."""


class Carets:
    """Those of one key."""

    def __init__(self) -> None:
        self._shown: dict[int, Caret] = {}
        self.viewers: set[Viewer] = set()

    def all(self) -> list[Caret]:
        """All carets that there are now."""
        return list(self._shown.values())

    def show(self, carets: Iterable[Caret]) -> set[int]:
        """Tell all viewers what is news of this; the replicas that have not gone."""
        news = [caret for caret in carets if self._is_news(caret)]
        for caret in news:
            self._shown[caret.client] = caret
            if caret.has_gone:
                del self._shown[caret.client]
        for viewer in self.viewers:
            viewer.tell(news)
        return {caret.client for caret in news if not caret.has_gone}

    def hide(self, replicas: Iterable[int]) -> None:
        """Tell all viewers that these have gone."""
        gone = [self._shown[replica] for replica in replicas if replica in self._shown]
        self.show([caret._replace(state=b"null") for caret in gone])

    def _is_news(self, caret: Caret) -> bool:
        known = self._shown.get(caret.client)
        if known is None:
            return len(self._shown) < CARETS_MAX and len(caret.state) <= CARET_BYTES_MAX and not caret.has_gone
        is_later = caret.clock > known.clock or (caret.clock == known.clock and caret.has_gone)
        return is_later and len(caret.state) <= CARET_BYTES_MAX


class Viewer:
    """One editor's view: what it has not been told yet, the newest of each replica."""

    def __init__(self, carets: Carets) -> None:
        self._carets = carets
        self._own: set[int] = set()
        self._untold: dict[int, Caret] = {}
        self._has_news = asyncio.Event()
        carets.viewers.add(self)
        self.tell(carets.all())

    def show(self, carets: Iterable[Caret]) -> None:
        """Show what this editor says of the replicas it speaks for."""
        allowed = [caret for caret in carets if caret.client in self._own or len(self._own) < OWN_MAX]
        self._own |= self._carets.show(allowed[:OWN_MAX])

    def tell(self, carets: Iterable[Caret]) -> None:
        """Have this told."""
        self._untold |= {caret.client: caret for caret in carets}
        if self._untold:
            self._has_news.set()

    def tell_all(self) -> None:
        """Have all told that there is."""
        self.tell(self._carets.all())

    async def news(self) -> list[Caret]:
        """The news to tell, as soon as there are some."""
        await self._has_news.wait()
        self._has_news.clear()
        news, self._untold = list(self._untold.values()), {}
        return news

    def close(self) -> bool:
        """The editor has gone; whether nobody is left."""
        self._carets.viewers.discard(self)
        self._carets.hide(self._own)
        return not self._carets.viewers
