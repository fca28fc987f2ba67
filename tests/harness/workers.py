"""What tests run in processes of their own: importable there, with one argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from crdtsync import Client

A = TypeVar("A")
R = TypeVar("R")
WORK_TIMEOUT_S = 60.0


def in_processes(work: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
    """The results of ``work`` on each argument, each in a process of its own, all at once."""
    with ProcessPoolExecutor(len(arguments), mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, arguments, timeout=WORK_TIMEOUT_S))


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
