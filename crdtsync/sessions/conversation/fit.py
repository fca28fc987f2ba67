"""A conversation within a budget of tokens: the newest turns whole, older ones compact.

A turn goes whole or compact, never in part: so no call loses its result. A compact turn is one text with the beginnings
of what the person said, of its last calls and of the model's last word. If the newest turn alone is too long, its
largest results become compact.
"""

from __future__ import annotations

import json
from dataclasses import replace

from crdtsync.context import Tokenizer, compress, tokenizer
from crdtsync.errors import InvalidRequest
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    CONTEXT,
    USER,
    Call,
    Compaction,
    Conversation,
    Item,
    Result,
    Text,
    text_of,
)

ITEM_TOKENS = 12
"""Tokens that an item costs besides its text: role, names, ids. An image costs :data:`IMAGE_TOKENS` besides."""
IMAGE_TOKENS = 1600
_COMPACT_SHARE = 0.3
_COMPACT_RESULT_TOKENS_MIN = 60
_SAID_CHARS_MAX, _SUMMARY_CHARS_MAX = 240, 2000
_CALLS_MAX, _CALL_CHARS_MAX = 4, 60


def fitted(conversation: Conversation, budget_tokens: int, model: str, original: str) -> Conversation:
    """The conversation in at most ``budget_tokens`` of ``model``; ``original`` is the command that shows all of it.

    Raises :class:`~crdtsync.errors.InvalidRequest` if not even the newest turn fits with its results made compact.
    """
    counter = tokenizer(model)
    turns = conversation.turns()
    costs: dict[int, int] = {}  # of the newest turns, until they are too many: counting all takes long
    for number in range(len(turns) - 1, -1, -1):
        costs[number] = _cost(turns[number], counter)
        if sum(costs.values()) > budget_tokens:
            break
    else:
        return conversation
    made = Conversation(lost=conversation.lost)
    whole, left = len(turns), budget_tokens - ITEM_TOKENS
    kept_for_older = int(budget_tokens * _COMPACT_SHARE) if any(turns[:-1]) else 0
    while whole > 0 and costs[whole - 1] <= left - kept_for_older:
        whole -= 1
        left -= costs[whole]
    if whole == len(turns):
        whole -= 1
        if costs[whole] > left:
            room = left - kept_for_older
            turns[whole], shortened = _with_compact_results(turns[whole], room, costs[whole], counter, original)
            made.lose("result in full", f"the budget; {original} shows it", shortened)
            costs[whole] = room
        left -= costs[whole]
    if any(turns[:whole]):
        if text := _older(turns[:whole], left, counter, original):
            made.items.append(Text(CONTEXT, text))
        made.lose(f"turn in full (older than turn {whole})", f"the budget; {original} shows them", max(whole - 1, 1))
    for turn in turns[whole:]:
        made.items += turn
    return made


def _with_compact_results(
    turn: list[Item], budget_tokens: int, cost: int, counter: Tokenizer, original: str
) -> tuple[list[Item], int]:
    """The turn, which costs more than it may, with its largest results made compact; how many these are.

    Each result may be as long as a *level*, which is what the smaller ones leave to it.
    """
    costs = sorted(counter.counts(item.text for item in turn if isinstance(item, Result)))
    room, level = budget_tokens - cost + sum(costs), 0
    for number, one in enumerate(costs):
        level = room // (len(costs) - number)
        if one > level:
            break
        room -= one
    if level < _COMPACT_RESULT_TOKENS_MIN:
        raise InvalidRequest(
            f"the newest turn alone takes {cost:,} tokens, and {max(0, budget_tokens):,} are left for it: "
            f"allow for more, or leave thinking out"
        )
    long = [item for item in turn if isinstance(item, Result) and counter.count(item.text) > level]
    short = {
        id(item): replace(item, text=compress(item.text, budget=level, model=counter.model, source=original).text)
        for item in long
    }
    return [short.get(id(item), item) for item in turn], len(long)


def _cost(turn: list[Item], counter: Tokenizer) -> int:
    images = sum(len(item.images) for item in turn if isinstance(item, Text | Result))
    return sum(counter.counts(map(text_of, turn))) + ITEM_TOKENS * len(turn) + IMAGE_TOKENS * images


def _older(turns: list[list[Item]], budget_tokens: int, counter: Tokenizer, original: str) -> str:
    """The older turns as one text: each in some lines, from the newest on, as long as they fit."""
    parts: list[str] = []
    head = f"[The turns before this, made compact. {original} shows them whole.]"
    left = budget_tokens - counter.count(head) - ITEM_TOKENS
    for number in range(len(turns) - 1, -1, -1):
        if not turns[number]:
            continue
        text = _compact(turns[number], number)
        cost = counter.count(text) + 2
        if cost > left:
            parts.append(f"[turns before turn {number + 1} are left out]")
            break
        parts.append(text)
        left -= cost
    whole = "\n\n".join([head, *reversed(parts)])
    return whole if counter.count(whole) <= budget_tokens else counter.truncate(whole, max(0, budget_tokens))


def _compact(turn: list[Item], number: int) -> str:
    """The words of a person, a line for each of the last calls, and what the model said at the end."""
    results = {item.id: item.text for item in turn if isinstance(item, Result)}
    asked, calls, said = [f"Turn {number}"], list[str](), list[str]()
    for item in turn:
        match item:
            case Text(role, text) if role == USER:
                asked.append(f"User: {_short(text, _SAID_CHARS_MAX)}")
            case Text(role, text) if role == ASSISTANT:
                said = [f"Answer: {_short(text, _SAID_CHARS_MAX)}"]
            case Compaction(summary):
                asked.append(f"Summary of what was before: {_short(summary, _SUMMARY_CHARS_MAX)}")
            case Call(call_id, name, arguments):
                given = _short(json.dumps(arguments, ensure_ascii=False), _CALL_CHARS_MAX)
                calls.append(f"{name} {given} → {_short(results.get(call_id, ''), _CALL_CHARS_MAX)}")
    more = [f"[{len(calls) - _CALLS_MAX} calls before these]"] if len(calls) > _CALLS_MAX else []
    return "\n".join([*asked, *more, *calls[-_CALLS_MAX:], *said])


def _short(text: str, chars_max: int) -> str:
    line = " ".join(text[: 4 * chars_max].split())
    return line if len(line) <= chars_max and len(text) <= 4 * chars_max else f"{line[:chars_max]}…"
