"""What the documentation says of ``./dev`` can be typed so: the chore is there, and each option that is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import main as benchmarks

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = {
    "bench": "benchmarks",
    "crash": "tests.crash",
    "fuzz": "fuzz",
    "load": "tests.load",
    "nemesis": "tests.nemesis",
    "simulate": "crdtsync.testing",
}
"""Chores with options of their own, and the program that each runs."""


def typed() -> list[str]:
    """Every command line with ``./dev``, in code of any kind."""
    found: set[str] = set()
    for page in PAGES:
        text = page.read_text()
        lines = re.findall(r"^(?:    |\$ )(\./dev [^\n]*)$", text, re.MULTILINE)
        found.update(line.partition("  #")[0].strip() for line in lines)
        found.update(re.findall(r"`(\./dev [^`]*)`", text))
    return sorted(found)


def options_of(chore: str, name: str) -> set[str]:
    """The options that a chore takes, of the command by this name if it has several."""
    if chore == "bench":
        command = benchmarks.commands[name] if name else benchmarks
        return {option for each in command.params for option in each.opts}
    place = ROOT / PROGRAMS[chore].replace(".", "/")
    source = "".join(file.read_text() for file in place.glob("*.py"))
    return {f"--{option}" for option in re.findall(r'"(?:--)?([a-z][a-z-]*)"', source)}


def test_every_chore_is_one():
    source = (ROOT / "tools" / "dev.py").read_text().partition("\nCHORES: ")[2].partition("\n}\n")[0]
    named = {line.split()[1].partition("/")[0] for line in typed()}
    assert len(named) > 8
    assert named <= set(re.findall(r'^    "([a-z]+)":', source, re.MULTILINE))


@pytest.mark.parametrize("chore", sorted(PROGRAMS))
def test_every_option_is_one(chore):
    lines = [line.split()[2:] for line in typed() if line.split()[1] == chore]
    assert lines, "the documentation says nothing of it"
    for words in lines:
        has_name = bool(words) and re.fullmatch(r"[a-z][a-z-]+", words[0])
        wanted = set(re.findall(r"--[a-z][a-z-]*", " ".join(words))) - {"--help"}
        assert wanted <= options_of(chore, words[0] if has_name else ""), f"./dev {chore} {' '.join(words)}"
