"""Check the documentation: every link leads somewhere, and the reference pages say what the code says.

A link may name a file, or a heading within one. Links to other hosts are not followed: a check that needs the network
fails for reasons of its own. The reference pages are made by :mod:`tools.reference`; ``--write`` writes them first.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from urllib.parse import unquote

from tools import reference

ROOT = Path(__file__).resolve().parent.parent

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_INLINE_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'(][^)]*)?\)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]^]+\]:\s*<?(\S+?)>?(?:\s|$)")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_ANCHOR_TAG = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def documents() -> list[Path]:
    """Every Markdown page of the project, in a fixed order."""
    pages = [page for page in ROOT.rglob("*.md") if not any(_is_skipped(part) for part in page.relative_to(ROOT).parts)]
    return sorted(pages)


def _is_skipped(part: str) -> bool:
    return part.startswith(".") or part in ("build", "dist", "node_modules")


def prose(page: Path) -> list[tuple[int, str]]:
    """The lines of a page outside code blocks, numbered from 1."""
    lines: list[tuple[int, str]] = []
    fence: str | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        mark = _FENCE.match(line)
        if mark is None and fence is None:
            lines.append((number, line))
        elif mark is not None and fence is None:
            fence = mark[1]
        elif mark is not None and fence is not None and mark[1].startswith(fence):
            fence = None
    return lines


def anchors(page: Path) -> set[str]:
    """What a link into a page may name: its headings, as the common hosts spell them, and explicit anchors."""
    found: set[str] = set()
    for _, line in prose(page):
        found.update(_ANCHOR_TAG.findall(line))
        heading = _HEADING.match(line)
        if heading is None:
            continue
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", heading[1]).lower()).replace(" ", "-")
        name, copies = slug, 0
        while name in found:
            copies += 1
            name = f"{slug}-{copies}"
        found.add(name)
    return found


def links(page: Path) -> list[tuple[int, str]]:
    """The targets of a page's links with the number of their line."""
    found: list[tuple[int, str]] = []
    for number, line in prose(page):
        text = _CODE_SPAN.sub("", line)
        found += [(number, target) for target in _INLINE_LINK.findall(text) + _REFERENCE.findall(text)]
    return found


def fault(page: Path, target: str) -> str | None:
    """What is wrong with a link, or None."""
    if _SCHEME.match(target) or target.startswith("//"):
        return None
    path, _, fragment = unquote(target).partition("#")
    goal = page if not path else (ROOT / path.lstrip("/") if path.startswith("/") else page.parent / path).resolve()
    if not goal.is_relative_to(ROOT):
        return f"{target} leads out of the project"
    if not goal.exists():
        return f"{target} does not exist"
    if fragment and goal.suffix == ".md" and fragment not in anchors(goal):
        return f"{target}: no heading of that name"
    return None


def check_links() -> int:
    """Print each broken link as ``page:line: what is wrong``; how many there are."""
    checked = broken = 0
    pages = documents()
    for page in pages:
        for line, target in links(page):
            checked += 1
            complaint = fault(page, target)
            if complaint is not None:
                broken += 1
                print(f"{page.relative_to(ROOT)}:{line}: {complaint}")
    print(f"{len(pages)} pages, {checked} links, {broken} broken")
    return broken


def check_reference() -> int:
    """Print each reference page that is not what the code says; how many there are."""
    stale = reference.stale()
    for page in stale:
        print(f"{page.relative_to(ROOT)}: the code says something else by now; write it anew with: {reference.COMMAND}")
    return len(stale)


def main() -> int:
    """Command line; the exit status is 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="./dev docs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the reference pages anew first")
    if parser.parse_args().write:
        for page in reference.write():
            print(f"{page.relative_to(ROOT)}: written")
    return 1 if check_links() + check_reference() else 0


if __name__ == "__main__":
    sys.exit(main())
