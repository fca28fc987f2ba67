"""Real Chromium, from the distribution's packages; a test that cannot have it is skipped, and says so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from benchmarks.rivals.install import InstallError, install_programs

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Without these it asks servers of its maker for this and that, which are not reachable from a test.
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def chromium(*options: str) -> Iterator[Browser]:
    """A browser, without a window."""
    from playwright.sync_api import sync_playwright  # starts a driver of its own

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_program(), args=[*QUIET, *options])
        try:
            yield browser
        finally:
            browser.close()


def _program() -> str:
    with suppress(InstallError, OSError):
        install_programs({"chromium"})
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("needs Chromium, or root and apt-get to install it: the page NOT tested in a browser")
    return found
