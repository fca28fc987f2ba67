"""Views for asyncio."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from crdtsync.client import AsyncClient, AsyncSession, Changes, Entry, Field, LogItem
from crdtsync.context.compact.compress import compress
from crdtsync.context.given import expect, texts
from crdtsync.context.tokens import DEFAULT_MODEL, tokenizer
from crdtsync.context.view.alarm import ALARM_TTL_S, ALARMS, alarm_after, is_alarm
from crdtsync.context.view.choose import View, choose
from crdtsync.context.view.definition import BUDGET_TOKENS, VIEWS, Definition, definition_from
from crdtsync.context.view.held import HeldView, HeldViews, chars_of
from crdtsync.context.view.items import Item, items_of
from crdtsync.context.view.summary import SUMMARIES, Summary, folded, older, source
from crdtsync.errors import CrdtSyncError, DamagedValue, InvalidRequest, NotAllowed, TooLarge, VersionMismatch

_ONE_BY_ONE_MAX = 100
"""So many keys that have changed are read one by one; of more, all under the prefixes are listed."""

_PARTS = 10
_WINDOW = 16
"""So many parts of a value that is too long for one reply are read at once; each has up to 1 MiB."""
_PART_CHARS = 1024 * 1024
_PART_ELEMENTS_MAX = 1_024
_SET_ELEMENTS_MAX = 64


class AsyncViews:
    """Views: the part of the shared state that an agent should read, within its budget.

    ``model`` is whose tokens are counted where a call names none. Keep it and ask it again: what it has read for a view
    it need not read for the next one.
    """

    def __init__(self, client: AsyncClient | AsyncSession, *, model: str = DEFAULT_MODEL) -> None:
        expect(AsyncSession, client=client)
        self._client = client
        self.model = tokenizer(model).model
        self._held = HeldViews()

    async def view(
        self,
        prefixes: str | Iterable[str] = ("",),
        *,
        budget_tokens: int = BUDGET_TOKENS,
        query: str | None = None,
        role: str | None = None,
        model: str | None = None,
        form: str = "markdown",
        pinned: str | Iterable[str] = (),
        full_newest: int = 8,
        strategy: str = "best",
        after: str | None = None,
        since: str | None = None,
        besides: str | None = None,
    ) -> View:
        """One block of text about everything under ``prefixes``, of at most ``budget_tokens``.

        Keys that are ``pinned`` (or have ``pinned`` in their ``meta``) come first. Of the others, the newest, the
        most relevant to ``query`` and ``role``, and the surest are shown; the ``full_newest`` newest in full where
        they fit. ``strategy`` is ``best``, ``newest`` or ``tiers``; ``form`` is ``markdown``, ``xml`` or ``json``.
        With ``after`` (a token) it waits until this host holds what the token names. With ``since``, the ``token`` of
        an earlier view, it shows only what is new after that, and which keys are gone; all, if this host no longer
        knows the difference. Texts that the agent ``besides`` wrote are left out: it knows them.
        Raises :class:`~crdtsync.errors.InvalidRequest` for a budget below 1.
        """
        expect(str | None, after=after, since=since, besides=besides)
        wanted = Definition(
            texts("prefixes", prefixes),
            budget_tokens,
            query,
            role,
            self.model if model is None else model,
            form,
            texts("pinned", pinned),
            full_newest,
            None,
            strategy,
        )
        return await self._shown(wanted, after, since, besides)

    async def define(self, name: str, prefixes: str | Iterable[str] = ("",), **wanted: Any) -> Definition:
        """Store a view under ``name`` for all hosts; ``wanted`` is as of :meth:`view`. Durable here on return."""
        expect(str, name=name)
        if not name or "/" in name:
            raise InvalidRequest(f"{name!r} cannot name a view: give a word without a slash")
        definition = _changed(Definition(model=self.model), {"prefixes": prefixes} | wanted)
        await self._client.set(VIEWS + name, definition.plain())
        return definition

    async def named(self, name: str, *, since: str | None = None, besides: str | None = None, **instead: Any) -> View:
        """The view ``name``, as somebody defined it; ``instead`` changes it for this once (``budget_tokens=800``).

        With ``since`` it shows only what is new, and what ``besides`` wrote is left out, as :meth:`view` does. If its
        sources take more than 70 % of the budget, :meth:`alarms` tells so on all hosts.
        """
        expect(str | None, since=since, besides=besides)
        definition = _changed(await self._definition(name), instead)
        summary = await self._summary(name, definition) if since is None else None
        shown = await self._shown(definition, None, since, besides, summary)
        if since is None and besides is None:
            with suppress(CrdtSyncError):  # who may only read is shown the view all the same
                await self._raise_or_end(name, shown, definition.budget_tokens)
        return shown

    async def _raise_or_end(self, name: str, shown: View, budget_tokens: int) -> None:
        raised = await self._client.get(ALARMS + name)
        alarm = alarm_after(shown, budget_tokens, raised)
        if alarm is not None and alarm is not raised:
            await self._client.set(ALARMS + name, alarm, ttl=ALARM_TTL_S)
        elif alarm is None and raised is not None:
            await self._client.delete(ALARMS + name)

    async def alarms(self) -> dict[str, dict[str, Any]]:
        """The named views whose sources took more than 70 % of the smallest window that asked for them:
        ``{name: {"budget_tokens", "source_tokens"}}``. Each stands until that window holds them, or for a week.
        """
        found = await self._client.items(ALARMS)
        return {key[len(ALARMS) :]: value for key, value in found if is_alarm(value)}

    async def summarize(self, name: str, make: Callable[[str], str] | None = None) -> bool:
        """Make the summary that the view ``name`` shows of its older entries; whether there was something to be done.

        The view must have been defined with ``summarize_after``. ``make`` is asked, such as a model of yours: it gets
        a text and returns a shorter one. Without it sentences are chosen by rule, into a quarter of the view's budget.
        The summary is stored for all hosts, with the versions that it is made of; while these are the same, it is not
        made again. If somebody else makes one at the same time, theirs stays. Durable here on return.
        """
        definition = await self._definition(name)
        if definition.summarize_after is None:
            raise InvalidRequest(f"the view {name!r} shows no summary: define it with summarize_after")
        found, _ = await self._all(definition)
        items = await self._items(definition, found)
        old = older(items, definition.summarize_after)
        covers = {item.key: item.version for item in old}
        stored = await self._client.entry(SUMMARIES + name)
        if not old or (stored is not None and isinstance(stored.value, dict) and stored.value.get("covers") == covers):
            return False
        by_rule = make is None
        make = make or partial(_by_rule, definition)
        text: Any = await to_thread(make, source(old))
        if not isinstance(text, str) or not text.strip():
            message = f"no summary of {name!r} is stored: make must return a text that says something, not {text!r:.80}"
            raise InvalidRequest(message)
        summary = Summary(text, covers, by_rule=by_rule).plain()
        try:
            if stored is None:
                await self._client.set(SUMMARIES + name, summary, if_absent=True)
            else:
                await self._client.set(SUMMARIES + name, summary, if_version=stored.version)
        except VersionMismatch:
            return False
        return True

    async def share(self, name: str, keys_max: int, window_tokens: int | None = None) -> float | None:
        """Which part of its budget, or of a smaller window, the view ``name`` would take if it showed all in full; what
        a summary covers counts as the summary. None: it is about more than ``keys_max`` keys.
        """
        expect(int, keys_max=keys_max)
        expect(int | None, window_tokens=window_tokens)
        definition = await self._definition(name)
        for prefix in definition.prefixes:
            if len(await self._client.keys(prefix, limit=keys_max + 1)) > keys_max:
                return None
        shown = await self._kept(definition, await self._summary(name, definition))
        return shown.source_tokens / min(definition.budget_tokens, window_tokens or definition.budget_tokens)

    async def _summary(self, name: str, definition: Definition) -> Entry | None:
        return None if definition.summarize_after is None else await self._client.entry(SUMMARIES + name)

    async def _definition(self, name: str) -> Definition:
        expect(str, name=name)
        stored = await self._client.get(VIEWS + name)
        if stored is None:
            raise InvalidRequest(f"no view is called {name!r}: there are {', '.join(await self.names()) or 'none'}")
        return definition_from(name, stored)

    async def names(self) -> list[str]:
        """The names of the views that are defined, sorted."""
        return [key[len(VIEWS) :] for key in await self._client.keys(VIEWS)]

    async def drop(self, name: str) -> bool:
        """Forget the definition of ``name`` and its summary; whether there was one."""
        expect(str, name=name)
        await self._client.delete(SUMMARIES + name)
        await self._client.delete(ALARMS + name)
        return await self._client.delete(VIEWS + name)

    async def _shown(
        self,
        definition: Definition,
        after: str | None,
        since: str | None,
        besides: str | None,
        summary: Entry | None = None,
    ) -> View:
        if after is not None:
            await self._client.wait(after)
        if since is None and besides is None:
            return await self._kept(definition, summary)
        changes = None if since is None else await self._client.changes(after=since)
        gone: tuple[str, ...] = ()
        if changes is None or changes.is_all:
            found, token = await self._all(definition)
        else:
            token, gone = changes.token, tuple(filter(definition.covers, changes.gone))
            held = self._held.get(definition)
            if held is not None and besides is None:
                there = (held if held.token == token else await self._caught_up(definition)).items
                return _told([there[key] for key in changes.changed if key in there], definition, token, gone)
            found = await self._changed(definition, changes)
        if besides is not None:
            found = {key: entry for key, entry in found.items() if await self._is_by_others(entry, besides)}
        return _told(folded(await self._items(definition, found), summary), definition, token, gone)

    async def _kept(self, definition: Definition, summary: Entry | None) -> View:
        """The view of all, by what was kept of it."""
        held = await self._caught_up(definition)
        version = None if summary is None else summary.version
        if held.shown is None or held.shown[0] != version:
            items = folded(list(held.items.values()), summary)
            made = choose(items, definition, known=held.known) if items else View("", 0, (), (), None)
            held.shown = (version, made)
        return replace(held.shown[1], token=held.token)

    async def _caught_up(self, definition: Definition) -> HeldView:
        held, rules, changes = self._held.get(definition), None, None
        with suppress(CrdtSyncError):  # the space was dropped meanwhile, say: a listing tells the caller
            rules = (await self._client.access_list())["rules"]
            if held is not None and held.rules == rules:
                changes = await self._client.changes(after=held.token)
        if held is None or changes is None or changes.is_all:
            found, token = await self._all(definition)
            items = await self._items(definition, found)
            held = HeldView({item.key: item for item in items}, token, chars_of(items), rules)
        else:
            found = await self._changed(definition, changes)
            lost = {*changes.gone, *changes.changed} - found.keys()
            held = held.after(await self._items(definition, found), lost, changes.token)
        self._held.keep(definition, held)
        return held

    async def _items(self, definition: Definition, found: Mapping[str, Entry]) -> list[Item]:
        return items_of([await whole(self._client, entry) for entry in found.values()], definition.pinned)

    async def _all(self, definition: Definition, after: str | None = None) -> tuple[dict[str, Entry], str]:
        found: dict[str, Entry] = {}
        token = None
        for prefix in definition.prefixes:
            entries = await self._client.entries(prefix, after=after)
            token = token or entries.token
            found |= {entry.key: entry for entry in entries if definition.covers(entry.key)}
        for key in definition.pinned:
            if key not in found and (entry := await listed(self._client, key)) is not None:
                found[key] = entry
        return found, token or await self._client.now()

    async def _changed(self, definition: Definition, changes: Changes) -> dict[str, Entry]:
        keys = {key for key in changes.changed if definition.covers(key)}
        if len(keys) > _ONE_BY_ONE_MAX:
            found, _ = await self._all(definition, changes.token)
            return {key: entry for key, entry in found.items() if key in keys}
        return {key: entry for key in sorted(keys) if (entry := await listed(self._client, key)) is not None}

    async def _is_by_others(self, entry: Entry, agent: str) -> bool:
        """Whether somebody other than ``agent`` wrote it; of what many add to, whether one of the newest parts."""
        if any(one.agent != agent for one in (entry, *entry.siblings)):
            return True
        parts = () if entry.kind == "register" else await self._client.history(entry.key, last=_PARTS)
        return any(part.agent != agent for part in parts)


async def listed(state: AsyncClient | AsyncSession, key: str) -> Entry | None:
    """The entry of a key as a listing has it: without its value, if that is large."""
    found = await state.entries(key, limit=1)
    return found[0] if found and found[0].key == key else None


async def whole(state: AsyncClient | AsyncSession, entry: Entry) -> Entry:
    """``entry`` with its value, which a listing leaves out of what is large. Where no reply holds the value, it is the
    newest elements of a log, or the first ones of a set or map: up to about 1 MiB, 1,024 of them at most, of a set 64.
    What the disk has spoilt, or an agent may read no more, stays None.
    """
    if entry.value is not None or entry.kind == "register":
        return entry
    with suppress(DamagedValue, NotAllowed):
        try:
            return replace(entry, value=await state.get(entry.key))
        except TooLarge:
            return replace(entry, value=await _part(state, entry))
    return entry


async def _part(state: AsyncClient | AsyncSession, entry: Entry) -> Any:
    if entry.kind == "set":
        return list(await state.members(entry.key, limit=_SET_ELEMENTS_MAX))
    if entry.kind not in ("log", "map"):
        return None
    newest: list[LogItem] = []
    first: list[Field] = []
    size, count, is_last = 0, 0, False
    while size < _PART_CHARS and count < _PART_ELEMENTS_MAX and not is_last:
        found: list[LogItem] | list[Field]
        if entry.kind == "log":
            items = await state.log_items(entry.key, start=-count - _WINDOW, limit=_WINDOW)
            found = [item for item in items if not newest or item.index < newest[0].index]
            newest = [*found, *newest]
        else:
            start = first[-1].name if first else None
            found = await state.fields(entry.key, start=start, limit=_WINDOW)
            first += found
        size += sum(len(repr(one.value)) for one in found)
        count, is_last = count + _WINDOW, not found
    return [item.value for item in newest] if entry.kind == "log" else {field.name: field.value for field in first}


def _changed(definition: Definition, wanted: Mapping[str, Any]) -> Definition:
    """``definition`` with other fields; refused, if a view has no such field."""
    unknown = sorted(wanted.keys() - Definition.__dataclass_fields__.keys())
    if unknown:
        raise InvalidRequest(f"a view has no {unknown[0]}: it takes {', '.join(Definition.__dataclass_fields__)}")
    return replace(definition, **wanted)


def _told(items: list[Item], definition: Definition, token: str, gone: tuple[str, ...]) -> View:
    """The view of ``items``, and of what is gone; an empty one, if that is nothing."""
    return choose(items, definition, token, gone=gone) if items or gone else View("", 0, (), (), token)


def _by_rule(definition: Definition, text: str) -> str:
    budget, prefixes = max(1, definition.budget_tokens // 4), ", ".join(filter(None, definition.prefixes))
    source = f"read the keys under {prefixes}" if prefixes else "read the keys"
    return compress(
        text, kind="prose", budget=budget, query=definition.query, model=definition.model, source=source
    ).text
