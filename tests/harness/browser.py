"""Real Chromium, from the distribution's packages; a test that cannot have it is skipped, and says so."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Without these it asks servers of its maker for this and that, which are not reachable from a test.
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
INSTALL_TIMEOUT_S = 240


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, without a window."""
    from playwright.sync_api import sync_playwright  # starts a driver of its own

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_program(), args=QUIET)
        try:
            yield browser
        finally:
            browser.close()


def _program() -> str:
    found = shutil.which("chromium")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with (Path(tempfile.gettempdir()) / "crdtsync-test-apt.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # other workers wait for the same
            for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]):
                environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
                subprocess.run(command, env=environment, capture_output=True, timeout=INSTALL_TIMEOUT_S, check=False)
        found = shutil.which("chromium")
    if found is None:
        pytest.skip("needs Chromium, or root and apt-get to install it: the page NOT tested in a browser")
    return found
