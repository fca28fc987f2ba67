"""Sessions of coding agents for asyncio: saved into the shared state, and put back elsewhere."""

from __future__ import annotations

import os
from asyncio import sleep, to_thread
from collections.abc import AsyncIterator, Callable, Container, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from crdtsync.client import AsyncClient, AsyncSession, Entry
from crdtsync.errors import DamagedValue, InvalidRequest, KindMismatch, NotAllowed, Refused, TooOld
from crdtsync.sessions import handing_over, local
from crdtsync.sessions.agents.places import Local, check_id, find
from crdtsync.sessions.conversation.choose import named, numbers
from crdtsync.sessions.conversation.record import Conversation
from crdtsync.sessions.handing_over import GoingOn, HandedOver
from crdtsync.sessions.local import Follower, Loaded, Reading, SaveResult
from crdtsync.sessions.moving.paths import parsed
from crdtsync.sessions.saved.header import (
    FOLLOWED,
    HEADERS,
    LIMITS,
    MAIN,
    Saved,
    excluded_key,
    header_key,
    large_key,
    lines_key,
)
from crdtsync.sessions.saved.pieces import (
    LARGE_BYTES_MAX,
    START,
    Piece,
    PieceTree,
    elements,
    end_of,
    large,
    lines_of,
    with_large,
)

NOTES_TOKENS = 1000
"""Tokens of a session that is merged into another one."""
BRANCHES_MAX = 8
"""That are told of a session which was gone on with in several places."""
NEEDED_MAX = 100
"""So many other sessions one may go on from."""
BEHIND_BYTES_MAX = 16 * 1024
"""So far the record of a session that is followed may be behind its lines: it takes as much room as some lines do."""


class AsyncSessions:
    """Saved sessions of coding agents, in the space of ``client``.

    Whoever may read the keys ``sessions/**`` and ``sessions.lines/**`` of that space may read what was said.
    """

    def __init__(self, client: AsyncClient | AsyncSession) -> None:
        self._client = client

    async def save(self, session: str | None = None, *, agent: str | None = None, redact: bool = True) -> SaveResult:
        """Save a session of this machine: the one with this id, or the one that was written last.

        Only lines that are not saved yet are written. Secrets are replaced by marks before anything leaves this
        process, unless ``redact`` is False. All is durable on this host on return. Raises
        :class:`~crdtsync.errors.InvalidRequest` if there is no such session here.
        """
        there = await to_thread(find, agent, session)
        result = await self._save(there, redact)
        done, names = {result.saved.id}, list(result.saved.needs)
        while names and len(done) <= NEEDED_MAX:
            name = names.pop()
            if name not in done:
                done.add(name)
                result.needed.append(await self._save(await to_thread(find, there.agent.name, name), redact))
                names += result.needed[-1].saved.needs
        if result.new_bytes:
            await self._keep_limits(done)
        return result

    async def _save(self, there: Local, redact: bool) -> SaveResult:
        follower = await to_thread(Follower, there, redact=redact)
        while (result := await self._store(await to_thread(follower.read, whole=True))) is None:
            follower = await to_thread(Follower, there, redact=redact, anew=True)
        await to_thread(follower.leave_note)
        return result

    async def watch(
        self,
        session: str | None = None,
        *,
        agent: str | None = None,
        redact: bool = True,
        every_s: float = 0.5,
    ) -> AsyncIterator[SaveResult]:
        """Save a session, and go on saving as it grows, until the caller leaves the loop.

        It looks at the files every ``every_s`` seconds, and gives a result for each save that had something new. Each
        is durable on this host when it is given. A line is saved when it is complete. Options are as of :meth:`save`.
        """
        there = await to_thread(find, agent, session)
        yield await self.save(there.id, agent=there.agent.name, redact=redact)
        follower = await to_thread(Follower, there, redact=redact)
        async with await self._client.present(role=FOLLOWED, status=there.id):
            while True:
                reading = await to_thread(follower.read, whole=False)
                if reading is None or any(reading.pieces.values()):
                    result = await self._store(reading, follows=True)
                    if result is None:
                        follower = await to_thread(Follower, there, redact=redact, anew=True)
                    elif result.new_bytes or result.shorter:
                        yield result
                await sleep(every_s)

    async def ls(self) -> list[Saved]:
        """The sessions that are saved, the newest first."""
        entries = await self._client.entries(HEADERS)
        read = (Saved.found(one.key[len(HEADERS) :], one.value, one) for one in entries)
        found = [saved for saved in read if saved is not None]
        return sorted(found, key=lambda saved: (saved.time is not None, saved.time), reverse=True)

    async def get(self, session: str) -> Saved:
        """The record of a saved session; the beginning of an id is enough if only one begins so.

        Raises :class:`~crdtsync.errors.InvalidRequest` if there is none.
        """
        check_id(session)
        entry = await self._client.entry(header_key(session))
        if entry is None:
            keys = await self._client.keys(header_key(session), limit=2)
            if len(keys) != 1:
                many = f"several saved sessions begin with {session}" if keys else f"no session {session} is saved here"
                raise InvalidRequest(f"{many}: crdtsync session ls shows what there is")
            return await self.get(keys[0][len(HEADERS) :])
        return Saved.from_plain(session, entry.value, entry)

    async def files(self, saved: Saved) -> dict[str, list[Piece]]:
        """The pieces of each file, as they were saved last."""
        return {name: (await self._tree(saved.id, name)).file() for name in saved.files}

    async def load(
        self,
        session: str,
        *,
        cwd: str | os.PathLike[str] | None = None,
        maps: Iterable[str] = (),
        whole: bool = False,
        dry_run: bool = False,
    ) -> Loaded:
        """Put a saved session where its agent on this machine looks for it, to be resumed in ``cwd``.

        Without ``cwd`` that is the directory it was in, under this user's home. Paths in the lines are rewritten: of
        the home, of ``cwd``, and by ``maps``, which are words ``OLD=NEW``. What is there and begins as the saved
        session is gone on with; nothing is overwritten. ``dry_run`` only says what would be done. Files are flushed on
        return. Raises :class:`~crdtsync.errors.Refused` where another file is in the way, or a process uses it, and
        where turns are excluded, unless it is to be the ``whole`` session.
        """
        saved = await self.get(session)
        if not whole and (excluded := await self.excluded(saved.id)):
            raise Refused(
                f"turns {named(excluded)} of session {saved.id} are excluded: crdtsync session branch {saved.id} goes "
                f"on without them, and with --whole it is loaded as it was saved"
            )
        trees = {name: await self._tree(saved.id, name) for name in saved.files}
        options = (cwd, parsed(maps), dry_run)
        needed = [
            await to_thread(local.load, one, await self.files(one), *options) for one in await self._needed(saved)
        ]
        files = {name: tree.file() for name, tree in trees.items()}
        loaded = await to_thread(local.load, saved, files, *options)
        loaded.other_ends = len(await to_thread(local.ways, trees[MAIN], BRANCHES_MAX)) - 1 if MAIN in trees else 0
        loaded.needed = needed
        return loaded

    async def conversation(self, session: str, way: int = 1) -> Conversation:
        """The conversation that a resumed session sends its model: texts, calls with results, thinking, in order.

        If it went on in several ways, the 2nd ``way`` is the one that was saved before the last.
        """
        saved = await self.get(session)
        lines, parents = await self._main_lines(saved, way)
        return await to_thread(handing_over.conversation, saved, lines, parents)

    async def branches(self, session: str) -> list[Conversation]:
        """The conversations along each way in which a session was gone on with, the newest first.

        There are several if it was saved from two places, each of which went on from the same line; at most
        :data:`BRANCHES_MAX`. The first is what :meth:`conversation` gives.
        """
        saved = await self.get(session)
        tree, parents = await self._tree(saved.id, MAIN), await self._parents(saved)
        ways = await to_thread(local.ways, tree, BRANCHES_MAX)
        return [await to_thread(handing_over.conversation, saved, lines, parents) for lines in ways]

    async def handover(self, session: str, *, to: str, **options: Unpack[GoingOn]) -> HandedOver:
        """Make a saved session one of another agent on this machine, ``to``: ``claude-code`` or ``codex``.

        Roles, order, calls with their results, images, thinking that can be read, and compaction points are carried;
        what is not is listed with the reason. The same state of a session gives the same new session each time. Its
        file is flushed on return. Options: :class:`~crdtsync.sessions.handing_over.GoingOn`. Raises
        :class:`~crdtsync.errors.InvalidRequest` if there is nothing to hand over, or the newest turn is over budget.
        """
        saved = await self.get(session)
        if to == saved.agent:
            message = f"session {saved.id} is one of {to} already: crdtsync session load {saved.id}"
            raise InvalidRequest(f"{message}, or branch it")
        return await self._hand_over(saved, to, None, 1, options)

    async def branch(
        self, session: str, *, at: int | None = None, way: int = 1, **options: Unpack[GoingOn]
    ) -> HandedOver:
        """Make a new session of the same agent, with what was said up to the end of turn ``at``, or all of it.

        ``way`` is as of :meth:`conversation`. Excluded turns are left out. The saved session and the agent's own files
        stay as they are. Everything else is as of :meth:`handover`.
        """
        saved = await self.get(session)
        return await self._hand_over(saved, saved.agent, at, way, options)

    async def excluded(self, session: str) -> list[int]:
        """The turns that are left out when the session is handed over, branched or told in short; sorted."""
        saved = await self.get(session)
        return sorted(one for one in await self._client.members(excluded_key(saved.id)) if type(one) is int)

    async def exclude(self, session: str, turns: str) -> list[int]:
        """Leave ``turns`` (``3``, or ``3-5``) out from now on; what is left out then. Nothing is deleted.

        Durable on this host on return. Turns have the numbers that :func:`crdtsync session show` prints.
        """
        saved = await self.get(session)
        found = await self._numbers(saved, turns)
        async with self._client.batch() as batch:
            for number in found:
                batch.add(excluded_key(saved.id), number)
        return await self.excluded(saved.id)

    async def rewind(self, session: str, at: int) -> list[int]:
        """Go back to the end of turn ``at``: later turns are excluded, and the session goes on as of :meth:`branch`.
        What is left out then; :meth:`include` takes it in again.
        """
        saved = await self.get(session)
        count = len((await self.conversation(saved.id)).turns()) - 1
        if not 0 <= at <= count:
            raise InvalidRequest(f"the session has the turns 1 to {count:,}, not {at}")
        return await self.exclude(saved.id, f"{at + 1}-{count}") if at < count else await self.excluded(saved.id)

    async def include(self, session: str, turns: str) -> list[int]:
        """Take ``turns`` in again; what is still left out. Durable on this host on return."""
        saved = await self.get(session)
        excluded = set(await self.excluded(saved.id))
        there = excluded.intersection(numbers(turns))  # of a session that was longer once, also beyond its end
        if not there:
            await self._numbers(saved, turns)
        async with self._client.batch() as batch:
            for number in sorted(there):
                batch.discard(excluded_key(saved.id), number)
        return await self.excluded(saved.id)

    async def _numbers(self, saved: Saved, turns: str) -> range:
        found, count = numbers(turns), len((await self.conversation(saved.id)).turns()) - 1
        if not found or found[0] < 1 or found[-1] > count:
            raise InvalidRequest(f"the session has the turns 1 to {count:,}, not {turns}")
        return found

    async def brief(
        self,
        session: str,
        *,
        budget_tokens: int = 2000,
        model: str | None = None,
        better: Callable[[str], str] | None = None,
    ) -> str:
        """The session in short, as Markdown of at most ``budget_tokens``: goal, where it stands, decisions, rejected
        ways, open ends, files; each with its turn. It needs ``pip install 'crdtsync[context]'``. ``better`` is given
        that and the whole session as text, and returns what is to be told instead, such as a model's answer.
        """
        saved = await self.get(session)
        left = await self.excluded(saved.id)
        found = await self.conversation(saved.id)
        return await to_thread(handing_over.in_short, saved, found, left, budget_tokens, model, better)

    async def _hand_over(self, saved: Saved, to: str, at: int | None, way: int, options: GoingOn) -> HandedOver:
        lines, parents = await self._main_lines(saved, way)
        excluded, notes, merge = await self.excluded(saved.id), "", options.get("merge")
        if merge is not None:
            other = await self.get(merge)
            told = await self.brief(other.id, budget_tokens=NOTES_TOKENS)
            notes = f"[Notes of another session, {other.id} ({other.agent}, {other.user} on {other.host}):]\n{told}"
        return await to_thread(handing_over.hand_over, saved, lines, parents, to, at, excluded, notes, options)

    async def _main_lines(self, saved: Saved, way: int) -> tuple[list[bytes], dict[str, list[bytes]]]:
        """The lines of the main file, and those of the sessions that it goes on from, by their ids."""
        parents, tree = await self._parents(saved), await self._tree(saved.id, MAIN)
        if way == 1:
            return list(lines_of(tree.file())), parents
        found = await to_thread(local.ways, tree, BRANCHES_MAX)
        if not 1 <= way <= len(found):
            raise InvalidRequest(f"the session went on in {len(found)} ways, so there is no way {way}")
        return found[way - 1], parents

    async def _parents(self, saved: Saved) -> dict[str, list[bytes]]:
        return {one.id: list(lines_of((await self._tree(one.id, MAIN)).file())) for one in await self._needed(saved)}

    async def _needed(self, saved: Saved) -> list[Saved]:
        """The sessions without which this one is not whole, each once, those that others need first."""
        found: dict[str, Saved] = {saved.id: saved}
        names = list(saved.needs)
        while names and len(found) <= NEEDED_MAX:
            name = names.pop()
            if name not in found:
                found[name] = await self.get(name)
                names += found[name].needs
        return [*found.values()][:0:-1]

    async def share(self, session: str, space: str) -> SaveResult:
        """Copy a saved session, with those that it goes on from, into another space; what was new there.

        So it stays private, in a space of one's own, until it is shared. Durable on this host on return.
        """
        saved = await self.get(session)
        result = await self._share(saved, space)
        result.needed = [await self._share(one, space) for one in await self._needed(saved)]
        return result

    async def _share(self, saved: Saved, space: str) -> SaveResult:
        excluded, pieces = await self.excluded(saved.id), await self.files(saved)
        there = AsyncSessions(self._client.session(space=space))
        result = await there._store(Reading(saved, dict.fromkeys(pieces, (START, b"")), pieces, {}))
        assert result is not None  # all of it was read
        async with there._client.batch() as batch:
            for number in excluded:
                batch.add(excluded_key(saved.id), number)
        return result

    async def drop(self, session: str) -> bool:
        """Take a saved session out of all that the hosts store, history and log, too; whether it was there.

        Each host does so on its own, one that is away when it is back. The agent's own files stay. Without the right
        ``admin`` it is only deleted; :class:`~crdtsync.errors.NotAllowed`, if its secrets are stored.
        """
        check_id(session)
        entry = await self._client.entry(header_key(session))
        try:
            for pattern in (lines_key(session, "**"), excluded_key(session), header_key(session)):
                await self._client.purge(pattern)
        except NotAllowed:
            if entry is not None and _has_secrets(entry):
                raise
            await self._delete(session)
        return entry is not None

    async def _delete(self, session: str) -> None:
        await self._client.delete_prefix(lines_key(session, ""))
        await self._client.delete(excluded_key(session))
        await self._client.delete(header_key(session))

    async def prune(
        self, older_s: float | None = None, bytes_max: int | None = None, *, always: bool = False
    ) -> list[Saved]:
        """Delete sessions from the shared state that were saved last longer ago than ``older_s``, and the oldest of
        those that take more than ``bytes_max`` together; which these were. What a session that stays goes on from
        stays, too. ``always``: every later save in this space does the same, on whatever host, until the key
        ``sessions.limits`` is deleted.
        """
        if always:
            await self._client.set(LIMITS, {"older_s": older_s, "bytes_max": bytes_max})
        return await self._prune(older_s, bytes_max, ())

    async def _prune(self, older_s: float | None, bytes_max: int | None, needed: Iterable[str]) -> list[Saved]:
        gone: list[Saved] = []
        kept_bytes, kept, is_over = 0, set(needed), False
        since = datetime.now(UTC) - timedelta(seconds=older_s or 0)
        for saved in await self.ls():
            is_old = older_s is not None and saved.time is not None and saved.time < since
            is_over = is_over or (bytes_max is not None and kept_bytes + saved.bytes > bytes_max)
            if (is_old or is_over) and saved.id not in kept:
                gone.append(saved)
            else:
                kept_bytes += saved.bytes
                kept.update(saved.needs)
        gone = [saved for saved in gone if saved.id not in kept]
        left: list[tuple[Saved, NotAllowed]] = []
        for saved in gone:
            try:
                await (self.drop(saved.id) if saved.redacted is None else self._delete(saved.id))
            except NotAllowed as refusal:  # the others go all the same
                left.append((saved, refusal))
        if left:
            raise left[0][1]
        return gone

    async def _keep_limits(self, new: Iterable[str]) -> None:
        """Prune as the limits of this space say, but for ``new``; who may not delete others' sessions leaves them."""
        match await self._client.get(LIMITS):
            case {"older_s": int() | float() | None as older_s, "bytes_max": int() | None as bytes_max}:
                with suppress(Refused, OverflowError):
                    await self._prune(older_s, bytes_max, new)

    async def with_large(self, session: str, log: Iterable[Any]) -> list[Any]:
        """Elements of a log of ``session``, with the large lines out of their blobs; without a blob they stay so."""
        return [await self._with_large(session, element) for element in log]

    async def _with_large(self, session: str, element: Any) -> Any:
        match element:
            case [bytes(), int(), bytes(digest)]:
                with suppress(KindMismatch, TooOld, DamagedValue):
                    blob = await self._client.get_blob(large_key(session, digest))
                    if blob is not None and blob.size <= LARGE_BYTES_MAX:
                        return with_large(element, await blob.read())
        return element

    async def _tree(self, session: str, name: str) -> PieceTree:
        return PieceTree(await self.with_large(session, await self._client.log(lines_key(session, name))))

    async def _store(self, reading: Reading | None, *, follows: bool = False) -> SaveResult | None:
        """Write what is new of each file, and the record with every run, so that a save that is cut off goes on; who
        follows the session writes it when it says more than that lines were added, or :data:`BEHIND_BYTES_MAX` of them.
        None: read all, for a file is another one now, or what the new pieces follow is not saved.
        """
        if reading is None:
            return None
        saved, result = reading.saved, SaveResult(reading.saved, left_out=reading.left_out)
        key = header_key(saved.id)
        entry = await self._client.entry(key)
        if entry is not None and saved.redacted is not None and _has_secrets(entry):
            raise Refused(
                f"session {saved.id} was saved with its secrets (--no-redact), so all hosts store them: crdtsync "
                f"session drop {saved.id} takes it out everywhere, and the next save stores it without them"
            )
        before = Saved.found(saved.id, entry.value, entry) if entry else None
        if before is None and any(after != START for after, _ in reading.before.values()):
            return None
        saved.join_redacted(before)
        saved.files = {**before.files, **saved.files} if before else saved.files
        is_due = (
            not follows or before is None or saved.says_more_than(before)
            or abs(saved.bytes - before.bytes) > BEHIND_BYTES_MAX
        )  # fmt: skip
        for name, pieces in reading.pieces.items():
            after, recently = reading.before[name]
            known = await self._known(saved.id, name, after, pieces) if pieces else ()
            if known is None:
                return None
            if before is not None and name in before.files and saved.files[name].bytes < before.files[name].bytes:
                result.shorter[name] = before.files[name].bytes
            for element, run in elements(pieces, recently, known):
                if isinstance(element[1], int):
                    await self._client.put_blob(
                        large_key(saved.id, run[0].digest), await to_thread(large, run[0].content)
                    )
                async with self._client.batch() as batch:
                    batch.append(lines_key(saved.id, name), element)
                    if is_due:
                        batch.set(key, saved.plain())
                result.new_lines += sum(one.content.endswith(b"\n") for one in run)
                result.new_bytes += sum(len(one.content) for one in run)
        if before is None and not result.new_bytes:
            await self._client.set(key, saved.plain())
        elif before is not None and not result.new_bytes:
            result.saved = before
        return result

    async def _known(self, session: str, name: str, after: bytes, pieces: list[Piece]) -> Container[bytes] | None:
        """Which of the pieces that follow ``after`` the log has; None: it does not have what they follow."""
        log = await self._client.log(lines_key(session, name), last=1)
        end = end_of(log[0]) if log else START
        if end == after:
            return ()
        digests = [one.digest for one in pieces]
        if end in digests:
            return frozenset(digests[: digests.index(end) + 1])
        tree = await self._tree(session, name)
        cut_off = {pieces[-1].digest} if tree.completes(pieces[-1]) else set()
        return cut_off.union(filter(tree.__contains__, digests)) if after in tree else None


def _has_secrets(entry: Entry) -> bool:
    """Whether somebody has saved the session whose record this is without looking for secrets."""
    records = (Saved.found(str(one.key[len(HEADERS) :]), one.value) for one in (entry, *entry.siblings))
    return any(one is not None and one.redacted is None for one in records)
