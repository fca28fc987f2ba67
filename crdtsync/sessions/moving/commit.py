"""Which commit a directory is at: whoever goes on elsewhere wants the same files."""

from __future__ import annotations

import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def commit_of(directory: str) -> str:
    """The commit that git has checked out in ``directory``; empty if there is none.

    It reads git's files itself: git could run what the settings of a repository name.
    """
    for folder in (Path(directory), *Path(directory).parents) if directory else ():
        git = folder / ".git"
        try:
            if git.is_file():  # of a worktree
                git = folder / git.read_text().removeprefix("gitdir:").strip()
            if git.is_dir():
                found = _head(git)
                return found if _COMMIT.fullmatch(found) else ""
        except (OSError, ValueError):
            return ""
    return ""


def _head(git: Path) -> str:
    name = (git / "HEAD").read_text().strip().removeprefix("ref: ")
    common = git / (git / "commondir").read_text().strip() if (git / "commondir").exists() else git
    if _COMMIT.fullmatch(name):
        return name
    if (common / name).is_file():
        return (common / name).read_text().strip()
    packed = (common / "packed-refs").read_text().splitlines()
    return next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")
