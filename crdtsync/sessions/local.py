"""Saves and loads on this machine: all that touches files, in functions that block."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from crdtsync.errors import InvalidEncoding, InvalidRequest, TooLarge
from crdtsync.sessions.agents.agent import CodingAgent, Description, titled
from crdtsync.sessions.agents.places import FILE_BYTES_MAX, Local, agent_named, check_id
from crdtsync.sessions.moving import files
from crdtsync.sessions.moving.commit import commit_of
from crdtsync.sessions.moving.paths import PathMap
from crdtsync.sessions.moving.plan import GROWN, NEW, Move, move
from crdtsync.sessions.notes import Note
from crdtsync.sessions.redaction.own import own_patterns
from crdtsync.sessions.redaction.patterns import FORMS, VALUE
from crdtsync.sessions.redaction.redactor import Redactor
from crdtsync.sessions.saved.header import FILES_MAX, MAIN, Saved, SavedFile, is_absolute
from crdtsync.sessions.saved.pieces import START, Piece, PieceTree, chain, lines_of, recent

_COMPARED_BYTES = 64 * 1024
_NAME_BYTES_MAX = 800
_WITH_PATH = re.compile(rb'"(?:[^"\\/]|\\.)*+/(?:[^"\\]|\\.)*+"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reading:
    """A session as it is on this machine now: its record, and of each file the pieces that were read, and what was
    before them: its digest, and what :func:`~crdtsync.sessions.saved.pieces.recent` gives for it; ``left_out``: files
    that were not taken, with the reason.
    """

    saved: Saved
    before: dict[str, tuple[bytes, bytes | None]]
    pieces: dict[str, list[Piece]]
    left_out: dict[str, str]


@dataclass(slots=True)
class SaveResult:
    """A save's outcome: the record, what was new, which files were not taken and why, which are ``shorter`` here than
    what was saved, with the bytes of that, and the same of the sessions that this one needs.
    """

    saved: Saved
    new_lines: int = 0
    new_bytes: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    shorter: dict[str, int] = field(default_factory=dict)
    needed: list[SaveResult] = field(default_factory=list)


@dataclass(slots=True)
class Loaded:
    """The outcome of loading, or what it would be.

    ``command`` resumes the session in ``cwd``. ``files`` says what became of each: ``new``, ``same``, ``grown``
    (gone on with), ``ahead`` (there is more here than was saved). ``rewritten`` counts each path that stands in the
    lines under another name now. ``redacted`` counts the secrets that are missing. ``commit`` is what git has checked
    out in ``cwd``.
    """

    saved: Saved
    cwd: str
    command: str
    files: dict[str, str] = field(default_factory=dict)
    rewritten: dict[tuple[str, str], int] = field(default_factory=dict)
    redacted: dict[str, int] = field(default_factory=dict)
    commit: str = ""
    other_ends: int = 0
    needed: list[Loaded] = field(default_factory=list)


class Follower:
    """Reads a session that may grow: all of it first, then what is new. It remembers its place, so that following a
    long session costs what its new lines cost; with :meth:`leave_note` the next process goes on from there, unless it
    reads ``anew``. A torn last line is read when nothing else is to come: ``whole``.
    """

    def __init__(self, local: Local, *, redact: bool, anew: bool = False) -> None:
        own = own_patterns() if redact else None
        rules = repr((redact, own, FORMS, VALUE))
        self._note = Note("sessions", str(local.main), sha256(rules.encode()).hexdigest())
        self._local = local
        self._new_redactor: Callable[[], Redactor | None] = (lambda: Redactor(own)) if redact else (lambda: None)
        self._tails: dict[str, _Tail] = {}
        self._about = Description()
        self.left_out: dict[str, str] = {}
        noted = self._note.taken()
        if noted is not None and not anew:
            with suppress(ValueError, KeyError, TypeError, AttributeError, OSError):
                self._go_on(json.loads(noted))

    def leave_note(self) -> None:
        """The part that was read is saved: let the next process go on from here."""
        tails = {name: tail.place() for name, tail in self._tails.items()}
        with suppress(OSError):
            recently = b64encode(self._tails[MAIN].recent or b"").decode()
            self._note.write(json.dumps({"about": asdict(self._about), "tails": tails, "recent": recently}))

    def _go_on(self, noted: dict[str, Any]) -> None:
        paths = {MAIN: self._local.main, **self._local.files()}
        tails = {name: _Tail(path, self._new_redactor) for name, path in paths.items() if name in noted["tails"]}
        tails = {name: tail for name, tail in tails.items() if tail.goes_on(noted["tails"][name])}
        if MAIN in tails:
            tails[MAIN].recent = b64decode(noted["recent"]) or None
            self._tails, self._about = tails, Description(**noted["about"])

    def read(self, *, whole: bool) -> Reading | None:
        """The new parts of all files; None: a file is not what it was, so begin anew."""
        before: dict[str, tuple[bytes, bytes | None]] = {}
        pieces: dict[str, list[Piece]] = {}
        for name, path in {MAIN: self._local.main, **self._local.files()}.items():
            is_known = name in self._tails
            reason = _unfit(name, path, len(self._tails) - is_known, None if is_known else self._new_redactor())
            if reason:
                self.left_out[name] = reason
                continue
            tail = self._tails.setdefault(name, _Tail(path, self._new_redactor))
            before[name] = tail.state.end, tail.recent
            new = tail.new(whole=whole)
            if new is None:
                return None
            pieces[name] = new
        if MAIN not in pieces:
            raise TooLarge(f"{self._local.main} {self.left_out[MAIN]}")
        self._about = self._local.agent.described(lines_of(pieces[MAIN]), self._about)
        return Reading(self._record(), before, pieces, dict(self.left_out))

    def _record(self) -> Saved:
        agent, about = self._local.agent, self._about
        root = agent.root()
        redactors = {name: tail.redactor for name, tail in self._tails.items() if tail.redactor}
        place = str(self._local.main.relative_to(root))
        places: dict[str, Any] = {"home": str(Path.home()), "root": str(root), "place": place}
        places |= {"user": _user(), "host": socket.gethostname()}
        if MAIN in redactors:
            redactors[MAIN] = redactors[MAIN].twin()
            places = {name: redactors[MAIN].text(text) for name, text in places.items()}
        counts: Counter[str] = Counter()
        for one in redactors.values():
            counts.update(one.found)
        return Saved(
            agent=agent.name, id=check_id(self._local.id), title=titled(about.title),
            cwd=about.cwd if is_absolute(about.cwd) else "", **places,
            turns=about.turns, model=titled(about.model), version=titled(about.version),
            files={name: replace(tail.state) for name, tail in self._tails.items()},
            redacted=dict(counts) if redactors else None, needs=[check_id(one) for one in about.needs],
            tokens=about.tokens, commit=commit_of(about.cwd),
        )  # fmt: skip


class _Tail:
    """One file as far as it was read."""

    def __init__(self, path: Path, new_redactor: Callable[[], Redactor | None]) -> None:
        self._path = path
        self._new_redactor = new_redactor
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._is_torn = False
        self.redactor = new_redactor()
        self.state = SavedFile(START, 0, 0)
        self.recent: bytes | None = b""

    def place(self) -> dict[str, Any]:
        """Up to where it was read, for :meth:`goes_on`."""
        state = [self.state.end.hex(), self.state.bytes, self.state.lines]
        redactor = self.redactor.state() if self.redactor else None
        return {"offset": self._offset, "before": self._before(), "state": state, "redactor": redactor,
                "torn": self._is_torn}  # fmt: skip

    def goes_on(self, noted: dict[str, Any]) -> bool:
        """Begin at the place where another process stopped; whether the file is still the one that it read, and a
        line that was torn there still is.
        """
        self._offset, self._is_torn, self.recent = int(noted["offset"]), bool(noted["torn"]), None
        if self._before() != noted["before"] or (self._is_torn and self._path.stat().st_size != self._offset):
            return False
        end, size, lines = noted["state"]
        self.state = SavedFile(bytes.fromhex(end), int(size), int(lines))
        if self.redactor:
            self.redactor.go_on(noted["redactor"])
        return True

    def _before(self) -> list[Any]:
        """The file, and a digest of what stands just before the place: files of sessions only grow."""
        with self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            file.seek(max(0, self._offset - _COMPARED_BYTES))
            there = file.read(min(self._offset, _COMPARED_BYTES))
        return [status.st_dev, status.st_ino, sha256(there).hexdigest()]

    def new(self, *, whole: bool) -> list[Piece] | None:
        """The pieces after those that were read; None: the file is another one, or shorter."""
        with self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            if self._file not in (None, (status.st_dev, status.st_ino)) or status.st_size < self._offset:
                return None
            self._file = (status.st_dev, status.st_ino)
            file.seek(self._offset)
            lines = list(file)
        if lines and not whole and not lines[-1].endswith(b"\n"):
            lines.pop()
        if lines:
            self._offset += sum(map(len, lines))
            self._is_torn = not lines[-1].endswith(b"\n")
        pieces = list(chain(self.redactor.lines(lines) if self.redactor else lines, self.state.end))
        for one in pieces:
            self.state.end = one.digest
            self.state.bytes += len(one.content)
            self.state.lines += one.content.endswith(b"\n")
            self.recent = recent(self.recent, one.content)
        return pieces


def load(
    saved: Saved,
    content: Mapping[str, list[Piece]],
    cwd: str | os.PathLike[str] | None,
    maps: Mapping[str, str],
    dry_run: bool,
) -> Loaded:
    """Put the files of a session where its agent looks for them."""
    agent = agent_named(saved.agent)
    agent.check_id(saved.id)
    root = agent.root()
    mapped, real = path_map(saved, cwd, maps)
    main = root / agent.place(root, saved.id, real, saved.place)
    if agent.is_export:
        agent.found(root, saved.id)
    own = own_patterns()
    moves = {}
    for name, pieces in content.items():
        path = main if name == MAIN else _beside(agent, main, name)
        redactor = None if saved.redacted is None else Redactor(own)
        moves[name] = move(path, mapped.lines(lines_of(pieces)), saved.id, redactor, mapped, is_export=agent.is_export)
    if not dry_run:
        agent.prepare(root, real)
        _carry_out(moves)
    command = agent.resume_command(saved.id, main)
    return Loaded(
        saved, real, f"cd {shlex.quote(real)} && {command}",
        {str(one.path): one.state for one in moves.values()}, dict(mapped.rewritten), saved.redacted or {},
        commit_of(real),
    )  # fmt: skip


def ways(tree: PieceTree, most: int) -> list[list[bytes]]:
    """The lines of each way in which a file went on, the newest first. One that another one begins with is none of its
    own; paths in it may be others, since it went on in another home.
    """
    found: list[list[bytes]] = []
    for end in tree.ends[: -most - 1 : -1] or [START]:
        with suppress(InvalidEncoding) if found else nullcontext():
            lines = list(lines_of(tree.file(end)))
            if not any(_begins(other, lines) for other in found):
                found.append(lines)
    return found


def _begins(whole: list[bytes], lines: list[bytes]) -> bool:
    return len(lines) <= len(whole) and all(
        one == other or _WITH_PATH.sub(b"", one) == _WITH_PATH.sub(b"", other)
        for one, other in zip(whole, lines, strict=False)
    )


def path_map(saved: Saved, cwd: str | os.PathLike[str] | None, maps: Mapping[str, str]) -> tuple[PathMap, str]:
    """Rewrites the paths of a session that goes on in ``cwd``, or in its own directory under this home; and that
    directory, without symbolic links.
    """
    pairs = {saved.home: str(Path.home()), **maps}
    there = cwd or PathMap(pairs).path(saved.cwd) or Path.cwd()
    if not cwd and not Path(there).is_absolute():
        raise InvalidRequest(f"session {saved.id} was in {saved.cwd}, which is no directory here: name one with --in")
    directory = str(Path(there).resolve())
    if cwd and saved.cwd:
        pairs[saved.cwd] = directory
    mapped, agent, root = PathMap(pairs), agent_named(saved.agent), agent_named(saved.agent).root()
    folder = (root / agent.place(root, saved.id, directory, saved.place)).parent
    mapped.add({saved.root: str(root), str(Path(saved.root) / Path(saved.place).parent): str(folder)})
    return mapped, directory


def _carry_out(moves: Mapping[str, Move]) -> None:
    """The main file goes last: without it the agent sees no session."""
    for name, one in sorted(moves.items(), key=lambda pair: pair[0] == MAIN):
        if one.state in (NEW, GROWN):
            try:
                one.carry_out()
            except OSError as error:
                raise OSError(error.errno, f"{name} was not written: {error.strerror}", str(one.path)) from error


def _beside(agent: CodingAgent, main: Path, name: str) -> Path:
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts or not parts:
        raise InvalidRequest(f"the session holds a file {name!r}, which would lie outside its folder: it is not loaded")
    path = agent.side_place(main, name)
    files.check_no_link(path, main.parent)
    return path


def _unfit(name: str, path: Path, before: int, redactor: Redactor | None) -> str | None:
    if not name.isprintable() or len(name.encode("utf-8", "replace")) > _NAME_BYTES_MAX:
        return "has a name that cannot be part of a key"
    if redactor is not None and redactor.text(name) != name:
        return "has a secret in its name"
    if name != MAIN and path.is_symlink():
        return "is a symbolic link"
    if path.stat().st_size > FILE_BYTES_MAX:
        return f"has more than {FILE_BYTES_MAX:,} bytes"
    return f"comes after {FILES_MAX:,} others" if before >= FILES_MAX else None


def _user() -> str:
    import getpass  # noqa: PLC0415  # slow to import

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
