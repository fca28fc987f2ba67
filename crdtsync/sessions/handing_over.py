"""A saved session into one of another agent on this machine: in functions that touch files, and block."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Self
from uuid import NAMESPACE_URL, uuid5

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.agents.agent import CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE
from crdtsync.sessions.agents.places import agent_named
from crdtsync.sessions.conversation import choose
from crdtsync.sessions.conversation.note import losses, written
from crdtsync.sessions.conversation.reading import claude_code as from_claude_code
from crdtsync.sessions.conversation.reading import codex as from_codex
from crdtsync.sessions.conversation.reading import gemini_cli as from_gemini_cli
from crdtsync.sessions.conversation.reading import opencode as from_opencode
from crdtsync.sessions.conversation.record import CONTEXT, Conversation, Item, Text, settled
from crdtsync.sessions.conversation.show import shown
from crdtsync.sessions.conversation.writing import claude_code as to_claude_code
from crdtsync.sessions.conversation.writing import codex as to_codex
from crdtsync.sessions.conversation.writing import gemini_cli as to_gemini_cli
from crdtsync.sessions.conversation.writing import opencode as to_opencode
from crdtsync.sessions.conversation.writing.head import Head
from crdtsync.sessions.local import path_map
from crdtsync.sessions.moving.plan import move
from crdtsync.sessions.saved.header import Saved

READERS: dict[str, Callable[[list[bytes], Mapping[str, list[bytes]]], Conversation]] = {
    CLAUDE_CODE: lambda lines, _: from_claude_code.conversation(lines),
    CODEX: from_codex.conversation,
    GEMINI_CLI: lambda lines, _: from_gemini_cli.conversation(lines),
    OPENCODE: lambda lines, _: from_opencode.conversation(lines),
}
WRITERS = {
    CLAUDE_CODE: to_claude_code.lines, CODEX: to_codex.lines, GEMINI_CLI: to_gemini_cli.lines,
    OPENCODE: to_opencode.lines,
}  # fmt: skip
MODELS = {CLAUDE_CODE: "claude", CODEX: "gpt-5", GEMINI_CLI: "gemini", OPENCODE: "claude"}
"""Whose tokens count for a budget."""


@dataclass(frozen=True, slots=True)
class HandoverOptions:
    """How a session is handed over; see :meth:`Sessions.handover <crdtsync.sessions.blocking.Sessions.handover>`."""

    to: str
    cwd: str | None = None
    maps: Mapping[str, str] = field(default_factory=dict)
    budget_tokens: int | None = None
    thinking: bool = True
    dry_run: bool = False
    at: int | None = None
    excluded: tuple[int, ...] = ()
    only_files: bool = False
    notes: str = ""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A new session of the agent ``to``.

    ``command`` resumes it in ``cwd``. ``path`` is its file, and ``state`` says whether that is ``new``, ``same`` or
    ``ahead`` (it was resumed already). ``turns`` counts what a person said in it. ``lost`` says what is not carried
    over, each with its reason; the note at the head of the session says it too. ``rewritten`` counts each path that
    stands under another name now.
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

    def plain(self) -> dict[str, Any]:
        """As it is told to another host."""
        texts = {name: getattr(self, name) for name in _TEXTS}
        rewritten = [[old, new, times] for (old, new), times in self.rewritten.items()]
        return {**texts, "turns": self.turns, "lost": self.lost, "rewritten": rewritten}

    @classmethod
    def from_plain(cls, saved: Saved, value: Mapping[str, Any]) -> Self:
        """What another host has told; KeyError, TypeError or ValueError: that is nothing of this kind."""
        rewritten = {(str(old), str(new)): int(times) for old, new, times in value["rewritten"]}
        texts = {name: str(value[name]) for name in _TEXTS}
        return cls(saved, **texts, turns=int(value["turns"]), lost=[*map(str, value["lost"])], rewritten=rewritten)


_TEXTS = ("to", "id", "cwd", "command", "path", "state")


def conversation(saved: Saved, lines: list[bytes], parents: Mapping[str, list[bytes]]) -> Conversation:
    """What the model of a session would be sent; ``parents``: lines of the sessions that it needs."""
    return settled(READERS[agent_named(saved.agent).name](lines, parents))


def items_of(agent: str, lines: list[bytes]) -> list[Item]:
    """What stands in some lines of a session, as they come: a call may be without its result."""
    return READERS[agent](lines, {}).items


def hand_over(
    saved: Saved, lines: list[bytes], parents: Mapping[str, list[bytes]], options: HandoverOptions
) -> HandedOver:
    """Write the session, or a part of it, as a new one of the agent ``options.to``."""
    agent = agent_named(options.to)
    mapped, cwd = path_map(saved, options.cwd, options.maps)
    found = conversation(
        saved, list(mapped.lines(lines)), {name: list(mapped.lines(of)) for name, of in parents.items()}
    )
    found = choose.kept(found, options.excluded, options.at)
    if not found.items:
        raise InvalidRequest(f"session {saved.id} has nothing in it that can be handed over")
    if options.only_files:
        found = choose.only_files(found)
    if options.notes:
        found.items.append(Text(CONTEXT, options.notes))
    found = _within(found, saved, options, cwd)
    # The same state of the same session gives the same file: who repeats the command makes no second one.
    state = sha256(b"".join(lines)).hexdigest()
    identity = f"crdtsync/{saved.id}/{options.to}/{cwd}/{options.budget_tokens}/{options.thinking}/{state}"
    if options.at is not None or options.excluded:
        identity += f"/{options.at}/{choose.named(options.excluded)}"
    if options.only_files or options.notes:
        identity += f"/{options.only_files}/{sha256(options.notes.encode()).hexdigest()}"
    time = (saved.time or datetime(2000, 1, 1, tzinfo=UTC)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    root = agent.root()
    new = agent.new_id(str(uuid5(NAMESPACE_URL, identity)))
    head = Head(new, cwd, time, written(found, saved, options.to, cwd), saved.title, agent.model(root))
    path = root / agent.place(root, new, cwd, time=time)
    made = move(path, WRITERS[options.to](found, head), new, None)
    if not options.dry_run:
        agent.prepare(root, cwd)
        made.carry_out()
    command = f"cd {shlex.quote(cwd)} && {agent.resume_command(new, path)}"
    turns = len(found.turns()) - 1
    return HandedOver(saved, options.to, head.id, cwd, command, str(path), made.state, turns, losses(found),
                      dict(mapped.rewritten))  # fmt: skip


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

    original = f"crdtsync session show {saved.id} --turns N"
    model = model or MODELS[saved.agent]
    text = brief(found, excluded, budget_tokens, model, original)
    if better is None:
        return text
    told = better("\n".join([text, *shown(choose.kept(found, excluded))]))
    return tokenizer(model).truncate(told, budget_tokens)


def _within(found: Conversation, saved: Saved, options: HandoverOptions, cwd: str) -> Conversation:
    """Without thinking, and within the budget, if these are asked for."""
    from crdtsync.context import tokenizer  # noqa: PLC0415
    from crdtsync.sessions.conversation import fit  # noqa: PLC0415  # counting needs an extra

    if not options.thinking:
        found = fit.without_thinking(found)
    if options.budget_tokens is None:
        return found
    model = MODELS[options.to]
    note = tokenizer(model).count(written(found, saved, options.to, cwd)) + 4 * fit.ITEM_TOKENS
    return fit.fitted(found, options.budget_tokens - note, model, f"crdtsync session show {saved.id} --turns N")
