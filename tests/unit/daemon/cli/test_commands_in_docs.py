"""What the documentation says of ``crdtsync`` can be typed so: the command is there, and each option that is named."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from crdtsyncd.cli.app import build

ROOT = Path(__file__).resolve().parents[4]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SPAN = re.compile(r"`(?:sudo )?(crdtsync [^`\n]+)`")
LINE = re.compile(r"^(?:    )?(?:\$ )?(?:sudo )?(?:[A-Z_]+=\S+ )*(?:\S+/)?(crdtsync .*)", re.MULTILINE)
END = re.compile(r"\s[|>&;#]|2>|&&")
"""Where the command ends, and the shell goes on."""
PLACEHOLDER = re.compile(r"[A-Z…]+")


def typed() -> list[tuple[str, list[str]]]:
    """The words of each command line, with its page."""
    found = set()
    for page in PAGES:
        text = page.read_text()
        for line in [*SPAN.findall(text), *LINE.findall(text)]:
            try:
                words = shlex.split(END.split(line)[0])[1:]
            except ValueError:  # a quote that the next line closes
                continue
            found.add((page.name, tuple(words)))
    return [(page, [*words]) for page, words in sorted(found)]


def misfit(words: list[str]) -> str | None:
    """What of a command line is not there; None: nothing."""
    command: click.Command = build()
    context = click.Context(command, info_name="crdtsync")
    options = [param for param in command.params if isinstance(param, click.Option)]
    left = [*words]
    while left:
        word = left.pop(0)
        name, is_joined, _ = word.partition("=")
        if word == "--":
            break
        if re.fullmatch(r"-[a-z]|--[a-z].*", name):
            option = next((one for one in options if name in (*one.opts, *one.secondary_opts)), None)
            if option is None and name not in ("-h", "--help"):
                return f"no option {name}"
            if option is not None and not option.is_flag and not is_joined and left:
                left.pop(0)
        elif isinstance(command, click.Group):
            found = command.get_command(context, word)
            if found is None:
                is_prefix = command.name == "view"  # what is no command of it is a prefix
                return None if is_prefix or PLACEHOLDER.fullmatch(word) else f"no command {word}"
            context = click.Context(found, parent=context, info_name=word)
            command = found
            options += [param for param in command.params if isinstance(param, click.Option)]
    return None


def test_what_pages_name_is_there():
    lines = typed()
    assert len(lines) > 500
    assert [f"{page}: crdtsync {' '.join(words)}: {why}" for page, words in lines if (why := misfit(words))] == []


@pytest.mark.parametrize("line", ["delete plan/goal", "get k --unsure", "cluster joins x"])
def test_what_is_not_there_is_found(line: str):
    assert misfit(line.split()) is not None
