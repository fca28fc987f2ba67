"""A session in short: what was wanted, decided and given up, which files were touched, and what is open.

To take a session over takes half a page and not two hundred turns. No model is asked: sentences that tell of a
decision, a rejected way or an open end are found by their words (English ones), the newest first, and each names its
turn, so that ``crdtsync session show ID --turns N`` gives the original.

    ## Decisions
    - turn 12: We use SQLite instead of Redis, because nobody wants to run a server.

Each part has a share of the budget; what one part does not need, the next may use.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from crdtsync.context import tokenizer
from crdtsync.context.compact.prose import sentences
from crdtsync.sessions.conversation.choose import paths_in
from crdtsync.sessions.conversation.record import ASSISTANT, USER, Call, Compaction, Conversation, Item, Text

_DECIDED = re.compile(r"\b(?:decided?|decision|chose|instead of|rather than|let'?s use|we(?:'ll| will| should)? use|"
                      r"switch(?:ed|ing)? to|agreed?|because)\b", re.IGNORECASE)  # fmt: skip
_REJECTED = re.compile(r"\b(?:reject(?:ed)?|dropp?(?:ed|ing)|give up|gave up|abandon(?:ed)?|revert(?:ed|ing)?|"
                       r"(?:did|does|do|will|would)(?: not|n'?t) work|too (?:slow|large|complex)|dead end|no longer)\b",
                       re.IGNORECASE)  # fmt: skip
_OPEN = re.compile(r"\b(?:to-?do|fixme|not yet|still (?:fails?|missing|open|needs?|to do)|remaining|left to do|"
                   r"next step|blocked|open question|needs? to be|must be)\b", re.IGNORECASE)  # fmt: skip
_CHANGES = re.compile(r"write|edit|patch|create|update", re.IGNORECASE)
_SENTENCE_CHARS_MAX = 400
_GOAL_SHARE, _PART_SHARE, _LAST_SHARE = 0.2, 0.15, 0.25


def brief(conversation: Conversation, excluded: Collection[int], budget_tokens: int, model: str, original: str) -> str:
    """The conversation without the ``excluded`` turns in at most ``budget_tokens`` of ``model``, as Markdown;
    ``original`` is the command that shows all of it.
    """
    counter = tokenizer(model)
    turns = [[] if number in excluded else turn for number, turn in enumerate(conversation.turns())]
    parts = [
        ("Goal", _GOAL_SHARE, _goals(turns)),
        ("Where it stands", _LAST_SHARE, _last(turns)),
        ("Decisions", _PART_SHARE, _telling(turns, _DECIDED)),
        ("Rejected", _PART_SHARE, _telling(turns, _REJECTED)),
        ("Open ends", _PART_SHARE, _telling(turns, _OPEN)),
        ("Files", 1.0, _files(turns)),
    ]
    written: dict[str, list[str]] = {}
    left = budget_tokens - counter.count(f"[In short; {original} shows the turns.]\n")
    for title, share, lines in parts:
        heading = f"## {title}\n"
        room = min(left, int(budget_tokens * share)) - counter.count(heading) - 2
        for line in lines:
            cost = counter.count(line) + 1
            if cost > room:
                break
            written.setdefault(heading, []).append(line)
            room -= cost
            left -= cost
        if heading in written:
            left -= counter.count(heading) + 2
    blocks = [heading + "\n".join(lines) for heading, lines in written.items()]
    whole = "\n\n".join([*blocks, f"[In short; {original} shows the turns.]"])
    return counter.truncate(whole, budget_tokens) if counter.count(whole) > budget_tokens else whole


def _goals(turns: list[list[Item]]) -> Iterator[str]:
    """The requests of a person, the first request first, then the newest ones."""
    asked = [(number, item.text) for number, turn in enumerate(turns) for item in turn[:1]
             if isinstance(item, Text) and item.role == USER]  # fmt: skip
    for number, text in [*asked[:1], *reversed(asked[1:])]:
        yield _line(number, text)


def _last(turns: list[list[Item]]) -> Iterator[str]:
    """The last answer of the model, or the summary of a compaction if it said nothing after it."""
    for number in range(len(turns) - 1, -1, -1):
        for item in reversed(turns[number]):
            if (isinstance(item, Text) and item.role == ASSISTANT) or isinstance(item, Compaction):
                text = item.text if isinstance(item, Text) else item.summary
                yield from (_line(number, part) for part in text.split("\n\n") if part.strip())
                return


def _telling(turns: list[list[Item]], words: re.Pattern[str]) -> Iterator[str]:
    """Sentences with such words, the newest first, each once."""
    seen: set[str] = set()
    for number in range(len(turns) - 1, -1, -1):
        for item in turns[number]:
            if not isinstance(item, Text) or item.role not in (USER, ASSISTANT):
                continue
            for sentence in sentences(item.text):
                line = _short(sentence)
                if words.search(sentence) and line not in seen:
                    seen.add(line)
                    yield _line(number, sentence)


def _files(turns: list[list[Item]]) -> Iterator[str]:
    """Files that calls named, those that were changed first, each with the turn that touched it last."""
    found: dict[str, tuple[bool, int]] = {}
    for number, turn in enumerate(turns):
        for item in turn:
            if isinstance(item, Call):
                changes = bool(_CHANGES.search(item.name))
                for path in paths_in(item.arguments.values()):
                    found[path] = (changes or found.get(path, (False, 0))[0], number)
    for path, (is_changed, number) in sorted(found.items(), key=lambda one: (not one[1][0], -one[1][1], one[0])):
        yield f"- {path} ({'changed' if is_changed else 'read'}, turn {number})"


def _line(number: int, text: str) -> str:
    return f"- turn {number}: {_short(text)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SENTENCE_CHARS_MAX else f"{line[:_SENTENCE_CHARS_MAX]}…"
