"""The documentation as a site: ``./dev docs`` builds it into ``build/site``; with ``--serve`` it is shown as you write.

The pages are read in the checkout too, where they may link to source files. So they are *staged* first: copied to
``build/docs``, with each link pointed at the staged page, or, where it leads to no page of the site, replaced by its
text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
DOCS, STAGED = ROOT / "docs", ROOT / "build" / "docs"
BESIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the site that do not lie in ``docs``."""
PROGRAM = ("zensical", "build", "--strict", "--config-file", "mkdocs.yml")

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ {0,3}(```|~~~)")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:|^//|^#", re.IGNORECASE)


def places() -> dict[Path, Path]:
    """Where each file of the site comes from, and where it is staged."""
    found = {file: STAGED / file.relative_to(DOCS) for file in sorted(DOCS.rglob("*")) if file.is_file()}
    return found | {ROOT / name: STAGED / place for name, place in BESIDE.items()}


def staged_text(source: Path, staged: dict[Path, Path]) -> str:
    """A page with its links as they are on the site."""

    def link(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        if SCHEME.match(target):
            return match[0]
        path, hash_, heading = target.partition("#")
        goal = staged.get((source.parent / unquote(path)).resolve())
        return text if goal is None else f"[{text}]({os.path.relpath(goal, staged[source].parent)}{hash_}{heading})"

    lines, is_code = [], False
    for line in source.read_text(encoding="utf-8").splitlines(keepends=True):
        is_code ^= FENCE.match(line) is not None
        lines.append(line if is_code else LINK.sub(link, line))
    return "".join(lines)


def stage() -> None:
    """Bring the staged pages up to date; what has not changed is not written."""
    staged = places()
    for file in sorted(STAGED.rglob("*")):
        if file.is_file() and file not in staged.values():
            file.unlink()
    for source, place in staged.items():
        data = staged_text(source, staged).encode() if source.suffix == ".md" else source.read_bytes()
        if not place.exists() or place.read_bytes() != data:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)


def build() -> int:
    """Build the site; any warning is an error."""
    shutil.rmtree(ROOT / "build" / "site", ignore_errors=True)
    stage()
    return subprocess.run([*PROGRAM, "--clean"], cwd=ROOT, check=False).returncode


def serve() -> int:
    """Serve the site until Ctrl-C, with what is changed meanwhile."""
    stage()
    with subprocess.Popen(["zensical", "serve", "--config-file", "mkdocs.yml"], cwd=ROOT) as server:
        try:
            while server.poll() is None:
                time.sleep(1)
                stage()
        except KeyboardInterrupt:
            server.terminate()
        return server.wait()


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:] == ["--serve"] else build())
