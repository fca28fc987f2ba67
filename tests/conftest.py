"""For all tests: hypothesis judges what is found, not how fast this machine is; and who boots a machine is alone."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import PROFILES

for profile, count in PROFILES.items():
    settings.register_profile(profile, max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")

# Programs under test are to hand on by themselves what somebody waits for.
os.environ.pop("PYTHONUNBUFFERED", None)

# Ignored it is where a shell that is no terminal's starts the tests beside itself, and every process started here would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``./dev test --rewrite``: take what comes out as what is expected, in the files that hold whole outputs."""
    parser.addoption("--rewrite", action="store_true", help="write expected transcripts anew")


@pytest.fixture
def same_as_file(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``same_as_file("sync.txt", text)``: the file beside the test has to hold this text."""

    def check(name: str, text: str) -> None:
        file = request.path.parent / name
        if request.config.getoption("--rewrite"):
            file.write_text(text)
        assert text == file.read_text(), f"{name} differs: ./dev test --rewrite writes it anew"

    return check


def pytest_collection_finish() -> None:
    """What has been collected stays to the end, so no search for garbage goes through it."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Twice as many as cores: with half as many again, a fifth of the time is idle where daemons are tested.

    The tests of one booted machine follow each other: run by themselves, they must not be shared out. Whoever says how
    many there shall be gets what xdist makes of it.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") or config.option.numprocesses == "logical":
        return None
    is_of_one_machine = bool(config.args) and all("test_boot" in argument for argument in config.args)
    return 1 if is_of_one_machine else 2 * len(os.sched_getaffinity(0))
