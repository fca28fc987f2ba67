"""What the documentation says of ``./dev`` can be typed so: the chore is there, and each option that is named."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from benchmarks.__main__ import main as benchmarks

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PROGRAMS = {
    "bench": "benchmarks",
    "crash": "tests.crash",
    "fuzz": "fuzz",
    "load": "tests.load",
    "nemesis": "tests.nemesis",
    "simulate": "tests.simulator",
}
"""Chores with options of their own, and the program that each runs."""


def typed() -> list[str]:
    """Every command line with ``./dev``, in code of any kind."""
    found: set[str] = set()
    for page in PAGES:
        text = page.read_text()
        lines = re.findall(r"^(?:    |\$ )(\./dev [^\n]*)$", text, re.MULTILINE)
        found.update(line.partition("  #")[0].strip() for line in lines)
        found.update(re.findall(r"`(?:[A-Z_]+=\S+ )?(\./dev [^`]*)`", text))
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


class Parsed(Exception):
    """The command line was taken, and what it asks for is not done."""


def parse(chore: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a chore read its command line, and do nothing.

    :raises Parsed: it is as it should be.
    """
    if chore == "bench":
        benchmarks.commands[words[0]].make_context(words[0], words[1:])
        raise Parsed
    true = argparse.ArgumentParser.parse_args

    def parse_args(parser: argparse.ArgumentParser, args: Sequence[str] | None = None, *_: object) -> NoReturn:
        true(parser, args)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    monkeypatch.setattr(sys, "argv", ["./dev", *words])
    importlib.import_module(f"{PROGRAMS[chore]}.__main__").main()


@pytest.mark.parametrize("chore", sorted(PROGRAMS))
def test_every_line_without_placeholders_is_taken(chore: str, monkeypatch: pytest.MonkeyPatch):
    lines = [line.split()[2:] for line in typed() if line.split()[1] == chore]
    whole = [words for words in lines if words and not re.search(r"[A-Z…\\[]|--help", " ".join(words))]
    assert whole
    for words in whole:
        with pytest.raises(Parsed):
            parse(chore, words, monkeypatch)


def test_the_tests_that_are_named_are_there():
    named = {name for page in PAGES for name in re.findall(r"\b(?:tests/[\w/]+\.py|test_\w+\.py)\b", page.read_text())}
    there = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")]
    assert len(named) > 8
    assert [name for name in sorted(named) if not any(path.endswith(name) for path in there)] == []
