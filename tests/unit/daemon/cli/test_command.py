"""The options of every command, numbers as arguments, and the table of commands."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import click
import pytest
from crdtsyncd.cli.app import SECTIONS, build
from crdtsyncd.cli.command import DESTRUCTIVE, MEANT, CommonOption, Settings, StateCommand, StateGroup

TOP = [name for section in SECTIONS.values() for name in section]
PAGE = Path(__file__).parents[4] / "docs" / "reference" / "command-line.md"


def _names(group, prefix=""):
    """Every command, those of a group inside as ``group command``."""
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from _names(found, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


NAMES = [*_names(build())]


def command(name):
    found: Any = build()
    for part in name.split():
        found = found.get_command(click.Context(found), part)
    assert isinstance(found, StateCommand), name
    return found


@pytest.fixture(scope="module")
def commands():
    """All of them by name."""
    assert len(NAMES) > 100
    return {name: command(name) for name in NAMES}


def settings_of(*arguments):
    """What the options in these arguments say, by a group with one command that takes any."""
    seen = []
    group = build()
    probe = StateCommand("probe", params=[click.Argument(["words"], nargs=-1)])
    probe.callback = lambda settings, words: seen.append((settings, words))
    group._places = {"probe": ""}
    setattr(group, "get_command", lambda *_: probe)  # noqa: B010  # mypy lets nobody assign a method
    with group.make_context("crdtsync", list(arguments)) as context:
        group.invoke(context)
    return seen[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--space", "s", "--agent", "a", "--json", "--timeout", "5s", "--socket", "/x", "probe"],
        ["probe", "--space", "s", "--agent", "a", "--json", "--timeout", "5s", "--socket", "/x"],
        ["--space", "s", "--json", "probe", "--agent", "a", "--timeout=5s", "--socket", "/x"],
    ],
    ids=["before", "after", "both"],
)
def test_common_options_stand_anywhere(arguments):
    assert settings_of(*arguments)[0] == Settings("/x", "s", "a", True, 5.0)


def test_the_later_one_wins():
    assert settings_of("--space", "one", "probe", "--space", "two")[0].space == "two"


def test_an_option_that_is_not_given_after_the_command_does_not_undo_the_one_before():
    assert settings_of("--json", "--space", "one", "probe")[0] == Settings(space="one", json=True)


def test_negative_numbers_are_arguments():
    words = ("-5", "-0.5", "-.5", "-1e9", "-1E-9")
    assert settings_of("probe", *words)[1] == words


def test_after_two_dashes_everything_is_an_argument():
    assert settings_of("probe", "-5", "--", "--json", "-5", "-x")[1] == ("-5", "--json", "-5", "-x")


@pytest.mark.parametrize("word", ["-x", "-5x", "--five", "-Infinity"])
def test_other_words_with_a_dash_are_wrong_options(word):
    with pytest.raises(click.NoSuchOption):
        settings_of("probe", word)


def test_every_command_takes_the_common_options(commands):
    everywhere = ["--socket", "--space", "--agent", "--agent-key-file", "--after", "--json", "--timeout"]
    for name, found in commands.items():
        common = [option.opts[0] for option in found.params if isinstance(option, CommonOption)]
        own = {"watch": "--after", "undo": "--agent", "search": "--agent", "checkpoint fork": "--space"}.get(name)
        assert common == [option for option in everywhere if option != own], name


GROUPS = sorted({name.partition(" ")[0] for name in NAMES if " " in name})


@pytest.mark.parametrize("name", ["", *(group for group in GROUPS if group != "view")])
def test_a_group_without_a_command_shows_its_help_as_it_is_and_has_done_nothing(crdtsync, name):
    result = crdtsync(*name.split())
    assert (result.status, result.out) == (2, "")
    assert result.err.replace("\n\n", "\n") == crdtsync(*name.split(), "--help").out.replace("\n\n", "\n")
    assert "\n  " in result.err, "with its lines"


@pytest.mark.parametrize("name", GROUPS)
def test_the_help_of_a_group_cuts_no_sentence(crdtsync, name):
    told = crdtsync(name, "--help").out.partition("Commands:\n")[2].partition("\n\n")[0]
    rows = [line.split(maxsplit=1) for line in told.splitlines() if line[2] != " "]
    assert [row[0] for row in rows] == [*_group(name).commands], "in the order in which one needs them"
    assert not [line for line in told.splitlines() if "..." in line]


def test_a_program_is_told_which_commands_a_group_has(crdtsync):
    result = crdtsync("--json", "cluster")
    assert (result.status, json.loads(result.err)["error"]["code"]) == (2, "usage")
    assert "join" in result.err


def test_nothing_destructive_is_suggested_for_looking_alike():
    """Who tries out what is suggested must lose nothing. A word that means it is another matter."""
    everything = {name for group in (build(), *(_group(name) for name in GROUPS)) for name in group.list_commands(None)}
    assert everything >= DESTRUCTIVE
    meant = {word for words in MEANT.values() for word in words.split()}
    assert not set(MEANT) & set(TOP)
    assert meant & DESTRUCTIVE == {"del", "forget"}


def _group(name):
    found = build().get_command(click.Context(build()), name)
    assert isinstance(found, StateGroup)
    return found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(crdtsync, shell):
    result = crdtsync("completion", shell)
    assert result.status == 0
    assert f"_CRDTSYNC_COMPLETE={shell}_complete" in result.out


def test_every_help_shows_an_example_of_its_command(crdtsync):
    for name in NAMES:
        result = crdtsync(*name.split(), "--help")
        assert result.status == 0, name
        example = result.out.partition("Example")[2].partition("Options:")[0]
        assert f"crdtsync {name}" in example
        assert not [line for line in result.out.splitlines() if len(line) > 100], name


def test_every_option_has_a_help_text(commands):
    assert [
        f"{name} --{option.name}"
        for name, found in commands.items()
        for option in found.params
        if isinstance(option, click.Option) and not option.help
    ] == []


def test_every_command_is_documented_with_its_options(commands):
    page = PAGE.read_text()
    for name, found in commands.items():
        section = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        assert section, name
        own = [o for o in found.params if isinstance(o, click.Option) and not isinstance(o, CommonOption)]
        assert [f"{name} {option.opts[0]}" for option in own if option.opts[0] not in section] == []


def test_the_help_lists_every_command_with_a_whole_sentence(crdtsync):
    listing = crdtsync("--help").out.partition("\nKeys:\n")[2].splitlines()
    lines = [line.split(None, 1) for line in listing if line.startswith("  ")]
    assert [name for name, _ in lines] == TOP
    assert [sentence for _, sentence in lines if not sentence.endswith(".") or sentence.endswith("...")] == []


def test_no_command_imports_what_is_slow_at_the_top():
    package = Path(__file__).parents[4] / "daemon" / "crdtsyncd" / "cli"
    slow = {"asyncio", "rich", "pydantic", "pycrdt", "structlog", "uvloop", "websockets", "importlib.metadata"}
    found = {
        (path.name, alias)
        for path in package.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if alias.partition(".")[0] in slow or alias in slow
    }
    assert found == set()
