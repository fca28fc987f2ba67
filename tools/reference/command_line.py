"""The page of the command line: every command with its help, from click; its console blocks are by hand.

For example, the section of ``crdtsync reset`` has its usage, its help text and a table of its options. Below them stand
the examples that the page had, which a test runs and compares with what they print. What a reader should know of a
command is therefore written into its help. Of the chapters before the first command only the tables are made.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click
from crdtsyncd.cli.app import SECTIONS, build
from crdtsyncd.cli.command import CommonOption, common_options
from crdtsyncd.cli.errors import STATUSES

from tools.reference import ROOT, page
from tools.reference.markdown import sentences, table, with_table

PAGE = ROOT / "docs/reference/command-line.md"
READ_ON = {
    "Keys": "model-data",
    "Conflicts and history": "model-data",
    "Logs and texts": "edit-texts",
    "Following": "follow-changes",
    "Working together": "work-together",
    "For a model's window": "feed-models",
    "Rights": "rights",
    "Clusters": "cluster",
    "This node": "troubleshoot",
}
"""By section, the page of how-to that shows its commands at work."""

_CODE = re.compile(r"`[^`]+`")
_OPTION = re.compile(r"(?<![\w`-])(--?[a-z][a-z-]*)\b")
_VARIABLE = re.compile(r"  \[env: ([^;\]]+)(?:; default: [^\]]*)?\]")


@page("docs/reference/command-line.md", is_marked=False)
def command_line() -> str:
    """The page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    examples = _examples(text)
    first = next(iter(SECTIONS))
    beginning = text.partition(f"\n## {first}\n")[0]
    for made in (_common(), table(("status", "meaning"), [(str(s), said) for s, said in STATUSES.items()])):
        beginning = with_table(beginning, made)
    parts = [beginning.strip()]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}")
        if title in READ_ON:
            parts.append(f"At work: [{READ_ON[title].replace('-', ' ')}](../how-to/{READ_ON[title]}.md).")
        for name in names:
            for full_name, command in _commands(build(), name):
                parts += _section(full_name, command, examples.get(full_name, []))
    return "\n\n".join(parts)


def _common() -> str:
    rows = []
    for option in common_options():
        assert isinstance(option, click.Option)
        said = option.help or ""
        variables = _VARIABLE.search(said)
        names = ", ".join(f"`{name}`" for name in variables[1].split(", ")) if variables else ""
        form = f"{option.opts[0]} {option.metavar}" if option.metavar else option.opts[0]
        rows.append((f"`{form}`", names, _VARIABLE.sub("", said)))
    return table(("option of every command", "environment", "meaning"), rows)


def _examples(text: str) -> dict[str, list[str]]:
    """The console blocks by hand, by the name of their command."""
    sections = re.split(r"^### (.*)\n", text, flags=re.MULTILINE)
    blocks = re.compile(r"^```console\n.*?^```$", re.MULTILINE | re.DOTALL)
    return {name: blocks.findall(said) for name, said in zip(sections[1::2], sections[2::2], strict=True)}


def _commands(group: click.Group, name: str, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """A command and, if it is a group, those in it, in the order in which they are written."""
    command = group.get_command(click.Context(group), name)
    assert command is not None
    yield f"{prefix}{name}", command
    if isinstance(command, click.Group):
        for inner in command.commands:
            yield from _commands(command, inner, f"{prefix}{name} ")


def _section(name: str, command: click.Command, examples: list[str]) -> list[str]:
    context = click.Context(command, info_name=f"crdtsync {name}")
    said, _, shown = inspect.cleandoc(command.help or "").partition("\b\nExample")
    parts = [f"### {name}"]
    if not isinstance(command, click.Group):
        parts.append(f"    {' '.join([context.command_path, *command.collect_usage_pieces(context)])}")
    parts += [_paragraph(paragraph) for paragraph in re.split(r"\n{2,}", said.strip())]
    options = [one for one in command.params if isinstance(one, click.Option) and not isinstance(one, CommonOption)]
    records = [record for record in (one.get_help_record(context) for one in options) if record is not None]
    if records:
        parts.append(table(("option", "meaning"), [(f"`{form}`", _marked(meaning)) for form, meaning in records]))
    if not examples and shown:
        parts.append("    " + inspect.cleandoc(shown.partition("\n")[2]).replace("\n", "\n    "))
    return parts + examples


def _paragraph(text: str) -> str:
    """Lines that are kept as they are become a list or, if they are commands, a block."""
    if not text.startswith("\b"):
        return sentences(_marked(text))
    lines = inspect.cleandoc(text.removeprefix("\b\n")).splitlines()
    if all(re.match(r"\S+: ", line) for line in lines):
        named = [line.partition(": ") for line in lines]
        return "\n".join(f"- `{name}`: {_marked(meaning)}" for name, _, meaning in named)
    return "\n".join(f"    {line}" for line in lines)


def _marked(text: str) -> str:
    """A piece of help as Markdown: options as code, and nothing else that could mean something."""
    pieces, end = [], 0
    for code in _CODE.finditer(text):
        pieces += [_plain(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, _plain(text[end:])])


def _plain(text: str) -> str:
    return _OPTION.sub(r"`\1`", re.sub(r"([*<\[\]])", r"\\\1", text))
