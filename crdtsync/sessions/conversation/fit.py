"""A conversation within a budget of tokens: the newest turns whole, older ones compact.

A turn goes whole or compact, never in part: so no call loses its result. A compact turn is one text with what the
person said, a line for each call, and what the model said at the end.
"""

from __future__ import annotations

import json

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
"""What an item costs besides its text: role, names, ids. An image costs :data:`IMAGE_TOKENS` besides."""
IMAGE_TOKENS = 1600
_COMPACT_SHARE = 0.3
_COMPACT_TURN_TOKENS = 160
_LINE_CHARS_MAX = 160


def fitted(conversation: Conversation, budget_tokens: int, model: str, original: str) -> Conversation:
    """The conversation in at most ``budget_tokens`` of ``model``; ``original`` is the command that shows all of it.

    Raises :class:`~crdtsync.errors.InvalidRequest` if not even the newest turn fits.
    """
    counter = tokenizer(model)
    turns = conversation.turns()
    costs = [_cost(turn, counter) for turn in turns]
    if sum(costs) <= budget_tokens:
        return conversation
    whole, left = len(turns), budget_tokens - ITEM_TOKENS
    kept_for_older = int(budget_tokens * _COMPACT_SHARE) if len(turns) > 1 else 0
    while whole > 0 and costs[whole - 1] <= left - kept_for_older:
        whole -= 1
        left -= costs[whole]
    if whole == len(turns):
        if costs[-1] > left:
            message = (
                f"the newest turn alone takes {costs[-1]:,} tokens, and {max(0, budget_tokens):,} are left for it: "
                f"allow for more, or exclude thinking"
            )
            raise InvalidRequest(message)
        whole -= 1
        left -= costs[whole]
    made = Conversation(lost=conversation.lost)
    text = _older(turns[:whole], left, counter, original)
    if text:
        made.items.append(Text(CONTEXT, text))
    made.lose(f"turn in full (older than turn {whole})", f"the budget; {original} shows them", max(whole - 1, 1))
    for turn in turns[whole:]:
        made.items += turn
    return made


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
        text = compress(_compact(turns[number], number), budget=_COMPACT_TURN_TOKENS, model=counter.model).text
        cost = counter.count(text) + 2
        if cost > left:
            parts.append(f"[turns before turn {number + 1} are left out]")
            break
        parts.append(text)
        left -= cost
    whole = "\n\n".join([head, *reversed(parts)])
    return whole if counter.count(whole) <= budget_tokens else counter.truncate(whole, max(0, budget_tokens))


def _compact(turn: list[Item], number: int) -> str:
    lines = [f"Turn {number}"]
    results = {item.id: item for item in turn if isinstance(item, Result)}
    said = [item.text for item in turn if isinstance(item, Text) and item.role == ASSISTANT]
    for item in turn:
        match item:
            case Text(role, text) if role == USER:
                lines.append(f"User: {text}")
            case Compaction(summary):
                lines.append(f"Summary of what was before: {summary}")
            case Call(call_id, name, arguments):
                answer = results[call_id].text if call_id in results else ""
                lines.append(f"{name} {_short(json.dumps(arguments, ensure_ascii=False))} → {_short(answer)}")
    return "\n".join([*lines, *(f"Answer: {text}" for text in said[-1:])])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_CHARS_MAX else f"{line[:_LINE_CHARS_MAX]}…"
