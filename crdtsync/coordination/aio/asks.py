"""Waiting for a person, for asyncio."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crdtsync.client import Entry
from crdtsync.client.values.patterns import check_prefix
from crdtsync.coordination.questions import (
    ANSWER_KEPT_S,
    ANSWERS,
    ASKS,
    Question,
    check_answer,
    check_same,
    checked_options,
    question_in,
    question_record,
    settled,
    too_late,
)
from crdtsync.errors import InvalidRequest, Timeout, VersionMismatch

if TYPE_CHECKING:
    from crdtsync.client.aio.client import AsyncSession

ANSWER_S = 2.0
"""How long other hosts may take to say that they have heard of an answer."""


async def ask(
    state: AsyncSession,
    name: str,
    question: str,
    *,
    options: Iterable[Any],
    context: Any,
    timeout_s: float,
    deadline_s: float | None,
    default: Any,
    anew: bool,
) -> Any:
    """Ask, or go on waiting for what was asked; the answer."""
    possible = checked_options(name, options, deadline_s, default)
    session = state.session()
    if not question and (anew or await session.entry(ASKS + name) is None):
        raise InvalidRequest(f"nobody has asked {name!r} before: say the question, too")
    if anew:
        async with session.batch() as batch:
            batch.delete(ASKS + name)
            batch.delete(ANSWERS + name)
    deadline_ms = None if deadline_s is None else _now_ms() + round(deadline_s * 1000)
    value = question_record(question, possible, context, deadline_ms, default)
    try:
        await session.set(ASKS + name, value, if_absent=True)
    except VersionMismatch as mismatch:  # it was asked before, by this flow when it ran last
        check_same(name, question, value["options"], mismatch.current)
    until_s = time.monotonic() + timeout_s
    async with session.watch(ANSWERS + name) as events:
        while True:
            found = question_in(await session.entry(ASKS + name), None)
            answers = settled(name, await session.entry(ANSWERS + name))
            if answers:
                return answers[0].value
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise Timeout(f"nobody has answered {name!r} yet; it stays, and is listed by crdtsync asks")
            if found is not None and found.deadline is not None:
                over_s = found.deadline.timestamp() - _now_ms() / 1000
                if over_s <= 0:
                    await _answer_by_default(session, found)
                    continue
                left_s = min(left_s, over_s)
            with suppress(Timeout):
                await events.next(timeout=left_s)


async def answer(state: AsyncSession, name: str, value: Any, note: str, *, settle: bool) -> None:
    """Answer a question, once."""
    session = state.session()
    question = question_in(await session.entry(ASKS + name), None)
    if question is None:
        raise InvalidRequest(f"nobody asks {name!r}: crdtsync asks lists what waits")
    check_answer(question, value)
    answered = await session.entry(ANSWERS + name)
    stored = {"value": value, "note": note}
    if settle and answered is not None:
        written = await session.set(ANSWERS + name, stored, if_version=answered.version, ttl=ANSWER_KEPT_S)
    else:
        try:
            written = await session.set(ANSWERS + name, stored, if_absent=True, ttl=ANSWER_KEPT_S)
        except VersionMismatch as mismatch:
            raise too_late(name, mismatch.current) from None
    with suppress(Timeout):
        await session.wait(written.token, w="reached", timeout=ANSWER_S)
    settled(name, await session.entry(ANSWERS + name))


async def asks(state: AsyncSession, prefix: str, *, answered: bool) -> list[Question]:
    """The questions that wait, or all of them."""
    session = state.session()
    found = await session.entries(ASKS + check_prefix(prefix))
    answers: dict[str, Entry] = {
        entry.key.removeprefix(ANSWERS): entry for entry in await session.entries(ANSWERS + prefix)
    }
    questions = [question_in(entry, answers.get(entry.key.removeprefix(ASKS))) for entry in found]
    return [one for one in questions if one is not None and (answered or one.is_open)]


async def _answer_by_default(session: AsyncSession, question: Question) -> None:
    stored = {"value": question.default, "note": "nobody answered in time"}
    with suppress(VersionMismatch):
        await session.set(ANSWERS + question.name, stored, if_absent=True, ttl=ANSWER_KEPT_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
