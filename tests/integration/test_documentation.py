"""README and tutorial, followed from beginning to end on a fleet that ``./dev up`` starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtsync import Client
from crdtsync.errors import CrdtSyncError
from tests.harness import wait_until
from tests.harness.page import Reader
from tests.integration.test_cli import PAGES

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Path]:
    """Three daemons, as ``./dev up --dir`` starts them."""
    place = tmp_path / "trial"
    fleet = subprocess.Popen(
        [sys.executable, "-m", "crdtsyncd.devfleet", "--dir", str(place)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def is_up() -> bool:
        assert fleet.poll() is None, "the fleet has ended"
        try:
            with Client(place / "1.sock", agent="fixture") as state:
                return sum(peer["state"] == "connected" for peer in state.status()["peers"]) == 2
        except (CrdtSyncError, OSError):
            return False

    try:
        wait_until(is_up, timeout_s=100, what="the fleet is up")
        yield place
    finally:
        fleet.send_signal(signal.SIGINT)
        fleet.communicate(timeout=30)


@pytest.mark.slow
@pytest.mark.parametrize("name, steps_min", [("README.md", 2), ("docs/tutorial.md", 35)], ids=["readme", "tutorial"])
def test_a_page_does_what_it_says(trial: Path, tmp_path: Path, name: str, steps_min: int) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CRDTSYNC_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with Reader(tmp_path, environment, {"/tmp/trial": str(trial)}) as reader:
        assert reader.follow((ROOT / name).read_text()) >= steps_min


def test_every_page_with_console_blocks_is_run_somewhere() -> None:
    run = {"docs/tutorial.md", *(str(page.relative_to(ROOT)) for page in PAGES)}
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {str(page.relative_to(ROOT)) for page in pages if "\n```console\n" in page.read_text()}
    assert found == run
