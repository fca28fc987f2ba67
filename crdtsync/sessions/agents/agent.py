"""What is to be known of a coding agent: where its sessions lie, what they tell, and what resumes them."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path

from crdtsync.errors import InvalidRequest
from crdtsync.sessions.agents.description import Description

CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE = "claude-code", "codex", "gemini-cli", "opencode"


class Agent(ABC):
    """One coding agent.

    ``variable`` names a variable that, if set, stands for its directory ``folder`` below the home; the directory is
    then ``below`` what it says. ``ids``: what its sessions are called. ``is_export``: its sessions lie in a database,
    and their files are made from that.
    """

    name: str
    title: str
    folder: str
    variable: str
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
        """What the lines of a main file tell, after those that told ``before``."""

    @abstractmethod
    def place(self, root: Path, session: str, cwd: str, before: str = "", time: str = "") -> str:
        """Where the main file of ``session`` belongs, below ``root``, if it is resumed in ``cwd``; ``before``: where it
        was elsewhere, ``time`` (RFC 3339): when a new one began.
        """

    @abstractmethod
    def resume_command(self, session: str, main: Path) -> str:
        """What resumes it, in its directory."""

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
        """What belongs to a session besides its main file, by names."""
        del path
        return {}

    def side_place(self, main: Path, name: str) -> Path:
        """Where the side file ``name`` belongs. Raises :class:`~crdtsync.errors.InvalidRequest` if it has none."""
        raise InvalidRequest(f"{self.title} keeps nothing beside {main.name}: {name!r} is not loaded")
