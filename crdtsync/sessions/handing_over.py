"""A saved session into one of another agent on this machine: in functions that touch files, and block."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, Self, TypedDict
from uuid import NAMESPACE_URL, uuid5

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.agents.agent import NOTE, CodingAgent, Head
from crdtsync.sessions.agents.places import AGENTS, agent_named
from crdtsync.sessions.conversation import choose
from crdtsync.sessions.conversation.record import CONTEXT, Conversation, Item, Text, Thinking, settled
from crdtsync.sessions.conversation.show import shown
from crdtsync.sessions.local import path_map
from crdtsync.sessions.moving.paths import PathMap, parsed
from crdtsync.sessions.moving.plan import move
from crdtsync.sessions.redaction.redactor import REDACTED
from crdtsync.sessions.saved.header import MAIN, Saved


class GoingOn(TypedDict, total=False):
    """How a session goes on as a new one.

    ``cwd`` and ``maps`` are as of :meth:`Sessions.load <crdtsync.sessions.blocking.Sessions.load>`. With
    ``budget_tokens`` the newest turns stay whole and older ones become compact; that needs
    ``pip install 'crdtsync[context]'``. ``thinking=False`` leaves out what the model thought. With ``only_files``
    nothing but calls that name files is carried, with their results. ``merge`` is another saved session, whose
    :meth:`brief <crdtsync.sessions.blocking.Sessions.brief>` comes last. ``dry_run`` writes nothing.
    """

    cwd: str | os.PathLike[str] | None
    maps: Iterable[str]
    budget_tokens: int | None
    thinking: bool
    only_files: bool
    merge: str | None
    dry_run: bool


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A new session of the agent ``to``.

    ``command`` resumes it in ``cwd``; ``is_there``: there is such a directory. ``path`` is its file, and ``state`` says
    whether that is ``new``, ``same`` or ``ahead`` (it was resumed already). ``turns`` counts what a person said in it.
    ``lost`` says what is not carried over, each with its reason; the note at the head of the session says it too.
    ``rewritten`` counts each path that stands under another name now.
    """

    saved: Saved
    to: str
    id: str
    cwd: str
    command: str
    path: str
    state: str
    turns: int
    lost: list[str]
    rewritten: dict[tuple[str, str], int]
    is_there: bool

    def plain(self) -> dict[str, Any]:
        """As it is told to another host."""
        texts = {name: getattr(self, name) for name in _TEXTS}
        rewritten = [[old, new, times] for (old, new), times in self.rewritten.items()]
        return {**texts, "turns": self.turns, "lost": self.lost, "rewritten": rewritten, "is_there": self.is_there}

    @classmethod
    def from_plain(cls, saved: Saved, value: Mapping[str, Any]) -> Self:
        """The word of another host; KeyError, TypeError or ValueError: that is nothing of this kind."""
        rewritten = {(str(old), str(new)): int(times) for old, new, times in value["rewritten"]}
        texts = {name: str(value[name]) for name in _TEXTS}
        lost, is_there = [*map(str, value["lost"])], bool(value.get("is_there", True))
        return cls(saved, **texts, turns=int(value["turns"]), lost=lost, rewritten=rewritten, is_there=is_there)


_TEXTS = ("to", "id", "cwd", "command", "path", "state")
_TELLING = ("budget_tokens", "thinking", "only_files")


def conversation(saved: Saved, lines: list[bytes], parents: Mapping[str, list[bytes]]) -> Conversation:
    """The conversation that the model of a session would be sent; ``parents``: lines of the sessions that it needs."""
    return settled(agent_named(saved.agent).read(lines, parents))


def hand_over(
    saved: Saved,
    lines: list[bytes],
    parents: Mapping[str, list[bytes]],
    to: str,
    at: int | None,
    excluded: Collection[int],
    notes: str,
    options: GoingOn,
) -> HandedOver:
    """Write the session, up to the end of turn ``at`` and without the ``excluded`` ones, as a new one of the agent
    ``to``, with ``notes`` at the end.
    """
    agent = agent_named(to)
    maps = parsed(options.get("maps", ()))
    mapped, cwd = path_map(saved, options.get("cwd"), maps)
    found = conversation(
        saved, list(mapped.lines(lines)), {name: list(mapped.lines(of)) for name, of in parents.items()}
    )
    found = _kept(saved, found, excluded, at)
    for folder, names in groupby(sorted({*saved.files} - {MAIN}), os.path.dirname):
        first, *more = names
        original = f"crdtsync session show {saved.id} --file {shlex.quote(first)}"
        found.lose(f"file in {folder or '.'}", f"the model was not shown it; {original} prints one", 1 + len(more))
    if options.get("only_files"):
        found = choose.only_files(found)
    if notes:
        found.items.append(Text(CONTEXT, notes))
    if not options.get("thinking", True):
        found = choose.without_thinking(found)
    tools, budget_tokens = found.tool_names(), options.get("budget_tokens")
    is_own = to == saved.agent and budget_tokens is None
    found = agent.taken(_unsealed(found, mapped), cwd, is_own=is_own)
    if budget_tokens is not None:
        found = _within(found, saved, budget_tokens, agent, _note(found, saved, agent, cwd, tools))
    # The same state of the same session gives the same file: who repeats the command makes no second one.
    state = sha256(b"".join(lines)).hexdigest()
    identity = repr((saved.id, to, cwd, sorted(maps.items()), at, excluded, notes, state, *map(options.get, _TELLING)))
    time = (saved.time or datetime(2000, 1, 1, tzinfo=UTC)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    root = agent.root()
    new = agent.new_id(str(uuid5(NAMESPACE_URL, identity)))
    model = saved.model if is_own else ""
    head = Head(new, cwd, time, _note(found, saved, agent, cwd, tools), saved.title, agent.model(root) or model)
    path = root / agent.place(root, new, cwd, time=time)
    made = move(path, agent.write(found, head), new, None)
    if not options.get("dry_run"):
        agent.prepare(root, cwd)
        made.carry_out()
    command = f"cd {shlex.quote(cwd)} && {agent.resume_command(new, path)}"
    turns = len(found.turns()) - 1
    return HandedOver(saved, to, head.id, cwd, command, str(path), made.state, turns, found.losses(),
                      dict(mapped.rewritten), Path(cwd).is_dir())  # fmt: skip


def in_short(
    saved: Saved,
    found: Conversation,
    excluded: Collection[int],
    budget_tokens: int,
    model: str | None,
    better: Callable[[str], str] | None,
) -> str:
    """The session in at most ``budget_tokens``, without the excluded turns."""
    from crdtsync.context import tokenizer  # noqa: PLC0415
    from crdtsync.sessions.conversation.brief import brief  # noqa: PLC0415  # counting needs an extra

    kept = _kept(saved, found, excluded)
    original = f"crdtsync session show {saved.id} --turns N"
    model = model or AGENTS[saved.agent].counted_as
    text = brief(found, excluded, budget_tokens, model, original)
    if better is None:
        return text
    told = better("\n".join([text, *shown(kept)]))
    return tokenizer(model).truncate(told, budget_tokens)


def _kept(saved: Saved, found: Conversation, excluded: Collection[int], at: int | None = None) -> Conversation:
    kept = choose.kept(found, excluded, at)
    if not kept.items:
        left = f" but excluded turns ({choose.named(excluded)}): crdtsync session include" if excluded else ""
        raise InvalidRequest(f"session {saved.id} has nothing in it{left}")
    return kept


def _unsealed(found: Conversation, mapped: PathMap) -> Conversation:
    """The same, with thoughts that are not to the letter what was sealed as texts: their provider would refuse them."""
    changed = (REDACTED, *(new for _, new in mapped.rewritten))

    def unsealed(item: Item) -> Item:
        if isinstance(item, Thinking) and any(word in item.text for word in changed):
            return replace(item, own=None)
        return item

    return Conversation([*map(unsealed, found.items)], found.lost)


def _within(found: Conversation, saved: Saved, budget_tokens: int, agent: CodingAgent, note: str) -> Conversation:
    from crdtsync.context import tokenizer  # noqa: PLC0415
    from crdtsync.sessions.conversation import fit  # noqa: PLC0415  # counting needs an extra

    taken = tokenizer(agent.counted_as).count(note) + 4 * fit.ITEM_TOKENS
    original = f"crdtsync session show {saved.id} --turns N"
    return fit.fitted(found, budget_tokens - taken, agent.counted_as, original)


def _note(conversation: Conversation, saved: Saved, agent: CodingAgent, cwd: str, tools: list[str]) -> str:
    """The note for the next model before the conversation: whose it was, how to read it (``tools`` were called in it),
    what is missing.
    """
    before = AGENTS[saved.agent].title
    begun = (
        f"This conversation was begun with {before} (session {saved.id}, {saved.user} on {saved.host}, in {saved.cwd})"
    )
    look = "Files may have changed since: look before you rely on what a result shows."
    parts = [
        f"{NOTE}{agent.title}: {begun} and goes on with you, in {cwd}.",
        f"What follows was said and done there, in this order. {look}",
    ]
    own = {name: agent.tool(name) for name in tools}
    same = [f"{name} is your {ours}" for name, ours in own.items() if ours not in (None, name)]
    foreign = [name for name, ours in own.items() if ours is None]
    if same:
        parts.append(f"Tools: {'; '.join(same)}; their calls are shown as calls of yours.")
    if foreign:
        parts.append(
            f"These tools were {before}'s: {', '.join(foreign)}. Read their calls as what was done; call your own."
        )
    if saved.redacted:
        parts.append("Marks such as [redacted:github-token:1] stand for secrets that were taken out.")
    if conversation.lost:
        parts += ["Not carried over:", *(f"- {line}" for line in conversation.losses())]
    parts.append(f"`crdtsync session show {saved.id}` shows its turns, with --file main all lines of its file.]")
    return "\n".join(parts)
