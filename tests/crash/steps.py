"""Steps through time of a daemon that is killed in one of them: a blob, a checkpoint, an undo, a restore, a fork, a
merge.

After the kill what a step has done is there, and of the step that was cut off all or nothing. Whoever does that one
again, and those that are left, comes to the same end, in which everything counts once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from select import select
from typing import NamedTuple

from crdtsync.client import Client
from crdtsync.errors import CrdtSyncError
from tests.crash.child import POLL_S, Child
from tests.harness.raw import RawAgent
from tests.simulator.commands import leave_to_parent

TIMEOUT_S = 120.0
FILE = bytes(range(256)) * 2500
"""Of two parts."""
PLAN: dict[str, object] = {f"plan/{n}": n for n in range(5)}
SPOILT: dict[str, object] = {f"plan/{n}": "spoilt" for n in range(1, 7)}
TRIED = {**PLAN, "plan/1": "tried"}
STRAY = "stray"
"""The agent whose writes are taken back."""
ASTRAY: dict[str, object] = {f"plan/{n}": "astray" for n in (1, 3, 9)}
BEFORE, TRIED_BY = 7, 5


class Step(NamedTuple):
    """What is done, and what stands under ``plan/`` after it. To do it again makes no difference."""

    name: str
    do: Callable[[Client], object]
    plan: dict[str, object]


def _put(state: Client) -> None:
    state.put_blob("file", FILE)


def _checkpoint(state: Client) -> None:
    with state.batch() as batch:
        for key, value in PLAN.items():
            batch.set(key, value)
    if not state.get("spent"):
        state.incr("spent", BEFORE)
    if "good" not in [each.name for each in state.checkpoints()]:
        state.checkpoint("good")


def _spoil(state: Client) -> None:
    with state.batch() as batch:
        batch.delete("plan/0")
        for key, value in SPOILT.items():
            batch.set(key, value)


def _stray(state: Client) -> None:
    with state.session(STRAY).batch() as batch:
        for key, value in ASTRAY.items():
            batch.set(key, value)


def _fork(state: Client) -> None:
    if "try" in [each.name for each in state.spaces()]:
        state.drop_space("try")
    if "fork-try" in [each.name for each in state.checkpoints()]:
        state.delete_checkpoint("fork-try")
    state.fork("try")


def _try_out(state: Client) -> None:
    fork = state.session(space="try")
    if fork.get("plan/1") != "tried":
        with fork.batch() as batch:
            batch.set("plan/1", "tried")
            batch.incr("spent", TRIED_BY)


STEPS = (
    Step("blob", _put, {}),
    Step("checkpoint", _checkpoint, PLAN),
    Step("stray", _stray, {**PLAN, **ASTRAY}),
    Step("undo", lambda state: state.undo(STRAY, "good", prefix="plan/"), PLAN),
    Step("spoil", _spoil, SPOILT),
    Step("restore", lambda state: state.restore("good", prefix="plan/"), PLAN),
    Step("fork", _fork, PLAN),
    Step("try", _try_out, PLAN),
    Step("merge", lambda state: state.merge_space("try"), TRIED),
    Step("delete", lambda state: state.delete("file"), TRIED),
)


class Steps:
    """One life of them. ``sent``: those that were begun; ``acknowledged``: those that were done."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.sent: list[str] = []
        self.acknowledged: set[str] = set()
        self.refused: dict[str, str] = {}

    def live(self, _agent: RawAgent, enter: Callable[[str], object]) -> bool:
        """Do them, in a process of their own, which would wait for a daemon that is gone. False: it is gone."""
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            self._do_all(writer)
        os.close(writer)
        said = b""
        try:
            while self._child.is_running():
                if not select([reader], [], [], POLL_S)[0]:
                    continue
                data = os.read(reader, 4096)
                if not data:
                    break
                *lines, said = (said + data).split(b"\n")
                for line in lines:
                    self._note(line.decode(), enter)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reader)
        return self._child.is_running()

    def _do_all(self, writer: int) -> None:
        """Never returns."""
        try:
            leave_to_parent()
            with Client(socket=self._child.socket, agent="steps", timeout=TIMEOUT_S) as state:
                for step in STEPS:
                    os.write(writer, f"begin {step.name}\n".encode())
                    try:
                        step.do(state)
                    except CrdtSyncError as error:
                        os.write(writer, f"refused {step.name} {error.message}\n".encode())
                        return
                    os.write(writer, f"end {step.name}\n".encode())
        finally:
            os._exit(0)

    def _note(self, line: str, enter: Callable[[str], object]) -> None:
        what, name, *why = line.split(" ", 2)
        if what == "begin":
            enter(name)
            self.sent.append(name)
        elif what == "end":
            self.acknowledged.add(name)
        else:
            self.refused[name] = why[0]

    def wrong(self, _agent: RawAgent) -> Iterator[str]:
        """How what is there differs from what was done; and from what it should be once all has been done."""
        yield from (f"the step {name} was refused: {why}" for name, why in self.refused.items())
        with Client(socket=self._child.socket, agent="steps", timeout=TIMEOUT_S) as state:
            try:
                yield from self._wrong_now(state)
                for step in STEPS:
                    if step.name not in self.acknowledged:
                        step.do(state)
                self.sent = [step.name for step in STEPS]
                self.acknowledged.update(self.sent)
                yield from self._wrong_now(state)
                state.merge_space("try")
                if state.get("spent") != BEFORE + TRIED_BY:
                    yield f"merged twice {state.get('spent')} are counted, and {BEFORE + TRIED_BY} were"
            except CrdtSyncError as error:
                yield f"{type(error).__name__}: {error.message}"

    def _wrong_now(self, state: Client) -> Iterator[str]:
        done = [step for step in STEPS if step.name in self.acknowledged]
        plans = [step.plan for step in STEPS[max(len(done) - 1, 0) : len(self.sent)]]
        plan = dict(state.items("plan/"))
        if plan not in (plans if done else [{}, *plans]):
            yield f"the plan is {plan}, and should be one of {plans}"
        blob = state.get_blob("file")
        found = None if blob is None else blob.read()
        is_due = bool(done) and "delete" not in self.sent
        if found not in (None, FILE) or (is_due and found is None) or (len(done) == len(STEPS) and found is not None):
            yield f"of the file {None if found is None else len(found)} bytes are there after {len(done)} steps"
        if "checkpoint" in self.acknowledged:
            checked = state.verify_checkpoint("good")
            if checked.damaged or dict(state.items("plan/", at="checkpoint:good")) != PLAN:
                yield f"the checkpoint is not whole: {checked}"
        if "fork" in self.acknowledged:
            fork = state.session(space="try")
            if fork.get("spent") not in (BEFORE, BEFORE + TRIED_BY) or fork.get("plan/2") != PLAN["plan/2"]:
                yield f"the fork has {fork.get('spent')} and {fork.get('plan/2')}"
