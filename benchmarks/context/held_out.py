"""Texts and questions that nothing in the compactor was fitted to: see whether its figures hold elsewhere.

The compactor was improved by looking at :mod:`benchmarks.context.corpora` and its questions, so its figures there are
those of a pupil who has seen the paper. These texts come from other places, and the questions from other rules, which
draw by chance (from a fixed seed) and are not to be changed for the sake of a figure:

- ``json``: files that installed packages ship (lists of parts, schemas), the linters of ruff, and with ``data`` the
  first transactions of each recorded editing session in that folder. Asked: any value of 6 characters or more, by
  its path; of a string of over 120 characters, six words from a random place
- ``log``: logs of eight programs, made here: faults are planted among 3,000 lines of routine. Asked: the code of a
  fault, how often a line of routine came, the largest duration
- ``traceback``: calls of other modules with other wrong arguments. Asked: what was raised, where, by which
  statement, and who called
- ``code``: modules that lie deeper in packages. Asked: a parameter, the purpose, a constant; and, with the question as
  the query, what is raised, and what a variable is set to
- ``transcript``: another session of a coding agent. Asked: what was called, and a line of an answer

``any line``: a line of a log drawn by chance, which most often is routine; so many lines cannot be both kept and saved.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from benchmarks.context.corpora import ROOT, UNITTEST, Text, is_code, run_command, session, tracebacks
from benchmarks.context.questions import Question, has, in_row, leaves_of

QUESTIONS = {"json": 80, "log": 80, "traceback": 40, "code": 60, "transcript": 20, "any line": 40}
_MODULES = ("csv", "gzip", "hashlib", "inspect", "locale", "mimetypes", "pickletools", "plistlib", "random", "secrets",
            "tarfile", "tokenize", "zipfile", "http.cookiejar", "xml.dom.minidom", "difflib", "glob", "heapq", "html",
            "ntpath", "posixpath", "stat", "traceback")  # fmt: skip
_WRONG: tuple[tuple[Any, ...], ...] = ((3.5,), ("no such file or name",), (None,), ([[]], 0), (b"\x00", {}))
_LOGS = ("test.test_shlex", "test.test_ipaddress", "test.test_difflib")
_CALLS = (
    ("Where are the limits of a log?", ["grep", "-rn", "LOG_", "crdtsync/core", "crdtsync/client"]),
    ("I read the module of errors.", ["cat", "crdtsync/errors.py"]),
    ("Do its tests pass?", [*UNITTEST, *_LOGS[:2]]),
    ("What has changed?", ["git", "log", "-p", "-n", "4", "--no-color", "--", "crdtsync"]),
    ("How large is everything?", ["wc", "-l", "-c", *sorted(str(one) for one in (ROOT / "tools").glob("*.py"))]),
    ("Which rules does the linter have?", [sys.executable, "-m", "ruff", "linter"]),
)
_LONG_CHARS, _JSON_FILES, _SOURCES, _TRANSACTIONS = 120, 14, 30, 1_500
_BYTES = range(4_000, 300_000)
_LINES = 3_000

T = TypeVar("T")


def texts(data: Path | None) -> dict[str, list[Text]]:
    """The texts of each kind; ``data``: a folder with recorded editing sessions."""
    return {
        "json": list(_json(data)),
        "log": [Text(name, "\n".join(lines)) for name, (lines, _) in _planted().items()],
        "traceback": list(tracebacks(_MODULES, _WRONG)),
        "code": list(_sources()),
        "transcript": [Text("another session", session(_CALLS))],
        "any line": [Text(name, run_command([*UNITTEST, name], both=True)) for name in _LOGS],
    }


def questions(found: dict[str, list[Text]]) -> dict[str, list[Question]]:
    """Of each kind as many as ``QUESTIONS`` says, by turns of all texts of the kind."""
    asked: dict[str, list[Question]] = {}
    for kind, wanted in QUESTIONS.items():
        rng = Random(kind)
        of_text = [list(_OF_KIND[kind](text, rng)) for text in found[kind]]
        for each in of_text:
            rng.shuffle(each)
        turns = (each[turn] for turn in range(wanted) for each in of_text if turn < len(each))
        asked[kind] = [one for one, _ in zip(turns, range(wanted), strict=False)]
    return asked


def _json(data: Path | None) -> Iterator[Text]:
    place = Path(sysconfig.get_paths()["purelib"])
    files = [path for path in sorted(place.rglob("*.json")) if path.stat().st_size in _BYTES]
    for path in files[:: max(1, len(files) // _JSON_FILES)][:_JSON_FILES]:
        yield Text(str(path.relative_to(place)), path.read_text("utf-8"))
    yield Text("ruff linter", run_command([sys.executable, "-m", "ruff", "linter", "--output-format", "json"]))
    for path in sorted(data.rglob("*.json.gz")) if data else ():
        trace = json.loads(gzip.decompress(path.read_bytes()))
        yield Text(path.name, json.dumps(trace | {"txns": trace["txns"][:_TRANSACTIONS]}, indent=1))


def _sources() -> Iterator[Text]:
    paths = sysconfig.get_paths()
    for place, pattern in ((Path(paths["stdlib"]), "[a-z]*/*.py"), (Path(paths["purelib"]), "[a-z]*/[a-z]*/*.py")):
        files = [
            path
            for path in sorted(place.glob(pattern))
            if not {"site-packages", "test", "tests"} & {*path.relative_to(place).parts} and is_code(path)
        ]
        for path in files[:: max(1, len(files) // (_SOURCES // 2))][: _SOURCES // 2]:
            yield Text(str(path.relative_to(place)), path.read_text("utf-8"))


def _planted() -> dict[str, tuple[list[str], list[tuple[str, re.Pattern[str]]]]]:
    """Logs of eight programs: their lines, and what may be asked of them with what answers it."""
    made = {}
    for name, routine, faults in _PROGRAMS:
        rng = Random(name)
        time = datetime(2026, 11, 20, 3, tzinfo=UTC)
        lines: list[str] = []
        asked: list[tuple[str, re.Pattern[str]]] = []
        places = dict(zip(rng.sample(range(_LINES), 3 * len(faults)), faults * 3, strict=True))
        slowest = rng.randrange(90_000, 99_000)
        slow_at = rng.randrange(_LINES)
        codes: dict[str, list[str]] = {fault: [] for fault in faults}
        for number in range(_LINES):
            time += timedelta(milliseconds=rng.randrange(40, 4_000))
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ" if name != "web" else "%d/%b/%Y:%H:%M:%S +0000")
            code = f"{rng.choice('BCDFGHJK')}{rng.choice('aeiou')}{rng.choice('lmnrst')}-{rng.randrange(1_000, 9_999)}"
            say = places.get(number) or rng.choice(routine)
            if number in places:
                codes[say].append(code)
            took = slowest if number == slow_at else rng.randrange(2, 900)
            lines.append(say.format(time=stamp, n=number, code=code, ms=took, who=rng.randrange(1, 9)))
        for fault, each in codes.items():
            said = " ".join(re.findall(r"[a-z]{3,}", fault.split("{code}")[0]))
            asked += [(f"Which code has the fault {said!r}, time {i}?", re.compile(re.escape(code)))
                      for i, code in enumerate(each, 1)]  # fmt: skip
        if any(re.search(rf"(?<![.\d]){slowest}", line) for line in lines):
            asked.append(("How long did the slowest take?", re.compile(rf"\b{slowest}\b")))
        for say in routine:
            times = sum(_is_of(say, line) for line in lines)
            fixed = max(re.split(r"\{[^}]*\}|\d", say), key=len).strip()
            asked.append(
                (
                    f"How often came {fixed!r}?",
                    re.compile(rf"\b{times}\b[^\n]*" + r"\s+".join(map(re.escape, fixed.split()))),
                )
            )
        made[name] = lines, asked
    return made


def _is_of(say: str, line: str) -> bool:
    parts = re.split(r"(?<!\{)\{[^{}]*\}", say)
    return re.fullmatch(".+?".join(re.escape(part.format()) for part in parts), line) is not None


_PROGRAMS = (
    ("service",
     ["{time} INFO worker-{who} took order {n} in {ms} ms", "{time} DEBUG cache hit for key order:{n}",
      "{time} INFO heartbeat of worker-{who}, {ms} ms behind"],
     ["{time} ERROR worker-{who} could not book order {n}: card refused, reference {code}",
      "{time} WARN retrying the ledger, attempt {who}, trace {code}",
      "{time} INFO operator anna switched the feature to {code}"]),
    ("web",
     ['10.0.0.{who} - - [{time}] "GET /items/{n} HTTP/1.1" 200 {ms}',
      '10.0.0.{who} - - [{time}] "POST /cart HTTP/1.1" 201 {ms}'],
     ['10.0.0.{who} - - [{time}] "GET /export/{code} HTTP/1.1" 500 0',
      '10.0.0.{who} - - [{time}] "DELETE /users/{code} HTTP/1.1" 204 0']),
    ("build",
     ["[{n}/3000] Compiling src/module_{n}.c", "   Finished step {n} in {ms} ms", "copied {n} files to out/stage{who}"],
     ["src/module_{n}.c:{who}: warning: unused variable 'v{code}'",
      "src/module_{n}.c:{who}: error: undeclared identifier 'x{code}'",
      "note: the linker falls back to {code}"]),
    ("kernel",
     ["[{n:>6}.{ms:06}] eth{who}: link is up, 1000 Mbps", "[{n:>6}.{ms:06}] audit: type=1400 pid={n}"],
     ["[{n:>6}.{ms:06}] EXT4-fs (sd{who}): I/O failure at inode {code}",
      "[{n:>6}.{ms:06}] usb 1-{who}: new device, serial {code}"]),
    # those above were looked at when logs were improved on 2026-11-23, those below were not
    ("logfmt",
     ['ts={time} level=info msg="request served" path=/v1/items/{n} dur={ms}ms pod=api-{who}',
      'ts={time} level=debug msg="pool size" size={n} pod=api-{who}'],
     ['ts={time} level=error msg="upstream closed" upstream=db-{who} trace={code}',
      'ts={time} level=warn msg="slow query" table=orders trace={code}',
      'ts={time} level=info msg="leader elected" leader={code}']),
    ("java",
     ["{time} [pool-1-thread-{who}] INFO  c.e.shop.OrderService - Processed order {n} in {ms} ms",
      "{time} [pool-1-thread-{who}] DEBUG c.e.shop.Cache - Evicted {n} entries"],
     ["{time} [pool-1-thread-{who}] ERROR c.e.shop.Ledger - Cannot post entry, reference {code}",
      "{time} [main] INFO  c.e.shop.Flags - Flag changed to {code}"]),
    ("syslog",
     ["Nov 20 03:00:01 host{who} sshd[{n}]: Connection closed by 10.1.2.{who} port {n}",
      "Nov 20 03:00:01 host{who} systemd[1]: Started session {n} of user root",
      "Nov 20 03:00:01 host{who} postfix/qmgr[{n}]: removed in {ms} ms"],
     ["Nov 20 03:00:01 host{who} sshd[{n}]: Failed password for {code} from 10.9.9.{who}",
      "Nov 20 03:00:01 host{who} sudo: deploy ran {code} as root"]),
    ("json lines",
     ['{{"ts":"{time}","level":"info","msg":"job done","job":{n},"ms":{ms},"worker":"w{who}"}}',
      '{{"ts":"{time}","level":"debug","msg":"poll","job":{n},"ms":{ms},"worker":"w{who}"}}'],
     ['{{"ts":"{time}","level":"error","msg":"job died","job":{n},"reason":"exit {code}","worker":"w{who}"}}',
      '{{"ts":"{time}","level":"info","msg":"config loaded","job":{n},"file":"conf-{code}","worker":"w{who}"}}']),
)  # fmt: skip


def _of_json(text: Text, rng: Random) -> Iterator[Question]:
    leaves = list(leaves_of(json.loads(text.content)))
    times = Counter(leaf for _, leaf in leaves)
    names = {_record(path): leaf for path, leaf in leaves if times[leaf] == 1 and 4 <= len(leaf) <= _LONG_CHARS}
    for path, leaf in leaves:
        words, name = leaf.split(), names.get(_record(path))
        if len(leaf) < 6 or not leaf.isascii() or (_record(path) and name in (None, leaf)):
            continue
        answer = leaf
        if len(leaf) > _LONG_CHARS and len(words) > 12:
            at = rng.randrange(len(words) - 6)
            answer = " ".join(words[at : at + 6])
        tells = has(f"{path.rsplit('.', 1)[-1]}: {leaf}") if leaf == answer else has(answer)
        in_table = in_row(name, answer) if name and _record(path) else tells
        yield Question(text, f"What is {path}?", lambda short, a=in_table, b=tells: a(short) or b(short))  # type: ignore[misc]


def _record(path: str) -> str:
    """The element of the outermost list that ``path`` is in; "" outside of lists."""
    found = re.match(r"(?:.*?\.)??\d+\.", f"{path}.")
    return found[0] if found else ""


def _of_planted(text: Text, rng: Random) -> Iterator[Question]:  # noqa: ARG001
    for asked, answer in _planted()[text.name][1]:
        yield Question(text, asked, lambda short, answer=answer: answer.search(short) is not None)  # type: ignore[misc]


def _of_traces(text: Text, rng: Random) -> Iterator[Question]:  # noqa: ARG001
    for trace in text.content.split("Traceback (most recent call last):\n")[1:]:
        frames = re.findall(r'File "(?:[^"]*/)?([^"/]+)", line (\d+), in (\S+)\n +(\S.*)', trace)
        raised = re.search(r"^[a-zA-Z][\w.]+: .*$", trace, re.MULTILINE)
        if len(frames) > 1 and raised:
            file, line, function, code = frames[-1]
            yield Question(text, f"What did {function} raise?", has(raised[0]))
            yield Question(text, f"Where was {raised[0]} raised?", has(f"{file}:{line}"))
            yield Question(text, f"Which statement failed in {function}?", has(code))
            yield Question(text, f"Who called {function}?", has(f"{frames[-2][0]}:{frames[-2][1]}"))


def _of_code(text: Text, rng: Random) -> Iterator[Question]:
    lines = text.content.splitlines()
    tree = ast.parse(text.content)
    for said in tree.body:
        if isinstance(said, ast.Assign) and isinstance(said.targets[0], ast.Name) and said.lineno == said.end_lineno:
            yield Question(text, f"What is {said.targets[0].id}?", has(lines[said.lineno - 1].strip()))
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        names = [one.arg for one in (*node.args.args, *node.args.kwonlyargs) if one.arg not in ("self", "cls")]
        if names:
            called = rf"def {node.name}\([^)]*\b{rng.choice(names)}\b"
            yield Question(text, f"What does {node.name} take?", lambda short, it=called: bool(re.search(it, short)))  # type: ignore[misc]
        purpose = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
        if purpose:
            yield Question(text, f"What is {node.name} for?", _words_of(purpose))
        raised = [one for one in ast.walk(node) if isinstance(one, ast.Raise) and one.exc is not None]
        if raised:
            answer = lines[rng.choice(raised).lineno - 1].strip()
            yield Question(text, f"What does {node.name} raise?", has(answer), is_query=True)
        sets = [one for one in ast.walk(node) if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)]
        if sets:
            chosen = rng.choice(sets)
            name = chosen.targets[0].id  # type: ignore[attr-defined]
            answer = lines[chosen.lineno - 1].strip()
            yield Question(text, f"What is {name} set to in {node.name}?", has(answer), is_query=True)


def _words_of(said: str) -> Any:
    return lambda short: said in " ".join(short.split())


def _of_transcript(text: Text, rng: Random) -> Iterator[Question]:
    for record in map(json.loads, text.content.splitlines()):
        for part in record["content"]:
            if part["type"] == "tool_use":
                yield Question(text, "What was called?", has(part["input"]["command"][:80]))
            elif part["type"] == "tool_result":
                lines = [line for line in part["content"].splitlines() if 16 <= len(line) <= 160 and " " in line]
                for line in rng.sample(lines, min(3, len(lines))):
                    yield Question(text, "How does a line of the answer go?", has(" ".join(line.split()[-2:])))


def _of_lines(text: Text, rng: Random) -> Iterator[Question]:
    lines = [line for line in text.content.splitlines() if len(line.split()) > 2]
    for line in rng.sample(lines, min(40, len(lines))):
        yield Question(text, "Is there this line?", has(" ".join(line.split()[:2])))


_OF_KIND = {
    "json": _of_json, "log": _of_planted, "traceback": _of_traces, "code": _of_code, "transcript": _of_transcript,
    "any line": _of_lines,
}  # fmt: skip
