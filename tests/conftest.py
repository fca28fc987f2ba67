"""For all tests: hypothesis judges what is found, not how fast this machine is; and who boots a machine is alone."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import PROFILES

for profile, count in PROFILES.items():
    settings.register_profile(profile, max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")

# Ignored it is where a shell that is no terminal's starts the tests beside itself, and every process started here would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """The tests of one booted machine follow each other: run by themselves, they must not be shared out."""
    is_of_one_machine = all("test_boot" in argument for argument in config.args)
    return 1 if config.args and is_of_one_machine else None
