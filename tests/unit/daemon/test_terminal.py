"""What comes before a person comes by one way, and cannot move a terminal."""

from __future__ import annotations

import ast
import io
import os
import pty
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import crdtsyncd
import pytest
from crdtsyncd import terminal
from crdtsyncd.cli.data import json_values
from crdtsyncd.telemetry import event_log
from hypothesis import given
from hypothesis import strategies as st
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from crdtsync import visible
from tests.examples import examples

HOSTILE = "\x1b]52;c;cm0gLXJm\x07\x1b[2J\x9b31m\r\x08\u202eexe.gpj\u2066\u2028\u2029\u200f\ufeff\x00\x7f\U000e0041"
PLAIN = "häuser 語 👩\u200d💻 a\u00a0b"

# -- the one way -----------------------------------------------------------------------------------------------------

ROOT = Path(next(iter(crdtsyncd.__path__)))
LIBRARY = ROOT.parents[1] / "crdtsync"
OTHERS = {
    "telemetry/event_log.py": "logs, which quote every value; see below",
    "config/loader.py": "the child that reads the settings writes to a pipe",
}


WRITERS = (
    "print", "pprint", "echo", "secho", "echo_via_pager", "Console", "print_exception", "print_exc", "print_stack",
    "PrintLoggerFactory", "StreamHandler",
)  # fmt: skip
CALLED = ("click.confirm", "click.prompt", "click.edit", "click.pause", "click.progressbar", "error.show", "input")


def dotted(node: ast.AST) -> str:
    """How a name is written, and what is called for one; unparsing all expressions takes some seconds."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Call):
        return dotted(node.func) + ("(...)" if node.args or node.keywords else "()")
    return node.id if isinstance(node, ast.Name) else "..."


def ways(source: str) -> Iterator[str]:
    """All that might write to a terminal."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and dotted(node.value) in ("sys.stdout", "sys.stderr"):
            if node.attr not in ("isatty", "fileno", "flush"):
                yield dotted(node)
        elif isinstance(node, ast.Call):
            called = dotted(node.func)
            name = called.rpartition(".")[2]
            streams = [each for each in map(dotted, node.args) if each in ("sys.stdout", "sys.stderr")]
            if (
                (name in WRITERS or called in CALLED) and called not in ("console.print", "terminal.console().print")
            ) or (name == "write" and node.args and ast.unparse(node.args[0]) in ("1", "2")):
                yield called
            elif streams and called != "terminal.write":
                yield f"{called}({', '.join(streams)})"
        elif isinstance(node, ast.Name) and node.id in ("stdout", "stderr", "__stdout__", "__stderr__"):
            yield node.id


def test_there_is_no_other_way_to_a_terminal():
    found = {
        str(path.relative_to(base)): sorted(set(ways(path.read_text())))
        for base in (ROOT, LIBRARY)
        for path in base.rglob("*.py")
    }
    assert {path: uses for path, uses in found.items() if uses and path not in (*OTHERS, "terminal.py")} == {}
    assert all(found[path] for path in OTHERS), "one that needs no leave any more"


@pytest.mark.parametrize(
    "source",
    ["print(1)", "click.echo(1)", "sys.stdout.write('x')", "sys.stderr.buffer.write(b'x')", "rich.print(1)",
     "Console().print(1)", "traceback.print_exc()", "os.write(1, b'x')", "print(1, file=sys.stderr)", "error.show()",
     "json.dump(1, sys.stdout)", "from sys import stdout\nstdout.write('x')"],
)  # fmt: skip
def test_that_test_sees_other_ways(source):
    assert list(ways(source))


# -- what it lets through --------------------------------------------------------------------------------------------


class Stream:
    """A stream whose other end is a terminal, or a pipe."""

    def __init__(self, is_terminal: bool) -> None:
        self._end, far = pty.openpty() if is_terminal else os.pipe()
        if is_terminal:  # else it makes line ends longer
            import termios

            mode = termios.tcgetattr(far)
            mode[1] &= ~termios.OPOST
            termios.tcsetattr(far, termios.TCSANOW, mode)
        self.stream: TextIO = open(far, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # a descriptor; closed below

    def shown(self) -> str:
        self.stream.flush()
        self.stream.close()
        shown = b""
        try:
            while piece := os.read(self._end, 65536):
                shown += piece
        except OSError:  # how Linux ends a terminal
            pass
        finally:
            os.close(self._end)
        return shown.decode()


def moves(text: str) -> list[str]:
    """What a terminal obeys, or does not show."""
    return [
        one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp", "Cs") and one not in "\n\u200d"
    ]


def test_a_terminal_gets_nothing_that_moves_it_and_a_pipe_gets_all(monkeypatch):
    for is_terminal in (True, False):
        out, err = Stream(is_terminal), Stream(is_terminal)
        monkeypatch.setattr(sys, "stdout", out.stream)
        monkeypatch.setattr(sys, "stderr", err.stream)
        terminal.write(sys.stdout, f"{HOSTILE}\n{PLAIN}\n".encode())
        terminal.line(HOSTILE + "\nforged")
        terminal.sentence(f"he said {HOSTILE}\nforged")
        shown, said = out.shown(), err.shown()
        assert moves(said) == []
        assert said.count("\n") == 1
        assert (moves(shown) == []) is is_terminal
        assert (HOSTILE in shown) is not is_terminal
        assert PLAIN in shown
        if is_terminal:
            assert r"\x1b]52;c;" in shown
            assert r"\u202eexe.gpj" in shown
            assert shown.count("\n") == 3


def test_who_asks_for_it_gets_it_as_it_is(monkeypatch):
    out = Stream(is_terminal=True)
    terminal.write(out.stream, b"\x1b[31m\xff"[:5], as_it_is=True)
    assert out.shown() == "\x1b[31m"


def test_bytes_that_are_no_text_are_shown_as_bytes():
    out = Stream(is_terminal=True)
    terminal.write(out.stream, b"a\xff\xfeb")
    assert out.shown() == r"a\xff\xfeb"


def test_tables_and_screens_have_their_own_colours_and_nobody_elses(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    file = io.StringIO()
    console = terminal.console(file=file, force_terminal=True, width=300)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(Text(HOSTILE, style="red"))
    console.print(table, Panel(HOSTILE), f"[bold]{HOSTILE}[/bold]")
    shown = file.getvalue()
    assert "\x1b[31m" in shown
    assert "\x1b]52" not in shown
    assert "\x1b[2J" not in shown
    assert [one for one in moves(shown) if one != "\x1b"] == []


@examples(100)
@given(st.text())
def test_what_is_shown_cannot_move_a_terminal_and_what_can_be_seen_stays(text):
    for shown in (visible.readable(text), visible.in_line(text)):
        assert all(visible.is_seen(one) or one in "\n\t" for one in shown)
    assert "\n" not in visible.in_line(text)
    seen = "".join(one for one in text if visible.is_seen(one))
    assert visible.in_line(seen) == seen


@examples(100)
@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_json_shows_all_that_cannot_be_seen_and_is_read_back_alike(value):
    text = json_values.dumps(value)
    assert json_values.loads(text) == value
    assert visible.in_line(text) == text


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_log_line_quotes_what_it_tells(form, monkeypatch):
    out = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", out.stream)
    event_log.configure("info", form)
    event_log.log("peer_refused", reason=HOSTILE + "\nforged", names=[HOSTILE], why={HOSTILE: 1}, peer=b"\x1b[2J")
    shown = out.shown()
    assert "]52;c" in shown
    assert shown.count("\n") == 1
    own = shown.replace("\x1b[", "") if form == "console" else shown  # its colours
    assert "\x1b" not in own
    assert [one for one in moves(own) if one != "\x1b"] == []
