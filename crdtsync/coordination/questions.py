"""Questions to people as they are stored: ``asks/NAME`` holds the question, ``answers/NAME`` the answer.

Two people on two hosts may answer at once. Then there are two answers as siblings, which nobody but a person can
settle: the asker gets :class:`~crdtsync.errors.Unresolved` until one of them says which answer stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from crdtsync.client import Entry
from crdtsync.client.values.times import moment
from crdtsync.errors import InvalidRequest, Unresolved, VersionMismatch

ASKS, ANSWERS = "asks/", "answers/"
ANSWER_KEPT_S = 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Question:
    """A question that waits. ``options``: what may be answered, empty: anything; ``context``: what helps to decide.

    ``deadline``: then ``default`` is the answer. ``answers``: what was answered, by whom; more than one: they were
    given at once, on hosts that did not see each other.
    """

    name: str
    question: str
    options: tuple[Any, ...]
    context: Any
    agent: str
    node: str
    since: datetime | None
    deadline: datetime | None = None
    default: Any = None
    answers: tuple[Answer, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it waits for somebody: it has no answer, or several."""
        return len(self.answers) != 1


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: ``value``, by whom, and why."""

    value: Any
    agent: str
    node: str
    note: str


def checked_options(name: str, options: Iterable[Any], deadline_s: float | None, default: Any) -> tuple[Any, ...]:
    """The options of a question that can be asked."""
    if not name:
        raise InvalidRequest("a question needs a name to be answered by, such as deploy; it is empty")
    if isinstance(options, str):
        raise InvalidRequest(f"options are a list of answers, as in [{options!r}]")
    possible = tuple(options)
    if deadline_s is None and default is not None:
        raise InvalidRequest("a default is the answer after a deadline: say that, too")
    if possible and deadline_s is not None and default not in possible:
        raise InvalidRequest(f"the default {default!r} is none of the options")
    return possible


def question_record(
    question: str, options: tuple[Any, ...], context: Any, deadline_ms: int | None, default: Any
) -> dict[str, Any]:
    """The stored record of a question."""
    return {
        "question": question,
        "options": list(options),
        "context": context,
        "deadline_ms": deadline_ms,
        "default": default,
    }


def question_in(entry: Entry | None, answer: Entry | None) -> Question | None:
    """The question that a key holds, with its answers; None: it holds none."""
    if entry is None or not isinstance(entry.value, dict):
        return None
    match entry.value:
        case {"question": str(question), "options": list(options), "deadline_ms": deadline_ms}:
            until = moment(deadline_ms) if type(deadline_ms) is int else None
            return Question(
                entry.key.removeprefix(ASKS), question, tuple(options), entry.value.get("context"), entry.agent or "",
                entry.node or "", entry.time, until, entry.value.get("default"), answers_in(answer),
            )  # fmt: skip
    return None


def answers_in(entry: Entry | None) -> tuple[Answer, ...]:
    """The answers that a key holds; the same one twice is one."""
    found: list[Answer] = []
    for part in [] if entry is None else [entry, *entry.siblings]:
        if isinstance(part.value, dict) and "value" in part.value:
            answer = Answer(part.value["value"], part.agent or "", part.node or "", str(part.value.get("note") or ""))
            if answer.value not in [other.value for other in found]:
                found.append(answer)
    return tuple(found)


def settled(name: str, entry: Entry | None) -> tuple[Answer, ...]:
    """The one answer, or none yet.

    :raises Unresolved: there are several.
    """
    answers = answers_in(entry)
    if len(answers) > 1:
        said = ", ".join(f"{answer.value!r} by {answer.agent} on {answer.node}" for answer in answers)
        raise Unresolved(f"{name!r} was answered at once with {said}: settle it with one answer", current=entry)
    return answers


def too_late(name: str, current: Entry | None) -> VersionMismatch:
    """The reply to somebody who answers once more."""
    said = " and ".join(f"{one.value!r} by {one.agent} on {one.node}" for one in answers_in(current))
    how = f"crdtsync answer {name} VALUE --settle"
    return VersionMismatch(f"{name!r} is answered already: {said}; to replace that: {how}", current=current)


def check_same(name: str, question: str, options: list[Any], asked: Entry | None) -> None:
    """Refuse to take the answer to another question for the answer to this one. A field left out may be anything."""
    there = question_in(asked, None)
    if there is None:
        return
    if question not in ("", there.question) or options not in ([], list(there.options)):
        was = f"{there.question!r}" + (f" ({', '.join(map(str, there.options))})" if there.options else "")
        how = "ask under another name; or anew=True (--anew) forgets that one and its answer"
        raise InvalidRequest(f"{name!r} is another question already: {was}; {how}")


def check_answer(question: Question, value: Any) -> None:
    """Refuse what is none of the options."""
    if question.options and value not in question.options:
        options = ", ".join(map(repr, question.options))
        raise InvalidRequest(f"{value!r} is no answer to {question.name!r}: one of {options}")
