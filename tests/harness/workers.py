"""What tests run beside themselves, in threads, or in processes of their own: importable there, with one argument.

A test that fails does not wait for its threads. An executor of the standard library does: a test whose thread waits
for what never comes then hangs for good, instead of failing.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from threading import Thread
from typing import ParamSpec, TypeVar

from crdtsync import Client

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
WORK_TIMEOUT_S = 60.0
_PROCESSES = get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])  # which imports the client once, and not in each of them


def beside(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Run ``work`` in a thread of its own; the future has its result, or what it raised."""
    outcome: Future[R] = Future()

    def run() -> None:
        try:
            outcome.set_result(work(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - who asks for the result gets it
            outcome.set_exception(error)

    Thread(target=run, daemon=True).start()
    return outcome


def in_threads(work: Callable[[A], R], arguments: Iterable[A]) -> list[R]:
    """The results of ``work`` on each argument, each in a thread of its own, all at once."""
    outcomes = [beside(work, argument) for argument in arguments]
    return [outcome.result() for outcome in outcomes]


def in_processes(work: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
    """The results of ``work`` on each argument, each in a process of its own, all at once."""
    with ProcessPoolExecutor(len(arguments), mp_context=_PROCESSES) as pool:
        return list(pool.map(work, arguments, timeout=WORK_TIMEOUT_S))


def in_a_child(check: Callable[[], object]) -> None:
    """Do it in a forked child, which then ends, however that went."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(WORK_TIMEOUT_S))
            check()
            status = 0
        except BaseException:  # noqa: BLE001 - printed, for the parent cannot catch it
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def increments(job: tuple[str, str, int]) -> int:
    """``update`` a number so often: ``(socket, key, times)``."""
    socket, key, times = job
    with Client(socket, agent="incrementer") as client:
        for _ in range(times):
            client.update(key, lambda number: number + 1, default=0, attempts=100)
    return times


def appends(job: tuple[str, str, str, int]) -> list[int]:
    """Append so often, and return the lengths that were handed back: ``(socket, key, name, times)``."""
    socket, key, name, times = job
    with Client(socket, agent=name) as client:
        return [client.append(key, [name, n]) for n in range(times)]
