"""The version of what is built here: of each commit another one, so that an upgrade is seen.

For example, two operators install wheels of the same week. With one version for all commits between two releases,
``pip install --upgrade`` would change nothing, and ``crdtsync doctor`` could not tell the daemon that runs from the one
that is installed. So the build asks this module, through hatchling's own ``code`` source (``pyproject.toml``):

- the commit that is tagged ``v0.2.0``: ``0.2.0``
- the 17th commit after the last release: ``0.2.0.dev17+g1a2b3c4d5``, with ``.dirty`` if files differ from it
- a source distribution: what its ``PKG-INFO`` says; hatchling does not ask then
- files without git: ``0.2.0.dev0``

The standard library, git if there is one, and no network.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

NEXT = "0.2.0"
"""The only place: the release that is being worked on."""
ROOT = Path(__file__).resolve().parent.parent


def version(root: Path = ROOT) -> str:
    """The version of the files in ``root``."""
    head = _git(root, "rev-parse", "--short=9", "HEAD") if (root / ".git").exists() else ""
    if not head:
        return f"{NEXT}.dev0"
    dirty = ".dirty" if _git(root, "status", "--porcelain", "--untracked-files=no") else ""
    if _git(root, "tag", "--points-at", "HEAD", "--list", f"v{NEXT}") and not dirty:
        return NEXT
    return f"{NEXT}.dev{_commits(root)}+g{head}{dirty}"


def _commits(root: Path) -> str:
    """How many there are since the last release, whose page names its commit; all, if it is not in this history."""
    pages = sorted((root / "docs" / "releases").glob("*.md"), key=lambda page: [int(n) for n in page.stem.split(".")])
    named = re.search(r"^- \*\*commit\*\*: `([0-9a-f]{40})`$", pages[-1].read_text(), re.MULTILINE) if pages else None
    since = named and _git(root, "rev-list", "--count", f"{named[1]}..HEAD")
    return since or _git(root, "rev-list", "--count", "HEAD")


def _git(root: Path, *arguments: str) -> str:
    """What git says; nothing where it cannot."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
