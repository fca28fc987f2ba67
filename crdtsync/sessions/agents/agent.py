"""All that is to be known of a coding agent: where its sessions lie, what is said in them, and what resumes them."""

from __future__ import annotations

import json
import os
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.agents.fields import Fields
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    CONTEXT,
    CUT_OFF,
    Call,
    Compaction,
    Conversation,
    Image,
    Item,
    Own,
    Result,
    Text,
    Thinking,
)

CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE = "claude-code", "codex", "gemini-cli", "opencode"
NOTE = "[Note of crdtsync to "
"""Begins what a session that was handed over is told first."""
TITLE_CHARS_MAX = 80

NO_LONGER_SEEN = "the agent no longer saw it either"
OF_ITS_OWN = "the new agent is told of its own surroundings, rules and tools"
SEALED = "its provider keeps it sealed: no other model can read it"
TOLD_AS_TEXT = "no other agent has it: a text tells of it"


@dataclass(slots=True)
class Description:
    """A session as it is shown. ``turns`` counts what a person said; ``tokens`` are those of the model's last answer
    and of all that it was sent for it; ``needs`` are sessions that it goes on from.
    """

    title: str = ""
    cwd: str = ""
    version: str = ""
    model: str = ""
    turns: int = 0
    tokens: int = 0
    needs: list[str] = field(default_factory=list)

    def said(self, text: str) -> None:
        """Note what a person has said."""
        self.turns += 1
        self.title = self.title or titled(text)


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a new session: its ``id``, the directory it works in, the time that stands where an item
    has none (RFC 3339), and the note that comes before the conversation; ``model``, where the agent must be told it (as
    PROVIDER/MODEL), or it had one.
    """

    id: str
    cwd: str
    time: str
    note: str
    title: str = ""
    model: str = ""


class CodingAgent(ABC):
    """One coding agent.

    ``variable`` names a variable that, if set, stands for its directory ``folder`` below the home; the directory is
    then ``below`` what it says. ``shell``: its tool that runs a command, and the argument that is the command; no
    other tool means the same for all agents. ``counted_as``: the model whose tokens count for a budget. ``ids``: what
    its sessions are called. ``is_export``: its sessions lie in a database, and their files are made from that.
    """

    name: str
    title: str
    folder: str
    variable: str
    shell: tuple[str, str]
    counted_as: str
    below = ""
    ids = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    is_export = False

    def root(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Its directory on this machine."""
        given = environment.get(self.variable)
        return Path(given) / self.below if given else Path(environment.get("HOME") or Path.home()) / self.folder

    @abstractmethod
    def found(self, root: Path, session: str = "*") -> list[Path]:
        """The main files below ``root``, of one session or of all."""

    @abstractmethod
    def session_of(self, path: Path) -> str:
        """The id of the session whose main file this is."""

    @abstractmethod
    def described(self, lines: Iterable[bytes], before: Description | None = None) -> Description:
        """The description that the lines of a main file tell, after those that told ``before``."""

    @abstractmethod
    def read(self, lines: Iterable[bytes], parents: Mapping[str, list[bytes]] | None = None) -> Conversation:
        """The conversation that a resumed session sends its model, as it stands there; ``parents`` are the lines of
        sessions that it goes on from, by their ids.
        """

    @abstractmethod
    def write(self, conversation: Conversation, head: Head) -> Iterator[bytes]:
        """The lines of a main file in which the conversation goes on."""

    @abstractmethod
    def place(self, root: Path, session: str, cwd: str, before: str = "", time: str = "") -> str:
        """Where the main file of ``session`` belongs, below ``root``, if it is resumed in ``cwd``; ``before``: where it
        was elsewhere, ``time`` (RFC 3339): when a new one began.
        """

    @abstractmethod
    def resume_command(self, session: str, main: Path) -> str:
        """The command that resumes it, in its directory."""

    def check_id(self, session: str) -> None:
        """Raise :class:`~crdtsync.errors.InvalidRequest` if it calls no session of its own so: other names in its
        folders have other meanings.
        """
        if not self.ids.fullmatch(session):
            raise InvalidRequest(f"{session[:80]!r} is no id of a session of {self.title}")

    def new_id(self, uuid: str) -> str:
        """The id of a new session, from a UUID."""
        return uuid

    def model(self, root: Path) -> str:
        """The model that this user has it use, as PROVIDER/MODEL, where a new session must name it."""
        del root
        return ""

    def prepare(self, root: Path, cwd: str) -> None:
        """Make what it needs besides the main file, to find that in ``cwd``."""
        del root, cwd

    def side_files(self, path: Path) -> dict[str, Path]:
        """The files of a session besides its main file, by names."""
        del path
        return {}

    def side_place(self, main: Path, name: str) -> Path:
        """Where the side file ``name`` belongs. Raises :class:`~crdtsync.errors.InvalidRequest` if it has none."""
        raise InvalidRequest(f"{self.title} keeps nothing beside {main.name}: {name!r} is not loaded")

    def tool(self, name: str) -> str | None:
        """Its name of the tool ``name`` of some agent; None: it has none."""
        if name in _SHELLS:
            return self.shell[0]
        return name if name.startswith("mcp__") else None

    def taken(self, conversation: Conversation, cwd: str, *, is_own: bool) -> Conversation:
        """The conversation in items that this agent has: commands as calls of its shell, and, unless it was its own,
        parts that no other has as texts. Parts that are not carried so are listed.
        """
        made = Conversation(lost=conversation.lost)
        for item in conversation.items:
            taken = item
            if isinstance(taken, Call) and taken.name in _SHELLS and taken.name != self.shell[0]:
                taken = self._as_own_command(taken, cwd, made)
            if isinstance(taken, Result) and taken.text == CUT_OFF:
                made.lose("result of a cut-off call", "the call was interrupted; its result says so")
            if not is_own and not isinstance(taken, Compaction) and taken.own is not None:
                for kind in taken.own.kinds:
                    made.lose(kind, TOLD_AS_TEXT)
                taken = replace(taken, own=None)
            if isinstance(taken, Thinking) and not taken.text and taken.own is None:
                made.lose("thinking", SEALED)
            else:
                made.items.append(taken)
        return made

    def _as_own_command(self, call: Call, cwd: str, made: Conversation) -> Call:
        command = _command(call.arguments)
        if command is None:
            return call
        where = next((place for place in map(call.arguments.get, _PLACES) if isinstance(place, str) and place), cwd)
        if where != cwd:
            command = f"cd {shlex.quote(where)} && {command}"
        for name in sorted(call.arguments.keys() - {"command", "cmd", "type", *_PLACES}):
            made.lose(f"{titled(name)} of a command", f"{self.shell[0]} of {self.title} is shown the command alone")
        return Call(call.id, self.shell[0], {self.shell[1]: command}, call.time)

    def _told(self, conversation: Conversation, head: Head) -> Iterator[Text | Thinking | Call | Result]:
        """The conversation after the note, in items that this agent has; a thought only as it wrote it itself."""
        yield Text(CONTEXT, head.note, head.time)
        for item in conversation.items:
            match item:
                case Compaction(summary, time):
                    began = "[The conversation before this was made compact. What was left of it:]"
                    yield Text(CONTEXT, f"{began}\n{summary}".rstrip(), time)
                case Thinking(text, time, None):
                    yield Text(ASSISTANT, f"[thinking] {text}", time)
                case other:
                    yield other


def titled(text: str) -> str:
    """``text`` as a title: one line, not long."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= TITLE_CHARS_MAX else f"{line[: TITLE_CHARS_MAX - 1]}…"


def told_as_text(part: Fields, time: str) -> Text:
    """A part that is of no kind known here, as what the model said."""
    return Text(ASSISTANT, _mention(part), time, own=Own((part,), (_kind(part),)))


def said_in(
    parts: list[Fields], image_of: Callable[[Fields], Image | None]
) -> tuple[str, tuple[Image, ...], Own | None]:
    """The texts of the parts of a message, the images in it, and all of them if some are of no kind known here."""
    told: list[str] = []
    images: list[Image] = []
    others: dict[str, None] = {}
    for part in parts:
        image = image_of(part)
        if image is not None:
            images.append(image)
        elif part.text("type") in _TEXTS and "text" in part:
            told.append(part.text("text"))
        else:
            told.append(_mention(part))
            others[_kind(part)] = None
    return "\n".join(filter(None, told)), tuple(images), Own(tuple(parts), tuple(others)) if others else None


def _kind(part: Fields) -> str:
    return titled(part.text("type") or next(iter(part), "")) or "part without a type"


def _mention(part: Fields) -> str:
    shown = json.dumps({name: value for name, value in part.items() if name != "encrypted_content"}, ensure_ascii=False)
    media = part.sub("source").text("media_type")
    return f"[{_kind(part)}{f', {media}' if media else ''}] {'not carried' if _DATA.search(shown) else shown}"


def compacted(found: Conversation, items: list[Item]) -> None:
    """Put ``items``, some of which were there, in the place of all that was before a compaction."""
    kept = set(map(id, items))
    found.lose("item before a compaction", NO_LONGER_SEEN, sum(id(item) not in kept for item in found.items))
    found.items = items


_TEXTS = ("text", "input_text", "output_text", "")
_DATA = re.compile(r"[A-Za-z0-9+/=_-]{1000}")
_PLACES = ("workdir", "working_directory", "directory", "dir_path")
_SHELLS = {"Bash", "exec_command", "run_shell_command", "bash", "shell", "shell_command", "local_shell"}


def _command(arguments: Mapping[str, object]) -> str | None:
    given = arguments.get("command", arguments.get("cmd"))
    if isinstance(given, list) and all(isinstance(word, str) for word in given):
        return str(given[2]) if len(given) == 3 and given[1] in ("-lc", "-c") else shlex.join(given)
    return given if isinstance(given, str) else None
