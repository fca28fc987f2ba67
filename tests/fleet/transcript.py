"""A small language for scenarios of a few agents on a few hosts, so that rules can be read as what happens.

One step a line, ``#`` begins a comment::

    ann@a set k 1                 who, on which host, does what
    ann@a set k 2 -> replaced 1   what it has to say; without an arrow it only has to succeed
    a <-> b                       the two hosts connect, and exchange everything
    a | b                         they part
    +5s                           time passes

An agent remembers what it read, as a client does: after a read its writes carry what it had seen, and its own write
takes the place of the read. Options at the end of a write override that: ``blind``, ``"?"`` (read long ago),
``if_version`` (of its last read), ``if_absent``, ``strict``, ``ttl=MS``. Values are words or numbers.
"""

from __future__ import annotations

import re
from typing import Any

from crdtsync.wire.codec import pack, unpack
from tests.fleet.agent import Agent, Refusal
from tests.fleet.fleet import Fleet, fleet_of

_STEP = re.compile(r"(?P<who>\w+)@(?P<host>\w+) (?P<what>\w+) ?(?P<rest>.*)")


def play(text: str, *hosts: str) -> None:
    """Play a transcript from the beginning on new hosts (a, b and c), and check every outcome."""
    with fleet_of(*(hosts or ("a", "b", "c"))) as fleet:
        Stage(fleet).play(text)


class Stage:
    """Who is where, and what they remember."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.sessions: dict[tuple[str, str], Agent] = {}
        self.memory: dict[tuple[str, str], str] = {}
        self.waiting: dict[str, tuple[Agent, int]] = {}

    def play(self, text: str) -> None:
        for number, line in enumerate(text.strip().splitlines(), 1):
            step, *rest = re.split(r" -> ", line.partition("#")[0].rstrip() + " ", maxsplit=1)
            if not step.strip():
                continue
            wanted = "".join(rest)
            try:
                outcome = self.do(step.strip())
            except Refusal as refusal:
                outcome = refusal.code
            wanted = wanted.strip()
            assert outcome == wanted or (not wanted and self._is_success(outcome)), (
                f"line {number}: {line.strip()}\n  came out as: {outcome}"
            )

    def _is_success(self, outcome: str) -> bool:
        return not re.fullmatch(r"[a-z]+_[a-z_]+|timeout|waits", outcome)

    def do(self, step: str) -> str:
        if match := re.fullmatch(r"(\w+) <-> (\w+)", step):
            self.fleet.link(*match.groups())
            self.fleet.run(2.5, 0.5)
            return "done"
        if match := re.fullmatch(r"(\w+) \| (\w+)", step):
            ends = {*match.groups()}
            for wire in [w for w in self.fleet.wires if {end.name for end in w.ends} == ends]:
                wire.close()
            self.fleet.sync()
            return "done"
        if match := re.fullmatch(r"\+(\d+)s", step):
            self.fleet.run(float(match[1]), 0.5)
            return "done"
        match = _STEP.fullmatch(step)
        assert match, f"not a step: {step}"
        who, host, what, rest = match.groups()
        session = self.sessions.get((who, host)) or self._attach(who, host)
        return getattr(self, f"_{what}")(who, session, rest.split())

    def _attach(self, who: str, host: str) -> Agent:
        session = self.sessions[who, host] = self.fleet[host].agent(who)
        return session

    # -- writes ----------------------------------------------------------------------------------------------------

    def _set(self, who: str, session: Agent, words: list[str]) -> str:
        key, value, *options = words
        args = self._options(who, key, options)
        return self._write(who, session, "set", {"key": key, "value": pack(plain(value)), **args})

    def _delete(self, who: str, session: Agent, words: list[str]) -> str:
        key, *options = words
        return self._write(who, session, "delete", {"key": key, **self._options(who, key, options)})

    def _append(self, who: str, session: Agent, words: list[str]) -> str:
        return self._write(who, session, "append", {"key": words[0], "value": pack(plain(words[1]))})

    def _trim(self, who: str, session: Agent, words: list[str]) -> str:
        return self._write(who, session, "trim", {"key": words[0], "keep": int(words[1])})

    def _batch(self, who: str, session: Agent, words: list[str]) -> str:
        """``batch set k 1, append l 2``."""
        ops = []
        for part in " ".join(words).split(", "):
            name, key, *more = part.split(" ")
            args: dict[str, Any] = {"key": key}
            if name in ("set", "append"):
                args["value"] = pack(plain(more.pop(0)))
            if name == "trim":
                args["keep"] = int(more.pop(0))
            if name in ("set", "delete"):
                args |= self._options(who, key, more)
            ops.append([name, args])
        return self._write(who, session, "batch", {"ops": ops})

    def _options(self, who: str, key: str, options: list[str]) -> dict[str, Any]:
        args: dict[str, Any] = {}
        remembered = self.memory.get((who, key))
        if remembered is not None and "blind" not in options:
            args["seen"] = remembered
        for option in options:
            if option == '"?"':
                args["seen"] = "?"
            elif option == "if_version":
                args["if_version"] = args.pop("seen")
            elif option in ("if_absent", "strict"):
                args[option] = True
            elif option.startswith("ttl="):
                args["ttl"] = int(option[4:])
            elif option != "blind":
                raise AssertionError(f"unknown option {option}")
        return args

    def _write(self, who: str, session: Agent, name: str, args: dict[str, Any]) -> str:
        request = session.write(name, timeout=5000, **args)
        session.machine.turn()
        if request not in session.replies:
            self.waiting[who] = (session, request)
            return "waits"
        return self._written(who, name, args, session.result(request))

    def _written(self, who: str, name: str, args: dict[str, Any], result: dict[str, Any]) -> str:
        if name == "batch":
            parts = zip(args["ops"], result["results"], strict=True)
            return ", ".join(self._written(who, op, op_args, part) for (op, op_args), part in parts)
        key = args["key"]
        if name == "append":
            return f"length {result['length']}"
        if name == "trim":
            return f"removed {result['removed']}, length {result['length']}"
        if name == "delete":
            self.memory.pop((who, key), None)
            return _listed(existed=result["existed"], behind=result["behind"]) or "nothing there"
        if (who, key) in self.memory:
            self.memory[who, key] = result["version"]
        replaced = None if result["replaced"] is None else unpack(result["replaced"]["value"])
        return _listed(replaced=replaced, siblings=result["siblings"], behind=result["behind"]) or "ok"

    def _outcome(self, who: str, _session: Agent, _words: list[str]) -> str:
        """Of the request that waited."""
        session, request = self.waiting[who]
        if request not in session.replies:
            return "waits"
        session.result(request)
        del self.waiting[who]
        return "done"

    # -- reads -----------------------------------------------------------------------------------------------------

    def _get(self, who: str, session: Agent, words: list[str]) -> str:
        result = session.ask("get", key=words[0])
        if result is None:
            self.memory[who, words[0]] = "?"
            return "absent"
        self.memory[who, words[0]] = result["version"]
        return shown(unpack(result["value"])) + (f" +{result['siblings']}" if result["siblings"] else "")

    def _all(self, who: str, session: Agent, words: list[str]) -> str:
        """Every sibling; has then read them all."""
        entry = session.ask("entry", key=words[0])
        if entry is None:
            return "absent"
        self.memory[who, words[0]] = entry["version"]
        return " ".join(sorted(shown(unpack(part["value"])) for part in (entry, *entry["siblings"])))

    def _peek(self, who: str, session: Agent, words: list[str]) -> str:
        """As ``all``, and nobody remembers having read it."""
        return " ".join(sorted(map(shown, session.values(words[0])))) or "absent"


def plain(word: str) -> object:
    return int(word) if word.lstrip("-").isdigit() else word


def shown(value: object) -> str:
    return "[" + " ".join(map(shown, value)) + "]" if isinstance(value, list) else str(value)


def _listed(**parts: object) -> str:
    return ", ".join(
        name if value is True else f"{name} {value}" for name, value in parts.items() if value not in (None, False, 0)
    )
