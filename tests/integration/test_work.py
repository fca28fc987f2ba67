"""Tasks over real daemons: each is done, once while hosts see each other, whoever dies."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crdtsync import AsyncClient, Client
from crdtsync.coordination import AsyncJob, GiveBack, Job, Lease, Task
from crdtsync.errors import InvalidRequest, TooLarge, VersionMismatch
from tests.harness import Cluster, Daemon, wait_until
from tests.harness.shell import Running, Shell
from tests.harness.workers import beside, in_threads

pytestmark = pytest.mark.integration


def states(state: Client, prefix: str = "tasks/") -> dict[str, str]:
    return {task.key: task.state for task in state.tasks(prefix)}


def one(state: Client, key: str) -> Task:
    (found,) = state.tasks(key)
    return found


def test_workers_of_two_hosts_do_each_task_once(pair: Cluster):
    boss = pair[0].client("boss")
    for n in range(40):
        boss.put_task(f"tasks/{n}", {"n": n})
    token = boss.last_token
    begun: Counter[str] = Counter()

    def work(daemon: Daemon) -> int:
        def square(job: Job) -> Any:
            begun[job.key] += 1
            return job.input["n"] ** 2

        with Client(daemon.socket, agent="worker", after=token) as state:
            return state.work("tasks/**", square).run(drain=True)

    counts = in_threads(work, [*pair, *pair])
    assert sum(counts) == 40
    assert set(begun.values()) == {1}
    found = boss.tasks("tasks/")
    assert {task.key: task.result for task in found} == {f"tasks/{n}": n * n for n in range(40)}
    assert all(task.attempts == 1 and task.worker.startswith("worker on host-") for task in found)


def test_a_task_fails_after_its_last_attempt_and_can_be_tried_again(daemon: Daemon):
    state = daemon.client("ann")
    state.put_task("tasks/1", attempts=2, backoff=0.01)
    with pytest.raises(VersionMismatch):
        state.put_task("tasks/1")
    attempts: list[int] = []

    def fail(job: Job) -> None:
        attempts.append(job.attempt)
        raise ValueError("no such file")

    worker = state.work("tasks/*", fail)
    assert worker.run(drain=True) == 0
    assert (attempts, worker.failed) == ([1, 2], 2)
    assert (one(state, "tasks/1").state, one(state, "tasks/1").error) == ("failed", "ValueError: no such file")
    assert state.retry_task("tasks/1")
    assert not state.retry_task("tasks/1")
    assert state.work("tasks/*", lambda job: job.attempt).run(drain=True) == 1
    assert one(state, "tasks/1").result == 1


def test_order_roles_and_dependencies(daemon: Daemon):
    state = daemon.client("ann")
    state.put_task("tasks/low", priority=-1)
    state.put_task("tasks/high", priority=5)
    state.put_task("tasks/last", priority=9, after=["tasks/low", "tasks/high"])
    state.put_task("tasks/later", priority=9, delay=0.5)
    state.put_task("tasks/never", after=["tasks/absent"])
    state.put_task("tasks/other", role="critic")
    done: list[str] = []
    state.work("tasks/**", lambda job: done.append(job.key)).run(drain=True)
    assert sorted(done) == ["tasks/high", "tasks/last", "tasks/later", "tasks/low"]
    assert done.index("tasks/high") < done.index("tasks/low") < done.index("tasks/last")
    assert state.work("tasks/**", lambda job: None, role="critic").run(drain=True) == 1
    assert {key for key, found in states(state).items() if found == "open"} == {"tasks/never"}
    with pytest.raises(InvalidRequest):
        state.put_task("tasks/none", attempts=0)


def test_the_task_of_a_worker_that_dies_is_taken_up_by_another(pair: Cluster, tmp_path: Path):
    boss = pair[0].client("boss")
    boss.put_task("tasks/1")
    program = (
        "from crdtsync import Client\nimport time\n"
        f"with Client({str(pair[0].socket)!r}, agent='mortal') as state:\n"
        "    state.work('tasks/**', lambda job: (print(job.key, flush=True), time.sleep(600))).run()\n"
    )
    with Running([sys.executable, "-c", program], dict(os.environ), tmp_path) as mortal:
        assert mortal.line() == "tasks/1\n"
        survivor = pair[1].client("survivor")
        wait_until(lambda: states(survivor) == {"tasks/1": "claimed"})
        worker = survivor.work("tasks/**", lambda job: job.attempt, ttl=30)
        working = beside(worker.run, drain=True)
        mortal.process.kill()
        assert working.result() == 1
    found = one(survivor, "tasks/1")
    assert (found.result, found.attempts, found.vanished) == (2, 2, 1)
    assert "  2 of 3, 1 lost  " in Shell(pair[1].socket, tmp_path).ok("tasks")


def test_hosts_that_were_cut_off_both_do_it_and_one_result_counts(parted: Cluster):
    states_ = [daemon.client(f"agent-{n}") for n, daemon in enumerate(parted)]
    parted.heal()
    states_[0].put_task("tasks/1", w=2)
    parted.cut(0, 1)
    parted.wait_parted(0, 1)
    for state in states_:
        assert state.work("tasks/**", lambda job: job.lease.node).run(drain=True) == 1
    parted.heal()
    wait_until(lambda: all(one(state, "tasks/1").crossed for state in states_))
    assert one(states_[0], "tasks/1") == one(states_[1], "tasks/1")
    found = one(states_[0], "tasks/1")
    assert sorted([found.result, *found.crossed]) == ["host-a", "host-b"]


def test_a_result_that_cannot_be_stored_is_a_failure(daemon: Daemon):
    state = daemon.client("ann")
    state.put_task("tasks/1", attempts=1)
    assert state.work("tasks/1", lambda job: "x" * 2_000_000).run(drain=True) == 0
    assert one(state, "tasks/1").error.startswith("TooLarge")


def test_the_commands(daemon: Daemon, tmp_path: Path):
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("task", "put", "tasks/1", '{"n": 3}', "--priority", "2")
    shell.ok("task", "put", "tasks/2", "null", "--after-task", "tasks/1", "--attempts", "1")
    assert shell("task", "put", "tasks/1", "1").status == 1
    shell.ok("task", "put", "later/1", "1", "--role", "critic", "--delay", "1h")
    (later,) = shell.json("tasks", "later/", "--json")
    shell.ok("task", "put", "later/2", "1", "--attempts", "1")
    assert later["waits"] == f"not before {later['not_before']}, for a worker of the role critic"
    assert "after tasks/1" in shell.ok("tasks", "tasks/")
    ends = "read task; case $task in *tasks/2*) exit 3;; esac; echo '{\"got\": 4}'"
    drained = shell("work", "tasks/**", "--drain", "-n", "2", "--", "sh", "-c", ends)
    assert (drained.status, drained.out) == (1, "tasks/1: done\ntasks/2: 'sh' failed with status 3\n")
    assert drained.err == "crdtsync: 1 task failed, 0 left that can never be done\n"
    rows = [json.loads(line) for line in shell.ok("tasks", "tasks/", "--json").splitlines()]
    assert [(row["state"], row["result"]) for row in rows] == [("done", {"got": 4}), ("failed", None)]
    assert "'sh' failed with status 3" in shell.ok("tasks")
    assert shell.ok("task", "retry", "tasks/2", "--json") == '{"key": "tasks/2"}'
    assert shell("task", "retry", "tasks/2").status == 1
    left = shell(
        "work", "later/2", "--drain", "--limit", "200ms", "--", "sh", "-c", "cat >/dev/null; echo 5; sleep 600 &"
    )
    assert left.out == "later/2: done\n", "what it left behind held its stdout, and was ended"
    assert [row["result"] for row in shell.json("tasks", "later/2", "--json")] == [5]
    limited = shell("work", "tasks/2", "--drain", "--limit", "200ms", "--", "sleep", "600")
    assert limited.out == "tasks/2: 'sleep' took longer than 0.2 s\n"
    shell.ok("task", "retry", "tasks/2")
    unreadable = shell("work", "tasks/2", "--drain", "--", "printf", "\\377")
    assert unreadable.out == "tasks/2: 'printf' printed what is not UTF-8: print it as JSON\n"


def test_a_worker_that_is_told_to_end_gives_its_task_back(daemon: Daemon, tmp_path: Path):
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("task", "put", "tasks/1", "1", "--attempts", "1")
    with shell.start("work", "tasks/**", "--", "sh", "-c", "echo begun >&2; exec sleep 600") as run:
        assert run.process.stderr is not None
        assert run.process.stderr.readline() == b"begun\n"
        run.process.send_signal(signal.SIGTERM)
        assert (run.line(), run.process.wait()) == ("tasks/1: given back\n", 0)
    found = one(daemon.client("ann"), "tasks/1")
    assert (found.state, found.attempts, found.error) == ("open", 0, "")
    assert shell.ok("work", "tasks/**", "--drain", "--", "true") == "tasks/1: done"


@pytest.fixture
def heard() -> Iterator[None]:
    """Whoever runs the tests under ``nohup`` has them ignore the end of the terminal, and so what they start."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_the_terminal_says_goes_to_the_worker_which_ends_all_that_its_command_has_started(
    daemon: Daemon, tmp_path: Path, number: signal.Signals
):
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("task", "put", "tasks/1", "1", "--attempts", "1")
    script = "echo $$ >&2; sleep 600; echo late"  # the shell waits for another process, which holds its stdout open
    with shell.start("work", "tasks/**", "--", "sh", "-c", script) as run:
        assert run.process.stderr is not None
        command = int(run.process.stderr.readline())
        assert os.getsid(command) == command, "it has no terminal to wait for"
        run.process.send_signal(number)
        assert (run.line(), run.process.wait()) == ("tasks/1: given back\n", 0)


def test_a_task_whose_claim_is_taken_away_is_given_back_though_its_command_fails(daemon: Daemon, tmp_path: Path):
    state = daemon.client("ann")
    state.put_task("tasks/1", attempts=1)
    shell = Shell(daemon.socket, tmp_path)
    with shell.start("work", "tasks/**", "--", "sh", "-c", "echo begun >&2; exec sleep 600") as run:
        assert run.process.stderr is not None
        assert run.process.stderr.readline() == b"begun\n"
        assert state.release("tasks/1")
        assert run.line() == "tasks/1: given back\n"
        assert run.process.stderr.readline() == b"begun\n", "it is open again, and the attempt did not count"


def test_an_attempt_that_somebody_else_has_overtaken_is_told(daemon: Daemon, tmp_path: Path):
    state, shell = daemon.client("ann"), Shell(daemon.socket, tmp_path)
    state.put_task("tasks/1")
    os.mkfifo(tmp_path / "pipe")
    with shell.start("work", "tasks/**", "--", "sh", "-c", f"echo begun >&2; cat {tmp_path}/pipe") as run:
        assert run.process.stderr is not None
        assert run.process.stderr.readline() == b"begun\n"
        state.set("tasks/1", one(state, "tasks/1").record(state="done", worker="bob on host-b", fence=2**60))
        (tmp_path / "pipe").write_text("late")
        assert run.line() == "tasks/1: lost: it is done by bob on host-b\n"
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait() == 0
    assert one(state, "tasks/1").result is None


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2)")
@pytest.mark.parametrize("command", [["work", "tasks/**"], ["claim", "tasks/1"]], ids=["work", "claim"])
def test_the_command_of_who_is_killed_is_told_to_end(daemon: Daemon, tmp_path: Path, command: list[str]):
    daemon.client("ann").put_task("tasks/1")
    shell = Shell(daemon.socket, tmp_path)
    script = f"trap 'echo ended > {tmp_path}/ended; exit' TERM; echo begun >&2; while :; do sleep 0.05; done"
    with shell.start(*command, "--", "sh", "-c", script) as run:
        assert run.process.stderr is not None
        assert run.process.stderr.readline() == b"begun\n"
        run.process.kill()
        wait_until((tmp_path / "ended").exists)


def test_a_command_that_is_not_there_costs_no_attempt(daemon: Daemon, tmp_path: Path):
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("task", "put", "tasks/1", "1")
    for command in (["work", "tasks/**", "--drain"], ["on", "tasks/**", "--role", "critic"]):
        refused = shell(*command, "--", "no-such-command")
        assert (refused.status, refused.err) == (127, "crdtsync: 'no-such-command' was not found\n")
        assert shell(*command, "--", str(tmp_path)).status == 126
    assert one(daemon.client("ann"), "tasks/1").attempts == 0


def test_results_are_stored_though_nobody_reads_what_is_printed(daemon: Daemon, tmp_path: Path):
    state = daemon.client("ann")
    for n in range(3):
        state.put_task(f"tasks/{n}")
    shell = Shell(daemon.socket, tmp_path)
    with shell.start("work", "tasks/**", "--", "echo", "7") as run:
        assert run.process.stdout is not None
        run.process.stdout.close()
        assert run.process.wait() == 141
    found = state.tasks("tasks/")
    assert {task.state for task in found} <= {"done", "open"}
    assert [task.result for task in found if task.state == "done"] == [7]


def test_tasks_that_can_never_be_done_are_named_at_the_end(daemon: Daemon, tmp_path: Path):
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("task", "put", "tasks/1", "1", "--after-task", "tasks/2")
    shell.ok("task", "put", "tasks/2", "1", "--after-task", "tasks/1")
    shell.ok("task", "put", "tasks/3", "1", "--after-task", "tasks/absent")
    shell.ok("task", "put", "before/1", "1")
    shell.ok("task", "put", "tasks/4", "1", "--after-task", "before/1")
    assert "before/1 is not there" not in shell.ok("tasks", "tasks/4")
    drained = shell("work", "tasks/**", "--drain", "--", "true")
    assert (drained.status, drained.out) == (1, "")
    assert drained.err.splitlines() == [
        "crdtsync: tasks/1 is left: it waits for itself",
        "crdtsync: tasks/2 is left: it waits for itself",
        "crdtsync: tasks/3 is left: tasks/absent is not there",
        "crdtsync: 0 tasks failed, 3 left that can never be done",
    ]


def test_a_claim_that_is_over_before_the_handler_begins_costs_no_attempt(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
):
    state = daemon.client("ann")
    state.put_task("tasks/1", backoff=3600)
    held = iter([False])  # as where the process was starved between its claim and this
    monkeypatch.setattr(Lease, "is_held", property(lambda lease: lease._version is not None and next(held, True)))
    begun: list[int] = []
    ended: list[str] = []
    worker = state.work("tasks/*", lambda job: begun.append(job.attempt))
    worker.on_end = lambda task: ended.append(task.state)
    assert worker.run(drain=True) == 1
    assert (begun, ended) == ([1], ["open", "done"])


def test_who_gives_a_task_back_goes_on_to_others_first_and_who_ends_leaves_it_to_all(daemon: Daemon):
    state = daemon.client("ann")
    state.put_task("tasks/first", priority=1, backoff=3600)
    state.put_task("tasks/last", backoff=3600)
    begun: list[str] = []

    def give_back(job: Job) -> None:
        begun.append(job.key)
        if begun != ["tasks/first"]:
            worker.stop()
        raise GiveBack

    worker = state.work("tasks/*", give_back)
    assert (worker.run(), worker.failed, begun) == (0, 0, ["tasks/first", "tasks/last"])
    assert [(task.state, task.attempts) for task in state.tasks("tasks/")] == [("open", 0)] * 2

    def take(job: Job) -> str:
        other.stop()
        return job.key

    other = state.work("tasks/*", take)
    assert other.run() == 1
    assert one(state, "tasks/last").result == "tasks/last"


async def no_function() -> None:
    """Is a coroutine function."""


def test_a_task_that_no_worker_could_read_is_refused(daemon: Daemon):
    state = daemon.client("ann")
    wrong: list[dict[str, Any]] = [
        {"priority": "5"}, {"priority": True}, {"attempts": 1.5}, {"attempts": 0}, {"role": 5}, {"after": [5]},
        {"after": "tasks/1"},
    ]  # fmt: skip
    for options in wrong:
        with pytest.raises(InvalidRequest):
            state.put_task("tasks/1", 1, **options)


def test_a_task_has_room_for_the_error_of_its_worker(daemon: Daemon):
    state = daemon.client("ann")
    with pytest.raises(TooLarge):
        state.put_task("tasks/1", "x" * 1_047_500)
    state.put_task("tasks/1", "x" * 1_039_000, attempts=1)

    def fail(_: Job) -> None:
        raise ValueError("\U0001f600" * 5000)

    assert state.work("tasks/*", fail).run(drain=True) == 0
    assert one(state, "tasks/1").state == "failed"


def test_one_key_may_stand_for_a_list_of_them(daemon: Daemon):
    state = daemon.client("ann")
    state.put_task("tasks/2", 1, after="tasks/1")
    assert one(state, "tasks/2").after == ("tasks/1",)


def test_what_is_no_handler_is_refused_at_once(daemon: Daemon):
    state = daemon.client("ann")
    wrong: tuple[Any, ...] = (None, 5, no_function)
    for handler in wrong:
        with pytest.raises(InvalidRequest):
            state.work("tasks/**", handler)
        with pytest.raises(InvalidRequest):
            state.on("tasks/**", handler, role="critic")


async def test_the_same_for_asyncio(daemon: Daemon):
    async with AsyncClient(daemon.socket, agent="ann") as state:
        await state.put_task("tasks/1", {"n": 2}, priority=3)

        async def handler(job: AsyncJob) -> int:
            job.lease.check()
            return int(job.input["n"]) + 1

        assert await state.work("tasks/1", handler).run(drain=True) == 1
        (found,) = await state.tasks()
        assert (found.state, found.result, found.priority) == ("done", 3, 3)
