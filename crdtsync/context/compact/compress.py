"""The public function of this room: content in, fewer tokens out, never more than a budget."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from crdtsync.context.compact.code import compact_code
from crdtsync.context.compact.detect import KINDS, detect
from crdtsync.context.compact.diffs import compact_diff
from crdtsync.context.compact.headroom import compact_by_headroom
from crdtsync.context.compact.json_text import compact_json
from crdtsync.context.compact.lines import fit
from crdtsync.context.compact.logs import compact_log
from crdtsync.context.compact.markup import compact_html, compact_markdown
from crdtsync.context.compact.prose import compact_prose
from crdtsync.context.compact.result import Compact, CompactDraft
from crdtsync.context.given import expect, expect_count, expect_one
from crdtsync.context.tokens import DEFAULT_MODEL, Tokenizer, tokenizer

_BY_KIND: dict[str, Callable[[str, int, str | None], CompactDraft]] = {
    "json": compact_json,
    "log": compact_log,
    "code": compact_code,
    "diff": compact_diff,
    "html": compact_html,
    "markdown": compact_markdown,
    "prose": compact_prose,
}
_WAYS = ("rules", "headroom")
_LEVELS = (1, 2, 3, 4)  # with a budget; each leaves out more
_FAR = 10  # times the budget: so much more is seldom kept by the first levels
_SMALL = 40  # tokens: below it a text stays as it is


def compress(
    content: str,
    *,
    kind: str = "auto",
    budget: int | None = None,
    query: str | None = None,
    model: str = DEFAULT_MODEL,
    source: str | None = None,
    by: str = "rules",
) -> Compact:
    """``content`` in fewer tokens for ``model``, and in ``budget`` tokens at most if one is given.

    ``kind`` is one of json, log, code, diff, html, markdown and prose; ``auto`` looks. What the ``query`` asks for
    stays longer. ``source`` says how to get the original (a command, a call): where something was left out, the last
    line of the text says so, and names it. The result is never longer than the original, and the same on every host.
    ``by="headroom"`` has the package headroom-ai shorten it, if that is installed; budget and source hold alike.

    Raises :class:`~crdtsync.errors.InvalidRequest` for an unknown kind or way, or a negative budget.
    """
    expect(str, content=content)
    expect(str | None, query=query, source=source)
    expect_one(("auto", *KINDS), kind=kind)
    expect_one(_WAYS, by=by)
    if budget is not None:
        expect_count(0, budget=budget)
    counter = tokenizer(model)
    before = counter.count(content)
    kind = detect(content) if kind == "auto" else kind
    draft, after = CompactDraft(content), before
    if before > _SMALL or (budget is not None and before > budget):
        make = partial(_made, kind, content, query) if by == "rules" else lambda _: compact_by_headroom(content, model)
        draft, after = _best(make, content, before, budget, query, counter, source)
    return Compact(draft.text, kind, model, before, after, tuple(draft.transforms), tuple(draft.left_out))


def _best(
    make: Callable[[int], CompactDraft],
    content: str,
    before: int,
    budget: int | None,
    query: str | None,
    counter: Tokenizer,
    source: str | None,
) -> tuple[CompactDraft, int]:
    """The first draft that keeps the budget, by rising levels; cut at the ends if none does."""
    draft, after = CompactDraft(content), before
    levels = _LEVELS if budget is not None else (1,)
    if budget is not None and before > _FAR * budget:
        last = make(_LEVELS[-1])
        if counter.count(last.text) > budget:  # then no other level keeps it: they leave out less, and take as long
            levels, make = _LEVELS[-1:], lambda _: last
    for level in levels:
        made = _with_source(make(level), source)
        tokens = counter.count(made.text)
        if tokens < after:
            draft, after = made, tokens
        if budget is None or after <= budget:
            return draft, after
    tail = _source_line(source) if source else ""
    room = (budget or 0) - (counter.count(tail) if tail else 0)
    if room <= 0:
        tail, room = "", budget or 0
    short = fit(draft.text.removesuffix(tail), room, counter, query)
    cut = CompactDraft(short.text + tail, [*draft.transforms, *short.transforms], [*draft.left_out, *short.left_out])
    after = counter.count(cut.text)
    if after > (budget or 0):  # where the tail joins, tokens may split otherwise
        cut.text = counter.truncate(cut.text, budget or 0)
        after = counter.count(cut.text)
    return cut, after


def _made(kind: str, content: str, query: str | None, level: int) -> CompactDraft:
    """A draft of one kind; what does not parse as that kind is prose."""
    try:
        return _BY_KIND[kind](content, level, query)
    except (ValueError, RecursionError):
        return compact_prose(content, level, query)


def _with_source(draft: CompactDraft, source: str | None) -> CompactDraft:
    if draft.left_out and source:
        draft.text += _source_line(source)
    return draft


def _source_line(source: str) -> str:
    return f"\n[shortened; in full: {source}]"
