"""What a save reads on this machine, and what a load does to it: all that touches files, in functions that block."""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crdtsync.errors import InvalidRequest, TooLarge
from crdtsync.sessions.agents.places import FILE_BYTES_MAX, Agent, Local, agent_named, check_id
from crdtsync.sessions.moving.paths import PathMap
from crdtsync.sessions.moving.plan import GROWN, NEW, Move, move
from crdtsync.sessions.redaction.redactor import Redactor, own_patterns
from crdtsync.sessions.saved.header import MAIN, Saved, SavedFile
from crdtsync.sessions.saved.pieces import START, Piece, chain, lines_of

FILES_MAX = 1000
_NAME_BYTES_MAX = 800


@dataclass(frozen=True, slots=True)
class Reading:
    """A session as it is on this machine now: its record, and the pieces of each file; ``left_out``: files that were
    not taken, with the reason.
    """

    saved: Saved
    pieces: dict[str, list[Piece]]
    left_out: dict[str, str]


@dataclass(slots=True)
class SaveResult:
    """What a save did: the record, what was new, which files were not taken and why, and the same of the sessions that
    this one needs.
    """

    saved: Saved
    new_lines: int = 0
    new_bytes: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    needed: list[SaveResult] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a session is loaded; see :meth:`Sessions.load <crdtsync.sessions.blocking.Sessions.load>`."""

    cwd: str | None = None
    maps: Mapping[str, str] = field(default_factory=dict)
    patterns: Path | None = None
    dry_run: bool = False


@dataclass(slots=True)
class Loaded:
    """What loading did, or would do.

    ``command`` resumes the session in ``cwd``. ``files`` says what became of each: ``new``, ``same``, ``grown``
    (gone on with), ``ahead`` (there is more here than was saved). ``rewritten`` counts each path that stands in the
    lines under another name now. ``redacted`` counts the secrets that are missing.
    """

    saved: Saved
    cwd: str
    command: str
    files: dict[str, str] = field(default_factory=dict)
    rewritten: dict[tuple[str, str], int] = field(default_factory=dict)
    redacted: dict[str, int] = field(default_factory=dict)
    other_ends: int = 0
    needed: list[Loaded] = field(default_factory=list)


def default_patterns() -> Path:
    """Where the user's own patterns of secrets lie."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "crdtsync" / "secrets.txt"


def read(local: Local, *, redact: bool, patterns: Path | None) -> Reading:
    """Read all files of a session, without the secrets in them."""
    own = _own(patterns) if redact else []
    pieces: dict[str, list[Piece]] = {}
    counts: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for name, path in {MAIN: local.main, **local.files()}.items():
        reason = _unfit(name, path, len(pieces))
        if reason:
            left_out[name] = reason
            continue
        redactor = Redactor(own)
        with path.open("rb") as file:
            pieces[name] = list(chain(redactor.lines(file) if redact else file))
        for kind, count in redactor.found.items():
            counts[kind] = counts.get(kind, 0) + count
    if MAIN not in pieces:
        raise TooLarge(f"{local.main} {left_out[MAIN]}")
    about = local.agent.described(lines_of(pieces[MAIN]))
    root = local.agent.root()
    saved = Saved(
        agent=local.agent.name, id=check_id(local.id), title=about.title, cwd=about.cwd, home=str(Path.home()),
        user=_user(), host=socket.gethostname(), root=str(root), place=str(local.main.relative_to(root)),
        turns=about.turns, model=about.model, version=about.version, files={}, redacted=counts if redact else None,
        needs=[check_id(one) for one in about.needs],
    )  # fmt: skip
    saved.files = {name: _state(found) for name, found in pieces.items()}
    return Reading(saved, pieces, left_out)


def load(saved: Saved, files: Mapping[str, list[Piece]], options: LoadOptions) -> Loaded:
    """Put the files of a session where its agent looks for them."""
    agent = agent_named(saved.agent)
    root = agent.root()
    mapped, real = path_map(saved, options.cwd, options.maps)
    main = root / agent.place(saved.id, real, saved.place)
    folders = {saved.root: str(root), str(Path(saved.root) / Path(saved.place).parent): str(main.parent)}
    mapped.add(folders)
    own = _own(options.patterns)
    moves = {}
    for name, pieces in files.items():
        path = main if name == MAIN else _beside(agent, main, name)
        redactor = None if saved.redacted is None else Redactor(own)
        moves[name] = move(path, mapped.lines(lines_of(pieces)), saved.id, redactor)
    if not options.dry_run:
        _carry_out(moves)
    command = shlex.join(agent.resume_command(saved.id))
    return Loaded(
        saved, real, f"cd {shlex.quote(real)} && {command}",
        {str(one.path): one.state for one in moves.values()}, dict(mapped.rewritten), saved.redacted or {},
    )  # fmt: skip


def path_map(saved: Saved, cwd: str | None, maps: Mapping[str, str]) -> tuple[PathMap, str]:
    """What rewrites the paths of a session that goes on in ``cwd``, or in its own directory under this home; and that
    directory, without symbolic links.
    """
    pairs = {saved.home: str(Path.home()), **maps}
    directory = str(Path(cwd or PathMap(pairs).path(saved.cwd)).resolve()) if cwd or saved.cwd else str(Path.cwd())
    if cwd and saved.cwd:
        pairs[saved.cwd] = directory
    return PathMap(pairs), directory


def missing(pieces: Iterable[Piece], end: bytes) -> list[Piece] | None:
    """The pieces after ``end``, where a file is saved up to that; None: its beginning is not what was saved."""
    pieces = list(pieces)
    if end == START:
        return pieces
    for at, one in enumerate(pieces):
        if one.digest == end:
            return pieces[at + 1 :]
    return None


def _own(patterns: Path | None) -> list[re.Pattern[bytes]]:
    """The patterns in that file; without one in the usual file, if there is one."""
    if patterns is None and not default_patterns().exists():
        return []
    return own_patterns(patterns or default_patterns())


def _carry_out(moves: Mapping[str, Move]) -> None:
    """The main file goes last: without it the agent sees no session."""
    for name, one in sorted(moves.items(), key=lambda pair: pair[0] == MAIN):
        if one.state in (NEW, GROWN):
            try:
                one.carry_out()
            except OSError as error:
                raise OSError(error.errno, f"{name} was not written: {error.strerror}", str(one.path)) from error


def _beside(agent: Agent, main: Path, name: str) -> Path:
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts or not parts:
        raise InvalidRequest(f"the session holds a file {name!r}, which would lie outside its folder: it is not loaded")
    return agent.side_place(main, name)


def _unfit(name: str, path: Path, before: int) -> str | None:
    if not name.isprintable() or len(name.encode("utf-8", "replace")) > _NAME_BYTES_MAX:
        return "has a name that cannot be part of a key"
    if path.stat().st_size > FILE_BYTES_MAX:
        return f"has more than {FILE_BYTES_MAX:,} bytes"
    return f"comes after {FILES_MAX:,} others" if before >= FILES_MAX else None


def _state(pieces: list[Piece]) -> SavedFile:
    lines = sum(one.content.endswith(b"\n") for one in pieces)
    return SavedFile(pieces[-1].digest if pieces else START, sum(len(one.content) for one in pieces), lines)


def _user() -> str:
    import getpass  # noqa: PLC0415  # slow to import

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
